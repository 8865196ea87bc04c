//! An HTTP/2 connection: its limits, and the loop that reads and answers requests.
//!
//! A connection that has data gets a *turn* (see `turns`): it reads up to 64 KiB, answers the
//! requests in them in *batches* of at most [`BATCH`], and sends the answers of a batch in a
//! single write. Most requests can be answered at once, without a task and without a channel.
//!
//! `h2` is used directly, not through hyper: 412,000 instead of 365,000 checks per second per core,
//! in a measurement of the transport alone, which decoded no messages (August 2026).

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server;
use runtime::Received;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::exchange::{self, Receiving, Stream};
use super::turns::{Meter, MeteredSocket};
use crate::checks::age::Age;
use crate::checks::checker::Failure;
use crate::checks::context::WorkerContext;
use crate::checks::notices::{Peer, WrongProtocol};
use crate::checks::options::Options;
use crate::checks::registry::{Mode, RegisteredConnection};

/// Maximum number of requests that are answered together. A larger batch saves system calls; in a
/// smaller batch the first request waits less. Chosen, not measured: at a few microseconds each
/// (November 2026; `make bench BENCH=wire`), 64 take some hundred microseconds.
const BATCH: usize = 64;
/// If the answers of a turn took this long, the connection waits in the queue of turns before it
/// reads again. So busy connections wait for each other. A connection with few requests does not
/// enter the queue, and need not wait until all busy ones had a turn. Chosen, not measured. If it
/// were shorter, connections of ordinary Envoys would queue, too. If it were longer, more of the
/// busy connections would not queue, and would delay others.
const LONG_TURN: Duration = Duration::from_micros(100);
/// HTTP/2 flow-control window of a connection, in bytes: four messages of 250 KB, or thousands of
/// small messages. It limits the memory that unfinished messages of a connection occupy. Chosen,
/// not measured.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// HTTP/2 flow-control window of a stream, in bytes. A usual message has some hundred bytes to a
/// few kilobytes. Even a message with a body of 250 KB fits the window, so its peer need not wait
/// for a WINDOW_UPDATE. Chosen, not measured.
const STREAM_WINDOW: u32 = 256 << 10;
/// The n-th connection of a worker may have `STREAMS_DIVIDEND / (n × workers)` concurrent streams,
/// within [`MIN_STREAMS`] and [`MAX_STREAMS`]. Envoy needs fewer: at a millisecond per answer, ten
/// streams carry 10,000 checks per second, and Envoy opens another connection when all are in use.
///
/// This bounds the memory that hostile peers can occupy. An answer that the peer does not read, or
/// opens no window for, takes 3.4 KiB until its connection is closed (November 2026, with
/// `policies/people`). With the default of 1,024 connections there are fewer than 12,000 streams:
/// 40 MiB at most. With n² instead of n, connections would have only the minimum from the
/// eighteenth on, even with a single worker.
const STREAMS_DIVIDEND: usize = 1536;
/// Maximum number of concurrent streams per connection: as many as Envoy has in flight by default.
const MAX_STREAMS: u32 = 1024;
/// Minimum number of concurrent streams per connection. Chosen, not measured: each stream can hold
/// memory, and there can be thousands of connections; but with a single stream, a slow check would
/// delay the next checks of its connection.
const MIN_STREAMS: u32 = 4;
/// Minimum size of a *burst*: the number of streams that a peer may reset at once. A burst is as
/// many streams as the connection may have, but at least this many. Resets can outnumber the
/// concurrent streams, because a stream that was reset does not count as concurrent (RFC 9113,
/// 5.1.2). If many clients of an Envoy disconnect together, Envoy resets their streams. That must
/// not close the connection, which also carries the checks of other clients. Envoy has at most
/// 1,024 requests in flight by default.
const MIN_RESETS: usize = 1 << 10;
/// The maximum excess of reset streams over answered streams of a connection, in bursts. Beyond it
/// the connection is closed. Chosen, not measured.
const RESET_BURSTS: usize = 4;
/// Maximum size of a stream's header list, in bytes. The headers of the HTTP request to be
/// authorized are inside the message, but an Envoy that records spans adds the `tracestate` of its
/// client to the call, which may be as long as Envoy permits headers to be
/// (`max_request_headers_kb`: 60 by default, 96 in our configurations). `h2` answers a longer list
/// with 431 itself. An Envoy with `failure_mode_allow` then lets the request pass, so no client may
/// be able to cause it.
const HEADER_LIST: u32 = 128 << 10;
/// Maximum number of connections of all workers whose peer has begun a request head and not ended
/// it (HEADERS without END_HEADERS). A worker's share is [`max_half_heads`]. Each head may take 300
/// KiB of memory: an empty field counts 32 bytes against [`HEADER_LIST`], and takes 72.
const MAX_HALF_HEADS: usize = 64;
/// Bytes per stream for which `h2` grants send capacity. It limits answers of health checks and
/// reflection, which ask for capacity before they send. Answers to checks do not ask, so that they
/// leave in a single write. Their size is limited by `authorizer` (`Limit::ResponseSize`).
const SEND_BUFFER: usize = 64 << 10;
/// Maximum number of unfinished messages that a connection polls itself. Each further one gets a
/// task. Chosen, not measured: the connection polls all of its messages after each read.
const MAX_UNFINISHED: usize = 16;

