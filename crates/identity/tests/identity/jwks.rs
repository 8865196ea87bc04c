//! Key sets (RFC 7517): which keys are accepted and which are rejected when they are loaded.

use std::sync::Arc;

use document::{Problem, Severity};
use identity::jwks::{self, KeySetError};
use identity::{CredentialsError, FetchedKeys};
use policy::model::Keys;
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer::{self, ALL, encode, jwk, set};

/// A key of an algorithm with members changed; `null` removes one.
fn changed(algorithm: &str, changes: &[(&str, Value)]) -> Value {
    let mut jwk = jwk(algorithm);
    for (name, value) in changes {
        jwk[*name] = value.clone();
    }
    jwk.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    jwk
}

/// The fault of a set of this one key, and whether the key is only unsuitable, not rejected.
fn fault(jwk: Value) -> (String, bool) {
    match jwks::parse(set(&[jwk]).to_string().as_bytes()) {
        Err(KeySetError::NoUsableKey(faults)) => {
            (faults[0].message.to_owned(), !faults[0].is_rejected)
        }
        other => panic!("{other:?}"),
    }
}

fn is_accepted(jwk: Value) -> bool {
    jwks::parse(set(&[jwk]).to_string().as_bytes())
        .is_ok_and(|(keys, faults)| keys.kids().count() == 1 && faults.is_empty())
}

#[test]
fn a_key_of_each_kind_is_accepted() {
    for algorithm in ALL {
        assert!(is_accepted(jwk(algorithm)), "{algorithm}");
    }
}

#[test]
fn unknown_members_are_ignored() {
    let extra =
        [("x5t", json!("abc")), ("x5c", json!(["MII"])), ("exp", json!(1)), ("use", json!("sig"))];
    assert!(is_accepted(changed("RS256", &extra)));
    assert!(
        jwks::parse(json!({ "keys": [jwk("RS256")], "more": 1 }).to_string().as_bytes()).is_ok()
    );
}

/// RFC 7518, 3.3: 2048 bits or more.
#[test]
fn rsa_keys_that_are_too_short_or_too_long_are_rejected() {
    let of_bits = |bits: usize| {
        let mut n = vec![0xC5; bits / 8];
        n[bits / 8 - 1] = 1;
        changed("RS256", &[("n", json!(encode(n)))])
    };
    for bits in [512, 1024, 2040] {
        assert_eq!(
            fault(of_bits(bits)),
            ("an RSA key of fewer than 2048 bits".to_owned(), false),
            "{bits}"
        );
    }
    assert_eq!(fault(of_bits(8200)).0, "an RSA key of more than 8192 bits");
    let mut short = signer::modulus();
    short[0] = 0x7F;
    assert_eq!(
        fault(changed("RS256", &[("n", json!(encode(short)))])).0,
        "an RSA key of fewer than 2048 bits"
    );
    let mut padded = vec![0; 200];
    padded.extend([0xC5; 128]);
    assert_eq!(
        fault(changed("RS256", &[("n", json!(encode(padded)))])).0,
        "an RSA key of fewer than 2048 bits"
    );
}

/// RFC 8017, 3.1 and FIPS 186-5, A.1.1.
#[test]
fn rsa_keys_with_a_bad_exponent_or_modulus_are_rejected() {
    for e in [&[3_u8][..], &[1], &[17], &[0, 1]] {
        assert_eq!(
            fault(changed("RS256", &[("e", json!(encode(e)))])).0,
            "an RSA key whose exponent is below 65537"
        );
    }
    for e in [&[2_u8][..], &[1, 0, 0], &[], &[0]] {
        assert_eq!(
            fault(changed("RS256", &[("e", json!(encode(e)))])).0,
            "an RSA key whose exponent is even",
            "{e:?}"
        );
    }
    for e in [&[3, 0, 0, 0, 1][..], &[1; 9], &[1; 256]] {
        assert_eq!(
            fault(changed("RS256", &[("e", json!(encode(e)))])).0,
            "an RSA key whose exponent is above 2^33"
        );
    }
    let mut even = signer::modulus();
    *even.last_mut().unwrap() &= 0xFE;
    assert_eq!(
        fault(changed("RS256", &[("n", json!(encode(even)))])).0,
        "an RSA key whose modulus is even"
    );
}

