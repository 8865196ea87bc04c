//! One HTTP/2 connection: its limits, and the loop that reads and answers requests.
//!
//! A connection reads for at most one *time slice* (200 µs or [`BATCH`] requests; see `slices`) before others of its worker
//! get their turn. In a slice it goes through *rounds*: it reads what has arrived, up to 64 KiB, answers the requests in it
//! in *batches* of at most [`BATCH`], and sends the answers of a batch in one write.
//!
//! A request that can be answered at once, as nearly every one can, needs neither a task nor a channel. `h2` is
//! used directly, not through hyper: 412,000 instead of 365,000 checks per second per core, in a measurement of the
//! transport alone, which decoded no messages (August 2026).

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use h2::server;
use runtime::Received;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep, timeout};

use super::age::Age;
use super::context::ExchangeContext;
use super::exchange::{self, Accepted, Stream};
use super::muted_waker::MutedWaker;
use super::options::Options;
use super::registry::{Mode, RegisteredConnection};
use super::respond::StreamState;
use super::slices::{Slice, Sliced};
use super::unfinished::Unfinished;
use super::wrong_protocol::{Peer, WrongProtocol};

/// Maximum number of requests that are answered together. After so many a time slice also ends: no more is read from the
/// socket, but what was read is still answered. A larger batch saves system calls; in a smaller one the first request waits
/// less. Chosen, not measured: at a few microseconds each (November 2026; `make bench BENCH=wire`), 64 take about as long as a slice.
const BATCH: usize = 64;
/// HTTP/2 flow-control window of a connection, in bytes: four messages of 250 KB, or thousands of small ones. It limits
/// the memory that unfinished messages of one connection occupy. Chosen, not measured.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// HTTP/2 flow-control window of a stream, in bytes. A usual message, some hundred bytes to a few kilobytes, arrives
/// without a WINDOW_UPDATE, and so does one with 250 KB of a body. Chosen, not measured.
const STREAM_WINDOW: u32 = 256 << 10;
/// The n-th connection of a worker may have `STREAMS_DIVIDEND / (n × workers)` concurrent streams, but at least
/// `MIN_STREAMS` and at most `max_concurrent_streams`. That is far more than Envoy needs: at one millisecond per answer, ten streams carry 10,000 checks per
/// second, and Envoy opens another connection when one is full.
///
/// It bounds the memory that hostile peers can occupy. An answer that the peer does not read, or opens no window
/// for, takes 3.4 KiB until its connection is closed (November 2026, with `policies/people`; a policy whose answers are
/// longer than some hundred bytes adds their length). With the default of 1,024 connections there are fewer than 12,000
/// streams: 40 MiB at most, in addition to the connections themselves. With a `STREAMS_DIVIDEND` eight times as
/// high, 20 connections were enough to hold 68 MiB. Division by n² instead of n would leave the hundredth connection of a service that many Envoys
/// share hardly any streams.
const STREAMS_DIVIDEND: usize = 1536;
/// Minimum number of concurrent streams per connection. Chosen, not measured: each stream can hold memory, and there
/// can be thousands of connections; but with one stream, a slow check would delay all others of its connection.
const MIN_STREAMS: u32 = 4;
/// Minimum size of a burst of resets: so many streams (and a quarter more) may a peer open and reset before they are accepted
/// (RFC 9113, 5.1.2), even if fewer may be open at once. If many downstream clients of
/// one Envoy leave together, Envoy resets their streams. That must not close the connection, which also carries the checks
/// of all others. Envoy has at most 1,024 requests in flight unless its circuit breakers are configured.
const MIN_RESETS: usize = 1 << 10;
/// Number of bursts of resets that a connection may have. A burst resets all streams that the peer may reset at once. A
/// connection is closed when its reset streams exceed its answered ones by more than this many bursts, and `h2`
/// remembers as many reset streams. Chosen, not measured.
const RESET_BURSTS: usize = 4;
/// Maximum size of a stream's header list, in bytes. The headers of the HTTP request to be authorized are inside the message,
/// but an Envoy that records spans adds the `tracestate` of its client to the call, which may be as long as Envoy permits
/// headers to be (`max_request_headers_kb`: 60 by default, 96 in our configurations). `h2` answers a longer list with 431
/// itself. That is an error and no decision, which an Envoy with `failure_mode_allow` takes for a pass. So no client may
/// bring it about. The headers are dropped when the stream is accepted; of them a check that waits keeps a short `traceparent` alone.
const HEADER_LIST: u32 = 128 << 10;
/// So many connections may be within the head of a request that takes several frames. Each may take 300 KiB then: of the fields of a
/// head each counts as its length and 32 bytes, and takes 72 bytes more than its length. Heads that are so long are sent as a whole.
const MAX_HALF_HEADS: usize = 64;
/// Bytes per stream for which `h2` grants send capacity. It limits answers of health checks and reflection, which ask
/// for capacity before they send. Answers to checks do not, so that they leave in one write: `check` limits their size.
const SEND_BUFFER: usize = 64 << 10;
/// Number of the peer's protocol errors on a connection that are answered with a stream reset; one more closes the connection. This
/// is the default of `h2`. It is set explicitly because the limit is optional: a tonic server has none.
const LOCAL_ERROR_RESETS: usize = 1024;

