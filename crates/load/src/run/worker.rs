//! A thread of the generator: it connects, waits for the start, and keeps its slots filled with requests until the end.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::fault;
use super::http1::Http1;
use super::http2::Http2;
use super::pacer::{Course, Pacer, Tick};
use super::socket::Traffic;
use super::summary::Done;
use super::tally::{Answer, Fault, Tally};
use crate::failed::Failed;
use crate::measured::Protocol;
use crate::plan::Plan;
use crate::render::{Ask, Recipes, Rendered, Source};

/// The arguments of a thread.
pub(super) struct Post {
    pub(super) plan: Plan,
    pub(super) number: usize,
    pub(super) recipes: Arc<Recipes>,
    pub(super) tally: Arc<Mutex<Tally>>,
    pub(super) ready: mpsc::Sender<Result<(), Failed>>,
    pub(super) course: oneshot::Receiver<Arc<Course>>,
}

/// One connection.
enum Line {
    /// HTTP/1.1: one slot.
    Http1(Http1),
    /// HTTP/2: as many slots as streams.
    Http2(Rc<Http2>),
}

/// What the slots of a thread share.
struct Worker {
    plan: Plan,
    course: Arc<Course>,
    pacer: Pacer,
    source: RefCell<Source>,
    tally: Arc<Mutex<Tally>>,
    traffic: Arc<Traffic>,
}

/// The interval at which a thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a stopping thread waits for requests in progress.
const GRACE: Duration = Duration::from_millis(500);

/// The delay after a failed connect, so that a closed loop does not spend all its time on connecting.
const CONNECT_BACKOFF: Duration = Duration::from_millis(20);

/// Runs a thread from start to end.
pub(super) fn work(post: Post) -> io::Result<Done> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let traffic = Arc::new(Traffic::default());
        let lines = connect(&post, &traffic).await;
        let (lines, ready) = match lines {
            Ok(lines) => (lines, Ok(())),
            Err(failed) => (Vec::new(), Err(failed)),
        };
        // If the receiver is gone, the run has already ended.
        let _ = post.ready.send(ready);
        let Ok(course) = post.course.await else { return Ok(Done::default()) };
        let pacer = Pacer::new(Arc::clone(&course), post.number as u64, post.plan.threads as u64)?;
        let source = RefCell::new(Source::new(post.recipes, post.plan.seed, post.number as u64));
        let worker = Rc::new(Worker { plan: post.plan, course, pacer, source, tally: post.tally, traffic });
        Ok(worker.run(lines).await)
    })
}

/// Opens this thread's connections. Retries for as long as the plan says if the server is not up yet.
async fn connect(post: &Post, traffic: &Arc<Traffic>) -> Result<Vec<Line>, Failed> {
    let until = Instant::now() + post.plan.wait;
    let mut lines = Vec::new();
    for _ in (post.number..post.plan.connections).step_by(post.plan.threads) {
        lines.push(line(&post.plan, traffic, until).await?);
    }
    Ok(lines)
}

