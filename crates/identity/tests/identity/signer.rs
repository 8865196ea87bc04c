//! An issuer that signs: one key of each kind, made once a run.

use std::sync::LazyLock;

use aws_lc_rs::encoding::AsBigEndian as _;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::settings::{AUDIENCE, ISSUER, NOW};

/// A shared secret, long enough for every hash.
pub(crate) const SECRET: &[u8; 64] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static RSA: LazyLock<RsaKeyPair> = LazyLock::new(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap());
static P256: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
static P384: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap());
static P521: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).unwrap());
static ED25519: LazyLock<Ed25519KeyPair> = LazyLock::new(|| Ed25519KeyPair::generate().unwrap());

/// Every algorithm there is.
pub(crate) const ALL: [&str; 13] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
    "ES512", "EdDSA",
];

/// The public key of an algorithm (the secret one, for HS*), with `alg` and the algorithm's name as `kid`.
pub(crate) fn jwk(algorithm: &str) -> Value {
    let mut jwk = match algorithm {
        "HS256" | "HS384" | "HS512" => json!({ "kty": "oct", "k": encode(SECRET) }),
        "ES256" => ec("P-256", &P256),
        "ES384" => ec("P-384", &P384),
        "ES512" => ec("P-521", &P521),
        "EdDSA" => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(ED25519.public_key()) }),
        _ => rsa(),
    };
    jwk["alg"] = json!(algorithm);
    jwk["kid"] = json!(algorithm);
    jwk
}

pub(crate) fn set(keys: &[Value]) -> Value {
    json!({ "keys": keys })
}

/// A signature by the key of an algorithm.
pub(crate) fn sign(algorithm: &str, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    let ec = |pair: &EcdsaKeyPair| pair.sign(&random, message).unwrap().as_ref().to_vec();
    let mac = |hash| hmac::sign(&hmac::Key::new(hash, SECRET), message).as_ref().to_vec();
    match algorithm {
        "HS256" => mac(hmac::HMAC_SHA256),
        "HS384" => mac(hmac::HMAC_SHA384),
        "HS512" => mac(hmac::HMAC_SHA512),
        "RS256" => rsa_signature(&RSA_PKCS1_SHA256, message),
        "RS384" => rsa_signature(&RSA_PKCS1_SHA384, message),
        "RS512" => rsa_signature(&RSA_PKCS1_SHA512, message),
        "PS256" => rsa_signature(&RSA_PSS_SHA256, message),
        "PS384" => rsa_signature(&RSA_PSS_SHA384, message),
        "PS512" => rsa_signature(&RSA_PSS_SHA512, message),
        "ES256" => ec(&P256),
        "ES384" => ec(&P384),
        "ES512" => ec(&P521),
        "EdDSA" => ED25519.sign(message).as_ref().to_vec(),
        other => panic!("{other}"),
    }
}

/// Claims that are fine at [`NOW`].
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "carol", "exp": NOW + 300, "iat": NOW, "groups": ["staff"] })
}

/// Claims that are fine but for this one; `null` as a Rust `None` takes it away.
pub(crate) fn claims_with(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    match value {
        Some(value) => claims[name] = value,
        None => drop(claims.as_object_mut().unwrap().remove(name)),
    }
    claims
}

/// A header that is fine.
pub(crate) fn header(algorithm: &str) -> Value {
    json!({ "alg": algorithm, "kid": algorithm, "typ": "JWT" })
}

/// A good token.
pub(crate) fn token(algorithm: &str) -> String {
    signed(algorithm, &header(algorithm), &claims())
}

/// A token with this header and these claims, signed by the key of this algorithm.
pub(crate) fn signed(algorithm: &str, header: &Value, claims: &Value) -> String {
    signed_text(algorithm, &header.to_string(), &claims.to_string())
}

/// A token of these texts, signed.
pub(crate) fn signed_text(algorithm: &str, header: &str, claims: &str) -> String {
    let message = [encode(header), encode(claims)].join(".");
    let signature = encode(sign(algorithm, message.as_bytes()));
    [message, signature].join(".")
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The modulus of the RSA key.
pub(crate) fn modulus() -> Vec<u8> {
    let key = rsa_key();
    let (length, rest) = der(&key[1..]);
    assert_eq!(length, rest.len());
    let (length, rest) = der(&rest[1..]);
    rest[..length].iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// The RSA public key in DER: what a confused verifier would take as a secret.
pub(crate) fn rsa_key() -> Vec<u8> {
    RSA.public_key().as_ref().to_vec()
}

fn rsa() -> Value {
    json!({ "kty": "RSA", "n": encode(modulus()), "e": "AQAB" })
}

fn ec(curve: &str, pair: &EcdsaKeyPair) -> Value {
    let point = pair.public_key().as_be_bytes_uncompressed();
    let (x, y) = point[1..].split_at((point.len() - 1) / 2);
    json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y) })
}

/// The uncompressed form of a point.
trait Uncompressed {
    fn as_be_bytes_uncompressed(&self) -> Vec<u8>;
}

impl Uncompressed for aws_lc_rs::signature::EcdsaPublicKey {
    fn as_be_bytes_uncompressed(&self) -> Vec<u8> {
        let point: aws_lc_rs::encoding::EcPublicKeyUncompressedBin<'_> = self.as_be_bytes().unwrap();
        point.as_ref().to_vec()
    }
}

fn rsa_signature(encoding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; RSA.public_modulus_len()];
    RSA.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
    signature
}

/// A DER length and what follows it.
fn der(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes[0] {
        0x82 => (usize::from(bytes[1]) << 8 | usize::from(bytes[2]), &bytes[3..]),
        0x81 => (usize::from(bytes[1]), &bytes[2..]),
        short => (usize::from(short), &bytes[1..]),
    }
}
