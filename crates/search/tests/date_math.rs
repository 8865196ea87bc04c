//! Date math in the names of indices, which a node resolves again.

use search::{Problem, Request, RequestBody, depends_on_body};

use crate::needs::{assert_denied, assert_needs, needs, needs_of};
use crate::requests::request;

#[test]
fn date_math_is_resolved_before_it_is_compared() {
    assert_needs("GET", "/%3Csecret%3E/_doc/1", "", "indices:data/read/get on secret");
    assert_needs(
        "GET",
        "/%3Csecret-%7Bnow%2Fd%7D%3E/_search",
        "",
        "indices:data/read/search on [secret-2026.01.01]",
    );
    assert_denied("GET", "/%3Csecret-%7Bnow%2Fd%7BEEE%7D%7D%3E/_search", "");
    assert_denied("GET", "/*,-%3Csecret%3E/_search", "");
}

/// A client that sends the rest later would choose the moment at which the node resolves it.
#[test]
fn date_math_is_decided_once_the_request_is_complete() {
    for target in ["/<logs-{now}>/_doc/1", "/<logs-{now}>/_search", "/_count?index=<logs-{now}>"] {
        let whole = request("GET", target, "");
        assert!(needs_of(&whole).is_ok(), "{target}");
        assert_eq!(
            needs_of(&Request { body: RequestBody::Pending, ..whole }),
            Err(Problem::BodyNeeded)
        );
        assert!(
            needs_of(&Request { body: RequestBody::Unavailable, ..whole }).is_err(),
            "{target}"
        );
        // The end of each is waited for, and only the body of a search says what it needs.
        assert_eq!(depends_on_body(&whole), !target.contains("_doc"), "{target}");
    }
}

/// A node resolves it anew for each search of `_msearch`, for each batch of `_reindex`, at each
/// attempt of `_update`, after the indices of a bulk request are made, and after the look-ups of
/// `_explain`. A client can draw that out until the name is another one.
#[test]
fn date_math_is_denied_where_a_node_resolves_it_later() {
    let name = "<logs-{now/d}>";
    let in_path = name.replace('/', "%2F");
    for (method, path, body) in [
        ("POST", "_msearch", "{}\n{}\n"),
        ("POST", "_msearch/template", "{}\n{}\n"),
        ("POST", "_update/1", r#"{"doc":{}}"#),
        ("POST", "_bulk", "{\"index\":{}}\n{}\n"),
        ("PUT", "_doc/1", "{}"),
        ("POST", "_doc", "{}"),
        ("DELETE", "_doc/1", ""),
        ("POST", "_update_by_query", ""),
        ("POST", "_delete_by_query", r#"{"query":{"match_all":{}}}"#),
        ("POST", "_rank_eval", r#"{"requests":[]}"#),
        ("GET", "_mget", r#"{"ids":["1"]}"#),
        ("GET", "_explain/1?q=a", ""),
        ("PUT", "", ""),
        ("DELETE", "", ""),
        ("POST", "_refresh", ""),
    ] {
        assert_denied(method, &format!("/{in_path}/{path}"), body);
    }
    assert_denied("POST", &format!("/logs/_rollover/{in_path}"), "");
    assert_denied("GET", &format!("/_cat/indices/{in_path}"), "");
    for (path, body) in [
        ("/_msearch", format!("{{\"index\":\"{name}\"}}\n{{}}\n")),
        ("/_bulk", format!("{{\"index\":{{\"_index\":\"{name}\"}}}}\n{{}}\n")),
        ("/_mget", format!(r#"{{"docs":[{{"_index":"{name}","_id":"1"}}]}}"#)),
        ("/_reindex", format!(r#"{{"source":{{"index":"a"}},"dest":{{"index":"{name}"}}}}"#)),
        ("/_reindex", format!(r#"{{"source":{{"index":"{name}"}},"dest":{{"index":"a"}}}}"#)),
        ("/_aliases", format!(r#"{{"actions":[{{"add":{{"index":"{name}","alias":"a"}}}}]}}"#)),
        (
            "/a/_search",
            format!(r#"{{"query":{{"terms":{{"f":{{"index":"{name}","id":"1","path":"f"}}}}}}}}"#),
        ),
    ] {
        assert_denied("POST", path, &body);
    }
}

/// A node takes filters and routing of an alias by the time after it has looked documents up for
/// the query.
#[test]
fn date_math_is_denied_beside_a_look_up() {
    let target = "/%3Clogs-%7Bnow%2Fd%7D%3E/_search";
    assert!(needs("POST", target, r#"{"query":{"match_all":{}}}"#).is_ok());
    for body in [
        r#"{"query":{"terms":{"f":{"index":"a","id":"1","path":"f"}}}}"#,
        r#"{"query":{"more_like_this":{"like":[{"_index":"a","_id":"1"}]}}}"#,
    ] {
        assert!(needs("POST", "/a/_search", body).is_ok(), "{body}");
        assert_denied("POST", target, body);
    }
    assert!(needs("GET", "/a/_search?search_pipeline=p", "").is_ok());
    assert_denied("GET", &format!("{target}?search_pipeline=p"), "");
}
