//! What others take for the same decisions: cedar-policy, casbin and regorus, and a model of
//! Envoy's RBAC filter, with one generated policy, translated for each, and the same cases.
//!
//! Each is set up as its documentation says, once, outside of what is timed, as are the requests
//! wherever they can be made before. All must give the answer that the policy's formula gives.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot be set up, or is wrong, stops"
)]

mod casbin;
mod cedar;
mod conditions;
mod envoy_rbac;
mod regorus;
mod rolegate;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use generator::{Regular, Rng};
use policy::Policy;
use policy::model::Rule;
use policy::pattern::{Pattern, Segment};

/// Who decides.
trait Decider {
    /// A request in the form that the evaluator takes.
    type Asked;

    /// With this active policy.
    fn new(policy: &Policy) -> Self;

    /// A request, as far as it can be prepared.
    fn prepare(&self, user: &str, path: &str) -> Self::Asked;

    /// Whether the user may `GET` the path.
    fn allows(&mut self, asked: &Self::Asked) -> bool;
}

/// The forms of path that the policy has, each with what it starts with.
enum Form {
    /// Exactly this.
    Exact(String),
    /// One segment below this (`{id}`).
    One(String),
    /// What starts so, to the end of the segment (`part-*`).
    Glob(String),
    /// This and all below it (`**`).
    Below(String),
}

const RULES: [usize; 4] = [10, 100, 1_000, 10_000];
/// As many as the warm curves of `decide` ask.
const CASES: usize = 64;

/// Ten rules a role, two roles a caller.
fn size(rules: usize) -> Regular {
    Regular { resources: rules, roles: (rules / 10).max(5), callers: 1_000, roles_per_caller: 2 }
}

fn peers(criterion: &mut Criterion) {
    regorus::check_policy_for_opa();
    for rules in RULES {
        measure::<rolegate::Rolegate>(criterion, "rolegate", rules);
        measure::<envoy_rbac::Filter>(criterion, "Envoy RBAC (model)", rules);
        measure::<regorus::Interpreter>(criterion, "regorus", rules);
        measure::<regorus::Machine>(criterion, "regorus, virtual machine", rules);
        measure::<cedar::Cedar>(criterion, "cedar-policy", rules);
        measure::<casbin::Casbin>(criterion, "casbin", rules);
    }
}

fn measure<D: Decider>(criterion: &mut Criterion, name: &str, rules: usize) {
    let size = size(rules);
    let policy = size.policy();
    assert_eq!(policy.rules().count(), rules);
    let mut decider = D::new(&policy);
    let cases = cases(&size, &decider);
    for (asked, expected) in &cases {
        assert_eq!(decider.allows(asked), *expected, "{name} at {rules} rules");
    }
    let mut group = criterion.benchmark_group(format!("peers/{name}"));
    let mut next = cases.iter().cycle();
    group.bench_function(BenchmarkId::from_parameter(rules), |bencher| {
        bencher.iter(|| {
            let (asked, expected) = next.next().unwrap();
            assert_eq!(decider.allows(black_box(asked)), *expected);
        });
    });
    group.finish();
}

/// Half of the requests are allowed on purpose, half are left to chance; the formula knows the
/// answers.
fn cases<D: Decider>(size: &Regular, decider: &D) -> Vec<(D::Asked, bool)> {
    let mut rng = Rng::new(1);
    let case = |number: usize| {
        let caller = rng.below(size.callers);
        let resource = match number % 2 {
            0 => size.allowed_resource(caller, rng.below(1 << 30)),
            _ => rng.below(size.resources),
        };
        let path = size.request(resource).resource;
        (decider.prepare(&size.user(caller), &path), size.allowed(caller, resource))
    };
    let cases: Vec<_> = (0..CASES).map(case).collect();
    let allowed = cases.iter().filter(|(_, allowed)| *allowed).count();
    assert!((CASES * 2 / 5..CASES * 9 / 10).contains(&allowed), "{allowed} are allowed");
    cases
}

/// Each role's name with the names of its users.
fn users(policy: &Policy) -> impl Iterator<Item = (&str, Vec<&str>)> {
    policy.grants.iter().map(|grant| {
        let role = policy.roles.at(grant.role);
        (&*role.name, grant.users.iter().map(|user| &**user).collect())
    })
}

/// Each rule with the name of its role.
fn rules(policy: &Policy) -> impl Iterator<Item = (&str, Form)> {
    policy.roles.iter().flat_map(|role| role.allow.iter().map(|rule| (&*role.name, form(rule))))
}

fn form(rule: &Rule) -> Form {
    let [Pattern { segments, open_ended, absolute: true }] = &*rule.resources else {
        panic!("{}", rule.name)
    };
    let mut path = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(literal) => path = format!("{path}/{literal}"),
            Segment::Any(_) => return Form::One(path),
            Segment::Glob(glob) => return Form::Glob(format!("{path}/{}", glob.0.concat())),
            Segment::User | Segment::UserId(_) => panic!("{}", rule.name),
        }
    }
    if *open_ended { Form::Below(path) } else { Form::Exact(path) }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    targets = peers, conditions::conditions
}
criterion_main!(benches);