async fn line(plan: &Plan, traffic: &Arc<Traffic>, until: Instant) -> Result<Line, Failed> {
    loop {
        let tried = timeout(plan.timeout, Line::open(plan, traffic)).await;
        let error = match tried {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        if Instant::now() >= until || plan.stop.is_asked() {
            return Err(Failed::Unreachable { target: plan.target.shown.clone(), reason: error.to_string() });
        }
        sleep(POLL_INTERVAL).await;
    }
}

impl Line {
    async fn open(plan: &Plan, traffic: &Arc<Traffic>) -> io::Result<Self> {
        let address = &plan.target.address;
        if plan.protocol == Protocol::Http1 {
            return Ok(Self::Http1(Http1::connect(address, traffic).await?));
        }
        let line = Http2::new(address.clone(), Arc::clone(traffic));
        line.connect().await?;
        Ok(Self::Http2(Rc::new(line)))
    }
}

impl Worker {
    async fn run(self: Rc<Self>, lines: Vec<Line>) -> Done {
        self.pacer.begin().await;
        let mut places = JoinSet::new();
        for line in lines {
            match line {
                Line::Http1(line) => {
                    places.spawn_local(Rc::clone(&self).http1(line));
                }
                Line::Http2(line) => {
                    for _ in 0..self.plan.streams {
                        places.spawn_local(Rc::clone(&self).http2(Rc::clone(&line)));
                    }
                }
            }
        }
        let before = tokio::task::spawn_local(before(self.course.clone(), Arc::clone(&self.traffic)));
        let stopped = tokio::select! {
            () = all(&mut places) => false,
            () = self.stop() => true,
        };
        let ended = self.course.now();
        if stopped {
            self.pacer.close();
            // Requests without a response by then count as unanswered.
            let _ = timeout(GRACE, all(&mut places)).await;
        }
        let now = Done::now(&self.traffic);
        let before = if before.is_finished() { before.await.unwrap_or_default() } else { now };
        now.since(before, self.pacer.unsent(ended))
    }

    /// Completes when the run is to stop.
    async fn stop(&self) {
        while !self.plan.stop.is_asked() {
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn http1(self: Rc<Self>, line: Http1) {
        let mut line = Some(line);
        while let Some(tick) = self.pacer.next().await {
            let ask = self.next();
            let Rendered::Http1 { bytes, bodiless } = &ask.rendered else { return };
            let sent = self.sending(tick);
            let answer = timeout(self.plan.timeout, self.ask_http1(&mut line, bytes, *bodiless)).await;
            let answer = answer.unwrap_or(Err(fault::TIMEOUT));
            if answer.is_err() || line.as_ref().is_some_and(|line| !line.open) {
                line = None;
            }
            self.note(tick, sent, &ask, answer).await;
        }
    }

    async fn ask_http1(
        &self,
        line: &mut Option<Http1>,
        bytes: &[u8],
        bodiless: bool,
    ) -> Result<Answer, Fault> {
        let line = match line {
            Some(line) => line,
            None => {
                let fresh = Http1::connect(&self.plan.target.address, &self.traffic).await;
                line.insert(fresh.map_err(|error| fault::of_io(&error))?)
            }
        };
        line.ask(bytes, bodiless).await.map(Answer::Status)
    }

    async fn http2(self: Rc<Self>, line: Rc<Http2>) {
        while let Some(tick) = self.pacer.next().await {
            let ask = self.next();
            let sent = self.sending(tick);
            let answer = timeout(self.plan.timeout, ask_http2(&line, &ask.rendered)).await;
            self.note(tick, sent, &ask, answer.unwrap_or(Err(fault::TIMEOUT))).await;
        }
    }

    fn next(&self) -> Ask {
        self.source.borrow_mut().next()
    }

    /// The time of sending.
    fn sending(&self, tick: Tick) -> u64 {
        let sent = self.course.now();
        if tick.counts {
            self.tally().sent(tick, sent);
        }
        sent
    }

    async fn note(&self, tick: Tick, sent: u64, ask: &Ask, answer: Result<Answer, Fault>) {
        let done = self.course.now();
        let unconnected =
            matches!(&answer, Err(fault) if fault == "connection refused" || fault == "no such socket");
        if tick.counts {
            match answer {
                Ok(answer) => self.tally().answered(tick, sent, done, answer, ask.expects(answer)),
                Err(fault) => self.tally().failed(done, fault),
            }
        }
        if unconnected {
            sleep(CONNECT_BACKOFF).await;
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask_http2(line: &Rc<Http2>, rendered: &Rendered) -> Result<Answer, Fault> {
    line.connect().await.map_err(|error| fault::of_io(&error))?;
    match rendered {
        Rendered::Http2 { request, body } => line.ask(request.clone(), body.clone()).await,
        Rendered::Check { request, body } => line.check(request.clone(), body.clone()).await,
        Rendered::Http1 { .. } => Err("a request of another protocol".into()),
    }
}

async fn all(places: &mut JoinSet<()>) {
    while places.join_next().await.is_some() {}
}

/// What this thread had used by the end of the warm-up.
async fn before(course: Arc<Course>, traffic: Arc<Traffic>) -> Done {
    sleep_until((course.epoch + Duration::from_nanos(course.warm)).into()).await;
    Done::now(&traffic)
}

impl Done {
    fn now(traffic: &Traffic) -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            cpu: Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).unwrap_or_default()),
            sent: traffic.sent.load(Relaxed),
            received: traffic.received.load(Relaxed),
            unsent: 0,
        }
    }

    fn since(self, before: Self, unsent: u64) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            unsent,
        }
    }
}
