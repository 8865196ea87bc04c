//! A thread of the generator: it connects, waits for the start, and keeps its slots filled with
//! requests until the end.

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
use crate::answer::{Answer, Fault, NO_SOCKET, REFUSED, TIMEOUT, io_fault};
use crate::failed::Failed;
use crate::plan::{Plan, Protocol};
use crate::render::{PreparedRequest, Recipes, Rendered, Source};
use crate::results::RunResults;

pub(super) struct ThreadConfig {
    pub(super) plan: Plan,
    pub(super) number: usize,
    pub(super) recipes: Arc<Recipes>,
    pub(super) results: Arc<Mutex<RunResults>>,
    pub(super) ready: mpsc::Sender<Result<(), Failed>>,
    /// Sent once all threads are ready.
    pub(super) limits: watch::Receiver<Option<Arc<RunLimits>>>,
}

enum Connection {
    /// HTTP/1.1: one slot.
    Http1(Http1),
    /// HTTP/2: as many slots as streams.
    Http2(Rc<Http2>),
}

/// What the slots of a thread share.
struct Worker {
    plan: Plan,
    limits: Arc<RunLimits>,
    pacer: Pacer,
    source: RefCell<Source>,
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

/// The interval at which a thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a stopping thread waits for requests in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The delay after a failed connect, so that a closed loop does not spend all its time on
/// connecting.
const CONNECT_BACKOFF: Duration = Duration::from_millis(20);

pub(super) fn work(mut config: ThreadConfig) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let traffic = Arc::new(Traffic::default());
        let connections = connect(&config, &traffic).await;
        let (connections, ready) = match connections {
            Ok(connections) => (connections, Ok(())),
            Err(failed) => (Vec::new(), Err(failed)),
        };
        // If the receiver is gone, the run has already ended.
        let _ = config.ready.send(ready);
        let limits =
            config.limits.wait_for(Option::is_some).await.ok().and_then(|limits| limits.clone());
        let Some(limits) = limits else { return Ok(()) };
        let pacer =
            Pacer::new(Arc::clone(&limits), config.number as u64, config.plan.threads as u64)?;
        let source =
            RefCell::new(Source::new(config.recipes, config.plan.seed, config.number as u64));
        let worker = Rc::new(Worker {
            plan: config.plan,
            limits,
            pacer,
            source,
            results: config.results,
            traffic,
        });
        worker.run(connections).await;
        Ok(())
    })
}

/// Opens this thread's connections. Retries for as long as the plan says if the server is not up
/// yet.
async fn connect(config: &ThreadConfig, traffic: &Arc<Traffic>) -> Result<Vec<Connection>, Failed> {
    let until = Instant::now() + config.plan.wait;
    let mut connections = Vec::new();
    for _ in (config.number..config.plan.connections).step_by(config.plan.threads) {
        connections.push(open_connection(&config.plan, traffic, until).await?);
    }
    Ok(connections)
}

