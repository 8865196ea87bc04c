//! Cooperative scheduling of the connections of one worker.
//!
//! `h2` reads for as long as there is something to read, so one client can keep a thread for milliseconds, and sixty of
//! them for a tenth of a second, while requests on other connections wait (November 2026: the p99 of a client beside
//! 100,000 resets was 10 times its usual one). So a connection reads for one slice of time at most. One that has used it up
//! is queued for its next, and one of the queue is resumed for each time that the runtime asks the system for events.

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
}

/// A socket that pretends to have nothing to read once the slice is used up.
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
    /// Begins a new slice, unless the connection is still queued for one.
    pub(super) fn begin(&self) {
        if !self.queued.get() {
            self.reads.set(Some(0));
            self.since.set(None);
            self.used_up.set(false);
        }
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
        !self.is_used_up()
    }

    fn has_read(&self) {
        self.reads.set(self.reads.get().map(|reads| reads.saturating_add(1)));
    }
}

impl<I> Sliced<I> {
    pub(super) fn new(io: I, slice: Rc<Slice>) -> Self {
        Self { io, slice }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Sliced<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.slice.may_read() {
            // The connection that polls this looks at the slice, and queues for its next.
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.io).poll_read(cx, to);
        if read.is_ready() {
            self.slice.has_read();
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
                            let _ = Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut buffer));
                        }
                        Poll::Ready(())
                    })
                    .await;
                    let mut waited = false;
                    poll_fn(|cx| {
                        if std::mem::replace(&mut waited, true) {
                            return Poll::Ready(());
                        }
                        queue.wait(&slice, cx);
                        Poll::Pending
                    })
                    .await;
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

    #[tokio::test]
    async fn before_the_first_slice_nothing_is_counted() {
        let mut socket = Sliced::new(Endless, Rc::default());
        for _ in 0..10_000 {
            assert_eq!(socket.read(&mut [0; 64]).await.unwrap(), 64);
        }
    }
}
