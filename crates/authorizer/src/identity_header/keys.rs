//! The keys of an identity header.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use document::Problem;
use policy::model::IdentityKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// A private key that signs tokens.
pub(crate) enum SigningKey {
    /// `ES256` (RFC 7518, 3.4).
    P256(EcdsaKeyPair),
    /// `EdDSA` (RFC 8037).
    Ed25519(Ed25519KeyPair),
}

/// The first part of tokens, the key that signs them, and the JWK Set of all public keys. The first
/// key signs.
pub(crate) fn signing(keys: &[IdentityKey]) -> Result<(String, SigningKey, String), Vec<Problem>> {
    let (mut problems, mut read) = (Vec::new(), Vec::new());
    for key in keys {
        match SigningKey::read(&key.bytes) {
            Ok(signing) => read.push(signing),
            Err(error) => problems.push(problem(key, error, MAKE_KEY)),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let public: Vec<Value> = read.iter().map(SigningKey::public).collect();
    let Some(key) = read.into_iter().next() else { return Err(problems) };
    let header = json!({ "alg": key.algorithm(), "kid": key.id(), "typ": "JWT" }).to_string();
    let header = format!("{}.", URL_SAFE_NO_PAD.encode(header));
    Ok((header, key, json!({ "keys": public }).to_string()))
}

/// The secret of the compact form.
pub(crate) fn secret(keys: &[IdentityKey]) -> Result<identity_header::Key, Vec<Problem>> {
    if let Some(second) = keys.get(1) {
        let message = "`format: compact` signs with one key";
        let help = "name one file here, and give applications both keys while you change from \
                    one to the other";
        return Err(vec![Problem::error(second.at.clone(), message).help(help)]);
    }
    let Some(key) = keys.first() else { return Err(Vec::new()) };
    if key.bytes.windows(5).any(|part| part == b"-----") {
        let help = "`format: compact` needs random bytes: \
                    `(umask 077; head -c 32 /dev/urandom > identity.key)`";
        return Err(vec![problem(key, "is a key in PEM", help)]);
    }
    identity_header::Key::new(&key.bytes).map_err(|short| {
        let error = format!("has {} bytes, at least 32 are needed", short.len);
        let help = "make one by `(umask 077; head -c 32 /dev/urandom > identity.key)`";
        vec![problem(key, &error, help)]
    })
}

fn problem(key: &IdentityKey, error: &str, help: &str) -> Problem {
    Problem::error(key.at.clone(), format!("`{}` {error}", key.path)).help(help)
}

const MAKE_KEY: &str = "make one by `openssl genpkey -algorithm ed25519 -out identity.pem`, or \
                        `-algorithm EC -pkeyopt ec_paramgen_curve:P-256`";

impl SigningKey {
    /// Reads a private key in PEM. The error continues the sentence that the file name begins.
    fn read(pem: &[u8]) -> Result<Self, &'static str> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "has no private key in PEM")?;
        let der = der.secret_der();
        if let Ok(key) = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der) {
            return Ok(Self::P256(key));
        }
        Ed25519KeyPair::from_pkcs8(der)
            .map(Self::Ed25519)
            .map_err(|_| "has a key that is neither one of P-256 nor of Ed25519")
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// The signature as a token has it; `None` if the system has no random numbers.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::P256(key) => {
                Some(key.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec())
            }
            Self::Ed25519(key) => Some(key.sign(message).as_ref().to_vec()),
        }
    }

    /// The members of the public key (RFC 7518, 6.2; RFC 8037, 2) that its thumbprint is made of.
    fn members(&self) -> Value {
        match self {
            Self::P256(key) => {
                // An uncompressed point: the byte 4, then x and y with 32 bytes each.
                let point = key.public_key().as_ref();
                let (x, y) =
                    point.get(1..).and_then(|point| point.split_at_checked(32)).unwrap_or_default();
                let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
                json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y })
            }
            Self::Ed25519(key) => {
                let x = URL_SAFE_NO_PAD.encode(key.public_key());
                json!({ "crv": "Ed25519", "kty": "OKP", "x": x })
            }
        }
    }

    /// The thumbprint of the public key (RFC 7638): the members in the order of their names,
    /// without white space.
    fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.members().to_string().as_bytes()))
    }

    fn public(&self) -> Value {
        let mut key = self.members();
        for (name, value) in [("alg", self.algorithm()), ("kid", &self.id()), ("use", "sig")] {
            if let Some(key) = key.as_object_mut() {
                key.insert(name.to_owned(), value.into());
            }
        }
        key
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}
