//! Policies full of globs and resources made to be hard for them, against the meaning of each
//! pattern by itself: the walk takes all nodes, of all scopes, that a segment may lead on from at
//! once.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use document::Place;
use engine::{AccessRequest, Decision, Engine, PatternSubject, RoleSet};
use generator::Rng;
use policy::Policy;
use policy::model::{Role, Rule};
use policy::pattern::{Actions, Glob, Pattern, Scope, Segment};

const LETTERS: &[&str] = &["a", "b", "%A9", "9", "%25"];

fn text(rng: &mut Rng, least: usize, most: usize) -> String {
    let count = least + rng.below(most - least + 1);
    (0..count).map(|_| *rng.pick(LETTERS).unwrap()).collect()
}

fn glob(rng: &mut Rng) -> Glob {
    let mut pieces = vec![text(rng, 0, 1)];
    while rng.percent(50) {
        pieces.push(text(rng, 1, 4));
    }
    pieces.push(text(rng, 0, 1));
    Glob(pieces.into_iter().map(Into::into).collect())
}

fn segment(rng: &mut Rng) -> Segment {
    match rng.below(10) {
        0 => Segment::Any("id".into()),
        1 => Segment::User,
        // One in four of these is longer than sixteen bytes.
        2 | 3 => {
            let times = if rng.percent(25) { 40 } else { 1 };
            Segment::Literal(text(rng, 1, 2).repeat(times).into())
        }
        _ => Segment::Glob(glob(rng)),
    }
}

fn rule(rng: &mut Rng, most: usize) -> Rule {
    let at = Place::start_of(Path::new("policy.yaml"));
    let scope = match rng.below(5) {
        0 => vec![Scope::Exact("a.test".into())],
        1 => vec![Scope::Below("test".into())],
        _ => Vec::new(),
    };
    let patterns = (0..1 + rng.below(most)).map(|_| {
        let segments = (0..1 + rng.below(3)).map(|_| segment(rng)).collect();
        Pattern { absolute: !rng.percent(3), segments, open_ended: rng.percent(10) }
    });
    let resources = patterns.collect();
    Rule { name: "rule".into(), actions: Actions::Any, scopes: scope, resources, when: None, at }
}

/// A policy in which each role has one rule, so that a decision for one role tells whether its rule
/// matches.
fn policy(rng: &mut Rng) -> Policy {
    let (rules, patterns) = (1 + rng.below(20), 1 + rng.below(20));
    let at = Place::start_of(Path::new("policy.yaml"));
    let role = |number| Role {
        name: format!("role-{number}").into(),
        extends: Vec::new(),
        allow: vec![rule(rng, patterns)],
        deny: Vec::new(),
        when: None,
        at: at.clone(),
    };
    Policy { roles: (0..rules).map(role).collect(), ..Policy::default() }
}

fn resource(rng: &mut Rng) -> String {
    let mut resource = String::new();
    for _ in 0..1 + rng.below(3) {
        let times = if rng.percent(60) { rng.below(60) } else { 1 };
        resource.push('/');
        resource.push_str(&(text(rng, 0, 3).repeat(times) + &text(rng, 0, 6)));
    }
    resource
}

#[test]
fn every_pattern_that_matches_is_found_and_no_other() {
    let mut rng = Rng::new(1);
    let (mut matched, mut decided) = (0, 0);
    for _ in 0..400 {
        let policy = policy(&mut rng);
        let engine = Engine::compile(&policy);
        let sets: Vec<RoleSet> =
            policy.roles.iter().map(|role| engine.roles_of("a", [], [&*role.name])).collect();
        for _ in 0..50 {
            let resource = resource(&mut rng);
            let scope = *rng.pick(&["a.test", "b.test", "test"]).unwrap();
            let subject = rng.percent(50).then_some(PatternSubject::named(b"a"));
            let request = AccessRequest {
                action: b"GET",
                scope: scope.as_bytes(),
                resource: resource.as_bytes(),
            };
            for ((id, _, rule, _), roles) in policy.rules().zip(&sets) {
                let matches = (rule.scopes.is_empty()
                    || rule.scopes.iter().any(|scope| scope.matches(request.scope)))
                    && rule
                        .resources
                        .iter()
                        .any(|pattern| pattern.matches(request.resource, subject));
                let expected = if matches { Decision::Allowed(id) } else { Decision::NotAllowed };
                let decision = engine.decide(roles, subject, request);
                assert_eq!(decision, expected, "`{resource}` of `{scope}`: {rule:#?}");
                matched += usize::from(matches);
                decided += 1;
            }
        }
    }
    assert!((decided / 10..decided * 9 / 10).contains(&matched), "{matched} of {decided}");
}
