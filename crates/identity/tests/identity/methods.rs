//! A policy with Basic and tokens: the scheme of the credentials decides which method verifies
//! them.

use identity::CredentialsError;

use crate::settings::*;
use crate::signer;

fn both() -> Auth {
    let mut settings = basic(&[("alice", BCRYPT)]);
    settings.jwt = tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))).jwt;
    compile(&settings)
}

#[test]
fn credentials_are_verified_by_the_method_of_their_scheme() {
    let auth = both();
    assert_eq!(&*authenticate(&auth, &header("alice:wonderland")).unwrap().user, "alice");
    assert_eq!(
        &*authenticate(&auth, &signer::bearer(&signer::token("ES256"))).unwrap().user,
        "carol"
    );
    assert_eq!(
        authenticate(&auth, &format!("Basic {}", signer::token("ES256"))).unwrap_err(),
        CredentialsError::MalformedCredentials
    );
    let credentials = header("alice:wonderland").replace("Basic ", "Bearer ");
    assert_eq!(authenticate(&auth, &credentials).unwrap_err(), CredentialsError::MalformedToken);
}

/// RFC 8725, 3.8 and 3.10: the issuer decides the keys; another issuer's key verifies nothing.
#[test]
fn a_token_is_verified_with_the_keys_of_its_own_issuer() {
    let mut other = issuer(file(&signer::set(&[signer::jwk("EdDSA")])));
    other.issuer = "https://other.example.com".into();
    let mut settings = tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")]))));
    settings.jwt.push(other);
    let auth = compile(&settings);
    let of = |issuer: &str, algorithm: &str| {
        let claims = signer::claims_with("iss", Some(issuer.into()));
        authenticate(
            &auth,
            &signer::bearer(&signer::signed(algorithm, &signer::header(algorithm), &claims)),
        )
    };
    assert!(of(ISSUER, "ES256").is_ok());
    assert!(of("https://other.example.com", "EdDSA").is_ok());
    assert_eq!(of("https://other.example.com", "ES256").unwrap_err(), CredentialsError::UnknownKey);
    assert_eq!(of(ISSUER, "EdDSA").unwrap_err(), CredentialsError::UnknownKey);
}

#[test]
fn each_credentials_error_has_a_unique_name() {
    let names: std::collections::HashSet<&str> =
        CredentialsError::ALL.iter().map(|error| error.name()).collect();
    assert_eq!(names.len(), CredentialsError::ALL.len());
    assert!(
        names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    );
}
