//! What an attacker sends, at the program itself: it stays alive, its memory stays bounded, a well-behaved client beside
//! it is served meanwhile, and all is well afterwards. Each attack is bounded in time and number.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testbed::Rolegate;
use testbed::envoy::Target;
use tokio::net::TcpStream;

use crate::frames::*;
use crate::support::*;

/// By how much the memory of the process may grow.
const GROWTH_KIB: u64 = 64 << 10;
/// No attack lasts longer.
const LIMIT: Duration = Duration::from_millis(1500);

/// Runs the attack on a fresh process, with a well-behaved client beside it.
async fn survive(attack: impl FnOnce(SocketAddr) + Send + 'static) {
    let folder = tempfile::tempdir().unwrap();
    let address = testbed::rolegate::free_address().unwrap();
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/people/policy.yaml");
    let program = Path::new(env!("CARGO_BIN_EXE_rolegate"));
    let started = Rolegate::start(program, Path::new(policy), Target::Tcp(address), folder.path(), &[]).await;
    let server = started.unwrap();
    let client = handshake(TcpStream::connect(address).await.unwrap()).await;
    assert!(check(&client, &by_alice()).await.is_ok());

    let before = resident_kib(server.id());
    let peak = Arc::new(AtomicU64::new(before));
    let over = Arc::new(AtomicBool::new(false));
    let attacker = std::thread::spawn({
        let over = over.clone();
        move || {
            attack(address);
            over.store(true, Relaxed);
        }
    });
    let mut slowest = Duration::ZERO;
    let mut asked = 0;
    while !over.load(Relaxed) || asked < 20 {
        let start = Instant::now();
        assert!(check(&client, &by_alice()).await.is_ok());
        slowest = slowest.max(start.elapsed());
        asked += 1;
        peak.fetch_max(resident_kib(server.id()), Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    attacker.join().unwrap();
    let grown = peak.load(Relaxed) - before;
    println!("grown by {grown} KiB, slowest of {asked} checks {slowest:?}");
    assert!(grown <= GROWTH_KIB, "grown by {grown} KiB");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");

    let newcomer = handshake(TcpStream::connect(address).await.unwrap()).await;
    for client in [&client, &newcomer] {
        assert!(check(client, &by_alice()).await.is_ok());
    }
}

#[expect(clippy::disallowed_methods, reason = "the memory of a process is a file")]
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Writes the same again and again, on new connections when one is closed, until the time is over.
fn hammer(
    address: SocketAddr,
    settings: &[(u16, u32)],
    mut write: impl FnMut(&mut Raw) -> std::io::Result<()>,
) {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let Ok(mut raw) = Raw::open(address, settings) else { continue };
        for _ in 0..10_000 {
            if write(&mut raw).is_err() || Instant::now() >= end {
                break;
            }
        }
    }
}

/// CVE-2023-44487.
#[tokio::test]
async fn rapid_reset() {
    survive(|address| {
        let head = check_head();
        let pair = |stream| {
            let headers = frame(HEADERS, END_HEADERS, stream, &head);
            [headers, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        let burst: Vec<u8> = (0..2000).flat_map(|number| pair(2 * number + 1)).collect();
        hammer(address, &[], |raw| {
            raw.write(&burst)?;
            raw.read();
            Err(std::io::ErrorKind::Other.into())
        });
    })
    .await;
}

/// VU#421644 (CVE-2024-27316 and others).
#[tokio::test]
async fn continuation_flood() {
    survive(|address| {
        let part = literal("x-filler", &"a".repeat(1000));
        let more = frame(CONTINUATION, 0, 1, &part);
        hammer(address, &[], |raw| {
            raw.write(&frame(HEADERS, 0, 1, &check_head()))?;
            for _ in 0..20_000 {
                raw.write(&more)?;
            }
            Ok(())
        });
    })
    .await;
}

/// One line into the table, then thousands of references to it (CVE-2016-6581).
#[tokio::test]
async fn hpack_bomb() {
    survive(|address| {
        let indexed = [&[0x40][..], &string("x"), &string(&"a".repeat(4000))].concat();
        let bomb = [check_head(), indexed, vec![0xBE; 12_000]].concat();
        let mut stream = 1;
        hammer(address, &[], move |raw| {
            raw.write(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &bomb))?;
            stream += 2;
            Ok(())
        });
    })
    .await;
}

/// CVE-2019-9515.
#[tokio::test]
async fn settings_flood() {
    survive(|address| {
        let settings = frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 16, 0]).repeat(100);
        hammer(address, &[], |raw| raw.write(&settings));
    })
    .await;
}

