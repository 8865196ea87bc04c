//! Checks a running stack against the golden cases beside a policy.
//!
//! A client sees the status and the headers. The deciding rule and the reason of a denial are in
//! the decision log, a line per request. A [`Caller`] waits for it before it sends the next request,
//! so that each line can be assigned to its request.

use std::time::{Duration, Instant};

use policy::cases::{Case, Credentials, Expect};
use policy::model::{AUTHORIZATION, Identity};
use serde_json::Value;

use crate::client::{Answer, Connection, Version};
use crate::grpc::basic;
use crate::guarded::Guarded;
use crate::process::Failed;
use crate::tokens::Signer;

/// Sends the cases to the proxy in turn. Rolegate must log every decision, as with [`ARGUMENTS`].
#[derive(Debug)]
pub struct Caller<'a> {
    stack: &'a dyn Guarded,
    identity: &'a Identity,
    signer: Option<&'a Signer>,
    connection: Connection,
    version: Version,
}

/// The arguments with which `rolegate serve` logs every decision.
pub const ARGUMENTS: &[&str] = &["--decision-log", "all"];

/// The outcome of a case.
#[derive(Debug)]
pub struct Outcome {
    /// The actual status.
    pub status: u16,
    /// The expected status: that of the case, or of the path into which the proxy turned the case's.
    pub expected: u16,
    /// The line of the decision log; `Null` if the request did not reach rolegate.
    pub decision: Value,
    /// The differences from the case; empty if there are none.
    pub wrong: Vec<String>,
}

/// The maximum time for a line of the decision log to appear.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);
/// The path of a request that is sent only for its line, which no case has.
const MARKER: &str = "/line-of-a-marker";

impl<'a> Caller<'a> {
    /// Connects to the stack.
    pub async fn connect(
        stack: &'a dyn Guarded,
        identity: &'a Identity,
        signer: Option<&'a Signer>,
        version: Version,
    ) -> Result<Self, Failed> {
        Ok(Self { stack, identity, signer, connection: stack.connect(version).await?, version })
    }

    /// Runs a case.
    pub async fn run(&mut self, case: &Case) -> Result<Outcome, Failed> {
        let request = &case.request;
        if request.at.is_some() {
            let why = "a running rolegate has no other clock than the machine's";
            return Err(Failed::new(case.name.as_str(), why));
        }
        let mut headers = request.headers.clone();
        headers.extend(credentials_header(&request.credentials, self.identity, self.signer)?);
        let target = (&*request.method, &*request.host, request.body.as_bytes());
        let before = self.stack.decisions().len();
        let answer = self.send(target, &request.path, &headers).await?;
        let decision = self.decision_after(before, &answer).await?;
        if let Some(path) = repaired(case, &answer, &decision) {
            let direct = self.send(target, path, &headers).await?;
            self.decision_after(before + 1, &direct).await?;
            let (status, expected) = (answer.status, direct.status);
            let wrong = (status != expected).then(|| format!("`{path}` itself gets {expected}"));
            return Ok(Outcome { status, expected, wrong: Vec::from_iter(wrong), decision });
        }
        let mut wrong = differences(&case.expect, &request.method, &answer);
        if !(decision.is_null() && case.expect.status == 400) {
            wrong.extend(log_differences(&case.expect, &decision));
        }
        Ok(Outcome { status: answer.status, expected: case.expect.status, decision, wrong })
    }

    /// Sends a request. A proxy closes a connection after a request that it cannot parse; the next
    /// request then uses a new connection.
    async fn send(
        &mut self,
        (method, host, body): (&str, &str, &[u8]),
        path: &str,
        headers: &[(String, String)],
    ) -> Result<Answer, Failed> {
        if let Ok(answer) = self.connection.send(method, path, host, headers, body).await {
            return Ok(answer);
        }
        self.connection = self.stack.connect(self.version).await?;
        self.connection.send(method, path, host, headers, body).await
    }

