//! Test cases of a policy: runs a request and compares the outcome with the expected outcome.

use authorizer::{Allowed, Denied, Header, Reason, Request, RequestBody, Scratch, Verdict};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use identity::{Certificate, CredentialsError, UnixTime};
use policy::cases::{AskedQuestion, Case, Credentials, Expect};
use policy::model::{AUTHORIZATION, Identity};
use serde_json::Value;

use crate::Explainer;
use crate::metadata::metadata;
use crate::notes::Token;
use crate::subjects::{subject_named, subject_of_claims};

/// The outcome of a [`Case`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CaseOutcome {
    /// The HTTP status; 200 for an allowed request.
    pub status: u16,
    /// The rule that decided, as `role: rule`, if a rule did.
    pub rule: Option<String>,
    /// The name of the reason, if the request was denied.
    pub reason: Option<&'static str>,
    /// If allowed, the headers of the request that the upstream receives; if denied, the headers of
    /// the answer. Names are in lower case.
    pub headers: Vec<(String, String)>,
    /// If allowed, the dynamic metadata that the policy chooses, as texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(String, String)>,
    /// The differences from the expected outcome, in words. If there are none, the case passes.
    pub failures: Vec<String>,
    /// A likely mistake in the case, although it may pass.
    pub warning: Option<String>,
    /// What the case leaves open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

