//! Arbitrary credentials: unsigned ones never authenticate, signed ones only with valid claims.

use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::{Authenticator, Credentials, FetchedKeys, LocalCache, UnixTime, discovery};
use policy::KeyUrl;
use serde_json::Value;

use crate::memory::{KEYS, Memory};

/// The current time: a day in 2027.
const NOW: UnixTime = Duration::from_secs(1_800_000_000);

/// One issuer with [`KEYS`], and Basic without verification.
const UNVERIFIED: &[u8] = b"version: 1
identity:
  basic: { realm: fuzz, verify: false }
  jwt:
    - issuer: https://fuzz.example
      audiences: [fuzz]
      keys: { file: jwks.json }
      claims: { user: sub, roles: /a/roles, groups: groups }
roles: { authenticated: { allow: [GET /] } }
";

/// One user with a password hash.
const VERIFIED: &[u8] = br#"version: 1
identity:
  basic:
    realm: fuzz
    users:
      alice: { password: "$argon2id$v=19$m=19456,t=2,p=1$GVg2WKKe56SKKxsp6V0B0w$3htwCDHq9v267X/mX8KQsrHLtMz4yp9KAmeOnRYJ3EA" }
roles: { authenticated: { allow: [GET /] } }
"#;

/// `SECURITY.md`, S18: no caller is authenticated without a verified password, and names have
/// neither colons nor control characters.
pub fn basic(data: &[u8]) {
    static BOTH: OnceLock<[Option<Authenticator<()>>; 2]> = OnceLock::new();
    let [verifying, unverified] =
        BOTH.get_or_init(|| [authenticator(VERIFIED, KEYS), authenticator(UNVERIFIED, KEYS)]);
    let (Some(verifying), Some(unverified)) = (verifying, unverified) else { invalid_policy() };
    let encoded = format!("Basic {}", STANDARD.encode(data));
    for header in [data, encoded.as_bytes()] {
        let cache = &mut LocalCache::default();
        let known = verifying.authenticate(
            Some(Credentials::Authorization(header)),
            None,
            NOW,
            cache,
            |_| (),
        );
        assert!(known.is_err(), "a caller is known whose password was not hashed");
    }
    for header in [data, encoded.as_bytes()] {
        let cache = &mut LocalCache::default();
        let Ok(Some(known)) = unverified.authenticate(
            Some(Credentials::Authorization(header)),
            None,
            NOW,
            cache,
            |_| (),
        ) else {
            continue;
        };
        assert!(
            header.iter().all(|byte| *byte != b',' && !byte.is_ascii_control()),
            "an invalid value is accepted"
        );
        let user = &known.subject.user;
        assert!(!user.is_empty() && !user.contains(':'), "a user name is empty or has a colon");
        assert!(!user.chars().any(char::is_control), "a user name has a control character");
    }
}

/// `SECURITY.md`, S15 to S17: a token without a signature never authenticates; a signed one does
/// only while it is valid and for this audience. The first line of `data` is the header of the
/// token that is signed, the rest its claims.
pub fn jwt(data: &[u8]) {
    static TOKENS: OnceLock<Option<Authenticator<()>>> = OnceLock::new();
    let Some(tokens) = TOKENS.get_or_init(|| authenticator(UNVERIFIED, KEYS)) else {
        invalid_policy()
    };
    let unsigned = [b"Bearer ".as_slice(), data].concat();
    let cache = &mut LocalCache::default();
    let known =
        tokens.authenticate_inline(Some(Credentials::Authorization(&unsigned)), NOW, cache, |_| ());
    assert!(known.is_err(), "an unsigned token is accepted");

    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[b'k'; 32]), token.as_bytes());
    let signed = format!("Bearer {token}.{}", URL_SAFE_NO_PAD.encode(signature));
    match tokens.authenticate_inline(
        Some(Credentials::Authorization(signed.as_bytes())),
        NOW,
        cache,
        |_| (),
    ) {
        Ok(None) => {}
        Ok(Some(known)) => {
            assert!(!known.subject.user.is_empty(), "a user name is empty");
            assert_valid(header, claims);
        }
        Err(error) => {
            let detail = tokens
                .attempted(Credentials::Authorization(signed.as_bytes()), error, NOW)
                .detail
                .unwrap_or_default();
            assert!(detail.len() < 4096, "a log line is too long");
            assert!(!detail.chars().any(char::is_control), "a log line has a control character");
        }
    }
}

/// A key set or a discovery document is accepted or rejected, without a panic.
pub fn jwks(data: &[u8]) {
    // Only a panic is of interest.
    let _ = authenticator(UNVERIFIED, data);
    let issuer = "https://fuzz.example";
    if let Ok(url) = discovery::key_set_url(data, &KeyUrl::for_discovery(&issuer.into()), issuer) {
        assert!(url.with_secrets().starts_with("https://"), "keys are fetched without TLS");
    }
}

/// Checks that an accepted token was valid.
fn assert_valid(header: &[u8], claims: &[u8]) {
    let header: Value = serde_json::from_slice(header).unwrap_or_default();
    let claims: Value = serde_json::from_slice(claims).unwrap_or_default();
    assert_eq!(
        header.get("alg"),
        Some(&Value::from("HS256")),
        "the algorithm is not that of the key"
    );
    for name in ["crit", "zip", "jwk", "jku", "x5u", "x5c"] {
        assert_eq!(header.get(name), None, "`{name}` is accepted");
    }
    assert_eq!(
        claims.get("iss"),
        Some(&Value::from("https://fuzz.example")),
        "the issuer is another one"
    );
    let audience = claims.get("aud").cloned().unwrap_or_default();
    let audiences = audience.as_array().cloned().unwrap_or_else(|| vec![audience]);
    assert!(audiences.contains(&Value::from("fuzz")), "the audience is another one");
    // The clock skew is a minute.
    let now = NOW.as_secs_f64();
    assert!(
        claims.get("exp").and_then(Value::as_f64).is_some_and(|exp| exp + 61.0 > now),
        "it has expired"
    );
    for name in ["nbf", "iat"] {
        let begin = claims.get(name);
        let fits = begin.is_none_or(|begin| {
            begin.as_f64().is_some_and(|begin| name == "iat" || begin <= now + 61.0)
        });
        assert!(fits, "`{name}` is no time, or in the future");
    }
}

fn authenticator(policy: &[u8], keys: &[u8]) -> Option<Authenticator<()>> {
    let others = [("jwks.json", keys)];
    let loaded = Memory::new(policy, &others).load().ok()?;
    let compiled = Authenticator::compile(
        &loaded.policy.identity,
        &FetchedKeys::new(),
        identity::Limits::default(),
    )
    .ok()?;
    Some(compiled.0)
}

#[expect(clippy::panic, reason = "a fuzzer without a policy tests nothing, so it must fail")]
fn invalid_policy() -> ! {
    panic!("the policies of the fuzzers do not load")
}
