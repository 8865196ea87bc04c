//! The bodies of `_msearch` and `_msearch/template`.

use super::{SEARCH, hidden_terms, items, list};
use crate::expression::Expression;
use crate::json::{Json, Lines, Value};
use crate::lookups;
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

/// Pairs of lines: the indices to search, and a query.
pub(super) fn read(reading: &mut Reading<'_, '_>, is_template: bool) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Err(Problem::Invalid("it has no body"));
    }
    // A node leaves one empty line at the start out.
    let mut lines = Lines(body.strip_prefix(b"\n").unwrap_or(body));
    let default = reading.list("index")?;
    while let Some(header) = lines.next()? {
        let searched = if header.trim_ascii().is_empty() {
            default.clone()
        } else {
            Json::whole(header, |json| search_header(reading, json, &default))?
        };
        let query = lines.next()?.ok_or(Problem::Invalid("its body ends before a query"))?;
        reading.need(SEARCH, Target::Fixed(searched.clone()))?;
        let this = reading.needs.len() - 1;
        if is_template {
            lookups::unseen(reading)?;
            reading.show_hidden_terms(this);
        } else if !query.trim_ascii().is_empty() {
            if hidden_terms::is_shown(query)? {
                reading.show_hidden_terms(this);
            }
            Json::whole(query, |json| lookups::search(reading, json, &searched))?;
        }
    }
    Ok(())
}

fn search_header<'a>(
    reading: &Reading<'_, 'a>,
    json: &mut Json<'a>,
    default: &Expression<'a>,
) -> Result<Expression<'a>, Problem> {
    let mut indices = None;
    let mut options = default.options;
    let mut seen_states = false;
    json.object(|json, key| match &*key {
        "index" | "indices" => {
            let text = if json.peek()? == Value::Array { list(json)? } else { json.string()? };
            match indices.replace(text) {
                Some(_) => Err(Problem::Invalid("its body names indices twice")),
                None => Ok(()),
            }
        }
        "expand_wildcards" | "expandWildcards" => {
            if std::mem::replace(&mut seen_states, true) {
                return Err(Problem::Invalid("its body has a key twice"));
            }
            let mut states = Vec::new();
            items(json, |json| {
                states.push(json.string()?);
                Ok(())
            })?;
            let unknown = Problem::Invalid("`expand_wildcards` has an unknown value");
            options = options.expanding(&states.join(",")).ok_or(unknown)?;
            Ok(())
        }
        _ => json.skip().map(drop),
    })?;
    match indices {
        Some(text) => reading.expression(text, options),
        None => Ok(default.with_options(options)),
    }
}
