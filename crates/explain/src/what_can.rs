//! What a caller may do: the rules of its roles, or its roles of a search cluster.

mod cluster;
mod roles;

use std::collections::HashSet;
use std::fmt;

use authorizer::{HeaderLines, Reason, Request};
use condition::{CallerInputs, VariableKind};
use identity::{CredentialsError, Subject};
use policy::model::{Effect, Identity, Role, Rule, SourceId};
use policy::pattern::{Pattern, Segment};
use policy::{canonical, reference};
use serde::Serialize;

use crate::Explainer;
use crate::conditions::{GivenHeaders, given_certificate, given_variables};
use crate::explanation::{ExplainedCaller, denying_roles, given_roles};
use crate::notes::note_on_actors;
use crate::one_line::{write_condition, write_lines};
use crate::rules::{ExplainedRule, is_for_host};
use crate::ways::{Given, Position, Ways, shown_rule, ways_of_roles};
pub use cluster::{ClusterPermission, ClusterRole};
pub use roles::{ClusterRoleQuery, ClusterRoles, MappedRole};

/// What a caller may do. A request is allowed if an `allow` rule matches, and no `deny` rule.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhatCan {
    /// If every request of this caller gets 401: the name of the reason. Such a caller has no roles
    /// and no rules.
    pub reason: Option<&'static str>,
    /// The same reason in words.
    pub because: Option<String>,
    /// Whether the caller has no credentials.
    pub anonymous: bool,
    /// The caller. Without a user it is anonymous, or stands for every caller with these roles. On
    /// a search cluster its groups are its backend roles.
    #[serde(flatten)]
    pub caller: ExplainedCaller,
    /// The rules that can match a request of the caller, in the order of the policy.
    pub rules: Vec<CallerRule>,
    /// Hints at likely mistakes.
    pub notes: Vec<String>,
    /// The caller's roles of a search cluster; `None` on other hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Vec<ClusterRole>>,
}

/// A rule of a role of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallerRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// Its methods, joined by `|`; `*` is any.
    pub methods: String,
    /// Its hosts that can match a request of the caller; empty for any.
    pub hosts: Vec<String>,
    /// Its paths that can match a request of the caller.
    pub paths: Vec<String>,
    /// The condition under which it counts for the caller, if any. Parts that the given caller and
    /// request already decide are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The names of the sources, such as issuers, for whose users `{user.id}` in its paths can
    /// match.
    pub user_id_from: Vec<String>,
}

