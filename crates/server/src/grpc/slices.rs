//! Cooperative scheduling of the connections of one worker.
//!
//! `h2` reads for as long as there is data, so one peer can occupy a thread for milliseconds, and sixty peers for
//! a tenth of a second, while requests on other connections wait (November 2026: while one peer sent 100,000 stream
//! resets, the p99 of another was 10 times its usual value). So a connection reads for at most one time slice, in
//! rounds: it reads a limited number of bytes, then answers all requests in them. A connection that has used up its
//! slice is queued for the next one, and a new connection is queued for its handshake, in which reads are not limited.
//! Each time the runtime polls for I/O events, one queued connection is resumed.
//!
//! A connection whose last slice was long (see [`Slice::was_long`]) is queued too when more data arrives. So a connection
//! with few requests need not wait for the slices of all busy connections whose data arrived before. (A connection whose slices are
//! short and long in turn escapes that in half of them.)

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use h2::Reason;
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame_reader::{FrameEvent, FrameReader};
use super::half_head::HalfHead;
use super::wrong_protocol::FIRST_BYTES;

/// Length of a slice: how long a connection reads before others get their turn. Enough for some dozens of requests or a
/// few hundred resets. Without a limit, `h2` reads as long as data arrives, so that one peer kept a worker for
/// milliseconds. Chosen, not measured: a longer slice saves changes of connection, a shorter one lets others wait less.
const SLICE: Duration = Duration::from_micros(200);
/// Number of reads that return data before the clock is read for the first time in a slice. Usually one such read
/// empties the socket, and then the clock is not read at all.
const FREE_READS: u32 = 2;
/// Number of bytes after which a round ends: what was read is answered before more is read. `h2` keeps every stream
/// that it has read until the stream is accepted: 2 KB for one that was opened and reset in 28 bytes. Without
/// rounds, 60 connections full of such streams held 230 MiB while they waited for their slices (November 2026). 64 KiB
/// hold 50 checks with a token of 1 KB, and Envoy seldom sends more at once. With 16 KiB, 32 such checks took three
/// rounds, and as many writes: 219,000 checks per second instead of 232,000 to 242,000 (November 2026). The last read of
/// a round of this length may exceed it. A connection with only small frames seldom gets there: [`SLICE`] ends first.
const MAX_ROUND: usize = 64 << 10;
/// A slice in which answers took so long was long: half of the longest one. Chosen, not measured: with less, connections of ordinary
/// Envoys wait for turns; with more, several busy ones that stay below it delay others.
const LONG_WORK: Duration = Duration::from_micros(100);
/// So is one in which so many bytes were read: 50 checks with a token of 1 KB, or 200 without.
const LONG_READ: usize = MAX_ROUND;
/// Bytes of a connection's first round, and of each round after one in which most streams were reset: they hold 70
/// resets, which take 100 µs. A round with requests doubles the next one, up to [`MAX_ROUND`].
const MIN_ROUND: usize = 2 << 10;

/// The connections of a worker that wait for their turn, first come, first served.
#[derive(Debug, Default)]
pub(super) struct SliceQueue {
    waiting: RefCell<VecDeque<(Rc<Slice>, Waker)>>,
    /// The waker of [`SliceQueue::run`] while the queue is empty.
    idle: RefCell<Option<Waker>>,
}

/// What a connection has used of its slice.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// Number of reads that returned data in this slice; `None` before the first slice: reads of the handshake are
    /// not limited.
    reads: Cell<Option<u32>>,
    /// When the clock was first read in this slice.
    since: Cell<Option<Instant>>,
    used_up: Cell<bool>,
    queued: Cell<bool>,
    /// Whether the connection was taken out of the queue and has not begun its slice yet.
    resumed: Cell<bool>,
    /// Bytes read in this slice, or, until its first read, in the last one.
    read_in_slice: Cell<usize>,
    /// How long answers took, in the same.
    worked: Cell<Duration>,
    /// Bytes read since [`Slice::begin_round`].
    read: Cell<usize>,
    /// How often the limit of a round has been doubled.
    doublings: Cell<u32>,
    /// What the peer sent first, which tells its protocol if it is not HTTP/2.
    first: Cell<([u8; FIRST_BYTES], usize)>,
    half_head: HalfHead,
    invalid_streams: InvalidStreams,
}

