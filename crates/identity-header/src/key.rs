//! Keys, and the message authentication codes made with them.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::format::{KeyId, MAC_LEN};

/// Minimum length of a secret in bytes: that of the hash, as RFC 2104, section 3 asks for.
const MIN_LEN: usize = 32;

/// A secret key. It makes the first 16 bytes of HMAC-SHA256 (RFC 2104; section 5 permits half of
/// the hash).
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    /// It has already hashed the key, which is half of the work for a short message.
    hmac: Hmac<Sha256>,
}

/// The secret is too short for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {len} bytes, at least {MIN_LEN} are needed")]
pub struct ShortKey {
    /// Its length, in bytes.
    pub len: usize,
}

impl Key {
    /// The key with this secret: at least 32 random bytes, not a password.
    ///
    /// # Errors
    /// [`ShortKey`].
    pub fn new(secret: &[u8]) -> Result<Self, ShortKey> {
        let short = ShortKey { len: secret.len() };
        if secret.len() < MIN_LEN {
            return Err(short);
        }
        let id = Sha256::digest(secret).first_chunk().copied().ok_or(short)?;
        Ok(Self { id, hmac: Hmac::new_from_slice(secret).map_err(|_| short)? })
    }

    /// The id of this key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The MAC of a message.
    pub(crate) fn mac(&self, message: &[u8]) -> [u8; MAC_LEN] {
        let mac = self.hmac.clone().chain_update(message).finalize().into_bytes();
        mac.first_chunk().copied().unwrap_or_default()
    }

    /// Whether `mac` is the MAC of `message`, compared in constant time.
    pub(crate) fn verify(&self, message: &[u8], mac: &[u8; MAC_LEN]) -> bool {
        self.hmac.clone().chain_update(message).verify_truncated_left(mac).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x})", u32::from_be_bytes(self.id))
    }
}
