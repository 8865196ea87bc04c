//! A line of the decision log: the request, its caller, and the decision.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use authorizer::{
    Authorizer, ClusterProblem, Reason, RecordedInputs, Request, RequestBody, Scratch, Stage,
    Verdict,
};
use explain::{
    ExplainedSubject, Explainer, Explanation, Fixes, LoggedAccess, RestoredInputs,
    missing_prefix_message, unverified_subject,
};
use identity::{Certificate, CredentialsError, Subject, UnixTime};
use policy::model::{API_KEYS, BASIC, CERTIFICATES, SourceId};
use runtime::{Via, clock};
use serde::{Deserialize, Serialize};

use super::request::{Body, borrowed_headers};

/// A line of the decision log.
///
/// The methods that evaluate its request again do so for the caller that the line names.
#[derive(Debug, Deserialize)]
pub(super) struct LoggedDecision {
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    /// The user, with its prefix.
    pub(super) user: Option<String>,
    pub(super) issuer: Option<String>,
    scheme: Option<String>,
    /// The actor that called for the user.
    actor: Option<String>,
    /// The names of the certificate of the caller or of its actor.
    #[serde(default)]
    certificate: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    pub(super) method: String,
    #[serde(default)]
    pub(super) host: String,
    #[serde(default)]
    pub(super) path: String,
    raw_path: Option<String>,
    query: Option<String>,
    client: Option<String>,
    time: Option<f64>,
    sampled: Option<f64>,
    #[serde(default)]
    via: Via,
    #[serde(default)]
    masked: bool,
    /// The values that conditions read when the request was decided.
    #[serde(default)]
    condition_inputs: RecordedInputs,
}

/// The decision.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Outcome {
    decision: String,
    pub(super) reason: Option<String>,
    pub(super) rule: Option<String>,
    pub(super) detail: Option<String>,
    /// The actions and indices of a request to a search cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) indices: Vec<String>,
    attempted_user: Option<String>,
    attempted_issuer: Option<String>,
    policy: Option<String>,
    keys: Option<String>,
    /// Whether values of the line were cut or replaced.
    #[serde(default)]
    pub(super) inexact: bool,
}

/// A logged decision with the explanation of its request under a policy.
#[derive(Debug, Serialize)]
pub(super) struct ExplainedDecision {
    #[serde(flatten)]
    pub(super) explanation: Explanation,
    /// What would allow the request. `None` without `--fix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fixes: Option<Fixes>,
    logged: Outcome,
    /// Whether this policy decides as the line says.
    pub(super) same: bool,
    /// Whether this policy's decision is inexact: it depends on a body, and none is given.
    #[serde(rename = "without_body")]
    is_inexact_without_body: bool,
}