/// Serves a connection until it ends.
pub(super) async fn serve<I>(
    context: Rc<ExchangeContext>,
    registered: RegisteredConnection,
    io: I,
    peer: Peer,
    age: Age,
) where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let streams = streams(&context.options, registered.other_connections());
    let burst = usize::try_from(streams).unwrap_or(usize::MAX).max(MIN_RESETS);
    let http2 = http2_builder(streams, burst);
    let slice = Rc::<Slice>::default();
    let io = Sliced::new(io, Rc::clone(&slice));
    let handshake = async {
        context.slices.wait_for_turn(&slice).await;
        timeout(context.options.request_timeout, http2.handshake(io)).await
    };
    let h2 = tokio::select! {
        h2 = handshake => h2,
        () = registered.closed() => return,
    };
    match h2 {
        Ok(Ok(h2)) => {
            let mut connection = Connection {
                context,
                registered,
                peer,
                h2,
                slice,
                batch: Vec::new(),
                unfinished: Unfinished::default(),
                waker: None,
                accepted: 0,
                excess_resets: 0,
                max_excess_resets: burst.saturating_mul(RESET_BURSTS),
                draining: false,
                age,
                half_head: None,
            };
            poll_fn(|cx| connection.poll(cx)).await;
            connection.unfinished.spawn_all();
        }
        Ok(Err(_)) => {
            if let Some(wrong) = WrongProtocol::of_first_bytes(&slice.first_bytes()) {
                context.wrong_protocols.notice(wrong, peer, None);
            }
        }
        // No warning: a peer that has sent nothing has used no wrong protocol, and wrong bytes fail the handshake.
        Err(_elapsed) => {}
    }
}

/// Maximum concurrent streams of a worker's next connection; `connections` are open already. The first ones get most,
/// because Envoy opens few. Each further one gets fewer (see [`STREAMS_DIVIDEND`]), because the memory that an attacker
/// can occupy grows with streams × connections.
fn streams(options: &Options, connections: usize) -> u32 {
    let number = connections.saturating_add(1);
    let divisor = number.saturating_mul(options.threads.max(1));
    let share = u32::try_from(STREAMS_DIVIDEND / divisor).unwrap_or(u32::MAX);
    options.max_concurrent_streams.min(share.max(MIN_STREAMS))
}

/// How many connections of a worker may be within the head of a request.
pub(super) fn max_half_heads(options: &Options) -> usize {
    (MAX_HALF_HEADS / options.threads.max(1)).max(2)
}

fn http2_builder(streams: u32, burst: usize) -> server::Builder {
    let mut http2 = server::Builder::new();
    http2
        .max_concurrent_streams(streams)
        // If more reset streams wait to be accepted, `h2` closes the connection. It must allow that a peer cancels
        // all its requests again and again, as Envoy does on timeouts: all streams at once, and a quarter of them again
        // before the first were accepted. Each such stream takes some hundred bytes.
        .max_pending_accept_reset_streams(burst + burst / 4)
        // The number of streams reset by this side that `h2` remembers. Frames that still arrive for one of them are
        // ignored; a frame for a stream that `h2` has forgotten would close the connection.
        .max_concurrent_reset_streams(burst.saturating_mul(RESET_BURSTS))
        .max_local_error_reset_streams(Some(LOCAL_ERROR_RESETS))
        .max_header_list_size(HEADER_LIST)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER);
    http2
}

struct Connection<I> {
    context: Rc<ExchangeContext>,
    registered: RegisteredConnection,
    peer: Peer,
    h2: server::Connection<Sliced<I>, Bytes>,
    slice: Rc<Slice>,
    batch: Vec<Stream>,
    unfinished: Unfinished,
    /// The waker of the task that serves this connection, as `h2` knows it.
    waker: Option<MutedWaker>,
    /// Requests that were read or became complete in the current time slice.
    accepted: usize,
    /// Incremented for each stream that was reset before it was read, decremented for every other one, never below 0.
    excess_resets: usize,
    /// If `excess_resets` exceeds this, the connection is closed with ENHANCE_YOUR_CALM, because the peer does nothing but
    /// open and reset streams ("rapid reset", CVE-2023-44487). The limit of `h2` does not suffice: it counts only
    /// streams that wait to be accepted, and a peer that resets them slightly slower than they are accepted stays
    /// below it.
    max_excess_resets: usize,
    draining: bool,
    age: Age,
    /// The number of the head of a request that has not ended, and when it must have.
    half_head: Option<(u64, Pin<Box<Sleep>>)>,
}

