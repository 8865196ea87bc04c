//! Why a request is answered as it is: slowly, from the policy itself, with every name and place.

mod text;

use std::collections::BTreeMap;

use engine::Decision;
use identity::{Identified, Subject, Time};
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Effect, Role, RoleId, Rule};
use serde::Serialize;

use crate::request::{self, Read, ReadScratch, Request};
use crate::verdict::{Reason, Verdict};
use crate::{Attached, Authorizer, Scratch, who_can};

/// Who asks, in an explanation.
#[derive(Clone, Debug)]
pub enum Asker {
    /// Whoever the request's `Authorization` proves; anonymous without one.
    Proven,
    /// This subject, taken as verified.
    Taken(Subject),
}

/// Why a request is answered as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The HTTP status of the answer; 200 if the request is allowed.
    pub status: u16,
    /// The name of the reason of a refusal, such as `not_allowed`.
    pub reason: Option<&'static str>,
    /// The reason of a refusal in words.
    pub because: Option<String>,
    /// The method.
    pub method: String,
    /// The canonical host, if the request could be read; it may be empty.
    pub host: Option<String>,
    /// The readings of the path, the canonical one first. All of them must be allowed.
    pub paths: Vec<String>,
    /// Further readings, on which no rule may deny.
    pub deny_only_paths: Vec<String>,
    /// Who asks; `None` is an anonymous caller, or one whose proof was refused.
    pub user: Option<String>,
    /// The caller's groups.
    pub groups: Vec<String>,
    /// The caller's roles in the order of the policy, and where each is from.
    pub roles: Vec<ExplainedRole>,
    /// The rule that decided, if one did.
    pub rule: Option<ExplainedRule>,
    /// The reading of the path that decided.
    pub decided_on: Option<String>,
    /// If nothing allowed it: the rules that would, were the caller to have their roles.
    pub missing: Vec<ExplainedRule>,
    /// The headers that are set on an allowed request.
    pub set_headers: Vec<(String, String)>,
    /// The headers that are removed from an allowed request.
    pub remove_headers: Vec<String>,
    /// The revision of the policy.
    pub revision: String,
}

/// A role of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRole {
    /// Its name.
    pub name: String,
    /// Where the caller has it from; at least one.
    pub from: Vec<RoleSource>,
}

/// Where a caller has a role from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleSource {
    /// Every caller has it: `anyone`.
    Everyone,
    /// Every caller with a verified proof has it: `authenticated`.
    EveryoneAuthenticated,
    /// It is granted to the caller's user name.
    GrantedToUser(String),
    /// It is granted to this group of the caller.
    GrantedToGroup(String),
    /// The caller's token carries it.
    CarriedByToken,
    /// This role of the caller extends it.
    ExtendedBy(String),
}

/// A rule of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRule {
    /// The role that it is a rule of.
    pub role: String,
    /// Its name.
    pub rule: String,
    /// Whether it denies.
    pub denies: bool,
    /// Where it stands, as `file:line:column`.
    pub at: String,
}

