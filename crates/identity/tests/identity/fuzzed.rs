//! Arbitrary input: nothing panics, and nothing without a valid signature or password is
//! authenticated.

use std::sync::LazyLock;

use identity::{Credentials, jwks};
use proptest::prelude::*;
use serde_json::json;

use crate::settings::*;
use crate::signer::{self, ALL, encode};

static AUTH: LazyLock<Auth> = LazyLock::new(|| {
    let mut settings = basic(&[("alice", BCRYPT)]);
    let (secret, public): (Vec<&str>, Vec<&str>) =
        ALL.iter().partition(|name| name.starts_with("HS"));
    let issuer = |names: Vec<&str>| {
        issuer(file(&signer::set(&names.into_iter().map(signer::jwk).collect::<Vec<_>>())))
    };
    let mut other = issuer(public);
    other.issuer = "https://other.example.com".into();
    settings.jwt = vec![issuer(secret), other];
    compile(&settings)
});

fn is_authenticated(header: &[u8]) -> bool {
    let result = authenticate_at(&AUTH, header, now());
    if let Err(error) = result {
        let detail = AUTH
            .attempted(Credentials::Authorization(header), error, now())
            .detail
            .unwrap_or_default();
        assert!(detail.len() < 4096 && !detail.contains(char::is_control), "{detail:?}");
    }
    result.is_ok()
}

/// JSON of any shape.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        any::<String>().prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| json!(list)),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_arbitrary_header_is_invalid(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!is_authenticated(&bytes));
        prop_assert!(!is_authenticated(&[b"Basic ", &*bytes].concat()));
        prop_assert!(!is_authenticated(&[b"Bearer ", &*bytes].concat()));
    }

    #[test]
    fn arbitrary_basic_credentials_are_invalid(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!is_authenticated(header(&bytes).as_bytes()));
    }

    #[test]
    fn a_token_with_an_arbitrary_signature_is_invalid(head in any_json(), body in any_json(), signature: Vec<u8>) {
        let token = [encode(head.to_string()), encode(body.to_string()), encode(signature)].join(".");
        prop_assert!(!is_authenticated(signer::bearer(&token).as_bytes()));
    }

    #[test]
    fn an_arbitrary_claim_of_a_signed_token_never_panics(name in "(exp|nbf|iat|aud|sub|groups|realm_access|iss)", value in any_json()) {
        let claims = signer::claims_with(&name, Some(value));
        let token = signer::bearer(&signer::signed("HS256", &signer::header("HS256"), &claims));
        let _ = authenticate(&AUTH, &token);
    }

    #[test]
    fn an_arbitrary_key_set_never_panics(key in any_json(), text: String) {
        let _ = jwks::parse(text.as_bytes());
        let _ = jwks::parse(json!({ "keys": [key] }).to_string().as_bytes());
    }

    #[test]
    fn an_arbitrary_member_of_a_key_never_panics(
        algorithm in prop::sample::select(&ALL[..]),
        name in "(kty|alg|use|key_ops|kid|n|e|x|y|k|crv|d)",
        value in any_json(),
    ) {
        let mut jwk = signer::jwk(algorithm);
        jwk[name.as_str()] = value;
        let _ = jwks::parse(signer::set(&[jwk]).to_string().as_bytes());
    }

    #[test]
    fn an_arbitrary_stored_hash_never_panics(hash in "(\\$(argon2id|2b|6|5|pbkdf2-sha256)\\$)?[ -~]{0,80}") {
        let settings = basic(&[("alice", &hash)]);
        let _ = Auth::compile(&settings, &identity::FetchedKeys::new(), identity::Limits::default());
    }
}
