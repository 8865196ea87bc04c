//! Why a request is answered as it is, with the name and place of every rule. The answer and its
//! rule come from the authorizer. The caller's roles, the missing rules and the near rules are
//! found in the policy itself, which is slow.

mod caller;
mod cluster;
mod nearly;
mod text;

use std::collections::{HashMap, HashSet};

use authorizer::{
    Backend, Denied, HeaderLines, ParseScratch, ParsedRequest, Reason, Request, Revision, Rules,
    Scratch, Verdict,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use condition::{CallerInputs, RequestInputs, VariableKind};
use engine::{ConditionInputs, Decision};
use identity::{Credentials, CredentialsError, Subject, UnixTime, signed_part};
use policy::Policy;
use policy::model::{AUTHENTICATED, Effect, Keys, SourceId};
use policy::pattern::PatternSubject;
use serde::Serialize;
use serde_json::Value;

use crate::conditions::{
    DecidingRule, ExplainedCondition, GivenHeaders, RequestVariables, depends_on,
    given_certificate, given_variables,
};
use crate::metadata::metadata;
use crate::notes::Token;
use crate::rules::{ExplainedRule, ExtendingRoles, MissingRole, has_path, is_for};
use crate::subjects::{pattern_subject, unverified_subject};
use crate::ways::{Given, Place, Position, Ways, ways_with_role};
use crate::{Explainer, lossy, notes};

pub use caller::{ExplainedCaller, ExplainedRole, RoleSource};
pub(crate) use caller::{denying_roles, given_roles};
pub use cluster::{
    ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed, MissingPrivilege,
    PermittingRole,
};
pub(crate) use cluster::{cluster_roles, steps_to_decide};
pub use nearly::NearRule;
pub(crate) use nearly::RequestOfSubject;
pub(crate) use text::write_request;

/// The maximum number of notes about roles that would not help.
const MAX_NOTES: usize = 5;

/// The caller in an explanation.
#[derive(Clone, Debug)]
pub enum ExplainedSubject {
    /// The subject of the request's credentials; anonymous without credentials.
    FromRequest,
    /// This subject, without any verification.
    Given(Subject),
    /// Nobody: the credentials are invalid for this reason.
    Invalid(CredentialsError),
}

/// Why a request is answered as it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// The HTTP status of the answer; 200 if the request is allowed.
    pub status: u16,
    /// The name of the reason of a denial, such as `not_allowed`.
    pub reason: Option<&'static str>,
    /// The reason of a denial in words.
    pub because: Option<String>,
    /// The parameter or claim of a token that led to the denial.
    pub detail: Option<String>,
    /// The method.
    pub method: String,
    /// The canonical host, if the request is valid; it may be empty.
    pub host: Option<String>,
    /// The interpretations of the path, the canonical path first. All of them must be allowed.
    pub paths: Vec<String>,
    /// Further interpretations of the path, which no `deny` rule may match.
    pub deny_only_paths: Vec<String>,
    /// The caller; empty if its credentials are invalid. An anonymous caller has no user name, and
    /// from the policy only `anyone` and the roles that it extends.
    #[serde(flatten)]
    pub caller: ExplainedCaller,
    /// The rule that decided, if a rule did.
    pub rule: Option<ExplainedRule>,
    /// The interpretation of the path that the decision was made on.
    pub decided_on: Option<String>,
    /// The conditions on which the decision depends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ExplainedCondition>,
    /// What else the decision may depend on: the variables of conditions that the question does not
    /// name. They are taken to be absent, and the time to be now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// If no rule allowed the request: the rules that would, if the caller had their roles.
    pub missing: Vec<MissingRole>,
    /// If no rule allowed the request: the first few of the caller's rules that match in all
    /// respects but one. If there are none: rules of other roles that differ only in how the path
    /// is written.
    pub nearly: Vec<NearRule>,
    /// Hints at likely mistakes.
    pub notes: Vec<String>,
    /// The headers that are set on an allowed request.
    pub set_headers: Vec<(String, String)>,
    /// The headers that are removed from an allowed request.
    pub remove_headers: Vec<String>,
    /// The dynamic metadata of an allowed request that the policy chooses, as texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(String, String)>,
    /// The needs of a request to a search cluster, and what the caller lacks; `None` for other
    /// requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ExplainedCluster>>,
    /// Which policy and which keys decide.
    #[serde(flatten)]
    pub revision: Revision,
    /// The text in place of the keys, if the revision has no keys; `None` if the policy fetches
    /// none.
    #[serde(skip)]
    pub keys_note: Option<String>,
}

