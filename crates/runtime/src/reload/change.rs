//! What a reload grants or revokes, in numbers.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;

use authorizer::cluster_config;
use policy::Policy;
use policy::model::{Issuer, Keys, Role, RolesFromToken, Rule, SourceId};
use policy::pattern::{Pattern, Segment};

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

/// The numbers of items by name: those that are new, those that are gone, and those with another
/// content. A changed grant or rule, which has no name, counts as added and as removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delta {
    added: usize,
    removed: usize,
    changed: usize,
}

/// The hashes of an item's name and of its content; of an item without a name, that of all of it.
type ItemHash = (u64, u64);

impl Change {
    /// Compares hashes: a policy may have a million grants, and two sets of strings would take as
    /// much memory again.
    pub(super) fn between(before: &Policy, after: &Policy) -> Self {
        let seed = RandomState::new();
        let delta = |hash: fn(&Policy, &RandomState) -> BTreeSet<ItemHash>| {
            Delta::new(&hash(before, &seed), &hash(after, &seed))
        };
        let [old_users, old_roles, old_mappings] = cluster_items(before, &seed);
        let [new_users, new_roles, new_mappings] = cluster_items(after, &seed);
        Self {
            users: delta(users),
            grants: delta(grants),
            roles: delta(roles),
            rules: delta(rules),
            issuers: delta(issuers),
            cluster_users: Delta::new(&old_users, &new_users),
            cluster_roles: Delta::new(&old_roles, &new_roles),
            cluster_mappings: Delta::new(&old_mappings, &new_mappings),
        }
    }

    pub(super) fn log(&self, files: &[PathBuf]) {
        let files = (!files.is_empty()).then(|| joined(files));
        if *self == Self::default() {
            // Comments, or settings such as those of responses.
            tracing::info!(
                files,
                "policy changed, but no user, grant, role, rule, issuer or role mapping"
            );
            return;
        }
        let Self {
            users,
            grants,
            roles,
            rules,
            issuers,
            cluster_users,
            cluster_roles,
            cluster_mappings,
        } = self;
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

fn users(policy: &Policy, seed: &RandomState) -> BTreeSet<ItemHash> {
    let users = policy.identity.basic.iter().flat_map(|basic| &basic.users);
    users
        .map(|user| {
            let password = user.password.as_ref().map(|hash| &hash.0);
            (seed.hash_one(&user.name), seed.hash_one((password, &user.groups)))
        })
        .collect()
}

fn grants(policy: &Policy, seed: &RandomState) -> BTreeSet<ItemHash> {
    let mut hashes = BTreeSet::new();
    for grant in &policy.grants {
        let role = &policy.roles.at(grant.role).name;
        hashes.extend(grant.users.iter().map(|name| (seed.hash_one((role, "user", name)), 0)));
        hashes.extend(grant.groups.iter().map(|name| (seed.hash_one((role, "group", name)), 0)));
    }
    hashes
}

fn roles(policy: &Policy, seed: &RandomState) -> BTreeSet<ItemHash> {
    let extends = |role: &Role| {
        role.extends.iter().map(|other| &policy.roles.at(*other).name).collect::<BTreeSet<_>>()
    };
    policy
        .roles
        .iter()
        .map(|role| (seed.hash_one(&role.name), seed.hash_one(extends(role))))
        .collect()
}

fn rules(policy: &Policy, seed: &RandomState) -> BTreeSet<ItemHash> {
    let mut hashes = BTreeSet::new();
    for role in policy.roles.iter() {
        for (effect, rules) in [("allow", &role.allow), ("deny", &role.deny)] {
            hashes.extend(rules.iter().map(|Rule { name, actions, scopes, resources, at: _ }| {
                let resources: Vec<_> =
                    resources.iter().map(|pattern| named(pattern, policy)).collect();
                (seed.hash_one((&role.name, effect, name, actions, scopes, resources)), 0)
            }));
        }
    }
    hashes
}

/// A pattern with the names of its sources: their ids change with the list of issuers.
fn named<'p>(pattern: &'p Pattern, policy: &'p Policy) -> (bool, bool, Vec<NamedSegment<'p>>) {
    let name = |id: &SourceId| {
        policy.identity.sources().find(|(known, ..)| known == id).map(|(_, name, _)| name)
    };
    let segment = |segment: &'p Segment| match segment {
        Segment::UserId(sources) => NamedSegment::UserId(sources.iter().filter_map(name).collect()),
        Segment::Literal(_) | Segment::One(_) | Segment::User | Segment::Glob(_) => {
            NamedSegment::As(segment)
        }
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

/// Every field is named, so that a new one cannot be forgotten. Places do not count.
fn issuers(policy: &Policy, seed: &RandomState) -> BTreeSet<ItemHash> {
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
            RolesFromToken::Only(listed) => {
                Some(listed.iter().map(|listed| &*listed.name).collect())
            }
        };
        // A claim has no place.
        let claims = format!("{claims:?}");
        let tokens = (audiences, keys, claims, clock_skew, required_type, max_age);
        (seed.hash_one(name), seed.hash_one((tokens, roles, user_prefix, group_prefix)))
    };
    policy.identity.jwt.iter().map(hash).collect()
}

pub(super) fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The users, roles (built-in ones too) and role mappings of a search cluster. None if its files
/// have errors.
fn cluster_items(policy: &Policy, seed: &RandomState) -> [BTreeSet<ItemHash>; 3] {
    let Some(config) = cluster_config(policy) else { return Default::default() };
    let users = config.users.iter().map(|user| {
        let hash = user.hash.as_ref().map(|hash| &hash.0);
        let content = (hash, &user.backend_roles, &user.attributes, &user.roles, user.is_service);
        (seed.hash_one(&user.name), seed.hash_one(content))
    });
    let roles = config.roles.iter();
    let roles = roles.map(|(name, role)| (seed.hash_one(name), seed.hash_one(format!("{role:?}"))));
    let mappings = config.mappings.iter();
    let mappings = mappings
        .map(|mapping| (seed.hash_one(&mapping.role), seed.hash_one(format!("{mapping:?}"))));
    [users.collect(), roles.collect(), mappings.collect()]
}

impl Delta {
    fn new(before: &BTreeSet<ItemHash>, after: &BTreeSet<ItemHash>) -> Self {
        let old: BTreeSet<u64> = before.difference(after).map(|(name, _)| *name).collect();
        let new: BTreeSet<u64> = after.difference(before).map(|(name, _)| *name).collect();
        let changed = old.intersection(&new).count();
        Self { added: new.len() - changed, removed: old.len() - changed, changed }
    }
}

#[cfg(test)]
mod tests;
