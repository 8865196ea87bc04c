//! The part of a policy that a worker thread of Envoy uses to authorize requests.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use authorizer::{
    Authorizer, Cluster, Header, Limit, Outcome, Request, RequestBody, Scratch, Verdict,
};
use identity::{Certificate, Verification, VerificationResult};
use runtime::counters::{ErrorKind, ThreadCounters};
use runtime::{DecisionContext, Received, ThreadAuthorizer, Via};
use smallvec::SmallVec;

use crate::abi::{Filter, Headers, Stream};
use crate::owned_verdict::OwnedVerdict;
use crate::shared_policy::SharedPolicy;
use crate::stats::GAUGE_INTERVAL;
use crate::token_queue::TokenQueue;

/// The part of a shared policy that belongs to a thread.
pub(crate) struct Worker {
    pub(crate) thread: ThreadAuthorizer,
    pub(crate) tokens: Rc<TokenQueue>,
    /// The buffers of the verdict about the last request, for the next request.
    buffers: Cell<Option<Box<OwnedVerdict>>>,
    /// The largest body that is read, in bytes.
    pub(crate) max_request_body: usize,
    /// Whether requests get dynamic metadata.
    pub(crate) metadata: bool,
    policy: Weak<SharedPolicy>,
    /// A body that Envoy has in several pieces.
    body: RefCell<Vec<u8>>,
    /// When the gauges are set again.
    next_gauges: Cell<Option<Instant>>,
}

/// The result of [`Worker::check`].
#[derive(Debug)]
pub(crate) enum Checked {
    /// The request is allowed or denied.
    Decided(Decided),
    /// The credentials must be verified first.
    Pending(Verification),
    /// The caller is authenticated, and the decision depends on the body, which has not arrived as
    /// a whole or is too large.
    BodyNeeded,
}

/// A verdict, and when the request was decided.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) verdict: Box<OwnedVerdict>,
    pub(crate) decided_at: Instant,
}

/// Maximum number of header lines that are read, as by `rolegate serve`. Envoy accepts 100 by
/// default.
const MAX_HEADERS: usize = 10_000;

/// Maximum capacity for copies of bodies that is kept for the next body, in bytes. Most bulk
/// requests are smaller.
const MAX_KEPT: usize = 1 << 20;

/// The header lines of a request. Up to 48 are on the stack.
type Lines<'a> = SmallVec<[Header<'a>; 48]>;

thread_local! {
    /// The workers of this thread, one per policy.
    static WORKERS: RefCell<Vec<Rc<Worker>>> = const { RefCell::new(Vec::new()) };
}

impl Worker {
    /// The worker of this policy on the calling thread, made on first use.
    pub(crate) fn get_or_create(policy: &Arc<SharedPolicy>) -> Rc<Self> {
        WORKERS.with_borrow_mut(|workers| {
            if workers.len() > 1 {
                workers.retain(|worker| worker.policy.strong_count() > 0);
            }
            let mut existing = workers.iter();
            if let Some(worker) =
                existing.find(|worker| worker.policy.as_ptr() == Arc::as_ptr(policy))
            {
                return Rc::clone(worker);
            }
            let worker = Self::new(policy);
            workers.push(Rc::clone(&worker));
            worker
        })
    }

