//! Ed25519 keys (RFC 8032) in PEM, as `openssl genpkey -algorithm ed25519` and `openssl pkey
//! -pubout` write them.

use std::fmt::{self, Write as _};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};

/// What comes before the 32 bytes of a public key in its DER form (RFC 8410, 4).
const DER_PREFIX: [u8; 12] =
    [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of the SHA-256 that make a [`KeyId`].
const KEY_ID: usize = 8;

/// Identifies a public key: the first 16 hex digits of the SHA-256 of its DER form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyId(String);

/// A public key, which verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// A key pair, which signs.
pub struct KeyPair(Ed25519KeyPair);

/// Why a file has no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is no public key.
    #[error("not an Ed25519 public key in PEM (`BEGIN PUBLIC KEY`)")]
    Public,
    /// There are several public keys.
    #[error("more than one public key: give each in a file of its own, and name all of them")]
    Several,
    /// It is no private key.
    #[error("not an Ed25519 private key in PEM (`BEGIN PRIVATE KEY`)")]
    Private,
    /// No key can be made.
    #[error("the system has no randomness for a key")]
    Randomness,
}

/// `signature.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    /// The id of the key.
    pub(crate) key: KeyId,
    /// The signature over the bytes of the manifest, in base64.
    ed25519: String,
}

impl Signature {
    /// Reads a signature; `None` if it is none. People are shown its key, so that must be an id.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let signature: Self = serde_json::from_slice(bytes).ok()?;
        let KeyId(id) = &signature.key;
        let is_id = id.len() == 2 * KEY_ID
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then_some(signature)
    }

    /// Whether the pair of this key made it for the bytes of this manifest.
    pub(crate) fn is_valid(&self, manifest: &[u8], key: &PublicKey) -> bool {
        BASE64_STANDARD
            .decode(&self.ed25519)
            .is_ok_and(|signature| key.verifies(manifest, &signature))
    }
}

impl PublicKey {
    /// Reads a public key in PEM.
    ///
    /// # Errors
    /// When the text is no such key.
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
        let hash = digest(&SHA256, &self.der());
        KeyId(hex(hash.as_ref().get(..KEY_ID).unwrap_or_default()))
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }

    fn der(&self) -> Vec<u8> {
        [&DER_PREFIX[..], &self.0].concat()
    }
}

impl KeyPair {
    /// A new random key pair.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Ed25519KeyPair::generate().map(Self).map_err(|_| KeyError::Randomness)
    }

    /// Reads a private key in PEM (PKCS #8).
    ///
    /// # Errors
    /// When the text is no such key. The error shows nothing of it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| KeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der());
        pair.map(Self).map_err(|_| KeyError::Private)
    }

    /// The private key in PEM.
    ///
    /// # Errors
    /// When the key cannot be written.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let der = self.0.to_pkcs8v1().map_err(|_| KeyError::Private)?;
        Ok(pem("PRIVATE KEY", der.as_ref()))
    }

    /// The public key.
    ///
    /// # Errors
    /// Never: an Ed25519 key has 32 bytes.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        self.0.public_key().as_ref().try_into().map(PublicKey).map_err(|_| KeyError::Public)
    }

    /// Signs the bytes of a manifest.
    pub(crate) fn sign(&self, manifest: &[u8]) -> Result<Signature, KeyError> {
        let ed25519 = BASE64_STANDARD.encode(self.0.sign(manifest));
        Ok(Signature { key: self.public_key()?.id(), ed25519 })
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

/// Keys of 32 bytes fit in one line of 64 characters.
fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
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
        let key = pair.unwrap().public_key().unwrap();
        assert_eq!(key.to_pem(), public);
        assert_eq!(PublicKey::from_pem(public.as_bytes()), Ok(key));
        assert_eq!(PublicKey::from_pem(public.repeat(2).as_bytes()), Err(KeyError::Several));
    }

    #[test]
    fn a_new_key_pair_is_read_again() {
        let pair = KeyPair::generate().unwrap();
        let public = pair.public_key().unwrap();
        let again = KeyPair::from_pem(pair.to_pem().unwrap().as_bytes()).unwrap();
        let signature = again.sign(b"message").unwrap();
        assert!(signature.is_valid(b"message", &public) && !signature.is_valid(b"other", &public));
        let other = KeyPair::generate().unwrap().public_key().unwrap();
        assert!(!signature.is_valid(b"message", &other));
        assert_eq!(public.id().to_string().len(), 16);
    }

    #[test]
    fn other_texts_are_no_keys() {
        let pair = KeyPair::generate().unwrap();
        let (private, public) = (pair.to_pem().unwrap(), pair.public_key().unwrap().to_pem());
        assert_eq!(PublicKey::from_pem(private.as_bytes()).unwrap_err(), KeyError::Public);
        assert_eq!(KeyPair::from_pem(public.as_bytes()).unwrap_err(), KeyError::Private);
        assert_eq!(PublicKey::from_pem(b"").unwrap_err(), KeyError::Public);
        assert_eq!(format!("{pair:?}"), "KeyPair { .. }");
    }
}
