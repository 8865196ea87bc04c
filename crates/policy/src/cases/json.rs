//! Converts a YAML tree to JSON text, by YAML's core schema (YAML 1.2.2, 10.3).

use document::{Node, Reader, Scalar, Value};

/// Writes a tree as JSON; `None` if some part of it has no JSON equivalent.
pub(super) fn write(reader: &mut Reader, node: &Node) -> Option<String> {
    let mut out = String::new();
    value(reader, node, &mut out).then_some(out)
}

fn value(reader: &mut Reader, node: &Node, out: &mut String) -> bool {
    match &node.value {
        Value::Scalar(scalar) => match literal(scalar) {
            Some(literal) => out.push_str(&literal),
            None => {
                let help = "put it in quotes, or write it in decimal";
                reader.error_help(node.at, "a number that JSON does not have", help);
                return false;
            }
        },
        Value::List(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                separate(number, out);
                if !value(reader, item, out) {
                    return false;
                }
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (number, (key, item)) in entries.iter().enumerate() {
                separate(number, out);
                string(&key.text, out);
                out.push(':');
                if !value(reader, item, out) {
                    return false;
                }
            }
            out.push('}');
        }
    }
    true
}

fn separate(number: usize, out: &mut String) {
    if number > 0 {
        out.push(',');
    }
}

fn literal(scalar: &Scalar) -> Option<String> {
    let text = &*scalar.text;
    if scalar.is_nothing() {
        return Some("null".to_owned());
    }
    if scalar.plain {
        match text {
            "true" | "True" | "TRUE" => return Some("true".to_owned()),
            "false" | "False" | "FALSE" => return Some("false".to_owned()),
            _ if looks_like_a_number(text) => return number(text),
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len() + 2);
    string(text, &mut out);
    Some(out)
}

/// Whether YAML reads it as a number, including hexadecimal and octal numbers, infinities and not-a-number.
fn looks_like_a_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let special = [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&unsigned);
    let radix = |prefix: &str, radix: u32| {
        text.strip_prefix(prefix)
            .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)))
    };
    let decimal = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|character: char| character.is_ascii_digit())
        && unsigned.parse::<f64>().is_ok();
    special || radix("0x", 16) || radix("0o", 8) || decimal
}

/// A decimal number in JSON syntax (RFC 8259, 6).
fn number(text: &str) -> Option<String> {
    let (minus, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) {
        return None;
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at_checked(at)?,
        None => (unsigned, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{minus}{whole}{point}{fraction}{exponent}"))
}

/// A JSON string (RFC 8259, 7).
fn string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
