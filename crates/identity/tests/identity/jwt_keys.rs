//! Signatures: each algorithm, and the known attacks that make a verifier use another one (RFC
//! 8725, 2.1 and 3.1).

use aws_lc_rs::hmac;
use identity::CredentialsError;
use serde_json::{Value, json};

use crate::settings::*;
use crate::signer::{self, ALL, bearer, claims, encode, header, jwk, set, signed, token};

fn with(keys: &[Value]) -> Auth {
    compile(&tokens_of(issuer(file(&set(keys)))))
}

/// Every key: the shared secrets in a set of their own, since they must not be among public keys.
struct AllKeys {
    secret: Auth,
    public: Auth,
}

fn all_keys() -> AllKeys {
    let (secret, public): (Vec<&str>, Vec<&str>) =
        ALL.iter().partition(|name| name.starts_with("HS"));
    let with = |names: Vec<&str>| with(&names.into_iter().map(jwk).collect::<Vec<_>>());
    AllKeys { secret: with(secret), public: with(public) }
}

impl AllKeys {
    /// The set with the key of this algorithm.
    fn of(&self, algorithm: &str) -> &Auth {
        if algorithm.starts_with("HS") { &self.secret } else { &self.public }
    }
}

fn without(name: &str, mut value: Value) -> Value {
    value.as_object_mut().unwrap().remove(name);
    value
}

#[test]
fn a_valid_token_of_each_algorithm_is_accepted() {
    let auth = all_keys();
    for algorithm in ALL {
        assert_eq!(
            &*authenticate(auth.of(algorithm), &bearer(&token(algorithm))).unwrap().user,
            "carol",
            "{algorithm}"
        );
    }
}

/// RFC 9864, 2.2.
#[test]
fn ed25519_is_another_name_of_eddsa() {
    let header = json!({ "alg": "Ed25519", "kid": "EdDSA" });
    assert!(
        authenticate(&all_keys().public, &bearer(&signed("EdDSA", &header, &claims()))).is_ok()
    );
}

#[test]
fn a_changed_token_of_any_algorithm_is_invalid() {
    let auth = all_keys();
    for algorithm in ALL {
        let good = token(algorithm);
        for place in (0..good.len()).step_by(7) {
            let changed: String = good
                .char_indices()
                .map(|(at, c)| if at == place { if c == 'B' { 'C' } else { 'B' } } else { c })
                .collect();
            assert!(
                changed == good || authenticate(auth.of(algorithm), &bearer(&changed)).is_err(),
                "{algorithm} at {place}"
            );
        }
    }
}

/// CVE-2022-21449: a signature of zeros. Also too short, too long, empty, and in DER.
#[test]
fn malformed_signatures_are_invalid() {
    let auth = all_keys();
    for algorithm in ALL {
        let good = token(algorithm);
        let (signed, _) = good.rsplit_once('.').unwrap();
        let own = signer::sign(algorithm, signed.as_bytes());
        let shapes = [
            vec![],
            vec![0],
            vec![0; own.len()],
            vec![0xFF; own.len()],
            own[..own.len() - 1].to_vec(),
            [own.clone(), vec![0]].concat(),
            [vec![0], own.clone()].concat(),
            [vec![0x30, 0x44], own].concat(),
        ];
        for signature in shapes {
            let token = [signed, &encode(&signature)].join(".");
            assert_eq!(
                authenticate(auth.of(algorithm), &bearer(&token)).unwrap_err(),
                CredentialsError::BadSignature,
                "{algorithm} {signature:?}"
            );
        }
    }
}

/// RFC 8725, 3.1: a token that names another algorithm than its key's is invalid, even if the key
/// fits that algorithm.
#[test]
fn a_token_cannot_choose_its_algorithm() {
    let auth = all_keys();
    for key in ALL {
        for algorithm in ALL {
            let token = signed(algorithm, &json!({ "alg": algorithm, "kid": key }), &claims());
            let expected =
                if key == algorithm { None } else { Some(CredentialsError::WrongAlgorithm) };
            assert_eq!(
                authenticate(auth.of(key), &bearer(&token)).err(),
                expected,
                "a token of {algorithm} with the key of {key}"
            );
        }
    }
}

/// RFC 8725, 2.1 and 3.2; CVE-2015-9235 and CVE-2015-2951.
#[test]
fn the_algorithm_none_is_invalid_in_any_case() {
    let auth = all_keys();
    for name in ["none", "None", "NONE", "nOnE", "", " ", "none\u{0}"] {
        for kid in [json!({ "alg": name }), json!({ "alg": name, "kid": "HS256" })] {
            let unsigned =
                [encode(kid.to_string()), encode(claims().to_string()), String::new()].join(".");
            for auth in [&auth.secret, &auth.public] {
                assert_eq!(
                    authenticate(auth, &bearer(&unsigned)).unwrap_err(),
                    CredentialsError::UnsupportedAlgorithm,
                    "{name:?}"
                );
            }
        }
    }
}

/// RFC 7515, 4.1.1: the name is case-sensitive; RFC 8725, 3.1: no algorithm that is not listed.
#[test]
fn unsupported_algorithms_are_invalid() {
    let auth = all_keys().public;
    for name in [
        "hs256",
        "Rs256",
        "RS1",
        "HS1",
        "ES256K",
        "RSA-OAEP",
        "dir",
        "RS256 ",
        "ML-DSA-44",
        "Ed448",
    ] {
        let token = signed("RS256", &json!({ "alg": name, "kid": "RS256" }), &claims());
        assert_eq!(
            authenticate(&auth, &bearer(&token)).unwrap_err(),
            CredentialsError::UnsupportedAlgorithm,
            "{name}"
        );
    }
    for alg in [json!(null), json!(1), json!(["RS256"])] {
        let token = signed("RS256", &json!({ "alg": alg, "kid": "RS256" }), &claims());
        assert_eq!(
            authenticate(&auth, &bearer(&token)).unwrap_err(),
            CredentialsError::MalformedToken,
            "{alg}"
        );
    }
    let token = signed("RS256", &without("alg", header("RS256")), &claims());
    assert_eq!(authenticate(&auth, &bearer(&token)).unwrap_err(), CredentialsError::MalformedToken);
}

