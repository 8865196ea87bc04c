//! Why a request is answered as it is, with the name and place of every rule. Reads the policy
//! itself; slow.

mod cluster;
mod nearly;
mod text;

use std::collections::{BTreeMap, HashMap};

use authorizer::{
    Backend, Denied, ParseScratch, ParsedRequest, Reason, Request, Revision, Rules, Scratch,
    Verdict,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use engine::Decision;
use identity::{CredentialsError, Subject, UnixTime, signed_part};
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Effect, Identity, Issuer, Keys, Role, RoleId};
use policy::pattern::PatternSubject;
use serde::Serialize;

use crate::extending::Extending;
use crate::matched::{ExplainedRule, MissingRole, explained_rule, has_path, is_for, matching};
use crate::{Explainer, is_false, lossy, notes};
use nearly::Compared;

pub use cluster::{
    ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed, MissingPrivilege,
    PermittingRole,
};
pub(crate) use cluster::{cluster_roles, mapped_from};
pub use nearly::NearRule;

/// The most notes about roles that would not help.
const MOST_NOTES: usize = 5;

/// The caller in an explanation.
#[derive(Clone, Debug)]
pub enum ExplainedSubject {
    /// The subject of the request's credentials; anonymous without any.
    OfCredentials,
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
    /// What in a token led to the denial.
    pub detail: Option<String>,
    /// The method.
    pub method: String,
    /// The canonical host, if the request is valid; it may be empty.
    pub host: Option<String>,
    /// The interpretations of the path, the canonical one first. All of them must be allowed.
    pub paths: Vec<String>,
    /// Further interpretations of the path, which no `deny` rule may match.
    pub deny_only_paths: Vec<String>,
    /// The user name; `None` if the caller is anonymous or its credentials are invalid.
    pub user: Option<String>,
    /// The issuer of the caller's token, if it has one.
    pub issuer: Option<String>,
    /// The caller's groups.
    pub groups: Vec<String>,
    /// The caller's roles in the order of the policy, each with its sources.
    pub roles: Vec<ExplainedRole>,
    /// The rule that decided, if one did.
    pub rule: Option<ExplainedRule>,
    /// The interpretation of the path that the decision was made on.
    pub decided_on: Option<String>,
    /// If no rule allowed the request: the rules that would, if the caller had their roles.
    pub missing: Vec<MissingRole>,
    /// If no rule allowed the request: the caller's rules that match in all respects but one, the
    /// first few; if there are none, those of other roles that differ only in how the path is
    /// written.
    pub nearly: Vec<NearRule>,
    /// What was probably meant, where a name is likely a mistake.
    pub notes: Vec<String>,
    /// The headers that are set on an allowed request.
    pub set_headers: Vec<(String, String)>,
    /// The headers that are removed from an allowed request.
    pub remove_headers: Vec<String>,
    /// What a request to a search cluster needs, and what the caller lacks; `None` for other
    /// requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ExplainedCluster>>,
    /// Which policy and which keys decide.
    #[serde(flatten)]
    pub revision: Revision,
    /// What the text says about the keys if the revision has none; `None` if the policy fetches
    /// none.
    #[serde(skip)]
    pub without_keys: Option<String>,
}

/// A role of a caller, and why the caller has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRole {
    /// Its name.
    pub name: String,
    /// Why the caller has it; at least one source.
    pub from: Vec<RoleSource>,
    /// Whether a search cluster maps it to the caller and does not have it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_missing: bool,
}

