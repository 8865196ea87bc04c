//! Encodes a `CheckResponse`, with the five bytes that gRPC puts before a message (compression flag
//! 0, length). So the result is the whole body of the gRPC response.

use crate::metadata::{MAX_KEPT, Metadata};
use crate::wire::{delimited_length, start, varint_length, write_varint};

/// Why an answer cannot be encoded. The caller must answer with an error, never with an OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A header name is not a token (RFC 9110, 5.6.2).
    #[error("a header name is not a token")]
    HeaderName,
    /// A `:path` is not a path of visible ASCII (RFC 9113, 8.3.1).
    #[error("a `:path` is not a path of visible ASCII")]
    Path,
    /// A header value has a control character, which would reach an HTTP/1.1 client unchanged (RFC
    /// 9110, 5.5).
    #[error("a header value has a control character in it")]
    HeaderValue,
    /// The status of a denial is not from 400 to 599.
    #[error("a denial with a status that is not from 400 to 599")]
    Status,
    /// The answer does not fit a gRPC message.
    #[error("the answer is too large")]
    TooLarge,
}

/// Encodes answers. In protobuf the length of a message precedes it, and computing the length first
/// costs as much as writing. So the fields are written to a buffer, which is kept for the next
/// answers, and then copied behind their length.
#[derive(Debug, Default)]
pub struct Encoder {
    fields: Vec<u8>,
    /// The dynamic metadata of the next answer.
    metadata: Metadata,
}

/// Maximum length of a text of [`Encoder::describe`], in bytes. A longer text is cut: a user name
/// may be almost as long as the JSON Web Token that it comes from.
const MAX_METADATA_VALUE: usize = 1024;

impl Encoder {
    /// Sets the dynamic metadata of the next answer, for Envoy's access log. Omits empty texts, and
    /// cuts long texts.
    pub fn describe<'m>(&mut self, entries: impl Iterator<Item = (&'m str, &'m str)>) {
        self.metadata.clear();
        for (key, value) in entries.filter(|(_, value)| !value.is_empty()) {
            let value =
                value.get(..value.floor_char_boundary(MAX_METADATA_VALUE)).unwrap_or_default();
            self.metadata.text(key, value);
        }
    }

    /// The dynamic metadata of the next answer, to add more to it.
    pub fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The answer that lets a request through: `set` replaces headers of the request, or its
    /// `:path`; `remove` names headers to remove.
    ///
    /// # Errors
    /// If a header name, value or path is invalid, or the answer is too large.
    pub fn allowed<'h>(
        &mut self,
        set: impl Iterator<Item = (&'h str, &'h str)>,
        remove: impl Iterator<Item = &'h str>,
    ) -> Result<Vec<u8>, EncodeError> {
        self.clear();
        for (name, value) in set {
            // The only pseudo-header: Envoy forwards the request with this path.
            match name {
                ":path" => check_path(value)?,
                _ => check_name(name)?,
            }
            check_value(value)?;
            write_header(&mut self.fields, name, value);
        }
        for name in remove {
            check_name(name)?;
            write_text(&mut self.fields, HEADERS_TO_REMOVE, name);
        }
        self.message(&STATUS_OK, OK_RESPONSE)
    }

    /// The answer that denies a request: the client receives this status, these headers and this
    /// body.
    ///
    /// # Errors
    /// If a header name or value is invalid, the status is not from 400 to 599, or the answer is
    /// too large.
    pub fn denied<'h>(
        &mut self,
        status: u16,
        headers: impl Iterator<Item = (&'h str, &'h str)>,
        body: &str,
    ) -> Result<Vec<u8>, EncodeError> {
        if !(400..600).contains(&status) {
            return Err(EncodeError::Status);
        }
        self.clear();
        let status = usize::from(status);
        start(&mut self.fields, HTTP_STATUS, 1 + varint_length(status));
        self.fields.push(CODE);
        write_varint(&mut self.fields, status);
        for (name, value) in headers {
            check_name(name)?;
            check_value(value)?;
            write_header(&mut self.fields, name, value);
        }
        write_text(&mut self.fields, BODY, body);
        self.message(&[STATUS, 2, CODE, grpc_code(status)], DENIED_RESPONSE)
    }

    fn clear(&mut self) {
        self.fields.clear();
        self.fields.shrink_to(MAX_KEPT);
    }

    /// The whole answer: the gRPC prefix, the status, the message made of `self.fields`, and the
    /// metadata. `response` is the field key of that message.
    fn message(&mut self, status: &[u8], response: u8) -> Result<Vec<u8>, EncodeError> {
        let metadata = self.metadata.as_bytes();
        let metadata_length =
            if metadata.is_empty() { 0 } else { delimited_length(metadata.len()) };
        let length = status.len() + delimited_length(self.fields.len()) + metadata_length;
        let prefix = u32::try_from(length).map_err(|_| EncodeError::TooLarge)?;
        let mut message = Vec::with_capacity(PREFIX + length);
        message.push(0);
        message.extend_from_slice(&prefix.to_be_bytes());
        message.extend_from_slice(status);
        start(&mut message, response, self.fields.len());
        message.extend_from_slice(&self.fields);
        if !metadata.is_empty() {
            start(&mut message, DYNAMIC_METADATA, metadata.len());
            message.extend_from_slice(metadata);
            self.metadata.clear();
        }
        Ok(message)
    }
}