/// How a round of reading and answering ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Everything that had arrived was read.
    AllRead,
    /// The limit of a round (bytes read, see `slices`) was reached: there may be more to read.
    LimitReached,
    /// The connection has ended.
    Closed,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<I> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.slice.begin() {
            self.accepted = 0;
        }
        let waker = self.waker.take().filter(|waker| waker.wakes(cx.waker()));
        let waker = self.waker.insert(waker.unwrap_or_else(|| MutedWaker::new(cx.waker().clone()))).waker();
        let state = self.rounds(&mut Context::from_waker(&waker));
        for _ in 0..self.slice.take_invalid_streams() {
            self.context.wrong_protocols.notice(WrongProtocol::InvalidHttp2, self.peer, None);
        }
        if state.is_pending() {
            self.unfinished.expire(cx);
            return self.wait_for_head(cx);
        }
        state
    }

    /// Ready if the head of a request has not ended in the time that a request may take.
    fn wait_for_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let open = self.slice.half_head();
        self.registered.set_half_head(open.is_some());
        self.half_head.take_if(|(number, _)| Some(*number) != open);
        let Some(number) = open else { return Poll::Pending };
        let limit = self.context.options.request_timeout;
        let (_, timer) = self.half_head.get_or_insert_with(|| (number, Box::pin(sleep(limit))));
        timer.as_mut().poll(cx).map(|()| self.registered.count_eviction())
    }

    /// Reads and answers until there is nothing to read, the slice is used up, or the connection has ended.
    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.registered.mode(cx) {
                Mode::Close => return Poll::Ready(()),
                Mode::Drain => self.drain(),
                Mode::Serve if !self.draining && self.age.is_over(cx) => self.drain(),
                Mode::Serve => {}
            }
            match self.round(cx) {
                Round::Closed => return Poll::Ready(()),
                _ if self.slice.is_used_up() => {
                    self.context.slices.wait(&self.slice, cx);
                    return Poll::Pending;
                }
                Round::LimitReached => {}
                Round::AllRead => return Poll::Pending,
            }
        }
    }

    /// Asks the peer to send its next requests on another connection. Those that it has sent are still answered.
    fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.h2.graceful_shutdown();
        }
    }

    /// Reads requests up to the limit of a round, answers them and writes the answers. When the slice is used up, no more
    /// is read, but everything that has been read is still answered and written.
    fn round(&mut self, cx: &mut Context<'_>) -> Round {
        let (accepted, excess_resets) = (self.accepted, self.excess_resets);
        self.slice.begin_round();
        let open = loop {
            let open = self.collect(cx);
            let answered = self.answer(cx);
            if answered == 0 {
                break open;
            }
            self.accepted += answered;
            if self.accepted >= BATCH {
                self.slice.use_up();
            }
        };
        let limit_reached = self.slice.is_round_full();
        // A stream that was reset takes much memory for few bytes (rapid reset), so after a round of mostly resets the
        // next one is short. After one with requests the next is longer, which saves system calls.
        if self.excess_resets > excess_resets {
            self.slice.shorten_rounds();
        } else if self.accepted > accepted {
            self.slice.lengthen_rounds();
        }
        match (open, limit_reached) {
            (false, _) => Round::Closed,
            (true, true) => Round::LimitReached,
            (true, false) => Round::AllRead,
        }
    }

    /// Reads up to [`BATCH`] requests and writes pending output. Returns whether the connection is still open.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        while self.batch.len() < BATCH {
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok(stream))) => self.batch.push(stream),
                Poll::Ready(Some(Err(error))) => {
                    if error.is_library() && error.reason() != Some(Reason::ENHANCE_YOUR_CALM) {
                        self.context.wrong_protocols.notice(WrongProtocol::InvalidHttp2, self.peer, None);
                    }
                    return false;
                }
                Poll::Ready(None) => return false,
                Poll::Pending => break,
            }
        }
        true
    }

    /// Answers the requests of the batch, and those whose message has become complete. Returns their number.
    fn answer(&mut self, cx: &mut Context<'_>) -> usize {
        if self.batch.is_empty() && self.unfinished.is_empty() {
            return 0;
        }
        let received = Received::now();
        if let Some(waker) = &self.waker {
            waker.mute();
        }
        let answered = self.unfinished.answer(received) + self.batch.len();
        if !self.batch.is_empty() {
            self.registered.record_request(received.at);
        }
        for stream in self.batch.drain(..) {
            match exchange::accept(&self.context, &self.registered, self.peer, stream, received, cx) {
                Accepted::Done(StreamState::NotReset) => {
                    self.excess_resets = self.excess_resets.saturating_sub(1);
                }
                Accepted::Receiving(request) => {
                    self.excess_resets = self.excess_resets.saturating_sub(1);
                    self.unfinished.add(request);
                }
                Accepted::Done(StreamState::Reset) => self.excess_resets += 1,
            }
        }
        if self.excess_resets > self.max_excess_resets {
            self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        let latency = self.context.checker.record_latency(received);
        self.slice.has_worked(latency.unwrap_or_else(|| received.at.elapsed()));
        if let Some(waker) = &self.waker {
            // What was answered is written when `h2` is polled next, which `round` does at once. If nothing was, `h2` may have a
            // window to reopen.
            waker.unmute(answered == 0);
        }
        answered
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
        assert_eq!(streams(&Options { max_concurrent_streams: 10, ..options }, 0), 10);
    }
}
