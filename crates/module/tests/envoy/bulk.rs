//! Bulk requests of which only some items are permitted, through real Envoys.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Stack;
use testbed::app::{ANSWER_AS_CLUSTER, App};
use testbed::client::{Answer, End, Pieces, Version};
use testbed::grpc::basic;
use testbed::policies::Example;

use super::{each_form, start, with};

/// The example of a search cluster with `bulk: per-item`.
fn policy() -> TempDir {
    let (folder, example) = (tempfile::tempdir().unwrap(), Example::named("search").unwrap());
    copy(example.file.parent().unwrap(), folder.path());
    let file = folder.path().join("policy.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("  folder: cluster\n").count(), 1);
    std::fs::write(file, text.replace("  folder: cluster\n", "  folder: cluster\n  bulk: per-item\n"))
        .unwrap();
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&place).unwrap();
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// As many items, every third of which is not permitted, and their statuses in the response.
fn bulk(items: usize) -> (String, Vec<(String, u64)>) {
    let (mut body, mut results) = (String::new(), Vec::new());
    for number in 0..items {
        let (index, status) = if number % 3 == 1 { ("salaries", 403) } else { ("logs-2026-12", 201) };
        let item = json!({ "_index": index, "_id": number.to_string() });
        body += &match number % 5 {
            0 => format!("{}\n", json!({ "delete": item })),
            _ => format!("{}\n{}\n", json!({ "index": item }), json!({ "text": "x".repeat(180) })),
        };
        results.push((number.to_string(), status));
    }
    (body, results)
}

async fn send(stack: &Stack, version: Version, body: Pieces) -> Answer {
    let more = [
        ("authorization", basic("shipper:anchor")),
        ("content-type", "application/x-ndjson".to_owned()),
        (ANSWER_AS_CLUSTER, "1".to_owned()),
        ("accept-encoding", "gzip".to_owned()),
        ("trailer", "x-checksum".to_owned()),
    ];
    let headers: Vec<_> = more.map(|(name, value)| (name.to_owned(), value)).into();
    let mut connection = stack.connect(version).await.unwrap();
    connection.send_pieces("POST", "/_bulk", "localhost", &headers, body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_item_gets_its_own_result() {
    let folder = policy();
    for options in each_form() {
        let stack = start(folder.path(), &options).await;
        for version in [Version::Http1, Version::Http2] {
            // The first request waits for its password, too. Requests and responses of the largest are larger than what Envoy buffers by
            // default.
            for (items, size) in
                [(20_000, 60_000), (2, usize::MAX), (2, 1), (300, 1_000), (20_000, usize::MAX)]
            {
                for end in [End::Data, End::Trailers] {
                    let (body, wanted) = bulk(items);
                    let before = stack.app.requests();
                    let answer = send(&stack, version, Pieces::of(body.as_bytes(), size, end)).await;
                    let shown = format!("{version:?} {items} {size} {end:?}");
                    assert_eq!((answer.status, stack.app.requests()), (200, before + 1), "{shown}");
                    let said = answer.json();
                    assert_eq!(said["errors"], true, "{shown}");
                    let results: Vec<_> = said["items"].as_array().unwrap().iter().map(result).collect();
                    assert!(results == wanted, "{shown}");
                }
            }
        }
    }
}

fn result(item: &Value) -> (String, u64) {
    let (_, result) = item.as_object().unwrap().iter().next().unwrap();
    // What was not permitted has not reached the application, and the other way round.
    assert_eq!(result["result"] == "performed", result["_index"] == "logs-2026-12", "{item}");
    (result["_id"].as_str().unwrap().to_owned(), result["status"].as_u64().unwrap())
}

/// The application is none that knows bulk requests: its response has no items.
#[tokio::test(flavor = "multi_thread")]
async fn another_response_gets_502() {
    let folder = policy();
    let stack = start(folder.path(), &with(&["hash-timeout: 15s"])).await;
    let headers =
        [("authorization", basic("shipper:anchor")), ("content-type", "application/x-ndjson".to_owned())];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    for version in [Version::Http1, Version::Http2] {
        let mut connection = stack.connect(version).await.unwrap();
        let body = Pieces::whole(bulk(3).0.as_bytes());
        let answer = connection.send_pieces("POST", "/_bulk", "localhost", &headers, body).await.unwrap();
        assert_eq!((answer.status, &answer.json()["status"]), (502, &json!(502)), "{version:?}");
        // The connection goes on.
        let body = Pieces::whole(b"{\"delete\":{\"_index\":\"logs-2026-12\",\"_id\":\"1\"}}\n");
        let answer = connection.send_pieces("POST", "/_bulk", "localhost", &headers, body).await.unwrap();
        assert_eq!(answer.status, 200, "{version:?}");
    }
}

/// Envoy answers itself where the application is away, also to a request whose response is awaited.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_away_is_no_response() {
    let folder = policy();
    let mut stack = start(folder.path(), &with(&["hash-timeout: 15s"])).await;
    // Envoy does not know the new one.
    stack.app = App::start().await.unwrap();
    let answer = send(&stack, Version::Http1, Pieces::whole(bulk(3).0.as_bytes())).await;
    assert_eq!(answer.status, 503);
}
