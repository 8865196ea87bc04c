//! Tokens in headers and cookies of their own: which of them counts, and what the application sees.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Outcome, Reason, Request, Scratch, Verdict};
use document::MapFiles;
use identity::{CredentialsError, NewApiKey};
use policy::written;
use testbed::tokens::{AUDIENCE, ISSUER, Signer, now};

/// The keys, made once.
static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::default);

const EVERYWHERE: &str =
    "token_from: [{ header: authorization }, { header: X-Access-Token }, { cookie: session }]";

/// A policy that reads tokens in these places, and removes these cookies.
fn authorizer(places: &str, removed: &str) -> (Authorizer, String) {
    let policy = format!(
        r#"
version: 1
identity:
  basic: {{ realm: people, verify: false }}
  api_keys: {{ header: x-key, file: keys.yaml }}
  jwt: [{{ issuer: '{ISSUER}', audiences: ['{AUDIENCE}'], keys: {{ file: jwks.json }} }}]
  {places}
roles: {{ anyone: {{ allow: [GET /open] }}, authenticated: {{ allow: [GET /private] }} }}
allow_response: {{ set_headers: {{ x-user: "{{user}}" }}, remove_headers: [x-access-token], remove_cookies: [{removed}] }}
search: {{ folder: cluster, hosts: [search.example.com] }}
"#
    );
    let key = NewApiKey::random().unwrap();
    let entry = written::api_key(&key.id, key.hash, ("ci", &[]), None);
    let files = MapFiles::new("policy.yaml", policy)
        .and("jwks.json", SIGNER.key_set())
        .and("keys.yaml", format!("keys:\n  {entry}\n"))
        .and("cluster/roles.yml", "_meta: { type: roles, config_version: 2 }\n");
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let fetched = identity::FetchedKeys::new();
    (Authorizer::compile(Arc::new(loaded), &fetched, None).unwrap().0, key.key.to_string())
}

fn time() -> Duration {
    Duration::from_secs(now())
}

/// A valid token, without a scheme.
fn token() -> String {
    SIGNER.bearer("ES256", now()).split_once(' ').unwrap().1.to_owned()
}

