//! What a log and `explain` say about an invalid token, and what they never say.

use std::time::Duration;

use identity::{Credentials, CredentialsError, FetchedKeys};
use policy::model::{ClaimPath, ClaimValue, Issuer, RequiredClaim};
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer::{bearer, claims, claims_with, encode, header, jwk, set, signed, token};

fn test_issuer() -> Issuer {
    issuer(file(&set(&[jwk("ES256"), jwk("EdDSA")])))
}

/// The detail of a token that is invalid under this issuer.
fn detail_under(issuer: Issuer, token: &str) -> Option<String> {
    detail_by(&compile(&tokens_of(issuer)), token)
}

fn detail_by(auth: &Auth, token: &str) -> Option<String> {
    let error = authenticate(auth, &bearer(token)).unwrap_err();
    auth.attempted(Credentials::Authorization(bearer(token).as_bytes()), error, now()).detail
}

fn detail(token: &str) -> String {
    detail_under(test_issuer(), token).unwrap_or_default()
}

fn with_header(name: &str, value: Value) -> String {
    let mut header = header("ES256");
    header[name] = value;
    detail(&signed("ES256", &header, &claims()))
}

fn with_claim(name: &str, value: Option<Value>) -> String {
    detail(&signed("ES256", &header("ES256"), &claims_with(name, value)))
}

fn without_groups(name: &str, value: Value) -> String {
    let mut claims = claims_with("groups", None);
    claims[name] = value;
    detail(&signed("ES256", &header("ES256"), &claims))
}

#[test]
fn each_says_what_was_expected() {
    let mut without_kid = header("ES256");
    without_kid.as_object_mut().unwrap().remove("kid");
    let two_of_a_kind = {
        let mut other = jwk("ES256");
        other["kid"] = json!("other");
        issuer(file(&set(&[jwk("ES256"), other])))
    };
    let ambiguous = detail_under(two_of_a_kind, &signed("ES256", &without_kid, &claims())).unwrap();
    for (said, expected) in [
        (with_header("kid", json!("zzz")), "`kid` is `zzz`, known: `ES256`, `EdDSA`"),
        (
            ambiguous,
            "no `kid`, and not exactly one key for its algorithm: `alg` is `ES256`, known: `ES256`, `other`",
        ),
        (with_header("alg", json!("none")), "`alg` is `none`"),
        (
            with_header("alg", json!("RS256")),
            "`alg` is `RS256`, `kid` is `ES256` of a key for `ES256`",
        ),
        (with_header("jku", json!("https://evil.example")), "it has `jku`"),
        (with_header("b64", json!(false)), "it has `b64`"),
        (
            with_claim("iss", Some(json!("https://other.example"))),
            "`iss` is `https://other.example`, known: `https://id.example.com`",
        ),
        (with_claim("iss", None), "no `iss`, known: `https://id.example.com`"),
        (
            with_claim("aud", Some(json!("account"))),
            "`aud` is `account`, expected `people`, `other`",
        ),
        (
            with_claim("aud", Some(json!(["account", "b"]))),
            "`aud` is `account`, `b`, expected `people`, `other`",
        ),
        (with_claim("aud", Some(json!([]))), "`aud` is none, expected `people`, `other`"),
        (with_claim("aud", None), "no `aud`, expected `people`, `other`"),
        (with_claim("aud", Some(json!(1))), "`aud` is neither text nor a list of texts"),
        (with_claim("exp", Some(json!(NOW - 372))), "`exp` was 372 s ago, `clock_skew` is 60 s"),
        (with_claim("nbf", Some(json!(NOW + 90))), "`nbf` is in 90 s, `clock_skew` is 60 s"),
        (with_claim("iat", Some(json!(NOW + 90))), "`iat` is in 90 s, `clock_skew` is 60 s"),
        (with_claim("exp", None), "no `exp`"),
        (with_claim("exp", Some(json!("soon"))), "`exp` is not a number"),
        (with_claim("sub", Some(json!(""))), "`sub` is empty"),
        (with_claim("sub", Some(json!("a\n"))), "`sub` has a control character"),
        (with_claim("sub", Some(json!(7))), "`sub` is not a text"),
        (with_claim("sub", None), "no `sub`"),
        (
            with_claim("groups", Some(json!(["a", 1]))),
            "`groups` is neither a text nor a list of texts without control characters",
        ),
        (
            with_claim("realm_access", Some(json!({ "roles": {} }))),
            "`/realm_access/roles` is neither a text nor a list of texts without control characters",
        ),
        (
            with_claim("groups", Some(json!("a \u{1}"))),
            "a name of a group or a role has a control character",
        ),
        (
            with_claim("realm_access", Some(json!(["admin"]))),
            "`/realm_access/roles` cannot be read: `realm_access` has another type",
        ),
        (
            with_claim("_claim_names", Some(json!({ "realm_access": "src1" }))),
            "`/realm_access/roles` is not in the token (`_claim_names`)",
        ),
        (
            without_groups("_claim_names", json!({ "groups": "src1" })),
            "`groups` is not in the token (`_claim_names`)",
        ),
        (without_groups("hasgroups", json!(true)), "`groups` is not in the token (`hasgroups`)"),
    ] {
        assert_eq!(said, expected);
    }
}

