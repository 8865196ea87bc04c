//! `who_can` on generated policies with conditions: each caller that the reference evaluator allows is
//! listed, with a condition that is true, and nobody else.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use authorizer::Authorizer;
use condition::{CallerClaims, CallerInputs, Condition, Inputs, NamedConditions, Question, holds};
use document::Place;
use explain::{Attribute, CallerSource, Callers};
use generator::{Generator, OwnedCaller, OwnedInputs, Rng, Shape};
use identity::FetchedKeys;
use policy::canonical::{self, Buffers};
use policy::model::{AuthZen, Entities};
use policy::{AccessRequest, Decision, Loaded, Policy, reference};

use crate::who_can::{Asker, add_prefixed, asked, every_caller, identity, with_parameters};

/// The conditions of an answer, by their texts.
#[derive(Default)]
struct Conditions(BTreeMap<String, Condition>);

impl Conditions {
    fn truth(&mut self, text: &str, inputs: &Inputs<'_>) -> Option<bool> {
        let condition = self.0.entry(text.to_owned()).or_insert_with(|| {
            Condition::parse(&text.into(), &NamedConditions::default())
                .unwrap_or_else(|error| panic!("{text}: {error:?}"))
        });
        holds(&condition.expression, inputs)
    }

    /// Whether this is one of the callers, with these variables.
    fn include(&mut self, callers: &Callers, asker: &Asker, inputs: &Inputs<'_>) -> bool {
        let Callers { source, users, except_users, when, condition, .. } = callers;
        if *source != asker.source
            || when.as_ref().is_some_and(|when| self.truth(when, inputs) != Some(true))
        {
            return false;
        }
        if let Some(subject) = &asker.subject {
            let user = subject.user.to_string();
            if users.as_ref().is_some_and(|users| !users.contains(&user))
                || except_users.contains(&user)
            {
                return false;
            }
        }
        let is_met = condition.needs.iter().all(|list| {
            list.iter().any(|attribute| self.has(asker, attribute, inputs) == Some(true))
        });
        is_met && condition.unless.iter().all(|one| self.has(asker, one, inputs) == Some(false))
    }

    fn has(&mut self, asker: &Asker, attribute: &Attribute, inputs: &Inputs<'_>) -> Option<bool> {
        let subject = asker.subject.as_ref();
        match attribute {
            Attribute::Anyone => Some(true),
            Attribute::Role(name) => Some(
                subject.is_some_and(|subject| subject.roles.iter().any(|role| **role == **name)),
            ),
            Attribute::Group(name) => Some(
                subject.is_some_and(|subject| subject.groups.iter().any(|group| **group == **name)),
            ),
            Attribute::When { attribute, condition } => match self.has(asker, attribute, inputs) {
                Some(true) => self.truth(condition, inputs),
                other => other,
            },
            other => panic!("only for a search cluster: {other:?}"),
        }
    }
}

/// A section that answers questions, whatever they mean.
fn authzen() -> AuthZen {
    AuthZen {
        subjects: Vec::new(),
        actions: Vec::new(),
        resources: Vec::new(),
        trust_context: false,
        entities: Entities::default(),
        at: Place::start_of(Path::new("policy.yaml")),
    }
}

