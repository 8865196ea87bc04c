//! The section `allow_response.metadata`.

use std::sync::Arc;

use crate::model::{ListedRole, MetadataEntry, MetadataValue};
use crate::parse::template;
use document::{Fields, Key, Node, Reader, Value};

/// Keys of the metadata of every request. Envoy's `ext_authz` sets the last of them, rolegate the
/// others.
const OWN_KEYS: [&str; 6] =
    ["decision", "reason", "rule", "user", "revision", "ext_authz_duration"];

/// The maximum length of a key in bytes.
const MAX_KEY_LENGTH: usize = 64;

/// A `double`, the type of numbers in metadata, holds each integer up to this one exactly.
const MAX_NUMBER: u64 = 1 << 53;

/// The key that stands in place of a role. Its value is for all other callers.
const ELSE: &str = "else";

pub(super) fn read(reader: &mut Reader, node: &Node) -> Vec<MetadataEntry> {
    let entries = reader.entries(node, "`metadata`");
    let mut metadata = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let name = read_key(reader, key);
        let values = read_values(reader, &key.text, node);
        if let Some(key_text) = name.filter(|_| !values.is_empty()) {
            metadata.push(MetadataEntry { key: key_text, values, at: reader.place(key.at) });
        }
    }
    metadata
}

/// A key that `%DYNAMIC_METADATA(NAMESPACE:KEY)%` of Envoy's access log can name.
fn read_key(reader: &mut Reader, key: &Key) -> Option<Arc<str>> {
    let name = &*key.text;
    if OWN_KEYS.contains(&name) {
        let message = format!("`{name}` has a value already, which a policy cannot change");
        return reader.reject(key.at, message, "take another name");
    }
    read_name(reader, key)
}

fn read_name(reader: &mut Reader, key: &Key) -> Option<Arc<str>> {
    let name = &*key.text;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > MAX_KEY_LENGTH || !name.bytes().all(is_valid) {
        let message = "a key of metadata has 1 to 64 letters, digits, `_` and `-`";
        return reader.reject(key.at, message, "write one such as `requests_per_unit`");
    }
    Some(name.into())
}

/// The values of a key: one for everyone, or one for each of several roles. The value of `else` is
/// the last.
fn read_values(
    reader: &mut Reader,
    key: &str,
    node: &Node,
) -> Vec<(Option<ListedRole>, MetadataValue)> {
    if !matches!(node.value, Value::Map(_)) {
        return read_value(reader, key, node).map(|value| (None, value)).into_iter().collect();
    }
    let Some(roles) = reader.entries(node, &format!("`{key}`")) else { return Vec::new() };
    let (mut values, mut otherwise) = (Vec::new(), None);
    for (role, node) in roles.iter() {
        let value = match node.value {
            Value::Map(_) => read_fields(reader, &role.text, node),
            Value::Scalar(_) | Value::List(_) => read_value(reader, &role.text, node),
        };
        let Some(value) = value else { continue };
        if *role.text == *ELSE {
            otherwise = Some((None, value));
        } else {
            let listed = ListedRole { name: role.text.clone(), at: reader.place(role.at) };
            values.push((Some(listed), value));
        }
    }
    values.extend(otherwise);
    values
}

fn read_fields(reader: &mut Reader, role: &str, node: &Node) -> Option<MetadataValue> {
    let entries = reader.entries(node, &format!("`{role}`"))?;
    let mut fields = Vec::new();
    for (key, node) in entries.iter() {
        let value = read_value(reader, &key.text, node);
        fields.extend(read_name(reader, key).zip(value));
    }
    Some(MetadataValue::Fields(fields))
}

/// Unquoted `true` and `false` are booleans, and unquoted whole numbers are numbers. Another
/// unquoted number is an error. Anything else is text.
fn read_value(reader: &mut Reader, key: &str, node: &Node) -> Option<MetadataValue> {
    if let Value::Scalar(scalar) = &node.value
        && scalar.plain
    {
        match (&*scalar.text, scalar.text.parse::<i64>()) {
            ("true", _) => return Some(MetadataValue::Boolean(true)),
            ("false", _) => return Some(MetadataValue::Boolean(false)),
            (_, Ok(number)) if number.unsigned_abs() <= MAX_NUMBER => {
                return Some(MetadataValue::Number(number));
            }
            (text, _) if text.parse::<f64>().is_ok_and(f64::is_finite) => {
                let message = format!("the number `{text}` is not whole, or too large");
                let help = "write a whole number of at most 2^53, or quote it as a text";
                return reader.reject(node.at, message, help);
            }
            (_, _) => {}
        }
    }
    template::read_value(reader, node, &format!("`{key}`")).map(MetadataValue::Text)
}
