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
    std::fs::write(
        file,
        text.replace("  folder: cluster\n", "  folder: cluster\n  bulk: per-item\n"),
    )
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
        let (index, status) =
            if number % 3 == 1 { ("salaries", 403) } else { ("logs-2026-12", 201) };
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
            // The first request waits for its password, too. Requests and responses of the largest
            // are larger than what Envoy buffers by default.
            for (items, size) in
                [(20_000, 60_000), (2, usize::MAX), (2, 1), (300, 1_000), (20_000, usize::MAX)]
            {
                for end in [End::Data, End::Trailers] {
                    let (body, wanted) = bulk(items);
                    let before = stack.app.requests();
                    let answer =
                        send(&stack, version, Pieces::split(body.as_bytes(), size, end)).await;
                    let shown = format!("{version:?} {items} {size} {end:?}");
                    assert_eq!((answer.status, stack.app.requests()), (200, before + 1), "{shown}");
                    let said = answer.json();
                    assert_eq!(said["errors"], true, "{shown}");
                    let results: Vec<_> =
                        said["items"].as_array().unwrap().iter().map(result).collect();
                    assert!(results == wanted, "{shown}");
                }
            }
        }
    }
}

fn result(item: &Value) -> (String, u64) {
    let (_, result) = item.as_object().unwrap().iter().next().unwrap();
    // What was not permitted has not reached the application, and vice versa.
    assert_eq!(result["result"] == "performed", result["_index"] == "logs-2026-12", "{item}");
    (result["_id"].as_str().unwrap().to_owned(), result["status"].as_u64().unwrap())
}

/// The errors of the items that are not permitted may be larger than the response and what Envoy
/// buffers.
#[tokio::test(flavor = "multi_thread")]
async fn nearly_all_items_may_be_denied() {
    let folder = policy();
    let denied = 10_000;
    let body = "{\"delete\":{\"_index\":\"logs-2026-12\",\"_id\":\"0\"}}\n".to_owned()
        + &"{\"delete\":{\"_index\":\"salaries\",\"_id\":\"1\"}}\n".repeat(denied);
    for mut options in each_form() {
        // For the body of the request the limit is not raised: Envoy has one for both.
        options.arguments.push("max-request-body: 1MiB");
        let stack = start(folder.path(), &options).await;
        for version in [Version::Http1, Version::Http2] {
            for end in [End::Data, End::Trailers] {
                let answer =
                    send(&stack, version, Pieces::split(body.as_bytes(), usize::MAX, end)).await;
                assert_eq!(answer.status, 200, "{version:?} {end:?}");
                assert!(answer.body.len() > 2 << 20, "{version:?} {end:?}: {}", answer.body.len());
                let said = answer.json();
                let items = said["items"].as_array().unwrap();
                assert_eq!(items.len(), 1 + denied, "{version:?} {end:?}");
                assert_eq!(result(&items[0]), ("0".to_owned(), 201));
                assert_eq!(result(&items[denied]), ("1".to_owned(), 403));
            }
        }
    }
}

/// A filter between this one and the application, such as `ext_proc`, may have buffered the
/// response. Here it is Lua.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_another_filter_has_buffered_is_completed() {
    const BUFFERING: &str = "                  - name: lua
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
                      default_source_code: { inline_string: \"function envoy_on_response(it) it:body() end\" }
";
    let folder = policy();
    for mut options in each_form() {
        BUFFERING.clone_into(&mut options.envoy.filters);
        let stack = start(folder.path(), &options).await;
        for version in [Version::Http1, Version::Http2] {
            for items in [3, 2_000] {
                let (body, wanted) = bulk(items);
                let answer = send(&stack, version, Pieces::whole(body.as_bytes())).await;
                assert_eq!(answer.status, 200, "{version:?} {items}: {}", answer.text());
                let said = answer.json();
                let results: Vec<_> =
                    said["items"].as_array().unwrap().iter().map(result).collect();
                assert!(results == wanted, "{version:?} {items}");
            }
        }
    }
}

/// The application is none that knows bulk requests: its response has no items.
#[tokio::test(flavor = "multi_thread")]
async fn another_response_gets_502() {
    let folder = policy();
    let stack = start(folder.path(), &with(&["hash-timeout: 15s"])).await;
    let headers = [
        ("authorization", basic("shipper:anchor")),
        ("content-type", "application/x-ndjson".to_owned()),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    for version in [Version::Http1, Version::Http2] {
        let mut connection = stack.connect(version).await.unwrap();
        let body = Pieces::whole(bulk(3).0.as_bytes());
        let answer =
            connection.send_pieces("POST", "/_bulk", "localhost", &headers, body).await.unwrap();
        assert_eq!((answer.status, &answer.json()["status"]), (502, &json!(502)), "{version:?}");
        // The connection goes on.
        let body = Pieces::whole(b"{\"delete\":{\"_index\":\"logs-2026-12\",\"_id\":\"1\"}}\n");
        let answer =
            connection.send_pieces("POST", "/_bulk", "localhost", &headers, body).await.unwrap();
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
