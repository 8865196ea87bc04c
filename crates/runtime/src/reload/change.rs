//! What a reload grants or revokes, in numbers.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::path::PathBuf;

use authorizer::cluster_config;
use policy::Policy;
use policy::model::{Issuer, Keys, Role, RolesFromToken, Rule, SourceId};
use policy::pattern::{Pattern, Segment};

/// What differs between two policies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    users: Delta,
    grants: Delta,
    roles: Delta,
    rules: Delta,
    issuers: Delta,
    cluster_users: Delta,
    cluster_roles: Delta,
    cluster_mappings: Delta,
}

/// How many there are now that were not there before, the reverse, and how many have the same name and another content. A changed
/// grant or rule, which has no name, counts as added and as removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delta {
    added: usize,
    removed: usize,
    changed: usize,
}

/// The hashes of something in a policy, by which two policies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ItemHash {
    /// Of its name; of something without a name, of all of it.
    name: u64,
    /// Of the rest.
    content: u64,
}

/// A hash of each user, role (built-in ones too) and role mapping of a policy's search cluster. None if its files have
/// errors.
#[derive(Debug, Default)]
struct ClusterHashes {
    users: Vec<ItemHash>,
    roles: Vec<ItemHash>,
    mappings: Vec<ItemHash>,
}

impl ItemHash {
    /// Hashes something with a name.
    fn named(name: &str, content: impl Hash, seed: &RandomState) -> Self {
        Self { name: seed.hash_one(name), content: seed.hash_one(content) }
    }

    /// Hashes something without a name.
    fn unnamed(content: impl Hash, seed: &RandomState) -> Self {
        Self { name: seed.hash_one(content), content: 0 }
    }
}

impl ClusterHashes {
    fn of(policy: &Policy, seed: &RandomState) -> Self {
        let Some(config) = cluster_config(policy) else { return Self::default() };
        let users = config.users.iter().map(|user| {
            let hash = user.hash.as_ref().map(|hash| &hash.0);
            let content = (hash, &user.backend_roles, &user.attributes, &user.roles, user.is_service);
            ItemHash::named(&user.name, content, seed)
        });
        let roles = config.roles.iter();
        let mappings = config.mappings.iter();
        Self {
            users: users.collect(),
            roles: roles.map(|(name, role)| ItemHash::named(name, format!("{role:?}"), seed)).collect(),
            mappings: mappings
                .map(|mapping| ItemHash::named(&mapping.role, format!("{mapping:?}"), seed))
                .collect(),
        }
    }
}

impl Change {
    /// Compares hashes: a policy may have a million grants, and two sets of strings would take as much memory again.
    pub(super) fn between(before: &Policy, after: &Policy) -> Self {
        let seed = RandomState::new();
        let delta = |hashes: fn(&Policy, &RandomState) -> Vec<ItemHash>| {
            Delta::of(hashes(before, &seed), hashes(after, &seed))
        };
        let [before_cluster, after_cluster] = [before, after].map(|policy| ClusterHashes::of(policy, &seed));
        Self {
            cluster_users: Delta::of(before_cluster.users, after_cluster.users),
            cluster_roles: Delta::of(before_cluster.roles, after_cluster.roles),
            cluster_mappings: Delta::of(before_cluster.mappings, after_cluster.mappings),
            users: delta(users),
            grants: delta(grants),
            roles: delta(roles),
            rules: delta(rules),
            issuers: delta(issuers),
        }
    }

    pub(super) fn log(&self, files: &[PathBuf]) {
        let files = (!files.is_empty()).then(|| joined(files));
        if *self == Self::default() {
            // Comments, or settings such as those of responses.
            tracing::info!(files, "policy changed, but no user, grant, role, rule, issuer or role mapping");
            return;
        }
        let Self { users, grants, roles, rules, issuers, cluster_users, cluster_roles, cluster_mappings } =
            self;
        let unless_zero = |count: usize| (count > 0).then_some(count);
        tracing::info!(
            files,
            users_added = unless_zero(users.added),
            users_removed = unless_zero(users.removed),
            users_changed = unless_zero(users.changed),
            grants_added = unless_zero(grants.added),
            grants_removed = unless_zero(grants.removed),
            roles_added = unless_zero(roles.added),
            roles_removed = unless_zero(roles.removed),
            roles_changed = unless_zero(roles.changed),
            rules_added = unless_zero(rules.added),
            rules_removed = unless_zero(rules.removed),
            issuers_added = unless_zero(issuers.added),
            issuers_removed = unless_zero(issuers.removed),
            issuers_changed = unless_zero(issuers.changed),
            cluster_users_added = unless_zero(cluster_users.added),
            cluster_users_removed = unless_zero(cluster_users.removed),
            cluster_users_changed = unless_zero(cluster_users.changed),
            cluster_roles_added = unless_zero(cluster_roles.added),
            cluster_roles_removed = unless_zero(cluster_roles.removed),
            cluster_roles_changed = unless_zero(cluster_roles.changed),
            cluster_mappings_added = unless_zero(cluster_mappings.added),
            cluster_mappings_removed = unless_zero(cluster_mappings.removed),
            cluster_mappings_changed = unless_zero(cluster_mappings.changed),
            "policy changed"
        );
    }
}

