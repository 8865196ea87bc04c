//! Keys, and the message authentication codes made with them.

mod aes_gcm_siv;

use std::fmt;

use ctutils::CtEq as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::format::{KeyId, MAC_LEN};

/// How a key makes the message authentication code (MAC). It belongs to the key, and no header says which it was: a
/// header that was made with the same secret and another algorithm is not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The first 16 bytes of HMAC-SHA256 (RFC 2104; section 5 permits half of the hash). The standard libraries of most
    /// languages have it.
    #[default]
    HmacSha256,
    /// The tag of AES-256-GCM-SIV (RFC 8452) for an empty plaintext, a nonce of twelve zero bytes, and the message as
    /// additional authenticated data. For the headers of most callers it takes half of the time of HMAC-SHA256.
    ///
    /// Two messages with the same tag would help to forge others. With n headers of one key there are such two with a
    /// probability of at most n² ÷ 2^119: POLYVAL, of which 127 bits are used, compresses two messages of at most 256
    /// blocks, with that of the lengths, to the same with a probability of at most 256 ÷ 2^127, and AES-256 is a permutation,
    /// so that n² ÷ 2^129 tells it from a function. So use another key before it has made 2^40 headers: then the probability is
    /// at most 2^-39. A guessed tag is right with a probability of about 2^-119.
    Aes256GcmSiv,
}

/// A secret key, ready for use: what depends on the secret alone is computed already.
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    mac: Mac,
}

#[derive(Clone)]
enum Mac {
    /// Its two blocks are hashed, which is half of the work for a short message.
    HmacSha256(Hmac<Sha256>),
    Aes256GcmSiv(Box<aes_gcm_siv::Tags>),
}

/// The secret has not the length of a key of its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {len} bytes; a key for `{algorithm}` has {}", algorithm.length())]
pub struct WrongLength {
    /// The algorithm that the key is for.
    pub algorithm: Algorithm,
    /// The length that it has, in bytes.
    pub len: usize,
}

impl Algorithm {
    /// Its name in the policy.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Aes256GcmSiv => "aes-256-gcm-siv",
        }
    }

    /// The length of its secrets, in words.
    #[must_use]
    pub fn length(self) -> &'static str {
        match self {
            // That of the hash, as RFC 2104, section 3 asks for.
            Self::HmacSha256 => "at least 32",
            Self::Aes256GcmSiv => "exactly 32",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Key {
    /// The key with this secret: at least 32 bytes for [`Algorithm::HmacSha256`], exactly 32 for
    /// [`Algorithm::Aes256GcmSiv`]. It must be random: a password is none. Use a secret for one algorithm only.
    ///
    /// # Errors
    /// [`WrongLength`].
    pub fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self, WrongLength> {
        let wrong = WrongLength { algorithm, len: secret.len() };
        let first: &[u8; 32] = secret.first_chunk().ok_or(wrong)?;
        let mac = match algorithm {
            Algorithm::HmacSha256 => Mac::HmacSha256(Hmac::new_from_slice(secret).map_err(|_| wrong)?),
            Algorithm::Aes256GcmSiv if secret.len() == first.len() => {
                Mac::Aes256GcmSiv(Box::new(aes_gcm_siv::Tags::new(first)))
            }
            Algorithm::Aes256GcmSiv => return Err(wrong),
        };
        Ok(Self { id: Sha256::digest(secret).first_chunk().copied().ok_or(wrong)?, mac })
    }

    /// The id of this key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.mac {
            Mac::HmacSha256(_) => Algorithm::HmacSha256,
            Mac::Aes256GcmSiv(_) => Algorithm::Aes256GcmSiv,
        }
    }

    /// The code of a message.
    pub(crate) fn mac(&self, message: &[u8]) -> [u8; MAC_LEN] {
        match &self.mac {
            Mac::HmacSha256(hmac) => {
                let mut hmac = hmac.clone();
                hmac.update(message);
                let full: [u8; 32] = hmac.finalize().into_bytes().into();
                full.first_chunk().copied().unwrap_or_default()
            }
            Mac::Aes256GcmSiv(tags) => tags.tag(message),
        }
    }

    /// Whether `mac` is the code of `message`. The comparison takes the same time wherever they differ.
    pub(crate) fn verify(&self, message: &[u8], mac: &[u8; MAC_LEN]) -> bool {
        let (expected, found) = (u128::from_ne_bytes(self.mac(message)), u128::from_ne_bytes(*mac));
        expected.ct_eq(&found).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x}, {})", u32::from_be_bytes(self.id), self.algorithm())
    }
}
