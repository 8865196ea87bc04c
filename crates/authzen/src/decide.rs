//! Decides questions, and writes the answers (6.2, 7.2).

use authorizer::{Authorizer, Request, Scratch, Verdict};
use identity::UnixTime;
use serde_json::{Value, json};

use crate::mapping::Mapped;
use crate::message::{Batch, Endpoint, Evaluation, Malformed};

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
        Endpoint::Evaluation => decision(decider.decide(&Evaluation::parse(body)?)),
        Endpoint::Evaluations => match Batch::parse(body)? {
            Ok(batch) => json!({ "evaluations": decider.decide_all(&batch) }),
            Err(single) => decision(decider.decide(&single)),
        },
    };
    Ok(Answer(answer.to_string()))
}

impl Decider<'_> {
    /// The decision about a question. An anonymous caller is never assumed: a subject that cannot
    /// be mapped has invalid credentials.
    fn decide(&mut self, question: &Evaluation) -> bool {
        let mapped = Mapped::new(question, self.authorizer);
        let request = Request {
            method: mapped.method.as_bytes(),
            host: mapped.host.as_bytes(),
            path: mapped.path.as_bytes(),
            id: self.id,
            ..Request::default()
        };
        let subject = mapped.subject.map(Some);
        let verdict = self.authorizer.check_as(&request, subject, self.scratch, self.now);
        (self.record)(&verdict, &request);
        match verdict {
            Verdict::Allowed(_) => true,
            Verdict::Denied(_) => false,
        }
    }

    fn decide_all(&mut self, batch: &Batch) -> Vec<Value> {
        let mut answers = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            let (is_allowed, answer) = match item {
                Ok(question) => {
                    let is_allowed = self.decide(question);
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
