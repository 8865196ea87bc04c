//! The shape of a token: the compact serialization (RFC 7515, 7.1) and no other.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::header::Header;
use crate::{CredentialsError, json};

/// The longest token, in bytes. It bounds the time to hash and parse a token that may be invalid. Chosen, not measured:
/// most tokens take one or two KiB, and Envoy accepts 60 KiB of headers by default.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// A token of the right shape. Nothing in it is verified.
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
    /// If it is not three parts in canonical base64url, of which the first two are JSON objects, or the header is
    /// unsafe.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, CredentialsError> {
        if text.len() > MAX_BYTES || !text.iter().all(|byte| is_allowed(*byte)) {
            return Err(CredentialsError::MalformedToken);
        }
        let parts: Vec<&[u8]> = text.splitn(4, |byte| *byte == b'.').collect();
        let [header, payload, signature] = parts.as_slice() else {
            return Err(CredentialsError::MalformedToken);
        };
        let signed = text.get(..header.len() + 1 + payload.len()).ok_or(CredentialsError::MalformedToken)?;
        let header = Header::parse(&object(header)?)?;
        let (payload, signature) = (object(payload)?, decode(signature)?);
        Ok(Self { signed, header, payload, signature })
    }
}

/// The payload of a token, of which nothing is verified, not even the header; for logs.
pub(crate) fn unverified_payload(text: &[u8]) -> Option<Map<String, Value>> {
    let payload = text.split(|byte| *byte == b'.').nth(1).filter(|_| text.len() <= MAX_BYTES)?;
    object(payload).ok()
}

/// The header and the payload of a token of which nothing else is checked, for messages.
pub(super) fn parts(text: &[u8]) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let mut parts = text.get(..text.len().min(MAX_BYTES))?.split(|byte| *byte == b'.');
    Some((object(parts.next()?).ok()?, object(parts.next()?).ok()?))
}

/// Whether RFC 7515, 7.1 and RFC 7518 allow this byte in a compact token. Some decoders skip other characters, such as
/// `?`. Here, that would give a verified token a second text, which a proxy or a log may split elsewhere.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn object(part: &[u8]) -> Result<Map<String, Value>, CredentialsError> {
    match json::parse(&decode(part)?) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(CredentialsError::MalformedToken),
    }
}

/// Decodes base64url without padding, whose unused bits must be zero: so each value has one text.
fn decode(part: &[u8]) -> Result<Vec<u8>, CredentialsError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| CredentialsError::MalformedToken)
}
