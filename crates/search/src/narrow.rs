//! Reduces a request to the permitted indices.
//!
//! Only names in the path or the query can be replaced. The caller must read the new request and
//! decide about its needs. So a name with another meaning in its new place permits nothing.

use std::collections::BTreeMap;

use crate::answer::Part;
use crate::parameters::{Plus, Query, decode, push_encoded};
use crate::reading::Request;
use crate::request::{read_places, route};
use crate::resolve::NOTHING;
use crate::routes::RouteMatch;

/// The longest path with its query that is made, in bytes. A node refuses a first line above 4,096
/// bytes (`http.max_initial_line_length`). A path from a client may be longer.
pub(crate) const MAX_TARGET: usize = 4_000;

/// The path and query of the request with these permitted names only. `None` if they do not name a
/// need that is to be reduced, or if they would be too long.
#[must_use]
pub fn narrowed(request: &Request<'_>, parts: &[Part]) -> Option<String> {
    let (mut needs, mut lists) = (Vec::new(), BTreeMap::new());
    let mut reading = route(request, &mut needs).ok()?;
    read_places(&mut reading, |need, parameter| {
        lists.insert(need, parameter);
    })
    .ok()?;
    let mut permitted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        // Several actions may be performed on the same indices: each must be permitted on them.
        let parameter = *lists.get(&part.need)?;
        match permitted.get_mut(parameter) {
            Some(permitted) => {
                permitted.retain(|name| part.names.iter().any(|permitted| permitted == name))
            }
            None => {
                drop(permitted.insert(parameter, part.names.iter().map(String::as_str).collect()))
            }
        }
    }
    let lists: Vec<(&str, String)> =
        permitted.iter().map(|(parameter, names)| (*parameter, encoded(names))).collect();
    let values: Vec<(&str, &str)> =
        lists.iter().map(|(parameter, text)| (*parameter, &**text)).collect();
    with_values(request.target, &reading.route, &values)
}

/// The path and query with these encoded values of parameters. `None` if it is too long.
pub(crate) fn with_values(
    target: &str,
    route: &RouteMatch<'_>,
    values: &[(&str, &str)],
) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let more: usize =
        values.iter().map(|(parameter, value)| parameter.len() + value.len() + 2).sum();
    let mut changed = String::with_capacity(target.len() + more);
    for (number, segment) in path.split('/').enumerate() {
        let value = values.iter().find(|(parameter, _)| route.position(parameter) == Some(number));
        let value = value.map(|(_, value)| *value);
        changed.extend([if number > 0 { "/" } else { "" }, value.unwrap_or(segment)]);
    }
    let in_query = || values.iter().filter(|(parameter, _)| route.position(parameter).is_none());
    let mut separator = "?";
    for piece in query.split_inclusive(['&', ';']) {
        let pair = piece.trim_end_matches(['&', ';']);
        let name = pair.split('=').next().unwrap_or_default();
        let decoded = decode(name, Plus::IsSpace).ok()?;
        changed.push_str(std::mem::take(&mut separator));
        match in_query().find(|(parameter, _)| *decoded == **parameter) {
            Some((_, value)) => {
                changed.extend([name, "=", value, piece.get(pair.len()..).unwrap_or_default()]);
            }
            None => changed.push_str(piece),
        }
    }
    for (parameter, value) in in_query() {
        let is_parameter =
            |name| decode(name, Plus::IsSpace).is_ok_and(|name| *name == **parameter);
        if !Query(query).pairs().any(|(name, _)| is_parameter(name)) {
            let separator = if separator.is_empty() { "&" } else { std::mem::take(&mut separator) };
            changed.extend([separator, parameter, "=", value]);
        }
    }
    (changed.len() <= MAX_TARGET.max(target.len())).then_some(changed)
}

/// A list of names, percent-encoded.
fn encoded(names: &[&str]) -> String {
    let mut text = String::new();
    names.iter().for_each(|name| push_encoded(&mut text, name));
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

#[cfg(test)]
mod tests;
