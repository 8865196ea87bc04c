//! Tests of the table of routes, and of how a path is matched.

use std::collections::BTreeSet;

use super::*;
use crate::reading::{Request, RequestBody};
use crate::request::read;

/// The rows of the published specification: each is mapped or denied, and none is lost.
const SPECIFIED: usize = 715;
/// Its operations.
const OPERATIONS: usize = 485;

#[test]
fn each_route_of_the_specification_is_mapped_or_denied_by_name() {
    let specified: Vec<_> = ROUTES.all().filter(|(route, _)| !route.is_extra).collect();
    assert_eq!(specified.len(), SPECIFIED);
    let operations: BTreeSet<_> = specified.iter().map(|(_, group)| group.name).collect();
    assert_eq!(operations.len(), OPERATIONS);
    assert!(
        ROUTES.groups.iter().all(|group| group.needs.iter().all(|need| !need.actions.is_empty()))
    );
}

/// What needs nothing is open to everyone who is authenticated. A node answers these two itself,
/// without an action for which its security plugin could ask (3.4.0: 200 for a user without roles).
#[test]
fn only_lists_of_paths_need_nothing() {
    let mut open = BTreeSet::new();
    for (route, group) in ROUTES.all().filter(|(_, group)| group.denied.is_none()) {
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
                open.insert((group.name, method.clone(), target.clone()));
            }
        }
    }
    let list = |name, target: &str| (name, "GET".to_owned(), target.to_owned());
    assert_eq!(open, BTreeSet::from([list("cat.help", "/_cat"), list("list.help", "/_list")]));
}

#[test]
fn each_line_of_the_table_is_read() {
    let table = include_str!("../routes.txt");
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (routes, groups): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("  "));
    assert_eq!(ROUTES.groups.len(), groups.len());
    for (group, line) in ROUTES.groups.iter().zip(groups) {
        assert_eq!(Some(group.name), line.split(' ').next());
        let actions =
            line.split_whitespace().filter(|word| word.contains(':') && group.denied.is_none());
        assert_eq!(
            group.needs.iter().map(|need| need.actions.len()).sum::<usize>(),
            actions.count(),
            "{line}"
        );
    }
    let methods = routes.iter().map(|line| line.split_whitespace().count() - 1);
    assert_eq!(ROUTES.routes.len(), methods.sum::<usize>());
}

#[test]
fn each_route_is_found_by_a_path_of_its_form() {
    for (route, group) in ROUTES.all() {
        let segments =
            route.path.split('/').map(|segment| parameter_name(segment).map_or(segment, |_| "x1"));
        let path = segments.collect::<Vec<_>>().join("/").leak();
        let found = ROUTES.find(route.method, path).map(|found| found.group.name);
        assert_eq!(found, Some(group.name), "{:?} {path}", route.method);
    }
}

fn find(method: Method, path: &'static str) -> Option<(&'static str, Option<&'static str>)> {
    let found = ROUTES.find(method, path)?;
    Some((found.route.path, found.parameter("index")))
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
fn what_takes_names_has_one_list_and_is_not_destructive() {
    let destructive = [
        "indices:admin/delete",
        "indices:admin/close",
        "indices:admin/open",
        "indices:admin/block",
    ];
    let taking: Vec<&Group> = ROUTES.groups.iter().filter(|group| group.takes_names).collect();
    assert!(taking.len() > 20, "{}", taking.len());
    for group in taking {
        let places = group.needs.iter().map(|need| need.place);
        assert!(
            places.clone().all(|place| matches!(place, Place::List("index") | Place::Cluster)),
            "{}",
            group.name
        );
        assert!(places.clone().any(|place| place == Place::List("index")), "{}", group.name);
        let mut actions =
            group.needs.iter().flat_map(|need| &need.actions).map(|action| action.name());
        let is_destructive =
            actions.any(|action| destructive.iter().any(|start| action.starts_with(start)));
        assert!(!is_destructive, "{}", group.name);
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
        let options = ROUTES.find(Method::Get, path).unwrap().group.options;
        assert_eq!(
            (options.open, options.closed, options.hidden),
            (true, closed, hidden),
            "{path}"
        );
    }
}
