//! Decodes a `CheckRequest` in a single pass, borrowing from the message.
//!
//! Strings may have any bytes, although protobuf requires UTF-8: Envoy passes on whatever a client
//! sends. If such bytes were a decoding error, the call would fail, and an Envoy with
//! `failure_mode_allow` would let the request through. Instead, they are decoded, and the
//! authorizer denies a request whose method, path, host or `Authorization` is not valid.
//!
//! Only fields that rolegate uses are decoded. The length of other fields is checked. A field that
//! occurs twice is merged as protobuf defines it, with three exceptions:
//!
//! * Of two `source.address`, the last replaces the first. It is not merged into it. The same holds
//!   for a message inside it.
//! * Of two text bodies, it is enough that one is not empty.
//! * A name that occurs twice in the `headers` map counts as two lines, although in protobuf the
//!   last wins. So a request with a second `authorization` is denied.

use crate::wire::{Fields, Value, WireError};

/// Maximum number of header lines that are passed on; a request with more is denied. It bounds the
/// time for a request. Envoy accepts 100 by default.
pub const MAX_HEADERS: usize = 10_000;

/// An HTTP request as Envoy describes it, without its header lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckRequest<'a> {
    /// `attributes.request.http.method`.
    pub method: &'a [u8],
    /// `attributes.request.http.path`, with the query.
    pub path: &'a [u8],
    /// `attributes.request.http.host`.
    pub host: &'a [u8],
    /// `attributes.request.http.id`.
    pub id: &'a [u8],
    /// `attributes.request.http.raw_body`. It may be cut off: only the header
    /// `x-envoy-auth-partial-body`, which Envoy adds, says whether it is.
    pub body: &'a [u8],
    /// Whether Envoy sends the body as text (`attributes.request.http.body`), as it does without
    /// `pack_as_bytes`. The text is ignored: Envoy replaces bytes in it that are not UTF-8.
    pub has_text_body: bool,
    /// Whether `attributes.context_extensions` has `request_body: buffered`: the route's
    /// configuration says that Envoy sends each body.
    pub buffers_body: bool,
    /// Whether a gRPC server sent this message (gRFC A92), and not Envoy. A gRPC server sets
    /// `attributes.request.http.size` to -1; Envoy sets it to the number of bytes it has received.
    pub is_from_grpc_server: bool,
    /// Whether there are more than [`MAX_HEADERS`] header lines. Such a request must be denied, but
    /// is no decoding error, because a client can cause it.
    pub too_many_headers: bool,
    /// `attributes.source.principal`: a name of the client's certificate.
    pub principal: &'a [u8],
    /// `attributes.source.certificate`: the client's certificate, in PEM with percent-encoding.
    pub certificate: &'a [u8],
    /// `attributes.source.address`, still encoded, because most requests do not need it.
    source_address: &'a [u8],
}

/// A header line or pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value: `raw_value` if it is not empty, else `value`.
    pub value: &'a [u8],
}

/// Why a message is not the `CheckRequest` of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message is not protobuf.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A field has another wire type than its definition.
    #[error("field {0} of `{1}` has the wrong type")]
    Type(u32, &'static str),
    /// The message has no `attributes.request.http`.
    #[error("there is no HTTP request in it")]
    NoHttpRequest,
    /// The message has both `headers` and a `header_map`. Envoy and gRPC send one of them, so
    /// nothing says which lines the application gets if they differ.
    #[error("there are headers in two places")]
    TwoHeaderMaps,
}

type Decoded<T> = Result<T, DecodeError>;

impl<'a> CheckRequest<'a> {
    /// Decodes a message, and passes each header line of `headers` and `header_map` to `on_header`.
    ///
    /// # Errors
    /// If the message is malformed, or not about an HTTP request. Ignore the lines that were passed
    /// on before the error.
    pub fn decode(message: &'a [u8], on_header: impl FnMut(Header<'a>)) -> Decoded<Self> {
        let mut reader = Reader {
            request: Self::default(),
            lines: 0,
            has_http: false,
            has_headers: false,
            has_header_map: false,
            on_header,
        };
        reader.check_request(message)?;
        match (reader.has_http, reader.has_headers && reader.has_header_map) {
            (false, _) => Err(DecodeError::NoHttpRequest),
            (true, true) => Err(DecodeError::TwoHeaderMaps),
            (true, false) => Ok(reader.request),
        }
    }

    /// The address of the other end of the connection to Envoy, as text
    /// (`attributes.source.address.socket_address.address`). Empty if there is none, as with a Unix
    /// socket, or if that part of the message is malformed.
    #[must_use]
    pub fn source_ip(&self) -> &'a [u8] {
        let socket_address = field(self.source_address, 1);
        socket_address.and_then(|socket_address| field(socket_address, 2)).unwrap_or_default()
    }
}

struct Reader<'a, H> {
    request: CheckRequest<'a>,
    lines: usize,
    /// Whether the message has an `attributes.request.http`.
    has_http: bool,
    /// Whether it has a line in `headers`.
    has_headers: bool,
    /// Whether it has a line in `header_map`.
    has_header_map: bool,
    on_header: H,
}

