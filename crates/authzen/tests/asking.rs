//! Questions, and the answers of a compiled policy.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Scratch, Verdict};
use authzen::{Answer, Decider, Endpoint, Malformed, answer};
use document::MapFiles;
use identity::FetchedKeys;
use serde_json::{Value, json};

/// The policy in `policy.yaml`.
pub(crate) fn compiled(files: &MapFiles) -> Authorizer {
    let loaded = policy::load(files, Path::new("policy.yaml"));
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:?}"));
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

/// The answer, and the method and path of each question that was decided.
pub(crate) fn ask(
    authorizer: &Authorizer,
    endpoint: Endpoint,
    body: &[u8],
) -> (Result<Value, Malformed>, Vec<String>) {
    let mut seen = Vec::new();
    let mut record = |verdict: &Verdict<'_>, request: &authorizer::Request<'_>, _| {
        let text = String::from_utf8_lossy;
        seen.push(format!("{} {} {}", verdict.status(), text(request.method), text(request.path)));
    };
    let mut decider = Decider {
        authorizer,
        scratch: &mut Scratch::default(),
        now: Duration::from_secs(1),
        id: b"",
        record: &mut record,
    };
    let answered = answer(endpoint, body, &mut decider);
    (answered.map(|Answer(text)| serde_json::from_str(&text).unwrap()), seen)
}

pub(crate) fn answer_of(
    authorizer: &Authorizer,
    endpoint: Endpoint,
    body: &Value,
) -> Result<Value, Malformed> {
    ask(authorizer, endpoint, body.to_string().as_bytes()).0
}

pub(crate) fn question(subject: &Value, action: &str, resource: (&str, &str)) -> Value {
    let (kind, id) = resource;
    json!({
        "subject": subject,
        "action": { "name": action },
        "resource": { "type": kind, "id": id },
    })
}

pub(crate) fn decision(authorizer: &Authorizer, question: &Value) -> bool {
    let (answer, seen) = ask(authorizer, Endpoint::Evaluation, question.to_string().as_bytes());
    let decision = answer.unwrap();
    assert_eq!(decision.as_object().unwrap().len(), 1, "{decision}");
    let decision = decision["decision"].as_bool().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(decision, seen[0].starts_with("200 "), "{seen:?}");
    decision
}

pub(crate) fn user(id: &str) -> Value {
    json!({ "type": "user", "id": id })
}
