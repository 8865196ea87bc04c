//! Encodes dynamic metadata: a `google.protobuf.Struct`.

use crate::wire::{delimited_length, start};

/// A `google.protobuf.Struct`, encoded key by key.
#[derive(Debug, Default)]
pub struct Metadata(Vec<u8>);

/// Maximum bytes of each buffer that an encoder keeps. Most answers take some hundred bytes; a
/// client can cause a long answer.
pub(crate) const MAX_KEPT: usize = 16 << 10;

// Field keys: the field number and, in the low three bits, the wire type.
const STRUCT_FIELDS: u8 = 1 << 3 | 2; // Struct
const KEY: u8 = 1 << 3 | 2; // an entry of Struct.fields
const VALUE: u8 = 2 << 3 | 2; // an entry of Struct.fields
const NUMBER_VALUE: u8 = 2 << 3 | 1; // Value
const STRING_VALUE: u8 = 3 << 3 | 2; // Value
const BOOL_VALUE: u8 = 4 << 3; // Value
const STRUCT_VALUE: u8 = 5 << 3 | 2; // Value

impl Metadata {
    /// Adds a text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.delimited(key, STRING_VALUE, value.as_bytes());
    }

    /// Adds a number.
    pub fn number(&mut self, key: &str, value: f64) {
        self.start_entry(key, 1 + size_of::<f64>());
        self.0.push(NUMBER_VALUE);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a boolean.
    pub fn boolean(&mut self, key: &str, value: bool) {
        self.start_entry(key, 2);
        self.0.extend_from_slice(&[BOOL_VALUE, u8::from(value)]);
    }

    /// Adds values with keys of their own.
    pub fn fields(&mut self, key: &str, value: &Self) {
        self.delimited(key, STRUCT_VALUE, &value.0);
    }

    /// The encoded message.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Removes all keys, and keeps the buffer unless it is large.
    pub fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(MAX_KEPT);
    }

    fn delimited(&mut self, key: &str, field: u8, content: &[u8]) {
        self.start_entry(key, delimited_length(content.len()));
        start(&mut self.0, field, content.len());
        self.0.extend_from_slice(content);
    }

    /// Writes a key, and the start of its `Value` of this length.
    fn start_entry(&mut self, key: &str, length: usize) {
        let entry_length = delimited_length(key.len()) + delimited_length(length);
        start(&mut self.0, STRUCT_FIELDS, entry_length);
        start(&mut self.0, KEY, key.len());
        self.0.extend_from_slice(key.as_bytes());
        start(&mut self.0, VALUE, length);
    }
}
