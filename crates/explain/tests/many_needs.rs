//! Requests to a search cluster that name more indices than are decided about at once.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Reason, Request, RequestBody, Scratch, Verdict};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use document::MapFiles;
use explain::{ExplainedCluster, ExplainedSubject, Explainer};
use identity::FetchedKeys;

const NOW: Duration = Duration::from_secs(1_800_000_000);
/// The length of the query of the role that hides documents.
const QUERY: usize = 2_000;

/// `ann` sees some documents of `logs-*`, of which there are this many, and all of `public-*`, but
/// not `secret`.
fn authorizer(logs: usize) -> Authorizer {
    let query = "x".repeat(QUERY);
    let roles = format!(
        "_meta: {{ type: roles, config_version: 2 }}
a:
  cluster_permissions: [cluster_composite_ops_ro]
  index_permissions:
    - {{ index_patterns: ['logs-*'], allowed_actions: [read], dls: '{{\"term\":{{\"u\":\"{query}\"}}}}' }}
    - {{ index_patterns: ['public-*'], allowed_actions: [read] }}
"
    );
    let names = all("logs", logs).chain(all("public", logs)).chain(["secret".to_owned()]);
    let indices: Vec<String> =
        names.map(|name| format!(r#"{{"name": "{name}", "attributes": ["open"]}}"#)).collect();
    let inventory =
        format!(r#"{{"indices": [{}], "aliases": [], "data_streams": []}}"#, indices.join(","));
    let files = MapFiles::new(
        "policy.yaml",
        "version: 1\nidentity: { basic: { verify: false } }\nsearch: { folder: cluster, \
         inventory: { file: inventory.json }, document_security: { header: x-hide } }\n",
    )
    .and("cluster/roles.yml", roles)
    .and(
        "cluster/roles_mapping.yml",
        "_meta: { type: rolesmapping, config_version: 2 }\na: { users: [ann] }\n",
    )
    .and("inventory.json", inventory);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

fn all(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}-{number:06}"))
}

/// The body of a request for a document of each of these indices.
fn multi_get(names: impl Iterator<Item = String>) -> String {
    let docs: Vec<String> =
        names.map(|name| format!(r#"{{"_index":"{name}","_id":"1"}}"#)).collect();
    format!(r#"{{"docs":[{}]}}"#, docs.join(","))
}

/// A request for these documents by `ann`.
fn with_request<T>(body: &str, act: impl FnOnce(&Request<'_>) -> T) -> T {
    let authorization = format!("Basic {}", BASE64_STANDARD.encode("ann:x"));
    let headers = [
        Header { name: b"authorization", value: authorization.as_bytes() },
        Header { name: b"content-type", value: b"application/json" },
    ];
    act(&Request {
        method: b"POST",
        host: b"search.example.com",
        path: b"/_mget",
        headers: &headers,
        body: RequestBody::Whole(body.as_bytes()),
        ..Request::default()
    })
}

/// Why it is denied, and what it says.
fn denied(authorizer: &Authorizer, body: &str) -> Option<(Reason, String)> {
    with_request(body, |request| {
        match authorizer.check_inline(request, &mut Scratch::default(), NOW) {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denied) => Some((denied.reason, denied.body.to_owned())),
        }
    })
}

fn explained(
    authorizer: &Authorizer,
    names: impl Iterator<Item = String>,
) -> (u16, ExplainedCluster) {
    let why = with_request(&multi_get(names), |request| {
        Explainer::new(authorizer).explain(request, ExplainedSubject::FromRequest, NOW)
    });
    (why.status, *why.cluster.unwrap())
}

/// Found by an attack: a request of 1.9 MB with 50,000 names took 1 GB, as each 500 of them added
/// 401 copies of the query.
#[test]
fn the_filters_of_a_long_request_take_a_bounded_memory() {
    let authorizer = authorizer(5_000);
    // The caller is cached, and what the role permits is known.
    assert_eq!(denied(&authorizer, &multi_get(all("public", 5_000))), None);
    let peak = |prefix: &str| {
        let (body, mut reason) = (multi_get(all(prefix, 5_000)), None);
        let counted = allocation_counter::measure(|| reason = denied(&authorizer, &body));
        (counted.bytes_max, reason)
    };
    let (without, _) = peak("public");
    let (with, reason) = peak("logs");
    let (reason, text) = reason.unwrap();
    assert_eq!(reason, Reason::DocumentSecurityTooLong);
    assert!(text.contains(&reason.to_string()), "{text}");
    let most = without + 2 * 401 * (QUERY as u64 + 1_000);
    assert!(with < most, "{with} bytes, and {without} without filters");
}

#[test]
fn what_follows_too_many_filters_is_neither_decided_about_nor_permitted() {
    let authorizer = authorizer(1_200);
    let of = |names: &mut dyn Iterator<Item = String>| {
        denied(&authorizer, &multi_get(names)).map(|(reason, _)| reason)
    };
    let secret = || ["secret".to_owned()].into_iter();
    let first_secret = ["a-secret".to_owned()].into_iter();
    // Names are decided about in alphabetical order, whatever their order in the body.
    assert_eq!(of(&mut all("logs", 1_200)), Some(Reason::DocumentSecurityTooLong));
    assert_eq!(
        of(&mut all("logs", 450).chain(all("public", 1_200))),
        Some(Reason::DocumentSecurityTooLong)
    );
    assert_eq!(of(&mut all("logs", 1_200).chain(secret())), Some(Reason::DocumentSecurityTooLong));
    // Before that, what is not permitted is the reason, also in a later chunk.
    assert_eq!(of(&mut first_secret.chain(all("logs", 1_200))), Some(Reason::NotPermitted));
    assert_eq!(
        of(&mut all("logs", 300).chain(all("public", 1_200)).chain(secret())),
        Some(Reason::NotPermitted)
    );
    assert_eq!(of(&mut all("public", 1_200).chain(secret())), Some(Reason::NotPermitted));
    assert_eq!(of(&mut all("public", 1_200)), None);
}

/// Such a request was explained by what is hidden of the names before the one that is not
/// permitted.
#[test]
fn what_is_missing_is_explained_also_behind_names_of_which_something_is_hidden() {
    let authorizer = authorizer(600);
    let secret = || ["secret".to_owned()].into_iter();
    for before in [all("logs", 600), all("logs", 100)] {
        let (status, explained) =
            explained(&authorizer, before.chain(all("public", 600)).chain(secret()));
        let missing: Vec<&str> =
            explained.missing.iter().map(|missing| missing.name.as_str()).collect();
        assert_eq!((status, &*missing), (403, &["secret"][..]));
        assert!(
            explained.granted.is_empty() && explained.filters.is_empty(),
            "{:?}",
            explained.filters
        );
    }
    // Where all is permitted, it is explained what is hidden, whatever stands before it.
    let (status, explained) = explained(&authorizer, all("public", 600).chain(all("logs", 1)));
    let filtered: Vec<&str> = explained.filters.iter().map(|filter| filter.name.as_str()).collect();
    assert_eq!((status, &*filtered), (200, &["logs-000000"][..]));
    assert!(explained.missing.is_empty() && !explained.granted.is_empty());
}

#[test]
fn the_needs_of_a_long_request_are_listed_once_and_in_their_order() {
    let authorizer = authorizer(20);
    let names = || all("new", 2_000);
    let (_, explained) = explained(&authorizer, names().chain(names()));
    assert_eq!(explained.needs.len(), 2_001, "one for the cluster");
    assert!(explained.needs.iter().skip(1).map(|need| &*need.on).eq(names()));
}
