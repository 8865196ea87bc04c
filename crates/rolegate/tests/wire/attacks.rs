//! Attacks on the program over the wire: it stays alive, its memory stays bounded, and a
//! well-behaved client is served during the attack and after it. Each attack is bounded in time and
//! number.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testbed::Rolegate;
use testbed::envoy::Target;
use testbed::rolegate::ANY_PORT;
use tokio::net::TcpStream;

use crate::frames::*;
use crate::support::*;

/// By how much the memory of the process may grow.
const MAX_GROWTH_KIB: u64 = 64 << 10;
/// Duration of an attack.
const LIMIT: Duration = Duration::from_millis(1500);
/// How long anything may take on a busy machine: the reaction of the server, and the service of the
/// well-behaved client.
const PATIENCE: Duration = Duration::from_secs(120);
/// Runs the attack on a new process while a well-behaved client is served. `reached` returns
/// whether the reaction shows that the attack has reached the server.
async fn survive(
    attack: impl FnOnce(SocketAddr) -> Reaction + Send + 'static,
    reached: impl Fn(&Reaction) -> bool,
) {
    let folder = tempfile::tempdir().unwrap();
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/people/policy.yaml");
    let program = Path::new(env!("CARGO_BIN_EXE_rolegate"));
    let listen = Target::Tcp(ANY_PORT);
    let started = Rolegate::start(program, Path::new(policy), listen, folder.path(), &[]).await;
    let mut server = started.unwrap();
    let address = server.listen.tcp().unwrap();
    let client = handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    // The first check hashes the password; for the later ones it is cached.
    serve_until(&client, || true).await;

    let before = resident_kib(server.id());
    let peak = AtomicU64::new(before);
    let attacker = std::thread::spawn(move || attack(address));
    serve_until(&client, || {
        peak.fetch_max(resident_kib(server.id()), Relaxed);
        attacker.is_finished()
    })
    .await;
    let reaction = attacker.join().unwrap();
    let growth = peak.load(Relaxed).saturating_sub(before);
    println!("grown by {growth} KiB, {reaction:?}");
    assert!(reached(&reaction), "{reaction:?}");
    assert!(growth <= MAX_GROWTH_KIB, "grown by {growth} KiB");

    tokio::time::sleep(Duration::from_secs(1)).await;
    let newcomer = handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    for client in [&client, &newcomer] {
        let mut left = 50;
        serve_until(client, || {
            left -= 1;
            left == 0
        })
        .await;
    }
    // A graceful stop would wait for connections whose client tasks no longer run.
    server.kill();
}

/// Sends about 500 checks per second until `is_over`, and at least 20. Each must be allowed; where
/// the processors are busy, a check whose message is late may be denied with 503, and is sent
/// again. This only finds a client that is not served; `make attack` measures how much slower it
/// gets.
async fn serve_until(client: &Client, mut is_over: impl FnMut() -> bool) {
    let mut number = 0;
    while !is_over() || number < 20 {
        let served = tokio::time::timeout(PATIENCE, allowed(client)).await;
        assert!(served.is_ok(), "a well-behaved client is not served");
        number += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn allowed(client: &Client) {
    loop {
        let reply = check(client, &by_alice()).await;
        if reply.is_ok() {
            return;
        }
        assert_eq!(reply.denied(), 503);
    }
}

#[expect(clippy::disallowed_methods, reason = "the memory of a process is a file")]
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Calls `write` repeatedly, on a new connection whenever one is closed: for [`LIMIT`], and until
/// `reached` tells that the server has reacted.
fn flood(
    address: SocketAddr,
    reached: impl Fn(&Reaction) -> bool,
    mut write: impl FnMut(&mut Raw) -> std::io::Result<()>,
) -> Reaction {
    let start = Instant::now();
    let is_over = |reaction: &Reaction| {
        let limit = if reached(reaction) { LIMIT } else { PATIENCE };
        start.elapsed() >= limit
    };
    let mut reaction = Reaction::default();
    while !is_over(&reaction) {
        let Ok(mut raw) = Raw::open(address, &[]) else { continue };
        for _ in 0..10_000 {
            match write(&mut raw) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    reaction.unread += 1;
                    break;
                }
                Err(_) => break,
                Ok(()) if is_over(&reaction) => break,
                Ok(()) => {}
            }
        }
        // What was written is perhaps not read yet.
        let mut seen = raw.reaction();
        while seen == Reaction::default() && !reached(&reaction) && !is_over(&reaction) {
            seen = raw.reaction();
        }
        reaction += seen;
    }
    reaction
}

