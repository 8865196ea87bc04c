//! The engine against the reference evaluator: the same expected by the same rule, whatever the
//! policy and the request.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::thread;

use engine::{Decision, Engine, RoleSet};
use generator::{Generator, OwnedCaller, Shape};
use policy::reference;

/// Of `make test`, and of `make fuzz`.
const PAIRS: usize = 200_000;
const ALL_PAIRS: usize = 1_000_000;
const QUESTIONS_OF_A_POLICY: usize = 2_000;
const CALLERS_OF_A_POLICY: usize = 20;

/// How often each expected came.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    allowed: usize,
    denied: usize,
    not_allowed: usize,
}

#[test]
fn generated_pairs_agree_with_the_reference() {
    let pairs = if std::env::var_os("FULL_AGREEMENT").is_some() { ALL_PAIRS } else { PAIRS };
    let policies = pairs / QUESTIONS_OF_A_POLICY;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<Shares> = thread::scope(|scope| {
        let run = |thread| {
            move || (thread..policies).step_by(threads).map(agree_on_one_policy).collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |one: fn(&Shares) -> usize| shares.iter().map(one).sum::<usize>();
    let (allowed, denied, not_allowed) = (
        sum(|shares| shares.allowed),
        sum(|shares| shares.denied),
        sum(|shares| shares.not_allowed),
    );
    let all = allowed + denied + not_allowed;
    println!("allowed {allowed}, denied {denied}, not allowed {not_allowed}");
    assert!(all >= pairs, "{all} pairs");
    assert!((all * 35 / 100..all * 65 / 100).contains(&allowed), "{allowed} of {all} are allowed");
    assert!(denied > all / 20, "{denied} of {all} are denied");
    assert!(not_allowed > all / 20, "{not_allowed} of {all} are not allowed");
}

fn agree_on_one_policy(number: usize) -> Shares {
    let mut generator = Generator::new(shape(number), u64::try_from(number).unwrap());
    let policy = generator.policy();
    let engine = Engine::compile(&policy);
    let mut shares = Shares::default();
    for _ in 0..CALLERS_OF_A_POLICY {
        let caller = generator.caller();
        let roles = roles_of(&engine, &caller);
        for _ in 0..QUESTIONS_OF_A_POLICY / CALLERS_OF_A_POLICY {
            let request = generator.request(&policy, &caller);
            let decision = engine.decide(&roles, caller.pattern_subject(), request.borrowed());
            let expected = reference::decide(&policy, &caller.borrowed(), &request.borrowed());
            assert_eq!(decision, expected, "policy {number}: {caller:?}: {request:?}");
            shares.count(decision);
        }
    }
    shares
}

/// Shapes of many kinds: everything, nothing but literals, many globs at a node, many rules with
/// `{user}`, many roles.
fn shape(number: usize) -> Shape {
    let usual = Shape::default();
    match number % 7 {
        0 => Shape { relative: 5, ..usual },
        1 => Shape { one: 0, user: 0, user_id: 0, glob: 0, rest: 0, words: 4, depth: 2, ..usual },
        2 => Shape { glob: 80, words: 60, depth: 2, rules_per_role: 12, ..usual },
        3 => Shape { user: 25, user_id: 25, scopes: 60, ..usual },
        // So many that globs with the same ends are looked up by what stands between them.
        4 => Shape {
            glob: 95,
            one: 0,
            user: 0,
            user_id: 0,
            rest: 0,
            slash: 0,
            depth: 1,
            rules_per_role: 60,
            ..usual
        },
        5 => Shape { roles: 150, rules_per_role: 1, roles_per_caller: 20, users: 20, ..usual },
        _ => Shape { depth: 2, rules_per_role: 20, deny: 25, roles: 5, ..usual },
    }
}

fn roles_of(engine: &Engine, caller: &OwnedCaller) -> RoleSet {
    let names = |of: &'_ [String]| of.to_vec();
    let (groups, roles) = (names(&caller.groups), names(&caller.roles));
    caller.user.as_ref().map_or_else(
        || engine.anonymous().clone(),
        |user| {
            engine.roles_of(
                user,
                groups.iter().map(String::as_str),
                roles.iter().map(String::as_str),
            )
        },
    )
}

impl Shares {
    fn count(&mut self, decision: Decision) {
        match decision {
            Decision::Allowed(_) => self.allowed += 1,
            Decision::Denied(_) => self.denied += 1,
            Decision::NotAllowed | Decision::ConditionFailed(_) => self.not_allowed += 1,
        }
    }
}
