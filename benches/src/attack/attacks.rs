//! The attacks, in the order of the table.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use testbed::Stdout;

use super::passwords;
use super::report::CONTROL;

mod admin;
mod connections;
mod hashing;
mod requests;
mod streams;
pub(crate) mod tls;
pub(crate) mod tokens;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Makes the policy from that of the people example.
    pub(crate) policy: fn(&str) -> String,
    /// Further arguments of the server.
    pub(crate) arguments: &'static [&'static str],
    pub(crate) stdout: Stdout,
    /// Whether the server has TLS on TCP.
    pub(crate) tls: bool,
    /// Its duration, as a multiple of the usual one.
    pub(crate) times: u32,
    /// Whether the server's password hashing rate is measured before.
    pub(crate) hashes: bool,
    /// Attacks until the time is over. Returns a note on its progress.
    pub(crate) run: fn(&Scene) -> String,
}

/// The context of an attack.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) until: Instant,
    pub(crate) round: u32,
    /// The passwords per second that the server can hash, if measured.
    pub(crate) capacity: Option<f64>,
}

impl Scene {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// The defaults for most attacks.
const DEFAULT: Attack = Attack {
    name: "",
    policy: str::to_owned,
    arguments: &["--decision-log", "off"],
    stdout: Stdout::Discarded,
    tls: false,
    times: 1,
    hashes: false,
    run: |_| String::new(),
};

/// All attacks, after the control.
pub(crate) const ALL: &[Attack] = &[
    Attack { name: CONTROL, run: wait, ..DEFAULT },
    Attack { name: "rapid reset", run: streams::rapid_reset, ..DEFAULT },
    Attack { name: "CONTINUATION flood", run: streams::continuation_flood, ..DEFAULT },
    Attack { name: "HPACK bomb", run: streams::hpack_bomb, ..DEFAULT },
    Attack { name: "SETTINGS flood", run: streams::settings_flood, ..DEFAULT },
    Attack { name: "PING flood", run: streams::ping_flood, ..DEFAULT },
    Attack { name: "60 connections with zero windows", run: connections::zero_windows, ..DEFAULT },
    Attack { name: "10,000 idle connections", run: connections::idle, ..DEFAULT },
    Attack { name: "slow bytes", run: connections::slow_bytes, times: 2, ..DEFAULT },
    Attack { name: "10 MiB messages", run: requests::large_messages, ..DEFAULT },
    Attack { name: "broken CheckRequests", run: requests::garbage, ..DEFAULT },
    Attack {
        name: "more checks than may wait",
        arguments: &["--decision-log", "off", "--max-waiting-checks", "512"],
        run: connections::waiting,
        ..DEFAULT
    },
    Attack { name: "TLS handshakes", tls: true, run: tls::handshakes, ..DEFAULT },
    Attack { name: "TLS garbage and half handshakes", tls: true, run: tls::garbage, ..DEFAULT },
    Attack {
        name: "unfinished health and reflection calls",
        run: requests::unfinished_calls,
        ..DEFAULT
    },
    Attack { name: "4,088 health watches", run: requests::watches, ..DEFAULT },
    Attack {
        name: "decision log unread",
        arguments: &["--decision-log", "all"],
        stdout: Stdout::Unread,
        run: requests::long_decisions,
        ..DEFAULT
    },
    Attack {
        name: "names that are not verified",
        policy: unverified,
        run: requests::names,
        ..DEFAULT
    },
    Attack {
        name: "path against many globs",
        policy: globs,
        run: requests::path_against_globs,
        ..DEFAULT
    },
    Attack {
        name: "path of many interpretations",
        policy: interpretations,
        run: requests::path_of_many_interpretations,
        ..DEFAULT
    },
    Attack {
        name: "72 kept connections to the admin listener",
        run: admin::kept_connections,
        ..DEFAULT
    },
    Attack {
        name: "tokens with wrong signatures",
        policy: tokens::policy,
        run: tokens::wrong_signatures,
        ..DEFAULT
    },
    Attack {
        name: "wrong passwords, 300/s, from other addresses",
        policy: passwords::policy,
        times: 3,
        hashes: true,
        run: hashing::from_other_addresses,
        ..DEFAULT
    },
    Attack {
        name: "wrong passwords, 300/s, all from one address",
        policy: passwords::policy,
        times: 3,
        hashes: true,
        run: hashing::from_one_address,
        ..DEFAULT
    },
];

fn wait(scene: &Scene) -> String {
    std::thread::sleep(scene.left());
    "nothing is sent".to_owned()
}

/// Accepts Basic user names without verification: names are cached, and there are no passwords to
/// hash.
fn unverified(_: &str) -> String {
    "version: 1\n\
     identity: { basic: { verify: false } }\n\
     roles: { authenticated: { allow: ['GET /people'] } }\n"
        .to_owned()
}

/// Globs with a middle piece and equal ends at one node, which make a naive matcher quadratic.
fn globs(people: &str) -> String {
    let words = ["error", "warn", "debug", "trace", "fatal", "panic"];
    let globs: Vec<String> = words.iter().map(|word| format!("'GET /logs/*{word}*'")).collect();
    people.replace(
        "  guest:\n    allow: [",
        &format!("  anyone:\n    allow: [{}]\n  guest:\n    allow: [", globs.join(", ")),
    )
}

/// Rules for which every interpretation of a path has to be looked up
/// (`authorizer/examples/hostile_paths.rs`).
fn interpretations(people: &str) -> String {
    people.replace(
        "  guest:\n    allow: [",
        "  anyone:\n    allow: ['GET /{a}/b/**', 'GET /*x*y*/**', 'GET /{a}/{b}/{c}']\n    \
         deny: ['* /closed/**', '* /{a}/closed/**', 'GET /*closed*', 'GET /a@b/**']\n  guest:\n    allow: [",
    )
}
