//! How flat the cost of a decision is: from a known set of roles and a canonical method, host and path to the answer,
//! over the number of resources, of roles, of roles a caller has, and of callers.
//!
//! `warm` asks the same 64 questions again and again; `random` asks any of them by any caller.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use engine::{Decision, Engine, Question, RoleSet};
use policy::generate::{Asked, Regular, Rng};

const WARM: usize = 64;
const RANDOM: usize = 1 << 18;
const USUAL: Regular = Regular { resources: 1_000, roles: 100, callers: 1_000, roles_per_caller: 1 };

/// One decision whose answer is known.
struct Sample {
    caller: u32,
    resource: u32,
    allowed: bool,
}

/// A compiled policy with everything that is asked of it, so that only decisions are timed.
struct Bench {
    engine: Engine,
    callers: Vec<(RoleSet, String)>,
    questions: Vec<Asked>,
    samples: Vec<Sample>,
}

impl Bench {
    fn new(size: Regular) -> Self {
        let engine = Engine::compile(&size.policy());
        let callers = (0..size.callers).map(|caller| size.user(caller));
        let callers = callers.map(|user| (engine.roles_of(&user, [], []), user)).collect();
        let questions = (0..size.resources).map(|resource| size.question(resource)).collect();
        let bench = Self { engine, callers, questions, samples: samples(size) };
        let allowed = bench.samples.iter().filter(|sample| bench.decide(sample)).count();
        let (least, most) = (bench.samples.len() * 2 / 5, bench.samples.len() * 4 / 5);
        assert!((least..most).contains(&allowed) || size.roles < 3, "{allowed} are allowed");
        bench
    }

    /// Decides, and sees to it that the answer is the right one.
    fn decide(&self, sample: &Sample) -> bool {
        let (roles, user) = &self.callers[sample.caller as usize];
        let asked = &self.questions[sample.resource as usize];
        let question = Question {
            action: asked.action.as_bytes(),
            scope: asked.scope.as_bytes(),
            resource: asked.resource.as_bytes(),
        };
        let decision = self.engine.decide(black_box(roles), Some(user.as_bytes()), black_box(question));
        let allowed = matches!(decision, Decision::Allowed(_));
        assert_eq!(allowed, sample.allowed);
        allowed
    }
}

/// Half of them is allowed on purpose, half is left to chance.
fn samples(size: Regular) -> Vec<Sample> {
    let mut rng = Rng::new(1);
    let sample = |number: usize| {
        let caller = rng.below(size.callers);
        let resource = match number % 2 {
            0 => size.allowed_resource(caller, rng.below(1 << 30)),
            _ => rng.below(size.resources),
        };
        let allowed = size.allowed(caller, resource);
        Sample { caller: u32::try_from(caller).unwrap(), resource: u32::try_from(resource).unwrap(), allowed }
    };
    (0..RANDOM).map(sample).collect()
}

fn curve(criterion: &mut Criterion, name: &str, sizes: impl IntoIterator<Item = (usize, Regular)>) {
    for (number, size) in sizes {
        let bench = Bench::new(size);
        for (kind, samples) in [("warm", &bench.samples[..WARM]), ("random", &bench.samples[..])] {
            let mut group = criterion.benchmark_group(format!("decide/{name}/{kind}"));
            let mut next = 0;
            group.bench_function(BenchmarkId::from_parameter(number), |bencher| {
                bencher.iter(|| {
                    next = (next + 1) % samples.len();
                    bench.decide(&samples[next])
                });
            });
            group.finish();
        }
    }
}

fn decide(criterion: &mut Criterion) {
    let resources = [100, 1_000, 10_000, 100_000];
    curve(criterion, "resources", resources.map(|resources| (resources, Regular { resources, ..USUAL })));
    let roles = [1, 10, 100, 1_000];
    curve(criterion, "roles", roles.map(|roles| (roles, Regular { roles, ..USUAL })));
    let per_caller = [1, 20, 40];
    let of_many = Regular { roles: 1_000, ..USUAL };
    let with = |roles_per_caller| (roles_per_caller, Regular { roles_per_caller, ..of_many });
    curve(criterion, "roles-per-caller", per_caller.map(with));
    let callers = [100, 10_000, 1_000_000];
    curve(criterion, "callers", callers.map(|callers| (callers, Regular { callers, ..USUAL })));
    let everything = Regular { resources: 100_000, roles: 1_000, callers: 100_000, roles_per_caller: 20 };
    curve(criterion, "everything", [(100_000, everything)]);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = decide
}
criterion_main!(benches);
