//! Writing a `CheckResponse`: into one buffer of the right size, with the five bytes that gRPC puts before a message
//! (no compression, length), so that the result is the whole body of the answer.

use crate::wire::{varint_length, write_varint};

/// Why an answer is not written. It must become an error, never an OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A header name is not a token (RFC 9110, 5.6.2).
    #[error("a header name is not a token")]
    HeaderName,
    /// A header value has a control character in it: it would reach an HTTP/1.1 client as it is (RFC 9110, 5.5).
    #[error("a header value has a control character in it")]
    HeaderValue,
    /// A refusal whose status is not from 400 to 599.
    #[error("a refusal with a status that does not refuse")]
    Status,
    /// The answer does not fit a gRPC message.
    #[error("the answer is too large")]
    TooLarge,
}

/// The answer that lets a request go on, with `set` overwriting its headers and those named in `remove` taken away.
///
/// # Errors
/// When a header cannot be written without harm.
pub fn allowed<'h>(
    set: impl Iterator<Item = (&'h str, &'h str)> + Clone,
    remove: impl Iterator<Item = &'h str> + Clone,
) -> Result<Vec<u8>, EncodeError> {
    let mut response = headers_length(set.clone())?;
    for name in remove.clone() {
        check_name(name)?;
        response += delimited(name.len());
    }
    let mut buffer = message(STATUS_OK.len() + delimited(response))?;
    buffer.extend_from_slice(&STATUS_OK);
    start(&mut buffer, OK_RESPONSE, response);
    set.for_each(|(name, value)| write_header(&mut buffer, name, value));
    remove.for_each(|name| write_text(&mut buffer, HEADERS_TO_REMOVE, name));
    Ok(buffer)
}

/// The answer that refuses a request: what the client gets is this status, these headers and this body.
///
/// # Errors
/// When a header cannot be written without harm, or the status is not one of a refusal.
pub fn denied<'h>(
    status: u16,
    headers: impl Iterator<Item = (&'h str, &'h str)> + Clone,
    body: &str,
) -> Result<Vec<u8>, EncodeError> {
    if !(400..600).contains(&status) {
        return Err(EncodeError::Status);
    }
    let status = usize::from(status);
    let status_length = 1 + varint_length(status);
    let response = delimited(status_length) + headers_length(headers.clone())? + text_length(body);
    let mut buffer = message(STATUS_LENGTH + delimited(response))?;
    buffer.extend_from_slice(&[STATUS, 2, CODE, grpc_code(status)]);
    start(&mut buffer, DENIED_RESPONSE, response);
    start(&mut buffer, HTTP_STATUS, status_length);
    buffer.push(CODE);
    write_varint(&mut buffer, status);
    headers.for_each(|(name, value)| write_header(&mut buffer, name, value));
    write_text(&mut buffer, BODY, body);
    Ok(buffer)
}

// Keys: the field number and, in the low three bits, the wire type.
const STATUS: u8 = 1 << 3 | 2;
const CODE: u8 = 1 << 3;
const DENIED_RESPONSE: u8 = 2 << 3 | 2;
const OK_RESPONSE: u8 = 3 << 3 | 2;
const HTTP_STATUS: u8 = 1 << 3 | 2;
const HEADERS: u8 = 2 << 3 | 2;
const BODY: u8 = 3 << 3 | 2;
const HEADERS_TO_REMOVE: u8 = 5 << 3 | 2;
const HEADER: u8 = 1 << 3 | 2;
const KEY: u8 = 1 << 3 | 2;
const VALUE: u8 = 2 << 3 | 2;

/// `status` with code 0, which is the default and so takes no bytes: present, that a reader need not guess.
const STATUS_OK: [u8; 2] = [STATUS, 0];
/// `status` with a code that takes one byte.
const STATUS_LENGTH: usize = 4;
/// `append` is false, for Envoy up to 1.40; `append_action` is `OVERWRITE_IF_EXISTS_OR_ADD`, for later ones.
const OVERWRITE: [u8; 4] = [2 << 3 | 2, 0, 3 << 3, 2];
/// The flag and the length before a gRPC message.
const PREFIX: usize = 5;

/// The code of `google.rpc.Status` that goes with an HTTP status. Never 0: that would be an OK.
const fn grpc_code(status: usize) -> u8 {
    match status {
        400 => 3,
        401 => 16,
        _ => 7,
    }
}

/// A buffer for a message of `length` bytes, its prefix written.
fn message(length: usize) -> Result<Vec<u8>, EncodeError> {
    let prefix = u32::try_from(length).map_err(|_| EncodeError::TooLarge)?;
    let mut buffer = Vec::with_capacity(PREFIX + length);
    buffer.push(0);
    buffer.extend_from_slice(&prefix.to_be_bytes());
    Ok(buffer)
}

/// The bytes that a delimited field of this length takes, with its key (field numbers below 16) and length.
const fn delimited(length: usize) -> usize {
    1 + varint_length(length) + length
}

fn headers_length<'h>(headers: impl Iterator<Item = (&'h str, &'h str)>) -> Result<usize, EncodeError> {
    let mut length = 0;
    for (name, value) in headers {
        check_name(name)?;
        check_value(value)?;
        length += delimited(header_option_length(name, value));
    }
    Ok(length)
}

const fn header_option_length(name: &str, value: &str) -> usize {
    delimited(header_length(name, value)) + OVERWRITE.len()
}

const fn header_length(name: &str, value: &str) -> usize {
    delimited(name.len()) + text_length(value)
}

/// The bytes of a string field, which is left out where it is empty.
const fn text_length(text: &str) -> usize {
    if text.is_empty() { 0 } else { delimited(text.len()) }
}

fn write_header(buffer: &mut Vec<u8>, name: &str, value: &str) {
    start(buffer, HEADERS, header_option_length(name, value));
    start(buffer, HEADER, header_length(name, value));
    write_text(buffer, KEY, name);
    write_text(buffer, VALUE, value);
    buffer.extend_from_slice(&OVERWRITE);
}

fn write_text(buffer: &mut Vec<u8>, key: u8, text: &str) {
    if !text.is_empty() {
        start(buffer, key, text.len());
        buffer.extend_from_slice(text.as_bytes());
    }
}

fn start(buffer: &mut Vec<u8>, key: u8, length: usize) {
    buffer.push(key);
    write_varint(buffer, length);
}

fn check_name(name: &str) -> Result<(), EncodeError> {
    let token = !name.is_empty() && name.bytes().all(is_token);
    if token { Ok(()) } else { Err(EncodeError::HeaderName) }
}

/// A byte of a token (RFC 9110, 5.6.2). No colon is, so a pseudo-header cannot be written either.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn check_value(value: &str) -> Result<(), EncodeError> {
    if value.bytes().any(|byte| byte.is_ascii_control()) { Err(EncodeError::HeaderValue) } else { Ok(()) }
}