// Field keys: the field number and, in the low three bits, the wire type.
const STATUS: u8 = 1 << 3 | 2; // CheckResponse
const DENIED_RESPONSE: u8 = 2 << 3 | 2; // CheckResponse
const OK_RESPONSE: u8 = 3 << 3 | 2; // CheckResponse
const DYNAMIC_METADATA: u8 = 4 << 3 | 2; // CheckResponse
const CODE: u8 = 1 << 3; // google.rpc.Status, HttpStatus
const HEADERS: u8 = 2 << 3 | 2; // OkHttpResponse, DeniedHttpResponse
const HEADERS_TO_REMOVE: u8 = 5 << 3 | 2; // OkHttpResponse
const HTTP_STATUS: u8 = 1 << 3 | 2; // DeniedHttpResponse
const BODY: u8 = 3 << 3 | 2; // DeniedHttpResponse
const HEADER: u8 = 1 << 3 | 2; // HeaderValueOption
const KEY: u8 = 1 << 3 | 2; // HeaderValue
const VALUE: u8 = 2 << 3 | 2; // HeaderValue

/// `status` with code 0 (OK). 0 is the default and takes no bytes, but the field itself is present,
/// so that an OK is explicit and no client has to infer it from a missing field.
const STATUS_OK: [u8; 2] = [STATUS, 0];
/// Makes a header replace all headers of its name. Two fields can say so, and both are written:
/// `append: false`, which is deprecated, and `append_action: OVERWRITE_IF_EXISTS_OR_ADD`. Envoy's
/// pull request 42878 made `ext_authz` read the second, and 43442 reverted that. Tested with Envoy
/// 1.40.
const OVERWRITE: [u8; 4] = [2 << 3 | 2, 0, 3 << 3, 2];
/// The length of the gRPC prefix of a message, in bytes: a compression flag and the message's
/// length.
const PREFIX: usize = 5;

/// The `google.rpc.Status` code for an HTTP status. Never 0, which would be OK.
const fn grpc_code(status: usize) -> u8 {
    match status {
        400 => 3,
        401 => 16,
        _ => 7,
    }
}

const fn header_option_length(name: &str, value: &str) -> usize {
    delimited_length(header_length(name, value)) + OVERWRITE.len()
}

const fn header_length(name: &str, value: &str) -> usize {
    delimited_length(name.len()) + text_length(value)
}

/// The bytes of a string field, which is omitted if the string is empty.
const fn text_length(text: &str) -> usize {
    if text.is_empty() { 0 } else { delimited_length(text.len()) }
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

fn check_path(path: &str) -> Result<(), EncodeError> {
    let is_path =
        path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if is_path { Ok(()) } else { Err(EncodeError::Path) }
}

fn check_name(name: &str) -> Result<(), EncodeError> {
    let is_token =
        !name.is_empty() && name.bytes().all(|byte| TOKEN.get(usize::from(byte)) == Some(&true));
    if is_token { Ok(()) } else { Err(EncodeError::HeaderName) }
}

/// For each byte, whether a token may contain it (RFC 9110, 5.6.2): a look-up instead of sixteen
/// comparisons. A token has no colon, so the only pseudo-header that can be written is the `:path`
/// that [`Encoder::allowed`] lets through.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut entries: &mut [bool] = &mut table;
    let mut byte = 0_u8;
    while let [entry, tail @ ..] = entries {
        *entry = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.')
            || matches!(byte, b'^'..=b'`' | b'|' | b'~');
        byte = byte.wrapping_add(1);
        entries = tail;
    }
    table
};

fn check_value(value: &str) -> Result<(), EncodeError> {
    let has_control = value.bytes().any(|byte| byte.is_ascii_control());
    if has_control { Err(EncodeError::HeaderValue) } else { Ok(()) }
}
