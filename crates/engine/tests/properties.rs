//! What must not matter does not matter, and a `deny` never allows.

#![expect(clippy::indexing_slicing, reason = "a failed set-up is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Decision, Engine, RoleSet};
use generator::{Generator, OwnedAccessRequest, OwnedCaller, Rng, Shape};
use policy::Policy;
use policy::model::{Grant, Role, RoleId, Rule};
use policy::pattern::{Actions, Pattern, Segment};

const POLICIES: u64 = 60;
const REQUESTS: usize = 400;

/// Some policies, each with callers and their requests.
fn for_each_policy(
    mut test: impl FnMut(&Policy, &Engine, &[(OwnedCaller, OwnedAccessRequest)], &mut Rng),
) {
    for seed in 0..POLICIES {
        let mut generator = Generator::new(Shape::default(), seed);
        let policy = generator.policy();
        let requests = (0..REQUESTS).map(|_| {
            let caller = generator.caller();
            let request = generator.request(&policy, &caller);
            (caller, request)
        });
        let requests: Vec<_> = requests.collect();
        test(&policy, &Engine::compile(&policy), &requests, &mut Rng::new(seed));
    }
}

fn roles_of(engine: &Engine, caller: &OwnedCaller) -> RoleSet {
    let Some(user) = &caller.user else { return engine.anonymous().clone() };
    let groups: Vec<&str> = caller.groups.iter().map(String::as_str).collect();
    let roles: Vec<&str> = caller.roles.iter().map(String::as_str).collect();
    engine.roles_of(user, groups, roles)
}

fn decide(engine: &Engine, caller: &OwnedCaller, request: &OwnedAccessRequest) -> Decision {
    let roles = roles_of(engine, caller);
    engine.decide(&roles, caller.pattern_subject(), request.borrowed())
}

fn is_allowed(decision: Decision) -> bool {
    matches!(decision, Decision::Allowed(_))
}

/// The same kind of answer: the numbers of rules change where rules are moved.
fn same_kind(one: Decision, other: Decision) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// The same policy in another order, with some things said twice.
fn disordered(policy: &Policy, rng: &mut Rng) -> Policy {
    let mut order: Vec<usize> = (0..policy.roles.len()).collect();
    rng.shuffle(&mut order);
    let places: BTreeMap<usize, u32> = order.iter().copied().zip(0..).collect();
    let moved = |id: &RoleId| RoleId(places[&(id.0 as usize)]);
    let mut other = policy.clone();
    other.roles = order.iter().map(|place| policy.roles[*place].clone()).collect();
    for role in other.roles.iter_mut() {
        role.extends = role.extends.iter().map(moved).collect();
        shuffle_and_repeat(&mut role.extends, rng);
        shuffle_and_repeat(&mut role.allow, rng);
        shuffle_and_repeat(&mut role.deny, rng);
        for rule in role.allow.iter_mut().chain(&mut role.deny) {
            shuffle_and_repeat(&mut rule.resources, rng);
            rng.shuffle(&mut rule.scopes);
        }
    }
    for grant in &mut other.grants {
        grant.role = moved(&grant.role);
        shuffle_and_repeat(&mut grant.users, rng);
    }
    shuffle_and_repeat(&mut other.grants, rng);
    other
}

fn shuffle_and_repeat<T: Clone>(things: &mut Vec<T>, rng: &mut Rng) {
    if rng.percent(30) {
        things.extend(rng.pick(things).cloned());
    }
    rng.shuffle(things);
}

#[test]
fn order_and_repetition_never_matter() {
    for_each_policy(|policy, engine, all, rng| {
        let other = Engine::compile(&disordered(policy, rng));
        for (caller, request) in all {
            let (one, two) = (decide(engine, caller, request), decide(&other, caller, request));
            assert!(same_kind(one, two), "{caller:?}: {request:?}: {one:?}, then {two:?}");
        }
    });
}

