//! Decides questions, and writes the answers (6.2, 7.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use authorizer::{AssumedCaller, Authorizer, Request, Scratch, Verdict};
use identity::{CredentialsError, UnixTime};
use serde_json::{Value, json};

use crate::mapping::{self, Target};
use crate::message::{Batch, Endpoint, Entity, Evaluation, Malformed};

/// Decides with one snapshot of the policy.
pub struct Decider<'a> {
    /// The policy.
    pub authorizer: &'a Authorizer,
    /// Buffers.
    pub scratch: &'a mut Scratch,
    /// The time of the questions.
    pub now: UnixTime,
    /// The id of the request that has the questions; may be empty.
    pub id: &'a [u8],
    /// Takes each verdict with the request that the question was mapped to.
    pub record: &'a mut dyn FnMut(&Verdict<'_>, &Request<'_>),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(pub String);

/// Answers the body of a request.
///
/// # Errors
/// If it is malformed as a whole: no decision was made.
pub fn answer(
    endpoint: Endpoint,
    body: &[u8],
    decider: &mut Decider<'_>,
) -> Result<Answer, Malformed> {
    let answer = match endpoint {
        Endpoint::Evaluation => {
            decision(decider.decide(&Evaluation::parse(body)?, &mut Callers::default()))
        }
        Endpoint::Evaluations => match Batch::parse(body)? {
            Ok(batch) => json!({ "evaluations": decider.decide_all(&batch) }),
            Err(single) => decision(decider.decide(&single, &mut Callers::default())),
        },
    };
    Ok(Answer(answer.to_string()))
}

/// The callers of a request, by subject and host: the defaults of a batch are a caller once, however
/// many properties they have.
#[derive(Default)]
struct Callers<'a>(BTreeMap<(*const Entity, String), AssumedCaller<'a>>);

impl<'a> Decider<'a> {
    /// The decision about a question. An anonymous caller is never assumed: a subject that is
    /// nobody has invalid credentials.
    fn decide(&mut self, question: &Evaluation, callers: &mut Callers<'a>) -> bool {
        let authorizer = self.authorizer;
        // A reload may have removed the section: then nobody asks, about nothing.
        let authzen = authorizer.loaded().policy.authzen.as_ref();
        let target = authzen.map(|authzen| Target::new(question, authzen)).unwrap_or_default();
        let Target { method, host, path } = target;
        let request = Request {
            method: method.as_bytes(),
            host: host.as_bytes(),
            path: path.as_bytes(),
            id: self.id,
            ..Request::default()
        };
        let key = (Arc::as_ptr(&question.subject), host.clone());
        let caller = callers.0.entry(key).or_insert_with(|| {
            let subject = authzen.ok_or(CredentialsError::UnknownIssuer).and_then(|authzen| {
                mapping::caller(&question.subject, request.host, authzen, authorizer)
            });
            authorizer.assumed_caller(request.host, subject)
        });
        let verdict = caller.check(&request, self.scratch, self.now);
        (self.record)(&verdict, &request);
        match verdict {
            Verdict::Allowed(_) => true,
            Verdict::Denied(_) => false,
        }
    }

    fn decide_all(&mut self, batch: &Batch) -> Vec<Value> {
        let (mut answers, mut callers) = (Vec::new(), Callers::default());
        for item in &batch.items {
            let (is_allowed, answer) = match item {
                Ok(question) => {
                    let is_allowed = self.decide(question, &mut callers);
                    (is_allowed, decision(is_allowed))
                }
                Err(error) => (false, failure(error)),
            };
            answers.push(answer);
            if batch.semantic.ends_with(is_allowed) {
                break;
            }
        }
        answers
    }
}

fn decision(is_allowed: bool) -> Value {
    json!({ "decision": is_allowed })
}

/// The answer to a malformed question among others (7.2.1).
fn failure(error: &Malformed) -> Value {
    let error = json!({ "status": 400, "message": error.to_string() });
    json!({ "decision": false, "context": { "error": error } })
}
