//! Ed25519 keys (RFC 8032) in PEM, as `openssl genpkey -algorithm ed25519` and `openssl pkey
//! -pubout` write them.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};

/// The bytes before the 32 bytes of a public key in its DER form (RFC 8410, 4).
const DER_PREFIX: [u8; 12] =
    [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Identifies a public key: the first 16 hex digits of the SHA-256 of its DER form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyId(String);

/// A public key, which verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// A key pair, which signs.
pub struct KeyPair {
    pair: Ed25519KeyPair,
    public_key: PublicKey,
}

/// Why a file has no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not a public key.
    #[error("not an Ed25519 public key in PEM (`BEGIN PUBLIC KEY`)")]
    Public,
    /// There are several public keys.
    #[error("more than one public key: give each in a file of its own, and name all of them")]
    Several,
    /// It is not a private key.
    #[error("not an Ed25519 private key in PEM (`BEGIN PRIVATE KEY`)")]
    Private,
    /// The random number generator failed.
    #[error("the system has no randomness for a key")]
    Randomness,
}

/// `signature.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    pub(crate) key: KeyId,
    /// The signature over the bytes of the manifest, in base64.
    ed25519: String,
}

impl Signature {
    /// Parses a signature. `rolegate bundle inspect` prints its `key`, so that must be an id.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let signature: Self = serde_json::from_slice(bytes).ok()?;
        let KeyId(id) = &signature.key;
        let is_id =
            id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then_some(signature)
    }

    /// Whether the private key of `key` has signed the bytes of this manifest.
    pub(crate) fn is_valid(&self, manifest: &[u8], key: &PublicKey) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, key.0);
        BASE64_STANDARD
            .decode(&self.ed25519)
            .is_ok_and(|signature| key.verify(manifest, &signature).is_ok())
    }
}

impl PublicKey {
    /// Parses a public key in PEM.
    ///
    /// # Errors
    /// If the text is not such a key, or has several keys.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let mut keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let der = keys.next().and_then(Result::ok).ok_or(KeyError::Public)?;
        if keys.next().is_some() {
            return Err(KeyError::Several);
        }
        let key = der.as_ref().strip_prefix(&DER_PREFIX).ok_or(KeyError::Public)?;
        key.try_into().map(Self).map_err(|_| KeyError::Public)
    }

    /// The key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PUBLIC KEY", &self.der())
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let mut id = sha256(&self.der());
        id.truncate(16);
        KeyId(id)
    }

    fn der(&self) -> Vec<u8> {
        [&DER_PREFIX[..], &self.0].concat()
    }
}

impl KeyPair {
    fn new(pair: Ed25519KeyPair) -> Result<Self, KeyError> {
        let public_key = pair.public_key().as_ref().try_into().map_err(|_| KeyError::Private)?;
        Ok(Self { pair, public_key: PublicKey(public_key) })
    }

    /// A new random key pair.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn generate() -> Result<Self, KeyError> {
        Self::new(Ed25519KeyPair::generate().map_err(|_| KeyError::Randomness)?)
    }

    /// Parses a private key in PEM (PKCS #8).
    ///
    /// # Errors
    /// If the text is not such a key. The error shows nothing of it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| KeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der());
        Self::new(pair.map_err(|_| KeyError::Private)?)
    }

    /// The private key in PEM.
    ///
    /// # Errors
    /// If the key cannot be encoded.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let der = self.pair.to_pkcs8v1().map_err(|_| KeyError::Private)?;
        Ok(pem("PRIVATE KEY", der.as_ref()))
    }

    /// The public key.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// Signs the bytes of a manifest.
    pub(crate) fn sign(&self, manifest: &[u8]) -> Signature {
        let ed25519 = BASE64_STANDARD.encode(self.pair.sign(manifest));
        Signature { key: self.public_key.id(), ed25519 }
    }
}

/// Omits the key.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").finish_non_exhaustive()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// PEM has lines of 64 characters; the DER form of these keys fits in one line.
fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

/// The SHA-256 of some bytes, in lower-case hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8410, 10.1 and 10.3, as OpenSSL writes it.
    #[test]
    fn reads_the_keys_that_openssl_writes() {
        let pair = KeyPair::from_pem(
            b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
        );
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        let pair = pair.unwrap();
        let key = pair.public_key();
        assert_eq!(key.to_pem(), public);
        assert_eq!(PublicKey::from_pem(public.as_bytes()).as_ref(), Ok(key));
        assert_eq!(PublicKey::from_pem(public.repeat(2).as_bytes()), Err(KeyError::Several));
    }

    #[test]
    fn a_new_key_pair_is_read_again() {
        let pair = KeyPair::generate().unwrap();
        let public = pair.public_key();
        let again = KeyPair::from_pem(pair.to_pem().unwrap().as_bytes()).unwrap();
        let signature = again.sign(b"message");
        assert!(signature.is_valid(b"message", public) && !signature.is_valid(b"other", public));
        let other = KeyPair::generate().unwrap();
        assert!(!signature.is_valid(b"message", other.public_key()));
        assert_eq!(public.id().to_string().len(), 16);
    }

    #[test]
    fn other_texts_are_no_keys() {
        let pair = KeyPair::generate().unwrap();
        let (private, public) = (pair.to_pem().unwrap(), pair.public_key().to_pem());
        assert_eq!(PublicKey::from_pem(private.as_bytes()).unwrap_err(), KeyError::Public);
        assert_eq!(KeyPair::from_pem(public.as_bytes()).unwrap_err(), KeyError::Private);
        assert_eq!(PublicKey::from_pem(b"").unwrap_err(), KeyError::Public);
        assert_eq!(format!("{pair:?}"), "KeyPair { .. }");
    }
}