/// A token of these parts, which are encoded first.
fn of_parts(parts: &[&str]) -> String {
    parts.iter().map(|part| encode(part.as_bytes())).collect::<Vec<_>>().join(".")
}

#[test]
fn a_malformed_token_says_what_is_malformed() {
    let valid = token("ES256");
    let (header, payload) = (r#"{"alg":"ES256"}"#, "{}");
    for (token, expected) in [
        (
            "hunter2".to_owned(),
            "the number of parts is 1, expected 3: header, payload and signature",
        ),
        (
            "hunter2.".to_owned(),
            "the number of parts is 2, expected 3: header, payload and signature",
        ),
        (
            of_parts(&[header, payload, "", "", ""]),
            "the number of parts is 5, expected 3: header, payload and signature",
        ),
        (format!("{valid}="), &*format!("byte {} is neither base64url nor a dot", valid.len() + 1)),
        (format!("\"{valid}\""), "byte 1 is neither base64url nor a dot"),
        ("a".repeat(16 * 1024 + 1), "it has 16385 bytes, at most 16384 are allowed"),
        (format!("x.{}", of_parts(&[payload, ""])), "the header is not base64url without padding"),
        (
            of_parts(&["hunter2", payload, ""]),
            "the header is not JSON: expected value at line 1 column 1",
        ),
        (of_parts(&["[]", payload, ""]), "the header is not a JSON object"),
        (of_parts(&[payload, payload, ""]), "no `alg`"),
        (of_parts(&[r#"{"alg":7}"#, payload, ""]), "`alg` is not text"),
        (of_parts(&[r#"{"alg":"ES256","kid":7}"#, payload, ""]), "`kid` is not text"),
        (of_parts(&[r#"{"alg":"ES256","typ":7}"#, payload, ""]), "`typ` is not text"),
        (format!("{}.x.", of_parts(&[header])), "the payload is not base64url without padding"),
        (
            of_parts(&[header, r#"{"a":"hunter2","a":1}"#, ""]),
            "the payload is not JSON: a duplicate member name at line 1 column 21",
        ),
        (of_parts(&[header, "\"hunter2\"", ""]), "the payload is not a JSON object"),
        (
            format!("{}.x", of_parts(&[header, payload])),
            "the signature is not base64url without padding",
        ),
    ] {
        let auth = compile(&tokens_of(test_issuer()));
        let value = bearer(&token);
        assert_eq!(
            authenticate(&auth, &value).unwrap_err(),
            CredentialsError::MalformedToken,
            "{token}"
        );
        let said = auth
            .attempted(
                Credentials::Authorization(value.as_bytes()),
                CredentialsError::MalformedToken,
                now(),
            )
            .detail;
        assert_eq!(said.as_deref(), Some(expected), "{token}");
    }
}

/// The header alone is at fault: the payload is not read.
#[test]
fn the_algorithm_is_named_although_the_payload_is_malformed() {
    assert_eq!(detail(&of_parts(&[r#"{"alg":"none"}"#, "hunter2", ""])), "`alg` is `none`");
    assert_eq!(detail(&of_parts(&[r#"{"jku":"x"}"#, "hunter2", ""])), "it has `jku`");
}

#[test]
fn each_setting_of_an_issuer_is_named() {
    let strict = Issuer {
        required_type: Some("at+jwt".into()),
        max_age: Some(Duration::from_secs(600)),
        ..test_issuer()
    };
    let said = |header: &Value, claims: &Value| {
        detail_under(strict.clone(), &signed("ES256", header, claims)).unwrap()
    };
    assert_eq!(said(&header("ES256"), &claims()), "`typ` is `JWT`, expected `at+jwt`");
    let mut typed = header("ES256");
    typed["typ"] = json!("at+jwt");
    let old = claims_with("iat", Some(json!(NOW - 700)));
    assert_eq!(said(&typed, &old), "`iat` was 700 s ago, `max_age` is 600 s, `clock_skew` is 60 s");
    assert_eq!(said(&typed, &claims_with("iat", None)), "no `iat`, which `max_age` requires");
    let required = ClaimPath(vec!["azp".into()]);
    let values = ["web", "mobile"].map(|text| ClaimValue::Text(text.into())).to_vec();
    let require = vec![RequiredClaim { path: required, values }];
    let said = |claims: &Value| {
        let issuer = Issuer { require: require.clone(), ..test_issuer() };
        detail_under(issuer, &signed("ES256", &header("ES256"), claims)).unwrap()
    };
    assert_eq!(said(&claims()), "no `azp`, expected `web`, `mobile`");
    let other = claims_with("azp", Some(json!("hunter2")));
    assert_eq!(said(&other), "`azp` has another value, expected `web`, `mobile`");
    let unfetched = issuer(url("https://id.example.com/jwks.json"));
    assert_eq!(
        detail_under(unfetched, &token("ES256")).unwrap(),
        "no keys of `https://id.example.com` have been fetched"
    );
    let address = "https://id.example.com/jwks.json";
    let stale = tokens_of(issuer(url(address)));
    let (auth, _) = Auth::compile(
        &stale,
        &FetchedKeys::from([(address.into(), None)]),
        identity::Limits::default(),
    )
    .unwrap();
    assert_eq!(
        detail_by(&auth, &token("ES256")).unwrap(),
        "the keys of `https://id.example.com` are older than `max-keys-age`"
    );
}

/// A token is chosen by its sender, and a log line must stay one line of a bounded length.
#[test]
fn what_a_stranger_wrote_is_bounded_and_escaped() {
    let long = "\u{1b}[31m\n".repeat(100);
    let many: Vec<String> = (0..8).map(|number| format!("{long}{number}")).collect();
    for said in [
        with_header("kid", json!(long)),
        with_header("alg", json!(long)),
        with_claim("iss", Some(json!(long))),
        with_claim("aud", Some(json!(long))),
        with_claim("aud", Some(json!(many))),
    ] {
        assert!(!said.contains(char::is_control), "{said:?}");
        assert!(said.len() < 4096 && !said.is_empty(), "{}", said.len());
    }
    let many_keys: Vec<Value> = (0..200)
        .map(|number| {
            let mut key = jwk("ES256");
            key["kid"] = json!(format!("k{number}"));
            key
        })
        .collect();
    let said = detail_under(issuer(file(&set(&many_keys))), &token("EdDSA")).unwrap();
    assert_eq!(said, "`kid` is `EdDSA`, known: `k0`, `k1`, `k2`, `k3` and 196 more");
}

/// Nothing but these parameters and claims is shown, and nothing of credentials of another kind.
#[test]
fn nothing_else_of_the_credentials_is_shown() {
    let auth = compile(&tokens_of(test_issuer()));
    for name in ["sub", "groups", "email"] {
        for error in CredentialsError::ALL {
            let claims = claims_with(name, Some(json!("hunter2")));
            let value = bearer(&signed("ES256", &header("ES256"), &claims));
            let said = auth
                .attempted(Credentials::Authorization(value.as_bytes()), error, now())
                .detail
                .unwrap_or_default();
            assert!(!said.contains("hunter2") && !said.contains(&value[60..]), "{said}");
            let basic = Credentials::Authorization(b"Basic YWxpY2U6aHVudGVyMg==");
            let missing = (error == CredentialsError::IncompleteCredentials)
                .then_some("no certificate that the policy names");
            assert_eq!(auth.attempted(basic, error, now()).detail.as_deref(), missing);
            let said = auth
                .attempted(Credentials::Authorization(b"Bearer hunter2"), error, now())
                .detail
                .unwrap_or_default();
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