/// RFC 7518, 3.2: an HMAC key is at least as long as its hash.
#[test]
fn shared_secrets_that_are_shorter_than_their_hash_are_rejected() {
    for (algorithm, length) in [("HS256", 32), ("HS384", 48), ("HS512", 64)] {
        let of = |length| changed(algorithm, &[("k", json!(encode(vec![7; length])))]);
        assert!(is_accepted(of(length)));
        assert_eq!(
            fault(of(length - 1)).0,
            "a shared secret that is shorter than its hash",
            "{algorithm}"
        );
        assert_eq!(fault(of(0)).0, "a shared secret that is shorter than its hash", "{algorithm}");
    }
    assert_eq!(fault(changed("HS256", &[("alg", Value::Null)])).0, "a shared secret without `alg`");
}

/// RFC 7517, 4.2 and 4.3. Issuers publish such keys too, so this is no error.
#[test]
fn keys_for_another_purpose_are_not_used() {
    assert_eq!(
        fault(changed("RS256", &[("use", json!("enc"))])),
        ("its `use` is not `sig`".to_owned(), true)
    );
    assert_eq!(
        fault(changed("RS256", &[("key_ops", json!(["sign"]))])).0,
        "its `key_ops` do not have `verify`"
    );
    assert_eq!(
        fault(changed("RS256", &[("key_ops", json!([]))])).0,
        "its `key_ops` do not have `verify`"
    );
    assert!(is_accepted(changed("RS256", &[("key_ops", json!(["sign", "verify"]))])));
    for alg in ["RSA-OAEP", "RSA1_5", "ES256K", "none", "rs256", ""] {
        assert!(fault(changed("RS256", &[("alg", json!(alg))])).1, "{alg}");
    }
    assert!(fault(changed("ES256", &[("crv", json!("secp256k1")), ("alg", Value::Null)])).1);
    assert!(fault(json!({ "kty": "OKP", "crv": "X25519", "x": encode([9; 32]) })).1);
    assert!(fault(json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA" })).1);
    assert!(fault(json!({ "kty": "what" })).1);
}

/// RFC 8725, 3.1.
#[test]
fn an_alg_that_does_not_fit_its_key_is_rejected() {
    let misfits = [
        ("RS256", "HS256"),
        ("RS256", "ES256"),
        ("HS256", "RS256"),
        ("ES256", "EdDSA"),
        ("EdDSA", "ES256"),
    ];
    for (key, alg) in misfits {
        let found = fault(changed(key, &[("alg", json!(alg))]));
        assert_eq!(found, ("its `alg` does not fit its `kty`".to_owned(), false), "{key} {alg}");
    }
    for (key, alg) in [("ES256", "ES384"), ("ES384", "ES256"), ("ES512", "ES256")] {
        assert_eq!(
            fault(changed(key, &[("alg", json!(alg))])).0,
            "its `alg` does not fit its `crv`"
        );
    }
}

/// A program that reads a key set must not be able to sign.
#[test]
fn a_private_key_is_rejected_and_not_shown() {
    for (algorithm, member) in
        [("RS256", "d"), ("RS256", "p"), ("RS256", "oth"), ("ES256", "d"), ("EdDSA", "d")]
    {
        let secret = encode([0x5A; 32]);
        let problems = errors(&tokens_of(issuer(file(&set(&[changed(
            algorithm,
            &[(member, json!(secret))],
        )])))));
        assert!(
            problems[0].message.contains("a private key, which must not be here"),
            "{problems:?}"
        );
        assert!(!format!("{problems:?}").contains(&secret));
    }
}

/// RFC 7517, 4.5: such a `kid` does not identify a key.
#[test]
fn keys_with_the_same_kid_are_rejected() {
    let twice = set(&[
        changed("RS256", &[("kid", json!("a"))]),
        changed("ES256", &[("kid", json!("a"))]),
        jwk("EdDSA"),
    ]);
    let (keys, faults) = jwks::parse(twice.to_string().as_bytes()).unwrap();
    assert_eq!((keys.kids().count(), faults.len()), (1, 2));
    assert_eq!(
        (&*faults[0].key, faults[0].message),
        ("key 1 (`a`)", "another key has the same `kid`")
    );
}

/// CVE-2020-0601 and invalid-curve attacks.
#[test]
fn points_off_their_curve_are_rejected() {
    let zero = json!(encode([0; 32]));
    assert_eq!(fault(changed("ES256", &[("x", zero.clone())])).0, "not a point on its curve");
    assert_eq!(
        fault(changed("ES256", &[("x", zero.clone()), ("y", zero)])).0,
        "not a point on its curve"
    );
    let short = json!(encode([1; 31]));
    // RFC 8410, 4: the key in DER, which the library would take for one.
    let der = json!(encode(
        [&b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"[..], &[1; 32]].concat()
    ));
    for (algorithm, x) in [("ES256", &short), ("EdDSA", &short), ("EdDSA", &der)] {
        let found = fault(changed(algorithm, &[("x", x.clone())]));
        assert_eq!(
            found.0, "a coordinate that is not as long as its curve says",
            "{algorithm} {x}"
        );
    }
}

/// RFC 8032, 8 and the paper "Taming the many EdDSAs": with such a point, forged signatures verify.
#[test]
fn ed25519_keys_of_small_order_are_rejected() {
    let (mut neutral, mut minus_one) = ([0; 32], [0xFF; 32]);
    neutral[0] = 1;
    minus_one[0] = 0xEC;
    let minus_zero = minus_one.map(|byte| if byte == 0xEC { 0xED } else { byte });
    for point in [[0; 32], neutral, minus_one, minus_zero] {
        let found = fault(changed("EdDSA", &[("x", json!(encode(point)))]));
        assert_eq!(found.0, "a point of small order: anybody can sign for it", "{point:?}");
    }
}

#[test]
fn damaged_keys_are_rejected() {
    let damaged = [
        json!({}),
        json!({ "kty": 1 }),
        changed("RS256", &[("n", Value::Null)]),
        changed("RS256", &[("e", json!(65537))]),
        changed("RS256", &[("n", json!("###"))]),
        changed("RS256", &[("e", json!("AQAB="))]),
        changed("RS256", &[("kid", json!(7))]),
        changed("RS256", &[("use", json!(["sig"]))]),
        changed("RS256", &[("key_ops", json!("verify"))]),
        changed("ES256", &[("crv", Value::Null)]),
        changed("ES256", &[("y", Value::Null)]),
        changed("EdDSA", &[("x", json!(""))]),
        changed("HS256", &[("k", json!("0123 4567"))]),
    ];
    for jwk in damaged {
        assert!(!fault(jwk.clone()).1, "{jwk}");
    }
}

#[test]
fn an_invalid_key_set_is_rejected() {
    let texts: [&str; 9] = [
        "",
        "x",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":[1]}"#,
        r#"{"keys":[]}"#,
        r#"{"keys":[],"keys":[]}"#,
        "null",
    ];
    for text in texts {
        assert!(jwks::parse(text.as_bytes()).is_err(), "{text}");
    }
    let many = set(&vec![jwk("ES256"); 257]).to_string();
    assert_eq!(jwks::parse(many.as_bytes()).err(), Some(KeySetError::NotAKeySet));
    assert_eq!(jwks::parse(&vec![b' '; jwks::MAX_BYTES + 1]).err(), Some(KeySetError::TooLong));
    let duplicate =
        set(&[jwk("ES256")]).to_string().replacen("\"kty\"", "\"kty\":\"RSA\",\"kty\"", 1);
    assert!(matches!(jwks::parse(duplicate.as_bytes()), Err(KeySetError::NotJson(_))));
}

#[test]
fn a_text_that_is_no_key_set_is_named_as_what_it_is() {
    let discovery =
        json!({ "issuer": "https://a", "jwks_uri": "https://hunter2@a/keys?hunter2" }).to_string();
    for (text, message) in [
        ("", "key set `jwks.json`: not JSON: it is empty"),
        (
            " \n<!DOCTYPE html>\n<p>hunter2",
            "key set `jwks.json`: not JSON (begins with `<!DOCTYPE html>`)",
        ),
        ("<html>hunter2", "key set `jwks.json`: not JSON (begins with `<html>`)"),
        ("<hunter2", "key set `jwks.json`: not JSON: expected value at line 1 column 1"),
        ("hunter2", "key set `jwks.json`: not JSON: expected value at line 1 column 1"),
        (
            "-----BEGIN PUBLIC KEY-----\nhunter2",
            "key set `jwks.json`: not JSON: it is PEM; convert its public key to a JWK",
        ),
        (
            r#"{"keys":[],"keys":[]}"#,
            "key set `jwks.json`: not JSON: a duplicate member name at line 1 column 21",
        ),
        (&discovery, "key set `jwks.json`: a discovery document, not a key set"),
    ] {
        let keys =
            Keys::File { path: "jwks.json".into(), bytes: text.as_bytes().into(), at: place() };
        let problems = errors(&tokens_of(issuer(keys)));
        assert_eq!(problems[0].message, message);
        assert!(!problems[0].to_string().contains("hunter2"), "{}", problems[0]);
    }
    let keys =
        Keys::File { path: "jwks.json".into(), bytes: discovery.as_bytes().into(), at: place() };
    let help = errors(&tokens_of(issuer(keys))).remove(0).help.unwrap();
    assert_eq!(help, "write `discovery: true`, or the URL of its `jwks_uri`: `https://a/keys`");
}

/// The error names the key and does not show its content.
#[test]
fn a_weak_key_in_a_file_is_an_error_also_beside_a_good_one() {
    let weak = changed("HS256", &[("k", json!(encode("0123456789")))]);
    let problems = errors(&tokens_of(issuer(file(&set(&[jwk("HS512"), weak])))));
    assert_eq!(problems.len(), 1);
    assert_eq!(
        problems[0].message,
        "key 2 (`HS256`) cannot be used: a shared secret that is shorter than its hash, in `jwks.json`"
    );
    assert!(!problems[0].to_string().contains(&encode("0123456789")));
}

#[test]
fn a_key_for_another_purpose_in_a_file_is_a_warning() {
    let signing = changed("RS256", &[("key_ops", json!(["sign"]))]);
    let settings = tokens_of(issuer(file(&set(&[jwk("ES256"), signing]))));
    assert_eq!(warnings(&settings).len(), 1);
    let token = signer::bearer(&signer::token("RS256"));
    assert_eq!(
        authenticate(&compile(&settings), &token).unwrap_err(),
        CredentialsError::UnknownKey
    );
}

/// Issuers such as Keycloak publish a key for encryption beside those for signatures.
#[test]
fn a_key_for_encryption_is_ignored_without_a_warning() {
    let keys = set(&[
        jwk("ES256"),
        changed("RS256", &[("use", json!("enc")), ("alg", json!("RSA-OAEP"))]),
    ]);
    let settings = tokens_of(issuer(file(&keys)));
    assert!(warnings(&settings).is_empty());
    let token = signer::bearer(&signer::token("RS256"));
    assert_eq!(
        authenticate(&compile(&settings), &token).unwrap_err(),
        CredentialsError::UnknownKey
    );
    let private = changed("RS256", &[("use", json!("enc")), ("d", json!("AQAB"))]);
    assert!(!errors(&tokens_of(issuer(file(&set(&[jwk("ES256"), private]))))).is_empty());
}

#[test]
fn a_file_without_any_usable_key_is_an_error_that_says_why() {
    let problems =
        errors(&tokens_of(issuer(file(&set(&[changed("RS256", &[("use", json!("enc"))])])))));
    assert!(problems.iter().any(Problem::is_warning));
    assert!(
        problems.iter().any(
            |problem| problem.severity == Severity::Error && problem.message.contains("no key")
        )
    );
}

fn fetched(bytes: &str) -> FetchedKeys {
    FetchedKeys::from([(
        "https://id.example.com/jwks.json".into(),
        Some(Arc::from(bytes.as_bytes())),
    )])
}

/// Another party may run the issuer, so one bad key does not disable the good ones.
#[test]
fn a_weak_key_in_a_fetched_set_is_left_out_with_a_warning() {
    let weak = changed("RS256", &[("e", json!(encode([3])))]);
    let settings = tokens_of(issuer(url("https://id.example.com/jwks.json")));
    let keys = fetched(&set(&[jwk("ES256"), weak]).to_string());
    let (auth, warnings) = Auth::compile(&settings, &keys, identity::Limits::default()).unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        warnings[0].message,
        "key 2 (`RS256`) is ignored: an RSA key whose exponent is below 65537, in `https://id.example.com/jwks.json`"
    );
    assert!(authenticate(&auth, &signer::bearer(&signer::token("ES256"))).is_ok());
    assert_eq!(
        authenticate(&auth, &signer::bearer(&signer::token("RS256"))).unwrap_err(),
        CredentialsError::UnknownKey
    );
}

/// `crates/README.md`, invariant 7: the query of a URL may have an API key, and problems are
/// logged.
#[test]
fn problems_of_fetched_keys_do_not_show_the_query_of_their_url() {
    let address = "https://id.example.com/jwks.json?api_key=hunter2";
    let settings = tokens_of(issuer(url(address)));
    let weak = changed("HS256", &[("k", json!(encode("0123456789")))]);
    for keys in [set(&[jwk("HS256"), weak.clone()]), set(&[weak]), json!("none")] {
        let fetched =
            FetchedKeys::from([(address.into(), Some(Arc::from(keys.to_string().as_bytes())))]);
        let (Ok((_, problems)) | Err(problems)) =
            Auth::compile(&settings, &fetched, identity::Limits::default());
        assert!(!problems.is_empty());
        for problem in problems {
            assert!(problem.message.contains("https://id.example.com/jwks.json`"), "{problem}");
            assert!(!format!("{problem:?}").contains("hunter2"), "{problem}");
        }
    }
}

#[test]
fn a_shared_secret_at_a_url_is_accepted_with_a_warning() {
    let settings = tokens_of(issuer(url("https://id.example.com/jwks.json")));
    let (_, warnings) = Auth::compile(
        &settings,
        &fetched(&set(&[jwk("HS256")]).to_string()),
        identity::Limits::default(),
    )
    .unwrap();
    assert!(warnings[0].message.contains("publishes a shared secret"));
}

/// RFC 8725, 3.1 and 3.2: a shared secret among public keys has leaked, or is an attack. Whether
/// the secret itself could be used does not matter.
#[test]
fn a_shared_secret_among_public_keys_is_rejected() {
    let secret = encode([0x5A; 64]);
    let secrets = [
        jwk("HS256"),
        changed("HS256", &[("k", json!(encode("0123456789")))]),
        changed("HS256", &[("alg", Value::Null)]),
        changed("HS256", &[("use", json!("enc"))]),
        changed("HS256", &[("alg", json!("A256GCM"))]),
    ];
    for public in ["RS256", "ES256", "EdDSA"] {
        for oct in &secrets {
            let keys = set(&[jwk(public), oct.clone()]);
            let error = jwks::parse(keys.to_string().as_bytes()).unwrap_err();
            assert_eq!(error, KeySetError::Mixed(vec!["key 2 (`HS256`)".to_owned()]), "{oct}");
            let problems = errors(&tokens_of(issuer(file(&keys))));
            assert_eq!(
                problems[0].message,
                "key set `jwks.json`: shared secrets among public keys: key 2 (`HS256`)"
            );
            assert!(!format!("{problems:?}").contains(&secret));
        }
    }
    let unnamed = set(&[changed("HS256", &[("kid", Value::Null)]), jwk("ES256"), jwk("HS512")]);
    let error = jwks::parse(unnamed.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "shared secrets among public keys: key 1, key 3 (`HS512`)");
}

#[test]
fn a_set_of_only_shared_secrets_is_accepted() {
    let keys = set(&[jwk("HS256"), jwk("HS512")]).to_string();
    assert_eq!(jwks::parse(keys.as_bytes()).unwrap().0.kids().count(), 2);
}

/// The last good set is kept, and its tokens are still valid.
#[test]
fn a_fetched_set_with_secrets_among_public_keys_is_an_error() {
    let settings = tokens_of(issuer(url("https://id.example.com/jwks.json")));
    let good = fetched(&set(&[jwk("ES256")]).to_string());
    let mixed = fetched(&set(&[jwk("ES256"), jwk("HS256")]).to_string());
    let before = Auth::compile(&settings, &good, identity::Limits::default()).unwrap().0;
    let problems = Auth::compile(&settings, &mixed, identity::Limits::default()).unwrap_err();
    assert_eq!(
        problems[0].message,
        "key set `https://id.example.com/jwks.json`: shared secrets among public keys: key 2 (`HS256`)"
    );
    assert_eq!((problems.len(), problems[0].severity), (1, Severity::Error));
    assert!(authenticate(&before, &signer::bearer(&signer::token("ES256"))).is_ok());
    assert_eq!(
        authenticate(&before, &signer::bearer(&signer::token("HS256"))).unwrap_err(),
        CredentialsError::UnknownKey
    );
}

#[test]
fn without_fetched_keys_every_token_is_invalid() {
    let auth = compile(&tokens_of(issuer(url("https://id.example.com/jwks.json"))));
    assert_eq!(
        authenticate(&auth, &signer::bearer(&signer::token("ES256"))).unwrap_err(),
        CredentialsError::KeysUnavailable
    );
}

/// It is passed on once, however many tokens name the unknown key.
#[test]
fn an_unknown_kid_is_a_reason_to_fetch_the_keys_again() {
    let settings = tokens_of(issuer(url("https://id.example.com/jwks.json")));
    let auth = Auth::compile(
        &settings,
        &fetched(&set(&[jwk("ES256")]).to_string()),
        identity::Limits::default(),
    )
    .unwrap()
    .0;
    let at = policy::KeyUrl::from("https://id.example.com/jwks.json");
    let unknown = || auth.take_unknown_kids(&at).kids().map(str::to_owned).collect::<Vec<_>>();
    assert!(authenticate(&auth, &signer::bearer(&signer::token("ES256"))).is_ok());
    assert!(unknown().is_empty());
    for _ in 0..3 {
        assert_eq!(
            authenticate(&auth, &signer::bearer(&signer::token("EdDSA"))).unwrap_err(),
            CredentialsError::UnknownKey
        );
    }
    assert!(auth.take_unknown_kids(&"https://other.example.com".into()).is_empty());
    assert_eq!(unknown(), ["EdDSA"]);
    assert!(unknown().is_empty());
    let in_a_file = compile(&tokens_of(issuer(file(&set(&[jwk("ES256")])))));
    assert!(authenticate(&in_a_file, &signer::bearer(&signer::token("EdDSA"))).is_err());
    assert!(in_a_file.take_unknown_kids(&at).is_empty());
}
