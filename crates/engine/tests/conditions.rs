//! The engine and the reference evaluator agree about conditions.

use std::path::Path;

use condition::{CallerInputs, Inputs};
use engine::{AccessRequest, ConditionInputs, Decision, Engine, RoleSet};
use generator::{Generator, OwnedCaller, Shape};
use policy::reference;

/// `CONDITION_POLICIES=1000` compares more policies, each with 100 requests.
#[test]
#[expect(clippy::disallowed_methods, reason = "the number of policies is for a long run")]
fn generated_policies_with_conditions_agree_with_the_reference() {
    let policies = std::env::var("CONDITION_POLICIES").ok().and_then(|count| count.parse().ok());
    let policies: u64 = policies.unwrap_or(300);
    let mut counts = [0_usize; 4];
    for seed in 0..policies {
        let mut generator = Generator::new(Shape { one: 30, scopes: 40, ..Shape::default() }, seed);
        let mut policy = generator.policy();
        generator.add_conditions(&mut policy, 50);
        let engine = Engine::compile(&policy);
        for request in 0..100 {
            let caller = generator.caller();
            // A third of the users have an actor that calls for them.
            let actor = (request % 3 == 0 && caller.user.is_some()).then(|| generator.caller());
            let actor = actor.filter(|actor| actor.user.is_some());
            let request = generator.request(&policy, &caller);
            let inputs = generator.inputs();
            let question = inputs.question();
            let mut borrowed = caller.borrowed();
            borrowed.actor = actor.as_ref().map(|actor| actor.borrowed().into());
            let certain = reference::certain_roles(&policy, &borrowed);
            let of_caller = CallerInputs { roles: certain, ..inputs.caller(&caller) };
            let expected = reference::decide_with(
                &policy,
                &borrowed,
                &request.borrowed(),
                &Inputs {
                    request: inputs.request(&question),
                    caller: Some(&of_caller),
                    ..Inputs::default()
                },
            );
            let (roles, conditions) = match &actor {
                None => {
                    let roles = roles_of(&engine, &caller);
                    let conditions = engine.caller_conditions(&roles, inputs.caller(&caller));
                    (roles, conditions)
                }
                Some(actor) => {
                    let [user, actor] = [&caller, actor].map(|caller| roles_of(&engine, caller));
                    let (roles, conditions) = engine.both(&user, &actor, inputs.caller(&caller));
                    (roles, Some(conditions))
                }
            };
            let decision = engine.decide_with(
                &roles,
                caller.pattern_subject(),
                request.borrowed(),
                &ConditionInputs {
                    request: inputs.request(&question),
                    caller: conditions.as_ref(),
                    ..ConditionInputs::default()
                },
            );
            assert_eq!(decision, expected, "seed {seed}: {caller:?} {request:?} {inputs:?}");
            // Without the variables nothing more is allowed, and what is denied stays denied.
            if actor.is_none() {
                let blind = engine.decide(&roles, caller.pattern_subject(), request.borrowed());
                let is_allowed = |decision| matches!(decision, Decision::Allowed(_));
                assert!(!is_allowed(blind) || is_allowed(decision), "seed {seed}");
            }
            counts[match decision {
                Decision::Allowed(_) => 0,
                Decision::Denied(_) => 1,
                Decision::ConditionFailed(_) => 2,
                Decision::NotAllowed => 3,
            }] += 1;
        }
    }
    let total: usize = counts.iter().sum();
    assert!(counts.iter().all(|count| count * 50 > total), "{counts:?}");
}

fn roles_of(engine: &Engine, caller: &OwnedCaller) -> RoleSet {
    let [groups, roles] =
        [&caller.groups, &caller.roles].map(|names| names.iter().map(String::as_str));
    match &caller.user {
        None => engine.anonymous().clone(),
        Some(user) => engine.roles_of(user, groups, roles),
    }
}

/// The roles in the headers of an allowed request.
#[test]
fn a_request_has_the_roles_whose_conditions_are_true_for_its_rule() {
    let text = r#"
version: 1
identity: { basic: { verify: false } }
roles:
  guest: { allow: ["GET /teams/{team}", "GET /open"] }
  lead: { allow: ["POST /teams/{team}"], when: path.team == 'a' }
  empty: {}
  below: { extends: [under] }
  under: {}
grants:
  guest: { users: [ann] }
  lead: { users: [ann] }
  empty: { users: [ann], when: user == 'bob' }
  below: { users: [ann], when: request.method == 'GET' }
"#;
    let files = document::MapFiles::new("policy.yaml", text);
    let policy = policy::load(&files, Path::new("policy.yaml")).unwrap().policy;
    let engine = Engine::compile(&policy);
    let roles = engine.roles_of("ann", [], []);
    let caller = CallerInputs { user: Some("ann"), ..CallerInputs::default() };
    let conditions = engine.caller_conditions(&roles, caller);
    let inputs = ConditionInputs { caller: conditions.as_ref(), ..ConditionInputs::default() };
    for (action, resource, wanted) in [
        // The rule of `guest` has no condition, and its placeholder counts.
        ("GET", "/teams/a", &["guest", "lead", "below", "under"][..]),
        ("GET", "/teams/b", &["guest", "below", "under"]),
        ("GET", "/open", &["guest", "below", "under"]),
        ("POST", "/teams/a", &["guest", "lead"]),
    ] {
        let request = AccessRequest {
            action: action.as_bytes(),
            scope: b"a.test",
            resource: resource.as_bytes(),
        };
        let decision = engine.decide_with(&roles, None, request, &inputs);
        assert!(matches!(decision, Decision::Allowed(_)), "{action} {resource}");
        let held = engine.held_role_names(&roles, None, request, &inputs);
        assert_eq!(held, wanted, "{action} {resource}");
    }
}

/// A role without rules is in headers, too.
#[test]
fn a_condition_takes_a_role_that_has_no_rules() {
    let text = "version: 1\nidentity: { basic: { verify: false } }\nroles: { admin: {} }\n\
                grants: { admin: { users: [ann], when: user == 'bob' } }\n";
    let files = document::MapFiles::new("policy.yaml", text);
    let policy = policy::load(&files, Path::new("policy.yaml")).unwrap().policy;
    let engine = Engine::compile(&policy);
    let roles = engine.roles_of("ann", [], []);
    let caller = CallerInputs { user: Some("ann"), ..CallerInputs::default() };
    let conditions = engine.caller_conditions(&roles, caller);
    assert_eq!(engine.certain_role_names(&roles, conditions.as_ref()), Vec::<&str>::new());
}
