//! A whole `Check` without a socket: decode, authorize, encode, as the server does for each
//! message.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot be set up, or is wrong, stops"
)]

use std::hint::black_box;
use std::time::Duration;

use authorizer::{Authorizer, Header, Outcome, Request, Scratch, Verdict};
use benches::message::{self, ALICE, SHAPES};
use benches::people;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use envoy::CheckRequest;
use identity::FetchedKeys;
use testbed::tokens::Signer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Duration = Duration::from_secs(1_800_000_000);

/// What a server's thread has for its requests.
#[derive(Default)]
struct Thread<'a> {
    scratch: Scratch,
    lines: Vec<Header<'a>>,
}

fn check(criterion: &mut Criterion) {
    let signer = Signer::default();
    let bearer = signer.bearer("ES256", NOW.as_secs());
    let jwks = signer.key_set();
    let (basic, tokens) =
        (authorizer(people::BASIC, &jwks), authorizer(&people::with_tokens(), &jwks));
    let cases: [(&str, &Authorizer, message::Lines<'_>, &str, u16); 7] = [
        ("Basic", &basic, message::small(ALICE), "/people", 200),
        ("Basic, 1.7 KB", &basic, message::large(ALICE), "/people", 200),
        ("JWT", &tokens, message::small(&bearer), "/people", 200),
        ("Basic, not allowed", &basic, message::small(ALICE), "/secret", 403),
        ("Basic, dot segments", &basic, message::small(ALICE), "/static/../people", 200),
        ("anonymous", &basic, anonymous(), "/people", 401),
        ("invalid path", &basic, message::small(ALICE), "/people%2F1", 400),
    ];
    let mut group = criterion.benchmark_group("check");
    for (name, authorizer, lines, path, status) in cases {
        for (shape, raw_headers) in SHAPES {
            let message = message::encoded(&lines, raw_headers, path);
            // The first time costs a hash or a signature.
            authorize(authorizer, &message, &mut Thread::default());
            group.bench_function(BenchmarkId::new(name, shape), |bencher| {
                let mut thread = Thread::default();
                bencher.iter(|| {
                    let (got, answer) = authorize(authorizer, black_box(&message), &mut thread);
                    assert_eq!(got, status);
                    answer
                });
            });
        }
    }
    group.finish();
}

fn authorizer(policy: &str, jwks: &str) -> Authorizer {
    let loaded = micro::load(policy, jwks).unwrap();
    Authorizer::compile(loaded, &FetchedKeys::new(), None).unwrap().0
}

fn anonymous() -> message::Lines<'static> {
    let mut lines = message::small("");
    lines.retain(|(name, _)| *name != "authorization");
    lines
}

/// The status of the verdict, and the body of the gRPC answer; 0 if the credentials had to be
/// verified, which are then known.
fn authorize<'a>(
    authorizer: &Authorizer,
    message: &'a [u8],
    thread: &mut Thread<'a>,
) -> (u16, Vec<u8>) {
    let Thread { scratch, lines } = thread;
    lines.clear();
    let read = CheckRequest::decode(message, |line| {
        lines.push(Header { name: line.name, value: line.value });
    });
    let read = read.unwrap();
    let request = Request {
        method: read.method,
        host: read.host,
        path: read.path,
        headers: lines,
        id: read.id,
        ..Request::default()
    };
    match authorizer.check(&request, None, scratch, NOW) {
        Outcome::Decided(verdict) => answer(&verdict),
        Outcome::Pending(verification) => {
            assert!(authorizer.cache_result(&verification.run(), NOW));
            (0, Vec::new())
        }
    }
}

fn answer(verdict: &Verdict<'_>) -> (u16, Vec<u8>) {
    let body = match verdict {
        Verdict::Allowed(allowed) => {
            envoy::Encoder::default().allowed(allowed.set(), allowed.remove())
        }
        Verdict::Denied(denied) => {
            let headers = denied.headers.iter().map(|header| (header.name, &*header.value));
            envoy::Encoder::default().denied(denied.reason.status(), headers, denied.body)
        }
    };
    (verdict.status(), body.unwrap_or_else(|error| panic!("{error}")))
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = check
}
criterion_main!(benches);
