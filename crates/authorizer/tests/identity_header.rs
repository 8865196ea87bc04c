//! The identity header: what it says, who gets one, how long it is used, and what is refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Request, Scratch, Verdict};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use document::MapFiles;
use explain::{ExplainedSubject, Explainer};
use identity_header::{Invalid, Key, Verifier};
use serde_json::Value;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const ANN: &[u8] = b"Basic YW5uOng=";
const SECRET: [u8; 32] = [7; 32];

fn policy(settings: &str) -> String {
    format!(
        r#"
version: 1
identity: {{ basic: {{ verify: false, users: {{ ann: {{ groups: [staff] }} }} }} }}
roles:
  anyone: {{ allow: [GET /open] }}
  reader: {{ allow: [GET /people] }}
grants: {{ reader: {{ users: [ann, eve] }} }}
identity_header: {{ audience: shop, {settings} }}
"#
    )
}

/// Ed25519 and P-256 keys of this test, in PEM.
fn files(policy: &str) -> MapFiles {
    let pem = |der: &[u8]| {
        format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der)
        )
    };
    let random = SystemRandom::new();
    let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    MapFiles::new("policy.yaml", policy)
        .and("ed25519.pem", pem(ed25519.as_ref()))
        .and("p256.pem", pem(p256.as_ref()))
        .and("secret.key", str::from_utf8(&SECRET).unwrap())
        .and("short.key", "0123456789012345678901234567890")
        .and("rsa.pem", pem(b"no key at all"))
}

fn compiled(settings: &str) -> Result<Authorizer, String> {
    let files = files(&policy(settings));
    let show = |problems: Vec<document::Problem>| {
        problems.iter().map(|problem| format!("{problem}\n")).collect::<String>()
    };
    let loaded = policy::load(&files, Path::new("policy.yaml")).map_err(show)?;
    let compiled = Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None);
    compiled.map(|(authorizer, _)| authorizer).map_err(show)
}

/// The value of the header on an allowed request, or whether it is removed.
fn header(
    authorizer: &Authorizer,
    (path, authorization): (&str, &[u8]),
    now: Duration,
    scratch: &mut Scratch,
) -> Option<String> {
    let headers = [
        Header { name: b"x-identity", value: b"forged" },
        Header { name: b"authorization", value: authorization },
    ];
    let headers = if authorization.is_empty() { &headers[..1] } else { &headers };
    let request = Request {
        method: b"GET",
        host: b"h",
        path: path.as_bytes(),
        headers,
        ..Request::default()
    };
    let Verdict::Allowed(allowed) = authorizer.check_inline(&request, scratch, now) else {
        panic!("{path} is denied")
    };
    let set =
        allowed.set().find(|(name, _)| *name == "x-identity").map(|(_, value)| value.to_owned());
    assert_eq!(
        set.is_none(),
        allowed.remove().any(|name| name == "x-identity"),
        "set, or else removed"
    );
    set
}

fn payload(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap())
        .unwrap()
}

