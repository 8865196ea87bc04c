//! Continuous requests while a test changes the stack: half of them must be allowed, half denied.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::app::MUST_NOT_ARRIVE;
use crate::client::{Connection, Version};
use crate::process::Failed;

/// Clients that send one request after another until they are stopped.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: JoinSet<Tally>,
}

/// The two kinds of requests, which the clients send alternately.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// The value of the `Authorization` header.
    pub authorization: String,
    /// Method and path of the request that must be allowed.
    pub allowed: (&'static str, &'static str),
    /// Method and path of the request that must be denied. It has [`MUST_NOT_ARRIVE`].
    pub denied: (&'static str, &'static str),
}

/// The number of responses by status. Requests without a response count as status 0.
#[derive(Debug, Default)]
pub struct Tally {
    /// For requests that must be allowed.
    pub allowed: BTreeMap<u16, u64>,
    /// For requests that must be denied.
    pub denied: BTreeMap<u16, u64>,
}

impl Traffic {
    /// Starts this many clients, each with its own connection to Envoy.
    #[must_use]
    pub fn start(envoy: SocketAddr, clients: usize, version: Version, kinds: &Kinds) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            tasks.spawn(client(envoy, version, kinds.clone(), Arc::clone(&stop), Arc::clone(&answered)));
        }
        Self { stop, answered, clients: tasks }
    }

    /// Waits until this many more requests have been answered.
    ///
    /// # Errors
    /// If that takes longer than half a minute.
    pub async fn more(&self, requests: u64) -> Result<(), Failed> {
        let until = Instant::now() + Duration::from_secs(30);
        let enough = self.answered.load(Ordering::SeqCst) + requests;
        while self.answered.load(Ordering::SeqCst) < enough {
            if Instant::now() > until {
                return Err(Failed::new(
                    "traffic",
                    format!("{requests} requests were not answered within 30 s"),
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Stops the clients and returns the counts.
    pub async fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Tally::default();
        while let Some(one) = self.clients.join_next().await {
            // A client that panicked counts as a missing response.
            let one = one.unwrap_or_else(|_| Tally { allowed: BTreeMap::from([(0, 1)]), ..Tally::default() });
            add(&mut all.allowed, one.allowed);
            add(&mut all.denied, one.denied);
        }
        all
    }
}

fn add(to: &mut BTreeMap<u16, u64>, from: BTreeMap<u16, u64>) {
    for (status, times) in from {
        *to.entry(status).or_default() += times;
    }
}

async fn client(
    envoy: SocketAddr,
    version: Version,
    kinds: Kinds,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) -> Tally {
    let mut tally = Tally::default();
    let mut connection = None;
    let credentials = ("authorization".to_owned(), kinds.authorization);
    let marked = [credentials.clone(), (MUST_NOT_ARRIVE.to_owned(), "1".to_owned())];
    while !stop.load(Ordering::SeqCst) {
        let (method, path) = kinds.allowed;
        let credentials = std::slice::from_ref(&credentials);
        let status = send(envoy, version, &mut connection, method, path, credentials).await;
        *tally.allowed.entry(status).or_default() += 1;
        let (method, path) = kinds.denied;
        let status = send(envoy, version, &mut connection, method, path, &marked).await;
        *tally.denied.entry(status).or_default() += 1;
        answered.fetch_add(2, Ordering::SeqCst);
    }
    tally
}

/// The status of the response. If there is none: 0, and the connection is dropped.
async fn send(
    envoy: SocketAddr,
    version: Version,
    connection: &mut Option<Connection>,
    method: &str,
    path: &str,
    headers: &[(String, String)],
) -> u16 {
    let mut open = match connection.take() {
        Some(open) => open,
        None => match Connection::open(envoy, version).await {
            Ok(open) => open,
            Err(_) => return 0,
        },
    };
    match open.send(method, path, "localhost", headers, b"").await {
        Ok(answer) => {
            *connection = Some(open);
            answer.status
        }
        Err(_) => 0,
    }
}
