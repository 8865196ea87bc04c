//! The parts of a request of a caller whose credentials are cached, on one thread and on two at once. A part that
//! writes to memory that threads share takes longer on two (P9: at most 1.05 times as long).
//!
//! `control` shares nothing: what it takes longer on two threads is the machine's doing, not ours.

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
        let authorizer = Authorizer::compile(people::load(policy, &jwks).unwrap(), &FetchedKeys::new(), None);
        Arc::new(authorizer.unwrap().0)
    };
    let (basic, tokens) = (compile(people::BASIC), compile(&people::with_tokens()));
    let snapshot = ArcSwapOption::new(Some(Arc::clone(&basic)));
    measure(criterion, "control", || {
        let mut state = 1_u64;
        move || {
            for _ in 0..64 {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
    });
    measure(criterion, "snapshot", || || assert!(black_box(snapshot.load()).is_some()));
    for (name, authorizer, credentials) in
        [("anonymous", &basic, None), ("Basic", &basic, Some(ALICE)), ("JWT", &tokens, Some(bearer.as_str()))]
    {
        measure(criterion, name, || cached_caller(authorizer, credentials));
    }
}

/// Checks requests of one caller, whose credentials are verified first.
fn cached_caller<'a>(authorizer: &'a Authorizer, credentials: Option<&'a str>) -> impl FnMut() + use<'a> {
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

/// Measures what `part` returns, on one thread and on two at once. `part` is called on each thread.
fn measure<F: FnMut()>(criterion: &mut Criterion, name: &str, part: impl Fn() -> F + Sync) {
    let mut group = criterion.benchmark_group("threads");
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new(name, threads), |bencher| {
            bencher.iter_custom(|iterations| run(&part, threads, iterations));
        });
    }
    group.finish();
}

/// How long each of these threads needs for so many iterations: the mean of all.
fn run<F: FnMut()>(part: &(impl Fn() -> F + Sync), threads: u32, iterations: u64) -> Duration {
    let barrier = Barrier::new(usize::try_from(threads).unwrap());
    let work = || {
        let mut part = part();
        // Caches are warm when the clock starts.
        (0..1_000).for_each(|_| part());
        barrier.wait();
        let start = Instant::now();
        (0..iterations).for_each(|_| part());
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum::<Duration>() / threads
    })
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
