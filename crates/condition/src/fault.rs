//! Why an expression has no value.

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A variable or a member is not there.
    Absent,
    /// The variable was not passed to the evaluation: it may be there, and have any value.
    Unknown,
    /// A header has several lines, or a parameter of the query several values.
    Repeated,
    /// A value has another type.
    Type,
    /// A value is malformed, such as a text that is not UTF-8.
    Malformed,
    /// The lists and texts are too long: see [`crate::MAX_STEPS`].
    TooLong,
}
