//! HTTP/2 frames, written by hand (RFC 9113, 4 and 6), because a client library does not send what
//! an attacker sends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A connection that writes any bytes and reads only on demand.
pub(crate) struct Raw {
    stream: TcpStream,
    /// The beginning of a frame whose end has not arrived yet.
    unparsed: Vec<u8>,
}

impl Raw {
    /// Connects and sends the HTTP/2 preface with these settings.
    pub(crate) fn open(address: SocketAddr, settings: &[(u16, u32)]) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        let mut raw = Self { stream, unparsed: Vec::new() };
        let payload = settings.iter().flat_map(|(id, value)| {
            let (id, value) = (id.to_be_bytes(), value.to_be_bytes());
            id.into_iter().chain(value)
        });
        let settings = frame(SETTINGS, 0, 0, &payload.collect::<Vec<_>>());
        raw.write(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat())?;
        Ok(raw)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads until nothing more arrives, and returns the server's reaction since the last call.
    pub(crate) fn reaction(&mut self) -> Reaction {
        let mut received = std::mem::take(&mut self.unparsed);
        let mut buffer = [0; 1 << 16];
        let mut closed = 0;
        while received.len() < 8 << 20 {
            match self.stream.read(&mut buffer) {
                Ok(0) => closed = 1,
                Ok(length) => {
                    received.extend_from_slice(&buffer[..length]);
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => closed = 1,
                Err(_) => {}
            }
            break;
        }
        let (reaction, unparsed) = Reaction::parse(&received);
        self.unparsed = unparsed.to_vec();
        Reaction { closed, ..reaction }
    }
}

/// Read timeout for data that has already arrived.
const NO_WAIT: Duration = Duration::from_millis(2);

impl Raw {
    /// The same as [`Self::reaction`], for what has already arrived.
    pub(crate) fn reaction_now(&mut self) -> Reaction {
        self.stream.set_read_timeout(Some(NO_WAIT)).unwrap();
        self.reaction()
    }

    /// Reads and acknowledges the server's settings, which open the flow-control windows.
    pub(crate) fn acknowledge_settings(&mut self) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut settings = [0; 1024];
        let _ = self.stream.read(&mut settings)?;
        self.write(&frame(SETTINGS, ACK, 0, &[]))?;
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    }

    /// Whether the server has closed it.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        self.reaction().closed > 0
    }
}

/// The reaction of a server, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reaction {
    /// HEADERS frames: the headers of answers, and trailers.
    pub(crate) heads: usize,
    /// DATA frames.
    pub(crate) data: usize,
    /// Streams that were reset.
    pub(crate) resets: usize,
    /// GOAWAY with ENHANCE_YOUR_CALM (RFC 9113, 7).
    pub(crate) calm: usize,
    /// Connections that were closed.
    pub(crate) closed: usize,
    /// Connections that the server no longer read from.
    pub(crate) unread: usize,
}

impl Reaction {
    /// Counts the frames. Also returns the beginning of a frame that is not complete.
    fn parse(mut bytes: &[u8]) -> (Self, &[u8]) {
        let mut this = Self::default();
        while let Some((&[a, b, c, kind, _, ..], rest)) = bytes.split_first_chunk::<9>() {
            let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap();
            let Some((payload, rest)) = rest.split_at_checked(length) else { break };
            bytes = rest;
            match kind {
                DATA => this.data += 1,
                HEADERS => this.heads += 1,
                RST_STREAM => this.resets += 1,
                GOAWAY => this.calm += usize::from(payload.get(4..8) == Some(&[0, 0, 0, 11][..])),
                _ => {}
            }
        }
        (this, bytes)
    }
}

impl std::ops::AddAssign for Reaction {
    fn add_assign(&mut self, other: Self) {
        self.heads += other.heads;
        self.data += other.data;
        self.resets += other.resets;
        self.calm += other.calm;
        self.closed += other.closed;
        self.unread += other.unread;
    }
}

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header line, neither indexed nor compressed (RFC 7541, 6.2.2).
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &string(name), &string(value)].concat()
}

/// A string literal without Huffman coding (RFC 7541, 5.2).
pub(crate) fn string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if text.len() < 127 {
        bytes.push(u8::try_from(text.len()).unwrap());
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push(u8::try_from(rest & 127).unwrap() | 128);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A header line that goes into the table (RFC 7541, 6.2.1).
pub(crate) fn indexed(name: &str, value: &str) -> Vec<u8> {
    [&[0x40][..], &string(name), &string(value)].concat()
}

/// The header block of a `Check` that puts its lines into the table, and one of five bytes that
/// refers to them.
pub(crate) fn check_head_and_short_one() -> (Vec<u8>, [u8; 5]) {
    let first = [
        vec![0x83, 0x86],
        indexed(":path", envoy::CHECK_PATH),
        indexed(":authority", "rolegate"),
        indexed("content-type", "application/grpc"),
    ];
    (first.concat(), [0x83, 0x86, 0xC0, 0xBF, 0xBE])
}

/// The header block of a `Check`.
pub(crate) fn check_head() -> Vec<u8> {
    head_of(envoy::CHECK_PATH)
}

/// The header block of a call.
pub(crate) fn head_of(path: &str) -> Vec<u8> {
    [
        literal(":method", "POST"),
        literal(":scheme", "http"),
        literal(":path", path),
        literal(":authority", "rolegate"),
        literal("content-type", "application/grpc"),
    ]
    .concat()
}
