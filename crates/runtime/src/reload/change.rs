//! The numbers of users, grants, roles and so on that a reload adds, removes or changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::path::PathBuf;

use authorizer::cluster_config;
use policy::Policy;
use policy::model::{
    ActionName, ApiKey, AuthZen, Certificates, Introspection, Issuer, Keys, ResourceType,
    RolesFromToken, Rule, SubjectType,
};
use policy::pattern::{Pattern, Segment};

/// How many items were added, removed or changed, by kind and action. Displayed as
/// `users_added=1 users_removed=2`.
///
/// A changed item has the same name and another content. A grant or rule has no name: if it
/// changes, it counts as added and as removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change(BTreeMap<(&'static str, &'static str), usize>);

impl Change {
    pub(super) fn between(before: &Policy, after: &Policy) -> Self {
        let seed = RandomState::new();
        let (before, after) = (ItemHashes::new(before, &seed), ItemHashes::new(after, &seed));
        let (removed, added) = (before.names_not_in(&after), after.names_not_in(&before));
        let mut counts = BTreeMap::new();
        for item in removed.union(&added) {
            let action = match (removed.contains(item), added.contains(item)) {
                (true, true) => "changed",
                (true, false) => "removed",
                (false, _) => "added",
            };
            *counts.entry((item.0, action)).or_default() += 1;
        }
        Self(counts)
    }

    pub(super) fn log(&self, files: &[PathBuf]) {
        let files = (!files.is_empty()).then(|| joined(files));
        if self.0.is_empty() {
            // Only comments have changed, or settings that are not counted, such as those of
            // responses.
            tracing::info!(
                files,
                "policy changed, but no user, API key, certificate, grant, role, rule, issuer, role mapping or type of AuthZEN"
            );
        } else {
            tracing::info!(files, changes = %self, "policy changed");
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for ((kind, action), count) in &self.0 {
            write!(f, "{separator}{kind}_{action}={count}")?;
            separator = " ";
        }
        Ok(())
    }
}

/// The kind of each item, and the hashes of its name and its content. The strings themselves are
/// not kept: a policy may have a million grants, and two sets of strings, for the policies before
/// and after, would take as much memory again.
struct ItemHashes<'s> {
    hashes: BTreeSet<(&'static str, u64, u64)>,
    seed: &'s RandomState,
}

impl<'s> ItemHashes<'s> {
    fn new(policy: &Policy, seed: &'s RandomState) -> Self {
        let mut items = Self { hashes: BTreeSet::new(), seed };
        for user in policy.identity.basic.iter().flat_map(|basic| &basic.users) {
            let password = user.password.as_ref().map(|hash| &hash.0);
            items.add("users", &user.name, (password, &user.groups));
        }
        for key in policy.identity.api_keys.iter().flat_map(|keys| &keys.keys) {
            let ApiKey { id, hash, user, groups, expires, at: _ } = key;
            items.add("api_keys", id, (hash, user, groups, expires));
        }
        if let Some(Certificates { from, users, groups, user_prefix, group_prefix, at: _ }) =
            &policy.identity.certificates
        {
            items.add("certificates", "from", format!("{from:?}{user_prefix:?}{group_prefix:?}"));
            for entry in users {
                items.add("certificates", ("user", &entry.name.text), format!("{:?}", entry.user));
            }
            for entry in groups {
                let groups = format!("{:?}", entry.groups);
                items.add("certificates", ("groups", &entry.name.text), groups);
            }
        }
        for grant in &policy.grants {
            let role = &policy.roles.at(grant.role).name;
            let when = grant.when.as_ref().map(|when| when.expression.to_string());
            for user in &grant.users {
                items.add("grants", (role, "user", user), &when);
            }
            for group in &grant.groups {
                items.add("grants", (role, "group", group), &when);
            }
        }
        for role in policy.roles.iter() {
            let parents = role.extends.iter().map(|parent| &policy.roles.at(*parent).name);
            let when = role.when.as_ref().map(|when| when.expression.to_string());
            items.add("roles", &role.name, (parents.collect::<BTreeSet<_>>(), when));
            for (effect, rules) in [("allow", &role.allow), ("deny", &role.deny)] {
                for Rule { name, actions, scopes, resources, when, at: _ } in rules {
                    let resources: Vec<_> = resources
                        .iter()
                        .map(|pattern| with_source_names(pattern, policy))
                        .collect();
                    let when = when.as_ref().map(|when| when.expression.to_string());
                    let rule = (&role.name, effect, name, actions, scopes, resources, when);
                    items.add("rules", rule, ());
                }
            }
        }
        for issuer in &policy.identity.jwt {
            items.add_issuer(issuer);
        }
        for place in &policy.identity.token_from {
            items.add("token_places", &place.field, ());
        }
        if let Some(authzen) = &policy.authzen {
            let AuthZen { subjects, actions, resources, trust_context, entities, at: _ } = authzen;
            if *trust_context {
                items.add("authzen_types", "trust_context", ());
            }
            for SubjectType { name, issuer, groups, roles, at: _ } in subjects {
                items.add(
                    "authzen_types",
                    ("subject", name),
                    format!("{issuer:?}{groups:?}{roles:?}"),
                );
            }
            for ActionName { name, method } in actions {
                items.add("authzen_types", ("action", name), method);
            }
            for ResourceType { name, host, path, at: _ } in resources {
                items.add("authzen_types", ("resource", name), format!("{host:?}{path:?}"));
            }
            for (section, entities) in
                [("subject", &entities.subjects), ("resource", &entities.resources)]
            {
                for (kind, ids) in &entities.0 {
                    for (id, properties) in ids {
                        items.add(
                            "authzen_entities",
                            (section, kind, id),
                            format!("{properties:?}"),
                        );
                    }
                }
            }
        }
        items.add_cluster(policy);
        items
    }

