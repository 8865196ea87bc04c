//! Bulk requests of which only some items are permitted.

use serde_json::{Value, json};

use super::search::{outcome, post, sign_in};
use super::*;

const BOTH: &str = "{\"index\":{\"_index\":\"logs-1\",\"_id\":\"1\"}}\n{\"a\":1}\n\
    {\"index\":{\"_index\":\"salaries\",\"_id\":\"2\"}}\n{\"pay\":1}\n\
    {\"delete\":{\"_index\":\"logs-1\",\"_id\":\"3\"}}\n";
const PERMITTED: &str = "{\"index\":{\"_index\":\"logs-1\",\"_id\":\"1\"}}\n{\"a\":1}\n\
    {\"delete\":{\"_index\":\"logs-1\",\"_id\":\"3\"}}\n";
const RESPONSE: &[u8] = br#"{"took":5,"errors":false,"items":[{"index":{"_index":"logs-1","_id":"1","status":201}},{"delete":{"_index":"logs-1","_id":"3","status":404}}]}"#;

fn cluster(bulk: &str) -> Test {
    let test = Test::of_cluster();
    let policy = test.folder.path().join("policy.yaml");
    let text = runtime::files::text(&policy).unwrap();
    std::fs::write(
        &policy,
        text.replace("{ folder: cluster }", &format!("{{ folder: cluster{bulk} }}")),
    )
    .unwrap();
    test
}

fn header(headers: &[(Vec<u8>, Vec<u8>)], wanted: &str) -> Option<String> {
    let found = headers.iter().find(|(name, _)| name == wanted.as_bytes());
    found.map(|(_, value)| String::from_utf8(value.clone()).unwrap())
}