fn users(policy: &Policy, seed: &RandomState) -> Vec<ItemHash> {
    let users = policy.identity.basic.iter().flat_map(|basic| &basic.users);
    users
        .map(|user| {
            let password = user.password.as_ref().map(|hash| &hash.0);
            ItemHash::named(&user.name, (password, &user.groups), seed)
        })
        .collect()
}

fn grants(policy: &Policy, seed: &RandomState) -> Vec<ItemHash> {
    let mut hashes = Vec::new();
    for grant in &policy.grants {
        let role = &policy.roles.at(grant.role).name;
        hashes.extend(grant.users.iter().map(|name| ItemHash::unnamed((role, "user", name), seed)));
        hashes.extend(grant.groups.iter().map(|name| ItemHash::unnamed((role, "group", name), seed)));
    }
    hashes
}

fn roles(policy: &Policy, seed: &RandomState) -> Vec<ItemHash> {
    let extends =
        |role: &Role| role.extends.iter().map(|other| &policy.roles.at(*other).name).collect::<BTreeSet<_>>();
    policy.roles.iter().map(|role| ItemHash::named(&role.name, extends(role), seed)).collect()
}

fn rules(policy: &Policy, seed: &RandomState) -> Vec<ItemHash> {
    let mut hashes = Vec::new();
    for role in policy.roles.iter() {
        for (effect, rules) in [("allow", &role.allow), ("deny", &role.deny)] {
            hashes.extend(rules.iter().map(|Rule { name, actions, scopes, resources, at: _ }| {
                let resources: Vec<_> = resources.iter().map(|pattern| named(pattern, policy)).collect();
                ItemHash::unnamed((&role.name, effect, name, actions, scopes, resources), seed)
            }));
        }
    }
    hashes
}

/// A pattern with the names of its sources in place of their ids, which change with the list of issuers.
fn named<'p>(pattern: &'p Pattern, policy: &'p Policy) -> (bool, bool, Vec<NamedSegment<'p>>) {
    let name =
        |id: &SourceId| policy.identity.sources().find(|(known, ..)| known == id).map(|(_, name, _)| name);
    let segment = |segment: &'p Segment| match segment {
        Segment::UserId(sources) => NamedSegment::UserId(sources.iter().filter_map(name).collect()),
        Segment::Literal(_) | Segment::One(_) | Segment::User | Segment::Glob(_) => NamedSegment::As(segment),
    };
    let Pattern { absolute, segments, rest } = pattern;
    (*absolute, *rest, segments.iter().map(segment).collect())
}

/// A segment of a pattern; of `{user.id}`, the names of its sources.
#[derive(Hash)]
enum NamedSegment<'p> {
    As(&'p Segment),
    UserId(BTreeSet<&'p str>),
}

/// Every field is named, so that a new one cannot be forgotten. Places do not count: a comment above moves them.
fn issuers(policy: &Policy, seed: &RandomState) -> Vec<ItemHash> {
    let hash = |issuer: &Issuer| {
        let Issuer {
            issuer: name,
            audiences,
            keys,
            claims,
            clock_skew,
            required_type,
            max_age,
            roles_from_token,
            user_prefix,
            group_prefix,
            at: _,
        } = issuer;
        let keys = match keys {
            Keys::File { path, bytes, at: _ } => seed.hash_one((path, bytes)),
            Keys::Url { url, refresh, at: _ } => seed.hash_one((url, refresh)),
        };
        let roles: Option<Vec<&str>> = match roles_from_token {
            RolesFromToken::All => None,
            RolesFromToken::Only(listed) => Some(listed.iter().map(|listed| &*listed.name).collect()),
        };
        // A claim has no place.
        let claims = format!("{claims:?}");
        let tokens = (audiences, keys, claims, clock_skew, required_type, max_age);
        ItemHash::named(name, (tokens, roles, user_prefix, group_prefix), seed)
    };
    policy.identity.jwt.iter().map(hash).collect()
}

/// Paths in a log line.
pub(super) fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Delta {
    fn of(mut before: Vec<ItemHash>, mut after: Vec<ItemHash>) -> Self {
        for hashes in [&mut before, &mut after] {
            hashes.sort_unstable();
            hashes.dedup();
        }
        let (old, new) = (missing(&before, &after), missing(&after, &before));
        let changed = new.iter().filter(|item| has_name(&old, item.name)).count();
        let removed = old.iter().filter(|item| !has_name(&new, item.name)).count();
        Self { added: new.len() - changed, removed, changed }
    }
}

/// Those of `items` that `others` does not have. Both are sorted.
fn missing(items: &[ItemHash], others: &[ItemHash]) -> Vec<ItemHash> {
    items.iter().filter(|item| others.binary_search(item).is_err()).copied().collect()
}

/// Whether one of the sorted items has this name.
fn has_name(items: &[ItemHash], name: u64) -> bool {
    items.binary_search_by_key(&name, |item| item.name).is_ok()
}

#[cfg(test)]
mod tests;
