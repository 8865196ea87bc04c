//! Continuous requests while a test changes the stack: half of them must be allowed, half denied.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use load::{Plan, Protocol, Rate, Request, RunResults, Stop, Workload};
use tokio::task::JoinHandle;

use crate::app::MUST_NOT_ARRIVE;
use crate::process::Failed;

/// Clients that send requests until they are stopped, each as soon as the last is answered.
#[derive(Debug)]
pub struct Traffic {
    stop: Stop,
    allowed: Run,
    denied: Run,
}

/// The clients of a kind of requests.
#[derive(Debug)]
struct Run {
    /// The responses and errors so far.
    answered: Arc<AtomicU64>,
    results: JoinHandle<Result<RunResults, load::Failed>>,
}

/// The two kinds of requests, each sent by half of the clients.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// User name and password.
    pub credentials: &'static str,
    /// Method and path of the request that must be allowed.
    pub allowed: (&'static str, &'static str),
    /// Method and path of the request that must be denied. It has [`MUST_NOT_ARRIVE`].
    pub denied: (&'static str, &'static str),
}

/// The results of both kinds.
#[derive(Debug)]
pub struct Tally {
    /// For requests that must be allowed.
    pub allowed: RunResults,
    /// For requests that must be denied.
    pub denied: RunResults,
}

impl Traffic {
    /// Starts this many clients for each kind, each with its own connection to Envoy.
    pub fn start(
        envoy: SocketAddr,
        clients: usize,
        protocol: Protocol,
        kinds: &Kinds,
    ) -> Result<Self, Failed> {
        let stop = Stop::default();
        let start = |(method, path): (&str, &str), mark: &str| {
            let request = Request { method: method.to_owned(), ..Request::get(path) };
            let request =
                request.basic(kinds.credentials).header(mark, "1").header("host", "localhost");
            let answered = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&answered);
            let plan = Plan {
                protocol,
                rate: Rate::Max,
                connections: clients,
                duration: Some(Duration::from_secs(86_400)),
                timeout: Duration::from_secs(20),
                workload: Workload::single(request),
                stop: stop.clone(),
                watch: Some(Arc::new(move |progress| {
                    counter.store(progress.responses + progress.errors, Ordering::SeqCst);
                })),
                ..Plan::http(&format!("http://{envoy}{path}"))?
            };
            let results = tokio::task::spawn_blocking(move || load::run(&plan));
            Ok::<_, Failed>(Run { answered, results })
        };
        let allowed = start(kinds.allowed, "x-may-arrive")?;
        let denied = start(kinds.denied, MUST_NOT_ARRIVE)?;
        Ok(Self { stop, allowed, denied })
    }

    /// Waits until this many more requests of each kind have been answered.
    pub async fn more(&self, requests: u64) -> Result<(), Failed> {
        let goals = self.answered().map(|answered| answered + requests);
        let is_enough =
            || self.answered().iter().zip(goals).all(|(answered, goal)| *answered >= goal);
        wait(requests, is_enough).await
    }

    /// The responses and errors so far, of each kind of request.
    pub fn answered(&self) -> [u64; 2] {
        [&self.allowed, &self.denied].map(|run| run.answered.load(Ordering::SeqCst))
    }

    /// Stops the clients and returns the results.
    pub async fn stop(self) -> Result<Tally, Failed> {
        self.stop.stop();
        Ok(Tally { allowed: self.allowed.end().await?, denied: self.denied.end().await? })
    }
}

impl Run {
    async fn end(self) -> Result<RunResults, Failed> {
        let results = self.results.await;
        Ok(results.map_err(|error| Failed::new("traffic", error.to_string()))??)
    }
}

/// Waits until `enough`, which depends on `requests` more answers.
pub async fn wait(requests: u64, enough: impl Fn() -> bool) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(30);
    while !enough() {
        if Instant::now() > until {
            let why = format!("{requests} requests were not answered within 30 s");
            return Err(Failed::new("traffic", why));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
