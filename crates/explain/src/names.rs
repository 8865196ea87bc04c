//! Messages about names that the policy or the search cluster does not have: probably mistakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use authorizer::{Backend, Cluster};
use document::{Suggestions, closest};
use policy::Policy;
use policy::cases::{Case, Credentials};
use policy::model::{Identity, SourceId};
use search::Pattern;

use crate::Explainer;
use crate::subjects::{is_unknown_user, subject_of_claims};

/// The maximum number of issuers that a message lists.
const MAX_ISSUERS: usize = 4;

/// The minimum length, in characters, of a prefix that is completed to a name.
const MIN_PREFIX: usize = 3;

/// The minimum length, in characters, of a word that can be misspelled. Shorter words, as in
/// `team-a` and `team-b`, distinguish names.
const MIN_WORD: usize = 4;

impl Explainer<'_> {
    /// A message for each name of a caller that the policy, or the search cluster of this host,
    /// does not have.
    #[must_use]
    pub fn unknown_name_messages(
        self,
        host: &str,
        user: Option<&str>,
        (groups, roles): (&[String], &[String]),
    ) -> Vec<String> {
        if let Some(cluster) = self.cluster_of(host.as_bytes()) {
            return unknown_on_cluster(cluster, user, &[roles, groups].concat());
        }
        let policy = self.policy();
        let suggestions = &mut Suggestions::with_answer_limit();
        let mut unknown = Vec::new();
        unknown.extend(user.and_then(|user| unknown_user(user, policy, suggestions)));
        unknown.extend(unknown_role_messages(roles, policy));
        let defined_groups = defined_groups(policy);
        let defined_groups = defined_groups.iter().map(String::as_str).collect();
        unknown.extend(
            groups
                .iter()
                .filter_map(|group| unknown_group(group, &defined_groups, policy, suggestions)),
        );
        unknown.extend(user.and_then(|user| self.assumed_group(host, user, groups)));
        unknown
    }

    /// A note if nobody can sign in on this host: an answer about a user assumes that the user
    /// could. It is no error: `rolegate suggest` prints a policy without identity sources, which
    /// people try with the log that it was made from.
    #[must_use]
    pub fn missing_identity_note(self, host: &str) -> Option<&'static str> {
        let is_none = self.identity_on(host.as_bytes()).sources().next().is_none();
        is_none.then_some(
            "the policy has no `identity`, so nobody can sign in: the answer assumes that named \
             callers could",
        )
    }

    /// A note if the policy does not put a user of Basic or of an API key in these groups, although
    /// the answer assumes it.
    fn assumed_group(self, host: &str, user: &str, groups: &[String]) -> Option<String> {
        let subject = self.subject_named::<&str>(host.as_bytes(), user, &[], &[]).ok()?;
        let source = match subject.source? {
            SourceId::BASIC => "Basic does",
            SourceId::API_KEYS => "API keys do",
            _ => return None,
        };
        let group = groups.iter().find(|group| !subject.groups.contains(&group.as_str().into()))?;
        Some(format!(
            "{source} not put `{user}` in the group `{group}`: this is the answer if it did"
        ))
    }

    /// Messages about names of a test case that are probably mistakes. A case that expects a denial
    /// also passes with a misspelled group, and then tests nothing.
    ///
    /// A token can have any group and any role, and a case may be about a stranger. So a name in a
    /// token is a mistake only if it looks like a misspelled name of the policy or the search
    /// cluster. Outside of tokens, every name that the policy and the cluster lack is a mistake.
    #[must_use]
    pub fn doubts_about_names(self, case: &Case) -> Vec<String> {
        let host = case.request.host.as_str();
        let cluster = self.cluster_of(host.as_bytes());
        let defined_groups: BTreeSet<String> = match cluster {
            Some(cluster) => {
                mapped_backend_roles(cluster).map(|pattern| pattern.text().to_owned()).collect()
            }
            None => defined_groups(self.policy()),
        };
        match &case.request.credentials {
            Credentials::User { name, groups } => {
                // A case that expects 401, the answer to a wrong password, is about a stranger.
                let user = Some(name.as_str()).filter(|_| case.expect.status != 401);
                let groups = groups.iter().filter(|group| {
                    !self.token_may_have(host, name, group) || is_misspelled(group, &defined_groups)
                });
                let groups: Vec<String> = groups.map(ToString::to_string).collect();
                // Separate calls: a call with both would note that Basic does not put the user in a
                // group.
                let mut messages = self.unknown_name_messages(host, user, (&[], &[]));
                messages.extend(self.unknown_name_messages(host, None, (&groups, &[])));
                messages
            }
            Credentials::Claims(claims) => {
                let backend = self.authorizer.backend(host.as_bytes());
                let Ok(subject) = subject_of_claims(backend, claims) else { return Vec::new() };
                // On a search cluster a role of a token is a backend role, like a group.
                let defined_roles = match cluster {
                    Some(_) => defined_groups.clone(),
                    None => self.policy().roles.iter().map(|role| role.name.to_string()).collect(),
                };
                let groups = misspelled(&subject.groups, &defined_groups);
                let roles = misspelled(&subject.roles, &defined_roles);
                self.unknown_name_messages(host, None, (&groups, &roles))
            }
            Credentials::None
            | Credentials::Basic(_)
            | Credentials::Bearer(_)
            | Credentials::ApiKey(_) => Vec::new(),
        }
    }

    /// Whether a token of this user can have this group.
    fn token_may_have(self, host: &str, user: &str, group: &str) -> bool {
        let identity = self.identity_on(host.as_bytes());
        let source = identity.source_of(user);
        let mut issuers = identity.jwt.iter().enumerate();
        issuers.any(|(index, issuer)| {
            source.is_none_or(|source| source == SourceId::from_issuer(index))
                && issuer.claims.groups.is_some()
                && group.starts_with(&*issuer.group_prefix)
        })
    }
}

