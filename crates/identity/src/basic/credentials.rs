//! Decoded Basic credentials: `user:password` in base64 (RFC 7617, 2). Kept on the stack, and overwritten after use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroize as _;

use crate::CredentialsError;
use crate::names::is_name;

/// The longest base64 that is decoded, in bytes: room for any password that is hashed and for a long name.
const MAX_ENCODED: usize = 2_048;
/// The longest decoded credentials, in bytes.
const MAX_DECODED: usize = MAX_ENCODED / 4 * 3;

/// Decoded credentials. The bytes are overwritten when this is dropped.
pub(crate) struct Credentials {
    bytes: [u8; MAX_DECODED],
    length: usize,
    colon: usize,
}

impl Credentials {
    /// Decodes and validates credentials.
    ///
    /// # Errors
    /// If they are too long, or not canonical base64, or decode to text that is not UTF-8, has no colon, no user, or a
    /// control character.
    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, CredentialsError> {
        let mut credentials = Self { bytes: [0; MAX_DECODED], length: MAX_DECODED, colon: 0 };
        if encoded.len() > MAX_ENCODED {
            return Err(CredentialsError::MalformedCredentials);
        }
        let decoded = STANDARD.decode_slice(encoded, &mut credentials.bytes);
        credentials.length = decoded.map_err(|_| CredentialsError::MalformedCredentials)?;
        credentials.colon = credentials.check().ok_or(CredentialsError::MalformedCredentials)?;
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

    /// The position of the first colon, if the credentials are valid.
    fn check(&self) -> Option<usize> {
        let (user, password) = self.text().split_once(':')?;
        (is_name(user) && !password.chars().any(char::is_control)).then_some(user.len())
    }

    fn text(&self) -> &str {
        self.bytes.get(..self.length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.bytes.iter_mut().take(self.length).for_each(|byte| byte.zeroize());
    }
}
