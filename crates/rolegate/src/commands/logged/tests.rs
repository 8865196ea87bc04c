//! A logged decision is repeated, or not at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Authorizer, Header, Question, Request, Scratch, Verdict};
use condition::CallerClaims;
use generator::{Generator, OwnedCaller, OwnedInputs, Shape};
use identity::{FetchedKeys, Subject};
use policy::Policy;
use policy::model::{ClaimPath, SourceId};
use runtime::{DecisionContext, DecisionRecord, Received};

use super::{Answer, LoggedDecision, denial};

const ISSUERS: [&str; 2] = ["https://id.test", "https://ci.test"];

fn compile(policy: &Policy) -> Authorizer {
    let loaded = policy::Loaded { policy: policy.clone(), warnings: Vec::new(), files: Vec::new() };
    Authorizer::compile(loaded.into(), &FetchedKeys::new(), None).unwrap().0
}

/// The caller as its credentials would give it.
fn subject(caller: &OwnedCaller, inputs: &OwnedInputs) -> Option<Subject> {
    let source = caller.source.unwrap_or(SourceId::BASIC);
    let issuer = (0..2).find(|index| SourceId::from_issuer(*index) == source);
    let names = |names: &[String]| -> Vec<Arc<str>> {
        names.iter().filter(|_| issuer.is_some()).map(|name| name.as_str().into()).collect()
    };
    let claims = match inputs.caller(caller).claims {
        CallerClaims::Known(claims) => claims.clone(),
        CallerClaims::None | CallerClaims::Unknown => serde_json::Map::new(),
    };
    Some(Subject {
        user: caller.user.as_deref()?.into(),
        issuer: issuer.map(|index| ISSUERS[index].into()),
        source: Some(source),
        groups: names(&caller.groups),
        roles: names(&caller.roles),
        claims: issuer.map(|_| claims.into()).unwrap_or_default(),
        actor: None,
    })
}

fn cause(verdict: &Verdict<'_>) -> (bool, String) {
    match verdict {
        Verdict::Allowed(allowed) => (true, allowed.rule.to_owned()),
        Verdict::Denied(denied) => (false, denial(denied.reason.name(), denied.rule)),
    }
}

/// The answer, and why it is not repeated.
fn repeated(decision: &LoggedDecision, policy: &Authorizer) -> Result<(bool, String), String> {
    match decision.answer(policy) {
        Answer::Allowed(rule) => Ok((true, rule)),
        Answer::Denied(cause) => Ok((false, cause)),
        Answer::NotRepeatable(why) => Err(why.into_owned()),
    }
}

#[test]
fn a_logged_decision_of_a_generated_policy_is_repeated() {
    let mut counts = [0_usize; 4];
    for seed in 0..60 {
        let mut generator = Generator::new(Shape { one: 30, scopes: 40, ..Shape::default() }, seed);
        let mut policy = generator.policy();
        for issuer in &mut policy.identity.jwt {
            issuer.claims.roles = Some(ClaimPath(vec!["roles".into()]));
            issuer.claims.groups = Some(ClaimPath(vec!["groups".into()]));
        }
        generator.add_conditions(&mut policy, 30);
        let authorizer = compile(&policy);
        let mut changed = policy.clone();
        // A few conditions, so that the log has only some of what they read.
        generator.add_conditions(&mut changed, 30);
        let changed = compile(&changed);
        for _ in 0..50 {
            let caller = generator.caller();
            let generated = generator.request(&policy, &caller);
            let inputs = generator.inputs();
            let question = inputs.question();
            let is_asked = matches!(question, Question::Asked { .. });
            let of_request = inputs.request(&question);
            let query = String::from_utf8_lossy(of_request.query.unwrap());
            let path = format!("{}?{query}", generated.resource);
            let client = of_request.client.map(|client| client.to_string()).unwrap_or_default();
            let headers: Vec<Header<'_>> = inputs
                .header_lines()
                .iter()
                .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
                .collect();
            let request = Request {
                method: generated.action.as_bytes(),
                host: generated.scope.as_bytes(),
                path: path.as_bytes(),
                headers: &headers,
                client: client.as_bytes(),
                question: is_asked.then_some(&question),
                ..Request::default()
            };
            let now = Duration::try_from(of_request.time.unwrap().as_duration()).unwrap();
            let mut subject = subject(&caller, &inputs);
            // The properties of a subject of a question are claims, whatever its source is.
            if let Some(subject) = subject.as_mut().filter(|_| is_asked)
                && !subject.claims.is_object()
            {
                subject.claims = serde_json::json!({});
            }
            let (mut scratch, mut other) = (Scratch::default(), Scratch::default());
            let verdict = authorizer.check_as(&request, Ok(subject.clone()), &mut scratch, now);
            let arrived = Instant::now();
            let context = DecisionContext {
                authorizer: &authorizer,
                request: &request,
                client: client.as_bytes(),
                received: Received { arrived, resumed: arrived, resumed_time: now },
                decided_at: arrived,
                traceparent: b"",
                via: if is_asked { runtime::Via::Authzen } else { runtime::Via::Grpc },
            };
            let record = DecisionRecord::new(&verdict, &context, None);
            let line = serde_json::to_string(&record).unwrap();
            let decision: LoggedDecision = serde_json::from_str(&line).unwrap();
            if decision.outcome.inexact {
                continue;
            }
            let direct = cause(&verdict);
            assert_eq!(repeated(&decision, &authorizer), Ok(direct.clone()), "{seed}: {line}");
            let verdict = changed.check_as(&request, Ok(subject), &mut other, now);
            let changed_direct = cause(&verdict);
            match repeated(&decision, &changed) {
                Ok(repeated) => {
                    assert_eq!(repeated, changed_direct, "{seed}: {line}");
                    counts[usize::from(repeated.0)] += 1;
                    counts[2] += usize::from(repeated != direct);
                }
                Err(why) => {
                    assert!(why.starts_with("a condition reads `"), "{why}");
                    counts[3] += 1;
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