/// The reaction of the server on all these connections together, once the attack has reached it.
fn reactions(mut connections: Vec<Raw>, reached: impl Fn(&Reaction) -> bool) -> Reaction {
    let (mut reaction, end) = (Reaction::default(), Instant::now() + PATIENCE);
    loop {
        connections.iter_mut().for_each(|raw| reaction += raw.reaction_now());
        if reached(&reaction) || Instant::now() > end {
            return reaction;
        }
    }
}

/// CVE-2023-44487.
#[tokio::test]
async fn rapid_reset() {
    let reached = |reaction: &Reaction| reaction.calm > 0;
    let attack = move |address| {
        let (first, short) = check_head_and_short_one();
        let pair = |stream, head: &[u8]| {
            let headers = frame(HEADERS, END_HEADERS, stream, head);
            [headers, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        let others = (1..50_000).flat_map(|number| pair(2 * number + 1, &short));
        let burst: Vec<u8> = pair(1, &first).into_iter().chain(others).collect();
        flood(address, reached, |raw| {
            raw.write(&burst)?;
            Err(ErrorKind::Other.into())
        })
    };
    survive(attack, reached).await;
}

/// VU#421644 (CVE-2024-27316 and others).
#[tokio::test]
async fn continuation_flood() {
    let reached = |reaction: &Reaction| reaction.calm > 0;
    let attack = move |address| {
        let part = literal("x-filler", &"a".repeat(1000));
        let more = frame(CONTINUATION, 0, 1, &part);
        flood(address, reached, |raw| {
            raw.write(&frame(HEADERS, 0, 1, &check_head()))?;
            (0..20_000).try_for_each(|_| raw.write(&more))
        })
    };
    survive(attack, reached).await;
}

/// Many small fields in a head that never ends, on a thousand connections. So many may be within
/// one, or two for each worker thread.
#[tokio::test]
async fn half_heads() {
    let most = 64.max(2 * std::thread::available_parallelism().unwrap().get());
    let attack = move |address| {
        let head = [check_head(), indexed("a", ""), vec![0xBE; 3_900]].concat();
        let open = |_| {
            let mut raw = Raw::open(address, &[]).ok()?;
            raw.write(&frame(HEADERS, 0, 1, &head)).is_ok().then_some(raw)
        };
        let mut connections: Vec<_> = (0..1000).filter_map(open).collect();
        let (all, end) = (connections.len(), Instant::now() + PATIENCE);
        while connections.len() > most && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(200));
            connections.retain_mut(|raw| !raw.is_closed());
        }
        Reaction {
            closed: all - connections.len(),
            unread: connections.len(),
            ..Reaction::default()
        }
    };
    survive(attack, |reaction| reaction.closed > 500 && reaction.unread <= most).await;
}

/// One entry in the dynamic table, then thousands of references to it (CVE-2016-6581). Each request
/// gets 431.
#[tokio::test]
async fn hpack_bomb() {
    let reached = |reaction: &Reaction| reaction.heads > 50 || reaction.calm > 0;
    let attack = move |address| {
        let bomb = [check_head(), indexed("x", &"a".repeat(4000)), vec![0xBE; 12_000]].concat();
        flood(address, reached, move |raw| {
            (0..50).try_for_each(|number| {
                raw.write(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &bomb))
            })?;
            Err(ErrorKind::Other.into())
        })
    };
    survive(attack, reached).await;
}

/// CVE-2019-9515. The server stops reading from a client that does not read the acknowledgements.
#[tokio::test]
async fn settings_flood() {
    let reached = |reaction: &Reaction| reaction.unread + reaction.calm > 0;
    let attack = move |address| {
        let settings = frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 16, 0]).repeat(100);
        flood(address, reached, |raw| raw.write(&settings))
    };
    survive(attack, reached).await;
}

/// CVE-2019-9512.
#[tokio::test]
async fn ping_flood() {
    let reached = |reaction: &Reaction| reaction.unread + reaction.calm > 0;
    let attack = move |address| {
        let pings = frame(PING, 0, 0, b"12345678").repeat(100);
        flood(address, reached, |raw| raw.write(&pings))
    };
    survive(attack, reached).await;
}

