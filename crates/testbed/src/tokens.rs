//! Tokens (RFC 7519) and key sets (RFC 7517) of an issuer with a key for every algorithm that
//! rolegate verifies.

#![expect(clippy::expect_used, reason = "without keys there is nothing to test or to measure")]

use std::fmt;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use policy::model::{ClaimValue, Identity, RequiredClaim};
use serde_json::{Map, Value, json};

use crate::process::Failed;

/// Every algorithm that rolegate verifies.
pub const ALGORITHMS: [&str; 13] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "EdDSA",
];
/// The shared secret of the HMAC algorithms, as long as the hash of HS512.
const SECRET: [u8; 64] = *b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// The issuer of [`Signer::bearer`].
pub const ISSUER: &str = "https://id.example.com";
/// The audience of [`Signer::bearer`].
pub const AUDIENCE: &str = "people";

/// A new P-256 key in PEM (PKCS #8).
pub fn private_key() -> String {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    let text = STANDARD.encode(key.expect("a key").as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

/// The keys of an issuer. Each is generated when it is first used; RSA keys have 2048 bits.
pub struct Signer {
    rsa: LazyLock<RsaKeyPair>,
    p256: LazyLock<EcdsaKeyPair>,
    p384: LazyLock<EcdsaKeyPair>,
    p521: LazyLock<EcdsaKeyPair>,
    ed25519: LazyLock<Ed25519KeyPair>,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            rsa: LazyLock::new(|| RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")),
            p256: LazyLock::new(|| curve_key(&ECDSA_P256_SHA256_FIXED_SIGNING)),
            p384: LazyLock::new(|| curve_key(&ECDSA_P384_SHA384_FIXED_SIGNING)),
            p521: LazyLock::new(|| curve_key(&ECDSA_P521_SHA512_FIXED_SIGNING)),
            ed25519: LazyLock::new(|| Ed25519KeyPair::generate().expect("a key")),
        }
    }
}

fn curve_key(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    EcdsaKeyPair::generate(algorithm).expect("a key")
}

fn curve_jwk(curve: &str, pair: &EcdsaKeyPair) -> Value {
    // An uncompressed point: 0x04, then both coordinates with equal length.
    let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
    let (x, y) = point.split_at(point.len() / 2);
    json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y) })
}

fn curve_signature(pair: &EcdsaKeyPair, message: &[u8]) -> Vec<u8> {
    pair.sign(&SystemRandom::new(), message).expect("a signature").as_ref().to_vec()
}

fn mac(hash: hmac::Algorithm, message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hash, &SECRET), message).as_ref().to_vec()
}

