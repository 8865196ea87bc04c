//! The signature of a bundle.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::BundleError;
use crate::keys::{KeyId, KeyPair, PublicKey};

/// `signature.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    /// The id of the key.
    key: String,
    /// The signature over the bytes of the manifest, in base64.
    ed25519: String,
}

impl Signature {
    pub(crate) fn of(manifest: &[u8], key: &KeyPair, id: &KeyId) -> Self {
        Self { key: id.to_string(), ed25519: BASE64_STANDARD.encode(key.sign(manifest)) }
    }

    /// Reads a signature. `None` if it is none: its key must be an id, because people are shown it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let signature: Self = serde_json::from_slice(bytes).ok()?;
        KeyId::is_valid(&signature.key).then_some(signature)
    }

    pub(crate) fn key(&self) -> KeyId {
        KeyId(self.key.clone())
    }

    /// Verifies it with the one of these keys that it names.
    pub(crate) fn verify(&self, manifest: &[u8], trusted: &[PublicKey]) -> Result<(), BundleError> {
        let key = trusted.iter().find(|key| key.id() == self.key());
        let key = key.ok_or_else(|| BundleError::UnknownKey(self.key()))?;
        let signature = BASE64_STANDARD.decode(&self.ed25519).map_err(|_| BundleError::WrongSignature)?;
        if key.verifies(manifest, &signature) { Ok(()) } else { Err(BundleError::WrongSignature) }
    }
}