/// Our own verification of tokens accepts it, with the keys of the JWK Set.
#[test]
fn a_jwt_is_verified_with_the_published_keys() {
    for (keys, algorithm) in
        [("ed25519.pem", "EdDSA"), ("p256.pem", "ES256"), ("p256.pem, ed25519.pem", "ES256")]
    {
        let signer = compiled(&format!("format: jwt, keys: [{keys}], issuer: gateway")).unwrap();
        let token = header(&signer, ("/people", ANN), NOW, &mut Scratch::default()).unwrap();
        let head: Value = serde_json::from_slice(
            &URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap(),
        )
        .unwrap();
        assert_eq!(head["alg"], algorithm);
        let application = MapFiles::new(
            "policy.yaml",
            r#"
version: 1
identity: { jwt: [{ issuer: gateway, audiences: [shop], keys: { file: jwks.json }, claims: { roles: roles, groups: groups } }] }
roles: { reader: { allow: [GET /**] } }
allow_response: { set_headers: { x-user: "{user}", x-groups: "{groups}" } }
"#,
        )
        .and("jwks.json", signer.identity_keys().unwrap());
        let loaded = policy::load(&application, Path::new("policy.yaml")).unwrap();
        let (application, _) =
            Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap();
        for (token, status) in [(token.clone(), 200), (token.replacen('.', ".A", 1), 401)] {
            let bearer = format!("Bearer {token}");
            let headers = [Header { name: b"authorization", value: bearer.as_bytes() }];
            let request = Request {
                method: b"GET",
                host: b"h",
                path: b"/x",
                headers: &headers,
                ..Request::default()
            };
            let mut scratch = Scratch::default();
            assert_eq!(application.check_inline(&request, &mut scratch, NOW).status(), status);
        }
    }
}

#[test]
fn a_jwt_says_who_the_caller_is() {
    let signer = compiled("format: jwt, keys: [ed25519.pem], lifetime: 90s").unwrap();
    let token = header(&signer, ("/people", ANN), NOW, &mut Scratch::default()).unwrap();
    let expected = serde_json::json!({
        "iss": "rolegate", "sub": "ann", "aud": "shop", "iat": NOW.as_secs(), "exp": NOW.as_secs() + 90,
        "rev": signer.revision().policy, "roles": ["reader"], "groups": ["staff"],
    });
    assert_eq!(payload(&token), expected);
}

#[test]
fn the_compact_form_says_the_same() {
    for settings in [
        "format: compact, keys: [secret.key]",
        "format: compact, algorithm: hmac-sha256, keys: [secret.key]",
    ] {
        let signer = compiled(settings).unwrap();
        let value = header(&signer, ("/people", ANN), NOW, &mut Scratch::default()).unwrap();
        let (mut buffer, now) = (Vec::new(), NOW.as_secs());
        let verifier = |audience| Verifier::new(audience, [Key::new(&SECRET).unwrap()]);
        let identity_verifier = verifier("shop");
        let identity = identity_verifier.verify(value.as_bytes(), now, &mut buffer).unwrap();
        assert_eq!((identity.user, identity.expires), ("ann", now + 60));
        assert_eq!(identity.revision, &*signer.revision().policy);
        assert_eq!(identity.roles.collect::<Vec<_>>(), ["reader"]);
        assert_eq!(identity.groups.collect::<Vec<_>>(), ["staff"]);
        let other = verifier("billing").verify(value.as_bytes(), now, &mut buffer).unwrap_err();
        assert_eq!(other, Invalid::WrongAudience);
        assert_eq!(signer.identity_keys(), None, "a secret is not published");
    }
}

#[test]
fn who_is_not_known_has_none_and_a_forged_one_is_removed() {
    let signer = compiled("format: jwt, keys: [ed25519.pem]").unwrap();
    assert_eq!(header(&signer, ("/open", b""), NOW, &mut Scratch::default()), None);
    // Who is given by name, as by `rolegate test` or for a shadow policy, was not verified.
    let headers = [Header { name: b"x-identity", value: b"forged" }];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let subject = identity::Subject {
        user: "ann".into(),
        issuer: None,
        source: None,
        groups: Vec::new(),
        roles: Vec::new(),
        claims: Value::Null,
        actor: None,
    };
    let mut scratch = Scratch::default();
    let Verdict::Allowed(allowed) = signer.check_as(&request, Ok(Some(subject)), &mut scratch, NOW)
    else {
        panic!("ann is a reader")
    };
    assert!(allowed.set().all(|(name, _)| name != "x-identity"));
    assert!(allowed.remove().any(|name| name == "x-identity"));
}

#[test]
fn it_is_made_anew_after_half_of_its_lifetime() {
    for settings in ["format: jwt, keys: [p256.pem]", "format: compact, keys: [secret.key]"] {
        let signer = compiled(settings).unwrap();
        let mut scratch = Scratch::default();
        let mut at = |seconds| {
            header(&signer, ("/people", ANN), NOW + Duration::from_secs(seconds), &mut scratch)
        };
        let first = at(0);
        assert_eq!(at(29), first);
        let second = at(30);
        assert_ne!(second, first, "each request has at least half of the lifetime left");
        assert_eq!(at(59), second);
        assert_ne!(at(60), second);
        // A clock that is set back: a header from the future would be valid for longer than its
        // lifetime.
        assert_eq!(at(0).map(|value| value.len()), first.as_ref().map(String::len));
        assert_ne!(at(0), second);
    }
}

#[test]
fn a_known_caller_costs_no_allocation() {
    let signer = compiled("format: jwt, keys: [p256.pem]").unwrap();
    let headers = [Header { name: b"authorization", value: ANN }];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let mut check = || match signer.check(&request, None, &mut scratch, NOW) {
        authorizer::Outcome::Decided(Verdict::Allowed(allowed)) => {
            allowed.set().map(|(_, value)| value.len()).sum()
        }
        other => panic!("{other:?}"),
    };
    let first: usize = check();
    let mut again = 0;
    let counted = measure(|| again = check());
    assert_eq!((again, counted.count_total), (first, 0));
}

#[test]
fn an_alias_of_the_header_is_removed() {
    let signer = compiled("format: jwt, keys: [ed25519.pem]").unwrap();
    let headers = [
        Header { name: b"x_identity", value: b"forged" },
        Header { name: b"authorization", value: ANN },
    ];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let Verdict::Allowed(allowed) = signer.check_inline(&request, &mut scratch, NOW) else {
        panic!("denied")
    };
    assert!(allowed.remove().any(|name| name == "x_identity"));
}

/// One that does not fit is not sent without what is missing: the request is denied.
#[test]
fn an_identity_that_is_too_large_is_denied() {
    let long = "g".repeat(4100);
    let policy = policy("format: compact, keys: [secret.key]").replace("staff", &long);
    let loaded = policy::load(&files(&policy), Path::new("policy.yaml")).unwrap();
    let (signer, _) =
        Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap();
    let headers = [Header { name: b"authorization", value: ANN }];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let Verdict::Denied(denied) = signer.check_inline(&request, &mut scratch, NOW) else {
        panic!("allowed")
    };
    assert_eq!((denied.reason.status(), denied.reason.name()), (400, "response_too_large"));
}

/// A clock before 1970 reads as the end of time. A header would never expire, so there is none.
#[test]
fn without_a_clock_nobody_is_signed_for() {
    let signer = compiled("format: jwt, keys: [ed25519.pem]").unwrap();
    let headers = [Header { name: b"authorization", value: ANN }];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let Verdict::Denied(denied) = signer.check_inline(&request, &mut scratch, Duration::MAX) else {
        panic!("allowed")
    };
    assert_eq!(denied.reason.name(), "response_too_large");
    assert!(matches!(signer.check_inline(&request, &mut scratch, NOW), Verdict::Allowed(_)));
}

#[test]
fn a_key_that_cannot_be_used_is_an_error_in_its_place() {
    for (settings, expected) in [
        ("format: compact, keys: [short.key]", "`short.key` has 31 bytes, at least 32 are needed"),
        ("format: compact, keys: [p256.pem]", "`p256.pem` is a key in PEM"),
        ("format: compact, keys: [secret.key, short.key]", "`format: compact` signs with one key"),
        ("format: jwt, keys: [secret.key]", "`secret.key` has no private key in PEM"),
        (
            "format: jwt, keys: [p256.pem, rsa.pem]",
            "`rsa.pem` has a key that is neither one of P-256 nor of Ed25519",
        ),
    ] {
        let problems = compiled(settings).err().unwrap();
        assert!(problems.starts_with("policy.yaml:8:"), "{problems}");
        assert!(problems.contains(expected), "{problems}");
        assert!(!problems.contains("0123456789"), "{problems}");
    }
}

#[test]
fn an_explanation_does_not_show_it() {
    let signer = compiled("format: jwt, keys: [ed25519.pem]").unwrap();
    let headers = [Header { name: b"authorization", value: ANN }];
    let request = Request {
        method: b"GET",
        host: b"h",
        path: b"/people",
        headers: &headers,
        ..Request::default()
    };
    let explanation = Explainer::new(&signer).explain(&request, ExplainedSubject::FromRequest, NOW);
    assert_eq!(explanation.set_headers, [("x-identity".to_owned(), "(signed)".to_owned())]);
    assert!(explanation.remove_headers.is_empty());
}
