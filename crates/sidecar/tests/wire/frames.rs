//! HTTP/2 frames, written by hand (RFC 9113, 4 and 6): a client library would not send what an attacker does.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A connection without manners: it writes what it is told, and reads only when it is told.
pub(crate) struct Raw(TcpStream);

impl Raw {
    /// Connects and says that it speaks HTTP/2, with these settings.
    pub(crate) fn open(address: SocketAddr, settings: &[(u16, u32)]) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        let mut raw = Self(stream);
        let payload = settings.iter().flat_map(|(id, value)| {
            let (id, value) = (id.to_be_bytes(), value.to_be_bytes());
            id.into_iter().chain(value)
        });
        let settings = frame(SETTINGS, 0, 0, &payload.collect::<Vec<_>>());
        raw.write(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat())?;
        Ok(raw)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Reads whatever comes until it stops coming. Returns how much it was.
    pub(crate) fn read(&mut self) -> usize {
        let mut buffer = [0; 1 << 16];
        let mut total = 0;
        while let Ok(length) = self.0.read(&mut buffer) {
            if length == 0 {
                break;
            }
            total += length;
        }
        total
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

/// The header block of a `Check`.
pub(crate) fn check_head() -> Vec<u8> {
    [
        literal(":method", "POST"),
        literal(":scheme", "http"),
        literal(":path", envoy::CHECK_PATH),
        literal(":authority", "rolegate"),
        literal("content-type", "application/grpc"),
    ]
    .concat()
}
