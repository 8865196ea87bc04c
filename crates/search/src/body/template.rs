//! The body of `_search/template`: a query with variables, or the name of a stored template.

use std::borrow::Cow;

use crate::json::{Json, Value};
use crate::lookups;
use crate::problem::Problem;
use crate::reading::Reading;

/// `{"source": …, "params": {…}}` or `{"id": …, "params": {…}}`
///
/// The look-ups of a template are seen if its source is JSON as it stands, and variables are only
/// in strings that are values. Other templates may look up anything.
pub(super) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let (mut sources, mut is_seen, mut shows_hidden_terms) = (0, true, false);
    reading.members(|_, json, key| match (&*key, json.peek()?) {
        ("source", value @ (Value::Object | Value::String)) => {
            sources += 1;
            let source = if value == Value::String {
                json.string()?
            } else {
                std::str::from_utf8(json.skip()?).map(Cow::Borrowed).unwrap_or_default()
            };
            match hidden_terms(&source) {
                Some(shows) => shows_hidden_terms |= shows,
                None => is_seen = false,
            }
            Ok(())
        }
        ("profile", _) => {
            shows_hidden_terms |= lookups::shows_profile(json.skip()?);
            Ok(())
        }
        ("params" | "explain", _) => json.ignore(),
        // Another name of the source, or the name of a stored template, which takes its place.
        _ => {
            is_seen = false;
            json.ignore()
        }
    })?;
    if sources != 1 || !is_seen {
        lookups::need_any_lookup(reading)?;
        shows_hidden_terms = true;
    }
    // A node refuses `profile` and aggregations in requests to be rated.
    if shows_hidden_terms && reading.operation.name != "rank_eval" {
        reading.show_hidden_terms(0..reading.needs.len());
    }
    Ok(())
}

/// Whether a source shows terms of documents that it does not find. `None` if it may have look-ups.
fn hidden_terms(source: &str) -> Option<bool> {
    if !has_only_variables(source) || source.contains('\\') {
        return None;
    }
    Json::whole(source.as_bytes(), lookups::hidden_terms_of_template).ok()
}

/// Whether all tags are names of variables, each whole: `{{name}}`. Other tags may add more than a
/// value within a string (sections, partials, unescaped text). A node reads a tag up to the next
/// `}}`, so a tag that is not closed at once could take the end of a string with it.
fn has_only_variables(text: &str) -> bool {
    text.split("{{").skip(1).all(|tag| {
        let end = tag.trim_start_matches(|c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
        });
        end.len() < tag.len() && end.starts_with("}}")
    })
}