/// CVE-2019-9518.
#[tokio::test]
async fn empty_frames() {
    let reached = |reaction: &Reaction| reaction.calm > 0;
    let attack = move |address| {
        let frames = frame(DATA, 0, 1, b"").repeat(1000);
        flood(address, reached, |raw| {
            raw.write(&frame(HEADERS, END_HEADERS, 1, &check_head()))?;
            (0..1000).try_for_each(|_| raw.write(&frames))
        })
    };
    survive(attack, reached).await;
}

/// CVE-2019-9511, CVE-2019-9517: many requests, and no flow-control window for the answers. The
/// server sends their headers, but no data.
#[tokio::test]
async fn closed_flow_control_windows() {
    let reached = |reaction: &Reaction| reaction.heads > 5000;
    let attack = move |address| {
        let message = framed(&message(Shape::Raw, "GET", "/people", &[]));
        let request = |stream| {
            let headers = frame(HEADERS, END_HEADERS, stream, &check_head());
            [headers, frame(DATA, END_STREAM, stream, &message)].concat()
        };
        let requests: Vec<u8> = (0..1000).flat_map(|number| request(2 * number + 1)).collect();
        let mut connections = Vec::new();
        for _ in 0..100 {
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            if let Ok(mut raw) = Raw::open(address, &[(4, 0)]) {
                let _ = raw.acknowledge_settings().and_then(|()| raw.write(&requests));
                connections.push(raw);
            }
        }
        reactions(connections, reached)
    };
    survive(attack, move |reaction| reached(reaction) && reaction.data == 0).await;
}

/// Ten thousand connections, or as many as the limit of file descriptors allows, that send the
/// preface and nothing more. At most 1,024 are kept.
#[tokio::test]
async fn idle_connections() {
    let count = 10_000.min(descriptors() / 2);
    assert!(count > 1024, "too few file descriptors: `ulimit -n 4096`");
    let attack = move |address| {
        let mut connections: Vec<_> =
            (0..count).filter_map(|_| Raw::open(address, &[]).ok()).collect();
        let mut reaction = Reaction { heads: connections.len(), ..Reaction::default() };
        let end = Instant::now() + PATIENCE;
        while connections.len() > 1024 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(500));
            connections.retain_mut(|raw| !raw.is_closed());
        }
        reaction.closed = reaction.heads - connections.len();
        reaction
    };
    survive(attack, |reaction| reaction.closed + 1024 >= reaction.heads).await;
}

/// How many files this process may have open.
#[expect(clippy::disallowed_methods, reason = "the limits of a process are a file")]
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

/// Single bytes of a frame with pauses between them (slowloris).
#[tokio::test]
async fn slow_bytes() {
    let attack = |address| {
        let head = frame(HEADERS, END_HEADERS, 1, &check_head());
        let mut connections: Vec<_> =
            (0..300).filter_map(|_| Raw::open(address, &[]).ok()).collect();
        for byte in head.iter().take(40) {
            connections.retain_mut(|raw| raw.write(&[*byte]).is_ok());
            std::thread::sleep(Duration::from_millis(20));
        }
        Reaction { unread: connections.len(), ..Reaction::default() }
    };
    survive(attack, |reaction| reaction.unread == 300).await;
}

/// Messages of 10 MiB, which are over the limit, as fast as the server reads them.
#[tokio::test]
async fn messages_of_ten_mebibytes() {
    let reached = |reaction: &Reaction| reaction.heads > 100;
    let attack = move |address| {
        let start = [&[0][..], &(10_u32 << 20).to_be_bytes(), &[b'x'; 16_000]].concat();
        flood(address, reached, |raw| {
            (0..500).try_for_each(|number| {
                let stream = 2 * number + 1;
                let head = frame(HEADERS, END_HEADERS, stream, &check_head());
                raw.write(&[head, frame(DATA, 0, stream, &start)].concat())
            })?;
            Err(ErrorKind::Other.into())
        })
    };
    survive(attack, reached).await;
}