#[test]
fn the_permitted_items_are_forwarded_and_the_others_have_errors() {
    let test = cluster(", bulk: per-item");
    let host = test.host(r#", "decision-log": "all""#);
    sign_in(&host);
    let length = BOTH.len().to_string();
    let stream = post(&host, "/_bulk", &[("content-length", &length), ("accept-encoding", "gzip")]);
    assert_eq!(stream.request_headers(false), hooks::STOP);
    assert_eq!(outcome(&stream, stream.request_body(BOTH.as_bytes(), true)), 200);
    assert_eq!(String::from_utf8(stream.forwarded()).unwrap(), PERMITTED);
    let other = test.host(r#", "hash-queue": 5"#);
    sign_in(&other);
    let apart = post(&other, "/_bulk", &[]).with_last_part_apart();
    apart.request_headers(false);
    let (first, rest) = BOTH.as_bytes().split_at(9);
    apart.request_body(first, false);
    assert_eq!(outcome(&apart, apart.request_body(rest, true)), 200);
    assert_eq!(String::from_utf8(apart.forwarded()).unwrap(), PERMITTED);
    let headers = stream.headers();
    assert_eq!(header(&headers, "content-length"), Some(PERMITTED.len().to_string()));
    assert_eq!(header(&headers, "accept-encoding"), None);
    assert_eq!(header(&headers, "accept").as_deref(), Some("application/json"));
    assert_eq!(header(&headers, "x-user").as_deref(), Some("ann"));

    assert_eq!(
        stream.response_headers(&[(b":status", b"200"), (b"content-length", b"1")], false),
        hooks::STOP
    );
    assert_eq!(stream.response_body(RESPONSE, true), hooks::CONTINUE);
    let (headers, body) = (stream.answer_headers(), stream.answer());
    assert_eq!(header(&headers, ":status").as_deref(), Some("200"));
    assert_eq!(header(&headers, "content-length"), Some(body.len().to_string()));
    let said: Value = serde_json::from_slice(&body).unwrap();
    let why = "no permissions for [indices:admin/create, indices:admin/mapping/put, indices:data/write/bulk[s], indices:data/write/index] \
        and User [name=ann, backend_roles=[], requestedTenant=null]";
    let error = json!({"index": {"_index": "salaries", "_id": "2", "status": 403, "error": {"type": "security_exception", "reason": why}}});
    assert_eq!((&said["took"], &said["errors"]), (&json!(5), &json!(true)));
    let statuses: Vec<_> = said["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let (operation, result) = item.as_object().unwrap().iter().next().unwrap();
            (
                operation.as_str(),
                result["_id"].as_str().unwrap(),
                result["status"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(statuses, [("index", "1", 201), ("index", "2", 403), ("delete", "3", 404)]);
    assert_eq!(said["items"][1], error);
    assert_eq!(
        [host.metric("rolegate.allowed"), host.metric("rolegate.denied.not_permitted")],
        [1, 0]
    );
    let until = Instant::now() + Duration::from_secs(60);
    let line = loop {
        let log = runtime::files::text(&test.folder.path().join("decisions")).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| line.contains("/_bulk")) {
            break serde_json::from_str::<Value>(line).unwrap();
        }
        assert!(Instant::now() < until, "no line");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(
        (&line["decision"], &line["permitted_indices"]),
        (&json!("allowed"), &json!(["logs-1"]))
    );
    assert_eq!(line["indices"], json!(["logs-1", "salaries"]));
}

/// Without the setting, or where nothing remains, and where the other needs of the request are not
/// permitted.
#[test]
fn other_requests_are_denied_as_a_whole() {
    for bulk in ["", ", bulk: whole"] {
        let test = cluster(bulk);
        let host = test.host("");
        sign_in(&host);
        let stream = post(&host, "/_bulk", &[]);
        stream.request_headers(false);
        assert_eq!(outcome(&stream, stream.request_body(BOTH.as_bytes(), true)), 403);
        assert_eq!(stream.forwarded(), b"");
    }
    let test = cluster(", bulk: per-item");
    let host = test.host("");
    sign_in(&host);
    let secret = "{\"index\":{\"_index\":\"salaries\"}}\n{}\n";
    let pipeline = BOTH.replace("\"_id\":\"1\"", "\"pipeline\":\"p\"");
    for (path, body) in [
        ("/_bulk", secret),
        ("/_bulk?filter_path=took", BOTH),
        ("/_bulk?pipeline=p", BOTH),
        ("/_bulk", &pipeline),
    ] {
        let stream = post(&host, path, &[]);
        stream.request_headers(false);
        assert_eq!(
            outcome(&stream, stream.request_body(body.as_bytes(), true)),
            403,
            "{path} {body}"
        );
        assert_eq!(stream.forwarded(), b"");
    }
}

/// The errors of so many items are larger than the response and what Envoy buffers.
#[test]
fn many_items_may_be_denied() {
    let test = cluster(", bulk: per-item");
    // For the body of the request the limit is not raised: Envoy has one for both.
    let host = test.host(r#", "max-request-body": "512KiB""#);
    sign_in(&host);
    let denied = r#"{"delete":{"_index":"salaries","_id":"\u0022\\ä"}}"#;
    let body = format!(
        "{{\"index\":{{\"_index\":\"logs-1\"}}}}\n{{}}\n{}",
        format!("{denied}\n").repeat(5_000)
    );
    let stream = post(&host, "/_bulk", &[]);
    stream.request_headers(false);
    assert_eq!(outcome(&stream, stream.request_body(body.as_bytes(), true)), 200);
    stream.response_headers(&[(b":status", b"200")], false);
    stream.response_body(br#"{"took":1,"errors":false,"items":[{"index":{"status":201}}]}"#, true);
    assert_eq!(stream.sent(), None);
    let answer = stream.answer();
    assert!(answer.len() > 1_100_000, "{}", answer.len());
    let said: Value = serde_json::from_slice(&answer).unwrap();
    let items = said["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[5_000]["delete"]["_id"]), (5_001, &json!("\"\\ä")));
}

/// What is counted is what happens.
#[test]
fn a_request_that_cannot_be_changed_is_an_error() {
    let test = cluster(", bulk: per-item");
    let host = test.host(r#", "metadata": true"#);
    sign_in(&host);
    let stream = post(&host, "/_bulk", &[]).with_frozen_headers();
    stream.request_headers(false);
    assert_eq!(outcome(&stream, stream.request_body(BOTH.as_bytes(), true)), 503);
    assert_eq!(
        [host.metric("rolegate.allowed"), host.metric("rolegate.error.unanswerable")],
        [0, 1]
    );
    assert_eq!((stream.metadata("rolegate.decision"), stream.forwarded()), (None, vec![]));
    // Nor is the response to it awaited: it is ours.
    assert_eq!(stream.response_headers(&[(b":status", b"200")], true), hooks::CONTINUE);
    assert_eq!(header(&stream.answer_headers(), ":status").as_deref(), Some("200"));
}

/// A client must not take the results of some items for those of others.
#[test]
fn a_response_to_other_items_is_not_passed_on() {
    let test = cluster(", bulk: per-item");
    let host = test.host("");
    sign_in(&host);
    let none: &[u8] = b"{\"took\":1,\"errors\":false,\"items\":[]}";
    for (status, body, expected) in
        [("200", none, "502"), ("200", b"\x1f\x8b", "502"), ("503", none, "503")]
    {
        let stream = post(&host, "/_bulk", &[]);
        stream.request_headers(false);
        assert_eq!(outcome(&stream, stream.request_body(BOTH.as_bytes(), true)), 200);
        stream.response_headers(&[(b":status", status.as_bytes())], false);
        stream.response_body(body, true);
        let (headers, answered) = (stream.answer_headers(), stream.answer());
        assert_eq!(header(&headers, ":status").as_deref(), Some(expected));
        let is_same = answered == body;
        assert_eq!(is_same, expected == "503");
        if !is_same {
            assert_eq!(serde_json::from_slice::<Value>(&answered).unwrap()["status"], 502);
        }
    }
}
