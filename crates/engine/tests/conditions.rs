//! The engine and the reference evaluator agree about conditions.

use condition::{CallerInputs, Inputs};
use engine::{ConditionInputs, Decision, Engine};
use generator::{Generator, Shape};
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
        for _ in 0..100 {
            let caller = generator.caller();
            let request = generator.request(&policy, &caller);
            let inputs = generator.inputs();
            let borrowed = caller.borrowed();
            let certain = reference::certain_roles(&policy, &borrowed);
            let of_caller = CallerInputs { roles: certain, ..inputs.caller(&caller) };
            let expected = reference::decide_with(
                &policy,
                &borrowed,
                &request.borrowed(),
                &Inputs {
                    request: inputs.request(),
                    caller: Some(&of_caller),
                    ..Inputs::default()
                },
            );
            let roles = match &caller.user {
                None => engine.anonymous().clone(),
                Some(user) => engine.roles_of(
                    user,
                    caller.groups.iter().map(String::as_str),
                    caller.roles.iter().map(String::as_str),
                ),
            };
            let conditions = engine.caller_conditions(&roles, inputs.caller(&caller));
            let decision = engine.decide_with(
                &roles,
                caller.pattern_subject(),
                request.borrowed(),
                &ConditionInputs { request: inputs.request(), caller: conditions.as_ref() },
            );
            assert_eq!(decision, expected, "seed {seed}: {caller:?} {request:?} {inputs:?}");
            // Without the variables nothing more is allowed, and what is denied stays denied.
            let blind = engine.decide(&roles, caller.pattern_subject(), request.borrowed());
            if matches!(blind, Decision::Allowed(_)) {
                assert!(matches!(decision, Decision::Allowed(_)), "seed {seed}");
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
