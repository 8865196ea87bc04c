//! Holds a running stack to the cases beside a policy.
//!
//! What a client sees is the status and the headers; which rule decided, and why a request was refused, stands in the
//! decision log, one line a request. So requests are sent one after the other, by a [`Caller`].

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use policy::cases::{Case, Expect, Proof};
use policy::model::Identity;
use serde_json::Value;

use crate::client::{Answer, Connection, Version};
use crate::process::Failed;
use crate::stack::Stack;
use crate::tokens::Signer;

/// Sends cases to Envoy, one after the other. The stack must have been started with [`ARGUMENTS`].
#[derive(Debug)]
pub struct Caller<'a> {
    stack: &'a Stack,
    identity: &'a Identity,
    signer: Option<&'a Signer>,
    connection: Connection,
    version: Version,
}

/// What `rolegate serve` needs so that every decision can be looked up.
pub const ARGUMENTS: &[&str] = &["--decision-log", "all"];

/// What came of a case.
#[derive(Debug)]
pub struct Ran {
    /// The status that came.
    pub status: u16,
    /// The status that should have come: the case's own, unless Envoy had made another path of the one in it.
    pub expected: u16,
    /// The line of the decision log; `Null` where rolegate was not asked.
    pub decision: Value,
    /// What is not as the case says; empty where all is.
    pub wrong: Vec<String>,
}

/// How long a line of the decision log may take.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a line is waited for that most likely never comes.
const LINE_OF_ENVOY: Duration = Duration::from_millis(300);

impl<'a> Caller<'a> {
    /// Connects to the stack.
    ///
    /// # Errors
    /// When Envoy does not listen.
    pub async fn connect(
        stack: &'a Stack,
        identity: &'a Identity,
        signer: Option<&'a Signer>,
        version: Version,
    ) -> Result<Self, Failed> {
        Ok(Self { stack, identity, signer, connection: stack.connect(version).await?, version })
    }

    /// Runs a case.
    ///
    /// # Errors
    /// When the request cannot be sent or no answer comes.
    pub async fn run(&mut self, case: &Case) -> Result<Ran, Failed> {
        let request = &case.request;
        if request.at.is_some() {
            return Err(Failed::new(
                case.name.as_str(),
                "a running rolegate has no other clock than the machine's",
            ));
        }
        let mut headers = request.headers.clone();
        let proof = authorization(&request.proof, self.identity, self.signer)?;
        headers.extend(proof.map(|it| ("authorization".to_owned(), it)));
        let before = self.decisions().len();
        let answer = self.send(&request.method, &request.path, &request.host, &headers).await?;
        let decision = self.decision_after(before, &answer).await;
        if let Some(path) = repaired(case, &answer, &decision) {
            let like = self.send(&request.method, path, &request.host, &headers).await?;
            self.decision_after(before + 1, &like).await;
            let like = like.status;
            let wrong = (like != answer.status).then(|| format!("`{path}` itself gets {like}"));
            return Ok(Ran { status: answer.status, expected: like, wrong: Vec::from_iter(wrong), decision });
        }
        let mut wrong = differences(&case.expect, &request.method, &answer);
        if !(decision.is_null() && case.expect.status == 400) {
            wrong.extend(unlogged(&case.expect, &decision));
        }
        Ok(Ran { status: answer.status, expected: case.expect.status, decision, wrong })
    }

    /// Envoy closes a connection after a request that it does not understand: then the next one needs another.
    async fn send(
        &mut self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[(String, String)],
    ) -> Result<Answer, Failed> {
        if let Ok(answer) = self.connection.send(method, path, host, headers, b"").await {
            return Ok(answer);
        }
        self.connection = self.stack.connect(self.version).await?;
        self.connection.send(method, path, host, headers, b"").await
    }

    fn decisions(&self) -> Vec<Value> {
        self.stack.rolegates.iter().flat_map(crate::Rolegate::decisions).collect()
    }

    /// The line of the decision log that belongs to an answer: it is written after the answer.
    async fn decision_after(&self, before: usize, answer: &Answer) -> Value {
        // A request that Envoy itself refuses never gets a line, and its answer has no body. Any other line comes, however late
        // on a busy machine; to miss it would take it for that of the next case.
        let by_envoy = answer.status == 400 && answer.text().is_empty();
        let until = Instant::now() + if by_envoy { LINE_OF_ENVOY } else { LINE_TIMEOUT };
        loop {
            let line = self.decisions().into_iter().nth(before);
            match line {
                Some(line) => return line,
                None if Instant::now() > until => return Value::Null,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }
}

/// The value of the `Authorization` header that carries a proof.
///
/// # Errors
/// When the proof is claims and there is nobody to sign them.
pub fn authorization(
    proof: &Proof,
    identity: &Identity,
    signer: Option<&Signer>,
) -> Result<Option<String>, Failed> {
    Ok(match proof {
        Proof::None => None,
        Proof::Basic(both) => Some(format!("Basic {}", STANDARD.encode(both))),
        Proof::Bearer(token) => Some(format!("Bearer {token}")),
        Proof::Claims(claims) => {
            let signer = signer.ok_or_else(|| Failed::new("claims", "nobody can sign them"))?;
            Some(format!("Bearer {}", signer.valid(identity, claims)?))
        }
    })
}

/// The path that rolegate was given, where the one of the case cannot be judged and Envoy has made one of it that can:
/// normalisation takes `/../people` for `/people`, and both rolegate and the application are given that one. What is
/// asked then is no longer what the case is about; it must get what the other path gets.
fn repaired<'d>(case: &Case, answer: &Answer, decision: &'d Value) -> Option<&'d str> {
    let path = decision.get("path")?.as_str()?;
    (case.expect.status == 400 && answer.status != 400 && path != case.request.path).then_some(path)
}

/// What a client or the application sees otherwise than expected.
fn differences(expect: &Expect, method: &str, answer: &Answer) -> Vec<String> {
    if answer.status != expect.status {
        return vec![format!("status {} instead of {}", answer.status, expect.status)];
    }
    let echo = answer.json();
    let got = |name: &str| match expect.status {
        200 if method == "HEAD" => Some("not to be seen, as the answer has no body".to_owned()),
        200 => echoed(&echo, name),
        _ => answer.header(name),
    };
    let seen = expect.headers.iter().map(|(name, value)| (name, value, got(name)));
    seen.filter(|(_, value, got)| got.as_deref().unwrap_or_default() != **value)
        .map(|(name, value, got)| format!("header `{name}` is {got:?} instead of `{value}`"))
        .collect()
}

/// What the decision log says otherwise than expected.
fn unlogged(expect: &Expect, decision: &Value) -> Vec<String> {
    let both = [("rule", &expect.rule), ("reason", &expect.reason)];
    let wanted = both.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    wanted
        .map(|(name, value)| (name, value, decision.get(name).and_then(Value::as_str)))
        .filter(|(_, value, got)| *got != Some(value))
        .map(|(name, value, got)| format!("{name} is {got:?} instead of `{value}`"))
        .collect()
}

/// A header as it reached the application; lines of the same name are joined by `, `.
fn echoed(echo: &Value, name: &str) -> Option<String> {
    let lines = echo.get("headers")?.get(name.to_ascii_lowercase())?.as_array()?;
    Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
}
