//! The shadow policy: a candidate that decides requests as well, so that it can be compared with
//! the active policy before it replaces it.
//!
//! A worker thread copies a decided request into a bounded queue; a thread of the lowest priority
//! compares. So a candidate neither changes nor delays an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use std::{fmt, io, thread};

use arc_swap::ArcSwapOption;
use authorizer::{Authorizer, Scratch, Verdict};

use crate::decisions::Masks;
use crate::record::DecisionContext;
use crate::status::Status;
use crate::threads::{Priority, catch, spawn};

mod decided;
mod samples;

use decided::{DecidedRequest, Difference};
use samples::Samples;

/// Maximum bytes of all requests in the queue.
const MAX_BYTES: usize = 4 << 20;
/// Slots of the queue, allocated at the start.
const SLOTS: usize = 8192;
/// How long the thread sleeps once the queue is empty. A sender needs a system call to wake a
/// thread that waits for the queue, but none while the thread sleeps.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Shadow {
    queue: SyncSender<DecidedRequest>,
    /// Bytes that the requests in the queue take.
    waiting: Arc<AtomicUsize>,
    candidate: Arc<ArcSwapOption<Authorizer>>,
    stats: Arc<ShadowStats>,
}

impl Shadow {
    /// Starts the thread. It ends when this is dropped.
    pub(crate) fn start(
        candidate: Arc<ArcSwapOption<Authorizer>>,
        stats: Arc<ShadowStats>,
        masks: Arc<Masks>,
    ) -> io::Result<Self> {
        let (queue, requests) = sync_channel(SLOTS);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut comparison = Comparison {
            candidate: candidate.clone(),
            stats: stats.clone(),
            scratch: Scratch::default(),
            samples: Samples::new(masks),
        };
        let bytes = waiting.clone();
        spawn("shadow", Priority::Lowest, move || {
            consume(&requests, &bytes, |request| comparison.compare(request));
        })?;
        Ok(Self { queue, waiting, candidate, stats })
    }

    /// Queues a decided request, or drops it. It never blocks, and catches a panic. The candidate
    /// later decides as of the time at which the active policy did (`resumed_time`).
    pub(crate) fn offer(&self, verdict: &Verdict<'_>, context: &DecisionContext<'_>) {
        if self.waiting.load(Ordering::Relaxed) >= MAX_BYTES {
            return self.stats.count_dropped();
        }
        let DecisionContext { authorizer, request, received, .. } = context;
        let copy = catch("copying a request", || {
            let candidate = self.candidate.load();
            DecidedRequest::copy(
                authorizer,
                candidate.as_deref()?,
                request,
                verdict,
                received.resumed_time,
            )
        });
        match copy {
            Ok(Some(request)) => self.send(request),
            Ok(None) => self.stats.count(Difference::NotCompared),
            Err(_) => self.stats.count(Difference::Error),
        }
    }

    fn send(&self, request: DecidedRequest) {
        let size = request.size();
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > MAX_BYTES || self.queue.try_send(request).is_err() {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            self.stats.count_dropped();
        }
    }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// Passes on the requests of the queue, until its sender is dropped.
fn consume(
    requests: &Receiver<DecidedRequest>,
    waiting: &AtomicUsize,
    mut compare: impl FnMut(&DecidedRequest),
) {
    while let Ok(request) = requests.recv() {
        let mut next = Some(request);
        while let Some(request) = next {
            compare(&request);
            let size = request.size();
            drop(request);
            waiting.fetch_sub(size, Ordering::Relaxed);
            next = requests.try_recv().ok();
        }
        thread::sleep(PAUSE);
    }
}

/// How the decisions of a shadow policy compare with those of the active policy.
#[derive(Debug)]
pub struct ShadowStats {
    /// The status of the shadow policy and its keys.
    pub status: Arc<Status>,
    /// How many requests had each [`Difference`], in the order of its variants.
    compared: [AtomicU64; Self::RESULTS.len()],
    /// How many requests were dropped because the queue was full.
    dropped: AtomicU64,
}

impl ShadowStats {
    /// The names of all results.
    pub const RESULTS: [&'static str; 7] = Difference::NAMES;

    /// All counts are zero.
    #[must_use]
    pub fn new(status: Arc<Status>) -> Self {
        Self { status, compared: Default::default(), dropped: AtomicU64::default() }
    }

    /// The number of requests by result. Results without requests are listed, too.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.compared.iter().map(|count| count.load(Ordering::Relaxed));
        Self::RESULTS.into_iter().zip(counts)
    }

    /// The number of requests that were not compared because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn count(&self, difference: Difference) {
        if let Some(count) = self.compared.get(difference as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

struct Comparison {
    candidate: Arc<ArcSwapOption<Authorizer>>,
    stats: Arc<ShadowStats>,
    scratch: Scratch,
    samples: Samples,
}

impl Comparison {
    fn compare(&mut self, request: &DecidedRequest) {
        let Self { candidate, scratch, samples, stats } = self;
        let candidate = candidate.load();
        let Some(candidate) = candidate.as_deref() else {
            return stats.count(Difference::NotCompared);
        };
        let compare = || {
            request.compare(candidate, scratch, |difference, decision| {
                stats.count(difference);
                samples.offer(difference, request, decision, &candidate.revision().policy);
            });
        };
        if !contain(stats, compare) {
            // The panic may have left the buffers half changed.
            self.scratch = Scratch::default();
        }
    }
}

/// Runs `work`, and counts a panic. Returns whether `work` finished.
fn contain(stats: &ShadowStats, work: impl FnOnce()) -> bool {
    let finished = catch("comparing a request", work).is_ok();
    if !finished {
        stats.count(Difference::Error);
    }
    finished
}

#[cfg(test)]
mod tests;