    /// A worker for the calling thread.
    // Not inlined: its object of 4 KiB would be on the stack of each call.
    #[cold]
    #[inline(never)]
    fn new(policy: &Arc<SharedPolicy>) -> Rc<Self> {
        let counters = Arc::<ThreadCounters>::default();
        policy
            .thread_counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&counters));
        let thread = ThreadAuthorizer::new(policy.active.clone(), counters);
        Rc::new(Self {
            thread,
            tokens: Rc::default(),
            buffers: Cell::default(),
            max_request_body: policy.settings.max_request_body,
            metadata: policy.settings.metadata,
            policy: Arc::downgrade(policy),
            body: RefCell::default(),
            next_gauges: Cell::default(),
        })
    }

    /// The policy, for a request that must wait. `None` if nothing uses the policy any more.
    ///
    /// A request that does not wait holds no reference to the policy. Otherwise all threads would
    /// write to the same reference count for each request.
    pub(crate) fn policy(&self) -> Option<Arc<SharedPolicy>> {
        self.policy.upgrade()
    }

    /// Whether this thread must set the gauges now. Schedules the next time.
    pub(crate) fn take_due_gauges(&self, now: Instant) -> bool {
        let is_due = self.next_gauges.get().is_none_or(|next| now >= next);
        if is_due {
            self.next_gauges.set(Some(now + GAUGE_INTERVAL));
        }
        is_due
    }

    /// Makes the gauges due again soon, because another thread was changing the policies or some of
    /// the values. They are not due with the very next request, because each attempt allocates.
    pub(crate) fn retry_gauges(&self, now: Instant) {
        self.next_gauges.set(Some(now + GAUGE_INTERVAL / 10));
    }

    /// Authorizes a request with the active snapshot. A body over [`Self::max_request_body`] is not
    /// read.
    ///
    /// # Errors
    /// If no decision can be made: the request is then answered with 503, and counted as an error.
    pub(crate) fn check<F: Filter>(
        &self,
        stream: &Stream<'_, F>,
        verified: Option<&VerificationResult>,
        received: Received,
    ) -> Result<Checked, ErrorKind> {
        self.thread.with_snapshot(|authorizer, scratch| {
            let (mut headers, mut lines) = (Headers::default(), Lines::new());
            stream.read_headers(&mut headers);
            let mut request = read(&headers, &mut lines);
            let has_shadow = self.thread.has_shadow();
            // An `Unavailable` body is not read: the bytes after an upgrade are no body, even if
            // the stream has ended.
            let reads_body = (authorizer.cluster().is_some() || has_shadow)
                && request.body == RequestBody::Pending
                && stream.is_complete()
                && stream.body_size() <= self.max_request_body;
            let mut copy = reads_body.then(|| self.body.borrow_mut());
            if let Some(copy) = &mut copy {
                request.body = RequestBody::Whole(stream.body(copy));
            }
            if has_shadow || authorizer.cluster().is_some_and(Cluster::reads_client) {
                request.client = client(stream);
            }
            if has_shadow || authorizer.reads_certificates() {
                request.peer = without_port(stream.direct_address().unwrap_or_default());
                request.certificate = certificate(stream);
            }
            let too_many = headers.iter().len() > MAX_HEADERS;
            let outcome = if too_many {
                Outcome::Decided(authorizer.deny_over_limit(&request, Limit::HeaderLines, scratch))
            } else {
                authorizer.check(&request, verified, scratch, received.resumed_time)
            };
            let checked = match outcome {
                Outcome::Pending(verification) => Checked::Pending(verification),
                Outcome::Decided(verdict)
                    if request.body == RequestBody::Pending && verdict.needs_body() =>
                {
                    Checked::BodyNeeded
                }
                Outcome::Decided(verdict) => {
                    let decided_at = Instant::now();
                    self.thread
                        .counters()
                        .record_evaluation(decided_at.saturating_duration_since(received.resumed));
                    let verdict =
                        self.record(&verdict, authorizer, &request, stream, received, decided_at);
                    Checked::Decided(Decided { verdict, decided_at })
                }
            };
            if let Some(mut copy) = copy.filter(|copy| copy.capacity() > MAX_KEPT) {
                *copy = Vec::new();
            }
            Ok(checked)
        })
    }

    /// Denies a request that exceeds a limit.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn deny<F: Filter>(
        &self,
        limit: Limit,
        stream: &Stream<'_, F>,
        received: Received,
    ) -> Result<Decided, ErrorKind> {
        self.thread.with_snapshot(|authorizer: &Authorizer, scratch: &mut Scratch| {
            let (mut headers, mut lines) = (Headers::default(), Lines::new());
            stream.read_headers(&mut headers);
            let mut request = read(&headers, &mut lines);
            if self.thread.has_shadow() {
                request.client = client(stream);
            }
            let verdict = authorizer.deny_over_limit(&request, limit, scratch);
            let decided_at = Instant::now();
            let verdict = self.record(&verdict, authorizer, &request, stream, received, decided_at);
            Ok(Decided { verdict, decided_at })
        })
    }

    /// Keeps the buffers of an applied verdict, so that the next request uses them.
    pub(crate) fn reuse(&self, verdict: Box<OwnedVerdict>) {
        self.buffers.set(Some(verdict));
    }

    /// Counts a verdict and offers it to the decision log. Returns a copy.
    fn record<F: Filter>(
        &self,
        verdict: &Verdict<'_>,
        authorizer: &Authorizer,
        request: &Request<'_>,
        stream: &Stream<'_, F>,
        received: Received,
        decided_at: Instant,
    ) -> Box<OwnedVerdict> {
        // This request takes the buffers, and does not share them. While Envoy sends its answer,
        // other filters may begin a new stream on this thread, which would write to them.
        let mut copy = self.buffers.take().unwrap_or_default();
        copy.set(verdict, self.metadata.then_some(&*authorizer.revision().policy));
        let client = if self.thread.logs(verdict) { client(stream) } else { &[] };
        let context = DecisionContext {
            authorizer,
            request,
            client,
            received,
            decided_at,
            traceparent: &[],
            // It also stands for requests inside Envoy.
            via: Via::Grpc,
        };
        self.thread.record(verdict, context);
        copy
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// The client's address without its port; empty if the client has no address (a Unix socket).
pub(crate) fn client<'s, F: Filter>(stream: &'s Stream<'_, F>) -> &'s [u8] {
    without_port(stream.source_address().unwrap_or_default())
}

/// The names of the client's certificate that Envoy tells a module.
fn certificate<'s, F: Filter>(stream: &'s Stream<'_, F>) -> Option<Certificate<'s>> {
    let [uri, dns] = stream.certificate_names();
    let has_name = uri.is_some() || dns.is_some();
    has_name.then(|| Certificate::FirstNames {
        uri: uri.unwrap_or_default(),
        dns: dns.unwrap_or_default(),
    })
}

fn without_port(address: &[u8]) -> &[u8] {
    let Some(colon) = address.iter().rposition(|byte| *byte == b':') else { return address };
    let (host, _) = address.split_at_checked(colon).unwrap_or((address, &[]));
    host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
}

/// The request of these headers. Its body can be buffered unless it upgrades to another protocol:
/// then the bytes that follow are no body, and may never end. Envoy passes repeated headers as
/// separate lines.
fn read<'a, 'l>(headers: &Headers<'a>, lines: &'l mut Lines<'a>) -> Request<'l>
where
    'a: 'l,
{
    let (mut method, mut path, mut host, mut id) = (&[][..], &[][..], &[][..], &[][..]);
    let mut body = RequestBody::Pending;
    lines.reserve(headers.iter().len());
    for (name, value) in headers.iter() {
        match name {
            b":method" => method = value,
            b":path" => path = value,
            b":authority" => host = value,
            b"x-request-id" => id = value,
            b"upgrade" | b":protocol" => body = RequestBody::Unavailable,
            _ => {}
        }
        lines.push(Header { name, value });
    }
    if method == b"CONNECT" {
        body = RequestBody::Unavailable;
    }
    Request {
        method,
        host,
        path,
        headers: lines,
        id,
        body,
        can_change_bodies: true,
        sets_headers_only: false,
        ..Request::default()
    }
}
