//! Measures the check of paths with many interpretations, at the greatest length that Envoy
//! accepts.
//!
//! `cargo run --release -p authorizer --example hostile_paths`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that prints, and stops on an error"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Authorizer, Request, Scratch};

const POLICY: &str = "
version: 1
identity: { basic: { verify: false } }
roles:
  anyone:
    allow: ['* /**', 'GET /{a}/b/**', 'GET /*x*y*/**', 'GET /{a}/{b}/{c}']
    deny: ['* /closed/**', '* /{a}/closed/**', 'GET /*closed*', 'GET /a@b/**']
";

/// Envoy's default limit for all headers of a request: 60 KiB.
const LONGEST: usize = 60 << 10;

/// A little less than the longest path that may be ambiguous: a longer one that is not canonical is
/// denied.
const LONGEST_AMBIGUOUS: usize = 8_000;

fn main() {
    let files = document::MapFiles::new("policy.yaml", POLICY);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let authorizer =
        Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0;
    for piece in [
        "/a",
        "/",
        ";",
        "/;",
        "/;a",
        "/a;b",
        "/a%3Bb",
        "/%40",
        "%40",
        "%2540",
        "%25",
        "%2541",
        "/%2540;a%3Bb%40",
        "//",
        "/./a",
        "/a/../b",
        "/./",
        "/.//a",
        "/%2e/a",
        "/x/%2e%2e",
        "/a;b%3Bc/%2540//d",
        "/a%253Bb;c",
        "a",
        "/xxx",
        "closed",
        "/x/y/..",
        "%c3%a9",
        "/a;x/b/./c%40",
        "/%2540;a%3Bb%40/./c//d",
        "/a%3Fb",
        "/a%253Fb%23c/./d",
    ] {
        for path in [LONGEST, LONGEST_AMBIGUOUS]
            .map(|length| format!("/x{}", piece.repeat(length / piece.len())))
        {
            show(&authorizer, piece, &path);
        }
    }
    // All kinds of ambiguity in one path, in several lengths up to the limits.
    let start = "/a%40;b/%2540c%3Bd/e%253Bf/g%253Fh/i%2523j/k%3Fl/m%23n/./o";
    for length in [0, 500, 1_000, 1_500, 2_000, 4_000] {
        show(&authorizer, start, &format!("{start}{}", "/%40".repeat(length / 4)));
    }
}

fn show(authorizer: &Authorizer, piece: &str, path: &str) {
    let (cost, status) = (cost(authorizer, path).as_secs_f64() * 1e6, status(authorizer, path));
    println!("{cost:>9.1} µs  {:>5} bytes  {status}  {piece}", path.len());
}

fn status(authorizer: &Authorizer, path: &str) -> u16 {
    authorizer.check_as(&request(path), Ok(None), &mut Scratch::default(), Duration::ZERO).status()
}

fn cost(authorizer: &Authorizer, path: &str) -> Duration {
    let mut scratch = Scratch::default();
    let mut costs: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(
                authorizer
                    .check_as(&request(path), Ok(None), &mut scratch, Duration::ZERO)
                    .status(),
            );
            start.elapsed()
        })
        .collect();
    costs.sort();
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}

fn request(path: &str) -> Request<'_> {
    Request { method: b"GET", host: b"", path: path.as_bytes(), headers: &[], ..Request::default() }
}
