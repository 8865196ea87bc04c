//! Tests of the table of routes, and of how a path is matched.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::reading::{Request, RequestBody};
use crate::request::read;

/// The rows of the published specification: each is mapped or denied, and none is lost.
const SPECIFIED: usize = 715;
/// Its operations.
const OPERATIONS: usize = 485;

#[test]
fn each_route_of_the_specification_is_mapped_or_denied_by_name() {
    let routes = ROUTES.all();
    let specified: Vec<_> = routes.iter().filter(|route| !route.is_extra).collect();
    assert_eq!(specified.len(), SPECIFIED);
    let operations: BTreeSet<_> = specified.iter().map(|route| route.operation.name).collect();
    assert_eq!(operations.len(), OPERATIONS);
    for need in routes.iter().flat_map(|route| &route.operation.needs) {
        assert!(!need.actions.is_empty(), "{need:?}");
        let has_no_parameter = matches!(
            need.place,
            Place::Cluster
                | Place::ClusterIfAllPits
                | Place::All
                | Place::AllIfAllPits
                | Place::OpenScroll
        );
        assert_eq!(need.parameter.is_empty(), has_no_parameter, "{need:?}");
    }
}

/// A route without needs is open to everyone who is authenticated. A node answers these two itself,
/// without an action for which its security plugin could ask (3.4.0: 200 for a user without roles).
#[test]
fn only_lists_of_paths_need_nothing() {
    let mut open = BTreeSet::new();
    for route in ROUTES.all().into_iter().filter(|route| route.operation.denied.is_none()) {
        let segments =
            route.path.split('/').map(|segment| parameter_name(segment).map_or(segment, |_| "x1"));
        let target = segments.collect::<Vec<_>>().join("/");
        let method = format!("{:?}", route.method).to_uppercase();
        for body in ["", "{}", r#"{"actions": []}"#, r#"{"docs": []}"#, "{}\n{}\n"] {
            let request = Request {
                method: &method,
                target: &target,
                content_type: Some("application/json"),
                content_encoding: None,
                scrolls_are_checked: false,
                body: RequestBody::Whole(body.as_bytes()),
                now: Request::time(std::time::Duration::ZERO),
            };
            let mut needs = Vec::new();
            if read(&request, &mut needs).is_ok() && needs.is_empty() {
                open.insert((route.operation.name, method.clone(), target.clone()));
            }
        }
    }
    let list = |name, target: &str| (name, "GET".to_owned(), target.to_owned());
    assert_eq!(open, BTreeSet::from([list("cat.help", "/_cat"), list("list.help", "/_list")]));
}

#[test]
fn each_line_of_the_table_is_read() {
    let table = include_str!("../routes.txt");
    let operations: BTreeMap<_, _> =
        ROUTES.all().iter().map(|route| (route.operation.name, route.operation)).collect();
    let (mut count, mut methods) = (0, 0);
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if line.starts_with("  ") {
            methods += line.split_whitespace().count() - 1;
            continue;
        }
        count += 1;
        let operation = operations[line.split(' ').next().unwrap()];
        let actions =
            line.split_whitespace().filter(|word| word.contains(':') && operation.denied.is_none());
        let needs = operation.needs.iter().map(|need| need.actions.len());
        assert_eq!(needs.sum::<usize>(), actions.count(), "{line}");
    }
    assert_eq!(operations.len(), count);
    assert_eq!(ROUTES.all().len(), methods);
}

#[test]
fn each_route_is_found_by_a_path_of_its_form() {
    for route in ROUTES.all() {
        let segments =
            route.path.split('/').map(|segment| parameter_name(segment).map_or(segment, |_| "x1"));
        let path = segments.collect::<Vec<_>>().join("/").leak();
        let method = format!("{:?}", route.method).to_uppercase();
        let operation = ROUTES.find(&method, path).map(|matched| matched.route.operation.name);
        assert_eq!(operation, Some(route.operation.name), "{method} {path}");
    }
}

fn find(method: Method, path: &'static str) -> Option<(&'static str, Option<&'static str>)> {
    let matched = ROUTES.find(&format!("{method:?}").to_uppercase(), path)?;
    Some((matched.route.path, matched.parameter("index")))
}