impl LoggedDecision {
    /// Explains the request. `None` if the line has a reason that this program does not know.
    pub(super) fn explain(
        self,
        authorizer: &Authorizer,
        (body, fix): (&Body, bool),
        now: UnixTime,
    ) -> Option<ExplainedDecision> {
        let explainer = Explainer::new(authorizer);
        let reason = match &self.outcome.reason {
            Some(name) => Some(find_reason(name)?),
            None => None,
        };
        let (mut notes, mut unknown_user_detail) = (Vec::new(), None);
        let host = self.host.as_bytes();
        let mut caller = match (reason, &self.user) {
            (Some(Reason::InvalidCredentials(error)), _) => ExplainedSubject::Invalid(error),
            (_, Some(_)) if self.has_certificate_under(authorizer) => {
                match explainer.user_with_certificate(host, &self.certificate) {
                    Ok(Some(subject)) => ExplainedSubject::Given(subject),
                    Ok(None) => ExplainedSubject::FromRequest,
                    Err(error) => ExplainedSubject::Invalid(error),
                }
            }
            (_, Some(user)) => {
                let identity = explainer.identity_on(host);
                let name = self.source();
                let source = identity.sources().find(|(_, source, _)| *source == name);
                let source = source.map(|(id, ..)| id);
                if explainer.is_unknown_user(host, user, source) {
                    // The user was removed since, or had another prefix. A request of an unknown
                    // user is answered as with a wrong password or key.
                    unknown_user_detail =
                        Some(format!("the line names `{user}`, and the policy has no such user"));
                    notes.extend(missing_prefix_message(user, identity));
                    ExplainedSubject::Invalid(self.unknown_user_error())
                } else {
                    // The subject keeps the roles and groups that this policy does not take. Notes
                    // name them.
                    let subject = self.subject_as_logged(user, source);
                    notes = explainer.notes_on_logged_subject(host, &subject);
                    ExplainedSubject::Given(subject)
                }
            }
            // The request has no credentials: the caller is anonymous.
            (_, None) => ExplainedSubject::FromRequest,
        };
        let restored = match &mut caller {
            ExplainedSubject::Given(subject) => self.restore(authorizer, Some(subject)),
            ExplainedSubject::FromRequest => self.restore(authorizer, None),
            ExplainedSubject::Invalid(_) => RestoredInputs::default(),
        };
        let target = self.target(&restored);
        let no_headers = [];
        let content_type = body.content_type_header(&no_headers);
        let mut headers = restored.header_lines();
        headers.extend(borrowed_headers(content_type.as_slice()));
        let no_body = !body.is_given();
        let was_denied_without_body = reason == Some(Reason::Cluster(ClusterProblem::BodyNeeded));
        let restored_certificate = restored.certificate.as_deref().map(Certificate::Named);
        let (logged, question) = (self.request(&target), restored.question());
        let request = Request {
            headers: &headers,
            question: self.is_question().then_some(&question),
            certificate: restored_certificate.or(logged.certificate),
            body: if no_body && was_denied_without_body {
                RequestBody::Unavailable
            } else {
                body.whole()
            },
            ..logged
        };
        let explainer = explainer.at(self.decided_at(&restored));
        let mut explanation = match reason {
            // Such denials depend on headers, on the size of the message or on the load, which a
            // line does not have.
            Some(reason) if matches!(reason.stage(), Stage::Headers | Stage::Limit) => {
                explainer.explain_denied(&request, reason)
            }
            _ => explainer.explain(&request, caller.clone(), now),
        };
        let fixes = fix.then(|| match self.outcome.inexact {
            // The line may have a hash in place of a name. A grant to the hash would be a grant to
            // nobody, or to whoever has the hash as a name.
            true => Fixes { needed: vec![NOT_MASKED.to_owned()], ..Fixes::default() },
            false => explainer.fixes(&request, caller, &explanation, (true, now)),
        });
        if unknown_user_detail.is_some() {
            explanation.detail = unknown_user_detail;
        } else if self.outcome.reason.as_deref() == explanation.reason {
            // The detail of the log: without the credentials it cannot be found again.
            explanation.detail.clone_from(&self.outcome.detail);
        }
        if explanation.status != 200 {
            explanation.notes.extend(notes);
        }
        explanation.notes.extend(restored.missing.iter().map(|name| missing(name)));
        if let Some(keys) = &self.outcome.keys {
            explanation.keys_note =
                Some(format!("{keys}, as logged; not fetched for this command"));
        }
        let same = self.outcome.is_same_as(&explanation);
        let depends_on_body =
            explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body);
        // If the request was denied because Envoy had not sent the body, it is evaluated again
        // without a body: this is exact.
        let is_inexact_without_body = depends_on_body && no_body && !was_denied_without_body;
        Some(ExplainedDecision {
            explanation,
            fixes,
            logged: self.outcome,
            same,
            is_inexact_without_body,
        })
    }
}

