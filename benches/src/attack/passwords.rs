//! A flood of wrong passwords, beside a caller whose password is verified and users who sign in for
//! the first time.
//!
//! Every call has a timeout of 2 s, after which it resets its stream, like Envoy.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use testbed::Failed;
use testbed::grpc::basic;
use tokio::time::{MissedTickBehavior, interval};

use super::calls::{Client, Outcome, message};
use super::server::Server;

/// The timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The flood sends 300 wrong passwords per second.
const FLOOD_EVERY: Duration = Duration::from_nanos(3_333_333);
/// The verified caller sends five requests per second.
const VERIFIED_EVERY: Duration = Duration::from_millis(200);
/// The number of users in the policy of [`policy`] who can sign in for the first time.
pub(crate) const USERS: u64 = 2000;
/// The number of addresses of the flood; the honest callers have other addresses. The more there
/// are, the longer it takes until each of them is known for a wrong password.
const FLOOD_ADDRESSES: u64 = 250;
/// The common address, if all calls have the same one.
const ONE_ADDRESS: &str = "198.51.100.1";

/// The parameters of a flood.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) until: Instant,
    /// Whether the honest callers have the same address as the flood.
    pub(crate) one_address: bool,
    /// The interval between sign-ins of new users.
    pub(crate) sign_in_every: Duration,
}

/// The outcomes of the calls so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) flood: Counts,
    pub(crate) verified: Counts,
    pub(crate) sign_ins: Counts,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) asked: AtomicU64,
    pub(crate) allowed: AtomicU64,
    /// 401: the password was hashed and is wrong.
    pub(crate) unauthenticated: AtomicU64,
    /// Any other denial, such as for overload.
    pub(crate) denied: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    /// The time of the slowest response, in microseconds.
    pub(crate) slowest: AtomicU64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [asked, allowed, wrong] =
            [&self.asked, &self.allowed, &self.unauthenticated].map(count);
        let [denied, failed, timed_out] = [&self.denied, &self.failed, &self.timed_out].map(count);
        let slowest = count(&self.slowest) / 1000;
        write!(f, "{asked}/{allowed}/{wrong}/{denied}/{failed}/{timed_out}, {slowest}")
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

impl Counts {
    /// The calls whose password was hashed before they ended.
    fn hashed(&self) -> u64 {
        self.allowed.load(Relaxed) + self.unauthenticated.load(Relaxed)
    }

