//! Proofs that nobody could have made, and proofs with anything in them.

use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::{Authenticator, FetchedKeys, LocalCache, Time};
use serde_json::Value;

use crate::memory::{KEYS, Memory};

/// The clock: a day in 2027.
const NOW: Time = Duration::from_secs(1_800_000_000);

/// One issuer with [`KEYS`], and passwords that somebody else has checked.
const TRUSTING: &[u8] = b"version: 1
identity:
  basic: { realm: fuzz, verify: false }
  jwt:
    - issuer: https://fuzz.example
      audiences: [fuzz]
      keys: { file: jwks.json }
      claims: { user: sub, roles: /a/roles, groups: groups }
roles: { authenticated: { allow: [GET /] } }
";

/// One user, who has a password.
const STRICT: &[u8] = br#"version: 1
identity:
  basic:
    realm: fuzz
    users:
      alice: { password: "$argon2id$v=19$m=19456,t=2,p=1$GVg2WKKe56SKKxsp6V0B0w$3htwCDHq9v267X/mX8KQsrHLtMz4yp9KAmeOnRYJ3EA" }
roles: { authenticated: { allow: [GET /] } }
"#;

/// `SECURITY.md`, S18: nobody is authenticated without a password that was checked, and names have neither colons nor
/// control characters in them.
pub fn basic(data: &[u8]) {
    static BOTH: OnceLock<[Option<Authenticator<()>>; 2]> = OnceLock::new();
    let [strict, trusting] =
        BOTH.get_or_init(|| [authenticator(STRICT, KEYS), authenticator(TRUSTING, KEYS)]);
    let (Some(strict), Some(trusting)) = (strict, trusting) else { unreadable() };
    let encoded = format!("Basic {}", STANDARD.encode(data));
    for header in [data, encoded.as_bytes()] {
        let cache = &mut LocalCache::default();
        let known = strict.identify(Some(header), None, NOW, cache, |_| ());
        assert!(known.is_err(), "nobody is known whose password was not hashed");
    }
    let cache = &mut LocalCache::default();
    if let Ok(Some(known)) = trusting.identify(Some(encoded.as_bytes()), None, NOW, cache, |_| ()) {
        let user = &known.subject.user;
        assert!(!user.is_empty() && !user.contains(':'), "a user has a name that can be sent");
        assert!(!user.chars().any(char::is_control), "and no control characters in it");
    }
}

/// `SECURITY.md`, S15 to S17: a token without a signature never authenticates; a signed one does only while it is valid
/// and meant for us. The first line is the header of a token that is signed, the rest its claims.
pub fn jwt(data: &[u8]) {
    static TOKENS: OnceLock<Option<Authenticator<()>>> = OnceLock::new();
    let Some(tokens) = TOKENS.get_or_init(|| authenticator(TRUSTING, KEYS)) else { unreadable() };
    let unsigned = [b"Bearer ".as_slice(), data].concat();
    let cache = &mut LocalCache::default();
    let known = tokens.identify_inline(Some(&unsigned), NOW, cache, |_| ());
    assert!(known.is_err(), "nobody has signed this");

    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[b'k'; 32]), token.as_bytes());
    let signed = format!("Bearer {token}.{}", URL_SAFE_NO_PAD.encode(signature));
    if let Ok(Some(known)) = tokens.identify_inline(Some(signed.as_bytes()), NOW, cache, |_| ()) {
        assert!(!known.subject.user.is_empty(), "a user has a name");
        valid(header, claims);
    }
}

/// A key set is taken or refused, and never anything else.
pub fn jwks(data: &[u8]) {
    // What comes of it is of no interest: a panic is.
    let _ = authenticator(TRUSTING, data);
}

/// What must hold of a token that was believed.
fn valid(header: &[u8], claims: &[u8]) {
    let header: Value = serde_json::from_slice(header).unwrap_or_default();
    let claims: Value = serde_json::from_slice(claims).unwrap_or_default();
    assert_eq!(header.get("alg"), Some(&Value::from("HS256")), "the key says what the algorithm is");
    for name in ["crit", "zip", "jwk", "jku", "x5u", "x5c"] {
        assert_eq!(header.get(name), None, "`{name}` is refused");
    }
    assert_eq!(claims.get("iss"), Some(&Value::from("https://fuzz.example")), "it is of our issuer");
    let audience = claims.get("aud").cloned().unwrap_or_default();
    let audiences = audience.as_array().cloned().unwrap_or_else(|| vec![audience]);
    assert!(audiences.contains(&Value::from("fuzz")), "it is meant for us");
    // A minute is the tolerance.
    let now = NOW.as_secs_f64();
    assert!(
        claims.get("exp").and_then(Value::as_f64).is_some_and(|it| it + 61.0 > now),
        "it has not expired"
    );
    for name in ["nbf", "iat"] {
        let begins = claims.get(name);
        let fits = begins.is_none_or(|it| it.as_f64().is_some_and(|it| name == "iat" || it <= now + 61.0));
        assert!(fits, "`{name}` is a time, and not in the future");
    }
}

fn authenticator(policy: &[u8], keys: &[u8]) -> Option<Authenticator<()>> {
    let others = [("jwks.json", keys)];
    let loaded = Memory::new(policy, &others).load().ok()?;
    let compiled = Authenticator::compile(&loaded.policy.identity, &FetchedKeys::new(), None).ok()?;
    Some(compiled.0)
}

#[expect(clippy::panic, reason = "a fuzzer that tests nothing must not look as if it did")]
fn unreadable() -> ! {
    panic!("the policies of the fuzzers do not load")
}
