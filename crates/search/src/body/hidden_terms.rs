//! Searches that show terms of documents that they do not find.
//!
//! A document query of a role changes nothing there, so the security plugin denies them on an index with one
//! (`DlsFlsValveImpl`). It looks for aggregations of terms at the top only. Those within others show the same. So do keys at any
//! depth, because a node may take them for members of an object that is around theirs (see [`crate::lookups`]).

use crate::json::{Json, Value};
use crate::lookups;
use crate::problem::Problem;

/// Whether a search has a `profile`, or an aggregation of terms that has some which no document that is found has. A value that a node
/// may read in several ways counts.
pub(super) fn is_shown(search: &[u8]) -> Result<bool, Problem> {
    let has = |text: &[u8]| memchr::memmem::find(search, text).is_some();
    // Only `\u` writes such a key in another way.
    if ![&b"profile"[..], b"min_doc_count", b"search_pipeline", b"\\u"].into_iter().any(has) {
        return Ok(false);
    }
    let mut is_shown = false;
    Json::whole(search, |json| {
        json.object(|json, key| {
            is_shown |= match &*key {
                "profile" => !is_false(json.skip()?),
                "search_pipeline" => by_pipeline(json)?,
                _ => within(json, ["", "", &key])?,
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

/// The same for a value under the last of these keys, each of which is that of an object with the next one. A client chooses the
/// names of aggregations.
fn within(json: &mut Json<'_>, [above, outer, key]: [&str; 3]) -> Result<bool, Problem> {
    // Their groups without documents are no terms.
    let is_histogram =
        matches!(key, "date_histogram" | "histogram") && matches!(above, "aggs" | "aggregations");
    let mut is_shown = false;
    match json.peek()? {
        Value::Object => json.object(|json, member| {
            is_shown |= match &*member {
                "profile" if !matches!(json.peek()?, Value::Object | Value::Array) => is_true(json)?,
                "min_doc_count" if !is_histogram => !is_positive(json.skip()?),
                "search_pipeline" => by_pipeline(json)?,
                _ => within(json, [outer, key, &member])?,
            };
            Ok(())
        })?,
        Value::Array => json.array(|json| {
            is_shown |= within(json, [above, outer, key])?;
            Ok(())
        })?,
        Value::String | Value::Null | Value::Other => drop(json.skip()?),
    }
    Ok(is_shown)
}

/// Whether a search pipeline may ask for a `profile`: a script may, and what a stored one does is not seen.
fn by_pipeline(json: &mut Json<'_>) -> Result<bool, Problem> {
    match json.peek()? {
        Value::Null => json.skip().map(|_| false),
        Value::String => Ok(json.string()? != "_none"),
        Value::Other => json.skip().map(|_| true),
        Value::Object | Value::Array => {
            let pipeline = json.skip()?;
            let has = |text: &[u8]| memchr::memmem::find(pipeline, text).is_some();
            // A processor that is not known may replace the whole search. Where a client has named something else so, it may have
            // what is looked for.
            let is_harmless = ![&b"script"[..], b"profile", b"min_doc_count", b"\\u"].into_iter().any(has);
            Ok(!is_harmless || !lookups::has_known_processors(pipeline))
        }
    }
}

/// Whether the next value is true, or text that says so.
fn is_true(json: &mut Json<'_>) -> Result<bool, Problem> {
    match json.peek()? {
        Value::String => Ok(json.string()? == "true"),
        Value::Array | Value::Object | Value::Null | Value::Other => Ok(json.skip()? == b"true"),
    }
}

fn is_false(value: &[u8]) -> bool {
    matches!(value, b"false" | b"\"false\"")
}

/// Whether a value is a whole number above 0, or text with one. A node reads `0.5` as 0.
fn is_positive(value: &[u8]) -> bool {
    let text = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(value);
    text.first().is_some_and(|first| *first != b'0') && text.iter().all(u8::is_ascii_digit)
}
