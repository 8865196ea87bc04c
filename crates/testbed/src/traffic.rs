//! Continuous requests while a test changes the stack: half of them must be allowed, half denied.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use load::{Plan, Protocol, Rate, Request, RunResults, Stop, Workload};
use tokio::task::JoinHandle;

use crate::app::MUST_NOT_ARRIVE;
use crate::process::Failed;

/// Clients that send one request after another until they are stopped.
#[derive(Debug)]
pub struct Traffic {
    stop: Stop,
    /// The responses and errors so far, of each kind of request.
    answered: [Arc<AtomicU64>; 2],
    runs: [JoinHandle<Result<RunResults, load::Failed>>; 2],
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
        let (stop, answered) = (Stop::default(), <[Arc<AtomicU64>; 2]>::default());
        let run = |(method, path): (&str, &str), mark: &str, answered: &Arc<AtomicU64>| {
            let mut plan = Plan::http(&format!("http://{envoy}{path}"))?;
            let request = Request { method: method.to_owned(), ..Request::get(path) };
            let request =
                request.basic(kinds.credentials).header(mark, "1").header("host", "localhost");
            plan.workload = Workload::of(request);
            (plan.protocol, plan.rate, plan.connections) = (protocol, Rate::Max, clients);
            plan.duration = Some(Duration::from_secs(86_400));
            (plan.timeout, plan.stop) = (Duration::from_secs(20), stop.clone());
            let answered = Arc::clone(answered);
            plan.watch = Some(Arc::new(move |progress| {
                answered.store(progress.responses + progress.errors, Ordering::SeqCst);
            }));
            Ok::<_, Failed>(tokio::task::spawn_blocking(move || load::run(&plan)))
        };
        let runs = [
            run(kinds.allowed, "x-may-arrive", &answered[0])?,
            run(kinds.denied, MUST_NOT_ARRIVE, &answered[1])?,
        ];
        Ok(Self { stop, answered, runs })
    }

    /// Waits until this many more requests of each kind have been answered.
    pub async fn more(&self, requests: u64) -> Result<(), Failed> {
        let enough = self.answered().map(|answered| answered + requests);
        wait(requests, || {
            self.answered().iter().zip(enough).all(|(answered, enough)| *answered >= enough)
        })
        .await
    }

    /// The responses and errors so far, of each kind of request.
    pub fn answered(&self) -> [u64; 2] {
        self.answered.each_ref().map(|answered| answered.load(Ordering::SeqCst))
    }

    /// Stops the clients and returns the results.
    pub async fn stop(self) -> Result<Tally, Failed> {
        self.stop.stop();
        let [allowed, denied] = self.runs;
        let done = async |run: JoinHandle<Result<RunResults, load::Failed>>| {
            Ok::<_, Failed>(run.await.map_err(|error| Failed::new("traffic", error.to_string()))??)
        };
        Ok(Tally { allowed: done(allowed).await?, denied: done(denied).await? })
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
