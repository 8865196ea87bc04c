//! Decides questions, and writes the decisions (6.2, 7.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use authorizer::{AssumedCaller, Authorizer, Question, Request, Scratch, Verdict};
use identity::{CredentialsError, UnixTime};
use serde_json::{Value, json};

use crate::context::Circumstances;
use crate::mapping::{self, Target};
use crate::message::{Batch, Entity, Evaluation, Malformed};

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
    /// Takes each verdict with the request that the question was mapped to, and its time. It does
    /// not get the verdicts about the candidates of a search.
    pub record: &'a mut dyn FnMut(&Verdict<'_>, &Request<'_>, UnixTime),
}

/// The callers of a request, by the address of the subject in memory and by host. So the default
/// subject of a batch is resolved once, however many properties it has. The map keeps the subjects
/// alive, so that no other subject gets the address of one of them.
#[derive(Default)]
pub(crate) struct Callers<'a>(BTreeMap<(*const Entity, String), (Arc<Entity>, AssumedCaller<'a>)>);

impl<'a> Decider<'a> {
    pub(crate) fn answer_single(&mut self, question: &Evaluation) -> Result<Value, Malformed> {
        self.decide_and_record(question, &mut Callers::default()).map(decision)
    }

    fn decide_and_record(
        &mut self,
        question: &Evaluation,
        callers: &mut Callers<'a>,
    ) -> Result<bool, Malformed> {
        self.decide(question, callers, true)
    }

    /// The decision about a question. A subject that is no caller of the policy counts as a caller
    /// with invalid credentials, never as an anonymous one.
    pub(crate) fn decide(
        &mut self,
        question: &Evaluation,
        callers: &mut Callers<'a>,
        is_recorded: bool,
    ) -> Result<bool, Malformed> {
        let authorizer = self.authorizer;
        // A reload may have removed the section `authzen`. Then every question is denied: it has no
        // caller and no target.
        let authzen = authorizer.loaded().policy.authzen.as_ref();
        let Circumstances { time, client } =
            Circumstances::new(&question.context, authzen, self.now)?;
        let target = authzen.map(|authzen| Target::new(question, authzen)).unwrap_or_default();
        let Target { method, host, path } = target;
        let resource = &question.resource;
        let stored = authzen.and_then(|authzen| {
            authzen.entities.resources.properties(&resource.kind, &resource.id)
        });
        let resource_properties = mapping::completed(&resource.properties, stored);
        let parts = Question::Asked {
            resource_properties: &resource_properties,
            action_properties: &question.action.properties,
            context: &question.context,
        };
        let claimed_user = authzen
            .and_then(|authzen| mapping::claimed_user(&question.subject, authzen, authorizer));
        let request = Request {
            method: method.as_bytes(),
            host: host.as_bytes(),
            path: path.as_bytes(),
            id: self.id,
            client: client.as_bytes(),
            question: Some(&parts),
            claimed_user: claimed_user.as_deref(),
            ..Request::default()
        };
        let key = (Arc::as_ptr(&question.subject), host.clone());
        let (_, caller) = callers.0.entry(key).or_insert_with(|| {
            let subject = authzen.ok_or(CredentialsError::UnknownIssuer).and_then(|authzen| {
                mapping::caller(&question.subject, request.host, authzen, authorizer)
            });
            let caller = authorizer.assumed_caller(request.host, subject);
            (Arc::clone(&question.subject), caller)
        });
        let verdict = caller.check(&request, self.scratch, time);
        if is_recorded {
            (self.record)(&verdict, &request, time);
        }
        Ok(match verdict {
            Verdict::Allowed(_) => true,
            Verdict::Denied(_) => false,
        })
    }

    pub(crate) fn decide_all(&mut self, batch: &Batch) -> Vec<Value> {
        let (mut answers, mut callers) = (Vec::new(), Callers::default());
        for item in &batch.items {
            let answered = match item {
                Ok(question) => self.decide_and_record(question, &mut callers),
                Err(error) => Err(error.clone()),
            };
            answers.push(answered.as_ref().map_or_else(failure, |decided| decision(*decided)));
            if batch.semantic.ends_with(answered == Ok(true)) {
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