/// Why a caller has a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleSource {
    /// Every caller has it: `anyone`.
    Everyone,
    /// Every authenticated caller has it: `authenticated`.
    EveryoneAuthenticated,
    /// It is granted to the caller's user name.
    GrantedToUser(String),
    /// It is granted to this group of the caller.
    GrantedToGroup(String),
    /// The caller's token carries it.
    CarriedByToken,
    /// It is given for this explanation, without a token.
    Given,
    /// This role of the caller extends it.
    ExtendedBy(String),
    /// The search cluster gives it.
    #[serde(untagged)]
    OfCluster(search::explain::RoleSource),
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
        let backend = self.authorizer.backend(request.host);
        let notes = match backend {
            Backend::Rules(_) => notes::notes(request),
            Backend::Cluster(_) => notes::meant_method(request).into_iter().collect(),
        };
        let authorization = authorizer::authorization(request.headers).ok().flatten();
        let from_credentials = matches!(subject, ExplainedSubject::OfCredentials);
        let mut scratch = Scratch::default();
        let (verdict, caller) = match subject {
            ExplainedSubject::OfCredentials => {
                let verdict = self.authorizer.check_inline(request, &mut scratch, now);
                let caller = authenticated(&verdict);
                let caller = caller
                    .map(|subject| subject.map(|subject| with_claims(subject, authorization)));
                (verdict, caller)
            }
            ExplainedSubject::Given(subject) => {
                let caller = Ok(Some(with_source(subject, backend.identity())));
                (self.authorizer.check_as(request, caller.clone(), &mut scratch, now), caller)
            }
            ExplainedSubject::Invalid(error) => {
                (self.authorizer.check_as(request, Err(error), &mut scratch, now), Err(error))
            }
        };
        let mut parse_scratch = ParseScratch::default();
        let parsed = match backend {
            Backend::Rules(_) => {
                authorizer::parse(request, &mut parse_scratch).and_then(|parsed| {
                    authorizer::authorization(request.headers).map(|_| Some(parsed))
                })
            }
            Backend::Cluster(_) => authorizer::parse_but_path(request).map(|_| None),
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => return Explanation { notes, ..self.explain_denied(request, reason) },
        };
        let mut explanation = Explanation { notes, ..self.empty_explanation(request) };
        let known = caller.as_ref().ok().map(Option::as_ref);
        match (backend, &parsed) {
            (Backend::Cluster(cluster), _) => explanation.add_cluster(cluster, request, known, now),
            (Backend::Rules(rules), Some(parsed)) => {
                explanation.add_paths(parsed);
                if let Some(subject) = known {
                    explanation.add_subject(self.policy(), subject);
                    self.add_decision(rules, parsed, subject, &mut explanation);
                }
            }
            (Backend::Rules(_), None) => {}
        }
        if parsed.is_some()
            && explanation.without_keys.is_some()
            && authorization.is_some_and(is_bearer)
        {
            explanation.without_keys = Some("none fetched".to_owned());
        }
        if let Err(error) = caller {
            explanation.detail = self.authorizer.attempted(request, error, now).detail;
            if error == CredentialsError::MalformedClaims {
                explanation.notes.extend(authorization.and_then(|value| match backend {
                    Backend::Rules(rules) => rules.authenticator().roles_elsewhere(value),
                    Backend::Cluster(cluster) => cluster.authenticator().roles_elsewhere(value),
                }));
            }
        }
        explanation.add_verdict(&verdict);
        self.hide_identity(&mut explanation);
        let subject = known.flatten().filter(|_| from_credentials && explanation.status != 200);
        if let Some(subject) = subject {
            explanation.notes.extend(match backend {
                Backend::Rules(_) => notes::roles_without_effect(self.policy(), subject),
                Backend::Cluster(_) => notes::missing_claims(self.policy(), subject),
            });
        }
        explanation
    }

    /// Explains a request that was denied before it was evaluated.
    #[must_use]
    pub fn explain_denied(self, request: &Request<'_>, reason: Reason) -> Explanation {
        let mut explanation = self.empty_explanation(request);
        explanation.add_reason(reason);
        explanation
    }

    /// Of a request about which nothing is known but its method.
    fn empty_explanation(self, request: &Request<'_>) -> Explanation {
        let is_fetched = |issuer: &Issuer| matches!(issuer.keys, Keys::Url { .. });
        let fetches_keys = self.policy().identity.jwt.iter().any(is_fetched);
        Explanation {
            method: lossy(request.method),
            revision: self.authorizer.revision().clone(),
            without_keys: fetches_keys.then(|| "not fetched for this command".to_owned()),
            ..Explanation::default()
        }
    }

    fn add_decision(
        self,
        rules: &Rules,
        parsed: &ParsedRequest<'_>,
        subject: Option<&Subject>,
        explanation: &mut Explanation,
    ) {
        let policy = self.policy();
        let of_subject = subject.map(|subject| {
            let [groups, roles] =
                [&subject.groups, &subject.roles].map(|names| names.iter().map(|name| &**name));
            rules.engine().roles_of(&subject.user, groups, roles)
        });
        let roles = of_subject.as_ref().unwrap_or_else(|| rules.engine().anonymous());
        let subject = subject.map(|subject| pattern_subject(subject, &policy.identity));
        let (path, decision) = rules.decide(parsed, roles, subject);
        explanation.decided_on = Some(lossy(path));
        match decision {
            Decision::Allowed(id) | Decision::Denied(id) => {
                let rule = policy.rule(id);
                explanation.rule =
                    rule.map(|(role, rule, effect)| explained_rule(role, rule, effect));
            }
            Decision::NotAllowed => {
                let matching = matching(policy, parsed.method, parsed.host, path, subject);
                let allowing = matching.filter(|(_, _, effect)| *effect == Effect::Allow);
                let extending = Extending::new(policy);
                let denials = self.denials(parsed, subject, &extending);
                // Whoever gets a role has credentials.
                let of_any = denials.get(AUTHENTICATED).filter(|_| subject.is_none());
                for (role, rule, effect) in allowing {
                    match of_any.or_else(|| denials.get(&*role.name)) {
                        None => {
                            let permits = |role: &Role| !denials.contains_key(&*role.name);
                            let extended_by = extending.names(policy, role, permits);
                            let rule = explained_rule(role, rule, effect);
                            explanation.missing.push(MissingRole { rule, extended_by });
                        }
                        Some(deny) => {
                            let note = format!("the role `{}` would not help: {deny}", role.name);
                            if !explanation.notes.contains(&note)
                                && explanation.notes.len() < MOST_NOTES
                            {
                                explanation.notes.push(note);
                            }
                        }
                    }
                }
                let compared =
                    Compared { policy, method: parsed.method, host: parsed.host, path, subject };
                explanation.nearly = nearly::nearly(&explanation.roles, compared);
                if explanation.nearly.is_empty() && explanation.missing.is_empty() {
                    explanation.nearly = nearly::nearly_of_others(&explanation.roles, compared);
                }
            }
        }
    }
}

