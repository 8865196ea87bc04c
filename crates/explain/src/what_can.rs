//! What a caller may do: the rules of its roles, which decide each of its requests.

mod cluster;
mod mapped;

use std::collections::HashSet;
use std::fmt;

use authorizer::Reason;
use identity::{CredentialsError, Subject};
use policy::model::{Identity, Rule, SourceId};
use policy::pattern::{Pattern, Segment};
use serde::Serialize;

use crate::Explainer;
use crate::explanation::{self, ExplainedRole};
use crate::matched::{ExplainedRule, explained_rule};
pub use cluster::{ClusterPermission, ClusterRole};
pub use mapped::{AskedClusterRoles, ClusterRoles, MappedRole};

/// What a caller may do. A request is allowed if a rule that allows matches, and none that denies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhatCan {
    /// The name of the reason that every request of this caller gets 401 for; such a caller has no
    /// roles and no rules.
    pub reason: Option<&'static str>,
    /// That reason in words.
    pub because: Option<String>,
    /// Whether the caller has no credentials.
    pub anonymous: bool,
    /// The user name; `None` for an anonymous caller, and for every caller with these roles.
    pub user: Option<String>,
    /// The issuer of the caller's token, if it has one.
    pub issuer: Option<String>,
    /// The caller's groups.
    pub groups: Vec<String>,
    /// The caller's roles in the order of the policy, each with its sources.
    pub roles: Vec<ExplainedRole>,
    /// Their rules that can match a request of the caller, in the order of the policy.
    pub rules: Vec<HeldRule>,
    /// What was probably meant, where something is likely a mistake.
    pub notes: Vec<String>,
    /// What its roles allow on a search cluster; `None` on other hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Vec<ClusterRole>>,
}

/// A rule that a caller has by one of its roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// Its methods, joined by `|`; `*` is any.
    pub methods: String,
    /// Its hosts; none means any.
    pub hosts: Vec<String>,
    /// Its paths that can match a request of the caller.
    pub paths: Vec<String>,
    /// The sources that `{user.id}` in its paths may come from.
    pub user_id_from: Vec<String>,
}

impl Explainer<'_> {
    /// What this caller may do; `None` is an anonymous one. A subject with an empty name stands for
    /// every caller that has its roles and groups.
    #[must_use]
    pub fn what_can(self, subject: Option<&Subject>) -> WhatCan {
        self.what_rules_allow(subject, |_| true)
    }

    /// The same with these rules only.
    fn what_rules_allow(
        self,
        subject: Option<&Subject>,
        is_listed: impl Fn(&Rule) -> bool,
    ) -> WhatCan {
        let policy = self.policy();
        let roles = explanation::roles(policy, subject);
        let mut rules = Vec::new();
        let mut unknown_source = None;
        let held: HashSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        for (_, role, rule, effect) in policy.rules() {
            if !held.contains(&*role.name) || !is_listed(rule) {
                continue;
            }
            let possible: Vec<&Pattern> =
                rule.resources.iter().filter(|pattern| can_match(pattern, subject)).collect();
            if possible.len() < rule.resources.len() {
                unknown_source =
                    unknown_source.or(subject.filter(|subject| subject.source.is_none()));
            }
            if !possible.is_empty() {
                let rule_of_role = explained_rule(role, rule, effect);
                rules.push(HeldRule::new(rule_of_role, rule, &possible, &policy.identity));
            }
        }
        let note = unknown_source.map(|subject| {
            format!(
                "the source of `{}` is not known, so rules with `{{user.id}}` are left out: `--issuer` names it",
                subject.user
            )
        });
        let named = subject.filter(|subject| !subject.user.is_empty());
        WhatCan {
            anonymous: subject.is_none(),
            user: named.map(|subject| subject.user.to_string()),
            issuer: subject.and_then(|subject| subject.issuer.as_ref()).map(ToString::to_string),
            groups: subject
                .iter()
                .flat_map(|subject| &subject.groups)
                .map(ToString::to_string)
                .collect(),
            roles,
            rules,
            notes: note.into_iter().collect(),
            ..WhatCan::default()
        }
    }
}

