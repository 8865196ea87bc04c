//! Sources of callers and the grants of a policy.
//!
//! `explain` uses these for `who-can`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::time::Duration;

use condition::Condition;
use policy::Policy;
use policy::model::{
    ANYONE, AUTHENTICATED, ApiKeys, Basic, Certificates, Identity, Issuer, RoleId, SourceId,
};
use serde::Serialize;

use crate::conditions::Attribute;

/// How a caller authenticates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum CallerSource {
    /// Without credentials.
    Anonymous,
    /// With HTTP Basic.
    Basic,
    /// With an API key.
    ApiKey,
    /// With a client certificate.
    Certificate,
    /// With a token.
    Token {
        /// Its issuer.
        issuer: String,
    },
}

impl CallerSource {
    /// Callers of this source in words, such as ``any token of ISSUER for the user `ann` ``. At
    /// most `max` users are listed; without `users`, the callers have any name.
    #[must_use]
    pub fn describe_callers(&self, users: Option<&[String]>, max: usize) -> String {
        match (self, users) {
            (Self::Anonymous, _) => "anyone without credentials".to_owned(),
            (Self::Basic, Some(users)) => {
                format!("{} by Basic", quote_names("user", users, "and", max))
            }
            (Self::Basic, None) => "any user by Basic".to_owned(),
            (Self::ApiKey, Some(users)) => {
                format!("{} by API key", quote_names("user", users, "and", max))
            }
            (Self::ApiKey, None) => "any user by API key".to_owned(),
            (Self::Certificate, Some(users)) => {
                format!("{} by certificate", quote_names("user", users, "and", max))
            }
            (Self::Certificate, None) => "any user by certificate".to_owned(),
            (Self::Token { issuer }, Some(users)) => {
                let users = quote_names("user", users, "or", max);
                format!("any token of {issuer} for {users}")
            }
            (Self::Token { issuer }, None) => format!("any token of {issuer}"),
        }
    }
}

/// A role, and the condition of the grant by which somebody has it.
pub type GrantedRole<'p> = (RoleId, Option<&'p Condition>);

/// The roles that a policy grants, by user and by group.
#[derive(Debug)]
pub struct Grants<'p> {
    /// The role of every caller.
    pub anyone: Option<RoleId>,
    authenticated: Option<RoleId>,
    /// The grants to users, whose names have the prefix of their source.
    pub by_user: HashMap<&'p str, Vec<GrantedRole<'p>>>,
    by_group: BTreeMap<&'p str, Vec<GrantedRole<'p>>>,
}

impl<'p> Grants<'p> {
    /// Indexes the grants of a policy.
    #[must_use]
    pub fn new(policy: &'p Policy) -> Self {
        let (mut by_user, mut by_group) =
            (HashMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for grant in &policy.grants {
            let granted = (grant.role, grant.when.as_ref());
            for user in &grant.users {
                by_user.entry(&**user).or_default().push(granted);
            }
            for group in &grant.groups {
                by_group.entry(&**group).or_default().push(granted);
            }
        }
        let (anyone, authenticated) = (policy.role(ANYONE), policy.role(AUTHENTICATED));
        Self { anyone, authenticated, by_user, by_group }
    }

    /// The roles that are granted to an authenticated caller. The roles in its token are not among
    /// them, nor are roles that it has only because a granted role extends them. If `user` is
    /// `None`, the caller has a name that is in no grant.
    pub fn roles(
        &self,
        user: Option<&str>,
        groups: &[String],
    ) -> impl Iterator<Item = GrantedRole<'p>> {
        let reserved = self.anyone.into_iter().chain(self.authenticated).map(|role| (role, None));
        let by_user = user.and_then(|user| self.by_user.get(user)).into_iter().flatten();
        let by_group = groups.iter().filter_map(|group| self.by_group.get(&**group)).flatten();
        reserved.chain(by_user.chain(by_group).copied())
    }
}

/// A source of authenticated callers, as a policy configures it.
#[derive(Debug)]
pub struct Source<'p> {
    /// Its id in the policy.
    pub id: SourceId,
    /// How its callers authenticate.
    pub kind: CallerSource,
    /// The prefix of its user names.
    pub user_prefix: &'p str,
    /// The users that the source lists, by name without prefix, with their groups (with prefix).
    pub listed: BTreeMap<&'p str, Vec<String>>,
    /// For each listed user whose keys all expire: the first moment at which none is valid.
    expiries: BTreeMap<&'p str, Duration>,
    /// Whether the source also accepts users that it does not list.
    pub is_open: bool,
    /// The issuer, if its callers have tokens.
    pub issuer: Option<&'p Issuer>,
    /// The settings, if its callers have certificates.
    pub certificates: Option<&'p Certificates>,
}

impl<'p> Source<'p> {
    /// All sources of a policy.
    pub fn all(identity: &'p Identity) -> impl Iterator<Item = Self> {
        let basic = identity.basic.iter().map(|basic| Self {
            id: SourceId::BASIC,
            kind: CallerSource::Basic,
            user_prefix: &basic.user_prefix,
            listed: listed_users(basic),
            expiries: BTreeMap::new(),
            is_open: !basic.verify,
            issuer: None,
            certificates: None,
        });
        let api_keys = identity.api_keys.iter().map(|keys| Self {
            id: SourceId::API_KEYS,
            kind: CallerSource::ApiKey,
            user_prefix: &keys.user_prefix,
            listed: users_with_keys(keys),
            expiries: expiries(keys),
            is_open: false,
            issuer: None,
            certificates: None,
        });
        let certificates = identity.certificates.iter().map(|certificates| {
            let users = certificates.users.iter().map(|entry| &entry.user);
            Self {
                id: SourceId::CERTIFICATES,
                kind: CallerSource::Certificate,
                user_prefix: &certificates.user_prefix,
                listed: users.clone().filter_map(|user| Some((user.literal()?, vec![]))).collect(),
                expiries: BTreeMap::new(),
                is_open: users.clone().any(|user| user.literal().is_none()),
                issuer: None,
                certificates: Some(certificates),
            }
        });
        let issuers = identity.jwt.iter().enumerate().map(|(index, issuer)| Self {
            id: SourceId::from_issuer(index),
            kind: CallerSource::Token { issuer: issuer.issuer.to_string() },
            user_prefix: &issuer.user_prefix,
            listed: BTreeMap::new(),
            expiries: BTreeMap::new(),
            is_open: true,
            issuer: Some(issuer),
            certificates: None,
        });
        basic.chain(api_keys).chain(certificates).chain(issuers)
    }

