//! Callers as people name them, for tools: a user, the issuer of its token, its groups and roles;
//! and which of these names are likely mistakes. And the URL of a request.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use document::Suggestions;
use identity::{CredentialsError, Subject};
use policy::Policy;
use policy::model::{Identity, Issuer, SourceId};

use crate::Explainer;
use crate::subjects::unknown_on_cluster;

/// The maximum number of issuers that a message names.
const MAX_ISSUERS: usize = 4;

/// The fewest characters from which a longer name is guessed.
const MIN_START: usize = 3;

/// A caller as people name it. The names have the prefixes of its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedCaller<'a> {
    /// The user.
    pub user: &'a str,
    /// The issuer of its token; `None` for the source that its name can come from.
    pub issuer: Option<&'a str>,
    /// More groups than the policy gives it.
    pub groups: &'a [String],
    /// More roles than the policy gives it.
    pub roles: &'a [String],
}

/// Why no caller can have these names: no token of its issuer gives them. The text says what to
/// name instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImpossibleCaller(String);

impl Explainer<'_> {
    /// A user with more groups and roles than the policy gives it, as if it were authenticated: by
    /// a token of this issuer, or by the source that its name can come from.
    ///
    /// The inner error is that of its requests, when Basic does not have the user.
    ///
    /// # Errors
    /// When no credentials of that source can give these names.
    pub fn named_caller(
        self,
        host: &str,
        caller: NamedCaller<'_>,
    ) -> Result<Result<Subject, CredentialsError>, ImpossibleCaller> {
        let NamedCaller { user, issuer, groups, roles } = caller;
        let Some(name) = issuer else {
            let subject = self.subject_named(host.as_bytes(), user, groups, roles);
            if let Ok(subject) = &subject {
                self.possible_by_name(host, subject.source, caller)?;
            }
            return Ok(subject);
        };
        let issuers = &self.policy().identity.jwt;
        let Some((index, issuer)) =
            issuers.iter().enumerate().find(|(_, known)| *known.issuer == *name)
        else {
            let known = issuers.iter().map(|known| &*known.issuer).collect();
            let unknown = unknown("issuer", name, &known, &mut Suggestions::for_a_page());
            return Err(ImpossibleCaller(unknown.unwrap_or_default()));
        };
        possible_by_token(issuer, caller)?;
        let names = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
        Ok(Ok(Subject {
            user: user.into(),
            issuer: Some(issuer.issuer.clone()),
            source: Some(SourceId::of_issuer(index)),
            groups: names(groups),
            roles: names(roles),
            claims: serde_json::Value::Null,
        }))
    }

    /// Whether the source that the name of a caller decides can give it these names; if several may
    /// have the name, whether one of their issuers can give it these roles. More groups of a Basic
    /// user are possible: the policy can put it in them.
    fn possible_by_name(
        self,
        host: &str,
        source: Option<SourceId>,
        caller: NamedCaller<'_>,
    ) -> Result<(), ImpossibleCaller> {
        let NamedCaller { user, roles, .. } = caller;
        let issuers = &self.identity_on(host.as_bytes()).jwt;
        let has_prefix = |issuer: &Issuer| user.starts_with(&*issuer.user_prefix);
        if let (Some(SourceId::BASIC), Some(role)) = (source, roles.first()) {
            let or = if issuers.iter().any(has_prefix) {
                ", or name the issuer of its token"
            } else {
                ""
            };
            let why = "a user of Basic has only the roles that the policy grants";
            return Err(ImpossibleCaller(format!(
                "{why}: leave out the role `{role}` of `{user}`{or}"
            )));
        }
        let fits = |(index, issuer): &(usize, &Issuer)| match source {
            Some(source) => source == SourceId::of_issuer(*index),
            None => !roles.is_empty() && has_prefix(issuer),
        };
        let mut impossible = None;
        for (_, issuer) in issuers.iter().enumerate().filter(fits) {
            match possible_by_token(issuer, caller) {
                Ok(()) => return Ok(()),
                Err(why) => impossible = impossible.or(Some(why)),
            }
        }
        impossible.map_or(Ok(()), Err)
    }

    /// The names that a caller is given and the policy, or the search cluster of this host, does
    /// not have: probably mistakes, each in words.
    #[must_use]
    pub fn unknown_names(
        self,
        host: &str,
        user: Option<&str>,
        (groups, roles): (&[String], &[String]),
    ) -> Vec<String> {
        if let Some(cluster) = self.cluster_of(host.as_bytes()) {
            return unknown_on_cluster(cluster, user, &[roles, groups].concat());
        }
        let policy = self.policy();
        let assumed = user.and_then(|user| self.assumed_groups(host, user, groups));
        let suggestions = &mut Suggestions::for_a_page();
        let user = user.and_then(|user| unknown_user(user, policy, suggestions));
        let roles = unknown_roles(roles, policy);
        let groups = unknown_groups(groups, policy, suggestions);
        user.into_iter().chain(roles).chain(groups).chain(assumed).collect()
    }

    /// That nobody can sign in on this host, so that an answer about a caller with a name assumes
    /// that one could. (What `rolegate suggest` writes has no identity sources yet, and is to be
    /// tried with the log that it is from.)
    #[must_use]
    pub fn without_identity(self, host: &str) -> Option<&'static str> {
        let is_none = self.identity_on(host.as_bytes()).sources().next().is_none();
        is_none.then_some(
            "the policy has no `identity`, so nobody can sign in: callers with a name are taken as if they could",
        )
    }

    /// That Basic does not put its user in these groups, which the answer assumes.
    fn assumed_groups(self, host: &str, user: &str, groups: &[String]) -> Option<String> {
        let subject = self.subject_named::<&str>(host.as_bytes(), user, &[], &[]).ok()?;
        let is_of_basic = subject.source == Some(SourceId::BASIC);
        let group =
            groups.iter().find(|name| !subject.groups.iter().any(|known| **known == ***name))?;
        is_of_basic.then(|| {
            format!(
                "Basic does not put `{user}` in the group `{group}`: this is the answer if it did"
            )
        })
    }
}

