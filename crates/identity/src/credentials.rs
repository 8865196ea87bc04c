//! The credentials of a request: an `Authorization` header (RFC 9110, 11.4 and 11.6.2), a token or
//! an API key elsewhere, or a client certificate. Also decodes Basic credentials, which are
//! `user:password` in base64 (RFC 7617, 2).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroize as _;

use crate::{Certificate, CredentialsError, is_name};

/// The longest base64 that is decoded, in bytes: room for any password that is hashed and for a
/// long name.
const MAX_ENCODED: usize = 2_048;
/// The longest decoded credentials, in bytes.
const MAX_DECODED: usize = MAX_ENCODED / 4 * 3;

/// The credentials of a request.
#[derive(Clone, Copy)]
pub enum Credentials<'a> {
    /// The value of its only `Authorization` header.
    Authorization(&'a [u8]),
    /// The token in a header or cookie of its own (`token_from`).
    Token(&'a [u8]),
    /// The value of its only header with an API key.
    ApiKey(&'a [u8]),
    /// The certificate of its client.
    Certificate(Certificate<'a>),
    /// The credentials of a user, and the certificate of the application that sends the request on
    /// behalf of the user (`combine: both`).
    Both(UserCredentials<'a>, Certificate<'a>),
}

/// Credentials that are beside a certificate.
#[derive(Clone, Copy)]
pub enum UserCredentials<'a> {
    /// See [`Credentials::Authorization`].
    Authorization(&'a [u8]),
    /// See [`Credentials::Token`].
    Token(&'a [u8]),
    /// See [`Credentials::ApiKey`].
    ApiKey(&'a [u8]),
}

impl<'a> From<UserCredentials<'a>> for Credentials<'a> {
    fn from(credentials: UserCredentials<'a>) -> Self {
        match credentials {
            UserCredentials::Authorization(value) => Self::Authorization(value),
            UserCredentials::Token(token) => Self::Token(token),
            UserCredentials::ApiKey(key) => Self::ApiKey(key),
        }
    }
}

/// Shows no secret.
impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authorization(_) => "Authorization(…)",
            Self::Token(_) => "Token(…)",
            Self::ApiKey(_) => "ApiKey(…)",
            Self::Certificate(_) => "Certificate(…)",
            Self::Both(..) => "Both(…)",
        })
    }
}

impl<'a> Credentials<'a> {
    /// The token, not verified; `None` if these are other credentials.
    #[must_use]
    pub fn token(self) -> Option<&'a [u8]> {
        match self {
            Self::Token(token) => Some(token),
            Self::Authorization(value) => match Authorization::parse(value) {
                Authorization::Bearer(token) => Some(token),
                Authorization::Basic(_) | Authorization::Unsupported => None,
            },
            Self::ApiKey(_) | Self::Certificate(_) => None,
            Self::Both(user, _) => Self::from(user).token(),
        }
    }

    /// The credentials without the certificate beside them.
    #[must_use]
    pub fn of_user(self) -> Self {
        match self {
            Self::Both(user, _) => user.into(),
            Self::Authorization(_) | Self::Token(_) | Self::ApiKey(_) | Self::Certificate(_) => {
                self
            }
        }
    }
}

/// The credentials in an `Authorization` header, by scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorization<'a> {
    /// HTTP Basic (RFC 7617): credentials in base64.
    Basic(&'a [u8]),
    /// Bearer (RFC 6750): a token.
    Bearer(&'a [u8]),
    /// Any other scheme, or none.
    Unsupported,
}

impl<'a> Authorization<'a> {
    /// Splits a value into its scheme and the credentials after one or more spaces. The scheme may
    /// be in upper or lower case (RFC 9110, 11.1).
    pub(crate) fn parse(value: &'a [u8]) -> Self {
        let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
        let (scheme, mut credentials) = value.split_at_checked(end).unwrap_or_default();
        while let Some(trimmed) = credentials.strip_prefix(b" ") {
            credentials = trimmed;
        }
        if scheme.eq_ignore_ascii_case(b"basic") {
            Self::Basic(credentials)
        } else if scheme.eq_ignore_ascii_case(b"bearer") {
            Self::Bearer(credentials)
        } else {
            Self::Unsupported
        }
    }
}

/// Decoded Basic credentials. They are on the stack, so decoding allocates nothing. They are
/// overwritten when they are dropped.
pub(crate) struct BasicCredentials {
    bytes: [u8; MAX_DECODED],
    length: usize,
    colon: usize,
}

/// Why Basic credentials are malformed, without any part of them.
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

impl BasicCredentials {
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
        let (user, password) = credentials.text()?.split_once(':').ok_or(Malformed::Colon)?;
        if !is_name(user) {
            return Err(Malformed::User);
        }
        if password.chars().any(char::is_control) {
            return Err(Malformed::Password);
        }
        credentials.colon = user.len();
        Ok(credentials)
    }

    /// The user name; never empty.
    pub(crate) fn user(&self) -> &str {
        self.text().ok().and_then(|text| text.get(..self.colon)).unwrap_or_default()
    }

    /// The password: everything after the first colon.
    pub(crate) fn password(&self) -> &[u8] {
        self.bytes.get(self.colon + 1..self.length).unwrap_or_default()
    }

    fn text(&self) -> Result<&str, Malformed> {
        let decoded = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(decoded).map_err(|_| Malformed::Utf8)
    }
}

impl Drop for BasicCredentials {
    fn drop(&mut self) {
        self.bytes.iter_mut().take(self.length).for_each(|byte| byte.zeroize());
    }
}

#[cfg(test)]
mod tests {
    use super::Authorization::{self, Basic, Bearer, Unsupported};

    #[test]
    fn a_scheme_is_recognized_in_any_case() {
        for value in ["Basic YTpi", "basic YTpi", "BASIC YTpi", "bAsIc   YTpi"] {
            assert_eq!(Authorization::parse(value.as_bytes()), Basic(b"YTpi"), "{value}");
        }
        assert_eq!(Authorization::parse(b"bearer a.b.c"), Bearer(b"a.b.c"));
    }

    #[test]
    fn other_schemes_are_not_supported() {
        for value in [
            "",
            " ",
            "Negotiate x",
            "Basic\tYTpi",
            " Basic YTpi",
            "BasicYTpi",
            "Basic,YTpi",
            "\u{0}",
            "Bearerx y",
        ] {
            assert_eq!(Authorization::parse(value.as_bytes()), Unsupported, "{value:?}");
        }
    }

    #[test]
    fn other_white_space_is_a_part_of_the_credentials() {
        assert_eq!(Authorization::parse(b"Basic \tYTpi"), Basic(b"\tYTpi"));
        assert_eq!(Authorization::parse(b"Bearer  \x0ba.b.c"), Bearer(b"\x0ba.b.c"));
    }

    #[test]
    fn a_scheme_without_credentials_is_recognized() {
        assert_eq!(Authorization::parse(b"Basic"), Basic(b""));
        assert_eq!(Authorization::parse(b"Bearer "), Bearer(b""));
    }
}
