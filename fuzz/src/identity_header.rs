//! Arbitrary identity headers in their compact form.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity_header::format::{self, MAC_LEN, MAX_LEN};
use identity_header::{Claims, Identity, Key, Verifier, encode};

/// When the examples of the format are valid.
const NOW: u64 = 1_800_000_000;
const SECRET: [u8; 32] = *b"an example of 32 bytes, not more";

#[expect(clippy::expect_used, reason = "a fuzzer without a key tests nothing, so it must fail")]
static KEY: LazyLock<Key> = LazyLock::new(|| Key::new(&SECRET).expect("32 bytes"));

/// `SECURITY.md`, S34. The format has one way to write an identity: what is read is written as the
/// same bytes. No two headers are accepted for the same identity and key, so nobody can change one
/// that is valid.
pub fn identity_header(data: &[u8]) {
    if let Some(identity) = format::read(data) {
        let key = format::key_id(data).unwrap_or_default();
        let mut again = Vec::new();
        match with_claims(&identity, |claims| format::write(claims, key, &mut again)) {
            Ok(()) => assert_eq!(again, data, "it is written in another way"),
            Err(_) => assert!(data.len() + MAC_LEN > MAX_LEN, "it does not fit"),
        }
    }
    accepted_as_written(data);
    // With a valid code, so that more than the code is looked at; computed by another library.
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SECRET), data);
    let signed = [data, code.as_ref().split_at(MAC_LEN).0].concat();
    accepted_as_written(URL_SAFE_NO_PAD.encode(signed).as_bytes());
}

fn accepted_as_written(header: &[u8]) {
    let verifier = Verifier::new("shop", [KEY.clone()]);
    let mut buffer = Vec::new();
    let Ok(identity) = verifier.verify(header, NOW, &mut buffer) else { return };
    assert!(
        identity.audience == "shop" && identity.expires > NOW,
        "it is for another audience, or has expired"
    );
    let mut again = String::new();
    let fits = with_claims(&identity, |claims| encode(claims, &KEY, &mut Vec::new(), &mut again));
    assert_eq!(fits, Ok(()), "it was as long before");
    assert_eq!(again.as_bytes(), header, "another header is accepted for the same identity");
}

fn with_claims<T>(identity: &Identity<'_>, with: impl FnOnce(&Claims<'_>) -> T) -> T {
    let (roles, groups): (Vec<&str>, Vec<&str>) =
        (identity.roles.collect(), identity.groups.collect());
    let claims: Vec<(&str, &str)> = identity.claims.collect();
    let Identity { audience, revision, user, expires, .. } = *identity;
    with(&Claims {
        audience,
        revision,
        user,
        roles: &roles,
        groups: &groups,
        claims: &claims,
        expires,
    })
}
