//! Who invalid credentials claim to be.

use identity::{Attempted, Credentials, CredentialsError};
use serde_json::json;

use crate::settings::*;
use crate::signer;

/// With an error that has no detail.
fn attempted(auth: &Auth, value: &str) -> Attempted {
    auth.attempted(
        Credentials::Authorization(value.as_bytes()),
        CredentialsError::BadSignature,
        now(),
    )
}

fn user(user: &str) -> Attempted {
    Attempted { user: Some(user.into()), ..Attempted::default() }
}

#[test]
fn basic_credentials_name_a_user_and_no_password() {
    let mut settings = basic(&[("alice", BCRYPT)]);
    settings.basic.as_mut().unwrap().user_prefix = "basic:".into();
    let auth = compile(&settings);
    assert_eq!(attempted(&auth, &header("alice:secret")), user("basic:alice"));
    assert_eq!(attempted(&auth, &header("nobody:secret:more")), user("basic:nobody"));
    assert_eq!(attempted(&auth, "Negotiate x"), Attempted::default());
}

#[test]
fn what_is_wrong_with_malformed_basic_credentials_is_said_without_any_of_them() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    for (value, detail) in [
        (header("secret"), "they have no colon: expected the user name, a colon and the password"),
        (header(":secret"), "the user name is empty, or has a control character"),
        (header("a\nb:secret"), "the user name is empty, or has a control character"),
        (header("alice:secret\n"), "the password has a control character"),
        (
            "Basic c2VjcmV0Og".into(),
            "they are not in base64 with its padding (RFC 4648, section 4)",
        ),
        ("Basic /zpzZWNyZXQ=".into(), "they are not UTF-8"),
        (header(format!("alice:{}", "secret".repeat(300))), "they are longer than 2048 bytes"),
    ] {
        assert_eq!(
            authenticate(&auth, &value).unwrap_err(),
            CredentialsError::MalformedCredentials,
            "{value}"
        );
        let expected = Attempted { detail: Some(detail.to_owned()), ..Attempted::default() };
        assert_eq!(attempted(&auth, &value), expected, "{value}");
    }
}

#[test]
fn a_token_names_a_user_and_an_issuer_although_it_is_not_valid() {
    let mut settings = tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")]))));
    settings.jwt[0].user_prefix = "id:".into();
    let auth = compile(&settings);
    let token = |claims: &serde_json::Value| {
        attempted(
            &auth,
            &signer::bearer(&signer::signed("EdDSA", &json!({ "alg": "none" }), claims)),
        )
    };
    let of = |user: Option<&str>, issuer: Option<&str>| Attempted {
        user: user.map(str::to_owned),
        issuer: issuer.map(str::to_owned),
        detail: None,
    };
    assert_eq!(token(&signer::claims()), of(Some("id:carol"), Some(ISSUER)));
    assert_eq!(
        token(&signer::claims_with("iss", Some("https://x".into()))),
        of(None, Some("https://x"))
    );
    assert_eq!(token(&signer::claims_with("iss", None)), of(None, None));
    assert_eq!(token(&signer::claims_with("sub", Some("a\u{7f}".into()))), of(None, Some(ISSUER)));
    for value in ["Bearer secret", "Bearer a.b.c", "Bearer .."] {
        assert_eq!(attempted(&auth, value), Attempted::default(), "{value}");
    }
}

/// A user name may be a secret where the policy does not expect one, such as an API key.
#[test]
fn credentials_of_a_method_that_is_not_configured_name_nobody() {
    let only_basic = compile(&basic(&[("alice", BCRYPT)]));
    let token = signer::bearer(&signer::token("ES256"));
    assert_eq!(attempted(&only_basic, &token), Attempted::default());
    let only_tokens = compile(&tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))));
    assert_eq!(attempted(&only_tokens, &header("key:")), Attempted::default());
}