impl Signer {
    /// The key with which tokens of this algorithm are verified, as a JSON Web Key whose id is the
    /// algorithm.
    pub fn jwk(&self, algorithm: &str) -> Value {
        let mut jwk = match algorithm {
            "HS256" | "HS384" | "HS512" => json!({ "kty": "oct", "k": encode(SECRET) }),
            "ES256" => curve_jwk("P-256", &self.p256),
            "ES384" => curve_jwk("P-384", &self.p384),
            "ES512" => curve_jwk("P-521", &self.p521),
            "EdDSA" => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(self.ed25519.public_key()) })
            }
            _ => json!({ "kty": "RSA", "n": encode(self.modulus()), "e": "AQAB" }),
        };
        if let Some(jwk) = jwk.as_object_mut() {
            jwk.insert("alg".into(), algorithm.into());
            jwk.insert("kid".into(), algorithm.into());
        }
        jwk
    }

    /// The key set with the key of ES256.
    pub fn key_set(&self) -> String {
        json!({ "keys": [self.jwk("ES256")] }).to_string()
    }

    /// The public RSA key in DER.
    pub fn rsa_key(&self) -> Vec<u8> {
        self.rsa.public_key().as_ref().to_vec()
    }

    /// The modulus of the RSA key. In DER, the last five bytes of the key are the exponent 65537,
    /// and the modulus comes before them (RFC 8017, A.1.1).
    pub fn modulus(&self) -> Vec<u8> {
        let key = self.rsa_key();
        let end = key.len().saturating_sub(5);
        let start = end.saturating_sub(self.rsa.public_modulus_len());
        key.get(start..end).unwrap_or_default().to_vec()
    }

    /// A signature of this algorithm.
    pub fn signature(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match algorithm {
            "HS256" => mac(hmac::HMAC_SHA256, message),
            "HS384" => mac(hmac::HMAC_SHA384, message),
            "HS512" => mac(hmac::HMAC_SHA512, message),
            "RS256" => self.rsa_signature(&RSA_PKCS1_SHA256, message),
            "RS384" => self.rsa_signature(&RSA_PKCS1_SHA384, message),
            "RS512" => self.rsa_signature(&RSA_PKCS1_SHA512, message),
            "PS256" => self.rsa_signature(&RSA_PSS_SHA256, message),
            "PS384" => self.rsa_signature(&RSA_PSS_SHA384, message),
            "PS512" => self.rsa_signature(&RSA_PSS_SHA512, message),
            "ES384" => curve_signature(&self.p384, message),
            "ES512" => curve_signature(&self.p521, message),
            "EdDSA" => self.ed25519.sign(message).as_ref().to_vec(),
            _ => curve_signature(&self.p256, message),
        }
    }

    fn rsa_signature(&self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        let signed = self.rsa.sign(encoding, &SystemRandom::new(), message, &mut signature);
        signed.expect("a signature");
        signature
    }

    /// A token of exactly these texts, signed with this algorithm.
    pub fn signed(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let message = [encode(header), encode(claims)].join(".");
        let signature = encode(self.signature(algorithm, message.as_bytes()));
        [message, signature].join(".")
    }

    /// A token with exactly this header, which names the algorithm, and these claims.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let algorithm = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        self.signed(algorithm, &header.to_string(), &claims.to_string())
    }

    /// A token with these claims, valid for ten minutes. If its claim `iss` names an issuer of
    /// `identity`, the audience, type and top-level claims that this issuer requires are added. The
    /// given claims win over added ones.
    pub fn valid(&self, identity: &Identity, claims: &str) -> Result<String, Failed> {
        let claims: Map<String, Value> = serde_json::from_str(claims)
            .map_err(|error| Failed::new("claims", error.to_string()))?;
        let issuer = identity
            .jwt
            .iter()
            .find(|issuer| claims.get("iss").and_then(Value::as_str) == Some(&*issuer.issuer));
        let now = now();
        let mut header = json!({ "alg": "ES256", "kid": "ES256" });
        let mut token =
            Map::from_iter([("iat".into(), now.into()), ("exp".into(), (now + 600).into())]);
        if let Some(issuer) = issuer {
            token.insert("aud".into(), issuer.audiences.first().map(|audience| &**audience).into());
            for RequiredClaim { path, values } in &issuer.require {
                if let ([name], Some(value)) = (&*path.0, values.first()) {
                    token.insert((**name).into(), json_of(value));
                }
            }
            if let (Some(header), Some(kind)) = (header.as_object_mut(), &issuer.required_type) {
                header.insert("typ".into(), (**kind).into());
            }
        }
        token.extend(claims);
        Ok(self.sign(&header, &Value::Object(token)))
    }

    /// An `Authorization` value whose token is valid for a day from `now`, with realistic claims:
    /// about 900 bytes.
    pub fn bearer(&self, algorithm: &str, now: u64) -> String {
        let claims = json!({
            "iss": ISSUER, "aud": [AUDIENCE, "account"],
            "sub": "8d1a1c3e-51b4-4b2e-9d5f-3d2f1f6f1d11",
            "jti": "f1c2a7c2-6ad8-4d59-a7f1-0a1b2c3d4e5f",
            "exp": now + 86_400, "iat": now, "auth_time": now,
            "typ": "Bearer", "azp": "frontend", "acr": "1", "scope": "openid email profile",
            "email_verified": true, "session_state": "0e1f8a5e-93d2-4c77-a6a5-0f4d3c2b1a09",
            "allowed-origins": ["https://www.example.com"],
            "realm_access": { "roles": ["guest", "offline_access", "uma_authorization"] },
            "name": "Alice Liddell", "preferred_username": "alice", "email": "alice@example.com",
        });
        let header = json!({ "alg": algorithm, "kid": algorithm, "typ": "JWT" });
        format!("Bearer {}", self.sign(&header, &claims))
    }
}

impl fmt::Debug for Signer {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

/// The time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A part of a token: base64url without padding.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn json_of(value: &ClaimValue) -> Value {
    match value {
        ClaimValue::Text(text) => (**text).into(),
        ClaimValue::Integer(number) => (*number).into(),
        ClaimValue::Boolean(boolean) => (*boolean).into(),
    }
}