/// Whether a token of this issuer can give a caller these names.
fn possible_by_token(issuer: &Issuer, caller: NamedCaller<'_>) -> Result<(), ImpossibleCaller> {
    let NamedCaller { user, groups, roles, .. } = caller;
    let name = &issuer.issuer;
    let users = [(&issuer.user_prefix, user)];
    let names =
        users.into_iter().chain(groups.iter().map(|group| (&issuer.group_prefix, group.as_str())));
    if let Some((prefix, bare)) =
        names.into_iter().find(|(prefix, name)| !name.starts_with(&***prefix))
    {
        let why = format!("names of `{name}` have a prefix: did you mean `{prefix}{bare}`?");
        return Err(ImpossibleCaller(why));
    }
    let given = [
        ("role", !roles.is_empty(), issuer.role_claim().is_some()),
        ("group", !groups.is_empty(), issuer.claims.groups.is_some()),
    ];
    if let Some((kind, ..)) = given.into_iter().find(|(_, given, gives)| *given && !gives) {
        let why = format!("the policy takes no {kind}s from tokens of `{name}`: leave them out");
        return Err(ImpossibleCaller(why));
    }
    if let Some(role) = roles.iter().find(|role| !issuer.may_give(role)) {
        let why =
            format!("`roles_from_token` of `{name}` does not list the role `{role}`: leave it out");
        return Err(ImpossibleCaller(why));
    }
    Ok(())
}

/// Why no caller can have this name: each source puts a prefix before it.
#[must_use]
pub fn impossible_user(user: &str, identity: &Identity) -> Option<String> {
    let prefixes: Vec<&str> = identity.sources().map(|(.., prefix)| prefix).collect();
    if prefixes.is_empty() || prefixes.iter().any(|prefix| user.starts_with(prefix)) {
        return None;
    }
    let meant: Vec<String> = prefixes.iter().map(|prefix| format!("`{prefix}{user}`")).collect();
    Some(format!("no source has a user `{user}`: did you mean {}?", meant.join(" or ")))
}

/// A user that no source can have, or that only Basic could have, and does not.
fn unknown_user(user: &str, policy: &Policy, suggestions: &mut Suggestions) -> Option<String> {
    if let Some(impossible) = impossible_user(user, &policy.identity) {
        return Some(impossible);
    }
    let basic = policy.identity.basic.as_ref().filter(|basic| basic.verify)?;
    if policy.identity.source_of(user) != Some(SourceId::BASIC) {
        return None;
    }
    let users: Vec<String> =
        basic.users.iter().map(|known| format!("{}{}", basic.user_prefix, known.name)).collect();
    let known: BTreeSet<&str> = users.iter().map(String::as_str).collect();
    if known.contains(user) {
        return None;
    }
    if let Some(meant) = suggestions.closest(user, known.iter().copied()) {
        return Some(format!("the policy has no user `{user}`: did you mean `{meant}`?"));
    }
    let of_issuers = policy.identity.jwt.iter().filter(|issuer| !issuer.user_prefix.is_empty());
    let meant: Vec<String> = of_issuers
        .take(MAX_ISSUERS)
        .map(|issuer| {
            format!("the user of a token of `{}` is `{}{user}`", issuer.issuer, issuer.user_prefix)
        })
        .collect();
    let meant = if meant.is_empty() { String::new() } else { format!("; {}", meant.join(", ")) };
    Some(format!("Basic has no user `{user}`{meant}"))
}

