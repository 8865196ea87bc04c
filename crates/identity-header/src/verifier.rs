//! Verifies an identity header.

use base64_simd::URL_SAFE_NO_PAD;

use crate::format::{self, Identity, MAC_LEN};
use crate::key::Key;
use crate::{KeyId, MAX_HEADER_LEN};

/// Verifies headers for an audience.
#[derive(Clone, Debug)]
pub struct Verifier {
    audience: String,
    keys: Vec<Key>,
}

/// Why a header is not valid. Answer the request with 401 in each case, and do not show the reason
/// to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is longer than any header that rolegate makes.
    #[error("it has more than {MAX_HEADER_LEN} bytes")]
    TooLong,
    /// It is not base64url without padding.
    #[error("it is not base64url")]
    Encoding,
    /// Its bytes are not the format, or of a version that this crate does not know.
    #[error("it is malformed, or of another version")]
    Malformed,
    /// It was made with another key.
    #[error("no key has the id {:08x}", u32::from_be_bytes(*.0))]
    UnknownKey(KeyId),
    /// It was changed, or made by somebody who does not have the key.
    #[error("its message authentication code is wrong")]
    WrongMac,
    /// It is meant for another service.
    #[error("it is meant for another audience")]
    WrongAudience,
    /// It is no longer valid.
    #[error("it has expired")]
    Expired,
}

impl Verifier {
    /// A verifier of headers for `audience`. During a rotation, `keys` are the old key and the new
    /// key.
    pub fn new(audience: &str, keys: impl IntoIterator<Item = Key>) -> Self {
        Self { audience: audience.to_owned(), keys: keys.into_iter().collect() }
    }

    /// The identity in the value of a header at the time `now`, in seconds since 1970. `buffer`
    /// holds the bytes that the identity borrows; use it again, and nothing is allocated.
    ///
    /// Deny a request with two such headers.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn verify<'b>(
        &self,
        header: &[u8],
        now: u64,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Identity<'b>, Invalid> {
        if header.len() > MAX_HEADER_LEN {
            return Err(Invalid::TooLong);
        }
        buffer.clear();
        URL_SAFE_NO_PAD.decode_append(header, buffer).map_err(|_| Invalid::Encoding)?;
        let (message, mac) = buffer.split_last_chunk::<MAC_LEN>().ok_or(Invalid::Malformed)?;
        let id = format::key_id(message).ok_or(Invalid::Malformed)?;
        let key = self.keys.iter().find(|key| key.id() == id).ok_or(Invalid::UnknownKey(id))?;
        if !key.verify(message, mac) {
            return Err(Invalid::WrongMac);
        }
        let identity = format::read(message).ok_or(Invalid::Malformed)?;
        if identity.audience != self.audience {
            return Err(Invalid::WrongAudience);
        }
        if identity.expires <= now {
            return Err(Invalid::Expired);
        }
        Ok(identity)
    }
}
