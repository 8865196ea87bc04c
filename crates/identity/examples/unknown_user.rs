//! Measures how long a wrong password takes for a user that exists and for one that does not, by
//! kind of hash: `cargo run -p identity --example unknown_user`.
//!
//! The hashes are cheap ones, so that a difference outside the hash is a larger part of the time.
//!
//! The two are measured in alternation, so that other load on the machine affects both. The printed
//! ratio of the medians, unknown to known, must lie within 0.95 and 1.05. On a machine too busy for
//! that, count instructions: `valgrind --tool=callgrind target/debug/examples/unknown_user known`,
//! and the same with `unknown`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that prints, and stops where it fails"
)]

use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use document::{Place, Secret};
use identity::{
    Authenticator, Credentials, CredentialsError, FetchedKeys, HashAlgorithm, LocalCache,
    hash_password,
};
use policy::model::{Basic, BasicUser, Identity};

const ROUNDS: usize = 1001;
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn main() {
    let rounds = |rounds| NonZeroU32::new(rounds).unwrap();
    let kinds = [
        ("argon2id", HashAlgorithm::Argon2id { memory: 1_024, passes: 1, lanes: 1 }),
        ("bcrypt", HashAlgorithm::Bcrypt { cost: 4 }),
        ("pbkdf2-sha256", HashAlgorithm::Pbkdf2Sha256 { rounds: rounds(1_000) }),
        ("pbkdf2-sha512", HashAlgorithm::Pbkdf2Sha512 { rounds: rounds(1_000) }),
        ("sha512-crypt", HashAlgorithm::Sha512Crypt { rounds: 1_000 }),
    ];
    if let Some(name) = std::env::args().nth(1) {
        return kinds.iter().for_each(|(_, algorithm)| repeat(&name, *algorithm));
    }
    println!("{:<14} {:>12} {:>12} {:>7}", "hash", "known µs", "unknown µs", "ratio");
    for (name, algorithm) in kinds {
        let (known, unknown) = compare(algorithm);
        println!("{name:<14} {known:>12.1} {unknown:>12.1} {:>7.3}", unknown / known);
    }
}

/// Authenticates one of the two alone, so that instructions can be counted.
fn repeat(name: &str, algorithm: HashAlgorithm) {
    let authenticator = authenticator(algorithm);
    let user = if name == "known" { "user" } else { "nobody" };
    (0..10).for_each(|round| {
        let _ = time_of(&authenticator, &format!("{user}{round}:wrong"));
    });
}

/// The medians of a known and of an unknown user, in microseconds.
fn compare(algorithm: HashAlgorithm) -> (f64, f64) {
    let authenticator = authenticator(algorithm);
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut measure_known =
            || known.push(time_of(&authenticator, &format!("user{}:wrong{round}", round % 10)));
        let mut measure_unknown =
            || unknown.push(time_of(&authenticator, &format!("nobody{round}:wrong{round}")));
        if round % 2 == 0 {
            measure_known();
            measure_unknown();
        } else {
            measure_unknown();
            measure_known();
        }
    }
    (median(known), median(unknown))
}

/// The time to reject these credentials.
fn time_of(authenticator: &Authenticator<()>, credentials: &str) -> Duration {
    let header = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials));
    let start = Instant::now();
    let mut cache = LocalCache::default();
    let authenticated = authenticator.authenticate_inline(
        Some(Credentials::Authorization(header.as_bytes())),
        NOW,
        &mut cache,
        |_| (),
    );
    let took = start.elapsed();
    assert_eq!(authenticated.err(), Some(CredentialsError::BadPassword));
    took
}

fn authenticator(algorithm: HashAlgorithm) -> Authenticator<()> {
    let at = || Place::start_of(Path::new("policy.yaml"));
    let user = |number: usize| BasicUser {
        name: format!("user{number}").into(),
        password: Some(Secret(hash_password("wonderland", algorithm).unwrap().into())),
        groups: Vec::new(),
        at: at(),
    };
    let basic = Basic {
        realm: "people".into(),
        users: (0..10).map(user).collect(),
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: at(),
    };
    let settings = Identity { basic: Some(basic), ..Identity::default() };
    Authenticator::compile(&settings, &FetchedKeys::new(), identity::Limits::default()).unwrap().0
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(ROUNDS / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
