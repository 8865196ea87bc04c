//! The parts of a request of a caller whose credentials are cached, on one thread and on two at
//! once. A part that writes to memory that threads share takes longer on two (P9: at most 1.05
//! times as long).
//!
//! `apart` is the same on two threads each of which has a policy of its own, so that they share
//! nothing: what that takes longer than one thread is the machine's doing (such as two virtual
//! processors on one core), and what two threads take longer than that is ours.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot be set up, or is wrong, stops"
)]

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use authorizer::{Authorizer, Header, Outcome, Request, Scratch};
use benches::message::ALICE;
use benches::people;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use identity::FetchedKeys;
use testbed::tokens::Signer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn threads(criterion: &mut Criterion) {
    let signer = Signer::default();
    let bearer = signer.bearer("ES256", NOW.as_secs());
    let jwks = signer.key_set();
    let compile = |policy: &str| {
        let authorizer =
            Authorizer::compile(micro::load(policy, &jwks).unwrap(), &FetchedKeys::new(), None);
        Arc::new(authorizer.unwrap().0)
    };
    // One for each thread; the first one alone where they share.
    let each = |policy: &str| [compile(policy), compile(policy)];
    let (basic, tokens) = (each(people::BASIC), each(&people::with_tokens()));
    let snapshots = basic.each_ref().map(|policy| ArcSwapOption::new(Some(Arc::clone(policy))));
    measure(criterion, "snapshot", |thread| {
        let snapshot = snapshots.get(thread).unwrap();
        move || assert!(black_box(snapshot.load()).is_some())
    });
    for (name, policies, credentials) in [
        ("anonymous", &basic, None),
        ("Basic", &basic, Some(ALICE)),
        ("JWT", &tokens, Some(bearer.as_str())),
    ] {
        measure(criterion, name, |thread| {
            cached_caller(policies.get(thread).unwrap(), credentials)
        });
    }
}

/// Checks requests of one caller, whose credentials are verified first.
fn cached_caller<'a>(
    authorizer: &'a Authorizer,
    credentials: Option<&'a str>,
) -> impl FnMut() + use<'a> {
    let line = credentials.map(|value| Header { name: b"authorization", value: value.as_bytes() });
    let status = if credentials.is_some() { 200 } else { 401 };
    let mut scratch = Scratch::default();
    let headers: Vec<Header<'a>> = line.into_iter().collect();
    let mut known = false;
    move || {
        let request = Request {
            method: b"GET",
            host: b"localhost",
            path: b"/people",
            headers: &headers,
            ..Request::default()
        };
        if !std::mem::replace(&mut known, true) {
            authorizer.check_inline(&request, &mut scratch, NOW);
        }
        match authorizer.check(black_box(&request), None, &mut scratch, NOW) {
            Outcome::Decided(verdict) => assert_eq!(verdict.status(), status),
            Outcome::Pending(_) => panic!("the caller is known"),
        }
    }
}

/// Measures what `part` returns for a policy, by its number: on one thread, on two that share the
/// first policy, and on two that have one each. `part` is called on each thread.
fn measure<F: FnMut()>(criterion: &mut Criterion, name: &str, part: impl Fn(usize) -> F + Sync) {
    let mut group = criterion.benchmark_group("threads");
    for (variant, policies) in [("1", &[0][..]), ("2", &[0, 0]), ("apart", &[0, 1])] {
        group.bench_function(BenchmarkId::new(name, variant), |bencher| {
            bencher.iter_custom(|iterations| run(&part, policies, iterations));
        });
    }
    group.finish();
}

/// How long a thread for each of these policies needs for so many iterations, all of them at once:
/// the mean of all.
fn run<F: FnMut()>(
    part: &(impl Fn(usize) -> F + Sync),
    policies: &[usize],
    iterations: u64,
) -> Duration {
    let barrier = Barrier::new(policies.len());
    let work = |policy: usize| {
        let mut part = part(policy);
        // Caches are warm when the clock starts.
        (0..1_000).for_each(|_| part());
        barrier.wait();
        let start = Instant::now();
        (0..iterations).for_each(|_| part());
        start.elapsed()
    };
    let total = std::thread::scope(|scope| {
        let running: Vec<_> = policies.iter().map(|policy| scope.spawn(|| work(*policy))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum::<Duration>()
    });
    total / u32::try_from(policies.len()).unwrap()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = threads
}
criterion_main!(benches);