/// CVE-2019-9512.
#[tokio::test]
async fn ping_flood() {
    survive(|address| {
        let pings = frame(PING, 0, 0, b"12345678").repeat(100);
        hammer(address, &[], |raw| raw.write(&pings));
    })
    .await;
}

/// CVE-2019-9518.
#[tokio::test]
async fn empty_frames() {
    survive(|address| {
        let frames = frame(DATA, 0, 1, b"").repeat(1000);
        hammer(address, &[], |raw| {
            raw.write(&frame(HEADERS, END_HEADERS, 1, &check_head()))?;
            (0..1000).try_for_each(|_| raw.write(&frames))
        });
    })
    .await;
}

/// CVE-2019-9511, CVE-2019-9517: everything is asked, and no window is opened for the answers.
#[tokio::test]
async fn windows_that_stay_shut() {
    survive(|address| {
        let message = framed(&message(Shape::Raw, "GET", "/people", &[]));
        let ask = |stream| {
            let headers = frame(HEADERS, END_HEADERS, stream, &check_head());
            [headers, frame(DATA, END_STREAM, stream, &message)].concat()
        };
        let asked: Vec<u8> = (0..1000).flat_map(|number| ask(2 * number + 1)).collect();
        let mut connections = Vec::new();
        for _ in 0..20 {
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            if let Ok(mut raw) = Raw::open(address, &[(4, 0)]) {
                let _ = raw.write(&asked);
                connections.push(raw);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    })
    .await;
}

/// Ten thousand connections, or as many as the limit of file descriptors allows, that say hello and nothing more.
#[tokio::test]
async fn idle_connections() {
    let count = 10_000.min(descriptors() / 2);
    survive(move |address| {
        let connections: Vec<_> = (0..count).filter_map(|_| Raw::open(address, &[]).ok()).collect();
        println!("{} connections", connections.len());
        std::thread::sleep(Duration::from_millis(500));
    })
    .await;
}

/// How many files this process may have open.
#[expect(clippy::disallowed_methods, reason = "the limits of a process are a file")]
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

/// A byte now and then (slowloris), in the middle of a frame.
#[tokio::test]
async fn slow_bytes() {
    survive(|address| {
        let head = frame(HEADERS, END_HEADERS, 1, &check_head());
        let mut connections: Vec<_> = (0..300).filter_map(|_| Raw::open(address, &[]).ok()).collect();
        for byte in head.iter().take(40) {
            connections.retain_mut(|raw| raw.write(&[*byte]).is_ok());
            std::thread::sleep(Duration::from_millis(20));
        }
    })
    .await;
}

/// Messages of 10 MiB, which are over the limit, as fast as they are taken.
#[tokio::test]
async fn messages_of_ten_mebibytes() {
    survive(|address| {
        let start = [&[0][..], &(10_u32 << 20).to_be_bytes(), &[b'x'; 16_000]].concat();
        let mut stream = 1;
        hammer(address, &[], |raw| {
            let head = frame(HEADERS, END_HEADERS, stream, &check_head());
            raw.write(&[head, frame(DATA, 0, stream, &start)].concat())?;
            stream += 2;
            Ok(())
        });
    })
    .await;
}

/// Messages that are within the limit each, many at once, and never finished.
#[tokio::test]
async fn messages_that_never_end() {
    survive(|address| {
        let start = [&[0][..], &(4_u32 << 20).to_be_bytes(), &[b'x'; 16_000]].concat();
        let rest = [b'x'; 16_000];
        let mut connections = Vec::new();
        for _ in 0..150 {
            let Ok(mut raw) = Raw::open(address, &[]) else { continue };
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
        std::thread::sleep(Duration::from_secs(1));
    })
    .await;
}