/// Serves a connection until it ends.
pub(crate) async fn serve<I>(
    context: Rc<WorkerContext>,
    registered: RegisteredConnection,
    io: I,
    peer: Peer,
    age: Age,
) where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let options = &context.shared.options;
    let streams = streams(options, registered.other_connections());
    let burst = usize::try_from(streams).unwrap_or(usize::MAX).max(MIN_RESETS);
    let http2 = http2_builder(streams, burst);
    let meter = Rc::<Meter>::default();
    let io = MeteredSocket::new(io, Rc::clone(&meter));
    let handshake = async {
        // The handshake waits for its turn, so that other connections are served while a peer opens
        // hundreds.
        context.turns.wait().await;
        timeout(options.request_timeout, http2.handshake(io)).await
    };
    let h2 = tokio::select! {
        h2 = handshake => h2,
        () = registered.closed() => return,
    };
    let h2 = match h2 {
        Ok(Ok(h2)) => h2,
        Ok(Err(_)) => {
            if let Some(wrong) = WrongProtocol::from_first_bytes(&meter.first_bytes()) {
                context.shared.wrong_protocols.report(wrong, peer, None);
            }
            return;
        }
        // No warning: a peer that has sent nothing has used no wrong protocol, and wrong bytes fail
        // the handshake.
        Err(_elapsed) => return,
    };
    let mut connection = Connection {
        context: Rc::clone(&context),
        registered,
        peer,
        h2,
        meter,
        batch: Vec::new(),
        unfinished: Vec::new(),
        grace_timer: None,
        waker: None,
        worked: Duration::ZERO,
        excess_resets: 0,
        max_excess_resets: burst.saturating_mul(RESET_BURSTS),
        draining: false,
        age,
        head_timer: None,
    };
    while poll_fn(|cx| connection.poll(cx)).await == TurnEnd::Queue {
        context.turns.wait().await;
    }
    // Each unfinished request gets a task, which counts it: as answered if its message is complete
    // by now, or else as cancelled.
    connection.unfinished.drain(..).for_each(Receiving::spawn);
}

/// Maximum concurrent streams of a worker's next connection; `connections` are open already. The
/// first connections get most streams, because Envoy opens few. Each further connection gets fewer
/// (see [`STREAMS_DIVIDEND`]), because the memory that an attacker can occupy grows with streams ×
/// connections.
fn streams(options: &Options, connections: usize) -> u32 {
    let number = connections.saturating_add(1);
    let divisor = number.saturating_mul(options.threads.max(1));
    let share = u32::try_from(STREAMS_DIVIDEND / divisor).unwrap_or(u32::MAX);
    share.clamp(MIN_STREAMS, MAX_STREAMS)
}

/// How many connections of a worker may have an unfinished request head: its share of
/// [`MAX_HALF_HEADS`], at least two.
pub(crate) fn max_half_heads(options: &Options) -> usize {
    (MAX_HALF_HEADS / options.threads.max(1)).max(2)
}

fn http2_builder(streams: u32, burst: usize) -> server::Builder {
    let mut http2 = server::Builder::new();
    http2
        .max_concurrent_streams(streams)
        // `h2` closes the connection if more reset streams than this wait to be accepted. The limit
        // is above a burst, because Envoy resets all its streams at once when they time out, and
        // may reset a quarter as many new ones before the first are accepted. Each such stream
        // takes some hundred bytes.
        .max_pending_accept_reset_streams(burst + burst / 4)
        // The number of streams reset by this side that `h2` remembers. It ignores frames that
        // still arrive for them. A frame for a stream that `h2` has forgotten would close the
        // connection.
        .max_concurrent_reset_streams(burst.saturating_mul(RESET_BURSTS))
        .max_header_list_size(HEADER_LIST)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER);
    http2
}

