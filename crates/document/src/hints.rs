//! What to write instead of keys and shapes that are often confused with those of a format.

/// The hints of a format. Each function gets what messages call the mapping or value, such as `a rule`.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// What to write instead of a key that other systems use.
    pub key: fn(mapping: &str, key: &str) -> Option<KeyHint>,
    /// How to write a value that must be `expected` (such as a list) and is not.
    pub shape: fn(value: &str, expected: &str) -> Option<&'static str>,
}

/// What to write instead of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHint {
    /// The key that was meant. `None` if there is no such key.
    pub key: Option<&'static str>,
    /// The text of the help.
    pub help: String,
}

impl KeyHint {
    /// Another key.
    #[must_use]
    pub fn key(key: &'static str) -> Self {
        Self { key: Some(key), help: format!("did you mean `{key}`?") }
    }

    /// Another key, in the way that the help shows.
    #[must_use]
    pub fn key_as(key: &'static str, help: &str) -> Self {
        Self { key: Some(key), help: help.to_owned() }
    }

    /// No key: the help says what to do.
    #[must_use]
    pub fn advice(help: &str) -> Self {
        Self { key: None, help: help.to_owned() }
    }
}

impl Hints {
    /// A format without hints of its own: a similar key is still suggested.
    pub const NONE: Self = Self { key: |_, _| None, shape: |_, _| None };
}
