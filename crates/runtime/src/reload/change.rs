//! What a reload grants or revokes, in numbers.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use policy::Policy;

/// What differs between two policies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    users: Delta,
    grants: Delta,
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
        let users = |policy: &Policy| -> Vec<u64> {
            let users = policy.identity.basic.iter().flat_map(|basic| &basic.users);
            users.map(|user| seed.hash_one(&user.name)).collect()
        };
        let grants = |policy: &Policy| -> Vec<u64> {
            let mut hashes = Vec::new();
            for grant in &policy.grants {
                let role = &policy.roles.at(grant.role).name;
                hashes.extend(grant.users.iter().map(|name| seed.hash_one((role, "user", name))));
                hashes.extend(grant.groups.iter().map(|name| seed.hash_one((role, "group", name))));
            }
            hashes
        };
        Self {
            users: Delta::of(users(before), users(after)),
            grants: Delta::of(grants(before), grants(after)),
        }
    }

    pub(super) fn log(&self, files: &[PathBuf]) {
        let Self { users, grants } = self;
        tracing::info!(
            files = joined(files),
            users_added = users.added,
            users_removed = users.removed,
            grants_added = grants.added,
            grants_removed = grants.removed,
            "policy changed"
        );
    }
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
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn users_and_grants_are_compared() {
        let load = |users: &str, grants: &str| {
            let text = format!(
                "version: 1\nidentity: {{ basic: {{ users_file: htpasswd }} }}\nroles: {{ r: {{ allow: [GET /a] }} }}\n\
                 grants: {{ r: {{ users: [{grants}], groups: [x] }} }}\n"
            );
            let files = policy::MapFiles::of("policy.yaml", text).and("htpasswd", users);
            policy::load(&files, Path::new("policy.yaml")).unwrap().policy
        };
        let before = load("a:$6$x$y\nb:$6$x$y\n", "a, b");
        assert_eq!(Change::of(&before, &before), Change::default());
        let change = Change::of(&before, &load("a:$6$x$y\nc:$6$x$y\nd:$6$x$y\n", "a, b"));
        assert_eq!(change.users, Delta { added: 2, removed: 1 });
        assert_eq!(change.grants, Delta::default());
        let change = Change::of(&before, &load("a:$6$x$y\nb:$6$x$y\n", "c"));
        assert_eq!(change.grants, Delta { added: 1, removed: 2 });
    }
}