impl Explainer<'_> {
    /// Explains the answer to a request. Hashes passwords and evaluates every rule, so it is slow.
    #[must_use]
    pub fn explain(
        self,
        request: &Request<'_>,
        subject: ExplainedSubject,
        now: UnixTime,
    ) -> Explanation {
        let policy = self.policy();
        let backend = self.authorizer.backend(request.host);
        let now = self.time.unwrap_or(now);
        let credentials = self.authorizer.credentials(request).ok().flatten();
        let token = credentials.and_then(Credentials::token);
        let from_credentials = matches!(subject, ExplainedSubject::FromRequest);
        let mut scratch = Scratch::default();
        let (verdict, caller) = match subject {
            ExplainedSubject::FromRequest => {
                let verdict = self.authorizer.check_inline(request, &mut scratch, now);
                let mut caller = authenticated(&verdict);
                if let Ok(Some(subject)) = &mut caller {
                    // The claims are not kept with an authenticated subject.
                    subject.claims = unverified_claims(token);
                }
                (verdict, caller)
            }
            ExplainedSubject::Given(subject) => {
                let source = subject.source.or_else(|| backend.identity().source_of(&subject.user));
                let subject = Subject { source, ..subject };
                let caller = self.authorizer.with_required_actor(request, subject).map(Some);
                let decided = caller.clone().map(|caller| caller.map(|c| self.with_issuer(&c)));
                let verdict = self.authorizer.check_as(request, decided, &mut scratch, now);
                (verdict, caller)
            }
            ExplainedSubject::Invalid(error) => {
                (self.authorizer.check_as(request, Err(error), &mut scratch, now), Err(error))
            }
        };
        // `None`: the credentials are invalid. `Some(None)`: the caller is anonymous.
        let valid_caller = caller.as_ref().ok().map(Option::as_ref);
        let mut explanation = self.empty_explanation(request);
        match backend {
            Backend::Cluster(cluster) => {
                explanation.notes.extend(notes::hint_at_method(request));
                if let Err(reason) = authorizer::parse_without_path(request, backend.identity()) {
                    return explanation.because_of(reason);
                }
                explanation.add_cluster(cluster, request, valid_caller, now);
            }
            Backend::Rules(rules) => {
                explanation.notes = notes::notes(request);
                let mut parse_scratch = ParseScratch::default();
                let lines = HeaderLines(request.headers);
                // Malformed credentials make a request invalid, too. For a cluster,
                // `parse_without_path` includes this.
                let parsed = authorizer::parse(request, &policy.identity, &mut parse_scratch)
                    .and_then(|parsed| self.authorizer.credentials(request).map(|_| parsed));
                let parsed = match parsed {
                    Ok(parsed) => parsed,
                    Err(reason) => return explanation.because_of(reason),
                };
                explanation.host = Some(lossy(parsed.host));
                explanation.paths = parsed.paths.all().map(lossy).collect();
                explanation.deny_only_paths = parsed.paths.deny_only().map(lossy).collect();
                if let Some(subject) = valid_caller {
                    explanation.caller = ExplainedCaller::by_rules(policy, subject);
                    let given_headers = GivenHeaders(lines);
                    let certificate = given_certificate(request);
                    let given = given_variables(
                        self.policy(),
                        request,
                        &given_headers,
                        &certificate,
                        self.time,
                    );
                    let certificate = authorizer::certificate_names(parsed.certificate);
                    let request = authorizer::request_inputs(request, &lines, &certificate, now);
                    let subject = subject.map(|subject| self.with_issuer(subject));
                    let caller = subject.as_ref();
                    let variables = RequestVariables { request, given, caller };
                    self.add_decision(rules, &parsed, variables, &mut explanation);
                }
                // A bearer token needs keys, so the note says more strongly that there are none.
                if explanation.keys_note.is_some() && token.is_some() {
                    explanation.keys_note = Some("none fetched".to_owned());
                }
            }
        }
        if let Err(error) = caller {
            let failed_attempt = self.authorizer.attempted(request, error, now);
            explanation.detail = failed_attempt.detail;
            if error == CredentialsError::MalformedClaims {
                let subject = unverified_token_subject(token);
                let token = Token::new(policy, &subject);
                explanation.notes.extend(token.and_then(Token::hint_at_malformed_claims));
            }
        }
        match &verdict {
            Verdict::Denied(Denied { reason, .. }) => explanation = explanation.because_of(*reason),
            Verdict::Allowed(allowed) => {
                explanation.status = 200;
                let headers =
                    allowed.set().map(|(name, value)| (name.to_owned(), value.to_owned()));
                explanation.set_headers = headers.collect();
                explanation.remove_headers = allowed.remove().map(str::to_owned).collect();
                explanation.metadata = metadata(allowed);
                self.hide_identity(&mut explanation);
            }
        }
        let token = valid_caller.flatten().and_then(|subject| Token::new(policy, subject));
        if let Some(token) = token.filter(|_| from_credentials && explanation.status != 200) {
            explanation.notes.extend(match backend {
                Backend::Rules(_) => token.roles_without_effect(),
                Backend::Cluster(_) => token.missing_claims(),
            });
        }
        explanation
    }

    /// Explains a request that was denied before it was evaluated.
    #[must_use]
    pub fn explain_denied(self, request: &Request<'_>, reason: Reason) -> Explanation {
        self.empty_explanation(request).because_of(reason)
    }

    /// An explanation with nothing but the method and the revision.
    fn empty_explanation(self, request: &Request<'_>) -> Explanation {
        let mut issuers = self.policy().identity.jwt.iter();
        let fetches_keys = issuers.any(|issuer| matches!(issuer.keys, Keys::Url { .. }));
        Explanation {
            method: lossy(request.method),
            revision: self.authorizer.revision().clone(),
            keys_note: fetches_keys.then(|| "not fetched for this command".to_owned()),
            ..Explanation::default()
        }
    }

    fn add_decision(
        self,
        rules: &Rules,
        parsed: &ParsedRequest<'_>,
        RequestVariables { request, given, caller }: RequestVariables<'_>,
        explanation: &mut Explanation,
    ) {
        let policy = self.policy();
        let (roles, conditions) = rules.roles_and_conditions(caller);
        let roles = &roles;
        let subject = caller.map(|subject| pattern_subject(policy, subject));
        let inputs = ConditionInputs { request, caller: conditions.as_ref(), steps_left: None };
        let (path, decision) = rules.decide(parsed, roles, subject, &inputs);
        explanation.decided_on = Some(lossy(path));
        let certain = rules.engine().certain_role_names(roles, conditions.as_ref());
        let caller_variables = CallerInputs { roles: certain, ..authorizer::caller_inputs(caller) };
        let (method, host) = (parsed.method, parsed.host);
        let actual = Given {
            request: RequestInputs { method, host, ..request },
            caller: Some(&caller_variables),
            unknown: &[],
        };
        let has_no_source = caller.is_some_and(|caller| caller.source.is_none());
        let unknown: &[VariableKind] =
            if has_no_source { &[VariableKind::Credentials] } else { &[] };
        let given = Given { request: RequestInputs { method, host, ..given }, unknown, ..actual };
        let mut held = given_roles(policy, caller);
        explanation.depends_on = depends_on(policy, parsed, (&held, subject), &given);
        if let Some(actor) = caller.and_then(|caller| caller.actor.as_deref()) {
            let of_actor = given_roles(policy, Some(actor));
            let depends = depends_on(policy, parsed, (&of_actor, subject), &given);
            explanation.depends_on.extend(depends);
            explanation.depends_on.sort_unstable();
            explanation.depends_on.dedup();
            held.extend(of_actor);
        }
        let without_actor = caller.map(|caller| Subject { actor: None, ..caller.clone() });
        match decision {
            Decision::Allowed(id) | Decision::Denied(id) | Decision::ConditionFailed(id) => {
                let Some(rule) = policy.rule(id) else { return };
                let deciding = DecidingRule {
                    policy,
                    rule,
                    path,
                    subject,
                    roles: &held,
                    possible_roles: denying_roles(policy, caller),
                };
                explanation.conditions = deciding.conditions(&actual);
                let (role, rule, effect) = rule;
                explanation.rule = Some(ExplainedRule::new(role, rule, effect));
                if matches!(decision, Decision::ConditionFailed(_)) {
                    explanation.add_missing(policy, parsed, (path, subject), [&given, &actual]);
                    explanation.note_lacking_party(policy, without_actor.as_ref());
                }
            }
            Decision::NotAllowed => {
                explanation.add_missing(policy, parsed, (path, subject), [&given, &actual]);
                explanation.note_lacking_party(policy, without_actor.as_ref());
                let request = RequestOfSubject { policy, method, host, path, subject };
                explanation.nearly = request.near_rules(&explanation.caller.roles, &given);
                if explanation.nearly.is_empty() && explanation.missing.is_empty() {
                    explanation.nearly =
                        request.near_rules_of_other_roles(&explanation.caller.roles, &given);
                }
            }
        }
    }

    /// The subject as its requests have it: its source tells the issuer of its token.
    pub(crate) fn with_issuer(self, subject: &Subject) -> Subject {
        let mut subject = subject.clone();
        let without_issuer = [SourceId::BASIC, SourceId::API_KEYS, SourceId::CERTIFICATES];
        let source = subject
            .source
            .filter(|source| subject.issuer.is_none() && !without_issuer.contains(source));
        if let Some(source) = source {
            let mut sources = self.policy().identity.sources();
            let found = sources.find(|(id, ..)| *id == source);
            subject.issuer = found.map(|(_, name, _)| name.into());
        }
        subject
    }

    /// Shows that the identity header of a caller is set, but not its value: with the value,
    /// anybody could pass for the caller.
    fn hide_identity(self, explanation: &mut Explanation) {
        let Some(header) = &self.policy().identity_header else { return };
        if explanation.caller.user.is_some() {
            let name = &*header.name;
            explanation.set_headers.retain(|(set, _)| set != name);
            explanation.remove_headers.retain(|removed| removed != name);
            explanation.set_headers.push((name.to_owned(), "(signed)".to_owned()));
        }
    }
}

