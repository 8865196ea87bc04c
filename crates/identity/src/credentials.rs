//! Decoded Basic credentials: `user:password` in base64 (RFC 7617, 2). Kept on the stack, and
//! overwritten after use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroize as _;

use crate::CredentialsError;
use crate::names::is_name;

/// The longest base64 that is decoded, in bytes: room for any password that is hashed and for a
/// long name.
const MAX_ENCODED: usize = 2_048;
/// The longest decoded credentials, in bytes.
const MAX_DECODED: usize = MAX_ENCODED / 4 * 3;

/// Decoded credentials. The bytes are overwritten when this is dropped.
pub(crate) struct Credentials {
    bytes: [u8; MAX_DECODED],
    length: usize,
    colon: usize,
}

/// Why credentials are malformed, without any part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("they are longer than {MAX_ENCODED} bytes")]
    Long,
    #[error("they are not in base64 with its padding (RFC 4648, section 4)")]
    Encoding,
    #[error("they are not UTF-8")]
    Utf8,
    #[error("they have no colon: expected the user name, a colon and the password")]
    Colon,
    #[error("the user name is empty, or has a control character")]
    User,
    #[error("the password has a control character")]
    Password,
}

impl From<Malformed> for CredentialsError {
    fn from(_: Malformed) -> Self {
        Self::MalformedCredentials
    }
}

impl Credentials {
    /// Decodes and validates credentials.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, Malformed> {
        let mut credentials = Self { bytes: [0; MAX_DECODED], length: MAX_DECODED, colon: 0 };
        if encoded.len() > MAX_ENCODED {
            return Err(Malformed::Long);
        }
        let decoded = STANDARD.decode_slice(encoded, &mut credentials.bytes);
        credentials.length = decoded.map_err(|_| Malformed::Encoding)?;
        credentials.colon = credentials.check()?;
        Ok(credentials)
    }

    /// The user name; never empty.
    pub(crate) fn user(&self) -> &str {
        self.text().get(..self.colon).unwrap_or_default()
    }

    /// The password: everything after the first colon.
    pub(crate) fn password(&self) -> &[u8] {
        self.bytes.get(self.colon + 1..self.length).unwrap_or_default()
    }

    /// The position of the first colon.
    fn check(&self) -> Result<usize, Malformed> {
        let decoded = self.bytes.get(..self.length).unwrap_or_default();
        let text = std::str::from_utf8(decoded).map_err(|_| Malformed::Utf8)?;
        let (user, password) = text.split_once(':').ok_or(Malformed::Colon)?;
        if !is_name(user) {
            return Err(Malformed::User);
        }
        if password.chars().any(char::is_control) {
            return Err(Malformed::Password);
        }
        Ok(user.len())
    }

    fn text(&self) -> &str {
        self.bytes
            .get(..self.length)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.bytes.iter_mut().take(self.length).for_each(|byte| byte.zeroize());
    }
}
