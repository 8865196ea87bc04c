//! A line of the decision log, for `rolegate explain --decision`: the request and its caller, and what was decided.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use authorizer::{
    Authorizer, ClusterProblem, ExplainedSubject, Explanation, Header, Reason, Request, RequestBody,
};
use identity::{CredentialsError, Subject, UnixTime};
use serde::{Deserialize, Serialize};

use super::body::Body;

/// Maximum bytes that are read: more than the longest line has.
const LONGEST: u64 = 1 << 20;

/// A line of the decision log.
#[derive(Debug, Deserialize)]
pub(super) struct LoggedDecision {
    #[serde(flatten)]
    outcome: Outcome,
    user: Option<String>,
    issuer: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    roles: Vec<String>,
    method: String,
    host: String,
    path: String,
    raw_path: Option<String>,
    query: Option<String>,
    client: Option<String>,
}

/// What was decided, and what a repetition may differ in.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Outcome {
    decision: String,
    reason: Option<String>,
    rule: Option<String>,
    detail: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    actions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indices: Vec<String>,
    attempted_user: Option<String>,
    attempted_issuer: Option<String>,
    policy: Option<String>,
    keys: Option<String>,
    #[serde(default)]
    inexact: bool,
}

/// A logged decision explained under a policy.
#[derive(Debug, Serialize)]
pub(super) struct Repeated {
    #[serde(flatten)]
    pub(super) explanation: Explanation,
    logged: Outcome,
    /// Whether this policy decides as the line says.
    same: bool,
    /// Whether the decision may be another one because it depends on a body, which the line does not have.
    without_body: bool,
}

/// Reads one line from a file; `-` is standard input.
///
/// # Errors
/// If there is not exactly one line, or it is not a decision.
pub(super) fn read(from: &Path) -> Result<LoggedDecision, String> {
    let shown = from.display();
    let mut text = String::new();
    let read = if from == Path::new("-") {
        io::stdin().lock().take(LONGEST).read_to_string(&mut text)
    } else {
        File::open(from).and_then(|file| file.take(LONGEST).read_to_string(&mut text))
    };
    read.map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.count()) {
        (None, _) => Err(format!("`{shown}` is empty: give one line of the decision log")),
        (Some(line), 0) => serde_json::from_str(line)
            .map_err(|error| format!("`{shown}` is not a line of the decision log: {error}")),
        (Some(_), more) => {
            Err(format!("`{shown}` has {} lines: give one line of the decision log", more + 1))
        }
    }
}

