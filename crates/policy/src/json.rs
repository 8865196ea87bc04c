//! Converts a YAML tree to JSON, by YAML's core schema (YAML 1.2.2, 10.3).

use document::{Node, Reader, Scalar, Value};
use serde_json::{Map, Number, Value as Json};

/// A tree as JSON; `None` if it has a number without an equivalent in JSON, which is reported.
pub(crate) fn from_yaml(reader: &mut Reader, node: &Node) -> Option<Json> {
    match &node.value {
        Value::Scalar(scalar) => {
            let json = from_scalar(scalar);
            if json.is_none() {
                let help = "put it in quotes, or write it in decimal";
                reader.error_help(node.at, "a number that JSON does not have", help);
            }
            json
        }
        Value::List(items) => {
            let items: Option<Vec<Json>> =
                items.iter().map(|item| from_yaml(reader, item)).collect();
            items.map(Json::Array)
        }
        Value::Map(entries) => {
            let mut object = Map::new();
            for (key, item) in entries {
                object.insert(key.text.to_string(), from_yaml(reader, item)?);
            }
            Some(Json::Object(object))
        }
    }
}

fn from_scalar(scalar: &Scalar) -> Option<Json> {
    let text = &*scalar.text;
    if scalar.is_nothing() {
        return Some(Json::Null);
    }
    if let Some(boolean) = scalar.boolean() {
        return Some(Json::Bool(boolean));
    }
    if scalar.plain {
        if let Ok(number) = text.parse::<i64>() {
            return Some(number.into());
        }
        if let Ok(number) = text.parse::<u64>() {
            return Some(number.into());
        }
        // `f64` also parses `inf` and `nan`, which are text in YAML: there they begin with a dot.
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if unsigned.starts_with(|first: char| first == '.' || first.is_ascii_digit())
            && let Ok(number) = text.parse::<f64>()
        {
            return Number::from_f64(number).map(Json::Number);
        }
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0o"));
        let has_radix = digits.is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok());
        if has_radix || [".inf", ".nan"].contains(&&*unsigned.to_ascii_lowercase()) {
            return None;
        }
    }
    Some(Json::String(text.to_owned()))
}
