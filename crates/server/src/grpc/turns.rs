//! Turns: how much a connection reads before other connections of its worker are served.
//!
//! `h2` reads for as long as there is data, so a peer could occupy a thread for milliseconds
//! (November 2026: while one peer sent 100,000 stream resets, the p99 of another was 10 times its
//! usual value). So a connection reads a limited number of bytes, answers all requests in them, and
//! then waits for its next turn. Each time the runtime has polled for I/O events, a waiting
//! connection gets its turn.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::frames::{HalfHead, InvalidStreams};
use crate::checks::notices::FIRST_BYTES;

/// Maximum bytes of a turn. It bounds memory: `h2` keeps each stream that it has read until the
/// stream is accepted, and a stream that was opened and reset in 28 bytes takes 2 KB.
///
/// 64 KiB hold 50 checks with tokens of 1 KB, and Envoy seldom sends more at once. With 16 KiB, 32
/// such checks took three reads and three writes: the throughput was 219,000 checks per second,
/// instead of 232,000 to 242,000 (November 2026).
const MAX_TURN: usize = 64 << 10;
/// Bytes of a connection's first turn. After a turn whose streams were mostly reset, the next turn
/// has this length again; after a turn with requests, the next is twice as long. This length holds
/// 70 resets, which take 100 µs.
const MIN_TURN: usize = 2 << 10;

/// The connections of a worker that wait for their turn, first come, first served.
#[derive(Debug)]
pub(crate) struct TurnQueue(UnboundedSender<oneshot::Sender<()>>);

/// Meters the turns of a connection, and keeps facts about its bytes that `h2` does not tell.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes of a turn.
    limit: Cell<usize>,
    /// Bytes that may still be read in this turn.
    remaining: Cell<usize>,
    /// The first bytes from the peer, with their number. If the peer does not speak HTTP/2, they
    /// show what it speaks.
    first: Cell<([u8; FIRST_BYTES], usize)>,
    half_head: HalfHead,
    invalid_streams: InvalidStreams,
}

/// A socket that reports nothing to read once the turn is used up.
#[derive(Debug)]
pub(super) struct MeteredSocket<I> {
    io: I,
    meter: Rc<Meter>,
}

impl TurnQueue {
    /// The queue, and the future that gives the turns. It does not end before the queue is dropped.
    pub(crate) fn new() -> (Self, impl Future<Output = ()>) {
        let (queue, mut waiting) = unbounded_channel::<oneshot::Sender<()>>();
        let turn_giver = async move {
            while let Some(connection) = waiting.recv().await {
                // It fails for a connection that has been closed.
                if connection.send(()).is_ok() {
                    // The runtime polls this again only after it has polled for I/O events.
                    yield_now().await;
                }
            }
        };
        (Self(queue), turn_giver)
    }

    /// Waits for a turn.
    pub(super) async fn wait(&self) {
        let (turn, begins) = oneshot::channel();
        // Both fail only when the worker ends.
        let _ = self.0.send(turn);
        let _ = begins.await;
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            limit: Cell::new(MIN_TURN),
            remaining: Cell::new(MIN_TURN),
            first: Cell::default(),
            half_head: HalfHead::default(),
            invalid_streams: InvalidStreams::default(),
        }
    }
}

impl Meter {
    pub(super) fn begin_turn(&self) {
        self.remaining.set(self.limit.get());
    }

    /// Whether the turn is used up, so that there may be more to read.
    pub(super) fn is_used_up(&self) -> bool {
        self.remaining.get() == 0
    }

    /// Doubles the next turn.
    pub(super) fn lengthen_turns(&self) {
        self.limit.set((self.limit.get() * 2).min(MAX_TURN));
    }

    pub(super) fn shorten_turns(&self) {
        self.limit.set(MIN_TURN);
    }

    /// The first bytes from the peer, up to [`FIRST_BYTES`].
    pub(super) fn first_bytes(&self) -> SmallVec<[u8; FIRST_BYTES]> {
        let (bytes, length) = self.first.get();
        bytes.into_iter().take(length).collect()
    }

    /// When the unfinished head of a request began.
    pub(super) fn half_head_since(&self) -> Option<Instant> {
        self.half_head.since()
    }

    /// How many streams have been reset as invalid since the last call.
    pub(super) fn take_invalid_streams(&self) -> u32 {
        self.invalid_streams.take()
    }

    fn record_read(&self, bytes: &[u8]) {
        self.remaining.set(self.remaining.get().saturating_sub(bytes.len()));
        self.half_head.read(bytes);
        let (mut first, length) = self.first.get();
        if length < FIRST_BYTES {
            let copied =
                first.iter_mut().skip(length).zip(bytes).map(|(to, from)| *to = *from).count();
            self.first.set((first, length + copied));
        }
    }
}

impl<I> MeteredSocket<I> {
    pub(super) fn new(io: I, meter: Rc<Meter>) -> Self {
        Self { io, meter }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for MeteredSocket<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let remaining = self.meter.remaining.get();
        if remaining == 0 {
            // No waker is registered: the connection waits for its next turn.
            return Poll::Pending;
        }
        let before = to.filled().len();
        let read = if remaining < to.remaining() {
            let mut part = ReadBuf::new(to.initialize_unfilled_to(remaining));
            let read = Pin::new(&mut self.io).poll_read(cx, &mut part);
            let length = part.filled().len();
            to.advance(length);
            read
        } else {
            Pin::new(&mut self.io).poll_read(cx, to)
        };
        if read.is_ready() {
            self.meter.record_read(to.filled().get(before..).unwrap_or_default());
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for MeteredSocket<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, from);
        if let Poll::Ready(Ok(length)) = written {
            self.meter.invalid_streams.write(from.get(..length).unwrap_or_default());
        }
        written
    }

    /// False, even if the socket could, so that `h2` makes fewer system calls. `h2` copies small
    /// frames together into one write, and writes a larger frame by itself. A frame counts as small
    /// below 256 bytes for a vectored writer, and below 1,024 bytes for other writers. Many answers
    /// lie between the two, and a system call costs far more than a copy.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
