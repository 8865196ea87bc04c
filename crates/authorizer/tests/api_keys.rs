//! Requests with API keys: which header counts, and that the application never sees it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Outcome, Reason, Request, Scratch, Verdict};
use document::MapFiles;
use identity::{CredentialsError, NewApiKey};
use policy::written;

const POLICY: &str = r#"
version: 1
identity:
  basic: { realm: people, verify: false }
  api_keys: { header: X-Key, file: keys.yaml, user_prefix: "key:" }
roles:
  anyone: { allow: [GET /open] }
  authenticated: { user_id_from: [api_keys], allow: ["GET /of/{user.id}"] }
allow_response: { set_headers: { x-user: "{user}" } }
search: { folder: cluster, hosts: [search.example.com] }
"#;

/// Basic `alice:x`.
const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6eA==");
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// The headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// A policy with a key of the user `ci`, and the key.
fn authorizer() -> (Authorizer, String) {
    let key = NewApiKey::random().unwrap();
    let entry = written::api_key(&key.id, key.hash, ("ci", &["deploy".to_owned()]), None);
    let files = MapFiles::new("policy.yaml", POLICY)
        .and("keys.yaml", format!("keys:\n  {entry}\n"))
        .and("cluster/roles.yml", "_meta: { type: roles, config_version: 2 }\n");
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let fetched = identity::FetchedKeys::new();
    let (authorizer, _) = Authorizer::compile(Arc::new(loaded), &fetched, None).unwrap();
    (authorizer, key.key.to_string())
}

/// The reason of a denial, and the names of the headers that are removed from an allowed request or
/// the challenges of a denial.
fn check(
    authorizer: &Authorizer,
    (host, path): (&str, &str),
    headers: &[(&str, &str)],
) -> (Option<Reason>, Vec<String>) {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: b"GET",
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        ..Request::default()
    };
    match authorizer.check_inline(&request, &mut Scratch::default(), NOW) {
        Verdict::Allowed(allowed) => (None, allowed.remove().map(str::to_owned).collect()),
        Verdict::Denied(denied) => {
            let challenges = denied.headers.iter().filter(|set| set.name == "www-authenticate");
            (Some(denied.reason), challenges.map(|set| set.value.to_string()).collect())
        }
    }
}

fn reason(authorizer: &Authorizer, path: &str, headers: &[(&str, &str)]) -> Option<Reason> {
    check(authorizer, ("", path), headers).0
}

#[test]
fn a_key_counts_in_its_header_alone() {
    let (authorizer, key) = authorizer();
    let right = ("x-key", key.as_str());
    let invalid = |error| Some(Reason::InvalidCredentials(error));
    let several = Some(Reason::SeveralCredentials);
    let cases: &[(&str, Headers<'_>, Option<Reason>)] = &[
        ("/of/ci", &[right], None),
        ("/of/ci", &[("X-KEY", &*key)], None),
        ("/open", &[right], None),
        ("/of/other", &[right], Some(Reason::NotAllowed)),
        // `{user.id}` is for users of keys only.
        ("/of/alice", &[ALICE], Some(Reason::NotAllowed)),
        ("/of/ci", &[("x_key", &key)], Some(Reason::MissingCredentials)),
        ("/of/ci", &[("x-api-key", &key)], Some(Reason::MissingCredentials)),
        ("/of/ci", &[("authorization", &key)], invalid(CredentialsError::UnsupportedScheme)),
        ("/open", &[("x-key", "")], invalid(CredentialsError::BadApiKey)),
        ("/open", &[("x-key", "x_y")], invalid(CredentialsError::BadApiKey)),
        ("/open", &[("x-key", &format!("{key}, {key}"))], several),
        ("/open", &[("x-key", ",")], several),
        ("/open", &[right, right], several),
        ("/open", &[right, ("X-Key", "")], several),
        ("/open", &[right, ALICE], several),
        ("/open", &[ALICE, ("x-key", "")], several),
        ("/open", &[right, ("authorization", "Bearer a.b.c")], several),
        ("/open", &[right, ("authorization", "Digest x")], several),
        ("/open", &[right, ALICE, ALICE], Some(Reason::DuplicateAuthorization)),
        ("/open", &[right, ("connection", "x-key")], Some(Reason::ConnectionHeader)),
    ];
    for (path, headers, expected) in cases {
        let shown = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(reason(&authorizer, path, headers), *expected, "{path} {shown:?}");
    }
}

#[test]
fn an_application_sees_no_key() {
    let (authorizer, key) = authorizer();
    let cases: [(Headers<'_>, &[&str]); 3] = [
        (&[("x-key", &key)], &["x-key"]),
        (&[ALICE], &["x-key"]),
        (&[("x-key", &key), ("X_Key", &key)], &["x-key", "X_Key"]),
    ];
    for (headers, expected) in cases {
        assert_eq!(check(&authorizer, ("", "/open"), headers), (None, owned(expected)));
    }
    assert_eq!(check(&authorizer, ("", "/open"), &[]), (None, owned(&["x-user", "x-key"])));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_challenge_names_the_header() {
    let (authorizer, _) = authorizer();
    let basic = r#"Basic realm="people", charset="UTF-8""#;
    let key = r#"ApiKey realm="people", header="x-key""#;
    let cases: [Headers<'_>; 2] = [&[], &[("x-key", "x_y")]];
    for headers in cases {
        assert_eq!(check(&authorizer, ("", "/of/ci"), headers).1, [basic, key]);
    }
}

#[test]
fn a_search_cluster_knows_keys_too() {
    let (authorizer, key) = authorizer();
    let cluster = |headers: &[(&str, &str)]| {
        check(&authorizer, ("search.example.com", "/a/_doc/1"), headers).0
    };
    assert_eq!(cluster(&[("x-key", &*key)]), Some(Reason::NotPermitted));
    let bad = Some(Reason::InvalidCredentials(CredentialsError::BadApiKey));
    assert_eq!(cluster(&[("x-key", "x_y")]), bad);
    assert_eq!(cluster(&[("x-key", &key), ALICE]), Some(Reason::SeveralCredentials));
    assert_eq!(cluster(&[]), Some(Reason::MissingCredentials));
}

#[test]
fn a_caller_with_a_cached_key_allocates_nothing() {
    let (authorizer, key) = authorizer();
    let headers = [Header { name: b"x-key", value: key.as_bytes() }];
    let request =
        Request { method: b"GET", path: b"/of/ci", headers: &headers, ..Request::default() };
    let mut scratch = Scratch::default();
    let mut status = || match authorizer.check(&request, None, &mut scratch, NOW) {
        Outcome::Decided(verdict) => verdict.status(),
        Outcome::Pending(_) => panic!("an API key needs no other thread"),
    };
    assert_eq!(status(), 200);
    assert_eq!(measure(|| assert_eq!(status(), 200)).count_total, 0);
}