impl Explanation {
    fn because_of(self, reason: Reason) -> Self {
        Self {
            status: reason.status(),
            reason: Some(reason.name()),
            because: Some(reason.to_string()),
            ..self
        }
    }

    /// Notes which missing roles the user has and its actor lacks, or the actor has and the user
    /// lacks.
    fn note_lacking_party(&mut self, policy: &Policy, user: Option<&Subject>) {
        let (Some(actor), Some(user)) = (&self.caller.actor, user) else { return };
        let user = ExplainedCaller::by_rules(policy, Some(user));
        let mut notes = Vec::new();
        for MissingRole { rule, .. } in &self.missing {
            let [of_user, of_actor] =
                [&user, &**actor].map(|c| c.roles.iter().any(|r| r.name == rule.role));
            let [has, lacks] = match (of_user, of_actor) {
                (true, false) => [&user, &**actor],
                (false, true) => [&**actor, &user],
                _ => continue,
            };
            let [has, lacks] = [has, lacks].map(|c| c.user.as_deref().unwrap_or_default());
            let role = &rule.role;
            let note = format!("`{has}` has the role `{role}`, `{lacks}` not: both need it");
            if !notes.contains(&note) && notes.len() < MAX_NOTES {
                notes.push(note);
            }
        }
        self.notes.extend(notes);
    }