/// Many unfinished messages, each within the limit: those beyond the shared budget are denied.
#[tokio::test]
async fn messages_that_never_end() {
    let attack = |address| {
        let start = [&[0][..], &(4_u32 << 20).to_be_bytes(), &[b'x'; 16_000]].concat();
        let rest = [b'x'; 16_000];
        let mut connections = Vec::new();
        for _ in 0..150 {
            let Ok(mut raw) = Raw::open(address, &[]) else { continue };
            if raw.acknowledge_settings().is_err() {
                continue;
            }
            // As much as the windows of the connection and of its streams allow.
            for number in 0..4 {
                let stream = 2 * number + 1;
                let mut bytes = frame(HEADERS, END_HEADERS, stream, &check_head());
                bytes.extend(frame(DATA, 0, stream, &start));
                (0..14).for_each(|_| bytes.extend(frame(DATA, 0, stream, &rest)));
                let _ = raw.write(&bytes);
            }
            connections.push(raw);
        }
        let all = connections.len() * 4;
        // A denial has a body; its trailers are a head too.
        let denied = reactions(connections, |reaction| reaction.data > 0).data;
        Reaction { heads: denied, unread: all - denied, ..Reaction::default() }
    };
    survive(attack, |reaction| reaction.heads > 0 && reaction.unread > 0).await;
}

/// As many small messages that never end as the streams of 1,000 connections allow: more than may
/// wait.
#[tokio::test]
async fn more_checks_than_may_wait() {
    let reached = |reaction: &Reaction| reaction.data > 0;
    let attack = move |address| {
        let start = [&[0][..], &[0, 0, 4, 0], &[b'x'; 40]].concat();
        let begin = |number: u32| {
            let head = frame(HEADERS, END_HEADERS, 2 * number + 1, &check_head());
            [head, frame(DATA, 0, 2 * number + 1, &start)].concat()
        };
        let mut connections = Vec::new();
        for number in 0..1000_u32 {
            let Ok(mut raw) = Raw::open(address, &[]) else { continue };
            // `STREAMS_DIVIDEND` and `MIN_STREAMS` of the server.
            let streams = (1536 / (number + 4)).max(4);
            let calls: Vec<u8> = (0..streams).flat_map(begin).collect();
            let _ = raw.acknowledge_settings().and_then(|()| raw.write(&calls));
            connections.push(raw);
        }
        reactions(connections, reached)
    };
    survive(attack, reached).await;
}

/// Calls of health and reflection that begin a message of 4 MiB and never end it. tonic alone would
/// keep all of it.
#[tokio::test]
async fn unfinished_calls_of_other_services() {
    let reached = |reaction: &Reaction| reaction.heads + reaction.resets > 50;
    let attack = move |address| {
        let paths = [
            "/grpc.health.v1.Health/Check",
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        ];
        let start = [&[0][..], &(4_u32 << 20).to_be_bytes(), &[b'x'; 16_000]].concat();
        let rest = [b'x'; 16_000];
        let mut connections = Vec::new();
        for _ in 0..10 {
            let Ok(mut raw) = Raw::open(address, &[]) else { continue };
            if raw.acknowledge_settings().is_err() {
                continue;
            }
            for number in 0..16 {
                let stream = 2 * number + 1;
                let head = head_of(paths[number as usize % paths.len()]);
                let mut bytes = frame(HEADERS, END_HEADERS, stream, &head);
                bytes.extend(frame(DATA, 0, stream, &start));
                (0..10).for_each(|_| bytes.extend(frame(DATA, 0, stream, &rest)));
                let _ = raw.write(&bytes);
            }
            connections.push(raw);
        }
        reactions(connections, reached)
    };
    survive(attack, reached).await;
}

/// Four times as many health watchers as are accepted.
#[tokio::test]
async fn thousands_of_watchers() {
    let reached = |reaction: &Reaction| reaction.heads >= 1000;
    let attack = move |address| {
        let mut connections = Vec::new();
        for _ in 0..8 {
            let Ok(mut raw) = Raw::open(address, &[]) else { continue };
            let mut bytes = Vec::new();
            for number in 0..200 {
                let stream = 2 * number + 1;
                bytes.extend(frame(
                    HEADERS,
                    END_HEADERS,
                    stream,
                    &head_of("/grpc.health.v1.Health/Watch"),
                ));
                bytes.extend(frame(DATA, END_STREAM, stream, &[0; 5]));
            }
            let _ = raw.acknowledge_settings().and_then(|()| raw.write(&bytes));
            connections.push(raw);
        }
        reactions(connections, reached)
    };
    survive(attack, reached).await;
}