impl Explainer<'_> {
    /// What this caller may do according to the rules; `None` is an anonymous caller. A subject
    /// with an empty name stands for every caller that has its roles and groups.
    #[must_use]
    pub fn what_can(self, subject: Option<&Subject>) -> WhatCan {
        self.what_rules_allow(subject, &Request::default(), |_| true)
    }

    /// Like [`Self::what_can`], for requests from this client and with these headers, on any host.
    /// Conditions are evaluated for this client and these headers.
    #[must_use]
    pub fn what_can_with(self, request: &Request<'_>, subject: Option<&Subject>) -> WhatCan {
        self.what_rules_allow(subject, request, |_| true)
    }

    /// What this caller may do on this host. On the host of a search cluster, the roles of the
    /// cluster decide, and the caller also has `cluster_roles`. On any other host, the rules for it
    /// decide. Their conditions are evaluated for the client and the headers of the request.
    #[must_use]
    pub fn what_can_on(
        self,
        request: &Request<'_>,
        subject: Option<&Subject>,
        cluster_roles: &[String],
    ) -> WhatCan {
        let host = request.host;
        if let Some(cluster) = self.cluster_of(host) {
            return WhatCan::on_cluster(cluster, subject, cluster_roles);
        }
        let mut buffer = Vec::new();
        let host = canonical::host(host, &mut buffer).unwrap_or(host);
        self.what_rules_allow(subject, request, |rule| is_for_host(rule, host))
    }

    fn what_rules_allow(
        self,
        subject: Option<&Subject>,
        request: &Request<'_>,
        is_listed: impl Fn(&Rule) -> bool,
    ) -> WhatCan {
        let policy = self.policy();
        let caller = ExplainedCaller::by_rules(policy, subject);
        let roles: HashSet<&str> = caller.roles.iter().map(|role| role.name.as_str()).collect();
        // If the source of the subject is an issuer, the subject has a token of this issuer. The
        // token's claims are known only if the subject was given with them.
        let with_issuer = subject.map(|subject| self.with_issuer(subject));
        let subject = with_issuer.as_ref();
        let (mut rules, mut notes) = (Vec::new(), Vec::new());
        let headers = GivenHeaders(HeaderLines(request.headers));
        let certificate = given_certificate(request);
        let variables = given_variables(self.policy(), request, &headers, &certificate, self.time);
        // The variable `roles` has only the roles that the caller has without a condition.
        let certain = reference::certain_roles(policy, &reference_caller(subject));
        let variables_of_caller =
            CallerInputs { roles: certain, ..authorizer::caller_inputs(subject) };
        // Without a name, the subject stands for all callers with its roles, whose names and
        // credentials are not known.
        let unknown: &[VariableKind] = match subject {
            Some(subject) if subject.user.is_empty() => {
                &[VariableKind::User, VariableKind::Names, VariableKind::Credentials]
            }
            Some(subject) if subject.source.is_none() => &[VariableKind::Credentials],
            Some(_) | None => &[],
        };
        let given = Given { request: variables, caller: Some(&variables_of_caller), unknown };
        let held = given_roles(policy, subject);
        let [allow, deny] = [Effect::Allow, Effect::Deny]
            .map(|effect| ways_of_roles(policy, &held, (effect, None), &given));
        let denying = denying_roles(policy, subject);
        for (_, role, rule, effect) in policy.rules() {
            let has_role = match effect {
                Effect::Allow => roles.contains(&*role.name),
                Effect::Deny => denying.contains(&*role.name),
            };
            if !has_role {
                continue;
            }
            let Some(rule) = shown_rule(rule, &given).filter(&is_listed) else { continue };
            let possible: Vec<&Pattern> =
                rule.resources.iter().filter(|pattern| can_match(pattern, subject)).collect();
            let is_incomplete = possible.len() < rule.resources.len();
            if let Some(subject) = subject.filter(|subject| subject.source.is_none())
                && is_incomplete
                && notes.is_empty()
            {
                notes.push(format!(
                    "the source of `{}` is not known, so rules with `{{user.id}}` are left out: \
                     `--issuer` names it",
                    subject.user
                ));
            }
            let of_roles = if effect == Effect::Allow { &allow } else { &deny };
            let ways = policy.role(&role.name).and_then(|id| of_roles.get(&id));
            let ways = ways.map_or_else(Ways::always, |ways| {
                ways.under(rule.when.as_ref(), Position::Last, effect, &given)
            });
            if !possible.is_empty() && !ways.is_never() {
                let rule = CallerRule::new((role, &rule, effect), &possible, &policy.identity);
                rules.push(CallerRule { when: ways.condition(), ..rule });
            }
        }
        if subject.is_some_and(|subject| subject.actor.is_none()) {
            notes.extend(note_on_actors(&policy.identity));
        }
        WhatCan { anonymous: subject.is_none(), caller, rules, notes, ..WhatCan::default() }
    }
}

/// The subject as a caller of the `reference` module; an anonymous caller without a subject.
fn reference_caller(subject: Option<&Subject>) -> reference::Caller<'_> {
    let Some(subject) = subject else { return reference::Caller::default() };
    reference::Caller {
        user: Some(&subject.user),
        source: subject.source,
        groups: subject.groups.iter().map(|group| &**group).collect(),
        roles: subject.roles.iter().map(|role| &**role).collect(),
        actor: subject.actor.as_ref().map(|actor| reference_caller(Some(actor)).into()),
    }
}