impl<'a> Explainer<'a> {
    /// For each role that has a `deny` rule that matches a request of this subject, that rule.
    fn denials(
        self,
        parsed: &ParsedRequest<'_>,
        subject: Option<PatternSubject<'_>>,
        extending: &Extending,
    ) -> HashMap<&'a str, ExplainedRule> {
        let policy = self.policy();
        let paths = || parsed.paths.all().chain(parsed.paths.deny_only());
        let denying = policy.rules().filter(|(_, _, rule, effect)| {
            *effect == Effect::Deny
                && is_for(rule, parsed.method, parsed.host)
                && paths().any(|path| has_path(rule, path, subject))
        });
        let mut found: HashMap<&'a str, ExplainedRule> = HashMap::new();
        for (_, role, rule, effect) in denying {
            let mut to_visit: Vec<RoleId> = policy.role(&role.name).into_iter().collect();
            while let Some(id) = to_visit.pop() {
                let Some(has) = policy.roles.get(id.0 as usize) else { continue };
                if found.contains_key(&*has.name) {
                    continue;
                }
                found.insert(&has.name, explained_rule(role, rule, effect));
                to_visit.extend(extending.directly(id));
            }
        }
        found
    }

    /// Says that the identity header of a known caller is set, without its value: a client that has
    /// it could pass for the caller.
    fn hide_identity(self, explanation: &mut Explanation) {
        let Some(header) = &self.policy().identity_header else { return };
        if explanation.user.is_some() && explanation.status == 200 {
            let name = &*header.name;
            explanation.set_headers.retain(|(set, _)| set != name);
            explanation.remove_headers.retain(|removed| removed != name);
            explanation.set_headers.push((name.to_owned(), "(signed)".to_owned()));
        }
    }
}

impl Explanation {
    fn add_verdict(&mut self, verdict: &Verdict<'_>) {
        match verdict {
            Verdict::Denied(Denied { reason, .. }) => self.add_reason(*reason),
            Verdict::Allowed(allowed) => {
                self.status = 200;
                self.set_headers = allowed
                    .set()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                self.remove_headers = allowed.remove().map(str::to_owned).collect();
            }
        }
    }

    fn add_reason(&mut self, reason: Reason) {
        self.status = reason.status();
        self.reason = Some(reason.name());
        self.because = Some(reason.to_string());
    }

    fn add_paths(&mut self, parsed: &ParsedRequest<'_>) {
        self.host = Some(lossy(parsed.host));
        self.paths = parsed.paths.all().map(lossy).collect();
        self.deny_only_paths = parsed.paths.deny_only().map(lossy).collect();
    }

