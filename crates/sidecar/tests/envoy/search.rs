//! Requests to a search cluster whose paths change: those that are permitted on some of their indices only, and those with a
//! pattern that is permitted only because of what the inventory has. Through a real Envoy.

use std::path::{Path, PathBuf};

use testbed::client::Version;
use testbed::grpc::basic;
use testbed::policies;

use super::{each_form, start};

/// A copy of the example `search` that reduces requests to the permitted indices.
fn reducing(folder: &Path) -> PathBuf {
    let (from, to) = (testbed::repository().join("policies/search"), folder.join("policy"));
    policies::copy(&from, &to).unwrap();
    let file = to.join("policy.yaml");
    let text = runtime::files::text(&file).unwrap();
    let reducing =
        text.replace("  folder: cluster\n", "  folder: cluster\n  do_not_fail_on_forbidden: true\n");
    assert_ne!(reducing, text);
    std::fs::write(&file, reducing).unwrap();
    file
}

/// Path, body, and the path that the application receives if the request is allowed.
const REQUESTS: [(&str, &str, Option<&str>); 8] = [
    ("/logs-2026-11/_search", "", Some("/logs-2026-11/_search")),
    ("/logs-2026-11,salaries/_search", "", Some("/logs-2026-11/_search")),
    ("/logs-2026-11%2Csalaries/_search?size=1", "", Some("/logs-2026-11/_search?size=1")),
    ("/_search", "{}", Some("/_search?index=logs-2026-10,logs-2026-11")),
    ("/logs-*/_search", "", Some("/logs-*/_search")),
    ("/l*/_search", "", Some("/logs-2026-10,logs-2026-11/_search?ignore_unavailable=true")),
    ("/salaries/_search", "", None),
    ("/logs-2026-11,salaries/_mapping", "", None),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_forwarded_with_the_permitted_indices() {
    let folder = tempfile::tempdir().unwrap();
    let policy = reducing(folder.path());
    for mut options in each_form() {
        options.envoy.with_request_body = Some(1 << 20);
        options.envoy.whole_bodies = true;
        let stack = start(&policy, &options).await;
        for version in [Version::Http1, Version::Http2] {
            let mut connection = stack.connect(version).await.unwrap();
            for (path, body, forwarded) in REQUESTS {
                let headers = [
                    ("authorization", basic("leo:harbour")),
                    ("content-type", "application/json".to_owned()),
                ];
                let headers = headers.map(|(name, value)| (name.to_owned(), value));
                let answer =
                    connection.send("GET", path, "localhost", &headers, body.as_bytes()).await.unwrap();
                assert_eq!(
                    answer.status,
                    if forwarded.is_some() { 200 } else { 403 },
                    "{version:?} {path}: {}",
                    answer.text()
                );
                if let Some(forwarded) = forwarded {
                    let echo = answer.json();
                    let received = echo["path"].as_str().unwrap();
                    assert!(received.ends_with(forwarded), "{version:?} {path}: {received}");
                    assert_eq!(echo["body"], body, "{version:?} {path}");
                }
            }
        }
        let decisions = stack.wait_for_decisions(2 * REQUESTS.len()).await.unwrap();
        let reduced: Vec<_> = decisions.iter().map(|line| line["permitted_indices"].clone()).collect();
        assert!(reduced.contains(&serde_json::json!(["logs-2026-11"])), "{reduced:?}");
    }
}
