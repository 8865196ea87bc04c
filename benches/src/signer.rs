//! A token issuer with a key of every type, generated for each run.

use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::error::Unspecified;
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

/// Every algorithm that rolegate verifies.
pub const ALGORITHMS: [&str; 13] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
    "ES512", "EdDSA",
];
/// The issuer of the tokens.
pub const ISSUER: &str = "https://id.example.com";
/// The audience of the tokens.
pub const AUDIENCE: &str = "people";

/// A shared secret as long as the longest hash.
const SECRET: [u8; 64] = [0x5A; 64];

/// The keys.
#[derive(Debug)]
pub struct Signer {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    p521: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Signer {
    /// New keys; RSA keys have 2048 bits.
    ///
    /// # Errors
    /// If the system provides no randomness, for example.
    pub fn new() -> Result<Self, Unspecified> {
        Ok(Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048)?,
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?,
            p384: EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING)?,
            p521: EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING)?,
            ed25519: Ed25519KeyPair::generate()?,
        })
    }

    /// The JSON Web Key Set of the public keys; each key id is the name of its algorithm.
    ///
    /// # Errors
    /// If a key cannot be exported.
    pub fn jwks(&self) -> Result<Value, Unspecified> {
        self.set(|algorithm| !algorithm.starts_with("HS"))
    }

    /// The JSON Web Key Set of the shared secrets. Separate, because rolegate does not accept a set that contains both
    /// kinds.
    ///
    /// # Errors
    /// Never.
    pub fn secrets(&self) -> Result<Value, Unspecified> {
        self.set(|algorithm| algorithm.starts_with("HS"))
    }

    fn set(&self, of: impl Fn(&str) -> bool) -> Result<Value, Unspecified> {
        let algorithms = ALGORITHMS.into_iter().filter(|algorithm| of(algorithm));
        let keys: Result<Vec<Value>, _> = algorithms.map(|algorithm| self.jwk(algorithm)).collect();
        Ok(json!({ "keys": keys? }))
    }

    /// An `Authorization` value whose token has about as many claims as a real one: about 900 bytes.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn bearer(&self, algorithm: &str, now: u64) -> Result<String, Unspecified> {
        let header = json!({ "alg": algorithm, "kid": algorithm, "typ": "JWT" });
        let message = [header, claims(now)].map(|it| encode(it.to_string())).join(".");
        let signature = encode(self.sign(algorithm, message.as_bytes())?);
        Ok(format!("Bearer {message}.{signature}"))
    }

    fn jwk(&self, algorithm: &str) -> Result<Value, Unspecified> {
        let mut jwk = match algorithm {
            "HS256" | "HS384" | "HS512" => json!({ "kty": "oct", "k": encode(SECRET) }),
            "ES256" => point("P-256", &self.p256)?,
            "ES384" => point("P-384", &self.p384)?,
            "ES512" => point("P-521", &self.p521)?,
            "EdDSA" => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(self.ed25519.public_key()) }),
            _ => self.rsa_jwk(),
        };
        if let Some(jwk) = jwk.as_object_mut() {
            jwk.insert("alg".into(), algorithm.into());
            jwk.insert("kid".into(), algorithm.into());
        }
        Ok(jwk)
    }

    /// The encoded public key is the modulus followed by the exponent 65537, which takes five bytes (RFC 8017, A.1.1).
    fn rsa_jwk(&self) -> Value {
        let key = self.rsa.public_key().as_ref();
        let end = key.len().saturating_sub(5);
        let start = end.saturating_sub(self.rsa.public_modulus_len());
        json!({ "kty": "RSA", "n": encode(key.get(start..end).unwrap_or_default()), "e": "AQAB" })
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mac = |hash| hmac::sign(&hmac::Key::new(hash, &SECRET), message).as_ref().to_vec();
        let curve = |pair: &EcdsaKeyPair| Ok(pair.sign(&SystemRandom::new(), message)?.as_ref().to_vec());
        match algorithm {
            "HS256" => Ok(mac(hmac::HMAC_SHA256)),
            "HS384" => Ok(mac(hmac::HMAC_SHA384)),
            "HS512" => Ok(mac(hmac::HMAC_SHA512)),
            "RS256" => self.rsa_signature(&RSA_PKCS1_SHA256, message),
            "RS384" => self.rsa_signature(&RSA_PKCS1_SHA384, message),
            "RS512" => self.rsa_signature(&RSA_PKCS1_SHA512, message),
            "PS256" => self.rsa_signature(&RSA_PSS_SHA256, message),
            "PS384" => self.rsa_signature(&RSA_PSS_SHA384, message),
            "PS512" => self.rsa_signature(&RSA_PSS_SHA512, message),
            "ES256" => curve(&self.p256),
            "ES384" => curve(&self.p384),
            "ES512" => curve(&self.p521),
            "EdDSA" => Ok(self.ed25519.sign(message).as_ref().to_vec()),
            _ => Err(Unspecified),
        }
    }

    fn rsa_signature(
        &self,
        encoding: &'static dyn RsaEncoding,
        message: &[u8],
    ) -> Result<Vec<u8>, Unspecified> {
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        self.rsa.sign(encoding, &SystemRandom::new(), message, &mut signature)?;
        Ok(signature)
    }
}

fn claims(now: u64) -> Value {
    json!({
        "iss": ISSUER, "aud": [AUDIENCE, "account"], "sub": "8d1a1c3e-51b4-4b2e-9d5f-3d2f1f6f1d11",
        "exp": now + 86_400, "iat": now, "auth_time": now, "jti": "f1c2a7c2-6ad8-4d59-a7f1-0a1b2c3d4e5f",
        "typ": "Bearer", "azp": "frontend", "acr": "1", "scope": "openid email profile",
        "email_verified": true, "session_state": "0e1f8a5e-93d2-4c77-a6a5-0f4d3c2b1a09",
        "allowed-origins": ["https://www.example.com"],
        "realm_access": { "roles": ["guest", "offline_access", "uma_authorization"] },
        "name": "Alice Liddell", "preferred_username": "alice", "email": "alice@example.com",
    })
}

fn point(curve: &str, pair: &EcdsaKeyPair) -> Result<Value, Unspecified> {
    let point: EcPublicKeyUncompressedBin<'_> = pair.public_key().as_be_bytes()?;
    // After a byte that means "uncompressed": x and y, of equal length.
    let [_, both @ ..] = point.as_ref() else { return Err(Unspecified) };
    let (x, y) = both.split_at(both.len() / 2);
    Ok(json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y) }))
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
