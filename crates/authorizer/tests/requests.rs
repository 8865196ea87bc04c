//! The status and the reason of requests, and which parts of a request decide and which never do.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Limit, Outcome, Reason, Request, Scratch, Verdict};
use identity::{CredentialsError, VerificationResult};
use policy::canonical::{HostError, PathError};
use testbed::tokens::{AUDIENCE, ISSUER, Signer};

const POLICY: &str = r#"
version: 1
identity:
  basic:
    realm: people
    users: { alice: { password: "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=" } }
roles:
  anyone: { allow: [GET /open/**, OPTIONS *], deny: [GET /open/closed] }
  guest: { allow: [GET /people, "GET /users/{user}", "* internal.example.com/**"] }
grants: { guest: { users: [alice] } }
"#;

/// Basic `alice:wonderland`.
const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6d29uZGVybGFuZA==");
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn authorizer() -> Authorizer {
    authorizer_of(POLICY)
}

fn authorizer_of(policy: &str) -> Authorizer {
    compiled(&document::MapFiles::new("policy.yaml", policy))
}

fn compiled(files: &document::MapFiles) -> Authorizer {
    let loaded = policy::load(files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

/// A request: method, host, path and headers.
type TestRequest<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)]);

/// The status of a request, and the reason if it is denied.
fn check(
    authorizer: &Authorizer,
    (method, host, path, headers): TestRequest<'_>,
) -> (u16, Option<Reason>) {
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: method.as_bytes(),
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let inline = answer(&authorizer.check_inline(&request, &mut scratch, NOW));
    // As a server does it.
    let mut scratch = Scratch::default();
    let result = match authorizer.check(&request, None, &mut scratch, NOW) {
        Outcome::Pending(verification) => Some(verification.run()),
        Outcome::Decided(_) => None,
    };
    match authorizer.check(&request, result.as_ref(), &mut scratch, NOW) {
        Outcome::Decided(verdict) => assert_eq!(answer(&verdict), inline),
        Outcome::Pending(_) => panic!("verified twice"),
    }
    inline
}

fn answer(verdict: &Verdict<'_>) -> (u16, Option<Reason>) {
    let reason = match verdict {
        Verdict::Allowed(_) => None,
        Verdict::Denied(denied) => Some(denied.reason),
    };
    (verdict.status(), reason)
}

#[track_caller]
fn assert_all(cases: &[(TestRequest<'_>, Option<Reason>)]) {
    let authorizer = authorizer();
    for (request, expected) in cases {
        let status = expected.map_or(200, Reason::status);
        assert_eq!(check(&authorizer, *request), (status, *expected), "{request:?}");
    }
}

#[test]
fn a_request_without_credentials_is_anonymous_and_one_with_invalid_credentials_is_denied() {
    let invalid = Some(Reason::InvalidCredentials(CredentialsError::BadPassword));
    let wrong = [("authorization", "Basic YWxpY2U6d3Jvbmc=")];
    let bearer = [("authorization", "Bearer a.b.c")];
    let unsupported = Some(Reason::InvalidCredentials(CredentialsError::UnsupportedScheme));
    assert_all(&[
        (("GET", "", "/people", &[ALICE]), None),
        (("GET", "", "/people", &[("AUTHORIZATION", ALICE.1)]), None),
        (("GET", "", "/people", &[]), Some(Reason::MissingCredentials)),
        (("POST", "", "/people", &[ALICE]), Some(Reason::NotAllowed)),
        (("GET", "", "/open/x", &[]), None),
        (("GET", "", "/open/x", &[ALICE]), None),
        (("GET", "", "/open/closed", &[]), Some(Reason::MissingCredentials)),
        (("GET", "", "/open/closed", &[ALICE]), Some(Reason::Denied)),
        (("GET", "", "/open/x", &wrong), invalid),
        (("GET", "", "/people", &wrong), invalid),
        (("GET", "", "/open/x", &bearer), unsupported),
        (("GET", "", "/open/x", &[("authorization", "Negotiate abc")]), unsupported),
        (("GET", "", "/users/alice", &[ALICE]), None),
        (("GET", "", "/users/%61lice", &[ALICE]), None),
        (("GET", "", "/users/bob", &[ALICE]), Some(Reason::NotAllowed)),
        (("GET", "", "/users/alice;x", &[ALICE]), Some(Reason::NotAllowed)),
    ]);
    let authorizer = authorizer();
    let empty = check(&authorizer, ("GET", "", "/open/x", &[("authorization", "")]));
    assert_eq!(empty.0, 401, "an empty header is invalid, not missing");
}

#[test]
fn more_than_one_authorization_header_is_denied() {
    // RFC 9110, 5.3 and 11.6.2: it is not a list.
    let duplicate = Some(Reason::DuplicateAuthorization);
    let joined = format!("{0}, {0}", ALICE.1);
    assert_all(&[
        (("GET", "", "/people", &[ALICE, ALICE]), duplicate),
        (("GET", "", "/people", &[ALICE, ("Authorization", "Bearer x")]), duplicate),
        (("GET", "", "/open/x", &[ALICE, ("AUTHORIZATION", "")]), duplicate),
        (("GET", "", "/people", &[("authorization", &joined)]), duplicate),
        (("GET", "", "/people", &[("authorization", &format!("{},", ALICE.1))]), duplicate),
        (("GET", "", "/people", &[("authorization", ",")]), duplicate),
        (
            ("GET", "", "/people", &[("authorization", &format!("bearer x, {}", ALICE.1))]),
            duplicate,
        ),
        (("GET", "", "/people", &[("authorization", "Digest,Basic YTpi")]), duplicate),
        (("GET", "", "/people", &[("authorization", &format!(",{}", ALICE.1))]), duplicate),
    ]);
    // Schemes whose credentials have commas (RFC 7616, 3.4; AWS Signature Version 4) are not
    // supported, so one of them in front of other credentials is denied as well.
    let unsupported = Some(Reason::InvalidCredentials(CredentialsError::UnsupportedScheme));
    assert_all(&[
        (
            (
                "GET",
                "",
                "/open/x",
                &[("authorization", "Digest username=\"alice\", realm=\"people\"")],
            ),
            unsupported,
        ),
        (
            (
                "GET",
                "",
                "/open/x",
                &[("authorization", "AWS4-HMAC-SHA256 Credential=a, Signature=b")],
            ),
            unsupported,
        ),
        (
            ("GET", "", "/people", &[("authorization", &format!("Digest a=b, {}", ALICE.1))]),
            unsupported,
        ),
    ]);
}

#[test]
fn control_bytes_are_denied() {
    let control = Some(Reason::ControlBytes);
    for value in ["Basic YQ\u{0}", "Basic\tYQ==", "Basic YQ==\r\nx: y", "\u{7f}"] {
        assert_all(&[(("GET", "", "/open/x", &[("authorization", value)]), control)]);
    }
    for method in ["", "GE T", "GET\r\n", "GET\0", "G\u{e9}T", "GET,POST", "(GET)", "GET/"] {
        assert_all(&[((method, "", "/open/x", &[]), Some(Reason::InvalidMethod))]);
    }
    assert_all(&[
        (("GET", "", "/open/\u{1}", &[]), Some(Reason::InvalidPath(PathError::ForbiddenByte))),
        (("GET", "a\u{1}", "/open/x", &[]), Some(Reason::InvalidHost(HostError))),
    ]);
}

/// `check` validates a value only if it is not that of a known caller. That is right only because
/// no value that is invalid authenticates anybody, in any way.
#[test]
fn a_value_that_is_no_credentials_is_denied_for_the_same_reason_where_the_caller_is_known() {
    let basic = authorizer();
    assert_no_other_byte_is_accepted(&basic, ALICE.1);
    let carried_over = Authorizer::compile(
        Arc::clone(basic.loaded()),
        &identity::FetchedKeys::new(),
        Some(&basic),
    );
    assert_no_other_byte_is_accepted(&carried_over.unwrap().0, ALICE.1);
    assert_no_other_byte_is_accepted(
        &authorizer_of(&POLICY.replace("realm: people", "verify: false")),
        ALICE.1,
    );

    let signer = Signer::default();
    let (tokens, bearer) = (authorizer_of_tokens(&signer), signer.bearer("ES256", NOW.as_secs()));
    assert_no_other_byte_is_accepted(&tokens, &bearer);
    // Too long for the cache of the thread.
    let long = bearer.replacen(' ', &" ".repeat(20_000), 1);
    assert!(matches!(
        tokens.check_inline(&people(&[authorization(&long)]), &mut Scratch::default(), NOW),
        Verdict::Allowed(_)
    ));
    assert_denied(
        &tokens,
        &format!("{long},"),
        None,
        &mut Scratch::default(),
        Reason::DuplicateAuthorization,
    );
}

/// Nothing is verified for them, so that nothing waits.
#[test]
fn two_tokens_and_control_bytes_are_denied_before_a_token_is_verified() {
    let tokens = authorizer_of_tokens(&Signer::default());
    let mut scratch = Scratch::default();
    for (value, reason) in [
        ("Bearer a.b.c,Bearer a.b.c", Reason::DuplicateAuthorization),
        ("Bearer a.b.c, Basic YTpi", Reason::DuplicateAuthorization),
        ("Bearer a.b.\0", Reason::ControlBytes),
        ("Bearer \ta.b.c", Reason::ControlBytes),
    ] {
        assert_denied(&tokens, value, None, &mut scratch, reason);
    }
}

/// Makes the caller with this value known, then inserts a comma and each control byte at each place
/// of it.
#[track_caller]
fn assert_no_other_byte_is_accepted(authorizer: &Authorizer, value: &str) {
    let scratch = &mut Scratch::default();
    let verified = match authorizer.check(&people(&[authorization(value)]), None, scratch, NOW) {
        Outcome::Pending(verification) => Some(verification.run()),
        Outcome::Decided(_) => None,
    };
    for _ in 0..2 {
        let headers = [authorization(value)];
        let outcome = authorizer.check(&people(&headers), verified.as_ref(), scratch, NOW);
        assert!(matches!(outcome, Outcome::Decided(Verdict::Allowed(_))));
    }
    for place in 0..=value.len() {
        for byte in ('\0'..' ').chain([',', '\u{7f}']) {
            let mut value = value.to_owned();
            value.insert(place, byte);
            let reason =
                if byte == ',' { Reason::DuplicateAuthorization } else { Reason::ControlBytes };
            for result in [None, verified.as_ref()] {
                assert_denied(authorizer, &value, result, scratch, reason);
            }
        }
    }
}

#[track_caller]
fn assert_denied(
    authorizer: &Authorizer,
    value: &str,
    result: Option<&VerificationResult>,
    scratch: &mut Scratch,
    reason: Reason,
) {
    match authorizer.check(&people(&[authorization(value)]), result, scratch, NOW) {
        Outcome::Decided(Verdict::Denied(denied)) => assert_eq!(denied.reason, reason, "{value:?}"),
        Outcome::Decided(Verdict::Allowed(_)) | Outcome::Pending(_) => panic!("{value:?}"),
    }
}

fn authorizer_of_tokens(signer: &Signer) -> Authorizer {
    let policy = format!(
        "version: 1
identity:
  jwt: [{{ issuer: '{ISSUER}', audiences: ['{AUDIENCE}'], keys: {{ file: jwks.json }}, claims: {{ user: sub }} }}]
roles: {{ authenticated: {{ allow: [GET /people] }} }}
"
    );
    let files = document::MapFiles::new("policy.yaml", policy).and("jwks.json", signer.key_set());
    compiled(&files)
}

fn authorization(value: &str) -> Header<'_> {
    Header { name: b"authorization", value: value.as_bytes() }
}

fn people<'a>(headers: &'a [Header<'a>]) -> Request<'a> {
    Request { method: b"GET", path: b"/people", headers, ..Request::default() }
}

#[test]
fn an_invalid_request_is_denied_before_its_credentials_are_verified() {
    let wrong = [("authorization", "Basic YWxpY2U6d3Jvbmc=")];
    assert_all(&[
        (("GET", "", "/a/../../b", &wrong), Some(Reason::InvalidPath(PathError::AboveRoot))),
        (("GET", "", "", &[]), Some(Reason::InvalidPath(PathError::Empty))),
        (("GET", "a..b", "/open/x", &wrong), Some(Reason::InvalidHost(HostError))),
        (("CONNECT", "", "host:443", &wrong), Some(Reason::InvalidPath(PathError::NotAbsolute))),
    ]);
}

#[test]
fn a_method_is_matched_byte_for_byte() {
    // RFC 9110, 9.1: GET does not imply HEAD.
    let denied = Some(Reason::NotAllowed);
    assert_all(&[
        (("HEAD", "", "/people", &[ALICE]), denied),
        (("GETX", "", "/people", &[ALICE]), denied),
        (("OPTIONS", "", "*", &[]), None),
        (("OPTIONS", "", "/people", &[ALICE]), denied),
        (("GET", "", "*", &[]), Some(Reason::InvalidPath(PathError::NotAbsolute))),
    ]);
}

/// An application that ignores the case of methods would get past a `deny` of the usual ones.
#[test]
fn a_method_with_lower_case_letters_is_denied_whatever_is_allowed() {
    let policy = "version: 1\nroles:\n  anyone: { allow: ['* /**'], deny: ['DELETE /**'] }\n";
    let authorizer = authorizer_of(policy);
    for (method, wanted) in [
        ("DELETE", Some(Reason::MissingCredentials)),
        ("delete", Some(Reason::InvalidMethod)),
        ("DeLeTe", Some(Reason::InvalidMethod)),
        ("m-search", Some(Reason::InvalidMethod)),
        ("GETx", Some(Reason::InvalidMethod)),
        ("M-SEARCH", None),
        ("X_1", None),
    ] {
        assert_eq!(check(&authorizer, (method, "", "/x", &[])).1, wanted, "{method}");
    }
}

#[test]
fn a_rule_with_a_host_matches_only_that_host() {
    let denied = Some(Reason::NotAllowed);
    assert_all(&[
        (("PUT", "internal.example.com", "/x", &[ALICE]), None),
        (("PUT", "INTERNAL.example.com.:80", "/x", &[ALICE]), None),
        (("PUT", "", "/x", &[ALICE]), denied),
        (("PUT", "internal.example.com.evil.test", "/x", &[ALICE]), denied),
        (("PUT", "xinternal.example.com", "/x", &[ALICE]), denied),
        (("PUT", "a@internal.example.com", "/x", &[ALICE]), Some(Reason::InvalidHost(HostError))),
        (
            ("PUT", "internal.example.com:80:80", "/x", &[ALICE]),
            Some(Reason::InvalidHost(HostError)),
        ),
    ]);
}

#[test]
fn headers_that_claim_another_path_method_host_or_client_are_ignored() {
    let authorizer = authorizer();
    let claims = [
        ("x-original-url", "/open/x"),
        ("x-rewrite-url", "/open/x"),
        ("x-forwarded-uri", "/open/x"),
        ("x-forwarded-path", "/open/x"),
        ("x-forwarded-prefix", "/open"),
        ("x-forwarded-host", "internal.example.com"),
        ("x-forwarded-method", "GET"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-user", "alice"),
        ("x-forwarded-client-cert", "By=spiffe://a"),
        ("x-envoy-original-path", "/open/x"),
        ("x-envoy-internal", "true"),
        ("x-http-method-override", "GET"),
        ("x-method-override", "GET"),
        ("forwarded", "host=internal.example.com"),
        ("host", "internal.example.com"),
        (":path", "/open/x"),
        (":method", "GET"),
        (":authority", "internal.example.com"),
        ("proxy-authorization", ALICE.1),
        ("cookie", "authorization=x"),
        ("x-authorization", ALICE.1),
        ("authorization_", ALICE.1),
        (":authorization", ALICE.1),
    ];
    for (method, path) in
        [("GET", "/people"), ("GET", "/open/x"), ("DELETE", "/open/x"), ("GET", "/open/closed")]
    {
        let plain = check(&authorizer, (method, "other.test", path, &[]));
        for claim in claims {
            assert_eq!(
                check(&authorizer, (method, "other.test", path, &[claim])),
                plain,
                "{claim:?}"
            );
        }
        assert_eq!(check(&authorizer, (method, "other.test", path, &claims)), plain);
    }
}

#[test]
fn each_reason_has_a_unique_name() {
    let reasons = [
        Reason::InvalidMethod,
        Reason::InvalidPath(PathError::Empty),
        Reason::InvalidHost(HostError),
        Reason::ControlBytes,
        Reason::DuplicateAuthorization,
        Reason::ConnectionHeader,
        Reason::MissingCredentials,
        Reason::NotAllowed,
        Reason::Denied,
    ];
    let credentials = CredentialsError::ALL.into_iter().map(Reason::InvalidCredentials);
    let limits = Limit::ALL.into_iter().map(Reason::Limit);
    let names: std::collections::BTreeSet<_> =
        reasons.into_iter().chain(credentials).chain(limits).map(Reason::name).collect();
    assert_eq!(names.len(), reasons.len() + CredentialsError::ALL.len() + Limit::ALL.len());
    assert!(
        names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    );
}

#[test]
fn a_verified_password_is_cached_for_the_next_request() {
    let authorizer = authorizer();
    let header = [Header { name: b"authorization", value: ALICE.1.as_bytes() }];
    let request = Request {
        method: b"GET",
        host: b"",
        path: b"/people",
        headers: &header,
        ..Request::default()
    };
    let (mut first, mut second) = (Scratch::default(), Scratch::default());
    let authorizer::Outcome::Pending(check) = authorizer.check(&request, None, &mut first, NOW)
    else {
        panic!("the password is not verified yet")
    };
    let decided = authorizer.check(&request, Some(&check.run()), &mut first, NOW);
    assert!(matches!(decided, authorizer::Outcome::Decided(verdict) if verdict.status() == 200));
    assert!(
        matches!(authorizer.check(&request, None, &mut second, NOW), authorizer::Outcome::Decided(verdict) if verdict.status() == 200)
    );
}

/// A client chooses its header, and many rules may read it: their conditions share the steps of the
/// request. Without any left, `deny` rules count.
#[test]
fn the_conditions_of_all_rules_that_match_are_bounded() {
    let denies: String = (0..200)
        .map(|number| {
            let when = format!("request.headers['x-a'].contains('b{number}')");
            format!("      - {{ rule: GET /a, when: \"{when}\" }}\n")
        })
        .collect();
    let policy =
        format!("version: 1\nroles:\n  anyone:\n    allow: [GET /a, GET /b]\n    deny:\n{denies}");
    let authorizer = authorizer_of(&policy);
    let long = "a".repeat(60 << 10);
    for (path, value, wanted) in
        [("/a", "a", None), ("/a", &*long, Some(Reason::MissingCredentials)), ("/b", &*long, None)]
    {
        let headers = [("x-a", value)];
        let (_, reason) = check(&authorizer, ("GET", "a.example.com", path, &headers));
        assert_eq!(reason, wanted, "{path}");
    }
}