    /// Adds the rules that would allow the request if the caller had their roles, and notes on
    /// roles that would not help because they also have a matching `deny` rule.
    fn add_missing(
        &mut self,
        policy: &Policy,
        parsed: &ParsedRequest<'_>,
        (path, subject): (&[u8], Option<PatternSubject<'_>>),
        [given, actual]: [&Given<'_>; 2],
    ) {
        let held: HashSet<String> =
            self.caller.roles.iter().map(|role| role.name.clone()).collect();
        let extending = ExtendingRoles::new(policy);
        let denials = denials(policy, parsed, subject, (&extending, actual));
        // A role that the caller lacks needs credentials, which also give `authenticated`. So a
        // `deny` rule of `authenticated` makes all such roles useless. Nobody lacks `anyone`.
        let denial_of_authenticated = denials.get(AUTHENTICATED);
        for (_, role, rule, effect) in policy.rules() {
            if effect != Effect::Allow
                || !is_for(rule, parsed.method, parsed.host)
                || !has_path(rule, path, subject)
                || held.contains(&*role.name)
            {
                continue;
            }
            match denial_of_authenticated.or_else(|| denials.get(&*role.name)) {
                None => {
                    let extended_by = extending.names(policy, role, |role| {
                        !denials.contains_key(&*role.name) && role.when.is_none()
                    });
                    let places = Place::all(rule, parsed.host, path, subject);
                    let ways = Ways::at_places((rule, effect), places, true, given);
                    let ways = ways.under(role.when.as_ref(), Position::First, effect, given);
                    let fails = ways.is_never();
                    let when = match fails {
                        true => ways_with_role((role, rule, effect), &Given::default()).condition(),
                        false => ways.condition(),
                    };
                    let rule = ExplainedRule::new(role, rule, effect);
                    self.missing.push(MissingRole { rule, extended_by, when, fails });
                }
                Some(denial) => {
                    let note = format!("the role `{}` would not help: {denial}", role.name);
                    if !self.notes.contains(&note) && self.notes.len() < MAX_NOTES {
                        self.notes.push(note);
                    }
                }
            }
        }
    }
}

/// The `deny` rule that matches a request of this subject, for each role that has or inherits such
/// a rule.
fn denials<'p>(
    policy: &'p Policy,
    parsed: &ParsedRequest<'_>,
    subject: Option<PatternSubject<'_>>,
    (extending, actual): (&ExtendingRoles, &Given<'_>),
) -> HashMap<&'p str, ExplainedRule> {
    let paths: Vec<&[u8]> = parsed.paths.all().chain(parsed.paths.deny_only()).collect();
    let mut denials: HashMap<&str, ExplainedRule> = HashMap::new();
    for (id, role) in policy.roles.entries() {
        let mut deny = role.deny.iter();
        let Some(rule) = deny.find(|rule| {
            is_for(rule, parsed.method, parsed.host)
                && paths.iter().any(|path| {
                    let places = Place::all(rule, parsed.host, path, subject);
                    let ways = Ways::at_places((rule, Effect::Deny), places, true, actual);
                    !ways
                        .under(role.when.as_ref(), Position::First, Effect::Deny, actual)
                        .is_never()
                })
        }) else {
            continue;
        };
        let mut to_visit = vec![id];
        while let Some(id) = to_visit.pop() {
            let denied = policy.roles.at(id);
            if !denials.contains_key(&*denied.name) {
                denials.insert(&denied.name, ExplainedRule::new(role, rule, Effect::Deny));
                to_visit.extend(extending.directly(id));
            }
        }
    }
    denials
}

/// The authenticated caller of a verdict; `None` if it is anonymous.
pub(crate) fn authenticated(verdict: &Verdict<'_>) -> Result<Option<Subject>, CredentialsError> {
    match verdict {
        Verdict::Allowed(allowed) => Ok(allowed.subject.cloned()),
        Verdict::Denied(denied) => {
            denied.reason.credentials_error().map_or_else(|| Ok(denied.subject.cloned()), Err)
        }
    }
}

/// The claims of a token, not verified; null without a token.
pub(crate) fn unverified_claims(token: Option<&[u8]>) -> Value {
    let signed = token.and_then(signed_part);
    let payload = signed.and_then(|signed| signed.rsplit(|byte| *byte == b'.').next());
    let payload = payload.and_then(|payload| BASE64_URL_SAFE_NO_PAD.decode(payload).ok());
    payload.and_then(|payload| serde_json::from_slice(&payload).ok()).unwrap_or_default()
}

/// A subject with only the issuer and the claims of a token, not verified.
fn unverified_token_subject(token: Option<&[u8]>) -> Subject {
    let claims = unverified_claims(token);
    let issuer = claims.get("iss").and_then(Value::as_str).map(Into::into);
    Subject { issuer, claims, ..unverified_subject::<&str>("", None, &[], &[]) }
}