    /// The decision log line of a request, which is written after the response; `Null` if there is
    /// none. `before` is the number of earlier lines.
    ///
    /// Every line but those of invalid requests does appear, perhaps late on a busy machine; without
    /// waiting for it, it would be taken for the line of the next case. An invalid request has no
    /// line if the proxy itself answers it. The lines have the order of the requests: it has none if
    /// the line of a later request comes first.
    async fn decision_after(&mut self, before: usize, answer: &Answer) -> Result<Value, Failed> {
        let is_invalid = answer.status == 400;
        if is_invalid {
            self.send(("GET", "localhost", b""), MARKER, &[]).await?;
        }
        let end = Instant::now() + LINE_TIMEOUT;
        loop {
            let mut lines = self.stack.decisions().into_iter().skip(before);
            match (lines.next(), lines.next()) {
                (Some(line), _) if is_invalid && is_marker(&line) => return Ok(Value::Null),
                (Some(line), next) if !is_invalid || next.is_some() => return Ok(line),
                _ if Instant::now() > end => return Ok(Value::Null),
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }
}

fn is_marker(line: &Value) -> bool {
    line.get("path").and_then(Value::as_str) == Some(MARKER)
}

/// The header with these credentials.
pub fn credentials_header(
    credentials: &Credentials,
    identity: &Identity,
    signer: Option<&Signer>,
) -> Result<Option<(String, String)>, Failed> {
    if let Credentials::ApiKey(key) = credentials {
        let name = identity.api_key_header();
        let name = name.ok_or_else(|| Failed::new("api_key", "the policy has no API keys"))?;
        return Ok(Some((name.to_owned(), key.clone())));
    }
    Ok(match credentials {
        Credentials::None | Credentials::ApiKey(_) => None,
        Credentials::Basic(credentials) => Some((AUTHORIZATION.to_owned(), basic(credentials))),
        Credentials::Bearer(token) => Some(identity.token_line(token)),
        Credentials::User { .. } => {
            return Err(Failed::new("user", "a running rolegate needs credentials"));
        }
        Credentials::Claims(claims) => {
            let signer = signer.ok_or_else(|| Failed::new("claims", "nobody can sign them"))?;
            Some(identity.token_line(&signer.valid(identity, claims)?))
        }
    })
}

/// The path that rolegate received, if the proxy has turned the invalid path of the case into a
/// valid path: normalisation turns `/../people` into `/people`. The request must then get the
/// result of the valid path.
fn repaired<'d>(case: &Case, answer: &Answer, decision: &'d Value) -> Option<&'d str> {
    let path = decision.get("path")?.as_str()?;
    (case.expect.status == 400 && answer.status != 400 && path != case.request.path).then_some(path)
}

/// The differences from the expectation in the response and in the forwarded request.
fn differences(expect: &Expect, method: &str, answer: &Answer) -> Vec<String> {
    if answer.status != expect.status {
        return vec![format!("status {} instead of {}", answer.status, expect.status)];
    }
    let echo = answer.json();
    let received = |name: &str| match expect.status {
        200 if method == "HEAD" => Some("unknown: the answer to HEAD has no body".to_owned()),
        200 => echoed(&echo, name),
        _ => answer.header(name),
    };
    let headers = expect.headers.iter().map(|(name, value)| (name, value, received(name)));
    headers
        .filter(|(_, value, received)| received.as_deref().unwrap_or_default() != **value)
        .map(|(name, value, received)| {
            format!("header `{name}` is {received:?} instead of `{value}`")
        })
        .collect()
}

/// The differences from the expectation in the decision log.
fn log_differences(expect: &Expect, decision: &Value) -> Vec<String> {
    let fields = [("rule", &expect.rule), ("reason", &expect.reason)];
    fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
        .map(|(name, value)| (name, value, decision.get(name).and_then(Value::as_str)))
        .filter(|(_, value, logged)| *logged != Some(value))
        .map(|(name, value, logged)| format!("{name} is {logged:?} instead of `{value}`"))
        .collect()
}

/// A header as received by the application; duplicate lines are joined by `, `.
fn echoed(echo: &Value, name: &str) -> Option<String> {
    if name == ":path" {
        return echo.get("path")?.as_str().map(str::to_owned);
    }
    let lines = echo.get("headers")?.get(name.to_ascii_lowercase())?.as_array()?;
    Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
}