    fn add_subject(&mut self, policy: &Policy, subject: Option<&Subject>) {
        self.user = subject.map(|subject| subject.user.to_string());
        self.issuer = subject.and_then(|subject| subject.issuer.as_ref()).map(ToString::to_string);
        self.groups =
            subject.iter().flat_map(|subject| &subject.groups).map(ToString::to_string).collect();
        self.roles = roles(policy, subject);
    }
}

/// The caller that a verdict names; `None` is an anonymous one.
fn authenticated(verdict: &Verdict<'_>) -> Result<Option<Subject>, CredentialsError> {
    match verdict {
        Verdict::Allowed(allowed) => Ok(allowed.subject.cloned()),
        Verdict::Denied(denied) => {
            denied.reason.credentials_error().map_or_else(|| Ok(denied.subject.cloned()), Err)
        }
    }
}

/// An authenticated subject with the claims of its token, which are not kept with it.
fn with_claims(subject: Subject, authorization: Option<&[u8]>) -> Subject {
    let payload = authorization
        .and_then(signed_part)
        .and_then(|part| part.rsplit(|byte| *byte == b'.').next());
    let payload = payload.and_then(|payload| BASE64_URL_SAFE_NO_PAD.decode(payload).ok());
    let claims = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    Subject { claims: claims.unwrap_or_default(), ..subject }
}

/// A subject with the source that its name can come from, if nothing authenticated it.
fn with_source(subject: Subject, identity: &Identity) -> Subject {
    let source = subject.source.or_else(|| identity.source_of(&subject.user));
    Subject { source, ..subject }
}

/// The subject, as patterns see it.
fn pattern_subject<'s>(subject: &'s Subject, identity: &Identity) -> PatternSubject<'s> {
    let prefix = subject.source.map_or("", |source| identity.user_prefix(source)).len();
    PatternSubject { user: subject.user.as_bytes(), prefix, source: subject.source }
}

/// Whether credentials are those of the scheme Bearer.
fn is_bearer(authorization: &[u8]) -> bool {
    authorization
        .split(|byte| *byte == b' ')
        .next()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
}

/// The roles of a caller and their sources, computed from the policy as the reference evaluator
/// computes them.
pub(crate) fn roles(policy: &Policy, subject: Option<&Subject>) -> Vec<ExplainedRole> {
    let mut sources: BTreeMap<RoleId, Vec<RoleSource>> = BTreeMap::new();
    for (id, source) in direct_roles(policy, subject) {
        sources.entry(id).or_default().push(source);
    }
    let mut to_visit: Vec<RoleId> = sources.keys().copied().collect();
    while let Some(id) = to_visit.pop() {
        let Some(role) = policy.roles.get(id.0 as usize) else { continue };
        for extended in &role.extends {
            if !sources.contains_key(extended) {
                to_visit.push(*extended);
            }
            sources
                .entry(*extended)
                .or_default()
                .push(RoleSource::ExtendedBy(role.name.to_string()));
        }
    }
    let named =
        sources.into_iter().filter_map(|(id, from)| Some((policy.roles.get(id.0 as usize)?, from)));
    let role = |(role, from): (&Role, _)| ExplainedRole {
        name: role.name.to_string(),
        from,
        is_missing: false,
    };
    named.map(role).collect()
}

fn direct_roles(policy: &Policy, subject: Option<&Subject>) -> Vec<(RoleId, RoleSource)> {
    let mut direct: Vec<_> =
        policy.role(ANYONE).map(|id| (id, RoleSource::Everyone)).into_iter().collect();
    let Some(subject) = subject else { return direct };
    direct.extend(policy.role(AUTHENTICATED).map(|id| (id, RoleSource::EveryoneAuthenticated)));
    let of_token =
        || if subject.issuer.is_some() { RoleSource::CarriedByToken } else { RoleSource::Given };
    direct.extend(subject.roles.iter().filter_map(|role| Some((policy.role(role)?, of_token()))));
    for grant in &policy.grants {
        if grant.users.contains(&subject.user) {
            direct.push((grant.role, RoleSource::GrantedToUser(subject.user.to_string())));
        }
        for group in grant.groups.iter().filter(|group| subject.groups.contains(group)) {
            direct.push((grant.role, RoleSource::GrantedToGroup(group.to_string())));
        }
    }
    direct
}
