//! JSON, read without copying and without building values.
//!
//! This reader is stricter than a node, which also takes comments, UTF-16 and UTF-32. If this
//! reader accepts a text, a node reads the same values in it.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::problem::Problem;

/// The most objects and arrays within each other. A node takes 1,000; no query comes near.
const MAX_DEPTH: usize = 100;

/// A reader at a place in a JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Json<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

/// The kind of a value, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Object,
    Array,
    String,
    Null,
    /// A number, `true` or `false`.
    Other,
}

impl Value {
    pub(crate) const fn is_scalar(self) -> bool {
        matches!(self, Self::String | Self::Null | Self::Other)
    }
}

impl<'a> Json<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Reads the whole of `text` as one value, with `read`.
    pub(crate) fn whole<T>(
        text: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut json = Self::new(text);
        let value = read(&mut json)?;
        json.skip_space();
        if json.at == text.len() { Ok(value) } else { Err(INVALID) }
    }

    /// The kind of the next value, which is not read.
    pub(crate) fn peek(&mut self) -> Result<Value, Problem> {
        self.skip_space();
        Ok(match self.byte()? {
            b'{' => Value::Object,
            b'[' => Value::Array,
            b'"' => Value::String,
            b'n' => Value::Null,
            _ => Value::Other,
        })
    }

    /// Reads an object. `member` is given each key and must read its value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.list(b'{', b'}', |json| {
            let key = json.string()?;
            json.expect(b':')?;
            member(json, key)
        })
    }

    /// Reads an array. `item` must read each value of it.
    pub(crate) fn array(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.list(b'[', b']', item)
    }

    /// Reads a value, or each value of an array.
    pub(crate) fn value_or_array(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if self.peek()? == Value::Array { self.array(item) } else { item(self) }
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Problem> {
        let (raw, has_escapes) = self.raw_string()?;
        if has_escapes {
            return serde_json::from_slice(raw).map(Cow::Owned).map_err(|_| INVALID);
        }
        let text =
            raw.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).ok_or(INVALID)?;
        std::str::from_utf8(text).map(Cow::Borrowed).map_err(|_| INVALID)
    }

    /// Reads a string, or `null` as `None`.
    pub(crate) fn optional_string(&mut self) -> Result<Option<Cow<'a, str>>, Problem> {
        if self.peek()? == Value::Null {
            self.ignore().map(|()| None)
        } else {
            self.string().map(Some)
        }
    }

    /// Reads the name of an ingest or search pipeline. Returns whether there is a pipeline.
    pub(crate) fn names_pipeline(&mut self) -> Result<bool, Problem> {
        Ok(self.optional_string()?.is_some_and(|name| name != "_none"))
    }

    /// Reads a name, or an array of names. Returns the names joined with commas. An empty name is
    /// an error. So is a name with a comma: a node does not split it.
    pub(crate) fn name_or_array(&mut self) -> Result<Cow<'a, str>, Problem> {
        let mut names = Vec::new();
        self.value_or_array(|json| {
            let name = json.string()?;
            if name.is_empty() || name.contains(',') {
                return Err(Problem::Invalid("its body names an index that cannot exist"));
            }
            names.push(name);
            Ok(())
        })?;
        Ok(Cow::Owned(names.join(",")))
    }

    /// Reads an array of names, or a string of names separated by commas. A node splits such a
    /// string. Returns the names joined with commas.
    pub(crate) fn name_list_or_array(&mut self) -> Result<Cow<'a, str>, Problem> {
        if self.peek()? == Value::Array { self.name_or_array() } else { self.string() }
    }

    /// Reads a value that is neither an object nor an array.
    pub(crate) fn scalar(&mut self) -> Result<(), Problem> {
        if self.peek()?.is_scalar() {
            self.ignore()
        } else {
            Err(Problem::Invalid("its body has an object or array in place of a value"))
        }
    }

    /// Reads any value.
    pub(crate) fn ignore(&mut self) -> Result<(), Problem> {
        self.raw_value().map(drop)
    }

    /// Reads any value. Returns it as it is written.
    pub(crate) fn raw_value(&mut self) -> Result<&'a [u8], Problem> {
        self.skip_space();
        let start = self.at;
        match self.peek()? {
            Value::Object => self.list(b'{', b'}', |json| {
                json.skip_space();
                json.raw_string()?;
                json.expect(b':')?;
                json.ignore()
            })?,
            Value::Array => self.array(Self::ignore)?,
            Value::String => self.raw_string().map(drop)?,
            Value::Null | Value::Other => self.literal()?,
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn list(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.expect(open)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::Invalid("its body has too many objects within each other"));
        }
        self.skip_space();
        if self.byte()? != close {
            loop {
                item(self)?;
                self.skip_space();
                match self.byte()? {
                    b',' => self.at += 1,
                    byte if byte == close => break,
                    _ => return Err(INVALID),
                }
                self.skip_space();
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string. Returns it with its quotes, and whether it has escapes. A control character
    /// in it is an error.
    fn raw_string(&mut self) -> Result<(&'a [u8], bool), Problem> {
        self.skip_space();
        let (start, mut has_escapes) = (self.at, false);
        self.expect(b'"')?;
        loop {
            let text = self.text.get(self.at..).ok_or(INVALID)?;
            // Most strings have no escape, so this finds their end.
            self.at += text
                .iter()
                .position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))
                .ok_or(INVALID)?;
            match self.byte()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => return Err(INVALID),
            }
            has_escapes = true;
        }
        self.at += 1;
        Ok((self.text.get(start..self.at).ok_or(INVALID)?, has_escapes))
    }

    /// Reads `null`, `true`, `false` or a number.
    fn literal(&mut self) -> Result<(), Problem> {
        let text = self.text.get(self.at..).unwrap_or_default();
        let word = text
            .split(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
            .next()
            .unwrap_or_default();
        self.at += word.len();
        serde_json::from_slice::<IgnoredAny>(word).map(drop).map_err(|_| INVALID)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Problem> {
        self.skip_space();
        if self.byte()? != wanted {
            return Err(INVALID);
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn byte(&self) -> Result<u8, Problem> {
        self.text.get(self.at).copied().ok_or(INVALID)
    }
}

/// Sets the value of a key. Twice the same key is an error: readers differ about which is used.
pub(crate) fn set_once<T>(slot: &mut Option<T>, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        Some(_) => Err(Problem::Invalid("its body has a key twice")),
        None => Ok(()),
    }
}

const INVALID: Problem = Problem::Invalid("its body is not plain JSON in UTF-8");

/// The lines of a body. Each ends with a line feed.
#[derive(Debug)]
pub(crate) struct Lines<'a>(pub(crate) &'a [u8]);

impl<'a> Lines<'a> {
    /// The next line, without its line feed.
    pub(crate) fn next(&mut self) -> Result<Option<&'a [u8]>, Problem> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', self.0)
            .ok_or(Problem::Invalid("its body does not end with a line feed"))?;
        let (line, after) = self.0.split_at_checked(end).unwrap_or_default();
        self.0 = after.get(1..).unwrap_or_default();
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(text: &str) -> bool {
        Json::whole(text.as_bytes(), |json| json.raw_value().map(drop)).is_ok()
    }

    #[test]
    fn only_plain_json_is_read() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for text in [
            "{}",
            " [1, -0.5e+3, \"a\\\"\", null, true, {\"a\": [ ] } ] ",
            "\"\\u00e4\"",
            "0",
            &deep(100),
        ] {
            assert!(is_valid(text), "{text}");
        }
        for text in [
            "", " ", "{", "{]", "[1,]", "{,}", "{\"a\"}", "{\"a\":}", "{'a':1}", "{a:1}", "[01]",
            "[1.]", "[.5]", "[+1]", "[NaN]", "[1e]", "{}{}", "{} x", "/**/{}", "[1]//", "#\n{}",
            "\"\n\"", "\"\0\"", "{\0\"", "nul", "\"a", "\"\\",
        ] {
            assert!(!is_valid(text), "{text}");
        }
        assert!(!is_valid("\u{feff}{}") && !is_valid(&deep(101)));
    }

    #[test]
    fn a_string_is_unescaped() {
        let read = |text: &str| Json::new(text.as_bytes()).string().map(Cow::into_owned);
        for (text, wanted) in [
            (r#""a""#, "a"),
            (r#""\u0061\n\/""#, "a\n/"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\"\\""#, "\"\\"),
        ] {
            assert_eq!(read(text), Ok(wanted.to_owned()), "{text}");
        }
        for text in [
            r#""\ud83d""#,
            r#""\ud83dx""#,
            r#""\ude00""#,
            r#""\u+061""#,
            r#""\ud83d\u+e00""#,
            r#""\x""#,
            r#""\u12"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_utf_8_is_not_a_string() {
        assert!(Json::new(b"\"\xff\"").string().is_err());
        assert!(Json::new(b"{\0\"\0}\0").raw_value().is_err());
    }
}
