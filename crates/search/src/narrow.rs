//! Reduces a request to the permitted indices.
//!
//! Only names in the path or the query can be replaced. A name may have another meaning in its new
//! place. So the caller must read the new request, and decide about its needs again.

use std::collections::BTreeMap;

use crate::answer::Part;
use crate::parameters::{Plus, decode, push_encoded};
use crate::reading::Request;
use crate::request::{read_places, start_reading};
use crate::resolve::NOTHING;
use crate::routes::RouteMatch;

/// The longest changed path with its query, in bytes. A node refuses a first line above 4,096 bytes
/// (`http.max_initial_line_length`). A path from a client may be longer.
pub(crate) const MAX_TARGET: usize = 4_000;

/// The path and query of the request with these permitted names only. `None` if a need to be
/// reduced is not in the path or query, or if the result would be too long.
#[must_use]
pub fn narrowed(request: &Request<'_>, parts: &[Part]) -> Option<String> {
    let (mut needs, mut parameter_by_need) = (Vec::new(), BTreeMap::new());
    let mut reading = start_reading(request, &mut needs).ok()?;
    read_places(&mut reading, |need, parameter| {
        parameter_by_need.insert(need, parameter);
    })
    .ok()?;
    let mut permitted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        // Several actions may be performed on the same indices: each must be permitted on them.
        let parameter = *parameter_by_need.get(&part.need)?;
        match permitted.get_mut(parameter) {
            Some(permitted) => {
                permitted.retain(|name| part.names.iter().any(|permitted| permitted == name))
            }
            None => {
                drop(permitted.insert(parameter, part.names.iter().map(String::as_str).collect()))
            }
        }
    }
    let values: Vec<(&str, String)> = permitted
        .into_iter()
        .map(|(parameter, names)| {
            let mut list = String::new();
            names.iter().for_each(|name| push_encoded(&mut list, name));
            (parameter, if list.is_empty() { NOTHING.to_owned() } else { list })
        })
        .collect();
    with_values(request.target, &reading.route, &values)
}

/// The path and query with these encoded values of parameters. `None` if the result is too long.
pub(crate) fn with_values(
    target: &str,
    route: &RouteMatch<'_>,
    values: &[(&str, impl AsRef<str>)],
) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let added: usize =
        values.iter().map(|(name, value)| name.len() + value.as_ref().len() + 2).sum();
    let mut changed = String::with_capacity(target.len() + added);
    for (position, segment) in path.split('/').enumerate() {
        let value = values.iter().find(|(name, _)| route.position(name) == Some(position));
        let segment = value.map_or(segment, |(_, value)| value.as_ref());
        changed.extend([if position > 0 { "/" } else { "" }, segment]);
    }
    let in_query = values.iter().filter(|(name, _)| route.position(name).is_none());
    let mut separator = "?";
    for pair in query.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let name = decode(pair.split('=').next().unwrap_or_default(), Plus::IsSpace).ok()?;
        if in_query.clone().all(|(replaced, _)| *name != **replaced) {
            changed.extend([std::mem::replace(&mut separator, "&"), pair]);
        }
    }
    for (name, value) in in_query {
        changed.extend([std::mem::replace(&mut separator, "&"), name, "=", value.as_ref()]);
    }
    (changed.len() <= MAX_TARGET.max(target.len())).then_some(changed)
}

#[cfg(test)]
mod tests;