impl LoggedDecision {
    /// Explains the request for the caller that the line names.
    ///
    /// # Errors
    /// If the line has a reason that this program does not know.
    pub(super) fn explain(
        self,
        authorizer: &Authorizer,
        body: &Body,
        now: UnixTime,
    ) -> Result<Repeated, String> {
        let reason = self.outcome.reason.as_deref().map(named).transpose()?;
        let mut path = self.raw_path.unwrap_or(self.path);
        if let Some(query) = &self.query {
            path.extend(["?", query]);
        }
        let lines: Vec<_> = body.header(&[]).into_iter().collect();
        let lines =
            lines.iter().map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
        let headers: Vec<_> = lines.collect();
        let is_unseen = reason == Some(Reason::Cluster(ClusterProblem::BodyNeeded)) && !body.is_given();
        let request = Request {
            method: self.method.as_bytes(),
            host: self.host.as_bytes(),
            path: path.as_bytes(),
            headers: &headers,
            client: self.client.as_deref().unwrap_or_default().as_bytes(),
            body: if is_unseen { RequestBody::Unseen } else { body.whole() },
            ..Request::default()
        };
        let mut explanation = match (reason, self.user) {
            // These depend on headers, on the size of the message or on the load, which a line does not have.
            (
                Some(reason @ (Reason::ControlBytes | Reason::DuplicateAuthorization | Reason::Limit(_))),
                _,
            ) => authorizer.explain_denied(&request, reason),
            (Some(Reason::InvalidCredentials(error)), _) => {
                authorizer.explain(&request, ExplainedSubject::Invalid(error), now)
            }
            (_, Some(user)) => {
                let names = |names: Vec<String>| names.into_iter().map(Arc::from).collect();
                let identity = &authorizer.loaded().policy.identity;
                // Only a caller of Basic has no issuer.
                let name = self.issuer.as_deref().unwrap_or(policy::model::BASIC);
                let source = identity.sources().find(|(_, of, _)| *of == name).map(|(id, ..)| id);
                let caller = if authorizer.is_unknown_to_basic(self.host.as_bytes(), &user, source) {
                    // Removed since.
                    ExplainedSubject::Invalid(CredentialsError::BadPassword)
                } else {
                    ExplainedSubject::Given(Subject {
                        user: user.into(),
                        source,
                        issuer: self.issuer.map(Arc::from),
                        groups: names(self.groups),
                        roles: names(self.roles),
                        claims: serde_json::Value::Null,
                    })
                };
                authorizer.explain(&request, caller, now)
            }
            (_, None) => authorizer.explain(&request, ExplainedSubject::OfCredentials, now),
        };
        // The line has no credentials to find it in again.
        if self.outcome.reason.as_deref() == explanation.reason {
            explanation.detail.clone_from(&self.outcome.detail);
        }
        if let Some(keys) = &self.outcome.keys {
            explanation.without_keys = Some(format!("{keys}, as logged; not fetched for this command"));
        }
        let same = self.outcome.is(&explanation);
        let depends_on_body = explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body);
        let without_body = depends_on_body && !is_unseen && !body.is_given();
        Ok(Repeated { explanation, logged: self.outcome, same, without_body })
    }
}

/// The reason of this name.
fn named(name: &str) -> Result<Reason, String> {
    let unknown = || format!("`{name}` is not a reason: is the line from another version of rolegate?");
    Reason::all().find(|reason| reason.name() == name).ok_or_else(unknown)
}

impl Outcome {
    fn is(&self, explanation: &Explanation) -> bool {
        let rule = match &explanation.cluster {
            Some(cluster) => cluster.operation.filter(|_| explanation.status == 200).map(str::to_owned),
            None => explanation.rule.as_ref().map(|rule| format!("{}: {}", rule.role, rule.rule)),
        };
        (self.decision == "allowed") == (explanation.status == 200)
            && self.reason.as_deref() == explanation.reason
            && self.rule == rule
    }
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { explanation, logged, same, without_body } = self;
        write!(f, "{explanation}\nlogged:  {}", logged.decision)?;
        if let Some(reason) = &logged.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(rule) = &logged.rule {
            write!(f, " by `{rule}`")?;
        }
        f.write_str(if *same { ", as here" } else { ", not as here" })?;
        let claimed = [("user", &logged.attempted_user), ("issuer", &logged.attempted_issuer)];
        for (what, name) in claimed.iter().filter_map(|(what, name)| Some((what, name.as_ref()?))) {
            write!(f, "\n         the invalid credentials claim the {what} {name:?}")?;
        }
        if let Some(policy) = logged.policy.as_ref().filter(|policy| **policy != *explanation.revision.policy)
        {
            write!(f, "\n         decided by another policy: {policy}")?;
        }
        if !logged.actions.is_empty() {
            write!(f, "\n         it needed {}", logged.actions.join(", "))?;
        }
        if !logged.indices.is_empty() {
            write!(f, "\n         on {}", logged.indices.join(", "))?;
        }
        if *without_body {
            f.write_str(
                "\n         inexact: the operation depends on the body, which the line does not have: `--body` gives it",
            )?;
        }
        if logged.inexact {
            f.write_str("\n         values of the line were cut or replaced: the request was another one")?;
        }
        Ok(())
    }
}
