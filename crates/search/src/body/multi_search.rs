//! The bodies of `_msearch` and `_msearch/template`.

use super::SEARCH;
use crate::expression::Expression;
use crate::json::{Json, Lines, set_once};
use crate::lookups::{self, Lookups};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

/// The form of the searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchForm {
    Query,
    Template,
}

/// Reads pairs of lines: the indices to search, and a query or template.
pub(super) fn read(reading: &mut Reading<'_, '_>, form: SearchForm) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Err(Problem::Invalid("it has no body"));
    }
    // A node leaves out an empty line at the start.
    let mut lines = Lines(body.strip_prefix(b"\n").unwrap_or(body));
    let default = reading.list("index")?;
    while let Some(header) = lines.next()? {
        let searched = if header.trim_ascii().is_empty() {
            default.clone()
        } else {
            Json::whole(header, |json| read_header(reading, json, &default))?
        };
        let query = lines.next()?.ok_or(Problem::Invalid("its body ends before a query"))?;
        // The range of the need that is added next.
        let search_need = reading.needs.len()..reading.needs.len() + 1;
        reading.need(SEARCH, Target::Fixed(searched.clone()))?;
        let mut shows_hidden_terms = form == SearchForm::Template;
        if form == SearchForm::Template {
            lookups::need_any_lookup(reading)?;
        } else if !query.trim_ascii().is_empty() {
            let mut lookups = Lookups::new(searched);
            Json::whole(query, |json| {
                json.object(|json, key| lookups.read_member(reading, json, &key))
            })?;
            shows_hidden_terms = lookups.finish(reading)?;
        }
        if shows_hidden_terms {
            reading.mark_hidden_terms(search_need);
        }
    }
    Ok(())
}

fn read_header<'a>(
    reading: &Reading<'_, 'a>,
    json: &mut Json<'a>,
    default: &Expression<'a>,
) -> Result<Expression<'a>, Problem> {
    let (mut indices, mut states) = (None, None);
    json.object(|json, key| match &*key {
        "index" | "indices" => set_once(&mut indices, json.name_list_or_array()?),
        "expand_wildcards" | "expandWildcards" => {
            let mut listed = Vec::new();
            json.value_or_array(|json| {
                listed.push(json.string()?);
                Ok(())
            })?;
            set_once(&mut states, listed.join(","))
        }
        _ => json.ignore(),
    })?;
    let options = match states {
        Some(states) => default.options.expanding(&states)?,
        None => default.options,
    };
    match indices {
        Some(names) => reading.checked_expression(names, options),
        None => Ok(default.with_options(options)),
    }
}