#[test]
fn the_order_and_repetition_of_a_callers_groups_and_roles_never_matter() {
    for_each_policy(|_, engine, all, rng| {
        for (caller, _) in all {
            let mut other = caller.clone();
            shuffle_and_repeat(&mut other.groups, rng);
            shuffle_and_repeat(&mut other.roles, rng);
            assert_eq!(roles_of(engine, caller), roles_of(engine, &other), "{caller:?}");
        }
    });
}

#[test]
fn an_added_deny_never_allows() {
    let mut generator = Generator::new(Shape::default(), 1_000);
    let mut changed = 0;
    for_each_policy(|policy, engine, all, rng| {
        let mut other = policy.clone();
        let place = rng.below(other.roles.len());
        other.roles[place].deny.push(generator.rule());
        let other = Engine::compile(&other);
        for (caller, request) in all {
            let (before, after) =
                (decide(engine, caller, request), decide(&other, caller, request));
            assert!(!is_allowed(after) || is_allowed(before), "{caller:?}: {request:?}");
            changed += usize::from(is_allowed(before) && !is_allowed(after));
        }
    });
    assert!(changed > 30, "the denials changed only {changed} answers");
}

#[test]
fn an_added_allow_never_takes_away() {
    let mut generator = Generator::new(Shape::default(), 2_000);
    let mut changed = 0;
    for_each_policy(|policy, engine, all, rng| {
        let mut other = policy.clone();
        let place = rng.below(other.roles.len());
        other.roles[place].allow.push(generator.rule());
        let other = Engine::compile(&other);
        for (caller, request) in all {
            let (before, after) =
                (decide(engine, caller, request), decide(&other, caller, request));
            assert!(is_allowed(after) || !is_allowed(before), "{caller:?}: {request:?}");
            changed += usize::from(is_allowed(after) && !is_allowed(before));
        }
    });
    assert!(changed > 30, "the rules changed only {changed} answers");
}

#[test]
fn an_unrelated_rule_changes_nothing() {
    let unrelated = Pattern {
        absolute: true,
        segments: vec![Segment::Literal("unrelated".into())],
        open_ended: true,
    };
    for_each_policy(|policy, engine, all, rng| {
        let mut other = policy.clone();
        let place = other.roles.len() - 1;
        let rule = Rule {
            name: "unrelated".into(),
            actions: Actions::Any,
            scopes: Vec::new(),
            resources: vec![unrelated.clone()],
            when: None,
            at: policy.roles[0].at.clone(),
        };
        // As the last rule of the last role it leaves the numbers of all others as they are.
        other.roles[place].deny.push(rule.clone());
        other.roles.push(Role {
            name: "other".into(),
            allow: vec![rule],
            ..other.roles[0].clone()
        });
        let of_other = Grant {
            role: RoleId(u32::try_from(place + 1).unwrap()),
            users: vec!["somebody-else".into()],
            groups: Vec::new(),
            when: None,
            at: policy.roles[0].at.clone(),
        };
        other.grants.insert(rng.below(other.grants.len()), of_other);
        let other = Engine::compile(&other);
        for (caller, request) in all {
            assert_eq!(
                decide(engine, caller, request),
                decide(&other, caller, request),
                "{caller:?}: {request:?}"
            );
        }
    });
}

#[test]
fn the_names_of_a_set_are_those_of_the_reference_in_the_order_of_the_policy() {
    for_each_policy(|policy, engine, all, _| {
        for (caller, _) in all {
            let wanted = policy::reference::roles_of(policy, &caller.borrowed());
            let wanted: Vec<Arc<str>> =
                wanted.iter().map(|id| Arc::clone(&policy.roles[id.0 as usize].name)).collect();
            let names: Vec<Arc<str>> =
                engine.role_names(&roles_of(engine, caller)).map(Into::into).collect();
            assert_eq!(names, wanted, "{caller:?}");
        }
    });
}