/// The roles that the policy does not have, each in words.
#[must_use]
pub fn unknown_roles(given: &[String], policy: &Policy) -> Vec<String> {
    let known = policy.roles.iter().map(|role| &*role.name).collect();
    let suggestions = &mut Suggestions::for_a_page();
    given.iter().filter_map(|name| unknown("role", name, &known, suggestions)).collect()
}

/// The groups of Basic's users, and those that the policy gives a role. Many users are in the same
/// few groups.
pub(crate) fn known_groups(policy: &Policy) -> BTreeSet<Cow<'_, str>> {
    let of_basic = policy.identity.basic.iter().flat_map(|basic| {
        let groups: BTreeSet<&Arc<str>> =
            basic.users.iter().flat_map(|user| &user.groups).collect();
        groups.into_iter().map(|group| format!("{}{group}", basic.group_prefix).into())
    });
    let granted =
        policy.grants.iter().flat_map(|grant| grant.groups.iter().map(|group| (&**group).into()));
    granted.chain(of_basic).collect()
}

fn unknown_groups(given: &[String], policy: &Policy, suggestions: &mut Suggestions) -> Vec<String> {
    let known = known_groups(policy);
    let known: BTreeSet<&str> = known.iter().map(|group| &**group).collect();
    let of_issuers = policy.identity.jwt.iter().map(|issuer| &*issuer.group_prefix);
    let prefixes: Vec<&str> =
        policy.identity.basic.iter().map(|basic| &*basic.group_prefix).chain(of_issuers).collect();
    let without_prefix = |name: &String| {
        let mut meant = prefixes.iter().map(|prefix| format!("{prefix}{name}"));
        let meant = meant.find(|meant| known.contains(meant.as_str()))?;
        let is_unknown = !known.contains(name.as_str());
        is_unknown.then(|| format!("the policy has no group `{name}`: did you mean `{meant}`?"))
    };
    let note = |name| without_prefix(name).or_else(|| unknown("group", name, &known, suggestions));
    given.iter().filter_map(note).collect()
}

fn unknown(
    kind: &str,
    name: &str,
    known: &BTreeSet<&str>,
    suggestions: &mut Suggestions,
) -> Option<String> {
    if known.contains(name) {
        return None;
    }
    let meant = suggestions
        .closest(name, known.iter().copied())
        .or_else(|| only_one_that_begins(name, known));
    let meant = meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
    Some(format!("the policy has no {kind} `{name}`{meant}"))
}

/// The only one of these names that begins with this: it may be short for that name. Fewer
/// characters say too little.
fn only_one_that_begins<'k>(start: &str, known: &BTreeSet<&'k str>) -> Option<&'k str> {
    let from = (Bound::Included(start), Bound::Unbounded);
    let mut longer =
        known.range::<str, _>(from).copied().take_while(|name| name.starts_with(start));
    let found = longer.next().filter(|_| start.chars().count() >= MIN_START)?;
    longer.next().is_none().then_some(found)
}

/// Splits a URL into path and host. One without a path has the path `/` (RFC 9110, 4.2.3); what is
/// no URL is a path.
#[must_use]
pub fn split_target(target: &str) -> (String, Option<&str>) {
    let Some(rest) = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))
    else {
        return (target.to_owned(), None);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let slash = if path.starts_with('/') { "" } else { "/" };
    (format!("{slash}{path}"), Some(host))
}

#[cfg(test)]
mod tests {
    use super::split_target;

    #[test]
    fn splits_a_url() {
        assert_eq!(split_target("/a?b"), ("/a?b".to_owned(), None));
        assert_eq!(split_target("https://h:1/a?b"), ("/a?b".to_owned(), Some("h:1")));
        assert_eq!(split_target("http://h"), ("/".to_owned(), Some("h")));
        assert_eq!(split_target("http://h?q"), ("/?q".to_owned(), Some("h")));
        assert_eq!(split_target("*"), ("*".to_owned(), None));
    }
}