/// A header line as Envoy and the common protobuf libraries write it: the name, and then the value
/// as `value` or `raw_value`, both shorter than 128 bytes. `None` for any other line. Such lines
/// are most of a message, and this function takes a third of the instructions of [`any_line`]
/// (November 2026).
fn plain_line(message: &[u8]) -> Option<Header<'_>> {
    const NAME: u8 = 1 << 3 | 2;
    const VALUE: u8 = 2 << 3 | 2;
    const RAW_VALUE: u8 = 3 << 3 | 2;
    let (&[NAME, length @ ..0x80], rest) = message.split_first_chunk()? else { return None };
    let (name, rest) = rest.split_at_checked(usize::from(length))?;
    let (&[VALUE | RAW_VALUE, length @ ..0x80], value) = rest.split_first_chunk()? else {
        return None;
    };
    (value.len() == usize::from(length)).then_some(Header { name, value })
}

/// A header line with any fields in any order and of any length.
fn any_line<'a>(message: &'a [u8], message_name: &'static str) -> Decoded<Header<'a>> {
    let (mut name, mut text, mut raw) = (&[][..], &[][..], &[][..]);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = bytes(value, number, message_name)?,
            2 => text = bytes(value, number, message_name)?,
            3 => raw = bytes(value, number, message_name)?,
            _ => {}
        }
    }
    Ok(Header { name, value: if raw.is_empty() { text } else { raw } })
}

impl<'a, H: FnMut(Header<'a>)> Reader<'a, H> {
    fn check_request(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                self.attributes(bytes(value, 1, "CheckRequest")?)?;
            }
        }
        Ok(())
    }

    fn attributes(&mut self, message: &'a [u8]) -> Decoded<()> {
        const MESSAGE: &str = "AttributeContext";
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.source(bytes(value, number, MESSAGE)?)?,
                4 => self.request(bytes(value, number, MESSAGE)?)?,
                10 => self.extension(bytes(value, number, MESSAGE)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn source(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.request.source_address = bytes(value, number, "Peer")?,
                4 => self.request.principal = bytes(value, number, "Peer")?,
                5 => self.request.certificate = bytes(value, number, "Peer")?,
                _ => {}
            }
        }
        Ok(())
    }

    fn request(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 2 {
                self.has_http = true;
                self.http(bytes(value, number, "Request")?)?;
            }
        }
        Ok(())
    }

    fn http(&mut self, message: &'a [u8]) -> Decoded<()> {
        const MESSAGE: &str = "HttpRequest";
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            let request = &mut self.request;
            match number {
                1 => request.id = bytes(value, number, MESSAGE)?,
                2 => request.method = bytes(value, number, MESSAGE)?,
                3 => {
                    self.has_headers = true;
                    self.line(bytes(value, number, MESSAGE)?, "HeadersEntry")?;
                }
                4 => request.path = bytes(value, number, MESSAGE)?,
                5 => request.host = bytes(value, number, MESSAGE)?,
                9 => request.is_from_grpc_server = integer(value, number, MESSAGE)? == u64::MAX,
                11 => request.has_text_body |= !bytes(value, number, MESSAGE)?.is_empty(),
                12 => request.body = bytes(value, number, MESSAGE)?,
                13 => self.header_map(bytes(value, number, MESSAGE)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Decodes an entry of `context_extensions`. Of two with the same key, the last counts.
    fn extension(&mut self, message: &'a [u8]) -> Decoded<()> {
        let Header { name, value } = any_line(message, "ContextExtensionsEntry")?;
        if name == b"request_body" {
            self.request.buffers_body = value == b"buffered";
        }
        Ok(())
    }

    fn header_map(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                self.has_header_map = true;
                self.line(bytes(value, number, "HeaderMap")?, "HeaderValue")?;
            }
        }
        Ok(())
    }

    /// Decodes a `HeaderValue`, or an entry of `headers`, which has the same field numbers for its
    /// key and value.
    fn line(&mut self, message: &'a [u8], message_name: &'static str) -> Decoded<()> {
        let Header { name, value } = match plain_line(message) {
            Some(line) => line,
            None => any_line(message, message_name)?,
        };
        self.lines += 1;
        if self.lines > MAX_HEADERS {
            self.request.too_many_headers = true;
            return Ok(());
        }
        (self.on_header)(Header { name, value });
        Ok(())
    }
}

/// The content of the last field with this number in a message. `None` if there is no such field,
/// if the last one has the wrong type, or if the message is malformed.
fn field(message: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut fields = Fields::new(message);
    let mut content = None;
    while let Some((number, value)) = fields.next().ok()? {
        if number == wanted {
            content = if let Value::Bytes(bytes) = value { Some(bytes) } else { None };
        }
    }
    content
}

/// An `int64`, as an unsigned number.
fn integer(value: Value<'_>, number: u32, message_name: &'static str) -> Decoded<u64> {
    match value {
        Value::Varint(integer) => Ok(integer),
        Value::Bytes(_) | Value::Fixed => Err(DecodeError::Type(number, message_name)),
    }
}

#[inline]
fn bytes<'a>(value: Value<'a>, number: u32, message_name: &'static str) -> Decoded<&'a [u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Varint(_) | Value::Fixed => Err(DecodeError::Type(number, message_name)),
    }
}
