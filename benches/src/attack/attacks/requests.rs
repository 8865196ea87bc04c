//! Calls that an ordinary client library can make: large, unfinished, many, or expensive to decide.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use load::check_message::{Checked, framed};
use testbed::grpc::{basic, head};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::Scene;
use crate::attack::calls::{self, Client, Outcome};
use crate::attack::passwords::runtime;

const SOURCE: &str = "198.51.100.1";
const TIMEOUT: Duration = Duration::from_secs(2);

/// Four clients repeatedly send messages of 10 MiB.
pub(crate) fn large_messages(scene: &Scene) -> String {
    let message = framed(&vec![b'x'; 10 << 20]);
    again_and_again(scene, 4, 1, move |_| message.clone())
}

/// Bytes in a valid frame that are no `CheckRequest`: random ones, and a real message with a few of
/// its bytes replaced.
pub(crate) fn garbage(scene: &Scene) -> String {
    // A linear congruential generator (Knuth): each run sends the same.
    let mut state = 1_u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [high, low, ..] = state.to_be_bytes();
        (high, usize::from(low))
    };
    let whole = calls::message(SOURCE, "/people", Some(&basic("bob:builder")));
    let messages: Vec<Bytes> = (0..256)
        .map(|number| {
            if number % 2 == 0 {
                return framed(&(0..1024).map(|_| random().0).collect::<Vec<_>>());
            }
            let mut message = whole.get(5..).unwrap_or_default().to_vec();
            for _ in 0..3 {
                let (byte, place) = random();
                let place = place % message.len();
                message[place] = byte;
            }
            framed(&message)
        })
        .collect();
    again_and_again(scene, 4, 32, move |number| {
        let place = usize::try_from(number).unwrap_or_default() % messages.len();
        messages[place].clone()
    })
}

/// Health and reflection calls that send almost 4 MiB and then stall: 16 on each of 10 connections.
pub(crate) fn unfinished_calls(scene: &Scene) -> String {
    const PATHS: &[&str] = &[
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ];
    let message = framed(&vec![0; 4 << 20]);
    let part = message.slice(..message.len() - 100);
    hold(scene, 10, 16, PATHS, &part, false)
}

/// Health watches, which are answered once and then stay open: 511 on each of 8 connections.
pub(crate) fn watches(scene: &Scene) -> String {
    hold(scene, 8, 511, &["/grpc.health.v1.Health/Watch"], &framed(&[]), true)
}

/// Requests with the longest possible lines in the decision log: a control character takes six
/// bytes there.
pub(crate) fn long_decisions(scene: &Scene) -> String {
    let long = "\u{1}".repeat(1500);
    let (method, host, path, id) = (&*long, &*long, &*long, &*long);
    let checked = Checked { source: Some(SOURCE), method, host, path, id, ..Checked::default() };
    let message = checked.framed();
    again_and_again(scene, 4, 32, move |_| message.clone())
}

/// User names of 1.5 KiB, a new one in each request.
pub(crate) fn names(scene: &Scene) -> String {
    let (filler, round) = ("n".repeat(1500), scene.round);
    again_and_again(scene, 4, 16, move |number| {
        let name = basic(&format!("{round}-{number}-{filler}:x"));
        calls::message(SOURCE, "/people", Some(&name))
    })
}

/// 60 KB of `z`, with an `a` where the globs start to match.
pub(crate) fn path_against_globs(scene: &Scene) -> String {
    let path = format!("/logs/{}a", "z".repeat(60_000));
    let message = calls::message(SOURCE, &path, None);
    again_and_again(scene, 4, 1, move |_| message.clone())
}

/// The most expensive path of `authorizer/examples/hostile_paths.rs`.
pub(crate) fn path_of_many_interpretations(scene: &Scene) -> String {
    let piece = "/%2540;a%3Bb%40/./c//d";
    let path = piece.repeat(60_000 / piece.len());
    let message = calls::message(SOURCE, &path, None);
    again_and_again(scene, 4, 1, move |_| message.clone())
}

/// Runs this many clients, each with this many concurrent calls, in a closed loop until the time is
/// over.
pub(super) fn again_and_again(
    scene: &Scene,
    clients: usize,
    streams: usize,
    message: impl Fn(u64) -> Bytes + Send + Sync + 'static,
) -> String {
    let (message, number) = (Arc::new(message), Arc::new(AtomicU64::new(0)));
    let scene = *scene;
    let outcomes = runtime().block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let client = Arc::new(Client::new(scene.address));
            for _ in 0..streams {
                let (client, message, number) = (client.clone(), message.clone(), number.clone());
                tasks.spawn(async move {
                    let mut outcomes = [0_u64; 4];
                    while !scene.is_over() {
                        let message = message(number.fetch_add(1, Relaxed));
                        let outcome = client.check(&message, TIMEOUT.min(scene.left())).await;
                        outcomes[match outcome {
                            Outcome::Allowed => 0,
                            Outcome::Denied(_) => 1,
                            Outcome::Failed => 2,
                            Outcome::TimedOut => 3,
                        }] += 1;
                    }
                    outcomes
                });
            }
        }
        tasks.join_all().await
    });
    let sum = |kind: usize| outcomes.iter().map(|outcomes| outcomes[kind]).sum::<u64>();
    format!("{} allowed, {} denied, {} failed, {} timed out", sum(0), sum(1), sum(2), sum(3))
}

/// Opens calls, sends the same message on each, and keeps them open until the time is over,
/// ignoring responses.
fn hold(
    scene: &Scene,
    connections: usize,
    streams: usize,
    paths: &'static [&'static str],
    message: &Bytes,
    end: bool,
) -> String {
    let until = Instant::from_std(scene.until);
    let [opened, answered] = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    runtime().block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let client = Arc::new(Client::new(scene.address));
            for path in paths.iter().cycle().take(streams) {
                let (client, message) = (client.clone(), message.clone());
                let (opened, answered) = (opened.clone(), answered.clone());
                let call = async move {
                    let mut sender = client.sender().await?;
                    let (response, mut stream) =
                        sender.send_request(head(path).body(()).ok()?, false).ok()?;
                    stream.send_data(message, end).ok()?;
                    opened.fetch_add(1, Relaxed);
                    let answer = response.await.ok()?;
                    answered.fetch_add(1, Relaxed);
                    sleep_until(until).await;
                    drop((answer, stream));
                    Some(())
                };
                tasks.spawn(held_until(until, call));
            }
        }
        tasks.join_all().await
    });
    format!("{} calls opened, {} answered", opened.load(Relaxed), answered.load(Relaxed))
}

/// Stops waiting for the call at `until`, whatever it does.
async fn held_until(until: Instant, call: impl Future<Output = Option<()>>) {
    let _ = timeout(until.saturating_duration_since(Instant::now()), call).await;
}