/// How a policy answers a logged request.
pub(super) enum Answer {
    /// The request is allowed, by this rule.
    Allowed(String),
    /// The request is denied, for this reason, with the rule that denies.
    Denied(String),
    /// The line does not say enough, for this reason: the answer depended on credentials, headers,
    /// a body or the load.
    NotRepeatable(Cow<'static, str>),
}

/// The beginning of a hash that a mask puts in the place of a user's name.
const HASHED_USER: &str = "hmac:";

/// What must be known before a change can be proposed for a line that is cut or masked.
const NOT_MASKED: &str = "the actual request: values of the line were cut or replaced";

/// Why the answer of a search cluster is not repeated.
const CLUSTER: &str = "a search cluster's files decide, for which the line does not say enough";

impl LoggedDecision {
    /// Evaluates the request again. A user of Basic has the groups that this policy gives it. The
    /// caller with a token has those roles and groups of the line that this policy takes from the
    /// tokens of its issuer.
    pub(super) fn answer(&self, authorizer: &Authorizer) -> Answer {
        if let Some(why) = self.not_repeatable() {
            return Answer::NotRepeatable(why.into());
        }
        let mut subject = match &self.user {
            None => Ok(None),
            Some(_) if self.has_certificate_under(authorizer) => {
                let host = self.host.as_bytes();
                Explainer::new(authorizer).user_with_certificate(host, &self.certificate)
            }
            Some(user) => self.subject_under(authorizer, user).map(Some),
        };
        let restored = match &mut subject {
            Ok(subject) => self.restore(authorizer, subject.as_mut()),
            Err(_) => RestoredInputs::default(),
        };
        if let Some(name) = restored.missing.first() {
            return Answer::NotRepeatable(missing(name).into());
        }
        let (target, mut scratch) = (self.target(&restored), Scratch::default());
        let headers = restored.header_lines();
        let question = restored.question();
        let question = self.is_question().then_some(&question);
        let mut request = Request { headers: &headers, question, ..self.request(&target) };
        let restored_certificate = restored.certificate.as_deref().map(Certificate::Named);
        request.certificate = restored_certificate.or(request.certificate);
        let now = self.decided_at(&restored).unwrap_or_else(clock::now);
        match authorizer.check_as(&request, subject, &mut scratch, now) {
            // The cluster may have denied it only because the line has no body.
            Verdict::Denied(denied) if denied.reason.stage() == Stage::Cluster => {
                Answer::NotRepeatable(CLUSTER.into())
            }
            Verdict::Denied(denied) => Answer::Denied(denial(denied.reason.name(), denied.rule)),
            Verdict::Allowed(allowed) => Answer::Allowed(allowed.rule.to_owned()),
        }
    }

    /// Why the line does not say enough to decide its request again.
    fn not_repeatable(&self) -> Option<&'static str> {
        let Some(reason) = find_reason(self.outcome.reason.as_deref()?) else {
            return Some("this version of rolegate does not know the reason of the denial");
        };
        Some(match reason.stage() {
            Stage::Credentials
                if reason == Reason::InvalidCredentials(CredentialsError::KeysUnavailable) =>
            {
                "there were no keys to verify the token, and the line does not have it"
            }
            Stage::Credentials => "the credentials were invalid, and the line does not have them",
            Stage::Headers => "a header was invalid, and the line does not have it",
            Stage::Limit => "a limit was exceeded",
            Stage::Cluster => CLUSTER,
            Stage::Request | Stage::Rules => return None,
        })
    }

    /// The caller with the groups and roles of the line.
    fn subject_as_logged(&self, user: &str, source: Option<SourceId>) -> Subject {
        let issuer = self.issuer.as_deref().map(Arc::from);
        Subject { issuer, ..unverified_subject(user, source, &self.groups, &self.roles) }
    }

