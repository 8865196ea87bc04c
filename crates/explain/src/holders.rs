//! Who has what a policy grants: the callers behind each grant, and those who have a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter, Result};

use condition::{CallerClaims, CallerInputs, Condition, VariableKind};
use document::Place;
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Effect, Issuer, RoleId, Rule};
use review::{Attribute, CallerSource, Source, quote_names};
use serde::Serialize;

use crate::is_zero;
use crate::one_line::write_condition;
use crate::rules::ExtendingRoles;
use crate::ways::{Given, Position, shown_rule, ways_of_roles};

/// The maximum number of users that are named together: a role may have all users of a company.
const MAX_USERS: usize = 100;

/// Callers of a source who have a role or a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// How they authenticate.
    #[serde(flatten)]
    pub source: CallerSource,
    /// The first of their user names, with the prefix of their source; `None` if the name does not
    /// matter.
    pub users: Option<Vec<String>>,
    /// How many users are not named.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_users: usize,
    /// Each caller has one of these roles and groups in its token; empty if it needs none.
    pub attributes: Vec<Attribute>,
    /// The condition of the policy under which they have it; `None` if they always have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// A role that the policy gives to somebody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleGrant<'p> {
    pub(crate) role: RoleId,
    pub(crate) to: Grantee<'p>,
    pub(crate) when: Option<&'p Condition>,
    /// Where the policy says so; `None` for the reserved roles.
    pub(crate) at: Option<&'p Place>,
}

/// To whom a role is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grantee<'p> {
    Everyone,
    Authenticated,
    /// The user with this name, whatever the source.
    User(&'p str),
    Group(&'p str),
    /// Tokens of this issuer that name the role.
    Tokens(&'p Issuer),
}

/// All that gives roles, in the order of the policy.
pub(crate) fn role_grants(policy: &Policy) -> Vec<RoleGrant<'_>> {
    let mut grants = Vec::new();
    for (name, to) in [(ANYONE, Grantee::Everyone), (AUTHENTICATED, Grantee::Authenticated)] {
        let role = policy.role(name);
        grants.extend(role.map(|role| RoleGrant { role, to, when: None, at: None }));
    }
    for grant in &policy.grants {
        let users = grant.users.iter().map(|user| Grantee::User(user));
        let groups = grant.groups.iter().map(|group| Grantee::Group(group));
        grants.extend(users.chain(groups).map(|to| RoleGrant {
            role: grant.role,
            to,
            when: grant.when.as_ref(),
            at: Some(&grant.at),
        }));
    }
    for issuer in &policy.identity.jwt {
        let roles = policy.roles.entries().filter(|(_, role)| {
            issuer.may_give(&role.name) && ![ANYONE, AUTHENTICATED].contains(&&*role.name)
        });
        grants.extend(roles.map(|(role, _)| RoleGrant {
            role,
            to: Grantee::Tokens(issuer),
            when: None,
            at: Some(&issuer.at),
        }));
    }
    grants
}

/// Finds the callers behind the grants of a policy.
pub(crate) struct Holders<'p> {
    policy: &'p Policy,
    sources: Vec<Source<'p>>,
    extending: ExtendingRoles,
    has_conditions: bool,
}

/// Callers who are described together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: CallerSource,
    kind: Kind,
    when: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    All,
    Named,
    WithAttributes,
}

/// The callers of a [`Key`].
#[derive(Default)]
struct Members {
    users: BTreeSet<String>,
    attributes: BTreeSet<Attribute>,
}