struct Connection<I> {
    context: Rc<WorkerContext>,
    registered: RegisteredConnection,
    peer: Peer,
    h2: server::Connection<MeteredSocket<I>, Bytes>,
    meter: Rc<Meter>,
    batch: Vec<Stream>,
    /// Requests whose message is not complete yet. The connection polls them itself. A task with a
    /// timer for each would cost more than the answer does: where an eighth of the messages came in
    /// two reads, there were 3 % fewer checks per second (November 2026).
    unfinished: Vec<Receiving>,
    /// Fires when the first request in `unfinished` has waited for [`super::message::GRACE`].
    grace_timer: Option<Pin<Box<Sleep>>>,
    /// The waker that `h2` has got. It wakes the task that serves this connection.
    waker: Option<Arc<MutedWaker>>,
    /// How long the answers of the last turn took.
    worked: Duration,
    /// Incremented for each stream that was reset before it was read, decremented for every other
    /// stream, never below 0.
    excess_resets: usize,
    /// If `excess_resets` exceeds this, the peer does nothing but open and reset streams ("rapid
    /// reset", CVE-2023-44487), and the connection is closed with ENHANCE_YOUR_CALM. The limit of
    /// `h2` does not suffice: it counts only streams that wait to be accepted, and a peer that
    /// resets them slightly slower than they are accepted stays below it.
    max_excess_resets: usize,
    draining: bool,
    age: Age,
    /// The deadline of a request head that has begun.
    head_timer: Option<Pin<Box<Sleep>>>,
}