    /// The caller with only the groups and roles that this policy takes. A policy without any
    /// identity source takes every caller as logged.
    fn subject_under(
        &self,
        authorizer: &Authorizer,
        user: &str,
    ) -> Result<Subject, CredentialsError> {
        let explainer = Explainer::new(authorizer);
        let host = self.host.as_bytes();
        let identity = explainer.identity_on(host);
        if identity.sources().next().is_none() {
            return Ok(self.subject_as_logged(user, None));
        }
        if self.has_api_key() {
            let subject = explainer.user_with_key(host, user);
            return subject.cloned().ok_or(CredentialsError::BadApiKey);
        }
        // Only a caller of Basic has no issuer, no API key and no certificate.
        let Some(name) = self.issuer.as_deref() else {
            if identity.basic.is_none()
                || explainer.is_unknown_user(host, user, Some(SourceId::BASIC))
            {
                return Err(CredentialsError::BadPassword);
            }
            let subject = explainer.subject_named::<&str>(host, user, &[], &[])?;
            if subject.source == Some(SourceId::BASIC) {
                return Ok(subject);
            }
            // With `verify: false` the policy need not list a caller of Basic. Then `subject_named`
            // may choose an issuer by its `user_prefix`, but the line says Basic.
            let groups = Vec::new();
            return Ok(Subject { groups, ..self.subject_as_logged(user, Some(SourceId::BASIC)) });
        };
        let mut issuers = identity.jwt.iter().enumerate();
        let (index, issuer) = issuers
            .find(|(_, issuer)| *issuer.issuer == *name)
            .ok_or(CredentialsError::UnknownIssuer)?;
        let source = Some(SourceId::from_issuer(index));
        let mut subject = self.subject_as_logged(user, source);
        if let Some(actor) = self.actor.as_deref().filter(|_| issuer.act.is_some()) {
            let actor = unverified_subject::<&str>(actor, source, &[], &[]);
            subject.actor = Some(Arc::new(actor));
        }
        subject.roles.retain(|role| issuer.may_give(role));
        if issuer.claims.groups.is_none() {
            subject.groups.clear();
        }
        Ok(subject)
    }

    /// Whether the caller had a token from which this policy takes roles or groups. The line has
    /// only the roles and groups that the policy of that time took.
    pub(super) fn may_have_more_roles(&self, authorizer: &Authorizer) -> bool {
        let identity = Explainer::new(authorizer).identity_on(self.host.as_bytes());
        let mut issuers = identity.jwt.iter();
        issuers
            .find(|issuer| Some(&*issuer.issuer) == self.issuer.as_deref())
            .is_some_and(|i| i.accepted_role_claim().is_some() || i.claims.groups.is_some())
    }

