//! What one of Envoy's worker threads uses to authorize requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use authorizer::{Authorizer, Header, Limit, Outcome, Request, Scratch, Verdict};
use identity::{Verification, VerificationResult};
use runtime::counters::{ErrorKind, ThreadCounters};
use runtime::{DecisionContext, Received, WorkerThread};
use smallvec::SmallVec;

use crate::abi::Headers;
use crate::owned_verdict::OwnedVerdict;
use crate::shared_policy::SharedPolicy;
use crate::stats::GAUGE_INTERVAL;
use crate::token_queue::TokenQueue;

/// The part of a shared policy that belongs to one thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) thread: WorkerThread,
    pub(crate) tokens: Rc<TokenQueue>,
    /// The verdict about the current request.
    pub(crate) verdict: RefCell<OwnedVerdict>,
    /// When the gauges are set again.
    gauges: Cell<Option<Instant>>,
}

/// The result of [`Worker::check`].
#[derive(Debug)]
pub(crate) enum Checked {
    /// The request is allowed or denied: [`Worker::verdict`].
    Decided,
    /// The credentials must be verified first.
    Pending(Verification),
}

/// The most header lines that are read, as by `rolegate serve`. Envoy accepts 100 by default.
const MAX_HEADERS: usize = 10_000;

/// The header lines of a request. Up to 48 are on the stack.
type Lines<'a> = SmallVec<[Header<'a>; 48]>;

thread_local! {
    /// The workers of this thread, with their shared policies: mostly one.
    static WORKERS: RefCell<Vec<(Weak<SharedPolicy>, Rc<Worker>)>> = const { RefCell::new(Vec::new()) };
}

impl Worker {
    /// The worker of this policy on the calling thread, made on first use.
    pub(crate) fn of(policy: &Arc<SharedPolicy>) -> Rc<Self> {
        WORKERS.with_borrow_mut(|workers| {
            let found = workers.iter().find(|(of, _)| Weak::as_ptr(of) == Arc::as_ptr(policy));
            if let Some((_, worker)) = found {
                return Rc::clone(worker);
            }
            workers.retain(|(policy, _)| policy.strong_count() > 0);
            let counters = Arc::<ThreadCounters>::default();
            policy.threads.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
            let thread = WorkerThread::new(policy.active.clone(), counters);
            let worker = Rc::new(Self {
                thread,
                tokens: Rc::default(),
                verdict: RefCell::default(),
                gauges: Cell::default(),
            });
            workers.push((Arc::downgrade(policy), Rc::clone(&worker)));
            worker
        })
    }

    /// Whether this thread has not set the gauges for a while. Then it must do so.
    pub(crate) fn is_time_for_gauges(&self, now: Instant) -> bool {
        let due = self.gauges.get().is_none_or(|at| now >= at);
        if due {
            self.gauges.set(Some(now + GAUGE_INTERVAL));
        }
        due
    }

    /// Authorizes a request with the active snapshot. `client` is its address, as text, if it is needed.
    ///
    /// # Errors
    /// If no decision can be made: the request is then answered with 503, and counted as an error.
    pub(crate) fn check<'a>(
        &self,
        headers: &Headers<'a>,
        client: impl Fn() -> &'a [u8],
        verified: Option<&VerificationResult>,
        received: Received,
    ) -> Result<Checked, ErrorKind> {
        self.thread.with_snapshot(|authorizer, scratch| {
            let mut lines = Lines::new();
            let request = read(headers, &mut lines);
            let too_many = headers.iter().len() > MAX_HEADERS;
            let started = Instant::now();
            let outcome = if too_many {
                Outcome::Decided(authorizer.deny_over_limit(&request, Limit::HeaderLines, scratch))
            } else {
                authorizer.check(&request, verified, scratch, received.time)
            };
            match outcome {
                Outcome::Pending(verification) => Ok(Checked::Pending(verification)),
                Outcome::Decided(verdict) => {
                    if verdict.is_too_large() {
                        let verdict = authorizer.deny_over_limit(&request, Limit::ResponseSize, scratch);
                        self.record(&verdict, authorizer, &request, &client, received, Instant::now());
                        return Ok(Checked::Decided);
                    }
                    let decided_at = Instant::now();
                    self.thread.counters().evaluated(decided_at.saturating_duration_since(started));
                    self.record(&verdict, authorizer, &request, &client, received, decided_at);
                    Ok(Checked::Decided)
                }
            }
        })
    }

    /// Denies a request that exceeds a limit.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn deny<'a>(
        &self,
        limit: Limit,
        headers: &Headers<'a>,
        client: impl Fn() -> &'a [u8],
        received: Received,
    ) -> Result<(), ErrorKind> {
        self.thread.with_snapshot(|authorizer: &Authorizer, scratch: &mut Scratch| {
            let mut lines = Lines::new();
            let request = read(headers, &mut lines);
            let verdict = authorizer.deny_over_limit(&request, limit, scratch);
            self.record(&verdict, authorizer, &request, &client, received, Instant::now());
            Ok(())
        })
    }

    fn record<'a>(
        &self,
        verdict: &Verdict<'_>,
        authorizer: &Authorizer,
        request: &Request<'_>,
        client: &impl Fn() -> &'a [u8],
        received: Received,
        decided_at: Instant,
    ) {
        self.verdict.borrow_mut().set(verdict, request.headers, &authorizer.revision().policy);
        let client = if self.thread.logs(verdict) { client() } else { &[] };
        self.thread.record(verdict, DecisionContext { authorizer, request, client, received, decided_at });
    }
}

/// The request of these headers. Envoy passes repeated headers as separate lines.
fn read<'a, 'l>(headers: &Headers<'a>, lines: &'l mut Lines<'a>) -> Request<'l>
where
    'a: 'l,
{
    let (mut method, mut path, mut host, mut id) = (&[][..], &[][..], &[][..], &[][..]);
    for (name, value) in headers.iter() {
        match name {
            b":method" => method = value,
            b":path" => path = value,
            b":authority" => host = value,
            b"x-request-id" => id = value,
            _ => {}
        }
        lines.push(Header { name, value });
    }
    Request { method, host, path, headers: lines, id, ..Request::default() }
}