/// How a turn ended, if the connection does not wait for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnEnd {
    /// The connection needs another turn.
    Queue,
    /// The connection has ended.
    Closed,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<I> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        if std::mem::take(&mut self.worked) >= LONG_TURN {
            return Poll::Ready(TurnEnd::Queue);
        }
        self.meter.begin_turn();
        let waker = self.waker.take().filter(|waker| waker.task.will_wake(cx.waker()));
        let waker = waker.unwrap_or_else(|| MutedWaker::new(cx.waker().clone()));
        let h2_waker = Waker::from(Arc::clone(self.waker.insert(waker)));
        let end = self.turn(&mut Context::from_waker(&h2_waker));
        // `h2` resets malformed streams by itself and reports no error. The meter finds the resets
        // in what `h2` writes.
        for _ in 0..self.meter.take_invalid_streams() {
            self.report(WrongProtocol::InvalidHttp2);
        }
        if end.is_pending() {
            self.spawn_slow(cx);
            self.poll_half_head(cx)
        } else {
            end
        }
    }

    /// Reads requests, answers them and writes the answers, until there is nothing to read or the
    /// turn is used up.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        match self.registered.mode(cx) {
            Mode::Close => return Poll::Ready(TurnEnd::Closed),
            Mode::Drain => self.drain(),
            Mode::Serve if !self.draining && self.age.is_over(cx) => self.drain(),
            Mode::Serve => {}
        }
        let (excess_resets, mut has_requests) = (self.excess_resets, false);
        loop {
            let is_open = self.collect(cx);
            let completed = self.completed();
            if self.batch.is_empty() && completed.is_empty() {
                if !is_open {
                    return Poll::Ready(TurnEnd::Closed);
                }
                break;
            }
            has_requests = true;
            self.answer(completed);
        }
        // A stream that was reset takes much memory for few bytes (rapid reset), so after a turn of
        // mostly resets the next turn is short. After a turn with requests the next is longer,
        // which saves system calls.
        if self.excess_resets > excess_resets {
            self.meter.shorten_turns();
        } else if has_requests {
            self.meter.lengthen_turns();
        }
        if self.meter.is_used_up() { Poll::Ready(TurnEnd::Queue) } else { Poll::Pending }
    }

    /// Asks the peer to send its next requests on another connection. Requests that it has sent
    /// already are still answered.
    fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.h2.graceful_shutdown();
        }
    }

    /// Reads up to [`BATCH`] requests and writes pending output. Returns whether the connection is
    /// still open.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        while self.batch.len() < BATCH {
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok(stream))) => self.batch.push(stream),
                Poll::Ready(Some(Err(error))) => {
                    // `is_library`: `h2` has found the error in the bytes of the peer. If the
                    // reason is ENHANCE_YOUR_CALM, the bytes are valid HTTP/2, but exceed a limit.
                    if error.is_library() && error.reason() != Some(Reason::ENHANCE_YOUR_CALM) {
                        self.report(WrongProtocol::InvalidHttp2);
                    }
                    return false;
                }
                Poll::Ready(None) => return false,
                Poll::Pending => break,
            }
        }
        true
    }

    /// The unfinished requests whose message is complete by now.
    fn completed(&mut self) -> Vec<(Receiving, Result<Bytes, Failure>)> {
        let mut completed = Vec::new();
        let mut index = 0;
        while let Some(request) = self.unfinished.get_mut(index) {
            // It needs no waker: the message can be complete only after this connection has read.
            match request.poll() {
                Poll::Ready(message) => {
                    completed.push((self.unfinished.swap_remove(index), message))
                }
                Poll::Pending => index += 1,
            }
        }
        completed
    }

    /// Gives a task to each unfinished request that has waited for [`super::message::GRACE`].
    fn spawn_slow(&mut self, cx: &mut Context<'_>) {
        while let Some(next) = self.unfinished.iter().map(|request| request.until).min() {
            let timer = self.grace_timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.grace_timer = None;
            let now = Instant::now();
            self.unfinished
                .extract_if(.., |request| request.until <= now)
                .for_each(Receiving::spawn);
        }
    }

    /// Answers the requests of the batch, and the completed requests. The answers are written when
    /// `h2` is polled next, which `turn` does at once.
    fn answer(&mut self, completed: Vec<(Receiving, Result<Bytes, Failure>)>) {
        let received = Received::now();
        self.mute(true);
        self.registered.record_request(received.arrived);
        for (request, message) in completed {
            request.answer(message, received);
        }
        for stream in self.batch.drain(..) {
            match exchange::accept(&self.context, &self.registered, self.peer, stream, received) {
                Ok(unfinished) => {
                    self.excess_resets = self.excess_resets.saturating_sub(1);
                    match unfinished {
                        Some(request)
                            if self.unfinished.len() < MAX_UNFINISHED && request.may_wait() =>
                        {
                            self.unfinished.push(request);
                        }
                        Some(request) => request.spawn(),
                        None => {}
                    }
                }
                Err(_reset) => self.excess_resets += 1,
            }
        }
        if self.excess_resets > self.max_excess_resets {
            self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        // `None`: there were no verdicts. The answers, such as errors, took time all the same.
        let latency = self.context.checker.record_latency(received);
        self.worked += latency.unwrap_or_else(|| received.arrived.elapsed());
        self.mute(false);
    }

    fn mute(&self, is_muted: bool) {
        if let Some(waker) = &self.waker {
            waker.is_muted.store(is_muted, SeqCst);
        }
    }

    /// Ends the connection if the head of a request has not ended in the time that a request may
    /// take.
    fn poll_half_head(&mut self, cx: &mut Context<'_>) -> Poll<TurnEnd> {
        let since = self.meter.half_head_since();
        self.registered.set_half_head(since.is_some());
        let Some(since) = since else {
            self.head_timer = None;
            return Poll::Pending;
        };
        let deadline = Instant::from_std(since) + self.context.shared.options.request_timeout;
        self.head_timer.take_if(|timer| timer.deadline() != deadline);
        let timer = self.head_timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(cx).map(|()| {
            // A connection that is closed for its slow head counts as evicted.
            self.registered.count_eviction();
            TurnEnd::Closed
        })
    }

    fn report(&self, wrong: WrongProtocol) {
        self.context.shared.wrong_protocols.report(wrong, self.peer, None);
    }
}

/// The waker that a connection gives to `h2`. `h2` calls it whenever a stream has something to
/// send, also while the connection answers requests. After its answers the connection polls `h2`
/// anyway, so the waker is muted while it answers. This saves a poll. Muting loses no other event,
/// because all events come from this thread.
#[derive(Debug)]
struct MutedWaker {
    task: Waker,
    is_muted: AtomicBool,
}

impl MutedWaker {
    fn new(task: Waker) -> Arc<Self> {
        Arc::new(Self { task, is_muted: AtomicBool::new(false) })
    }
}

impl Wake for MutedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_muted.load(SeqCst) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_get_fewer_streams_each() {
        let options = Options { threads: 2, ..Options::default() };
        assert_eq!(streams(&options, 0), 768);
        assert_eq!(streams(&options, 1), 384);
        assert_eq!(streams(&options, 49), 15);
        assert_eq!(streams(&options, 511), 4);
        let all: u32 = (0..512).map(|connections| 2 * streams(&options, connections)).sum();
        assert!(all < 12_000, "{all}");
        assert_eq!(streams(&Options { threads: 1, ..options }, 0), 1024);
    }
}