    /// The source at this time: without the users whose keys have all expired.
    #[must_use]
    pub fn at(mut self, time: Option<Duration>) -> Self {
        self.listed.retain(|name, _| {
            let expiry = self.expiries.get(name);
            expiry.zip(time).is_none_or(|(expiry, time)| time < *expiry)
        });
        self
    }

    /// The first moment at which no key of this user (a name with its prefix) is valid. `None` if a
    /// key does not expire, or the user has none.
    #[must_use]
    pub fn expiry(&self, user: &str) -> Option<Duration> {
        self.expiries.get(user.strip_prefix(self.user_prefix)?).copied()
    }

    /// Whether a user that the source does not list can have this name (given without prefix).
    #[must_use]
    pub fn may_have_unlisted(&self, name: &str) -> bool {
        // A Basic user name has no colon (RFC 7617, 2).
        let has_forbidden_colon = self.kind == CallerSource::Basic && name.contains(':');
        let fits_no_entry = self.certificates.is_some_and(|certificates| {
            !certificates.users.iter().any(|entry| entry.user.may_be(name))
        });
        self.is_open
            && !fits_no_entry
            && !name.is_empty()
            && !name.contains(char::is_control)
            && !has_forbidden_colon
    }

    /// The prefix of its groups, if its tokens or certificates have groups.
    #[must_use]
    pub fn group_prefix(&self) -> Option<&'p str> {
        if let Some(certificates) = self.certificates {
            return (!certificates.groups.is_empty()).then_some(&*certificates.group_prefix);
        }
        let issuer = self.issuer.filter(|issuer| issuer.claims.groups.is_some());
        issuer.map(|issuer| &*issuer.group_prefix)
    }

    /// The roles and groups in its tokens or certificates that the policy uses, each with the roles
    /// that it gives. Which groups a certificate gives depends on all names in it, not only on the
    /// user. So any user may have any of these groups.
    #[must_use]
    pub fn attributes<'g>(
        &self,
        policy: &Policy,
        grants: &Grants<'g>,
    ) -> Vec<(Attribute, Vec<GrantedRole<'g>>)> {
        let gives = |role: &str| self.issuer.is_some_and(|issuer| issuer.may_give(role));
        let roles = policy.roles.entries().filter(|(_, role)| gives(&role.name));
        let roles =
            roles.map(|(id, role)| (Attribute::Role(role.name.to_string()), vec![(id, None)]));
        let groups = grants.by_group.iter().filter(|(group, _)| {
            let name = self.group_prefix().and_then(|prefix| group.strip_prefix(prefix));
            let may_have = |settings: &Certificates| settings.may_have_group(group);
            name.is_some_and(|name| !name.is_empty()) && self.certificates.is_none_or(may_have)
        });
        let groups =
            groups.map(|(group, roles)| (Attribute::Group((*group).to_owned()), roles.clone()));
        roles.chain(groups).collect()
    }
}

fn listed_users(basic: &Basic) -> BTreeMap<&str, Vec<String>> {
    let users = basic.users.iter().map(|user| {
        let groups = user.groups.iter().map(|group| format!("{}{group}", basic.group_prefix));
        (&*user.name, groups.collect())
    });
    users.collect()
}

/// A user has the same groups with each of its keys.
fn users_with_keys(keys: &ApiKeys) -> BTreeMap<&str, Vec<String>> {
    let users = keys.keys.iter().map(|key| {
        let groups = key.groups.iter().map(|group| format!("{}{group}", keys.group_prefix));
        (&*key.user, groups.collect())
    });
    users.collect()
}

/// When the last key of each user expires. Users with a key that does not expire are left out.
fn expiries(keys: &ApiKeys) -> BTreeMap<&str, Duration> {
    let mut expiries: BTreeMap<&str, Duration> = BTreeMap::new();
    for key in &keys.keys {
        let last = expiries.entry(&key.user).or_default();
        *last = key.expires.unwrap_or(Duration::MAX).max(*last);
    }
    expiries.retain(|_, expiry| *expiry < Duration::MAX);
    expiries
}

/// ``the users `a`, `b` and `c` ``; beyond `max` names, only their number.
#[must_use]
pub fn quote_names(kind: &str, names: &[String], conjunction: &str, max: usize) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = names.len().saturating_sub(max);
    let mut quoted: Vec<String> = names.iter().take(max).map(|name| format!("`{name}`")).collect();
    if more > 0 {
        quoted.push(format!("{more} more"));
    }
    format!("the {kind}{plural} {}", join(&quoted, conjunction))
}

/// `a, b and c`, with `and` as the conjunction.
#[must_use]
pub fn join(items: &[impl Display], conjunction: &str) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [first @ .., last] if !first.is_empty() => {
            format!("{} {conjunction} {last}", first.join(", "))
        }
        _ => texts.concat(),
    }
}