/// The message that no caller can have this name, because each source puts a prefix before its
/// names. `None` if a caller can have it.
#[must_use]
pub fn missing_prefix_message(user: &str, identity: &Identity) -> Option<String> {
    let prefixes: Vec<&str> = identity.sources().map(|(.., prefix)| prefix).collect();
    if prefixes.is_empty() || prefixes.iter().any(|prefix| user.starts_with(prefix)) {
        return None;
    }
    let names: Vec<String> = prefixes.iter().map(|prefix| format!("`{prefix}{user}`")).collect();
    Some(format!("no source has a user `{user}`{}", did_you_mean(Some(&names.join(" or ")))))
}

/// The message about a user that no source can have, or that only a source that lists its users
/// could have, and does not list.
fn unknown_user(user: &str, policy: &Policy, suggestions: &mut Suggestions) -> Option<String> {
    let identity = &policy.identity;
    if let Some(message) = missing_prefix_message(user, identity) {
        return Some(message);
    }
    let (has_none, users) = listed_users(identity, identity.source_of(user)?)?;
    if users.contains(user) {
        return None;
    }
    if let Some(similar) = suggestions.closest(user, users.iter().map(String::as_str)) {
        return Some(format!("the policy has no user `{user}`: did you mean `{similar}`?"));
    }
    let issuers = identity.jwt.iter().filter(|issuer| !issuer.user_prefix.is_empty());
    let names: Vec<String> = issuers
        .take(MAX_ISSUERS)
        .map(|issuer| {
            format!("the user of a token of `{}` is `{}{user}`", issuer.issuer, issuer.user_prefix)
        })
        .collect();
    let separator = if names.is_empty() { "" } else { "; " };
    Some(format!("{has_none} `{user}`{separator}{}", names.join(", ")))
}