#[test]
fn a_path_is_matched_as_a_node_matches_it() {
    use Method::{Delete, Get, Post, Put};
    // Each was tried on a node.
    for (method, path, wanted) in [
        (Get, "/", Some(("/", None))),
        (Get, "//", Some(("/", None))),
        (Get, "/_search", Some(("/_search", None))),
        (Get, "/_search/", Some(("/_search", None))),
        (Get, "/a/_search//", Some(("/{index}/_search", Some("a")))),
        (Get, "//_search", Some(("/{index}/_search", Some("")))),
        (Get, "/a//_search", None),
        (Get, "/a/%5Fsearch", None),
        (Get, "/a%2Fb/_search", Some(("/{index}/_search", Some("a%2Fb")))),
        (Get, "/*/_search", Some(("/{index}/_search", Some("*")))),
        (Put, "/_search", None),
        (Get, "/_nodes/_search", Some(("/{index}/_search", Some("_nodes")))),
        (Get, "/views/_search", Some(("/{index}/_search", Some("views")))),
        (Get, "/_template/_mapping", Some(("/{index}/_mapping", Some("_template")))),
        (Get, "/_cat/*", None),
        (Get, "/a/_doc/", None),
        (Get, "/*/_doc/1", Some(("/{index}/_doc/{id}", Some("*")))),
        (Post, "/_rank_eval", Some(("/_rank_eval", None))),
        (Delete, "/", Some(("/", None))),
        (Get, "/_cat/indices/a", Some(("/_cat/indices/{index}", Some("a")))),
        (Get, "/_search/pipeline", Some(("/_search/pipeline", None))),
        (Get, "/_nosuch/path", None),
        (Get, "/_nosuch", Some(("/{index}", Some("_nosuch")))),
        (Post, "/a", None),
        (Get, "/_alias/_search", Some(("/{index}/_search", Some("_alias")))),
        (Get, "/a/b/c/d/e/f/g/h/i/j/k/l/m", None),
        (Get, "", None),
        (Get, "a/_search", None),
    ] {
        assert_eq!(find(method, path), wanted, "{method:?} {path}");
    }
}

/// Names take the place of patterns only where `index` is the one list, and where a node would not
/// refuse the patterns.
#[test]
fn operations_with_replaceable_patterns_have_one_list_and_are_not_destructive() {
    let destructive = [
        "indices:admin/delete",
        "indices:admin/close",
        "indices:admin/open",
        "indices:admin/block",
    ];
    let routes = ROUTES.all();
    let operations = routes.iter().map(|route| route.operation);
    let replaceable: Vec<_> =
        operations.filter(|operation| operation.patterns_are_replaceable).collect();
    assert!(replaceable.len() > 40, "{}", replaceable.len());
    for operation in replaceable {
        let places = operation.needs.iter().map(|need| (need.place, need.parameter));
        let is_list = |place| place == (Place::List, "index");
        assert!(
            places.clone().all(|place| is_list(place) || place == (Place::Cluster, "")),
            "{}",
            operation.name
        );
        assert!(places.clone().any(is_list), "{}", operation.name);
        let mut actions =
            operation.needs.iter().flat_map(|need| &need.actions).map(|action| action.name());
        let is_destructive =
            actions.any(|action| destructive.iter().any(|start| action.starts_with(start)));
        assert!(!is_destructive, "{}", operation.name);
    }
}

/// Each was tried on a node with a closed index and a hidden one.
#[test]
fn patterns_stand_for_what_the_operation_expands_them_to() {
    for (path, closed, hidden) in [
        ("/*/_search", false, false),
        ("/*/_settings", false, false),
        ("/*/_mapping", false, false),
        ("/*/_shard_stores", true, false),
        ("/*/_recovery", true, false),
        ("/*/_alias", true, true),
    ] {
        let options = ROUTES.find("GET", path).unwrap().route.operation.options;
        assert_eq!(
            (options.open, options.closed, options.hidden),
            (true, closed, hidden),
            "{path}"
        );
    }
}
