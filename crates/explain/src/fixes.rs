//! The smallest changes of a policy that would allow a denied request, each with what else it would
//! allow, and to whom.
//!
//! `edit` writes a change into the text of the policy. The changed policy is then loaded, and
//! decides about the request. A change that does not allow the request is not proposed. `extent`
//! says what else a change allows, and orders the proposals by that. No file is written.

mod edit;
mod extent;

use std::collections::{BTreeSet, HashSet};
use std::fmt::{Display, Formatter, Result as FmtResult};
use std::sync::Arc;

use authorizer::{Authorizer, Reason, Request, Scratch, Verdict};
use document::MapFiles;
use identity::{Credentials, FetchedKeys, Subject, UnixTime};
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Role, RoleId};
use policy::written::{is_method, literal, quoted};
use review::Change;
use serde::Serialize;

use crate::conditions::ExplainedCondition;
use crate::explanation::{ExplainedSubject, Explanation, authenticated, unverified_claims};
use crate::one_line::{OneLine, write_lines};
use crate::rules::{ExtendingRoles, has_path, is_for};
use crate::subjects::pattern_subject;
use crate::{Callers, Explainer};
use edit::{Edit, PolicyText};
use extent::Extent;

/// The maximum number of proposals.
const MAX_PROPOSALS: usize = 3;
/// The maximum number of roles that are tried, for each kind of change. Each try compiles a policy.
const MAX_ROLES: usize = 4;
/// The maximum number of the caller's groups that are tried.
const MAX_GROUPS: usize = 3;

/// What would allow a denied request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Fixes {
    /// What is needed before a change of the policy can help. If there is anything, no change is
    /// proposed: a person must decide.
    pub needed: Vec<String>,
    /// Changes of the policy. The change that allows the least besides the request comes first.
    pub proposals: Vec<Proposal>,
}

/// A change of the policy that allows the request.
#[derive(Clone, Debug, Serialize)]
pub struct Proposal {
    /// The change in words.
    pub change: String,
    /// The file.
    pub file: String,
    /// The first line that changes, from 1.
    pub line: usize,
    /// The lines that are replaced, in YAML; none if lines are only added.
    pub removed: Vec<String>,
    /// The lines in their place.
    pub added: Vec<String>,
    /// The other callers who may then make the request, as `who-can` lists them.
    pub lets_in: Vec<Callers>,
    /// All that the change allows and the policy does not, as `diff` describes it; `None` if the
    /// policies are too complex to compare.
    pub granted: Option<Vec<Change>>,
    #[serde(skip)]
    edit: Edit,
}

/// A change, before it is written.
struct Candidate {
    kind: Kind,
    change: String,
    edit: Option<Edit>,
}

/// A kind of change. Of two changes that allow the same, the change for a single user is better: a
/// role and a group may have more members tomorrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ToUser,
    Rule,
    ToGroup,
}

/// The request that a change must allow.
struct DeniedRequest<'r> {
    request: &'r Request<'r>,
    subject: &'r Subject,
    now: UnixTime,
}

