//! Searches that show terms of documents that they do not find.
//!
//! A document query of a role changes nothing there, so the security plugin denies them on an index with one
//! (`DlsFlsValveImpl`). It looks for aggregations of terms at the top only. Those within others show the same.

use crate::json::{Json, Value};
use crate::problem::Problem;

/// Whether a search has a `profile`, or an aggregation of terms that has some which no document that is found has. A value that a node
/// may read in several ways counts.
pub(super) fn is_shown(search: &[u8]) -> Result<bool, Problem> {
    let has = |text: &[u8]| memchr::memmem::find(search, text).is_some();
    // Only `\u` writes such a key in another way.
    if !has(b"profile") && !has(b"min_doc_count") && !has(b"\\u") {
        return Ok(false);
    }
    let mut is_shown = false;
    Json::whole(search, |json| {
        json.object(|json, key| {
            is_shown |= match &*key {
                "profile" => !is_false(json.skip()?),
                "aggs" | "aggregations" => of_aggregations(json, "")?,
                _ => json.skip().map(|_| false)?,
            };
            Ok(())
        })
    })?;
    Ok(is_shown)
}

/// The same for `{"source": …, "params": {…}, "profile": …}`.
pub(super) fn is_shown_by_template(template: &[u8]) -> Result<bool, Problem> {
    let mut result = false;
    Json::whole(template, |json| {
        json.object(|json, key| {
            result |= match (&*key, json.peek()?) {
                ("source", Value::String) => is_shown(json.string()?.as_bytes())?,
                ("source", Value::Object) => is_shown(json.skip()?)?,
                ("profile", _) => !is_false(json.skip()?),
                ("params" | "explain", _) => json.skip().map(|_| false)?,
                _ => json.skip().map(|_| true)?,
            };
            Ok(())
        })
    })?;
    Ok(result)
}

/// Whether an aggregation of terms below this key has terms of no document. A client chooses names such as `terms`, too.
fn of_aggregations(json: &mut Json<'_>, key: &str) -> Result<bool, Problem> {
    let mut is_shown = false;
    match json.peek()? {
        Value::Object => json.object(|json, member| {
            is_shown |= match (key, &*member) {
                ("terms", "min_doc_count") => !is_positive(json.skip()?),
                _ => of_aggregations(json, &member)?,
            };
            Ok(())
        })?,
        Value::Array => json.array(|json| {
            is_shown |= of_aggregations(json, key)?;
            Ok(())
        })?,
        Value::String | Value::Null | Value::Other => drop(json.skip()?),
    }
    Ok(is_shown)
}

fn is_false(value: &[u8]) -> bool {
    matches!(value, b"false" | b"\"false\"")
}

/// Whether a value is a whole number above 0, or text with one. A node reads `0.5` as 0.
fn is_positive(value: &[u8]) -> bool {
    let text = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(value);
    text.first().is_some_and(|first| *first != b'0') && text.iter().all(u8::is_ascii_digit)
}
