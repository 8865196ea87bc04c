//! Parses a token, only in the compact serialization (RFC 7515, 7.1), and its header (RFC 7515, 4).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::jwks::Algorithm;
use crate::{CredentialsError, json};

/// The longest token, in bytes. It bounds the time to hash and parse an invalid token. Chosen, not
/// measured: most tokens have one or two KiB, and Envoy accepts 60 KiB of headers by default.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// A well-formed token. Nothing in it is verified.
pub(crate) struct Token<'a> {
    /// The bytes that are signed: the first two parts and the dot between them.
    pub(crate) signed: &'a [u8],
    pub(crate) header: Header,
    pub(crate) payload: Map<String, Value>,
    pub(crate) signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Splits and decodes a token.
    ///
    /// # Errors
    /// If it is not three parts in canonical base64url, of which the first two are JSON objects, or
    /// the header is unsafe.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, CredentialsError> {
        let [header, payload, signature] = split(text)?;
        let signed =
            text.get(..header.len() + 1 + payload.len()).ok_or(CredentialsError::MalformedToken)?;
        let (header, payload) = parse_signed(signed)?;
        Ok(Self { signed, header, payload, signature: decode("signature", signature)? })
    }
}

/// Decodes the header and the payload of a token: its first two parts, with the dot between them.
///
/// # Errors
/// As [`Token::parse`].
pub(crate) fn parse_signed(
    signed: &[u8],
) -> Result<(Header, Map<String, Value>), CredentialsError> {
    let dot =
        signed.iter().position(|byte| *byte == b'.').ok_or(CredentialsError::MalformedToken)?;
    let (header, payload) = signed.split_at_checked(dot).ok_or(CredentialsError::MalformedToken)?;
    let payload = payload.strip_prefix(b".").unwrap_or_default();
    Ok((Header::parse(&object("header", header)?)?, object("payload", payload)?))
}

/// Why a token is malformed, without any of its content. For the operator only.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it has {0} bytes, at most {MAX_BYTES} are allowed")]
    TooLong(usize),
    #[error("byte {0} is neither base64url nor a dot")]
    Character(usize),
    #[error("the number of parts is {0}, expected 3: header, payload and signature")]
    Parts(usize),
    #[error("the {0} is not base64url without padding")]
    Base64(&'static str),
    #[error("the {0} is not JSON: {1}")]
    Json(&'static str, serde_json::Error),
    #[error("the {0} is not a JSON object")]
    NotAnObject(&'static str),
}

impl From<Malformed> for CredentialsError {
    fn from(_: Malformed) -> Self {
        Self::MalformedToken
    }
}

/// The header and the payload of an unverified token, for logs. The token is decoded again for
/// logs, so that verifying a token does not cost more.
pub(crate) struct UnverifiedToken<'a> {
    text: &'a [u8],
    pub(super) header: Result<Map<String, Value>, Malformed>,
    pub(crate) payload: Result<Map<String, Value>, Malformed>,
}

impl<'a> UnverifiedToken<'a> {
    /// Decodes the header and the payload, as far as possible.
    pub(crate) fn decode(text: &'a [u8]) -> Self {
        let mut parts = text.split(|byte| *byte == b'.').filter(|_| text.len() <= MAX_BYTES);
        let header = object("header", parts.next().unwrap_or_default());
        let payload = object("payload", parts.next().unwrap_or_default());
        Self { text, header, payload }
    }

    /// Why the token is malformed.
    pub(super) fn describe_malformed(&self) -> Option<String> {
        let signature = match split(self.text) {
            Ok([_, _, signature]) => decode("signature", signature),
            Err(malformed) => return Some(malformed.to_string()),
        };
        let parts =
            [self.header.as_ref().err(), self.payload.as_ref().err(), signature.as_ref().err()];
        parts.into_iter().flatten().next().map(ToString::to_string)
    }
}

/// Splits a token into header, payload and signature.
fn split(text: &[u8]) -> Result<[&[u8]; 3], Malformed> {
    if text.len() > MAX_BYTES {
        return Err(Malformed::TooLong(text.len()));
    }
    if let Some(at) = text.iter().position(|byte| !is_allowed(*byte)) {
        return Err(Malformed::Character(at + 1));
    }
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
    parts.as_slice().try_into().map_err(|_| Malformed::Parts(parts.len()))
}

/// Whether RFC 7515, 7.1 and RFC 7518 allow this byte in a compact token. Some decoders skip other
/// characters, such as `?`. Then a verified token could also be written with such characters, and a
/// proxy or a log may split that text elsewhere.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn object(name: &'static str, part: &[u8]) -> Result<Map<String, Value>, Malformed> {
    match json::parse(&decode(name, part)?) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Malformed::NotAnObject(name)),
        Err(error) => Err(Malformed::Json(name, error)),
    }
}

/// Decodes base64url without padding. Unused bits must be zero, so that each value has one text.
fn decode(name: &'static str, part: &[u8]) -> Result<Vec<u8>, Malformed> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Malformed::Base64(name))
}

/// Parameters that no token may have: keys and references to keys (RFC 8725, 3.10); `crit`, which
/// lists extensions that must be understood (RFC 7515, 4.1.11: none is supported); and the
/// parameters of encrypted or compressed tokens.
pub(super) const REJECTED: [&str; 7] = ["jwk", "jku", "x5u", "x5c", "crit", "zip", "enc"];

/// A header without unsafe parameters. Nothing in it is verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    typ: Option<String>,
}

impl Header {
    fn parse(members: &Map<String, Value>) -> Result<Self, CredentialsError> {
        let is_unencoded = members.get("b64").is_some_and(|encoded| *encoded != Value::Bool(true));
        if is_unencoded || REJECTED.iter().any(|name| members.contains_key(*name)) {
            return Err(CredentialsError::UnsafeHeader);
        }
        let name = text(members, "alg")?.ok_or(CredentialsError::MalformedToken)?;
        let algorithm =
            Algorithm::from_name(&name).ok_or(CredentialsError::UnsupportedAlgorithm)?;
        Ok(Self { algorithm, kid: text(members, "kid")?, typ: text(members, "typ")? })
    }

    /// Whether the token has this `typ`. Case does not count, and `application/` may be left out
    /// (RFC 7515, 4.1.9).
    pub(super) fn is_of_type(&self, required: &str) -> bool {
        self.typ.as_deref().is_some_and(|typ| subtype(typ).eq_ignore_ascii_case(subtype(required)))
    }
}

/// A media type without `application/`, which is kept if another slash follows (RFC 7515, 4.1.9).
fn subtype(typ: &str) -> &str {
    match typ.split_once('/') {
        Some((kind, subtype))
            if kind.eq_ignore_ascii_case("application") && !subtype.contains('/') =>
        {
            subtype
        }
        _ => typ,
    }
}

fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, CredentialsError> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(CredentialsError::MalformedToken),
    }
}
