//! Tests of the paths that are made of others.

use super::*;
use crate::reading::RequestBody;
use crate::routes::{Body, Operation, ROUTES};
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
        ("/_search?index=a,b&size=1", &["b"], "/_search?size=1&index=b"),
        ("/_search?x=1;ind%65x=a,b", &["b"], "/_search?x=1&index=b"),
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
    assert_eq!(
        narrowed(&request("/*/_search"), &[part(0, &names)]),
        None,
        "longer than a node accepts"
    );
}

/// Needs are found by their numbers: where one of them was left out, the names of another parameter
/// would be replaced.
#[test]
fn each_need_has_its_parameter() {
    let mut checked = 0;
    let is_read =
        |operation: &Operation| operation.denied.is_none() && operation.body == Body::Ignored;
    for route in ROUTES.all().into_iter().filter(|route| is_read(route.operation)) {
        let target = route.path.replace(['{', '}'], "x");
        let method = format!("{:?}", route.method).to_uppercase();
        for query in ["", "?index=a&name=b", "?version_type=external"] {
            for scrolls_are_checked in [false, true] {
                let target = format!("{target}{query}");
                let request = Request { method: &method, scrolls_are_checked, ..request(&target) };
                let (mut needs, mut none) = (Vec::new(), Vec::new());
                read(&request, &mut needs).unwrap();
                let mut lists = Vec::new();
                let mut reading = crate::request::start_reading(&request, &mut none)
                    .unwrap_or_else(|problem| panic!("{problem}"));
                read_places(&mut reading, |need, _| lists.push(need)).unwrap();
                let is_list = |need: &&Need<'_>| matches!(need.target, Target::Indices(_));
                let wanted =
                    (0..).zip(&needs).filter(|(_, need)| is_list(need)).map(|(number, _)| number);
                assert_eq!(lists, wanted.collect::<Vec<usize>>(), "{target}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}

#[test]
fn the_indices_of_a_scroll_are_not_reduced() {
    for scrolls_are_checked in [false, true] {
        let request = Request { scrolls_are_checked, ..request("/_search/scroll/abc?index=a") };
        let mut needs = Vec::new();
        read(&request, &mut needs).unwrap();
        assert_eq!(needs.len(), if scrolls_are_checked { 1 } else { 2 });
        for need in 0..2 {
            assert_eq!(narrowed(&request, &[part(need, &["a"])]), None, "{need}");
        }
    }
}