impl Explainer<'_> {
    /// What would allow a request that this explanation says is denied. `has_host` says whether
    /// somebody named the host of the request. If so, a new rule can be for this host only.
    #[must_use]
    pub fn fixes(
        self,
        request: &Request<'_>,
        subject: ExplainedSubject,
        explanation: &Explanation,
        (has_host, now): (bool, UnixTime),
    ) -> Fixes {
        let now = self.time.unwrap_or(now);
        let needed = match needed(explanation) {
            Some(needed) => needed,
            None => match self.known_subject(request, subject, now) {
                Some(subject) => {
                    let denied = DeniedRequest { request, subject: &subject, now };
                    let proposals = self.proposals(&denied, explanation, has_host);
                    if !proposals.is_empty() {
                        return Fixes { needed: Vec::new(), proposals };
                    }
                    "another role or rule: no role of the policy has a rule for it that the caller \
                     could be given, and the caller has no role to which a rule could be added"
                        .to_owned()
                }
                None => "credentials: the request has none".to_owned(),
            },
        };
        Fixes { needed: vec![needed], proposals: Vec::new() }
    }

    /// The caller, if it is known.
    fn known_subject(
        self,
        request: &Request<'_>,
        subject: ExplainedSubject,
        now: UnixTime,
    ) -> Option<Subject> {
        match subject {
            ExplainedSubject::FromRequest => {
                // Without a valid credential there is no subject.
                let mut scratch = Scratch::default();
                let verdict = self.authorizer.check_inline(request, &mut scratch, now);
                let mut subject = authenticated(&verdict).ok().flatten()?;
                // The check above has verified the token, so its claims are only read here.
                let credentials = self.authorizer.credentials(request).ok().flatten();
                subject.claims = unverified_claims(credentials.and_then(Credentials::token));
                Some(subject)
            }
            ExplainedSubject::Given(subject) => {
                let identity = self.authorizer.backend(request.host).identity();
                let source = subject.source.or_else(|| identity.source_of(&subject.user));
                Some(self.with_issuer(&Subject { source, ..subject }))
            }
            ExplainedSubject::Invalid(_) => None,
        }
    }

    fn proposals(
        self,
        denied: &DeniedRequest<'_>,
        explanation: &Explanation,
        has_host: bool,
    ) -> Vec<Proposal> {
        let mut candidates = self.grants(denied.subject, explanation);
        candidates.extend(self.rules(explanation, has_host));
        let mut proposals: Vec<((Extent, Kind), Proposal)> = candidates
            .into_iter()
            .filter_map(|candidate| self.proposal(candidate, denied))
            .collect();
        proposals.sort_by_key(|(order, _)| *order);
        proposals.into_iter().take(MAX_PROPOSALS).map(|(_, proposal)| proposal).collect()
    }

    /// The grants of roles with a rule that matches, to the caller and to its groups.
    fn grants(self, subject: &Subject, explanation: &Explanation) -> Vec<Candidate> {
        let policy = self.policy();
        let text = PolicyText::new(self.authorizer.loaded());
        let mut candidates = Vec::new();
        for (id, role) in helping_roles(policy, subject, explanation) {
            let user = (Kind::ToUser, "user", &*subject.user);
            let groups = subject.groups.iter().take(MAX_GROUPS);
            let groups = groups.map(|group| (Kind::ToGroup, "group", &**group));
            for (kind, word, name) in [user].into_iter().chain(groups) {
                candidates.push(Candidate {
                    kind,
                    change: format!("grant the role `{}` to the {word} `{name}`", role.name),
                    edit: text.grant(id, &format!("{word}s"), name),
                });
            }
        }
        candidates
    }

    /// A rule for this request, in each role of the caller.
    fn rules(self, explanation: &Explanation, has_host: bool) -> Vec<Candidate> {
        let text = PolicyText::new(self.authorizer.loaded());
        let Some(rule) = rule_text(explanation, has_host) else { return Vec::new() };
        let mut names: Vec<&str> =
            explanation.caller.roles.iter().map(|role| role.name.as_str()).collect();
        // A rule of `anyone` would need no credentials. A rule of `authenticated` would help the
        // most callers, so it comes last.
        names.retain(|name| *name != ANYONE);
        names.sort_by_key(|name| *name == AUTHENTICATED);
        let roles = names.into_iter().take(MAX_ROLES);
        let candidates = roles.filter_map(|name| {
            let role = self.policy().roles.at(self.policy().role(name)?);
            let change = format!("add a rule to the role `{name}`, which the caller has");
            Some(Candidate { kind: Kind::Rule, change, edit: text.rule(role, &rule) })
        });
        candidates.collect()
    }

    /// The change with what it allows; `None` if the changed policy does not load, or still denies
    /// the request.
    fn proposal(
        self,
        Candidate { kind, change, edit }: Candidate,
        denied: &DeniedRequest<'_>,
    ) -> Option<((Extent, Kind), Proposal)> {
        let edit = edit?;
        let changed = changed(self.authorizer, &edit)?;
        let DeniedRequest { request, subject, now } = *denied;
        let mut scratch = Scratch::default();
        let verdict = changed.check_as(request, Ok(Some(subject.clone())), &mut scratch, now);
        if !matches!(verdict, Verdict::Allowed(_)) {
            return None;
        }
        let after = Explainer::new(&changed).at(self.time).who_can(request, now);
        let before = self.who_can(request, now);
        let lets_in = extent::others(after.callers, &before.callers, &subject.user);
        let diff = review::diff(self.policy(), &changed.loaded().policy).ok();
        let granted = diff.map(|diff| diff.changes);
        // The change allows nothing for any caller that the policy can have. For example, it is a
        // grant to a group that no source gives.
        if granted.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let extent = extent::extent(granted.as_deref());
        let (removed, added) = edit.lines();
        let (file, line) = (edit.file.display().to_string(), edit.line());
        Some((
            (extent, kind),
            Proposal { change, file, line, removed, added, lets_in, granted, edit },
        ))
    }
}