impl Authorizer {
    /// Explains the answer to a request. Hashes passwords, and looks at every rule: for people, not for requests.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, asker: Asker, now: Time) -> Explanation {
        let mut scratch = ReadScratch::default();
        let read = match request::read(request, &mut scratch) {
            Ok(read) => read,
            Err(reason) => return self.unreadable(request, reason),
        };
        let who = match &asker {
            Asker::Proven => self.identify_inline(read.authorization, now),
            Asker::Taken(subject) => self.taken(Some(subject.clone())),
        };
        let (known, refusal) = match who {
            Identified::Known(known) => (Some(known), None),
            Identified::Invalid(refusal) => (None, Some(refusal)),
            Identified::Anonymous | Identified::Pending(_) => (None, None),
        };
        let subject = known.as_deref().map(|known| &known.subject);
        let mut explanation = Explanation { method: lossy(request.method), ..self.nothing_yet() };
        explanation.tell_readings(&read);
        match refusal {
            Some(refusal) => explanation.tell_reason(Reason::InvalidCredentials(refusal)),
            None => {
                explanation.tell_subject(&self.loaded.policy, subject);
                self.tell_decision(&read, known.as_deref(), &mut explanation);
                let who = known.clone().map_or(Identified::Anonymous, Identified::Known);
                self.tell_answer(request, read, who, &mut explanation);
            }
        }
        explanation
    }

    fn unreadable(&self, request: &Request<'_>, reason: Reason) -> Explanation {
        let mut explanation = Explanation { method: lossy(request.method), ..self.nothing_yet() };
        explanation.tell_reason(reason);
        explanation
    }

    fn nothing_yet(&self) -> Explanation {
        Explanation {
            status: 403,
            reason: None,
            because: None,
            method: String::new(),
            host: None,
            paths: Vec::new(),
            deny_only_paths: Vec::new(),
            user: None,
            groups: Vec::new(),
            roles: Vec::new(),
            rule: None,
            decided_on: None,
            missing: Vec::new(),
            set_headers: Vec::new(),
            remove_headers: Vec::new(),
            revision: self.revision().to_owned(),
        }
    }

    fn tell_decision(&self, read: &Read<'_>, caller: crate::Caller<'_>, explanation: &mut Explanation) {
        let policy = &self.loaded.policy;
        let (path, decision) = self.decide(read, caller);
        explanation.decided_on = Some(lossy(path));
        match decision {
            Decision::Allowed(id) | Decision::Denied(id) => {
                let rule = policy.rule(id);
                explanation.rule = rule.map(|(role, rule, effect)| explained_rule(role, rule, effect));
            }
            Decision::NotAllowed => {
                let owner = caller.map(|known| known.subject.user.as_bytes());
                let matching = who_can::matching(policy, read.method, read.host, path, owner);
                let allowing = matching.filter(|(_, _, effect)| *effect == Effect::Allow);
                explanation.missing =
                    allowing.map(|(role, rule, effect)| explained_rule(role, rule, effect)).collect();
            }
        }
    }

    fn tell_answer(
        &self,
        request: &Request<'_>,
        read: Read<'_>,
        who: Identified<Attached>,
        explanation: &mut Explanation,
    ) {
        let Scratch { answer, known, .. } = &mut Scratch::default();
        match self.conclude(request, read, who, known, answer) {
            Verdict::Denied(denied) => explanation.tell_reason(denied.reason),
            Verdict::Allowed(allowed) => {
                explanation.status = 200;
                explanation.set_headers =
                    allowed.set().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                explanation.remove_headers = allowed.remove().map(str::to_owned).collect();
            }
        }
    }
}

impl Explanation {
    fn tell_reason(&mut self, reason: Reason) {
        self.status = reason.status();
        self.reason = Some(reason.name());
        self.because = Some(reason.to_string());
    }

    fn tell_readings(&mut self, read: &Read<'_>) {
        self.host = Some(lossy(read.host));
        self.paths = read.paths.all().map(lossy).collect();
        self.deny_only_paths = read.paths.deny_only().map(lossy).collect();
    }

    fn tell_subject(&mut self, policy: &Policy, subject: Option<&Subject>) {
        self.user = subject.map(|subject| subject.user.to_string());
        self.groups = subject.iter().flat_map(|subject| &subject.groups).map(ToString::to_string).collect();
        self.roles = roles(policy, subject);
    }
}

pub(crate) fn explained_rule(role: &Role, rule: &Rule, effect: Effect) -> ExplainedRule {
    ExplainedRule {
        role: role.name.to_string(),
        rule: rule.name.to_string(),
        denies: effect == Effect::Deny,
        at: rule.at.to_string(),
    }
}

/// The roles of a caller, as the reference evaluator finds them, and where each is from.
fn roles(policy: &Policy, subject: Option<&Subject>) -> Vec<ExplainedRole> {
    let mut sources: BTreeMap<RoleId, Vec<RoleSource>> = BTreeMap::new();
    for (id, source) in direct_roles(policy, subject) {
        sources.entry(id).or_default().push(source);
    }
    let mut open: Vec<RoleId> = sources.keys().copied().collect();
    while let Some(id) = open.pop() {
        let Some(role) = policy.roles.get(id.0 as usize) else { continue };
        for extended in &role.extends {
            if !sources.contains_key(extended) {
                open.push(*extended);
            }
            sources.entry(*extended).or_default().push(RoleSource::ExtendedBy(role.name.to_string()));
        }
    }
    let named = sources.into_iter().filter_map(|(id, from)| Some((policy.roles.get(id.0 as usize)?, from)));
    named.map(|(role, from)| ExplainedRole { name: role.name.to_string(), from }).collect()
}

fn direct_roles(policy: &Policy, subject: Option<&Subject>) -> Vec<(RoleId, RoleSource)> {
    let mut direct: Vec<_> = policy.role(ANYONE).map(|id| (id, RoleSource::Everyone)).into_iter().collect();
    let Some(subject) = subject else { return direct };
    direct.extend(policy.role(AUTHENTICATED).map(|id| (id, RoleSource::EveryoneAuthenticated)));
    direct.extend(
        subject.roles.iter().filter_map(|role| Some((policy.role(role)?, RoleSource::CarriedByToken))),
    );
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

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