    async fn call(&self, client: &Client, message: Bytes) {
        self.asked.fetch_add(1, Relaxed);
        let start = Instant::now();
        let count = match client.check(&message, TIMEOUT).await {
            Outcome::Allowed => &self.allowed,
            Outcome::Denied(401) => &self.unauthenticated,
            Outcome::Denied(_) => &self.denied,
            Outcome::Failed => &self.failed,
            Outcome::TimedOut => &self.timed_out,
        };
        count.fetch_add(1, Relaxed);
        self.slowest
            .fetch_max(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl Tally {
    /// How the honest callers fared.
    pub(crate) fn honest(&self) -> String {
        let of = |counts: &Counts| {
            format!("{} of {}", counts.allowed.load(Relaxed), counts.asked.load(Relaxed))
        };
        let (verified, sign_ins) = (of(&self.verified), of(&self.sign_ins));
        format!("verified caller: {verified} allowed; first sign-ins within 2 s: {sign_ins}")
    }

    /// The calls of those without verified passwords whose password was hashed before they ended.
    pub(crate) fn hashed(&self) -> u64 {
        self.flood.hashed() + self.sign_ins.hashed()
    }
}

/// The people policy with [`USERS`] more users, whose password is that of alice, `wonderland`. They
/// share her argon2id hash, which costs about 14 ms (70 hashes per second and core): that saves
/// computing 2,000 hashes.
pub(crate) fn policy(people: &str) -> String {
    let line =
        |name: &str| people.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    let (alice, bob) = (line("alice:"), line("bob:"));
    let users = (0..USERS).map(|number| alice.replace("alice:", &format!("user{number}:")) + "\n");
    format!(
        "version: 1\nidentity:\n  basic:\n    realm: people\n    users:\n{alice}\n{bob}\n{}\
         roles: {{ authenticated: {{ allow: ['GET /people'] }} }}\n",
        users.collect::<String>()
    )
}

/// Sends a request of alice, so that her password is verified before a flood.
pub(crate) fn verify(address: SocketAddr) -> bool {
    runtime().block_on(async {
        let message = message("203.0.113.1", "/people", Some(&basic("alice:wonderland")));
        Client::new(address).check(&message, 5 * TIMEOUT).await == Outcome::Allowed
    })
}

/// The hashes per second that the server can do: eight clients send wrong passwords in a closed
/// loop.
pub(crate) fn capacity(server: &Server, time: Duration) -> Result<f64, Failed> {
    let (before, start) = (server.hashes()?, Instant::now());
    runtime().block_on(async {
        let clients = (0..8).map(|number| {
            let address = server.address;
            tokio::spawn(async move {
                let client = Client::new(address);
                for attempt in 0.. {
                    let wrong = basic(&format!("guest{number}:wrong{attempt}"));
                    let source = format!("192.0.2.{number}");
                    client.check(&message(&source, "/people", Some(&wrong)), 5 * TIMEOUT).await;
                    if start.elapsed() >= time {
                        break;
                    }
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            let _ = client.await;
        }
    });
    Ok((server.hashes()? - before) / start.elapsed().as_secs_f64())
}

/// Starts the flood and the honest callers, each on its own thread. `first` is the number of the
/// first new user.
pub(crate) fn start(plan: Plan, tally: &Arc<Tally>, first: u64) -> [JoinHandle<()>; 3] {
    let source = move |own: String| if plan.one_address { ONE_ADDRESS.to_owned() } else { own };
    let flood = every(
        plan,
        FLOOD_EVERY,
        tally,
        |tally| &tally.flood,
        move |number| {
            let from = if plan.one_address { 1 } else { number % FLOOD_ADDRESSES };
            let wrong = basic(&format!("guest{}:wrong{number}", number % 1000));
            message(&format!("198.51.100.{from}"), "/people", Some(&wrong))
        },
    );
    let verified = every(
        plan,
        VERIFIED_EVERY,
        tally,
        |tally| &tally.verified,
        move |_| {
            message(&source("203.0.113.1".to_owned()), "/people", Some(&basic("alice:wonderland")))
        },
    );
    let sign_ins = every(
        plan,
        plan.sign_in_every,
        tally,
        |tally| &tally.sign_ins,
        move |number| {
            let user = (first + number) % USERS;
            let own = format!("203.0.113.{}", 2 + number % 200);
            message(&source(own), "/people", Some(&basic(&format!("user{user}:wonderland"))))
        },
    );
    [flood, verified, sign_ins]
}

/// Makes a call at each interval, whether or not the previous ones have been answered.
fn every(
    plan: Plan,
    period: Duration,
    tally: &Arc<Tally>,
    counts: fn(&Tally) -> &Counts,
    message: impl Fn(u64) -> Bytes + Send + 'static,
) -> JoinHandle<()> {
    let tally = Arc::clone(tally);
    std::thread::spawn(move || {
        runtime().block_on(async {
            let clients: Vec<Arc<Client>> =
                (0..4).map(|_| Arc::new(Client::new(plan.address))).collect();
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for (number, client) in (0..).zip(clients.iter().cycle()) {
                ticks.tick().await;
                if Instant::now() >= plan.until {
                    break;
                }
                let (tally, client, message) =
                    (Arc::clone(&tally), Arc::clone(client), message(number));
                tokio::spawn(async move { counts(&tally).call(&client, message).await });
            }
            tokio::time::sleep(TIMEOUT + Duration::from_millis(50)).await;
        });
    })
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