/// A condition that is not true, with those of its parts that are not true.
fn describe_untrue(condition: &ExplainedCondition) -> String {
    let ExplainedCondition { of, condition, parts, .. } = condition;
    let untrue = parts.iter().filter(|part| part.is_true != Some(true));
    let untrue: Vec<String> = untrue.map(|part| format!("`{}`", part.part)).collect();
    if untrue.is_empty() {
        return format!("`{condition}` of {of}");
    }
    let verb = if untrue.len() == 1 { "is" } else { "are" };
    format!("`{condition}` of {of}, of which {} {verb} not true", untrue.join(" and "))
}

/// What the request needs first, because a proposed change of the policy could not help; `None` if
/// one could. A request that is allowed needs nothing.
fn needed(explanation: &Explanation) -> Option<String> {
    let Some(name) = explanation.reason else {
        return Some("nothing: the request is allowed".to_owned());
    };
    let because = explanation.because.as_deref().unwrap_or(name);
    if explanation.cluster.is_some() {
        return Some(
            "permissions of the search cluster: its role files are not changed here".to_owned(),
        );
    }
    let reason = Reason::all().find(|reason| reason.name() == name)?;
    Some(match reason {
        Reason::NotAllowed => return None,
        Reason::MissingCredentials => "credentials: the request has none".to_owned(),
        Reason::InvalidCredentials(_) => format!("valid credentials: {because}"),
        Reason::Denied => {
            let rule = explanation.rule.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "no `deny` rule that matches: {rule} wins over every rule that allows. To narrow \
                 it is for its owner to decide"
            )
        }
        Reason::ConditionFailed => {
            let conditions = explanation.conditions.iter();
            let untrue = conditions.filter(|condition| condition.is_true != Some(true));
            let untrue: Vec<String> = untrue.map(describe_untrue).collect();
            format!("a condition that is true: {}", untrue.join(" and "))
        }
        Reason::InvalidMethod
        | Reason::InvalidPath(_)
        | Reason::InvalidHost(_)
        | Reason::ControlBytes
        | Reason::DuplicateAuthorization
        | Reason::SeveralCredentials
        | Reason::InvalidCookies
        | Reason::MalformedXfcc
        | Reason::ConnectionHeader
        | Reason::UnsupportedChange => format!("a valid request: {because}"),
        Reason::Limit(_)
        | Reason::Cluster(_)
        | Reason::NotPermitted
        | Reason::PartlyPermitted
        | Reason::DocumentSecurityTooLong => format!("no change of the policy: {because}"),
    })
}

/// The roles that the caller lacks and that have, or inherit, an `allow` rule for each
/// interpretation of the path. Those with the fewest rules come first.
fn helping_roles<'p>(
    policy: &'p Policy,
    subject: &Subject,
    explanation: &Explanation,
) -> Vec<(RoleId, &'p Role)> {
    let held_names: HashSet<&str> =
        explanation.caller.roles.iter().map(|role| role.name.as_str()).collect();
    let subject = pattern_subject(policy, subject);
    let host = explanation.host.as_deref().unwrap_or_default().as_bytes();
    let method = explanation.method.as_bytes();
    let extending = ExtendingRoles::new(policy);
    let mut helping: Option<BTreeSet<RoleId>> = None;
    for path in &explanation.paths {
        let matching = policy.roles.entries().filter(|(_, role)| {
            let mut rules = role.allow.iter();
            rules.any(|rule| {
                is_for(rule, method, host) && has_path(rule, path.as_bytes(), Some(subject))
            })
        });
        let with_rule: BTreeSet<RoleId> =
            matching.flat_map(|(role, _)| extending.with_extending(role)).collect();
        helping = Some(match helping {
            Some(helping) => helping.intersection(&with_rule).copied().collect(),
            None => with_rule,
        });
    }
    let helping = helping.into_iter().flatten().map(|id| (id, policy.roles.at(id)));
    let mut helping: Vec<(RoleId, &Role)> =
        helping.filter(|(_, role)| !held_names.contains(&*role.name)).collect();
    helping.retain(|(_, role)| ![ANYONE, AUTHENTICATED].contains(&&*role.name));
    helping.sort_by_cached_key(|(id, _)| count_rules(policy, *id));
    helping.truncate(MAX_ROLES);
    helping
}

