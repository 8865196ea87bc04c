//! Who has a role of the policy: directly, or by a role that extends it.

use std::collections::BTreeSet;

use policy::Policy;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Grant, RoleId};
use review::quote_names;

/// The maximum number of users, and of groups, that are named for a role.
const MAX_NAMES: usize = 8;

/// The roles of a policy, indexed to find their holders.
pub(crate) struct Holders<'p> {
    policy: &'p Policy,
    /// The roles that extend each role directly.
    extending: IdVec<RoleId, Vec<RoleId>>,
}

impl<'p> Holders<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let mut extending: IdVec<RoleId, Vec<RoleId>> =
            policy.roles.iter().map(|_| Vec::new()).collect();
        for (id, role) in policy.roles.entries() {
            role.extends.iter().for_each(|extended| extending.at_mut(*extended).push(id));
        }
        Self { policy, extending }
    }

    /// Who has a role, in words.
    pub(crate) fn describe(&self, role: RoleId) -> String {
        let roles = self.with_extending(role);
        for (name, callers) in [
            (ANYONE, "everybody, also without credentials"),
            (AUTHENTICATED, "everybody with valid credentials"),
        ] {
            if self.policy.role(name).is_some_and(|id| roles.contains(&id)) {
                return callers.to_owned();
            }
        }
        let grants: Vec<&Grant> =
            self.policy.grants.iter().filter(|grant| roles.contains(&grant.role)).collect();
        let users = describe_names("user", grants.iter().flat_map(|grant| &grant.users));
        let groups = describe_names("group", grants.iter().flat_map(|grant| &grant.groups));
        let issuers = self.policy.identity.jwt.iter().filter(|issuer| {
            roles.iter().any(|id| issuer.may_give(&self.policy.roles.at(*id).name))
        });
        let tokens = issuers.map(|issuer| format!("tokens of {} with the role", issuer.issuer));
        let holders: Vec<String> = users.into_iter().chain(groups).chain(tokens).collect();
        if holders.is_empty() { "nobody".to_owned() } else { holders.join("; ") }
    }

    /// A role and the roles that extend it, directly or not.
    fn with_extending(&self, role: RoleId) -> BTreeSet<RoleId> {
        let (mut roles, mut to_visit) = (BTreeSet::from([role]), vec![role]);
        while let Some(role) = to_visit.pop() {
            let extending = self.extending.at(role).iter().copied();
            to_visit.extend(extending.filter(|extending| roles.insert(*extending)));
        }
        roles
    }
}

/// ``the users `a`, `b` and 3 more``; `None` without names.
fn describe_names(kind: &str, names: impl Iterator<Item = impl ToString>) -> Option<String> {
    let names: BTreeSet<String> = names.map(|name| name.to_string()).collect();
    let names = Vec::from_iter(names);
    (!names.is_empty()).then(|| quote_names(kind, &names, "and", MAX_NAMES))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use document::MapFiles;

    use super::*;

    #[test]
    fn holders_of_a_role_hold_the_roles_that_it_extends() {
        let text = "version: 1\nidentity: { basic: { verify: false } }\n\
             roles:\n  a: { allow: [GET /a] }\n  b: { extends: [a], allow: [GET /b] }\n  \
             c: { extends: [b, a], allow: [GET /c] }\n  d: { allow: [GET /d] }\n  \
             e: { allow: [GET /e] }\n  anyone: { allow: [GET /f] }\n  \
             authenticated: { allow: [GET /g] }\n\
             grants:\n  a: { users: [ann] }\n  b: { users: [bob, ann], groups: [g] }\n  \
             d: { users: [u0, u1, u2, u3, u4, u5, u6, u7, u8, u9] }\n";
        let files = MapFiles::new("policy.yaml", text);
        let policy = policy::load(&files, Path::new("policy.yaml")).unwrap().policy;
        let holders = Holders::new(&policy);
        for (role, wanted) in [
            ("a", "the users `ann` and `bob`; the group `g`"),
            ("b", "the users `ann` and `bob`; the group `g`"),
            ("c", "nobody"),
            ("d", "the users `u0`, `u1`, `u2`, `u3`, `u4`, `u5`, `u6`, `u7` and 2 more"),
            ("e", "nobody"),
            ("anyone", "everybody, also without credentials"),
            ("authenticated", "everybody with valid credentials"),
        ] {
            assert_eq!(holders.describe(policy.role(role).unwrap()), wanted, "{role}");
        }
    }
}
