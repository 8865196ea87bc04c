//! A thread of the generator: it connects, waits for the start, and keeps its slots filled with
//! requests until the end. A slot has one request at a time.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::http1::Http1;
use super::http2::Http2;
use super::pacer::{Pacer, RunLimits, Tick};
use super::socket::Traffic;
use crate::answer::{Answer, Fault, INVALID, NO_SOCKET, REFUSED, TIMEOUT, io_fault};
use crate::failed::Failed;
use crate::plan::{Plan, Protocol};
use crate::render::{PreparedRequest, Recipes, Rendered, RequestSequence};
use crate::results::RunResults;

pub(super) struct ThreadConfig {
    pub(super) plan: Plan,
    /// The number of the thread, from 0.
    pub(super) number: usize,
    pub(super) recipes: Arc<Recipes>,
    pub(super) results: Arc<Mutex<RunResults>>,
    pub(super) ready: mpsc::Sender<Result<(), Failed>>,
    /// Sent once all threads are ready.
    pub(super) limits: watch::Receiver<Option<Arc<RunLimits>>>,
}

enum Connection {
    /// HTTP/1.1: a single slot.
    Http1(Http1),
    /// HTTP/2: as many slots as streams.
    Http2(Rc<Http2>),
}

/// The state that the slots of a thread share.
struct Worker {
    plan: Plan,
    limits: Arc<RunLimits>,
    pacer: Pacer,
    requests: RefCell<RequestSequence>,
    results: Arc<Mutex<RunResults>>,
    traffic: Arc<Traffic>,
}

/// The resources that a thread has used so far.
#[derive(Clone, Copy)]
struct ThreadUsage {
    cpu: Duration,
    sent: u64,
    received: u64,
}

/// The interval at which a thread checks whether to stop, and tries to connect at the start.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a stopping thread waits for requests in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The delay after a request that could not be sent, so that a closed loop does not spend all its
/// time on connecting.
const BACKOFF: Duration = Duration::from_millis(20);

pub(super) fn work(config: ThreadConfig) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(work_async(config))
}

async fn work_async(mut config: ThreadConfig) -> io::Result<()> {
    let ThreadConfig { plan, number, .. } = &config;
    let traffic = Arc::new(Traffic::default());
    let deadline = Instant::now() + plan.wait;
    let mut connections = Vec::new();
    let mut ready = Ok(());
    for _ in (*number..plan.connections).step_by(plan.threads) {
        match open_connection(plan, &traffic, deadline).await {
            Ok(connection) => connections.push(connection),
            Err(failed) => {
                ready = Err(failed);
                break;
            }
        }
    }
    // If the receiver is gone, the run has already ended.
    let _ = config.ready.send(ready);
    let limits = config.limits.wait_for(Option::is_some).await.ok();
    let Some(limits) = limits.and_then(|limits| limits.clone()) else { return Ok(()) };
    let number = config.number as u64;
    let pacer = Pacer::new(Arc::clone(&limits), number, config.plan.threads as u64)?;
    let requests = RefCell::new(RequestSequence::new(config.recipes, config.plan.seed, number));
    let (plan, results) = (config.plan, config.results);
    let worker = Rc::new(Worker { plan, limits, pacer, requests, results, traffic });
    worker.run(connections).await;
    Ok(())
}

