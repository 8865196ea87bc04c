//! The body of `_search/template`: a query with variables, or the name of a stored one.

use crate::json::{Json, Value};
use crate::lookups;
use crate::problem::Problem;
use crate::reading::Reading;

/// `{"source": …, "params": {…}}` or `{"id": …, "params": {…}}`
///
/// What a template looks up is seen if its source is JSON as it stands, and variables are only in strings that are
/// values. Of other templates it is not seen.
pub(super) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    let (mut sources, mut is_seen) = (0, true);
    if !body.is_empty() {
        Json::whole(body, |json| {
            json.object(|json, key| match (&*key, json.peek()?) {
                ("source", Value::Object) => {
                    sources += 1;
                    is_seen &= is_harmless(json.skip()?);
                    Ok(())
                }
                ("source", Value::String) => {
                    sources += 1;
                    is_seen &= is_harmless(json.string()?.as_bytes());
                    Ok(())
                }
                ("params" | "explain" | "profile", _) => json.skip().map(drop),
                // Also other names of the source, and the name of a stored one, which would take its place.
                _ => {
                    is_seen = false;
                    json.skip().map(drop)
                }
            })
        })?;
    }
    if sources != 1 || !is_seen {
        lookups::unseen(reading)?;
    }
    Ok(())
}

/// Whether a source looks nothing up, whatever its variables are.
fn is_harmless(source: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(source) else { return false };
    has_only_variables(text)
        && !text.contains('\\')
        && Json::whole(source, |json| lookups::none(json)).is_ok()
}

/// Whether all tags are names of variables, each whole: `{{name}}`. Other tags may add more than a value within a string (sections,
/// partials, text that is not escaped). A node reads a tag up to the next `}}` wherever that is, so one that is
/// not closed at once could take the end of a string with it, and what stands between it and the next.
fn has_only_variables(text: &str) -> bool {
    let mut tags = text.split("{{");
    tags.next();
    tags.all(|rest| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = rest.trim_start_matches(is_name);
        end.len() < rest.len() && end.starts_with("}}")
    })
}