#[test]
fn who_can_agrees_with_the_reference_where_conditions_decide() {
    // `make fuzz` compares more.
    let policies: u64 = if std::env::var_os("FULL_AGREEMENT").is_some() { 500 } else { 60 };
    let (mut allowed, mut denied, mut conditional, mut unless) = (0_u64, 0_u64, 0, 0);
    for seed in 0..policies {
        let shape = Shape {
            roles: 6,
            deny: 25,
            one: 30,
            user: 15,
            scopes: 40,
            rest: 35,
            extends: 20,
            ..Shape::default()
        };
        let mut generator = Generator::new(shape, seed);
        let mut rng = Rng::new(seed);
        let mut policy = generator.policy();
        generator.add_conditions(&mut policy, 50);
        policy.identity = identity(&mut rng, seed % 5 == 0);
        policy.authzen = (seed % 2 == 0).then(authzen);
        add_prefixed(&mut policy);
        let policy = Arc::new(Loaded { policy, warnings: Vec::new(), files: Vec::new() });
        let authorizer = Authorizer::compile(policy.clone(), &FetchedKeys::new(), None).unwrap().0;
        for _ in 0..4 {
            let caller = generator.caller();
            let request = generator.request(&policy.policy, &caller);
            let path = with_parameters(&request.resource, &mut rng);
            let target = (request.action.as_str(), request.scope.as_str(), path.as_str());
            let who = asked(&authorizer, target);
            if who.reason.is_some() {
                continue;
            }
            let lines = who.callers.iter();
            conditional += lines.clone().filter(|callers| callers.when.is_some()).count();
            unless += lines
                .filter(|callers| {
                    callers.condition.unless.iter().any(|one| matches!(one, Attribute::When { .. }))
                })
                .count();
            let mut conditions = Conditions::default();
            let askers = every_caller(&policy.policy, &path, &mut rng).into_iter();
            for asker in askers.skip((seed % 8) as usize).step_by(8) {
                let inputs = generator.inputs();
                // Without the section, nobody asks questions.
                let question = match policy.policy.authzen {
                    Some(_) => inputs.question(),
                    None => Question::None,
                };
                let owned = variables(&asker, &inputs);
                let caller = reference_caller(&asker);
                let roles = reference::certain_roles(&policy.policy, &caller);
                let of_caller =
                    CallerInputs { roles, ..of_source(&asker, owned.1.caller(&owned.0)) };
                let variables = Inputs {
                    request: inputs.request(&question),
                    caller: Some(&of_caller),
                    ..Inputs::default()
                };
                let is = is_allowed(&policy.policy, target, &caller, &variables);
                let says = who
                    .callers
                    .iter()
                    .any(|callers| conditions.include(callers, &asker, &variables));
                assert_eq!(says, is, "policy {seed}, {target:?}: {asker:?} {inputs:?}\n{who}");
                *(if is { &mut allowed } else { &mut denied }) += 1;
            }
        }
    }
    println!("allowed {allowed}, denied {denied}, lines: where {conditional}, unless {unless}");
    assert!(allowed > 10 * policies && denied > 10 * policies);
    assert!(conditional > 20 && unless > 20);
}

fn variables<'a>(asker: &Asker, inputs: &'a OwnedInputs) -> (OwnedCaller, &'a OwnedInputs) {
    let subject = asker.subject.as_ref();
    let texts = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
    let owned = OwnedCaller {
        user: subject.map(|subject| subject.user.to_string()),
        source: subject.and_then(|subject| subject.source),
        prefix: 0,
        groups: subject.map(|subject| texts(&subject.groups)).unwrap_or_default(),
        roles: subject.map(|subject| texts(&subject.roles)).unwrap_or_default(),
    };
    (owned, inputs)
}

/// The variables that only this source has.
fn of_source<'a>(asker: &'a Asker, inputs: CallerInputs<'a>) -> CallerInputs<'a> {
    let (issuer, scheme, claims) = match &asker.source {
        CallerSource::Anonymous => return CallerInputs::default(),
        CallerSource::Basic => (None, "basic", CallerClaims::None),
        CallerSource::ApiKey => (None, "api_key", CallerClaims::None),
        CallerSource::Certificate => (None, "certificate", CallerClaims::None),
        CallerSource::Token { issuer } => (Some(issuer.as_str()), "bearer", inputs.claims),
    };
    CallerInputs { issuer, scheme: Some(scheme), claims, ..inputs }
}

fn reference_caller(asker: &Asker) -> reference::Caller<'_> {
    let Some(subject) = &asker.subject else { return reference::Caller::default() };
    reference::Caller {
        user: Some(&subject.user),
        source: subject.source,
        groups: subject.groups.iter().map(|group| &**group).collect(),
        roles: subject.roles.iter().map(|role| &**role).collect(),
        actor: None,
    }
}

fn is_allowed(
    policy: &Policy,
    (method, host, path): (&str, &str, &str),
    caller: &reference::Caller<'_>,
    inputs: &Inputs<'_>,
) -> bool {
    let (mut buffers, mut host_buffer) = (Buffers::default(), Vec::new());
    let paths = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers).unwrap();
    let scope = canonical::host(host.as_bytes(), &mut host_buffer).unwrap();
    let decide = |resource| {
        let request = AccessRequest { action: method.as_bytes(), scope, resource };
        reference::decide_with(policy, caller, &request, inputs)
    };
    paths.all().all(|path| matches!(decide(path), Decision::Allowed(_)))
        && !paths.deny_only().any(|path| matches!(decide(path), Decision::Denied(_)))
}