    /// The warning that this policy has no `identity`, if the line names a caller.
    pub(super) fn identity_warning(&self, authorizer: &Authorizer) -> Option<&'static str> {
        self.user.as_ref()?;
        Explainer::new(authorizer).missing_identity_note(&self.host)
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.outcome.decision == "allowed"
    }

    /// The rule that allowed, or the reason of the denial with its rule.
    pub(super) fn cause(&self) -> String {
        let Outcome { reason, rule, decision, .. } = &self.outcome;
        match reason {
            Some(reason) => denial(reason, rule.as_deref()),
            None => rule.clone().unwrap_or_else(|| decision.clone()),
        }
    }

    /// The user, for people.
    pub(super) fn caller(&self) -> String {
        match (&self.user, &self.issuer) {
            (None, _) => "anonymous".to_owned(),
            (Some(user), None) => user.clone(),
            (Some(user), Some(issuer)) => format!("{user} of {issuer}"),
        }
    }

    /// Whether the caller had an API key.
    fn has_api_key(&self) -> bool {
        self.scheme.as_deref() == Some("api_key")
    }

    /// Whether the credentials of the caller were a certificate, and this policy decides whose
    /// it is. A policy without any identity source does not: it takes every caller as logged.
    fn has_certificate_under(&self, authorizer: &Authorizer) -> bool {
        let identity = Explainer::new(authorizer).identity_on(self.host.as_bytes());
        self.source() == CERTIFICATES && identity.sources().next().is_some()
    }

    /// The source of the caller, as a policy calls it.
    pub(super) fn source(&self) -> &str {
        let without_issuer = match self.scheme.as_deref() {
            Some("api_key") => API_KEYS,
            Some("certificate") => CERTIFICATES,
            Some(_) | None => BASIC,
        };
        self.issuer.as_deref().unwrap_or(without_issuer)
    }

    /// The error of credentials whose user the source does not list.
    fn unknown_user_error(&self) -> CredentialsError {
        if self.has_api_key() { CredentialsError::BadApiKey } else { CredentialsError::BadPassword }
    }

    /// The issuer of the caller's token or another source, and whether the token gave roles or
    /// groups. Denials of the same origin probably have the same cause, so they are grouped by it.
    pub(super) fn origin(&self) -> String {
        match (&self.user, &self.issuer) {
            (None, _) => String::new(),
            (Some(_), None) => self.source().to_owned(),
            (Some(_), Some(issuer)) if self.roles.is_empty() && self.groups.is_empty() => {
                format!("{issuer} without roles")
            }
            (Some(_), Some(issuer)) => issuer.clone(),
        }
    }

    /// Whether the rules decided, and not a search cluster. Neither decides about invalid requests
    /// and credentials.
    pub(super) fn is_by_rules(&self) -> bool {
        let reason = self.outcome.reason.as_deref();
        !self.is_by_cluster()
            && reason.is_none_or(|name| {
                find_reason(name).is_some_and(|reason| reason.stage() == Stage::Rules)
            })
    }

    /// Whether the role files of a search cluster decided, and not the rules.
    pub(super) fn is_by_cluster(&self) -> bool {
        let Outcome { actions, reason, rule, .. } = &self.outcome;
        let reasons =
            [Reason::NotPermitted, Reason::PartlyPermitted, Reason::DocumentSecurityTooLong];
        // A rule is named after its role, `reader: GET /reports`; an operation of a cluster is a
        // name such as `search`.
        !actions.is_empty()
            || reason.as_ref().is_some_and(|name| reasons.iter().any(|r| r.name() == name))
            || self.is_allowed() && rule.as_ref().is_some_and(|rule| !rule.contains(": "))
    }

    /// What the request used, for a review.
    pub(super) fn access(&self) -> LoggedAccess<'_> {
        let user = self.user.as_deref();
        // A mask of users leaves out the name, or puts a hash in its place. A line is also masked
        // if only its path is.
        let is_user_masked =
            self.masked && user.map_or(self.scheme.is_some(), |user| user.starts_with(HASHED_USER));
        LoggedAccess {
            time: self.received_at(),
            revision: self.outcome.policy.as_deref(),
            allowed: self.is_allowed(),
            by_cluster: self.is_by_cluster(),
            rule: self.outcome.rule.as_deref(),
            user,
            is_user_masked,
            source: self.source(),
            groups: &self.groups,
            roles: &self.roles,
            sampled: self.sampled,
        }
    }

    /// The path as received.
    pub(super) fn received_path(&self) -> &str {
        self.raw_path.as_ref().unwrap_or(&self.path)
    }

    /// Restores the values that conditions read from this request. Sets the caller's claims.
    fn restore(&self, authorizer: &Authorizer, subject: Option<&mut Subject>) -> RestoredInputs {
        let (nothing, received) = (RestoredInputs::default(), self.request(self.received_path()));
        let question = nothing.question();
        let request = Request { question: self.is_question().then_some(&question), ..received };
        let explainer = Explainer::new(authorizer);
        let mut restored = explainer.restore(&request, subject.as_deref(), &self.condition_inputs);
        if let (Some(subject), Some(claims)) = (subject, restored.claims.take()) {
            subject.claims = claims.into();
        }
        restored
    }

    /// Whether it is the decision about a question of AuthZEN.
    fn is_question(&self) -> bool {
        self.via == Via::Authzen
    }

    /// When the request was decided: as recorded, or else when it was received.
    fn decided_at(&self, restored: &RestoredInputs) -> Option<UnixTime> {
        restored.time.or_else(|| self.received_at())
    }

    fn received_at(&self) -> Option<UnixTime> {
        self.time.and_then(|time| UnixTime::try_from_secs_f64(time).ok())
    }

    /// The path as received, with the parameters that the line has.
    fn target(&self, restored: &RestoredInputs) -> String {
        let path = self.received_path();
        let restored = Some(&restored.query).filter(|query| !query.is_empty());
        match self.query.as_ref().or(restored) {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }

    /// The request to this target, without headers and a body.
    fn request<'a>(&'a self, target: &'a str) -> Request<'a> {
        Request {
            method: self.method.as_bytes(),
            host: self.host.as_bytes(),
            path: target.as_bytes(),
            client: self.client.as_deref().unwrap_or_default().as_bytes(),
            certificate: (!self.certificate.is_empty())
                .then_some(Certificate::Named(&self.certificate)),
            ..Request::default()
        }
    }
}

