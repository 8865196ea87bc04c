//! Reading a `CheckRequest`: one pass, borrowing from the message.
//!
//! No text is checked to be UTF-8, though protobuf says so of a `string`: clients can get any bytes into most of them
//! (Envoy does not check either), and what cannot be decoded is an error, which `failure_mode_allow` lets pass. Whoever
//! reads a text decides what it may consist of, and denies the rest.
//!
//! Only what is used is looked at; other fields are skipped. A field that occurs twice is merged as protobuf says: the
//! last scalar wins, messages are merged, lines add up. A `headers` map with one name twice counts as two lines, which is
//! stricter than "the last wins": a second `authorization` then is seen, and refused.

use crate::wire::{Fields, Value, WireError};

/// Of more header lines than this no further one is handed out. Envoy itself lets through 100 a request, unless told
/// otherwise.
pub const MAX_HEADERS: usize = 10_000;

/// What Envoy says of an HTTP request. Its header lines are handed out while it is read.
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
    /// `attributes.request.http.scheme`.
    pub scheme: &'a [u8],
    /// `attributes.request.http.protocol`.
    pub protocol: &'a [u8],
    /// Whether there are more than [`MAX_HEADERS`] header lines. That is the client's doing, so it is not an error, which
    /// `failure_mode_allow` would let pass; but who has not seen all lines cannot judge the request.
    pub too_many_headers: bool,
    /// Whether a body is forwarded (`body` or `raw_body`).
    pub has_body: bool,
    /// `attributes.source.principal`: what the client's certificate proves.
    pub source_principal: &'a [u8],
    /// `attributes.destination.principal`: what the proxy's own certificate says.
    pub destination_principal: &'a [u8],
    /// `attributes.source.address`, encoded: most requests do not need it.
    source_address: &'a [u8],
}

/// A header line, pseudo-headers among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value: `raw_value` where it is not empty, else `value`.
    pub value: &'a [u8],
}

/// Why a message is not a `CheckRequest` of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not protobuf.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A field has another type than it should.
    #[error("field {0} of `{1}` has the wrong type")]
    Type(u32, &'static str),
    /// There is no `attributes.request.http`.
    #[error("there is no HTTP request in it")]
    NoHttpRequest,
}

type Decoded<T> = Result<T, DecodeError>;

impl<'a> CheckRequest<'a> {
    /// Reads a message and gives each header line of either shape to `line`.
    ///
    /// # Errors
    /// When the message is malformed, or is not about an HTTP request. Lines may have been given out by then; they count
    /// for nothing.
    pub fn decode(message: &'a [u8], line: impl FnMut(Header<'a>)) -> Decoded<Self> {
        let mut reader = Reader { request: Self::default(), lines: 0, found: false, line };
        reader.check_request(message)?;
        if reader.found { Ok(reader.request) } else { Err(DecodeError::NoHttpRequest) }
    }

    /// The client's address, as text (`attributes.source.address.socket_address.address`); empty where it has none, such
    /// as on a Unix socket, or where that part of the message is malformed.
    #[must_use]
    pub fn source_ip(&self) -> &'a [u8] {
        let socket_address = field(self.source_address, 1);
        socket_address.and_then(|socket_address| field(socket_address, 2)).unwrap_or_default()
    }
}

struct Reader<'a, L> {
    request: CheckRequest<'a>,
    lines: usize,
    found: bool,
    line: L,
}

impl<'a, L: FnMut(Header<'a>)> Reader<'a, L> {
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
        const IN: &str = "AttributeContext";
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => {
                    let CheckRequest { source_address, source_principal, .. } = &mut self.request;
                    peer(bytes(value, number, IN)?, source_address, source_principal)?;
                }
                2 => peer(bytes(value, number, IN)?, &mut &[][..], &mut self.request.destination_principal)?,
                4 => self.request(bytes(value, number, IN)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn request(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 2 {
                self.found = true;
                self.http(bytes(value, number, "Request")?)?;
            }
        }
        Ok(())
    }

    fn http(&mut self, message: &'a [u8]) -> Decoded<()> {
        const IN: &str = "HttpRequest";
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            let request = &mut self.request;
            match number {
                1 => request.id = bytes(value, number, IN)?,
                2 => request.method = bytes(value, number, IN)?,
                3 => self.line(bytes(value, number, IN)?, "HeadersEntry")?,
                4 => request.path = bytes(value, number, IN)?,
                5 => request.host = bytes(value, number, IN)?,
                6 => request.scheme = bytes(value, number, IN)?,
                10 => request.protocol = bytes(value, number, IN)?,
                11 | 12 => request.has_body |= !bytes(value, number, IN)?.is_empty(),
                13 => self.header_map(bytes(value, number, IN)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn header_map(&mut self, message: &'a [u8]) -> Decoded<()> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                self.line(bytes(value, number, "HeaderMap")?, "HeaderValue")?;
            }
        }
        Ok(())
    }

    /// A `HeaderValue`, or an entry of `headers`, which has the same numbers for its key and value.
    fn line(&mut self, message: &'a [u8], of: &'static str) -> Decoded<()> {
        let (mut name, mut text, mut raw) = (&[][..], &[][..], &[][..]);
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => name = bytes(value, number, of)?,
                2 => text = bytes(value, number, of)?,
                3 => raw = bytes(value, number, of)?,
                _ => {}
            }
        }
        self.lines += 1;
        if self.lines > MAX_HEADERS {
            self.request.too_many_headers = true;
            return Ok(());
        }
        let value = if raw.is_empty() { text } else { raw };
        (self.line)(Header { name, value });
        Ok(())
    }
}

fn peer<'a>(message: &'a [u8], address: &mut &'a [u8], principal: &mut &'a [u8]) -> Decoded<()> {
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => *address = bytes(value, number, "Peer")?,
            4 => *principal = bytes(value, number, "Peer")?,
            _ => {}
        }
    }
    Ok(())
}

/// The last field of this number in a message; `None` where there is none, or the message is malformed.
fn field(message: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut fields = Fields::new(message);
    let mut found = None;
    while let Some((number, value)) = fields.next().ok()? {
        if number == wanted {
            found = bytes(value, number, "Address").ok();
        }
    }
    found
}

#[inline]
fn bytes<'a>(value: Value<'a>, number: u32, of: &'static str) -> Decoded<&'a [u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Varint(_) | Value::Fixed => Err(DecodeError::Type(number, of)),
    }
}