/// The users of Basic, of API keys or of certificates, and the beginning of a message about a user
/// who is not among them. `None` for another source, and where passwords are not verified.
fn listed_users(identity: &Identity, source: SourceId) -> Option<(&'static str, BTreeSet<String>)> {
    match source {
        SourceId::BASIC => {
            let basic = identity.basic.as_ref().filter(|basic| basic.verify)?;
            let users = basic.users.iter();
            let users = users.map(|user| format!("{}{}", basic.user_prefix, user.name));
            Some(("Basic has no user", users.collect()))
        }
        SourceId::API_KEYS => {
            let keys = identity.api_keys.as_ref()?;
            let users = keys.keys.iter().map(|key| format!("{}{}", keys.user_prefix, key.user));
            Some(("no API key is for the user", users.collect()))
        }
        SourceId::CERTIFICATES => {
            let certificates = identity.certificates.as_ref()?;
            let mut templates = certificates.users.iter().map(|entry| &entry.user);
            // Nobody lists the users of a pattern.
            let users = templates.clone().filter_map(|user| user.literal());
            let users = users.map(|user| format!("{}{user}", certificates.user_prefix)).collect();
            let are_listed = templates.all(|user| user.literal().is_some());
            are_listed.then_some(("no certificate is of the user", users))
        }
        _ => None,
    }
}

/// A message for each role that the policy does not have.
#[must_use]
pub fn unknown_role_messages(roles: &[String], policy: &Policy) -> Vec<String> {
    let defined = policy.roles.iter().map(|role| &*role.name).collect();
    let suggestions = &mut Suggestions::with_answer_limit();
    roles.iter().filter_map(|name| unknown("role", name, &defined, suggestions)).collect()
}

pub(crate) fn unknown_issuer(name: &str, policy: &Policy) -> String {
    let defined = policy.identity.jwt.iter().map(|issuer| &*issuer.issuer).collect();
    unknown("issuer", name, &defined, &mut Suggestions::with_answer_limit()).unwrap_or_default()
}

/// The groups of users of Basic, of API keys and of certificates, and the groups that the policy
/// grants a role.
fn defined_groups(policy: &Policy) -> BTreeSet<String> {
    let granted = policy.grants.iter().flat_map(|grant| &grant.groups).map(ToString::to_string);
    let mut groups: BTreeSet<String> = granted.collect();
    if let Some(basic) = &policy.identity.basic {
        // Many users are in the same few groups.
        let distinct: BTreeSet<&Arc<str>> =
            basic.users.iter().flat_map(|user| &user.groups).collect();
        groups.extend(distinct.into_iter().map(|group| format!("{}{group}", basic.group_prefix)));
    }
    if let Some(keys) = &policy.identity.api_keys {
        let distinct: BTreeSet<&Arc<str>> = keys.keys.iter().flat_map(|key| &key.groups).collect();
        groups.extend(distinct.into_iter().map(|group| format!("{}{group}", keys.group_prefix)));
    }
    let certificates = policy.identity.certificates.iter();
    groups.extend(certificates.flat_map(|certificates| {
        let entries = certificates.groups.iter().flat_map(|entry| &entry.groups);
        let literals = entries.filter_map(|group| group.literal());
        literals.map(|group| format!("{}{group}", certificates.group_prefix))
    }));
    groups
}

fn unknown_group(
    name: &str,
    defined: &BTreeSet<&str>,
    policy: &Policy,
    suggestions: &mut Suggestions,
) -> Option<String> {
    if defined.contains(name) {
        return None;
    }
    let basic = policy.identity.basic.iter().map(|basic| &basic.group_prefix);
    let keys = policy.identity.api_keys.iter().map(|keys| &keys.group_prefix);
    let certificates = policy.identity.certificates.iter();
    let certificates = certificates.map(|certificates| &certificates.group_prefix);
    let listed = basic.chain(keys).chain(certificates);
    let prefixes = listed.chain(policy.identity.jwt.iter().map(|issuer| &issuer.group_prefix));
    let mut with_prefix = prefixes.map(|prefix| format!("{prefix}{name}"));
    match with_prefix.find(|name| defined.contains(name.as_str())) {
        Some(group) => Some(format!("the policy has no group `{name}`: did you mean `{group}`?")),
        None => unknown("group", name, defined, suggestions),
    }
}

fn unknown(
    kind: &str,
    name: &str,
    defined: &BTreeSet<&str>,
    suggestions: &mut Suggestions,
) -> Option<String> {
    if defined.contains(name) {
        return None;
    }
    let similar =
        suggestions.closest(name, defined.iter().copied()).or_else(|| complete(name, defined));
    Some(format!("the policy has no {kind} `{name}`{}", quoted_suggestion(similar)))
}