/// Whether some request of the caller can match: one with `{user}` or `{user.id}` needs a name, and
/// the right source.
fn can_match(pattern: &Pattern, subject: Option<&Subject>) -> bool {
    pattern.segments.iter().all(|segment| match segment {
        Segment::User => subject.is_some(),
        Segment::UserId(sources) => subject.is_some_and(|subject| {
            subject.user.is_empty()
                || subject.source.is_some_and(|source| sources.contains(&source))
        }),
        Segment::Literal(_) | Segment::One(_) | Segment::Glob(_) => true,
    })
}

impl HeldRule {
    fn new(explained: ExplainedRule, rule: &Rule, paths: &[&Pattern], identity: &Identity) -> Self {
        let sources = |pattern: &&Pattern| -> Vec<SourceId> {
            let sources = pattern.segments.iter().filter_map(|segment| match segment {
                Segment::UserId(sources) => Some(sources),
                Segment::User | Segment::Literal(_) | Segment::One(_) | Segment::Glob(_) => None,
            });
            sources.flatten().copied().collect()
        };
        let ids: Vec<SourceId> = paths.iter().flat_map(sources).collect();
        let named = identity.sources().filter(|(id, ..)| ids.contains(id));
        Self {
            rule: explained,
            methods: rule.actions.to_string(),
            hosts: rule.scopes.iter().map(ToString::to_string).collect(),
            paths: paths.iter().map(ToString::to_string).collect(),
            user_id_from: named.map(|(_, name, _)| name.to_owned()).collect(),
        }
    }
}

impl WhatCan {
    /// What a caller may do whose credentials are invalid for this reason: nothing, not even what
    /// `anyone` may.
    #[must_use]
    pub fn nothing(user: &str, error: CredentialsError) -> Self {
        let reason = Reason::InvalidCredentials(error);
        Self {
            reason: Some(reason.name()),
            because: Some(reason.to_string()),
            user: Some(user.to_owned()),
            ..Self::default()
        }
    }

    /// Whether a rule or a role of the search cluster allows anything.
    #[must_use]
    pub fn allows_something(&self) -> bool {
        let on_cluster = self.cluster.iter().flatten().any(ClusterRole::allows_something);
        on_cluster || self.rules.iter().any(|held| !held.rule.denies)
    }
}

impl fmt::Display for WhatCan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "caller:  {user}")?,
            None if self.anonymous => f.write_str("caller:  anonymous")?,
            None => f.write_str("caller:  everyone with these roles")?,
        }
        if let Some(issuer) = &self.issuer {
            write!(f, ", by a token of {issuer}")?;
        }
        if !self.groups.is_empty() {
            let kind = if self.cluster.is_some() { "with the backend roles" } else { "in" };
            write!(f, ", {kind} {}", self.groups.join(", "))?;
        }
        for role in &self.roles {
            write!(f, "\nroles:   {role}")?;
        }
        for held in &self.rules {
            write!(f, "\nrule:    {held}")?;
        }
        for role in self.cluster.iter().flatten() {
            write!(f, "{role}")?;
        }
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            // A note says why: there is no such user.
            self.notes.iter().try_for_each(|note| write!(f, "\nnote:    {note}"))?;
            return write!(f, "\nnothing: every request gets 401: {because} ({name})");
        }
        if !self.allows_something() {
            f.write_str(match self.cluster {
                Some(_) => "\nnothing: no role of the search cluster allows anything",
                None => "\nnothing: no rule allows anything",
            })?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote:    {note}"))
    }
}

impl fmt::Display for HeldRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rule)?;
        let hosts = self.hosts.join(", ");
        let short = format!("{} {hosts}{}", self.methods, self.paths.join(", "));
        // A rule without a name of its own is called as it is written.
        if self.rule.rule != short {
            write!(f, ": {} {}", self.methods, self.paths.join(", "))?;
            if !hosts.is_empty() {
                write!(f, " on {hosts}")?;
            }
        }
        if !self.user_id_from.is_empty() {
            write!(f, ", `{{user.id}}` from {}", self.user_id_from.join(", "))?;
        }
        Ok(())
    }
}