/// Counts the streams that `h2` has reset because their head or body is not valid. It never tells of them otherwise.
#[derive(Debug)]
struct InvalidStreams {
    written: Cell<FrameReader>,
    count: Cell<u32>,
}

/// A socket that reports nothing to read once the round is full or the slice is used up.
#[derive(Debug)]
pub(super) struct Sliced<I> {
    io: I,
    slice: Rc<Slice>,
}

impl SliceQueue {
    /// Queues a connection for its next slice, unless it is queued already. Its task is woken when the slice begins.
    pub(super) fn wait(&self, slice: &Rc<Slice>, cx: &Context<'_>) {
        if slice.queued.replace(true) {
            return;
        }
        self.waiting.borrow_mut().push_back((Rc::clone(slice), cx.waker().clone()));
        if let Some(idle) = self.idle.borrow_mut().take() {
            idle.wake();
        }
    }

    /// Waits for the turn of a connection, before its handshake. Otherwise a peer that opens hundreds of connections at
    /// once would get a handshake on each of them, and all other connections would wait.
    pub(super) async fn wait_for_turn(&self, slice: &Rc<Slice>) {
        let mut has_waited = false;
        poll_fn(|cx| {
            if has_waited && !slice.queued.get() {
                return Poll::Ready(());
            }
            has_waited = true;
            self.wait(slice, cx);
            Poll::Pending
        })
        .await;
    }

    /// Resumes the queued connections, one each time the runtime polls for I/O events. Never returns.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            let next = poll_fn(|cx| match self.waiting.borrow_mut().pop_front() {
                Some(next) => Poll::Ready(next),
                None => {
                    *self.idle.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            });
            let (slice, waker) = next.await;
            slice.queued.set(false);
            slice.resumed.set(true);
            waker.wake();
            // The runtime polls this again only after it has polled for I/O events.
            tokio::task::yield_now().await;
        }
    }
}

impl Slice {
    /// Begins a new slice, unless the connection is still queued for one or has to be, because its last one was long. Then nothing is
    /// read. Returns whether it did.
    pub(super) fn begin(&self) -> bool {
        if self.queued.get() {
            return false;
        }
        if !self.resumed.replace(false) && self.was_long() {
            self.use_up();
            return false;
        }
        self.reads.set(Some(0));
        self.since.set(None);
        self.used_up.set(false);
        true
    }

    /// Whether the last slice was long: in bytes, which take time to be read, or in time for answers.
    fn was_long(&self) -> bool {
        self.read_in_slice.get() >= LONG_READ || self.worked.get() >= LONG_WORK
    }

    /// Adds the time that a batch of answers took.
    pub(super) fn has_worked(&self, time: Duration) {
        self.worked.set(self.worked.get().saturating_add(time));
    }

    /// Begins a round: reading is allowed again, unless the slice is used up. Everything read in the previous round
    /// has been answered.
    pub(super) fn begin_round(&self) {
        self.read.set(0);
    }

    /// Whether the round's limit was reached, so that there may be more to read.
    pub(super) fn is_round_full(&self) -> bool {
        self.reads.get().is_some() && self.read.get() >= self.round()
    }

    /// Doubles the limit of the next round, up to [`MAX_ROUND`].
    pub(super) fn lengthen_rounds(&self) {
        if self.round() < MAX_ROUND {
            self.doublings.set(self.doublings.get() + 1);
        }
    }

    /// Resets the limit of the next round to [`MIN_ROUND`].
    pub(super) fn shorten_rounds(&self) {
        self.doublings.set(0);
    }

    /// The limit of a round, in bytes.
    fn round(&self) -> usize {
        MIN_ROUND << self.doublings.get()
    }

    pub(super) fn use_up(&self) {
        self.used_up.set(true);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.used_up.get()
    }

