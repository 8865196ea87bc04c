//! A client that costs much less than the servers it measures: it sends the same request again and
//! again, in frames that are encoded once, and of the answers it looks at the frames' heads and at
//! the first message.
//!
//! A client on an HTTP/2 library costs as much per request as a server on one. Beside a fast server
//! it is then the client that is measured: of the library's client, one core sent 205,000 requests
//! per second (November 2026).

use std::io;
use std::time::{Duration, Instant};

use load::check_message::CHECK_PATH;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::attack::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
};

/// The requests that are under way on each of the two connections: as h2load with `-c 2 -m 32`.
const STREAMS: usize = 32;

const WINDOW_UPDATE: u8 = 8;

/// The length of a frame's head.
const HEAD: usize = 9;
/// The connection's window for answers. It is opened again when half of it is used.
const WINDOW: u32 = 1 << 30;
/// The connection's window for requests before the server says otherwise (RFC 9113, 6.9.2).
const FIRST_WINDOW: usize = (1 << 16) - 1;

/// What a connection has done.
struct Done {
    /// Requests that were answered with a message.
    answered: u64,
    /// The first message, in its gRPC frame. All others have its length.
    message: Vec<u8>,
}

/// The result of a run.
pub(super) struct Run {
    /// Requests per second that were answered with a message.
    pub(super) rate: f64,
    /// Requests that were answered.
    pub(super) answered: u64,
    /// The first message, in its gRPC frame. All others have its length. Empty without gRPC.
    pub(super) message: Vec<u8>,
}

/// Sends `message`, which is in its gRPC frame, for so long.
///
/// # Errors
/// If an answer is not a message of the usual length, or the connection ends.
pub(super) async fn run(address: &str, message: &[u8], time: Duration) -> io::Result<Run> {
    let start = Instant::now();
    let connection = || connection(address, message, start + time);
    let (one, other) = tokio::try_join!(connection(), connection())?;
    let answered = one.answered + other.answered;
    let rate = load::report::units::float(answered) / start.elapsed().as_secs_f64();
    Ok(Run { rate, answered, message: one.message })
}

async fn connection(address: &str, message: &[u8], end: Instant) -> io::Result<Done> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut connection = Connection::new(address, message);
    let mut received = Vec::with_capacity(1 << 18);
    let mut under_way = 0;
    loop {
        if Instant::now() < end {
            while under_way < STREAMS && connection.send() {
                under_way += 1;
            }
        } else if under_way == 0 {
            let all = connection.messages == connection.done.answered;
            return if all { Ok(connection.done) } else { Err(other("answers without a message")) };
        }
        socket.write_all(&connection.out).await?;
        connection.out.clear();
        if socket.read_buf(&mut received).await? == 0 {
            return Err(other("the server closed the connection"));
        }
        let before = connection.done.answered;
        let read = connection.receive(&received)?;
        received.drain(..read);
        under_way -= usize::try_from(connection.done.answered - before).unwrap_or(under_way);
    }
}

/// The state of a connection: what is to be sent, and what has been received.
struct Connection<'a> {
    /// Frames that are not sent yet.
    out: Vec<u8>,
    /// The first request on the connection, which fills the server's header table, and the header
    /// block of all others.
    first: Option<Vec<u8>>,
    message: &'a [u8],
    next_stream: u32,
    /// Bytes of messages that the server takes at the moment.
    window: usize,
    /// Bytes of answers since the window for them was opened.
    taken: u32,
    /// Messages received.
    messages: u64,
    done: Done,
}

impl<'a> Connection<'a> {
    fn new(address: &str, message: &'a [u8]) -> Self {
        let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        Self {
            out,
            first: Some(first_headers(address)),
            message,
            next_stream: 1,
            window: FIRST_WINDOW,
            taken: 0,
            messages: 0,
            done: Done { answered: 0, message: Vec::new() },
        }
    }

    /// Adds a request to what is to be sent, unless the server takes no more at the moment.
    fn send(&mut self) -> bool {
        if self.window < self.message.len() {
            return false;
        }
        self.window -= self.message.len();
        let headers = self.first.take();
        // The indices of what `first_headers` has put into the table, the newest first (RFC 7541,
        // 2.3.3).
        let headers =
            headers.as_deref().unwrap_or(&[0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]);
        frame(&mut self.out, HEADERS, END_HEADERS, self.next_stream, headers);
        frame(&mut self.out, DATA, END_STREAM, self.next_stream, self.message);
        self.next_stream += 2;
        true
    }

    /// Takes the whole frames of what was received. Returns their length.
    fn receive(&mut self, mut received: &[u8]) -> io::Result<usize> {
        let all = received.len();
        while let Some((head, rest)) = received.split_first_chunk::<HEAD>() {
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            let Some((content, rest)) = rest.split_at_checked(length) else { break };
            received = rest;
            let of_connection = stream == [0; 4];
            self.take(kind, flags, of_connection, content)?;
        }
        Ok(all - received.len())
    }

    fn take(&mut self, kind: u8, flags: u8, of_connection: bool, content: &[u8]) -> io::Result<()> {
        match kind {
            DATA => self.take_message(content)?,
            HEADERS if flags & END_STREAM != 0 => {
                self.done.answered += 1;
                // A message comes before the end of its answer. Those of other streams may come
                // between them.
                if self.messages < self.done.answered {
                    return Err(other("an answer without a message: a gRPC error"));
                }
            }
            SETTINGS if flags & ACK == 0 => frame(&mut self.out, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, content),
            // The window of a stream is larger than the message.
            WINDOW_UPDATE if of_connection => {
                let more = content.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                self.window += usize::try_from(more).unwrap_or_default();
            }
            RST_STREAM | GOAWAY => {
                return Err(other("the server ended a stream or the connection"));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_message(&mut self, content: &[u8]) -> io::Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        self.messages += 1;
        if self.done.message.is_empty() {
            self.done.message = content.to_vec();
        }
        if content.len() != self.done.message.len() {
            return Err(other("an answer of another length"));
        }
        self.taken += u32::try_from(content.len()).unwrap_or_default();
        if self.taken > WINDOW / 2 {
            frame(&mut self.out, WINDOW_UPDATE, 0, 0, &self.taken.to_be_bytes());
            self.taken = 0;
        }
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or_default().to_be_bytes();
    out.extend(length.into_iter().skip(1));
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(content);
}

/// `POST` over `http`, and four lines that the server puts into its table (RFC 7541, 6.1 and
/// 6.2.1).
fn first_headers(address: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut text = |prefix: &[u8], value: &str| {
        block.extend_from_slice(prefix);
        block.push(u8::try_from(value.len()).unwrap_or_default());
        block.extend_from_slice(value.as_bytes());
    };
    text(&[0x40 | 4], CHECK_PATH);
    text(&[0x40 | 1], address);
    text(&[0x40 | 31], "application/grpc");
    text(b"\x40\x02te", "trailers");
    block
}

fn other(reason: &str) -> io::Error {
    io::Error::other(reason.to_owned())
}