/// The number of `allow` rules of a role and of those that it extends.
fn count_rules(policy: &Policy, role: RoleId) -> usize {
    let (mut found, mut to_visit) = (BTreeSet::from([role]), vec![role]);
    let mut count = 0;
    while let Some(id) = to_visit.pop() {
        let role = policy.roles.at(id);
        count += role.allow.len();
        to_visit.extend(role.extends.iter().copied().filter(|extended| found.insert(*extended)));
    }
    count
}

/// A rule for exactly this request; `None` if a rule cannot name its method.
fn rule_text(explanation: &Explanation, has_host: bool) -> Option<String> {
    let method = Some(&*explanation.method).filter(|method| is_method(method))?;
    let host = explanation.host.as_deref().filter(|host| has_host && !host.is_empty());
    // Two interpretations of the path, such as with `%3A` and with `:`, may be the same in a rule.
    let paths = BTreeSet::from_iter(explanation.paths.iter().map(|path| written(path)));
    let paths = Vec::from_iter(paths);
    Some(match (host, &*paths) {
        (None, [path]) => quoted(&format!("{method} {path}")),
        // In the short form, a host without a dot would be read as a path.
        (Some(host), [path]) if host.contains('.') && path.starts_with('/') => {
            quoted(&format!("{method} {host}{path}"))
        }
        (host, paths) => {
            let hosts = host.map(|host| format!(" hosts: [{}],", quoted(host)));
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            let (hosts, paths) = (hosts.unwrap_or_default(), paths.join(", "));
            format!("{{ methods: [{}],{hosts} paths: [{paths}] }}", quoted(method))
        }
    })
}

/// A canonical path in the form of a rule.
fn written(path: &str) -> String {
    if path == "*" {
        return path.to_owned();
    }
    path.split('/').map(literal).collect::<Vec<_>>().join("/")
}

/// The policy with a change, ready to decide; `None` if it does not load.
fn changed(authorizer: &Authorizer, edit: &Edit) -> Option<Authorizer> {
    let loaded = authorizer.loaded();
    let files = loaded.files.iter().map(|file| (file.path.clone(), file.bytes.to_vec()));
    let mut files = MapFiles(files.collect());
    *files.0.get_mut(&edit.file)? = edit.applied().into_bytes();
    let main = &loaded.files.first()?.path;
    let changed = policy::load(&files, main).ok()?;
    // Fetched keys would verify tokens. None are needed: the caller is known already.
    let compiled = Authorizer::compile(Arc::new(changed), &FetchedKeys::new(), None);
    compiled.ok().map(|(authorizer, _)| authorizer)
}

impl Proposal {
    /// The text of [`Self::file`] with the change.
    #[must_use]
    pub fn applied(&self) -> String {
        self.edit.applied()
    }
}

impl Display for Fixes {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        write_lines(f, "needed:  ", &self.needed)?;
        self.proposals.iter().try_for_each(|proposal| write!(f, "{proposal}"))
    }
}

impl Display for Proposal {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let Self { change, file, line, .. } = self;
        write!(f, "\nfix:     {}, at {}:{line}", OneLine(change), OneLine(file))?;
        write_lines(f, "         - ", &self.removed)?;
        write_lines(f, "         + ", &self.added)?;
        if self.lets_in.is_empty() {
            f.write_str("\n         lets in: nobody else")?;
        }
        write_lines(f, "         lets in: ", &self.lets_in)?;
        match &self.granted {
            Some(changes) => {
                let text: Vec<String> = changes.iter().map(ToString::to_string).collect();
                write_lines(f, "         ", text.iter().flat_map(|text| text.lines()))
            }
            None => f.write_str("\n         what else it grants is too complex to compare"),
        }
    }
}