    fn add(&mut self, kind: &'static str, name: impl Hash, content: impl Hash) {
        self.hashes.insert((kind, self.seed.hash_one(name), self.seed.hash_one(content)));
    }

    /// Every field is named, so that a new field cannot be forgotten. `at`, the place in the policy
    /// file, is ignored.
    fn add_issuer(&mut self, issuer: &Issuer) {
        let Issuer {
            issuer,
            audiences,
            keys,
            claims,
            act,
            require,
            clock_skew,
            required_type,
            max_age,
            roles_from_token,
            user_prefix,
            group_prefix,
            at: _,
        } = issuer;
        let keys = match keys {
            Keys::File { path, bytes, at: _ } => self.seed.hash_one((path, bytes)),
            Keys::Url { url, refresh, at: _ } => self.seed.hash_one((url, refresh)),
            Keys::Introspection(Introspection { url, max_cache, at: _ }) => {
                self.seed.hash_one((url, max_cache, "introspection"))
            }
        };
        let roles: Option<Vec<&str>> = match roles_from_token {
            RolesFromToken::All => None,
            RolesFromToken::Only(roles) => Some(roles.iter().map(|role| &*role.name).collect()),
        };
        // Debug output is enough: these have no field `at`, so it changes only with their content.
        let claims = format!("{claims:?} {act:?} {require:?}");
        let verification = (audiences, keys, claims, clock_skew, required_type, max_age);
        self.add("issuers", issuer, (verification, roles, user_prefix, group_prefix));
    }

    /// The users, roles (built-in roles, too) and role mappings of a search cluster, unless its
    /// files have errors.
    fn add_cluster(&mut self, policy: &Policy) {
        let Some(config) = cluster_config(policy) else { return };
        for user in config.users.iter() {
            let hash = user.hash.as_ref().map(|hash| &hash.0);
            let content =
                (hash, &user.backend_roles, &user.attributes, &user.roles, user.is_service);
            self.add("cluster_users", &user.name, content);
        }
        for (name, role) in config.roles.iter() {
            self.add("cluster_roles", name, format!("{role:?}"));
        }
        for mapping in config.mappings.iter() {
            self.add("cluster_mappings", &mapping.role, format!("{mapping:?}"));
        }
    }

    /// The kinds and names of the items that `other` lacks, or has with another content.
    fn names_not_in(&self, other: &Self) -> BTreeSet<(&'static str, u64)> {
        self.hashes.difference(&other.hashes).map(|(kind, name, _)| (*kind, *name)).collect()
    }
}

/// A pattern to be hashed. A segment `{user.id}` refers to sources of identities by their ids. The
/// ids change with the list of issuers, so the names of the sources are hashed instead.
fn with_source_names<'p>(pattern: &'p Pattern, policy: &'p Policy) -> impl Hash + use<'p> {
    let Pattern { absolute, segments, open_ended } = pattern;
    let mut described: Vec<(Option<&Segment>, BTreeSet<&str>)> = Vec::new();
    for segment in segments {
        described.push(match segment {
            Segment::UserId(ids) => {
                let sources = policy.identity.sources().filter(|(id, ..)| ids.contains(id));
                (None, sources.map(|(_, name, _)| name).collect())
            }
            Segment::Literal(_) | Segment::Any(_) | Segment::User | Segment::Glob(_) => {
                (Some(segment), BTreeSet::new())
            }
        });
    }
    (*absolute, *open_ended, described)
}

pub(super) fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
