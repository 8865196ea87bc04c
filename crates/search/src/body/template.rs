//! The body of `_search/template`: a query with variables, or the name of a stored template.

use std::borrow::Cow;

use crate::json::{Json, Value};
use crate::lookups;
use crate::problem::Problem;
use crate::reading::Reading;

/// `{"source": …, "params": {…}}` or `{"id": …, "params": {…}}`
///
/// The look-ups of a template can be read if its source is JSON as written, with variables only in
/// strings that are values. Other templates may look up anything.
pub(super) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let (mut sources, mut is_seen, mut shows_hidden_terms) = (0, true, false);
    reading.members(|_, json, key| match (&*key, json.peek()?) {
        ("source", value @ (Value::Object | Value::String)) => {
            sources += 1;
            let source = if value == Value::String {
                json.string()?
            } else {
                std::str::from_utf8(json.raw_value()?).map(Cow::Borrowed).unwrap_or_default()
            };
            match source_shows_hidden_terms(&source) {
                Some(shows) => shows_hidden_terms |= shows,
                None => is_seen = false,
            }
            Ok(())
        }
        ("profile", _) => {
            shows_hidden_terms |= lookups::shows_profile(json.raw_value()?);
            Ok(())
        }
        ("params" | "explain", _) => json.ignore(),
        // Another key for the source, or the name of a stored template.
        _ => {
            is_seen = false;
            json.ignore()
        }
    })?;
    if sources != 1 || !is_seen {
        lookups::need_any_lookup(reading)?;
        shows_hidden_terms = true;
    }
    // In `_rank_eval`, a node refuses `profile` and aggregations.
    if shows_hidden_terms && reading.operation.name != "rank_eval" {
        reading.mark_hidden_terms(0..reading.needs.len());
    }
    Ok(())
}

/// Whether a source shows hidden terms. `None` if it may have look-ups.
fn source_shows_hidden_terms(source: &str) -> Option<bool> {
    if !has_only_variables(source) || source.contains('\\') {
        return None;
    }
    Json::whole(source.as_bytes(), lookups::template_shows_hidden_terms).ok()
}

/// Whether all tags are plain variables: `{{name}}`. Other tags (sections, partials, unescaped
/// text) may add more than a value within a string. A node reads a tag up to the next `}}`, so a
/// tag that is not closed right after its name could swallow the end of a string.
fn has_only_variables(text: &str) -> bool {
    text.split("{{").skip(1).all(|tag| {
        let end = tag.trim_start_matches(|c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
        });
        end.len() < tag.len() && end.starts_with("}}")
    })
}
