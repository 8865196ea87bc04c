//! Writes filters of documents and fields as the value of a header. The server that receives the
//! forwarded request applies them to the answer of the cluster.

use std::collections::BTreeSet;
use std::fmt::Write;

use search::{Filter, MAX_FILTERS};
use serde_json::{Map, Value, json};

/// Maximum bytes of the value. A node accepts 8 KiB of headers (`http.max_header_size`).
const MAX_LENGTH: usize = 6 << 10;

/// Writes JSON in ASCII: an object with the names of indices, and for each the `dls`, `fls` and
/// `masked_fields` of the role files. Writes nothing if there are no filters. Returns whether the
/// value is short enough for a header.
#[must_use]
pub(super) fn write(filters: &BTreeSet<Filter>, text: &mut String) -> bool {
    text.clear();
    // A set of more than `MAX_FILTERS` is incomplete.
    if filters.len() > MAX_FILTERS {
        return false;
    }
    for Filter { name, queries, fields, masked_fields } in filters {
        let lists = [
            ("dls", queries.iter().map(String::as_str).collect::<Value>()),
            ("fls", fields.iter().map(|field| &**field).collect()),
            ("masked_fields", masked_fields.iter().map(|field| &**field).collect()),
        ];
        let lists = lists.into_iter().filter(|(_, list)| *list != json!([]));
        let lists: Map<String, Value> = lists.map(|(key, list)| (key.to_owned(), list)).collect();
        text.push(if text.is_empty() { '{' } else { ',' });
        push_ascii(&format!("{}:{}", json!(name), Value::Object(lists)), text);
        if text.len() >= MAX_LENGTH {
            text.clear();
            text.shrink_to(MAX_LENGTH);
            return false;
        }
    }
    if !text.is_empty() {
        text.push('}');
    }
    true
}

/// Writes JSON, and escapes each character that is not printable ASCII. Only strings have such
/// characters.
fn push_ascii(json: &str, text: &mut String) {
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, query: &str, fields: &[&str], masked: &[&str]) -> Filter {
        Filter {
            name: name.to_owned(),
            queries: [query]
                .into_iter()
                .filter(|query| !query.is_empty())
                .map(str::to_owned)
                .collect(),
            fields: fields.iter().map(|field| (*field).into()).collect(),
            masked_fields: masked.iter().map(|field| (*field).into()).collect(),
        }
    }

    #[test]
    fn filters_are_json_in_ascii() {
        let query = "{\"term\":{\"ü\\n\":\"\u{1F600}\r\"}}";
        let filters = BTreeSet::from([
            filter("a\"b", query, &["~x", "~y"], &["m::/a/::b"]),
            filter("b", "", &["f"], &[]),
            filter("c", query, &[], &[]),
            filter("d", "", &[], &["m", "n"]),
        ]);
        let mut text = "before".to_owned();
        assert!(write(&filters, &mut text));
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "a\"b": { "dls": [query], "fls": ["~x", "~y"], "masked_fields": ["m::/a/::b"] },
            "b": { "fls": ["f"] },
            "c": { "dls": [query] },
            "d": { "masked_fields": ["m", "n"] },
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn nothing_to_filter_is_no_header_and_too_much_is_not_cut_off() {
        let mut text = "before".to_owned();
        assert!(write(&BTreeSet::new(), &mut text) && text.is_empty());
        let long = "x".repeat(MAX_LENGTH);
        assert!(
            !write(&BTreeSet::from([filter("a", &long, &[], &[])]), &mut text) && text.is_empty()
        );
        let each: BTreeSet<Filter> =
            (0..=MAX_FILTERS).map(|number| filter(&format!("{number}"), "", &["f"], &[])).collect();
        assert!(!write(&each, &mut text) && text.is_empty());
        let many =
            (0..1_000).map(|number| filter(&format!("logs-{number}"), "{}", &[], &[])).collect();
        assert!(!write(&many, &mut text) && text.is_empty());
    }
}
