//! How flat the cost of a decision is: from a known set of roles and a canonical method, host and
//! path to the answer, over the number of resources, of roles, of roles a caller has, and of
//! callers.
//!
//! `warm` evaluates the same 64 requests again and again; `random` evaluates any of them by any
//! caller. The requests lie in memory in the order of evaluation, as a request does that has just
//! been read: what is timed is the index. `loop` is the same with the answers taken from the
//! requests: what picking and asserting costs. It is not subtracted.

#![expect(clippy::indexing_slicing, reason = "a benchmark that fails ends")]

use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use engine::{AccessRequest, Decision, Engine, RoleSet};
use generator::{Regular, Rng};

const WARM: usize = 64;
const RANDOM: usize = 1 << 18;
const DEFAULT: Regular =
    Regular { resources: 1_000, roles: 100, callers: 1_000, roles_per_caller: 1 };

/// One decision whose answer is known.
struct Sample<'a> {
    roles: RoleSet,
    request: AccessRequest<'a>,
    allowed: bool,
}

/// A request, its caller, and where the resource is in one text.
struct Asked {
    caller: usize,
    resource: usize,
    text: Range<usize>,
}

/// Half of the requests are allowed on purpose, half are left to chance.
fn requests(size: &Regular) -> (String, Vec<Asked>) {
    let (mut text, mut asked) = (String::new(), Vec::new());
    let mut rng = Rng::new(1);
    for number in 0..RANDOM {
        let caller = rng.below(size.callers);
        let resource = match number % 2 {
            0 => size.allowed_resource(caller, rng.below(1 << 30)),
            _ => rng.below(size.resources),
        };
        let start = text.len();
        text.push_str(&size.request(resource).resource);
        asked.push(Asked { caller, resource, text: start..text.len() });
    }
    (text, asked)
}

fn samples<'a>(size: &Regular, engine: &Engine, text: &'a str, asked: &[Asked]) -> Vec<Sample<'a>> {
    let sample = |asked: &Asked| Sample {
        roles: engine.roles_of(&size.user(asked.caller), [], []),
        request: AccessRequest {
            action: b"GET",
            scope: b"api.example.com",
            resource: &text.as_bytes()[asked.text.clone()],
        },
        allowed: size.allowed(asked.caller, asked.resource),
    };
    let samples: Vec<_> = asked.iter().map(sample).collect();
    let allowed = samples.iter().filter(|sample| sample.allowed).count();
    assert!(
        size.roles == 1 || (RANDOM * 2 / 5..RANDOM * 4 / 5).contains(&allowed),
        "{allowed} are allowed"
    );
    samples
}

/// Decides, and sees to it that the answer is the right one.
fn decide_one(engine: &Engine, sample: &Sample<'_>) {
    let decision = engine.decide(
        black_box(&sample.roles),
        Some(engine::PatternSubject::named(b"user")),
        black_box(sample.request),
    );
    assert_eq!(matches!(decision, Decision::Allowed(_)), sample.allowed);
}

/// Everything that is done for a decision but the decision.
fn pick_one(sample: &Sample<'_>) {
    let request = black_box(sample.request);
    let roles = black_box(&sample.roles);
    let answer = black_box(!request.resource.is_empty() && std::ptr::eq(roles, &sample.roles));
    assert!(answer);
}

/// Picks one sample after the other, round and round: there are as many as a power of two.
fn each<'s, 'a>(samples: &'s [Sample<'a>]) -> impl FnMut() -> &'s Sample<'a> {
    assert!(samples.len().is_power_of_two());
    let mut at = 0_usize;
    move || {
        let sample = &samples[at & (samples.len() - 1)];
        at = at.wrapping_add(1);
        sample
    }
}

fn curve(criterion: &mut Criterion, name: &str, sizes: impl IntoIterator<Item = (usize, Regular)>) {
    for (number, size) in sizes {
        let engine = Engine::compile(&size.policy());
        let (text, asked) = requests(&size);
        let all = samples(&size, &engine, &text, &asked);
        all.iter().for_each(|sample| decide_one(&engine, sample));
        for (kind, samples) in [("warm", &all[..WARM]), ("random", &all[..])] {
            let mut group = criterion.benchmark_group(format!("decide/{name}/{kind}"));
            let mut next = each(samples);
            group.bench_function(BenchmarkId::from_parameter(number), |bencher| {
                bencher.iter(|| decide_one(&engine, next()));
            });
            group.finish();
        }
    }
}

fn decide(criterion: &mut Criterion) {
    let resources = [100, 1_000, 10_000, 100_000];
    curve(
        criterion,
        "resources",
        resources.map(|resources| (resources, Regular { resources, ..DEFAULT })),
    );
    let roles = [1, 10, 100, 1_000];
    curve(criterion, "roles", roles.map(|roles| (roles, Regular { roles, ..DEFAULT })));
    let per_caller = [1, 20, 40];
    let of_many = Regular { roles: 1_000, ..DEFAULT };
    let with = |roles_per_caller| (roles_per_caller, Regular { roles_per_caller, ..of_many });
    curve(criterion, "roles-per-caller", per_caller.map(with));
    let callers = [100, 10_000, 1_000_000];
    curve(criterion, "callers", callers.map(|callers| (callers, Regular { callers, ..DEFAULT })));
    let everything =
        Regular { resources: 100_000, roles: 1_000, callers: 100_000, roles_per_caller: 20 };
    curve(criterion, "everything", [(100_000, everything)]);
}

/// What the loop costs by itself.
fn nothing(criterion: &mut Criterion) {
    let engine = Engine::compile(&DEFAULT.policy());
    let (text, asked) = requests(&DEFAULT);
    let all = samples(&DEFAULT, &engine, &text, &asked);
    let mut group = criterion.benchmark_group("decide/loop");
    let mut next = each(&all[..WARM]);
    group.bench_function("64", |bencher| bencher.iter(|| pick_one(next())));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = nothing, decide
}
criterion_main!(benches);
