//! Cooperative scheduling of the connections of one worker.
//!
//! `h2` reads for as long as there is something to read, so one client can keep a thread for milliseconds, and sixty of
//! them for a tenth of a second, while requests on other connections wait (November 2026: the p99 of a client beside
//! 100,000 resets was 10 times its usual one). So a connection reads for one slice of time at most, in rounds: it reads
//! some bytes, then answers all that they ask. One that has used up its slice is queued for its next, as a new one is for its
//! first, and one of the queue is resumed for each time that the runtime asks the system for events.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a connection reads before others come first. Some dozens of requests, or a few hundred resets.
const SLICE: Duration = Duration::from_micros(200);
/// Reads that find something before the clock is read. A usual wake-up has one.
const FREE_READS: u32 = 2;
/// Upper bound of what is read, in bytes, before it is answered. `h2` keeps what it has read and nobody has accepted yet: 2 KB
/// for a stream that came and was reset in 28 bytes (November 2026: 60 such connections that waited for their slices held
/// 230 MiB). So a connection never waits with unanswered streams. As much as 50 checks; Envoy sends fewer at once.
const MAX_ROUND: usize = 16 << 10;
/// The first round of a connection, and each after one whose streams had mostly been reset: 70 of these, 100 µs. In between it
/// doubles.
const MIN_ROUND: usize = 2 << 10;

/// The connections of a worker that have used up their slices, in the order in which they did.
#[derive(Debug, Default)]
pub(super) struct SliceQueue {
    waiting: RefCell<VecDeque<(Rc<Slice>, Waker)>>,
    /// Of [`SliceQueue::run`], while nobody waits.
    idle: RefCell<Option<Waker>>,
}

/// What a connection has left of its slice.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// Reads that found something; `None` while nothing is counted.
    reads: Cell<Option<u32>>,
    /// When the clock was read first.
    since: Cell<Option<Instant>>,
    used_up: Cell<bool>,
    queued: Cell<bool>,
    /// Bytes read since [`Slice::begin_round`].
    read: Cell<usize>,
    /// How often the bound of a round has been doubled.
    doublings: Cell<u32>,
}

/// A socket that pretends to have nothing to read once the round is full or the slice used up.
#[derive(Debug)]
pub(super) struct Sliced<I> {
    io: I,
    slice: Rc<Slice>,
}

impl SliceQueue {
    /// Queues a connection, once, for its next slice; then its task is woken.
    pub(super) fn wait(&self, slice: &Rc<Slice>, cx: &Context<'_>) {
        if slice.queued.replace(true) {
            return;
        }
        self.waiting.borrow_mut().push_back((Rc::clone(slice), cx.waker().clone()));
        if let Some(idle) = self.idle.borrow_mut().take() {
            idle.wake();
        }
    }

    /// Waits for the first slice of a connection: else a client that opens hundreds at once would have one on each, and the
    /// others wait for them all.
    pub(super) async fn first(&self, slice: &Rc<Slice>) {
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

    /// Resumes one connection after the other, for ever.
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
            waker.wake();
            // The runtime runs this again only after it has asked the system for events.
            tokio::task::yield_now().await;
        }
    }
}

impl Slice {
    /// Begins a new slice, unless the connection is still queued for one. Returns whether it did.
    pub(super) fn begin(&self) -> bool {
        let begins = !self.queued.get();
        if begins {
            self.reads.set(Some(0));
            self.since.set(None);
            self.used_up.set(false);
        }
        begins
    }

    /// Allows to read again, unless the slice is used up. What was read in the round before has been answered.
    pub(super) fn begin_round(&self) {
        self.read.set(0);
    }

    /// Whether there may be more to read than was read in this round.
    pub(super) fn is_round_full(&self) -> bool {
        self.reads.get().is_some() && self.read.get() >= self.round()
    }

    /// Makes the next round twice as long.
    pub(super) fn lengthen_rounds(&self) {
        if self.round() < MAX_ROUND {
            self.doublings.set(self.doublings.get() + 1);
        }
    }