/// The reason of a denial, with the rule that denied.
fn denial(reason: &str, rule: Option<&str>) -> String {
    rule.map_or_else(|| reason.to_owned(), |rule| format!("{reason} by {rule}"))
}

/// Why a decision cannot be repeated: a condition reads a variable that the line does not have.
fn missing(name: &str) -> String {
    format!("a condition reads `{name}`, which the line does not have")
}

/// The reason with this name. Other versions of rolegate may have other reasons.
fn find_reason(name: &str) -> Option<Reason> {
    Reason::all().find(|reason| reason.name() == name)
}

impl Outcome {
    fn is_same_as(&self, explanation: &Explanation) -> bool {
        let rule = match &explanation.cluster {
            Some(cluster) => {
                cluster.operation.filter(|_| explanation.status == 200).map(str::to_owned)
            }
            None => explanation.rule.as_ref().map(|rule| format!("{}: {}", rule.role, rule.rule)),
        };
        (self.decision == "allowed") == (explanation.status == 200)
            && self.reason.as_deref() == explanation.reason
            && self.rule == rule
    }
}

impl fmt::Display for ExplainedDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { explanation, fixes, logged, same, is_inexact_without_body } = self;
        write!(f, "{explanation}\nlogged:  ")?;
        if *same {
            f.write_str("same decision as in the log")?;
        } else {
            f.write_str(&logged.decision)?;
            if let Some(reason) = &logged.reason {
                write!(f, " ({reason})")?;
            }
            if let Some(rule) = &logged.rule {
                write!(f, " by `{rule}`")?;
            }
            f.write_str(": another decision")?;
        }
        let claims = [("user", &logged.attempted_user), ("issuer", &logged.attempted_issuer)];
        for (claim, name) in claims {
            if let Some(name) = name {
                write!(f, "\n         the invalid credentials claim the {claim} {name:?}")?;
            }
        }
        if let Some(policy) =
            logged.policy.as_ref().filter(|policy| **policy != *explanation.revision.policy)
        {
            write!(f, "\n         decided by another policy: {policy}")?;
        }
        if !logged.actions.is_empty() {
            write!(f, "\n         it needed {}", logged.actions.join(", "))?;
        }
        if !logged.indices.is_empty() {
            write!(f, "\n         on {}", logged.indices.join(", "))?;
        }
        if *is_inexact_without_body {
            f.write_str(
                "\n         inexact: the operation depends on the body, which the line does not \
                 have: `--body` gives it",
            )?;
        }
        if logged.inexact {
            f.write_str(
                "\n         values of the line were cut or replaced: the request was another one",
            )?;
        }
        fixes.as_ref().map_or(Ok(()), |fixes| write!(f, "{fixes}"))
    }
}

#[cfg(test)]
mod tests;
