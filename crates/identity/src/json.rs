//! A strict JSON parser (RFC 8259): it rejects duplicate member names, at every level.
//!
//! `serde_json` keeps the last of two members with the same name, and other programs keep the
//! first, so a token could have two meanings (RFC 8725, 2.4). RFC 7519, 4 and RFC 7515, 4 allow
//! rejecting it.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of values and member names: more than any key set of 256 keys or token of 16 KiB
/// needs. `{"a":0}` takes 640 bytes of memory: without this limit, a key set of 1 MiB would take 80
/// MiB.
const MAX_VALUES: u32 = 16_384;

/// Parses a JSON text.
///
/// # Errors
/// If the text is not JSON, is nested more than 128 levels deep (the limit of `serde_json`), has
/// too many values, or has a duplicate name. The error shows the place, never the content.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let budget = Cell::new(MAX_VALUES);
    let value = StrictValue { budget: &budget }.deserialize(&mut source)?;
    source.end()?;
    Ok(value)
}

/// Parses a value.
#[derive(Clone, Copy)]
struct StrictValue<'a> {
    /// How many more values the text may have.
    budget: &'a Cell<u32>,
}

impl StrictValue<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        let budget = self.budget.get().checked_sub(1);
        self.budget.set(budget.ok_or_else(|| E::custom("too many values"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.count()?;
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.count()?;
            let value = members.next_value_seed(self)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a duplicate member name"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_json_is_parsed_like_serde_json_does() {
        let text = br#" {"a":[1,-2,2.5,1e3,true,null,"\u00e9"],"b":{"c":{}}} "#;
        assert_eq!(parse(text).unwrap(), serde_json::from_slice::<Value>(text).unwrap());
    }

    #[test]
    fn a_duplicate_name_is_rejected_at_every_level() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"b":{"a":1,"a":2}}"#,
            r#"[{"a":1,"a":2}]"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        let texts: [&[u8]; 12] = [
            b"",
            b" ",
            b"{",
            b"{}x",
            b"{} {}",
            b"{a:1}",
            b"{\"a\":NaN}",
            b"[1,]",
            b"\"\xff\"",
            b"\"\\ud800\"",
            b"1e999",
            b"\xef\xbb\xbf{}",
        ];
        for text in texts {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_nested_too_deep_is_rejected() {
        let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
        assert!(parse(nested(100).as_bytes()).is_ok());
        assert!(parse(nested(200).as_bytes()).is_err());
        assert!(parse(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn more_than_16384_values_are_rejected_at_every_level() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(parse(list(16_384).as_bytes()).is_ok());
        assert!(parse(list(16_385).as_bytes()).is_err());
        let objects = |count: usize| format!("[{}{{\"a\":0}}]", "{\"a\":0},".repeat(count - 1));
        assert!(parse(objects(8_192).as_bytes()).is_ok());
        assert!(parse(objects(8_193).as_bytes()).is_err());
    }

    #[test]
    fn an_error_does_not_show_the_content() {
        let error = parse(br#"{"k":"hunter2","k":"hunter2"}"#).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