/// RFC 7518, 3.1: some libraries accept `ES521` as an alias of `ES512`. Only registered names are
/// accepted.
#[test]
fn es521_is_not_another_name_of_es512() {
    let token = signed("ES512", &json!({ "alg": "ES521", "kid": "ES512" }), &claims());
    assert_eq!(
        authenticate(&all_keys().public, &bearer(&token)).unwrap_err(),
        CredentialsError::UnsupportedAlgorithm
    );
    let mut renamed = jwk("ES512");
    renamed["alg"] = json!("ES521");
    let set = set(&[renamed, jwk("ES256")]).to_string();
    let (keys, faults) = identity::jwks::parse(set.as_bytes()).unwrap();
    assert_eq!((keys.kids().count(), faults[0].message), (1, "its `alg` is not supported"));
}

/// RFC 8725, 2.1; CVE-2016-5431 and CVE-2016-10555: HMAC with a public key as the secret.
#[test]
fn a_public_key_is_never_used_as_an_hmac_secret() {
    let auth = with(&[jwk("RS256")]);
    let der = signer::rsa_key();
    let forms = [
        der.clone(),
        signer::modulus(),
        encode(signer::modulus()).into_bytes(),
        jwk("RS256").to_string().into_bytes(),
    ];
    for secret in forms {
        for kid in [json!({ "alg": "HS256", "kid": "RS256" }), json!({ "alg": "HS256" })] {
            let message = [encode(kid.to_string()), encode(claims().to_string())].join(".");
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
            let token = [message, encode(tag)].join(".");
            let error = authenticate(&auth, &bearer(&token)).unwrap_err();
            assert!(
                matches!(error, CredentialsError::WrongAlgorithm | CredentialsError::UnknownKey),
                "{error:?}"
            );
        }
    }
}

/// The pinning of keys without `alg`: see the table in the module `jwks`.
#[test]
fn a_key_without_alg_is_pinned_to_one_algorithm() {
    for (key, pinned) in [
        ("RS256", "RS256"),
        ("PS512", "RS256"),
        ("ES256", "ES256"),
        ("ES384", "ES384"),
        ("ES512", "ES512"),
        ("EdDSA", "EdDSA"),
    ] {
        let mut jwk = without("alg", jwk(key));
        jwk["kid"] = json!("only");
        let auth = with(&[jwk]);
        for algorithm in ALL {
            let token = signed(algorithm, &json!({ "alg": algorithm, "kid": "only" }), &claims());
            assert_eq!(
                authenticate(&auth, &bearer(&token)).is_ok(),
                algorithm == pinned,
                "{key} with {algorithm}"
            );
        }
    }
}

/// Even if the set has only one key. RFC 7515, 4.1.4: case-sensitive.
#[test]
fn an_unknown_kid_is_invalid() {
    let auth = with(&[jwk("ES256")]);
    for kid in ["", "es256", "ES256 ", "../ES256", "ES256\u{0}", "' or 1=1 --"] {
        let token = signed("ES256", &json!({ "alg": "ES256", "kid": kid }), &claims());
        assert_eq!(
            authenticate(&auth, &bearer(&token)).unwrap_err(),
            CredentialsError::UnknownKey,
            "{kid}"
        );
    }
    for kid in [json!(null), json!(1), json!(["ES256"]), json!({})] {
        let token = signed("ES256", &json!({ "alg": "ES256", "kid": kid }), &claims());
        assert_eq!(
            authenticate(&auth, &bearer(&token)).unwrap_err(),
            CredentialsError::MalformedToken,
            "{kid}"
        );
    }
}

#[test]
fn a_token_without_a_kid_needs_exactly_one_key_of_its_algorithm() {
    let token = signed("ES256", &json!({ "alg": "ES256" }), &claims());
    assert!(
        authenticate(&with(&[jwk("ES256"), jwk("ES384"), jwk("RS256")]), &bearer(&token)).is_ok()
    );
    assert!(authenticate(&with(&[without("kid", jwk("ES256"))]), &bearer(&token)).is_ok());
    let mut second = jwk("ES256");
    second["kid"] = json!("second");
    assert_eq!(
        authenticate(&with(&[jwk("ES256"), second]), &bearer(&token)).unwrap_err(),
        CredentialsError::UnknownKey
    );
    assert_eq!(
        authenticate(&with(&[jwk("ES384")]), &bearer(&token)).unwrap_err(),
        CredentialsError::UnknownKey
    );
    let named = signed("ES256", &header("ES256"), &claims());
    assert_eq!(
        authenticate(&with(&[without("kid", jwk("ES256"))]), &bearer(&named)).unwrap_err(),
        CredentialsError::UnknownKey
    );
}

#[test]
fn a_cached_token_matches_only_the_whole_token() {
    let auth = all_keys().public;
    let good = bearer(&token("RS256"));
    let first = authenticate_at(&auth, good.as_bytes(), now()).unwrap();
    let second = authenticate_at(&auth, good.as_bytes(), now()).unwrap();
    assert_eq!(first.entry, second.entry);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let swapped = format!("{signed}.{}", signature.chars().rev().collect::<String>());
    assert!(authenticate(&auth, &swapped).is_err());
    assert!(authenticate(&auth, &swapped).is_err(), "a failure is not cached");
}
