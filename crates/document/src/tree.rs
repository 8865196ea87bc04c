//! A document as a tree in which every value has its place.

use std::sync::Arc;

/// A line and a column in the current file, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A value and its start.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its start; for a missing value, the start of its key.
    pub at: Mark,
    /// Its contents.
    pub value: Value,
}

/// The contents of a node.
#[derive(Clone, Debug)]
pub enum Value {
    /// A single value.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in text order, without duplicate keys.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its start.
    pub at: Mark,
    /// The key itself.
    pub text: Arc<str>,
}

/// Text, not yet interpreted as a number or another type.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// The value.
    pub text: Arc<str>,
    /// Unquoted and not a block scalar: may be a number, a boolean or null.
    pub plain: bool,
    /// Every character of `text` appears unescaped in the file, on one line, so that places inside
    /// it can be computed.
    pub(super) verbatim: bool,
}

impl Node {
    /// A missing value.
    pub(super) fn nothing(at: Mark) -> Self {
        let scalar = Scalar { text: "".into(), plain: true, verbatim: false };
        Self { at, value: Value::Scalar(scalar) }
    }

    /// Whether the value is missing, `null` or `~`.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => scalar.is_nothing(),
            Value::List(_) | Value::Map(_) => false,
        }
    }
}

impl Scalar {
    /// Whether the value is missing, `null` or `~` (YAML 1.2.2, 10.3.2).
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }

    /// An unquoted `true` or `false` (YAML 1.2.2, 10.3.2).
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match &*self.text {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }
}

impl Mark {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place that is this many characters to the right.
    #[must_use]
    pub fn right(self, characters: usize) -> Self {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        Self { line: self.line, column: self.column.saturating_add(characters) }
    }
}