impl Explainer<'_> {
    /// Runs a case. Hashes passwords, so it takes milliseconds. `now` is the time for cases that
    /// set no time.
    #[must_use]
    pub fn run_case(self, case: &Case, now: UnixTime) -> CaseOutcome {
        let now = case.request.at.unwrap_or(now);
        let host = case.request.host.as_bytes();
        let lines = header_lines(case, self.identity_on(host));
        let headers: Vec<Header<'_>> = lines
            .iter()
            .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        let question = case.request.question.as_ref().map(AskedQuestion::parts);
        let request = Request {
            question: question.as_ref(),
            method: case.request.method.as_bytes(),
            host,
            path: case.request.path.as_bytes(),
            headers: &headers,
            client: case.request.client.as_bytes(),
            peer: case.request.client.as_bytes(),
            certificate: case.request.certificate.as_deref().map(Certificate::Named),
            body: RequestBody::Whole(case.request.body.as_bytes()),
            ..Request::default()
        };
        let mut scratch = Scratch::default();
        let backend = self.authorizer.backend(request.host);
        let verdict = match &case.request.credentials {
            Credentials::Claims(claims) => {
                let subject = subject_of_claims(backend, claims);
                self.authorizer.check_as(&request, subject.map(Some), &mut scratch, now)
            }
            Credentials::User { name, groups } => {
                let subject = subject_named(backend, name, groups, &[]);
                self.authorizer.check_as(&request, subject.map(Some), &mut scratch, now)
            }
            Credentials::None
            | Credentials::Basic(_)
            | Credentials::Bearer(_)
            | Credentials::ApiKey(_) => self.authorizer.check_inline(&request, &mut scratch, now),
        };
        let mut outcome = outcome(&verdict, &lines);
        outcome.failures = failures(&case.expect, &outcome);
        outcome.doubts.extend(self.doubt_about_time(case, &request, now));
        outcome.doubts.extend(self.doubt_about_claims(case));
        if let Credentials::Claims(claims) = &case.request.credentials
            && let Ok(claims) = serde_json::from_str(claims)
        {
            let malformed = Reason::InvalidCredentials(CredentialsError::MalformedClaims);
            let authenticator = self.authorizer.rules().authenticator();
            if !outcome.failures.is_empty() && outcome.reason == Some(malformed.name()) {
                let claim = authenticator.malformed_claim(&claims);
                outcome.failures.extend(claim.map(|claim| format!("claims: {claim}")));
            }
            outcome.warning = match verdict {
                Verdict::Allowed(_) => self.claims_warning(&claims, now),
                Verdict::Denied(_) if outcome.failures.is_empty() => None,
                Verdict::Denied(_) => self.roles_warning(&claims),
            };
        }
        outcome
    }

    /// A warning if a token with these claims would not be valid.
    fn claims_warning(self, claims: &Value, now: UnixTime) -> Option<String> {
        let error = self.authorizer.rules().authenticator().check_claims(claims, now).err()?;
        let (because, name) = (Reason::InvalidCredentials(error), error.name());
        Some(format!(
            "claims are taken as verified, but a token with these claims would get 401: {because} \
             ({name})"
        ))
    }

    /// A warning if roles in these claims have no effect.
    fn roles_warning(self, claims: &Value) -> Option<String> {
        let subject = self.authorizer.rules().authenticator().subject_from_claims(claims).ok()?;
        let notes = Token::new(self.policy(), &subject)?.roles_without_effect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// The header lines of a case's request, with names in lower case.
fn header_lines(case: &Case, identity: &Identity) -> Vec<(String, String)> {
    let credentials = match &case.request.credentials {
        Credentials::Basic(pair) => {
            Some((AUTHORIZATION.to_owned(), format!("Basic {}", BASE64_STANDARD.encode(pair))))
        }
        Credentials::Bearer(token) => Some(identity.token_line(token)),
        Credentials::ApiKey(key) => {
            identity.api_key_header().map(|name| (name.to_owned(), key.clone()))
        }
        Credentials::None | Credentials::Claims(_) | Credentials::User { .. } => None,
    };
    let headers = case.request.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    credentials.into_iter().chain(headers).collect()
}

fn outcome(verdict: &Verdict<'_>, lines: &[(String, String)]) -> CaseOutcome {
    let (rule, reason, headers) = match verdict {
        Verdict::Allowed(allowed) => (Some(allowed.rule), None, upstream_headers(allowed, lines)),
        Verdict::Denied(Denied { rule, reason, headers, .. }) => {
            let headers = headers.iter();
            let headers = headers.map(|set| (set.name.to_owned(), set.value.to_string()));
            (*rule, Some(reason.name()), headers.collect())
        }
    };
    let rule = rule.map(str::to_owned);
    CaseOutcome {
        status: verdict.status(),
        rule,
        reason,
        headers,
        metadata: match verdict {
            Verdict::Allowed(allowed) => metadata(allowed),
            Verdict::Denied(_) => Vec::new(),
        },
        failures: Vec::new(),
        warning: None,
        doubts: Vec::new(),
    }
}

/// The headers of an allowed request after Envoy applied the changes of the answer.
fn upstream_headers(allowed: &Allowed<'_>, lines: &[(String, String)]) -> Vec<(String, String)> {
    let kept = lines.iter().filter(|(name, _)| {
        let ours = allowed.set().any(|(set, _)| set == name);
        !ours && !allowed.remove().any(|removed| removed.eq_ignore_ascii_case(name))
    });
    let set = allowed.set().map(|(name, value)| (name.to_owned(), value.to_owned()));
    kept.cloned().chain(set).collect()
}

fn failures(expect: &Expect, outcome: &CaseOutcome) -> Vec<String> {
    let mut compared =
        vec![("status".to_owned(), expect.status.to_string(), outcome.status.to_string())];
    let rule = outcome.rule.clone().unwrap_or_default();
    compared.extend(expect.rule.clone().map(|expected| ("rule".to_owned(), expected, rule)));
    let reason = outcome.reason.unwrap_or_default().to_owned();
    compared.extend(expect.reason.clone().map(|expected| ("reason".to_owned(), expected, reason)));
    compared.extend(expect.headers.iter().map(|(name, value)| {
        (format!("header {name}"), value.clone(), joined(&outcome.headers, name))
    }));
    compared.extend(expect.metadata.iter().map(|(key, value)| {
        (format!("metadata {key}"), value.clone(), metadata_at(&outcome.metadata, key))
    }));
    compared.retain(|(_, expected, actual)| expected != actual);
    let failures = compared.iter().map(|(subject, expected, actual)| {
        format!("{subject}: expected {}, got {}", quoted(expected), quoted(actual))
    });
    failures.collect()
}

fn quoted(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { format!("`{value}`") }
}

/// The value of a key of the metadata. If the key has keys of its own: all their values.
fn metadata_at(metadata: &[(String, String)], key: &str) -> String {
    let values = metadata.iter().filter(|(name, _)| {
        name.strip_prefix(key).is_some_and(|end| end.is_empty() || end.starts_with('.'))
    });
    values.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}

/// All values of a header, joined with commas (RFC 9110, 5.3).
fn joined(headers: &[(String, String)], name: &str) -> String {
    let lines = headers.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
    lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}