/// Whether the pattern can match a request of the caller. `{user}` and `{user.id}` do not match for
/// an anonymous caller. `{user.id}` also needs the right source, unless the subject has no name and
/// stands for many callers.
fn can_match(pattern: &Pattern, subject: Option<&Subject>) -> bool {
    pattern.segments.iter().all(|segment| match segment {
        Segment::User => subject.is_some(),
        Segment::UserId(sources) => subject.is_some_and(|subject| {
            subject.user.is_empty()
                || subject.source.is_some_and(|source| sources.contains(&source))
        }),
        Segment::Literal(_) | Segment::Any(_) | Segment::Glob(_) => true,
    })
}

impl CallerRule {
    fn new(
        (role, rule, effect): (&Role, &Rule, Effect),
        paths: &[&Pattern],
        identity: &Identity,
    ) -> Self {
        let segments = paths.iter().flat_map(|pattern| &pattern.segments);
        let ids: HashSet<SourceId> = segments
            .flat_map(|segment| match segment {
                Segment::UserId(sources) => sources.to_vec(),
                Segment::User | Segment::Literal(_) | Segment::Any(_) | Segment::Glob(_) => {
                    Vec::new()
                }
            })
            .collect();
        let sources = identity.sources().filter(|(id, ..)| ids.contains(id));
        Self {
            rule: ExplainedRule::new(role, rule, effect),
            methods: rule.actions.to_string(),
            hosts: rule.scopes.iter().map(ToString::to_string).collect(),
            paths: paths.iter().map(ToString::to_string).collect(),
            when: None,
            user_id_from: sources.map(|(_, name, _)| name.to_owned()).collect(),
        }
    }
}

impl WhatCan {
    /// The answer for a caller whose credentials are invalid for this reason: nothing, not even the
    /// rules of `anyone`.
    #[must_use]
    pub fn nothing(user: &str, error: CredentialsError) -> Self {
        let reason = Reason::InvalidCredentials(error);
        Self {
            reason: Some(reason.name()),
            because: Some(reason.to_string()),
            caller: ExplainedCaller { user: Some(user.to_owned()), ..ExplainedCaller::default() },
            ..Self::default()
        }
    }

    /// Whether a rule or a role of the search cluster allows anything.
    #[must_use]
    pub fn allows_something(&self) -> bool {
        self.cluster.iter().flatten().any(ClusterRole::allows_something)
            || self.rules.iter().any(|rule| !rule.rule.denies)
    }
}

impl fmt::Display for WhatCan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_user = if self.anonymous { "anonymous" } else { "everyone with these roles" };
        let backend_roles = self.cluster.as_ref().map(|_| self.caller.groups.as_slice());
        self.caller.fmt_line(f, without_user, backend_roles)?;
        write_lines(f, "roles:   ", &self.caller.roles)?;
        write_lines(f, "rule:    ", &self.rules)?;
        for role in self.cluster.iter().flatten() {
            write!(f, "{role}")?;
        }
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            // Such an answer may have a note: the commands add one if there is no such user.
            write_lines(f, "note:    ", &self.notes)?;
            return write!(f, "\nnothing: every request gets 401: {because} ({name})");
        }
        if !self.allows_something() {
            f.write_str(match self.cluster {
                Some(_) => "\nnothing: no role of the search cluster allows anything",
                None => "\nnothing: no rule allows anything",
            })?;
        }
        write_lines(f, "note:    ", &self.notes)
    }
}

impl fmt::Display for CallerRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rule)?;
        let (hosts, paths) = (self.hosts.join(", "), self.paths.join(", "));
        // The parser names a nameless rule after its methods, hosts and paths: do not repeat these.
        if self.rule.rule != format!("{} {hosts}{paths}", self.methods) {
            write!(f, ": {} {paths}", self.methods)?;
            if !hosts.is_empty() {
                write!(f, " on {hosts}")?;
            }
        }
        if !self.user_id_from.is_empty() {
            write!(f, ", `{{user.id}}` from {}", self.user_id_from.join(", "))?;
        }
        write_condition(f, self.when.as_deref())
    }
}