    /// Makes the next round as short as can be.
    pub(super) fn shorten_rounds(&self) {
        self.doublings.set(0);
    }

    fn round(&self) -> usize {
        MIN_ROUND << self.doublings.get()
    }

    pub(super) fn use_up(&self) {
        self.used_up.set(true);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.used_up.get()
    }

    /// Whether the slice is not used up yet. Reads the clock now and then.
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

    fn has_read(&self, bytes: usize) {
        self.reads.set(self.reads.get().map(|reads| reads.saturating_add(1)));
        self.read.set(self.read.get().saturating_add(bytes));
    }
}

impl<I> Sliced<I> {
    pub(super) fn new(io: I, slice: Rc<Slice>) -> Self {
        Self { io, slice }
    }
}

impl<I: AsyncRead + Unpin> Sliced<I> {
    /// Reads so many bytes at most.
    fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        let most = most.min(to.remaining());
        let mut part = ReadBuf::new(to.initialize_unfilled_to(most));
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
            // The connection that polls this looks at the slice: it begins a round, or queues for its next slice.
            return Poll::Pending;
        }
        let before = to.filled().len();
        let round = self.slice.round();
        let read = if round < MAX_ROUND {
            self.poll_read_some(cx, to, round)
        } else {
            Pin::new(&mut self.io).poll_read(cx, to)
        };
        if read.is_ready() {
            self.slice.has_read(to.filled().len().saturating_sub(before));
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Sliced<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// There is always something to read.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            to: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            to.put_slice(&[0; 64]);
            Poll::Ready(Ok(()))
        }
    }

    /// What is always readable is read in slices, and between two slices of the one comes one of the other.
    #[tokio::test(flavor = "local")]
    async fn two_that_never_stop_alternate() {
        let queue = Rc::new(SliceQueue::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let endless = |name: char| {
            let (queue, order) = (Rc::clone(&queue), Rc::clone(&order));
            async move {
                let slice = Rc::new(Slice::default());
                let mut socket = Sliced::new(Endless, Rc::clone(&slice));
                for _ in 0..20 {
                    slice.begin();
                    order.borrow_mut().push(name);
                    poll_fn(|cx| {
                        let mut buffer = [0; 1024];
                        while !slice.is_used_up() {
                            slice.begin_round();
                            let _ = Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut buffer));
                        }
                        Poll::Ready(())
                    })
                    .await;
                    queue.first(&slice).await;
                }
            }
        };
        let run = tokio::task::spawn_local(Rc::clone(&queue).run());
        let (one, other) = (tokio::task::spawn_local(endless('a')), tokio::task::spawn_local(endless('b')));
        one.await.unwrap();
        other.await.unwrap();
        run.abort();
        assert_eq!(order.borrow().iter().collect::<String>(), "ab".repeat(20));
    }

    /// Streams that were read and not answered yet are bounded.
    #[tokio::test]
    async fn a_round_has_an_end() {
        let slice = Rc::new(Slice::default());
        let mut socket = Sliced::new(Endless, Rc::clone(&slice));
        slice.begin();
        for bound in [1, 2, 4, 8, 8].map(|times| times * MIN_ROUND) {
            slice.begin_round();
            assert!(!slice.is_round_full());
            let mut read = 0;
            poll_fn(|cx| {
                let mut buffer = [0; 1024];
                while Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut buffer)).is_ready() {
                    read += 64;
                }
                Poll::Ready(())
            })
            .await;
            assert_eq!((read, slice.is_round_full()), (bound, true));
            slice.lengthen_rounds();
        }
        slice.shorten_rounds();
        assert_eq!(slice.round(), MIN_ROUND);
    }

    #[tokio::test]
    async fn before_the_first_slice_nothing_is_counted() {
        let mut socket = Sliced::new(Endless, Rc::default());
        for _ in 0..10_000 {
            assert_eq!(socket.read(&mut [0; 64]).await.unwrap(), 64);
        }
    }
}
