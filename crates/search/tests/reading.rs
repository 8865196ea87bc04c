//! Reading a request allocates for what it needs, not for what it contains.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::fmt::Write;

use search::{Need, Request, read};

use crate::requests::request;

/// A bulk of items with 200 bytes each on three indices.
fn bulk(items: usize) -> String {
    let mut body = String::new();
    for item in 0..items {
        let (index, text) = (item % 3, "x".repeat(200));
        writeln!(
            body,
            "{{\"index\":{{\"_index\":\"logs-{index}\",\"_id\":\"{item}\"}}}}\n{{\"f\":\"{text}\"}}"
        )
        .unwrap();
    }
    body
}

/// How often reading a request allocates, once routes and the list of needs are there.
fn allocations<'a>(request: &Request<'a>, needs: &mut Vec<Need<'a>>) -> u64 {
    needs.clear();
    read(request, needs).unwrap();
    let counted = allocation_counter::measure(|| {
        needs.clear();
        read(request, needs).unwrap();
    });
    counted.count_total
}

#[test]
fn a_search_allocates_nothing() {
    let query =
        r#"{"query":{"bool":{"filter":[{"terms":{"f":{"index":"other","id":"1","path":"p"}}}]}}}"#;
    for (method, target, body) in [
        ("GET", "/logs-a/_search", ""),
        (
            "GET",
            "/logs-*,-logs-old/_search?expand_wildcards=open,hidden&ignore_unavailable=true",
            "",
        ),
        ("GET", "/_search?index=logs-a", ""),
        ("GET", "/logs-a/_doc/1", ""),
        ("POST", "/logs-a/_search", query),
        ("PUT", "/logs-a/_doc/1", r#"{"f":1}"#),
        ("GET", "/_cluster/health", ""),
    ] {
        assert_eq!(
            allocations(&request(method, target, body), &mut Vec::new()),
            0,
            "{method} {target} {body}"
        );
    }
}

#[test]
fn a_bulk_allocates_nothing_per_item() {
    let (few, many) = (bulk(10), bulk(1_000));
    let few = allocations(&request("POST", "/_bulk", &few), &mut Vec::new());
    let many = allocations(&request("POST", "/_bulk", &many), &mut Vec::new());
    assert_eq!(few, many);
    assert!(few <= 4, "{few} allocations");
}
