//! Requests to a search cluster whose paths change: those that are permitted on some of their
//! indices only, and those with a pattern that is permitted only because of what the inventory has.
//! Through a real Envoy.

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
    let reducing = text
        .replace("  folder: cluster\n", "  folder: cluster\n  do_not_fail_on_forbidden: true\n");
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
                let answer = connection
                    .send("GET", path, "localhost", &headers, body.as_bytes())
                    .await
                    .unwrap();
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
        let reduced: Vec<_> =
            decisions.iter().map(|line| line["permitted_indices"].clone()).collect();
        assert!(reduced.contains(&serde_json::json!(["logs-2026-11"])), "{reduced:?}");
    }
}

/// Clients and libraries of OpenSearch understand denials because they look as those of its
/// security plugin.
#[tokio::test(flavor = "multi_thread")]
async fn denials_look_as_those_of_the_security_plugin() {
    let policy = testbed::repository().join("policies/search/policy.yaml");
    for mut options in each_form() {
        options.envoy.with_request_body = Some(1 << 20);
        options.envoy.whole_bodies = true;
        let stack = start(&policy, &options).await;
        let mut connection = stack.connect(Version::Http2).await.unwrap();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for credentials in [None, Some(basic("leo:wrong")), Some(basic("nobody:harbour"))] {
            let headers: Vec<_> =
                credentials.iter().map(|value| header("authorization", value)).collect();
            let answer =
                connection.send("GET", "/_search", "localhost", &headers, b"").await.unwrap();
            assert_eq!((answer.status, &*answer.text()), (401, "Unauthorized"), "{credentials:?}");
            assert_eq!(answer.header("content-type").as_deref(), Some("text/plain; charset=UTF-8"));
            // The plugin does not name the character set.
            let challenge = "Basic realm=\"OpenSearch Security\", charset=\"UTF-8\"";
            assert_eq!(answer.header("www-authenticate").as_deref(), Some(challenge));
        }
        for (user, method, path, body, reason) in DENIED {
            let headers =
                [header("authorization", &basic(user)), header("content-type", "application/json")];
            let answer = connection
                .send(method, path, "localhost", &headers, body.as_bytes())
                .await
                .unwrap();
            let error = serde_json::json!({ "type": "security_exception", "reason": reason });
            let mut expected = serde_json::json!({ "error": error, "status": 403 });
            expected["error"]["root_cause"] = serde_json::json!([error]);
            assert_eq!(
                (answer.status, answer.json()),
                (403, expected),
                "{method} {path}: {}",
                answer.text()
            );
            assert_eq!(
                answer.header("content-type").as_deref(),
                Some("application/json; charset=UTF-8")
            );
        }
    }
}

/// User, method, path, body, and why it is denied.
const DENIED: [(&str, &str, &str, &str, &str); 4] = [
    (
        "leo:harbour",
        "GET",
        "/salaries/_search",
        "",
        "no permissions for [indices:data/read/search] and User [name=leo, backend_roles=[oncall], requestedTenant=null]",
    ),
    (
        "shipper:anchor",
        "DELETE",
        "/logs-2026-11",
        "",
        "no permissions for [indices:admin/delete] and User [name=shipper, backend_roles=[], requestedTenant=null]",
    ),
    (
        "shipper:anchor",
        "GET",
        "/_cluster/health",
        "",
        "no permissions for [cluster:monitor/health] and User [name=shipper, backend_roles=[], requestedTenant=null]",
    ),
    (
        "leo:harbour",
        "POST",
        "/_bulk",
        "{\"index\":{\"_index\":\"salaries\"}}\n{\"a\":1}\n",
        "no permissions for [indices:admin/mapping/put, indices:data/write/bulk, indices:data/write/bulk[s], indices:data/write/index] and \
         User [name=leo, backend_roles=[oncall], requestedTenant=null]",
    ),
];