/// The name that begins with `prefix`, if no other name does.
fn complete<'k>(prefix: &str, names: &BTreeSet<&'k str>) -> Option<&'k str> {
    let mut longer = names.iter().copied().filter(|name| name.starts_with(prefix));
    let name = longer.next().filter(|_| prefix.chars().count() >= MIN_PREFIX)?;
    longer.next().is_none().then_some(name)
}

/// A message for each name of a caller that a search cluster does not have.
fn unknown_on_cluster(
    cluster: &Cluster,
    user: Option<&str>,
    backend_roles: &[String],
) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(user) = user
        && is_unknown_user(Backend::Cluster(cluster), user, cluster.identity().source_of(user))
    {
        unknown.push(unknown_cluster_user(cluster, user));
    }
    let mut suggestions = Suggestions::with_answer_limit();
    // Many roles are mapped from the same few backend roles.
    let texts: BTreeSet<&str> = mapped_backend_roles(cluster).map(Pattern::text).collect();
    for name in backend_roles {
        if !mapped_backend_roles(cluster).any(|pattern| pattern.matches(name)) {
            let similar = suggestions.closest(name, texts.iter().copied());
            unknown.push(format!(
                "no role of the search cluster is mapped from the backend role `{name}`{}",
                quoted_suggestion(similar)
            ));
        }
    }
    unknown
}

/// The backend roles from which roles of the search cluster are mapped.
fn mapped_backend_roles(cluster: &Cluster) -> impl Iterator<Item = &Pattern> {
    let mappings = cluster.config().mappings.iter();
    mappings.flat_map(|mapping| mapping.backend_roles.iter().chain(&mapping.and_backend_roles))
}

/// Says that the search cluster has no user with this name.
pub(crate) fn unknown_cluster_user(cluster: &Cluster, user: &str) -> String {
    let users = cluster.identity().basic.iter().flat_map(|basic| &basic.users);
    let similar = Suggestions::with_answer_limit().closest(user, users.map(|user| &*user.name));
    format!("the search cluster has no user `{user}`{}", quoted_suggestion(similar))
}

fn quoted_suggestion(name: Option<&str>) -> String {
    did_you_mean(name.map(|name| format!("`{name}`")).as_deref())
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|suggestion| format!(": did you mean {suggestion}?")).unwrap_or_default()
}

fn misspelled(names: &[Arc<str>], defined: &BTreeSet<String>) -> Vec<String> {
    let misspelled = names.iter().filter(|name| is_misspelled(name, defined));
    misspelled.map(ToString::to_string).collect()
}

/// Whether a name is probably misspelled.
fn is_misspelled(name: &str, defined: &BTreeSet<String>) -> bool {
    defined.iter().any(|defined| {
        closest(name, [defined.as_str()]).is_some() && !is_similar_on_purpose(name, defined)
    })
}

/// Whether two names belong to a series, such as `team-a` and `team-b` or `unit1` and `unit2`, or
/// differ in their number of words.
fn is_similar_on_purpose(name: &str, defined: &str) -> bool {
    if words(name).count() != words(defined).count() {
        return true;
    }
    let mut differing = words(name).zip(words(defined)).filter(|(a, b)| a != b).peekable();
    if differing.peek().is_none() {
        return digits(name).ne(digits(defined));
    }
    differing.all(|(a, b)| a.chars().count() < MIN_WORD && b.chars().count() < MIN_WORD)
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty())
}

fn digits(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::is_misspelled;

    #[test]
    fn names_of_a_series_are_not_misspelled() {
        for (name, defined, misspelled) in [
            ("edittors", "editors", true),
            ("Editors", "editors", true),
            ("on_leave", "on-leave", true),
            ("id:admn-eu", "id:admin-eu", true),
            ("team-b", "team-a", false),
            ("sales-fr", "sales-de", false),
            ("unit2", "unit1", false),
            ("logs-2026", "logs-2025", false),
            ("id:ci:data", "ci:data", false),
            ("strangers", "editors", false),
        ] {
            assert_eq!(is_misspelled(name, &[defined.to_owned()].into()), misspelled, "{name}");
        }
    }
}