    /// Whether the slice and the round allow another read. Reads the clock only after [`FREE_READS`] reads.
    fn may_read(&self) -> bool {
        if self.reads.get().is_some_and(|reads| reads >= FREE_READS) {
            match self.since.get() {
                None => self.since.set(Some(Instant::now())),
                Some(since) if since.elapsed() >= SLICE => self.use_up(),
                Some(_) => {}
            }
        }
        !self.is_used_up() && !self.is_round_full()
    }

    /// What the peer sent first: up to [`FIRST_BYTES`] bytes.
    pub(super) fn first_bytes(&self) -> SmallVec<[u8; FIRST_BYTES]> {
        let (bytes, length) = self.first.get();
        bytes.into_iter().take(length).collect()
    }

    /// The number of the head of a request that the peer has begun, in several frames, and not ended.
    pub(super) fn half_head(&self) -> Option<u64> {
        self.half_head.open()
    }

    /// How many streams have been reset as not valid since this was called last.
    pub(super) fn take_invalid_streams(&self) -> u32 {
        self.invalid_streams.count.take()
    }

    fn has_read(&self, read: &[u8]) {
        let bytes = read.len();
        self.half_head.read(read);
        if self.reads.get() == Some(0) {
            // Not when the slice begins: a connection that has only something to write reads nothing in it.
            self.read_in_slice.set(0);
            self.worked.set(Duration::ZERO);
        }
        if self.reads.get().is_none() {
            let (mut first, length) = self.first.get();
            let more = first.iter_mut().skip(length).zip(read);
            let copied = more.map(|(to, from)| *to = *from).count();
            self.first.set((first, length + copied));
        }
        self.reads.set(self.reads.get().map(|reads| reads.saturating_add(1)));
        self.read.set(self.read.get().saturating_add(bytes));
        self.read_in_slice.set(self.read_in_slice.get().saturating_add(bytes));
    }
}

impl Default for InvalidStreams {
    fn default() -> Self {
        Self { written: Cell::new(FrameReader::new(0)), count: Cell::default() }
    }
}

impl InvalidStreams {
    fn write(&self, bytes: &[u8]) {
        let mut written = self.written.get();
        written.read(bytes, |event| {
            if event == FrameEvent::Reset(Reason::PROTOCOL_ERROR.into()) {
                self.count.set(self.count.get().saturating_add(1));
            }
        });
        self.written.set(written);
    }
}

impl<I> Sliced<I> {
    pub(super) fn new(io: I, slice: Rc<Slice>) -> Self {
        Self { io, slice }
    }
}

impl<I: AsyncRead + Unpin> Sliced<I> {
    /// Reads at most `limit` bytes.
    fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
        limit: usize,
    ) -> Poll<io::Result<()>> {
        let limit = limit.min(to.remaining());
        let mut part = ReadBuf::new(to.initialize_unfilled_to(limit));
        let read = Pin::new(&mut self.io).poll_read(cx, &mut part);
        let filled = part.filled().len();
        to.advance(filled);
        read
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Sliced<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.slice.may_read() {
            // No waker is registered: the connection that polls this checks the slice afterwards, and begins a round
            // or queues for its next slice.
            return Poll::Pending;
        }
        let before = to.filled().len();
        let round = self.slice.round();
        // A short round needs a limit per read. A long one only ends after the read that exceeds it, which is at most
        // as long as the buffer of `h2`.
        let read = if round < MAX_ROUND {
            self.poll_read_some(cx, to, round)
        } else {
            Pin::new(&mut self.io).poll_read(cx, to)
        };
        if read.is_ready() {
            self.slice.has_read(to.filled().get(before..).unwrap_or_default());
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Sliced<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, from);
        if let Poll::Ready(Ok(length)) = written {
            self.slice.invalid_streams.write(from.get(..length).unwrap_or_default());
        }
        written
    }

    /// Not even where the socket is. To a vectored writer, `h2` sends each frame of 256 bytes or more in a write of its
    /// own, to any other only those of 1,024 or more: it copies smaller ones into the one write of their batch. Many
    /// answers lie between the two, and a system call costs far more than a copy.
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