/// Checks a request, and runs the verification that it needs, as a server does.
fn with_verdict<R>(
    authorizer: &Authorizer,
    (host, path): (&str, &str),
    headers: &[(&str, &str)],
    read: impl Fn(Verdict<'_>) -> R,
) -> R {
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
    let mut scratch = Scratch::default();
    let result = match authorizer.check(&request, None, &mut scratch, time()) {
        Outcome::Decided(verdict) => return read(verdict),
        Outcome::Pending(verification) => verification.run(),
    };
    match authorizer.check(&request, Some(&result), &mut scratch, time()) {
        Outcome::Decided(verdict) => read(verdict),
        Outcome::Pending(_) => panic!("the result counts"),
    }
}

fn reason(authorizer: &Authorizer, path: &str, headers: &[(&str, &str)]) -> Option<Reason> {
    with_verdict(authorizer, ("", path), headers, |verdict| match verdict {
        Verdict::Allowed(_) => None,
        Verdict::Denied(denied) => Some(denied.reason),
    })
}

/// The headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

#[test]
fn exactly_one_place_has_the_token() {
    let (authorizer, key) = authorizer(EVERYWHERE, "");
    let token = &*token();
    let (bearer, cookie) = (&*format!("Bearer {token}"), &*format!("session={token}"));
    let between = &*format!("a=1; session={token}; b=\"2\"");
    let several = Some(Reason::SeveralCredentials);
    let malformed = Some(Reason::InvalidCredentials(CredentialsError::MalformedToken));
    let missing = Some(Reason::MissingCredentials);
    let cases: &[(Headers<'_>, Option<Reason>)] = &[
        (&[("authorization", bearer)], None),
        (&[("x-access-token", token)], None),
        (&[("X-ACCESS-TOKEN", token)], None),
        (&[("cookie", cookie)], None),
        (&[("Cookie", between)], None),
        (&[("cookie", "a=1"), ("cookie", cookie), ("cookie", "b=2")], None),
        (&[("authorization", "Basic YWxpY2U6eA=="), ("cookie", "a=1")], None),
        (&[("x-key", &key), ("cookie", "a=1")], None),
        // Nothing is there.
        (&[("cookie", "a=1; Session=x; xsession=y; b=session=z")], missing),
        (&[("x_access_token", token)], missing),
        (&[("x-access-tokens", token)], missing),
        // The token is alone.
        (&[("x-access-token", bearer)], malformed),
        (&[("cookie", &format!("session={bearer}"))], malformed),
        (&[("cookie", &format!("session=\"{token}\""))], malformed),
        (&[("x-access-token", "")], malformed),
        (&[("cookie", "session=")], malformed),
        (&[("cookie", "session")], malformed),
        (&[("cookie", &format!("session={token}, session={token}"))], malformed),
        // There are two.
        (&[("authorization", bearer), ("x-access-token", token)], several),
        (&[("authorization", bearer), ("cookie", cookie)], several),
        (&[("x-access-token", token), ("cookie", cookie)], several),
        (&[("x-access-token", token), ("x-access-token", token)], several),
        (&[("x-access-token", &format!("{token},{token}"))], several),
        (&[("cookie", &format!("{cookie}; {cookie}"))], several),
        (&[("cookie", &format!("{cookie};session ="))], several),
        (&[("cookie", cookie), ("Cookie", "session=x")], several),
        (&[("authorization", "Basic YWxpY2U6eA=="), ("cookie", cookie)], several),
        (&[("authorization", ""), ("cookie", cookie)], several),
        (&[("x-key", &key), ("cookie", cookie)], several),
        (&[("x-key", &key), ("x-access-token", "")], several),
    ];
    for (number, (headers, expected)) in cases.iter().enumerate() {
        assert_eq!(reason(&authorizer, "/private", headers), *expected, "case {number}");
    }
}

#[test]
fn by_default_only_the_authorization_header_has_tokens() {
    let (authorizer, _) = authorizer("", "");
    let (token, missing) = (&*token(), Some(Reason::MissingCredentials));
    let bearer = &*format!("Bearer {token}");
    let cookie = &*format!("session={token}");
    assert_eq!(reason(&authorizer, "/private", &[("authorization", bearer)]), None);
    assert_eq!(reason(&authorizer, "/private", &[("x-access-token", token)]), missing);
    assert_eq!(reason(&authorizer, "/private", &[("cookie", cookie)]), missing);
}

#[test]
fn a_place_that_is_not_named_has_no_tokens() {
    let (authorizer, _) = authorizer("token_from: [{ cookie: session }]", "");
    let token = &*token();
    let bearer = &*format!("Bearer {token}");
    let unsupported = Some(Reason::InvalidCredentials(CredentialsError::UnsupportedScheme));
    for path in ["/private", "/open"] {
        assert_eq!(reason(&authorizer, path, &[("authorization", bearer)]), unsupported);
    }
    let cookie = &*format!("session={token}");
    assert_eq!(reason(&authorizer, "/private", &[("cookie", cookie)]), None);
    // Also when the cookie's token is cached.
    assert_eq!(reason(&authorizer, "/private", &[("authorization", bearer)]), unsupported);
    let basic = ("authorization", "Basic YWxpY2U6eA==");
    assert_eq!(reason(&authorizer, "/private", &[basic]), None);
}

#[test]
fn a_value_means_nothing_else_in_another_place() {
    let (authorizer, key) = authorizer(EVERYWHERE, "");
    let (token, basic) = (token(), "Basic YWxpY2U6eA==");
    let bearer = format!("Bearer {token}");
    let mut scratch = Scratch::default();
    let mut status = |name: &str, value: &str| {
        let headers = [Header { name: name.as_bytes(), value: value.as_bytes() }];
        let request =
            Request { method: b"GET", path: b"/private", headers: &headers, ..Request::default() };
        match authorizer.check(&request, None, &mut scratch, time()) {
            Outcome::Decided(verdict) => return verdict.status(),
            Outcome::Pending(verification) => {
                authorizer.cache_result(&verification.run(), time());
            }
        }
        authorizer.check_inline(&request, &mut scratch, time()).status()
    };
    // All of them are cached then by the thread, which compares hashes.
    for _ in 0..2 {
        for (name, value) in [
            ("authorization", basic),
            ("authorization", &bearer),
            ("x-key", &*key),
            ("x-access-token", &token),
        ] {
            assert_eq!(status(name, value), 200, "{name}");
        }
    }
    for (name, value) in [
        ("x-access-token", basic),
        ("x-access-token", &bearer),
        ("x-access-token", &key),
        ("authorization", &token),
        ("authorization", &key),
        ("x-key", &token),
        ("x-key", &bearer),
    ] {
        assert_eq!(status(name, value), 401, "{name}");
    }
}

#[test]
fn the_application_sees_the_other_cookies_only() {
    let (authorizer, _) = authorizer(EVERYWHERE, "session, trace");
    let token = token();
    let cookie = format!("a=\"1 2\";session={token}; trace=1; b=é");
    let seen = |headers: &[(&str, &str)]| {
        with_verdict(&authorizer, ("", "/open"), headers, |verdict| {
            let Verdict::Allowed(allowed) = verdict else { panic!("{verdict:?}") };
            let set = allowed.set().filter(|(name, _)| *name == "cookie");
            let set: Vec<_> = set.map(|(_, value)| value.to_owned()).collect();
            let removed: Vec<_> = allowed.remove().map(str::to_owned).collect();
            (set, removed.iter().any(|name| name == "cookie"))
        })
    };
    assert_eq!(seen(&[("cookie", &cookie)]), (vec!["a=\"1 2\"; b=é".to_owned()], false));
    assert_eq!(seen(&[("Cookie", "trace=1")]), (vec![], true));
    assert_eq!(seen(&[("cookie", "trace=1"), ("cookie", "c")]), (vec!["c".to_owned()], false));
    assert_eq!(seen(&[("cookie", "a=1; traces=2")]), (vec![], false));
    assert_eq!(seen(&[]), (vec![], false));
    let undone = reason(&authorizer, "/open", &[("connection", "Cookie")]);
    assert_eq!(undone, Some(Reason::ConnectionHeader));
    let lines = [Header { name: b"cookie", value: b"trace=1; a=\xff" }];
    let request = Request { method: b"GET", path: b"/open", headers: &lines, ..Request::default() };
    let mut scratch = Scratch::default();
    let verdict = authorizer.check_inline(&request, &mut scratch, time());
    assert!(matches!(verdict, Verdict::Denied(denied) if denied.reason == Reason::InvalidCookies));
}

#[test]
fn a_search_cluster_reads_the_same_places() {
    let (authorizer, _) = authorizer(EVERYWHERE, "");
    let cluster = |headers: &[(&str, &str)]| {
        let target = ("search.example.com", "/a/_doc/1");
        with_verdict(&authorizer, target, headers, |verdict| verdict.status())
    };
    let cookie = format!("session={}", token());
    assert_eq!(cluster(&[("cookie", &*cookie)]), 403);
    assert_eq!(cluster(&[("cookie", "session=x")]), 401);
    assert_eq!(cluster(&[("cookie", &*cookie), ("x-access-token", "x")]), 400);
}

#[test]
fn a_cached_caller_with_a_cookie_allocates_nothing() {
    let (authorizer, _) = authorizer(EVERYWHERE, "session");
    let cookie = format!("a=1; session={}; b=2", token());
    let headers = [Header { name: b"cookie", value: cookie.as_bytes() }];
    let request =
        Request { method: b"GET", path: b"/private", headers: &headers, ..Request::default() };
    let mut scratch = Scratch::default();
    let Outcome::Pending(verification) = authorizer.check(&request, None, &mut scratch, time())
    else {
        panic!("a new token must be verified")
    };
    authorizer.cache_result(&verification.run(), time());
    let mut status = || match authorizer.check(&request, None, &mut scratch, time()) {
        Outcome::Decided(verdict) => verdict.status(),
        Outcome::Pending(_) => panic!("the token is cached"),
    };
    assert_eq!(status(), 200);
    assert_eq!(measure(|| assert_eq!(status(), 200)).count_total, 0);
}
