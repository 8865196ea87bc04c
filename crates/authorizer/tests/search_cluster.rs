//! Requests to a search cluster.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Reason, Request, RequestBody, Scratch, Verdict};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use identity::FetchedKeys;
use policy::MapFiles;

const NOW: Duration = Duration::from_secs(1_800_000_000);

/// `writer`, of whom nothing is verified, may write to `logs-*`, and `local` too from the machine itself.
fn authorizer() -> Authorizer {
    let files = MapFiles::of(
        "policy.yaml",
        "version: 1\nidentity: { basic: { verify: false } }\nsearch: { folder: cluster, hosts: [search.example.com] }\n",
    )
    .and(
        "cluster/roles.yml",
        "_meta: { type: roles, config_version: 2 }\nw:\n  cluster_permissions: [cluster_composite_ops]\n  \
         index_permissions: [{ index_patterns: ['logs-*'], allowed_actions: [crud, create_index, 'indices:admin/mapping/put'] }]\n",
    )
    .and(
        "cluster/roles_mapping.yml",
        "_meta: { type: rolesmapping, config_version: 2 }\nw: { users: [writer], hosts: ['127.0.0.*'] }\n",
    );
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

fn reason(method: &str, path: &str, user: &str, client: &str, body: RequestBody<'_>) -> Option<Reason> {
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:x")));
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/x-ndjson")];
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: method.as_bytes(),
        host: b"search.example.com",
        path: path.as_bytes(),
        headers: &headers,
        client: client.as_bytes(),
        body,
        ..Request::default()
    };
    let (authorizer, mut scratch) = (authorizer(), Scratch::default());
    match authorizer.check_inline(&request, &mut scratch, NOW) {
        Verdict::Allowed(_) => None,
        Verdict::Denied(denied) => Some(denied.reason),
    }
}

fn bulk(names: impl Iterator<Item = String>) -> String {
    let mut body = String::new();
    for name in names {
        writeln!(body, "{{\"index\":{{\"_index\":\"{name}\"}}}}\n{{}}").unwrap();
    }
    body
}

#[test]
fn the_last_index_of_a_long_bulk_counts() {
    let of = |body: &str| reason("POST", "/_bulk", "writer", "", RequestBody::Whole(body.as_bytes()));
    let many = || (0..3_000).map(|number| format!("logs-{number}"));
    assert_eq!(of(&bulk(many())), None);
    for at in [0, 1_499, 2_999] {
        let names =
            many().enumerate().map(|(number, name)| if number == at { "secret".into() } else { name });
        assert_eq!(of(&bulk(names)), Some(Reason::NotPermitted), "{at}");
    }
}

#[test]
fn a_role_may_be_mapped_to_addresses() {
    let of = |user, client| reason("GET", "/logs-1/_doc/1", user, client, RequestBody::Unseen);
    assert_eq!(of("writer", "192.0.2.1"), None);
    assert_eq!(of("other", "127.0.0.9"), None);
    for client in ["192.0.2.1", "", "127.0.0", "127.0.0.1.example.com", "127.0.0.1, 192.0.2.1"] {
        assert_eq!(of("other", client), Some(Reason::NotPermitted), "{client}");
    }
}

#[test]
fn a_body_that_was_not_sent_is_asked_for() {
    let of = |body| reason("POST", "/_bulk", "writer", "", body);
    assert_eq!(of(RequestBody::Unseen), Some(Reason::Cluster(search::Problem::BodyNeeded)));
    let empty = of(RequestBody::Whole(b""));
    assert!(matches!(empty, Some(Reason::Cluster(search::Problem::Invalid(_)))), "{empty:?}");
}
