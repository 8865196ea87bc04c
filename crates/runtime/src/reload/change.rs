//! What a reload grants or revokes, in numbers.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use authorizer::cluster_hashes;
use policy::Policy;
use policy::model::{Issuer, Keys, Role, RolesFromToken, Rule, SourceId};
use policy::pattern::{Pattern, Segment};

/// What differs between two policies. Something that was changed counts as removed and as added.
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

/// How many there are now that were not there before, and the reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delta {
    added: usize,
    removed: usize,
}

impl Change {
    /// Compares hashes: a policy may have a million grants, and two sets of strings would take as much memory again.
    pub(super) fn of(before: &Policy, after: &Policy) -> Self {
        let seed = RandomState::new();
        let delta = |hashes: fn(&Policy, &RandomState) -> Vec<u64>| {
            Delta::of(hashes(before, &seed), hashes(after, &seed))
        };
        let cluster = (cluster_hashes(before, &seed), cluster_hashes(after, &seed));
        Self {
            cluster_users: Delta::of(cluster.0.users, cluster.1.users),
            cluster_roles: Delta::of(cluster.0.roles, cluster.1.roles),
            cluster_mappings: Delta::of(cluster.0.mappings, cluster.1.mappings),
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
            grants_added = unless_zero(grants.added),
            grants_removed = unless_zero(grants.removed),
            roles_added = unless_zero(roles.added),
            roles_removed = unless_zero(roles.removed),
            rules_added = unless_zero(rules.added),
            rules_removed = unless_zero(rules.removed),
            issuers_added = unless_zero(issuers.added),
            issuers_removed = unless_zero(issuers.removed),
            cluster_users_added = unless_zero(cluster_users.added),
            cluster_users_removed = unless_zero(cluster_users.removed),
            cluster_roles_added = unless_zero(cluster_roles.added),
            cluster_roles_removed = unless_zero(cluster_roles.removed),
            cluster_mappings_added = unless_zero(cluster_mappings.added),
            cluster_mappings_removed = unless_zero(cluster_mappings.removed),
            "policy changed"
        );
    }
}

fn users(policy: &Policy, seed: &RandomState) -> Vec<u64> {
    let users = policy.identity.basic.iter().flat_map(|basic| &basic.users);
    users
        .map(|user| seed.hash_one((&user.name, user.password.as_ref().map(|hash| &hash.0), &user.groups)))
        .collect()
}

fn grants(policy: &Policy, seed: &RandomState) -> Vec<u64> {
    let mut hashes = Vec::new();
    for grant in &policy.grants {
        let role = &policy.roles.at(grant.role).name;
        hashes.extend(grant.users.iter().map(|name| seed.hash_one((role, "user", name))));
        hashes.extend(grant.groups.iter().map(|name| seed.hash_one((role, "group", name))));
    }
    hashes
}

fn roles(policy: &Policy, seed: &RandomState) -> Vec<u64> {
    let extends =
        |role: &Role| role.extends.iter().map(|other| &policy.roles.at(*other).name).collect::<BTreeSet<_>>();
    policy.roles.iter().map(|role| seed.hash_one((&role.name, extends(role)))).collect()
}

fn rules(policy: &Policy, seed: &RandomState) -> Vec<u64> {
    let mut hashes = Vec::new();
    for role in policy.roles.iter() {
        for (effect, rules) in [("allow", &role.allow), ("deny", &role.deny)] {
            hashes.extend(rules.iter().map(|Rule { name, actions, scopes, resources, at: _ }| {
                let resources: Vec<_> = resources.iter().map(|pattern| named(pattern, policy)).collect();
                seed.hash_one((&role.name, effect, name, actions, scopes, resources))
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
fn issuers(policy: &Policy, seed: &RandomState) -> Vec<u64> {
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
        seed.hash_one((name, tokens, roles, user_prefix, group_prefix))
    };
    policy.identity.jwt.iter().map(hash).collect()
}

/// Paths in a log line.
pub(super) fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Delta {
    fn of(mut before: Vec<u64>, mut after: Vec<u64>) -> Self {
        for hashes in [&mut before, &mut after] {
            hashes.sort_unstable();
            hashes.dedup();
        }
        let missing = |from: &[u64], other: &[u64]| {
            from.iter().filter(|hash| other.binary_search(hash).is_err()).count()
        };
        Self { added: missing(&after, &before), removed: missing(&before, &after) }
    }
}

#[cfg(test)]
mod tests;