impl<'p> Holders<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        Self {
            policy,
            sources: Source::all(&policy.identity).collect(),
            extending: ExtendingRoles::new(policy),
            has_conditions: policy.all_conditions().next().is_some(),
        }
    }

    /// A role and the roles that extend it: whoever has any of them has its rules.
    pub(crate) fn roles_with(&self, role: RoleId) -> BTreeSet<RoleId> {
        self.extending.with_extending(role)
    }

    /// Those who have a role by this grant.
    pub(crate) fn by_grant(&self, grant: &RoleGrant<'p>) -> Vec<Holder> {
        self.by_grants(&[grant], grant.role, None)
    }

    /// Those who have a rule of this role by one of `grants`, whether or not a `deny` rule takes
    /// some of its requests away.
    pub(crate) fn with_rule(
        &self,
        grants: &[RoleGrant<'p>],
        role: RoleId,
        rule: &Rule,
    ) -> Vec<Holder> {
        let roles = self.roles_with(role);
        let grants: Vec<&RoleGrant<'p>> =
            grants.iter().filter(|grant| roles.contains(&grant.role)).collect();
        self.by_grants(&grants, role, Some(rule))
    }

    fn by_grants(
        &self,
        grants: &[&RoleGrant<'p>],
        role: RoleId,
        rule: Option<&Rule>,
    ) -> Vec<Holder> {
        let mut found: BTreeMap<Key, Members> = BTreeMap::new();
        for grant in grants {
            if matches!(grant.to, Grantee::Everyone) {
                self.add(&mut found, (CallerSource::Anonymous, Kind::All), (grant, role), rule);
            }
            for source in &self.sources {
                let (kind, users, attribute) = match grant.to {
                    Grantee::Everyone | Grantee::Authenticated => (Kind::All, Vec::new(), None),
                    Grantee::User(user) if has_user(source, user) => {
                        (Kind::Named, vec![user.to_owned()], None)
                    }
                    Grantee::Group(group) if is_in_tokens(source, group) => {
                        (Kind::WithAttributes, Vec::new(), Some(Attribute::Group(group.to_owned())))
                    }
                    Grantee::Group(group) => (Kind::Named, members(source, group), None),
                    Grantee::Tokens(issuer) if is_of(source, issuer) => {
                        let name = self.policy.roles.at(grant.role).name.to_string();
                        (Kind::WithAttributes, Vec::new(), Some(Attribute::Role(name)))
                    }
                    Grantee::User(_) | Grantee::Tokens(_) => continue,
                };
                if kind == Kind::Named && users.is_empty() {
                    continue;
                }
                let members =
                    self.add(&mut found, (source.kind.clone(), kind), (grant, role), rule);
                if let Some(members) = members {
                    members.users.extend(users);
                    members.attributes.extend(attribute);
                }
            }
        }
        let keys: Vec<Key> = found.keys().cloned().collect();
        let everybody: BTreeSet<&CallerSource> = keys
            .iter()
            .filter(|key| key.kind == Kind::All && key.when.is_none())
            .map(|key| &key.source)
            .collect();
        // If all callers of a source have it, some of them need not be named.
        found.retain(|key, _| {
            key.kind == Kind::All && key.when.is_none() || !everybody.contains(&key.source)
        });
        found.into_iter().map(|(key, members)| Holder::new(key, members)).collect()
    }

    /// Adds the callers of a source who have `role` or its rule by this grant to `found`. Returns
    /// their entry; `None` if there are no such callers.
    fn add<'f>(
        &self,
        found: &'f mut BTreeMap<Key, Members>,
        (source, kind): (CallerSource, Kind),
        (grant, role): (&RoleGrant<'p>, RoleId),
        rule: Option<&Rule>,
    ) -> Option<&'f mut Members> {
        let when = self.condition(&source, grant, role, rule)?;
        Some(found.entry(Key { source, kind, when }).or_default())
    }

    /// The condition under which a caller of a source has `role` or its rule by this grant:
    /// `Some(None)` without a condition. `None` if the condition is never true, or no host or path
    /// of the rule can match.
    fn condition(
        &self,
        source: &CallerSource,
        grant: &RoleGrant<'p>,
        role: RoleId,
        rule: Option<&Rule>,
    ) -> Option<Option<String>> {
        if !self.has_conditions {
            return Some(None);
        }
        let (issuer, scheme, claims) = match source {
            CallerSource::Token { issuer } => {
                (Some(issuer.as_str()), Some("bearer"), CallerClaims::Unknown)
            }
            CallerSource::Basic => (None, Some("basic"), CallerClaims::None),
            CallerSource::ApiKey => (None, Some("api_key"), CallerClaims::None),
            CallerSource::Certificate => (None, Some("certificate"), CallerClaims::None),
            CallerSource::Anonymous => (None, None, CallerClaims::None),
        };
        let caller = CallerInputs { issuer, scheme, claims, ..CallerInputs::default() };
        let unknown: &[VariableKind] = match source {
            CallerSource::Anonymous => &[],
            CallerSource::Basic
            | CallerSource::ApiKey
            | CallerSource::Certificate
            | CallerSource::Token { .. } => &[VariableKind::User, VariableKind::Names],
        };
        let inputs = Given { caller: Some(&caller), unknown, ..Given::default() };
        let roles = [(grant.role, grant.when)];
        let ways = ways_of_roles(self.policy, &roles, (Effect::Allow, None), &inputs);
        let of_role = ways.get(&role)?;
        let when = match rule {
            Some(rule) => shown_rule(rule, &inputs)?.when,
            None => None,
        };
        let ways = of_role.under(when.as_ref(), Position::Last, Effect::Allow, &inputs);
        (!ways.is_never()).then(|| ways.condition())
    }
}

/// Whether a source can have a user with this name.
fn has_user(source: &Source<'_>, user: &str) -> bool {
    user.strip_prefix(source.user_prefix)
        .is_some_and(|name| source.listed.contains_key(name) || source.may_have_unlisted(name))
}

/// Whether tokens or certificates of a source can have this group.
fn is_in_tokens(source: &Source<'_>, group: &str) -> bool {
    let name = source.group_prefix().and_then(|prefix| group.strip_prefix(prefix));
    name.is_some_and(|name| !name.is_empty())
        && source.certificates.is_none_or(|certificates| certificates.may_have_group(group))
}

fn is_of(source: &Source<'_>, issuer: &Issuer) -> bool {
    source.issuer.is_some_and(|i| *i.issuer == *issuer.issuer)
}

/// The users of a source that lists them who are in this group.
fn members(source: &Source<'_>, group: &str) -> Vec<String> {
    let users = source.listed.iter().filter(|(_, groups)| groups.iter().any(|name| name == group));
    users.map(|(name, _)| format!("{}{name}", source.user_prefix)).collect()
}

impl Holder {
    fn new(Key { source, kind, when }: Key, Members { users, attributes }: Members) -> Self {
        Self {
            source,
            more_users: users.len().saturating_sub(MAX_USERS),
            users: (kind == Kind::Named).then(|| users.into_iter().take(MAX_USERS).collect()),
            attributes: attributes.into_iter().collect(),
            when,
        }
    }
}

/// In the words of `who-can`.
impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.source.describe_callers(self.users.as_deref(), usize::MAX))?;
        if self.more_users > 0 {
            write!(f, " and {} more", self.more_users)?;
        }
        let (mut roles, mut groups) = (Vec::new(), Vec::new());
        for attribute in &self.attributes {
            match attribute {
                Attribute::Role(name) => roles.push(name.clone()),
                Attribute::Group(name) => groups.push(name.clone()),
            }
        }
        let mut word = " with";
        for (kind, names) in [("role", roles), ("group", groups)] {
            if !names.is_empty() {
                write!(f, "{word} {}", quote_names(kind, &names, "or", usize::MAX))?;
                word = " or";
            }
        }
        write_condition(f, self.when.as_deref())
    }
}