async fn open_connection(
    plan: &Plan,
    traffic: &Arc<Traffic>,
    until: Instant,
) -> Result<Connection, Failed> {
    loop {
        let tried = timeout(plan.timeout, Connection::open(plan, traffic)).await;
        let error = match tried {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        if Instant::now() >= until || plan.stop.is_requested() {
            return Err(Failed::Unreachable {
                target: plan.target.shown.clone(),
                reason: error.to_string(),
            });
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
        let before =
            tokio::task::spawn_local(before(self.limits.clone(), Arc::clone(&self.traffic)));
        let stopped = tokio::select! {
            () = all(&mut slots) => false,
            () = self.stop() => true,
        };
        let ended = self.limits.now();
        if stopped {
            self.pacer.close();
            // Requests without a response by then count as unanswered.
            let _ = timeout(DRAIN_TIMEOUT, all(&mut slots)).await;
        }
        let now = ThreadUsage::now(&self.traffic);
        let before = if before.is_finished() { before.await.unwrap_or(now) } else { now };
        let mut results = self.results();
        results.generator.cpu = now.cpu.saturating_sub(before.cpu);
        results.generator.unsent = self.pacer.unsent(ended);
        results.bytes_sent = now.sent.saturating_sub(before.sent);
        results.bytes_received = now.received.saturating_sub(before.received);
    }

    /// Completes when the run is to stop.
    async fn stop(&self) {
        while !self.plan.stop.is_requested() {
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn http1(self: Rc<Self>, connection: Http1) {
        let mut connection = Some(connection);
        while let Some(tick) = self.pacer.next().await {
            let request = self.next();
            let Rendered::Http1 { bytes, bodiless } = &request.rendered else { return };
            let sent = self.sending(tick);
            let answer =
                timeout(self.plan.timeout, self.request_http1(&mut connection, bytes, *bodiless))
                    .await;
            let answer = answer.unwrap_or(Err(TIMEOUT));
            if answer.is_err() || connection.as_ref().is_some_and(|connection| !connection.open) {
                connection = None;
            }
            self.note(tick, sent, &request, answer).await;
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
                let fresh = Http1::connect(&self.plan.target.address, &self.traffic).await;
                connection.insert(fresh.map_err(|error| io_fault(&error))?)
            }
        };
        connection.request(bytes, bodiless).await.map(Answer::Status)
    }

    async fn http2(self: Rc<Self>, connection: Rc<Http2>) {
        while let Some(tick) = self.pacer.next().await {
            let request = self.next();
            let sent = self.sending(tick);
            let answer =
                timeout(self.plan.timeout, request_http2(&connection, &request.rendered)).await;
            self.note(tick, sent, &request, answer.unwrap_or(Err(TIMEOUT))).await;
        }
    }

    fn next(&self) -> PreparedRequest {
        self.source.borrow_mut().next()
    }

    fn sending(&self, tick: Tick) -> u64 {
        let sent = self.limits.now();
        if tick.counts {
            self.results().record_start(tick, sent);
        }
        sent
    }

    async fn note(
        &self,
        tick: Tick,
        sent: u64,
        request: &PreparedRequest,
        answer: Result<Answer, Fault>,
    ) {
        let done = self.limits.now();
        let unconnected = matches!(&answer, Err(fault) if *fault == REFUSED || *fault == NO_SOCKET);
        if tick.counts {
            match answer {
                Ok(answer) => {
                    self.results().record_answer(tick, sent, done, answer, request.expects(answer));
                }
                Err(fault) => self.results().record_fault(done, fault),
            }
        }
        if unconnected {
            sleep(CONNECT_BACKOFF).await;
        }
    }

    fn results(&self) -> MutexGuard<'_, RunResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn request_http2(connection: &Rc<Http2>, rendered: &Rendered) -> Result<Answer, Fault> {
    connection.connect().await.map_err(|error| io_fault(&error))?;
    match rendered {
        Rendered::Http2 { request, body } => {
            connection.request(request.clone(), body.clone()).await
        }
        Rendered::Check { request, body } => connection.check(request.clone(), body.clone()).await,
        Rendered::Http1 { .. } => Err("a request of another protocol".into()),
    }
}

async fn all(slots: &mut JoinSet<()>) {
    while slots.join_next().await.is_some() {}
}

/// What this thread had used by the end of the warm-up.
async fn before(limits: Arc<RunLimits>, traffic: Arc<Traffic>) -> ThreadUsage {
    sleep_until((limits.epoch + Duration::from_nanos(limits.warm)).into()).await;
    ThreadUsage::now(&traffic)
}

impl ThreadUsage {
    fn now(traffic: &Traffic) -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            cpu: Duration::new(
                cpu.tv_sec.unsigned_abs(),
                u32::try_from(cpu.tv_nsec).unwrap_or_default(),
            ),
            sent: traffic.sent.load(Relaxed),
            received: traffic.received.load(Relaxed),
        }
    }
}
