//! Claims of the caller's token in its identity header.

use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::engine::general_purpose::STANDARD;
use document::MapFiles;
use identity_header::{Key as Secret, Verifier};

use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
const SECRET: &str = "thirty-two bytes for an example.";

/// The header of a caller whose token has these claims.
fn header(format: &str, claims: Value) -> String {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let key = STANDARD.encode(key.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    let settings = "claims: { email: email, tenant: /tenant/id, tags: tags, missing: missing, nothing: nothing }";
    let policy = format!(
        "version: 1\nidentity: {{ basic: {{ verify: false }} }}\n\
         identity_header: {{ audience: shop, format: {format}, keys: [{format}], {settings} }}\n"
    );
    let files =
        MapFiles::new("policy.yaml", policy.as_str()).and("jwt", pem).and("compact", SECRET);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let signer = IdentitySigner::compile(loaded.policy.identity_header.as_ref().unwrap()).unwrap();
    let subject = Subject {
        user: "eve".into(),
        issuer: None,
        source: None,
        groups: Vec::new(),
        roles: Vec::new(),
        claims,
        actor: None,
    };
    let identity = signer.prepare(&subject, &["reader"]);
    let mut value = String::new();
    let roles = || vec!["reader".to_owned()];
    signer.write(&identity, (&subject, "r1"), roles, NOW, &mut value).unwrap();
    assert!(
        identity.size >= value.len(),
        "{} bytes reserved, {} needed",
        identity.size,
        value.len()
    );
    value
}

fn claims() -> Value {
    json!({ "email": "e@x", "tenant": { "id": 7 }, "tags": ["a"], "other": 1, "nothing": null })
}

#[test]
fn a_jwt_has_the_named_claims_as_they_are() {
    let token = header("jwt", claims());
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let payload: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(
        (&payload["email"], &payload["tenant"], &payload["tags"]),
        (&json!("e@x"), &json!(7), &json!(["a"]))
    );
    for absent in ["other", "missing", "nothing"] {
        assert!(payload.get(absent).is_none(), "{absent}");
    }
}

/// Only single values: the compact form has texts.
#[test]
fn the_compact_form_has_the_named_claims_as_texts() {
    let value = header("compact", claims());
    let key = Secret::new(SECRET.as_bytes()).unwrap();
    let (mut buffer, verifier) = (Vec::new(), Verifier::new("shop", [key]));
    let identity = verifier.verify(value.as_bytes(), NOW.as_secs(), &mut buffer).unwrap();
    assert_eq!(identity.claims.collect::<Vec<_>>(), [("email", "e@x"), ("tenant", "7")]);
}

#[test]
fn a_claim_of_any_size_is_accounted_for() {
    let long = "\u{1}".repeat(3000);
    header("jwt", json!({ "email": long, "tags": [long, { "deep": long }] }));
}
