//! Reduces a request to the indices that are permitted.
//!
//! Only names in the path or the query can be replaced: bodies are passed on as they are. The caller must read the new
//! request, and decide about what it needs: so a name that means something else in its new place permits nothing.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::answer::Part;
use crate::parameters::{Plus, decode};
use crate::reading::{Reading, Request};
use crate::request::{route, target};
use crate::routes::Place;

/// The longest path with its query that is made, in bytes: a node refuses a first line above 4,096 bytes
/// (`http.max_initial_line_length`). One that a client has sent may be longer.
const MAX_TARGET: usize = 4_000;

/// What names no index. A node answers reading requests for it with an empty result, unless they say
/// `allow_no_indices=false`.
const NOTHING: &str = "*,-*";

/// The path and query of the request with these permitted names only. `None` if a need is to be reduced that is not named
/// there, or if it would be too long.
#[must_use]
pub fn narrowed(request: &Request<'_>, parts: &[Part]) -> Option<String> {
    let mut needs = Vec::new();
    let reading = route(request, &mut needs).ok()?;
    let parameters = parameters(&reading)?;
    let mut permitted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        // Several actions may be performed on the same indices: each must be permitted on them.
        let parameter = (*parameters.get(part.need)?)?;
        let names = part.names.iter().map(String::as_str);
        match permitted.get_mut(parameter) {
            Some(permitted) => permitted.retain(|name| part.names.iter().any(|other| other == name)),
            None => drop(permitted.insert(parameter, names.collect())),
        }
    }
    let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
    let (mut path, mut query) = (path.to_owned(), query.to_owned());
    for (parameter, names) in permitted {
        let text = encoded(&names);
        match reading.found.position(parameter) {
            Some(position) => path = with_segment(&path, position, &text),
            None => query = with_parameter(&query, parameter, &text)?,
        }
    }
    let target = if query.is_empty() { path } else { path + "?" + &query };
    (target.len() <= MAX_TARGET.max(request.target.len())).then_some(target)
}

/// The parameter that names the indices of each need; `None` for a need that is not about such a list. The needs of a body
/// come after these.
fn parameters(reading: &Reading<'_, '_>) -> Option<Vec<Option<&'static str>>> {
    let mut parameters = Vec::new();
    for pattern in &reading.found.group.needs {
        let is_of_all = pattern.place == Place::All
            || pattern.place == Place::OpenScroll && !reading.request.scrolls_are_checked;
        let is_need = is_of_all || target(reading, pattern.place).ok()?.is_some();
        match pattern.place {
            _ if !is_need => {}
            Place::List(parameter) | Place::OptionalList(parameter) => parameters.push(Some(parameter)),
            Place::Cluster
            | Place::All
            | Place::OpenScroll
            | Place::Name(_)
            | Place::Missing(_)
            | Place::MissingIfVersioned(_)
            | Place::NewAlias(_) => parameters.push(None),
        }
    }
    Some(parameters)
}

/// The path with another segment at this position.
fn with_segment(path: &str, position: usize, segment: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').collect();
    // The first one is before the first slash.
    if let Some(old) = segments.get_mut(position + 1) {
        *old = segment;
    }
    segments.join("/")
}

/// The query with another value of a parameter.
fn with_parameter(query: &str, parameter: &str, value: &str) -> Option<String> {
    let (mut changed, mut is_found) = (String::new(), false);
    for piece in query.split_inclusive(['&', ';']) {
        let pair = piece.trim_end_matches(['&', ';']);
        let name = pair.split('=').next().unwrap_or_default();
        if *decode(name, Plus::IsSpace).ok()? == *parameter {
            is_found = true;
            changed.extend([name, "=", value, piece.get(pair.len()..).unwrap_or_default()]);
        } else {
            changed.push_str(piece);
        }
    }
    if !is_found {
        let separator = if query.is_empty() { "" } else { "&" };
        changed.extend([separator, parameter, "=", value]);
    }
    Some(changed)
}

/// A list of names, percent-encoded (RFC 3986, 2.3).
fn encoded(names: &[&str]) -> String {
    if names.is_empty() {
        return NOTHING.to_owned();
    }
    let mut text = String::new();
    for (number, name) in names.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::RequestBody;
    use crate::{Need, Target, read};

    fn request(target: &str) -> Request<'_> {
        Request {
            method: "GET",
            target,
            content_type: None,
            content_encoding: None,
            scrolls_are_checked: false,
            body: RequestBody::Whole(b""),
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn part(need: usize, names: &[&str]) -> Part {
        Part { need, names: names.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn the_names_take_the_place_of_those_of_the_request() {
        for (target, names, wanted) in [
            ("/a,b/_search", &["a"][..], "/a/_search"),
            ("/a*/_search?size=1", &["a1", "a2"], "/a1,a2/_search?size=1"),
            ("/_search", &["a", "b"], "/_search?index=a,b"),
            ("/_search?size=1", &["a"], "/_search?size=1&index=a"),
            ("/_search?index=a,b&size=1", &["b"], "/_search?index=b&size=1"),
            ("/_search?x=1;ind%65x=a,b", &["b"], "/_search?x=1;ind%65x=b"),
            ("/a/_search/", &["b"], "/b/_search/"),
            ("/a,b/_search", &[], "/*,-*/_search"),
            ("/a/_search", &["ü&=/%+"], "/%C3%BC%26%3D%2F%25%2B/_search"),
            ("/_cat/indices", &["a"], "/_cat/indices?index=a"),
            ("/_cat/indices/a,b", &["a"], "/_cat/indices/a"),
        ] {
            let mut needs = Vec::new();
            read(&request(target), &mut needs).unwrap();
            let lists =
                needs.iter().enumerate().filter(|(_, need)| matches!(need.target, Target::Indices(_)));
            let parts: Vec<Part> = lists.map(|(number, _)| part(number, names)).collect();
            assert_eq!(narrowed(&request(target), &parts).as_deref(), Some(wanted), "{target}");
        }
    }

    #[test]
    fn each_action_must_be_permitted_on_each_name() {
        let target = "/a,b,c/_search_shards";
        let mut needs = Vec::new();
        read(&request(target), &mut needs).unwrap();
        let needed = |need: &Need<'_>| need.target.text() == "a,b,c";
        assert!(needs.iter().all(needed));
        let parts = [part(0, &["a", "b"]), part(0, &["b", "c"])];
        assert_eq!(narrowed(&request(target), &parts).as_deref(), Some("/b/_search_shards"));
    }

    #[test]
    fn what_is_not_named_in_path_or_query_is_not_reduced() {
        assert_eq!(narrowed(&request("/a/_search"), &[part(1, &["a"])]), None, "a need of a body");
        assert_eq!(narrowed(&request("/a/_doc/1"), &[part(0, &["a"])]), None, "exactly one name");
        assert_eq!(narrowed(&request("/_cluster/health"), &[part(0, &[])]), None);
        assert_eq!(narrowed(&request("/_unknown/a"), &[]), None);
        let long = "a".repeat(200);
        let names: Vec<&str> = vec![&long; 20];
        assert_eq!(narrowed(&request("/*/_search"), &[part(0, &names)]), None, "longer than a node accepts");
    }
}
