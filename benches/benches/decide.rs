//! How flat the cost of a decision is: from a known set of roles and a canonical method, host and path to the answer,
//! over the number of resources, of roles, of roles a caller has, and of callers.
//!
//! `warm` asks the same 64 questions again and again; `random` asks any of them by any caller. What is asked lies in
//! memory in the order in which it is asked, as a request does that has just been read: what is timed is the index.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark that fails ends")]

use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use engine::{Decision, Engine, Question, RoleSet};
use policy::generate::{Regular, Rng};

const WARM: usize = 64;
const RANDOM: usize = 1 << 18;
const USUAL: Regular = Regular { resources: 1_000, roles: 100, callers: 1_000, roles_per_caller: 1 };

/// One decision whose answer is known.
struct Sample {
    roles: RoleSet,
    /// Where the resource stands in the text.
    resource: Range<usize>,
    allowed: bool,
}

/// A compiled policy with everything that is asked of it, so that only decisions are timed.
struct Bench {
    engine: Engine,
    text: String,
    samples: Vec<Sample>,
}

impl Bench {
    /// Half of what is asked is allowed on purpose, half is left to chance.
    fn new(size: Regular) -> Self {
        let mut bench =
            Self { engine: Engine::compile(&size.policy()), text: String::new(), samples: Vec::new() };
        let mut rng = Rng::new(1);
        for number in 0..RANDOM {
            let caller = rng.below(size.callers);
            let resource = match number % 2 {
                0 => size.allowed_resource(caller, rng.below(1 << 30)),
                _ => rng.below(size.resources),
            };
            bench.push(&size, caller, resource);
        }
        let allowed = bench.samples.iter().filter(|sample| bench.decide(sample)).count();
        assert!(
            size.roles == 1 || (RANDOM * 2 / 5..RANDOM * 4 / 5).contains(&allowed),
            "{allowed} are allowed"
        );
        bench
    }

    fn push(&mut self, size: &Regular, caller: usize, resource: usize) {
        let start = self.text.len();
        self.text.push_str(&size.question(resource).resource);
        let roles = self.engine.roles_of(&size.user(caller), [], []);
        let allowed = size.allowed(caller, resource);
        self.samples.push(Sample { roles, resource: start..self.text.len(), allowed });
    }

    /// Decides, and sees to it that the answer is the right one.
    fn decide(&self, sample: &Sample) -> bool {
        let question = Question {
            action: b"GET",
            scope: b"api.example.com",
            resource: &self.text.as_bytes()[sample.resource.clone()],
        };
        let decision = self.engine.decide(black_box(&sample.roles), Some(b"user"), black_box(question));
        let allowed = matches!(decision, Decision::Allowed(_));
        assert_eq!(allowed, sample.allowed);
        allowed
    }
}

fn curve(criterion: &mut Criterion, name: &str, sizes: impl IntoIterator<Item = (usize, Regular)>) {
    for (number, size) in sizes {
        let bench = Bench::new(size);
        for (kind, samples) in [("warm", &bench.samples[..WARM]), ("random", &bench.samples[..])] {
            let mut group = criterion.benchmark_group(format!("decide/{name}/{kind}"));
            let mut samples = samples.iter().cycle();
            group.bench_function(BenchmarkId::from_parameter(number), |bencher| {
                bencher.iter(|| bench.decide(samples.next().unwrap()));
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
