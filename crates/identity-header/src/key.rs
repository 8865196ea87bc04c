//! Keys, and the message authentication codes made with them.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::format::{KeyId, MAC_LEN};

/// A secret key, ready for use: its two blocks are hashed already, which is half of the work for a short message.
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    mac: Hmac<Sha256>,
}

/// The secret is too short to be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {0} bytes; it must have at least {min}", min = Key::MIN_LEN)]
pub struct ShortKey(pub usize);

impl Key {
    /// Minimum length of a secret, in bytes: that of the hash, as RFC 2104, section 3 asks for.
    pub const MIN_LEN: usize = 32;

    /// The key with this secret. It must be random: a password is none.
    ///
    /// # Errors
    /// [`ShortKey`] if it has less than [`Key::MIN_LEN`] bytes.
    pub fn new(secret: &[u8]) -> Result<Self, ShortKey> {
        let short = ShortKey(secret.len());
        if secret.len() < Self::MIN_LEN {
            return Err(short);
        }
        let digest = Sha256::digest(secret);
        let id = digest.first_chunk().copied().ok_or(short)?;
        Ok(Self { id, mac: Hmac::new_from_slice(secret).map_err(|_| short)? })
    }

    /// The id of this key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The first 16 bytes of HMAC-SHA256 (RFC 2104; section 5 permits half of the hash).
    pub(crate) fn mac(&self, message: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = self.mac.clone();
        mac.update(message);
        let full: [u8; 32] = mac.finalize().into_bytes().into();
        let mut short = [0; MAC_LEN];
        short.copy_from_slice(full.first_chunk::<MAC_LEN>().unwrap_or(&[0; MAC_LEN]));
        short
    }

    /// Whether `mac` is the code of `message`. The comparison takes the same time wherever they differ.
    pub(crate) fn verify(&self, message: &[u8], mac: &[u8]) -> bool {
        let mut expected = self.mac.clone();
        expected.update(message);
        mac.len() == MAC_LEN && expected.verify_truncated_left(mac).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x})", u32::from_be_bytes(self.id))
    }
}
