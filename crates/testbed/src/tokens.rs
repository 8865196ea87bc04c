//! Tokens (RFC 7519) signed with a key that lives as long as the test.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policy::model::Identity;
use serde_json::{Map, Value, json};

use crate::process::Failed;

/// A key for ES256 (RFC 7518, 3.4).
#[derive(Debug)]
pub struct Signer {
    key: EcdsaKeyPair,
}

const KEY_ID: &str = "testbed";

impl Signer {
    /// A new key.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new() -> Result<Self, Failed> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map_err(|_| Failed::new("token", "no key can be made"))?;
        Ok(Self { key })
    }

    /// The JWKS (RFC 7517) with the public key.
    #[must_use]
    pub fn key_set(&self) -> String {
        // An uncompressed point: 0x04, then both coordinates with 32 bytes each.
        let coordinates = self.key.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "kid": KEY_ID, "use": "sig", "alg": "ES256", "x": x, "y": y,
        }]})
        .to_string()
    }

    /// A token with exactly this header and these claims.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn sign(&self, header: &Value, claims: &Value) -> Result<String, Failed> {
        let text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header.to_string()),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self
            .key
            .sign(&SystemRandom::new(), text.as_bytes())
            .map_err(|_| Failed::new("token", "cannot be signed"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// A token with these claims, valid for ten minutes for the issuer that it names. Missing required claims are
    /// added.
    ///
    /// # Errors
    /// If the claims are not an object, or it cannot be signed.
    pub fn valid(&self, identity: &Identity, claims: &str) -> Result<String, Failed> {
        let claims: Map<String, Value> =
            serde_json::from_str(claims).map_err(|error| Failed::new("claims", error.to_string()))?;
        let issuer =
            identity.jwt.iter().find(|it| claims.get("iss").and_then(Value::as_str) == Some(&*it.issuer));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut all = Map::from_iter([("iat".to_owned(), json!(now)), ("exp".to_owned(), json!(now + 600))]);
        let mut header = json!({"alg": "ES256", "kid": KEY_ID});
        if let Some(issuer) = issuer {
            all.insert("aud".to_owned(), json!(issuer.audiences.first().map(|it| &**it)));
            if let (Some(header), Some(kind)) = (header.as_object_mut(), &issuer.required_type) {
                header.insert("typ".to_owned(), json!(&**kind));
            }
        }
        all.extend(claims);
        self.sign(&header, &Value::Object(all))
    }
}