/// Opens a connection. Retries until the deadline if the server is not up yet.
async fn open_connection(
    plan: &Plan,
    traffic: &Arc<Traffic>,
    deadline: Instant,
) -> Result<Connection, Failed> {
    loop {
        let error = match timeout(plan.timeout, Connection::open(plan, traffic)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        if Instant::now() >= deadline || plan.stop.is_requested() {
            let (target, reason) = (plan.target.shown.clone(), error.to_string());
            return Err(Failed::Unreachable { target, reason });
        }
        sleep(POLL_INTERVAL).await;
    }
}

impl Connection {
    async fn open(plan: &Plan, traffic: &Arc<Traffic>) -> io::Result<Self> {
        let address = &plan.target.address;
        if plan.protocol == Protocol::Http1 {
            return Ok(Self::Http1(Http1::connect(address, traffic).await?));
        }
        let connection = Http2::new(address.clone(), Arc::clone(traffic));
        connection.connect().await?;
        Ok(Self::Http2(Rc::new(connection)))
    }
}

impl Worker {
    async fn run(self: Rc<Self>, connections: Vec<Connection>) {
        self.pacer.begin().await;
        let mut slots = JoinSet::new();
        for connection in connections {
            match connection {
                Connection::Http1(connection) => {
                    slots.spawn_local(Rc::clone(&self).http1(connection));
                }
                Connection::Http2(connection) => {
                    for _ in 0..self.plan.streams {
                        slots.spawn_local(Rc::clone(&self).http2(Rc::clone(&connection)));
                    }
                }
            }
        }
        let warm = self.limits.epoch + Duration::from_nanos(self.limits.warm);
        let traffic = Arc::clone(&self.traffic);
        let usage_when_warm = tokio::task::spawn_local(async move {
            sleep_until(warm.into()).await;
            ThreadUsage::now(&traffic)
        });
        let is_stopped = tokio::select! {
            () = join_all(&mut slots) => false,
            () = self.stop_requested() => true,
        };
        let end = self.limits.now();
        if is_stopped {
            self.pacer.close();
            // Requests without a response by then are in no count of the results.
            let _ = timeout(DRAIN_TIMEOUT, join_all(&mut slots)).await;
        }
        let usage = ThreadUsage::now(&self.traffic);
        let is_warm = usage_when_warm.is_finished();
        let earlier = if is_warm { usage_when_warm.await.unwrap_or(usage) } else { usage };
        let mut results = self.results();
        results.generator.cpu = usage.cpu.saturating_sub(earlier.cpu);
        results.generator.unsent = self.pacer.unsent(end);
        results.bytes_sent = usage.sent.saturating_sub(earlier.sent);
        results.bytes_received = usage.received.saturating_sub(earlier.received);
    }

    /// Waits until the run is asked to stop.
    async fn stop_requested(&self) {
        while !self.plan.stop.is_requested() {
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn http1(self: Rc<Self>, connection: Http1) {
        let mut connection = Some(connection);
        while let Some((tick, request, sent)) = self.next().await {
            let response = async {
                let Some(Rendered::Http1 { bytes, bodiless }) = &request.rendered else {
                    return Err(INVALID);
                };
                self.request_http1(&mut connection, bytes, *bodiless).await
            };
            let answer = timeout(self.plan.timeout, response).await.unwrap_or(Err(TIMEOUT));
            if answer.is_err() || connection.as_ref().is_some_and(|connection| !connection.open) {
                connection = None;
            }
            self.record(tick, sent, &request, answer).await;
        }
    }

    async fn request_http1(
        &self,
        connection: &mut Option<Http1>,
        bytes: &[u8],
        bodiless: bool,
    ) -> Result<Answer, Fault> {
        let connection = match connection {
            Some(connection) => connection,
            None => {
                let opened = Http1::connect(&self.plan.target.address, &self.traffic).await;
                connection.insert(opened.map_err(|error| io_fault(&error))?)
            }
        };
        connection.request(bytes, bodiless).await.map(Answer::Status)
    }

    async fn http2(self: Rc<Self>, connection: Rc<Http2>) {
        while let Some((tick, prepared, sent)) = self.next().await {
            let response = async {
                let Some(Rendered::Http2 { request, body }) = prepared.rendered.clone() else {
                    return Err(INVALID);
                };
                connection.connect().await.map_err(|error| io_fault(&error))?;
                match self.plan.protocol {
                    Protocol::Check => connection.check(request, body).await,
                    Protocol::Http1 | Protocol::Http2 => connection.request(request, body).await,
                }
            };
            let answer = timeout(self.plan.timeout, response).await.unwrap_or(Err(TIMEOUT));
            self.record(tick, sent, &prepared, answer).await;
        }
    }

    /// Waits until the next request is due. Returns its tick, the request, and the time at which it
    /// is sent, in nanoseconds since the start of the run. `None` at the end of the run.
    async fn next(&self) -> Option<(Tick, PreparedRequest, u64)> {
        let tick = self.pacer.next().await?;
        let request = self.requests.borrow_mut().next();
        let sent = self.limits.now();
        if tick.is_measured {
            self.results().record_start(tick, sent);
        }
        Some((tick, request, sent))
    }

    async fn record(
        &self,
        tick: Tick,
        sent: u64,
        request: &PreparedRequest,
        answer: Result<Answer, Fault>,
    ) {
        let done = self.limits.now();
        let is_unsent = matches!(
            &answer,
            Err(fault) if [REFUSED, NO_SOCKET, INVALID].contains(fault)
        );
        if tick.is_measured {
            match answer {
                Ok(answer) => {
                    self.results().record_answer(tick, sent, done, answer, request.expects(answer));
                }
                Err(fault) => self.results().record_fault(done, fault),
            }
        }
        if is_unsent {
            sleep(BACKOFF).await;
        }
    }

    fn results(&self) -> MutexGuard<'_, RunResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn join_all(slots: &mut JoinSet<()>) {
    while slots.join_next().await.is_some() {}
}

impl ThreadUsage {
    fn now(traffic: &Traffic) -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            cpu: Duration::try_from(cpu).unwrap_or_default(),
            sent: traffic.sent.load(Relaxed),
            received: traffic.received.load(Relaxed),
        }
    }
}
