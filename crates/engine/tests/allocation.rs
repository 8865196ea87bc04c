//! Once its parts are known, a caller's decision allocates nothing.

use std::path::Path;

use document::Place;
use engine::{AccessRequest, ConditionInputs, Decision, Engine, PatternSubject};
use generator::{Generator, Shape};
use policy::Policy;
use policy::model::{Role, Rule};
use policy::pattern::{Actions, Glob, Pattern, Segment};

#[test]
fn a_decision_and_the_roles_of_a_cached_caller_allocate_nothing() {
    let mut generator = Generator::new(Shape::default(), 7);
    let policy = generator.policy();
    let engine = Engine::compile(&policy);
    let mut allowed = 0;
    for _ in 0..2_000 {
        let caller = generator.caller();
        let owned = generator.request(&policy, &caller);
        let request = owned.borrowed();
        let user = caller.user.as_deref().unwrap_or("a");
        let group = caller.groups.first().map(String::as_str);
        let counted = allocation_counter::measure(|| {
            let roles = engine.roles_of(user, [], []);
            let decision =
                engine.decide(&roles, Some(PatternSubject::named(user.as_bytes())), request);
            allowed += usize::from(matches!(decision, Decision::Allowed(_)));
            let roles = engine.roles_of("somebody", group, []);
            let decision = engine.decide(&roles, None, request);
            allowed += usize::from(matches!(decision, Decision::Allowed(_)));
        });
        assert_eq!(counted.count_total, 0, "{caller:?}: {owned:?}");
    }
    assert!(allowed > 500, "{allowed} were allowed");
}

/// The conditions of a known caller: a header, an address, an hour, a claim, a role.
#[test]
fn conditions_of_a_cached_caller_allocate_nothing() {
    let mut generator = Generator::new(Shape { one: 30, ..Shape::default() }, 7);
    let mut policy = generator.policy();
    generator.add_conditions(&mut policy, 50);
    let engine = Engine::compile(&policy);
    let (mut allowed, mut compared) = (0, 0);
    for _ in 0..2_000 {
        let caller = generator.caller();
        let owned = generator.request(&policy, &caller);
        let inputs = generator.inputs();
        let user = caller.user.as_deref().unwrap_or("a");
        let roles = engine.roles_of(user, caller.groups.iter().map(String::as_str), []);
        let conditions = engine.caller_conditions(&roles, inputs.caller(&caller));
        let question = inputs.question();
        let request = inputs.request(&question);
        // What a client encodes is decoded into a text of its own.
        if owned.resource.contains('%') || request.query.is_some_and(|query| query.contains(&b'%'))
        {
            continue;
        }
        let inputs = ConditionInputs { request, caller: conditions.as_ref(), steps_left: None };
        let subject = Some(PatternSubject::named(user.as_bytes()));
        // A regular expression makes its cache when it is first used.
        let _ = engine.decide_with(&roles, subject, owned.borrowed(), &inputs);
        let counted = allocation_counter::measure(|| {
            let decision = engine.decide_with(&roles, subject, owned.borrowed(), &inputs);
            allowed += usize::from(matches!(decision, Decision::Allowed(_)));
        });
        assert_eq!(counted.count_total, 0, "{caller:?}: {owned:?}");
        compared += 1;
    }
    assert!(allowed > 200 && compared > 500, "{allowed} of {compared} were allowed");
}

#[test]
fn globs_that_are_matched_in_one_pass_allocate_nothing() {
    let globs = ["*error*", "*warn*of*", "debug*trace*", "a*b*c", "*.json", "*.gz", "*a*z"];
    let pattern = |glob: &str| Pattern {
        absolute: true,
        segments: vec![Segment::Glob(Glob(glob.split('*').map(Into::into).collect()))],
        open_ended: false,
    };
    let at = Place::start_of(Path::new("policy.yaml"));
    let rule = Rule {
        name: "rule".into(),
        actions: Actions::Any,
        scopes: Vec::new(),
        resources: globs.map(pattern).into(),
        when: None,
        at: at.clone(),
    };
    let role = Role {
        name: "anyone".into(),
        extends: Vec::new(),
        allow: vec![rule],
        deny: Vec::new(),
        when: None,
        at,
    };
    let policy = Policy { roles: vec![role].into(), ..Policy::default() };
    let engine = Engine::compile(&policy);
    for (resource, allowed) in [
        ("/error".to_owned(), true),
        (format!("/{}.json", "errorwarnofdebug".repeat(100)), true),
        (format!("/{}", "aaaa.gz.js".repeat(100)), false),
    ] {
        let counted = allocation_counter::measure(|| {
            let request =
                AccessRequest { action: b"GET", scope: b"", resource: resource.as_bytes() };
            let decision = engine.decide(engine.anonymous(), None, request);
            assert_eq!(matches!(decision, Decision::Allowed(_)), allowed, "{resource}");
        });
        assert_eq!(counted.count_total, 0, "{resource}");
    }
}
