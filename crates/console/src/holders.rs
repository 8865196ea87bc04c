//! Who has a role of the policy: directly, or by a role that extends it.
//!
//! A page names the holders of many roles, and roles may extend each other in long chains. So the
//! links between the roles are read once for each page, the holders of a role are found once, and
//! the work is counted: what would be too much for one page is left out.

use std::collections::{BTreeMap, BTreeSet};

use policy::Policy;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Grant, RoleId};

/// The maximum number of users, and of groups, that are named for a role.
const MAX_NAMES: usize = 8;
/// The maximum number of roles, links between them and names that are looked at for one page. A
/// million take about a fifth of a second.
pub(crate) const MAX_STEPS: usize = 2_000_000;
/// What is said of a role whose holders are left out.
const LEFT_OUT: &str = "too many to find for one page: narrow the search";

/// Finds the holders of roles, for one page.
pub(crate) struct Holders<'p> {
    policy: &'p Policy,
    /// The roles that extend each role directly.
    extending: IdVec<RoleId, Vec<RoleId>>,
    grants: IdVec<RoleId, Vec<&'p Grant>>,
    found: BTreeMap<RoleId, String>,
    steps: usize,
}

impl<'p> Holders<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let mut extending: IdVec<RoleId, Vec<RoleId>> =
            policy.roles.iter().map(|_| Vec::new()).collect();
        for (id, role) in policy.roles.entries() {
            role.extends.iter().for_each(|extended| extending.at_mut(*extended).push(id));
        }
        let mut grants: IdVec<RoleId, Vec<&Grant>> =
            policy.roles.iter().map(|_| Vec::new()).collect();
        policy.grants.iter().for_each(|grant| grants.at_mut(grant.role).push(grant));
        Self { policy, extending, grants, found: BTreeMap::new(), steps: 0 }
    }

    /// Who has a role, in words.
    pub(crate) fn describe(&mut self, role: RoleId) -> String {
        if let Some(found) = self.found.get(&role) {
            return found.clone();
        }
        let text = self.find(role).unwrap_or_else(|| LEFT_OUT.to_owned());
        self.found.insert(role, text.clone());
        text
    }

    /// How many roles, links and names were looked at.
    #[cfg(test)]
    pub(crate) const fn steps(&self) -> usize {
        self.steps
    }

    /// `None` if that takes too many steps.
    fn find(&mut self, role: RoleId) -> Option<String> {
        let having = self.having(role)?;
        let names = || having.iter().map(|id| &*self.policy.roles.at(*id).name);
        if names().any(|name| name == ANYONE) {
            return Some("everybody, also without credentials".to_owned());
        }
        if names().any(|name| name == AUTHENTICATED) {
            return Some("everybody with valid credentials".to_owned());
        }
        let grants: Vec<&Grant> =
            having.iter().flat_map(|id| self.grants.at(*id)).copied().collect();
        let name_count: usize =
            grants.iter().map(|grant| 1 + grant.users.len() + grant.groups.len()).sum();
        let issuer_lookups = having.len() * self.policy.identity.jwt.len();
        self.take(name_count + issuer_lookups)?;
        let names = || having.iter().map(|id| &*self.policy.roles.at(*id).name);
        let issuers =
            self.policy.identity.jwt.iter().filter(|jwt| names().any(|name| jwt.may_give(name)));
        let tokens: Vec<String> =
            issuers.map(|jwt| format!("tokens of {} that carry it", jwt.issuer)).collect();
        let users: BTreeSet<&str> =
            grants.iter().flat_map(|grant| &grant.users).map(|user| &**user).collect();
        let groups: BTreeSet<&str> =
            grants.iter().flat_map(|grant| &grant.groups).map(|group| &**group).collect();
        let holders: Vec<String> =
            some("user", &users).into_iter().chain(some("group", &groups)).chain(tokens).collect();
        Some(if holders.is_empty() { "nobody".to_owned() } else { holders.join("; ") })
    }

    /// A role and those that extend it, directly or not.
    fn having(&mut self, role: RoleId) -> Option<BTreeSet<RoleId>> {
        let (mut having, mut to_visit) = (BTreeSet::from([role]), vec![role]);
        while let Some(role) = to_visit.pop() {
            self.take(1 + self.extending.at(role).len())?;
            let extending = self.extending.at(role).iter().copied();
            to_visit.extend(extending.filter(|extending| having.insert(*extending)));
        }
        Some(having)
    }

    /// Takes steps, if there are so many left. Otherwise none are left: what is too much is not
    /// tried again for each row.
    fn take(&mut self, steps: usize) -> Option<()> {
        let sum = self.steps.saturating_add(steps);
        self.steps = sum.min(MAX_STEPS);
        (sum <= MAX_STEPS).then_some(())
    }
}

/// `users a, b and 3 more`.
fn some(kind: &str, names: &BTreeSet<&str>) -> Option<String> {
    let first_names: Vec<&str> = names.iter().take(MAX_NAMES).copied().collect();
    let more = names.len() - first_names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let plural = if names.len() == 1 { "" } else { "s" };
    (!first_names.is_empty()).then(|| format!("{kind}{plural} {}{more}", first_names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use document::MapFiles;

    use super::*;

    fn policy(text: &str) -> Policy {
        policy::load(&MapFiles::new("policy.yaml", text), Path::new("policy.yaml")).unwrap().policy
    }

    fn of_role(holders: &mut Holders<'_>, name: &str) -> String {
        holders.describe(holders.policy.role(name).unwrap())
    }

    #[test]
    fn holders_are_those_of_the_role_and_of_roles_that_extend_it() {
        let policy = policy(
            "version: 1\nidentity: { basic: { verify: false } }\n\
             roles:\n  a: { allow: [GET /a] }\n  b: { extends: [a], allow: [GET /b] }\n  c: { extends: [b, a], allow: [GET /c] }\n  \
             d: { allow: [GET /d] }\n  e: { allow: [GET /e] }\n  anyone: { allow: [GET /f] }\n  \
             authenticated: { allow: [GET /g] }\n\
             grants:\n  a: { users: [ann] }\n  b: { users: [bob, ann], groups: [g] }\n  \
             d: { users: [u0, u1, u2, u3, u4, u5, u6, u7, u8, u9] }\n",
        );
        let mut holders = Holders::new(&policy);
        for (role, wanted) in [
            ("a", "users ann, bob; group g"),
            ("b", "users ann, bob; group g"),
            ("c", "nobody"),
            ("d", "users u0, u1, u2, u3, u4, u5, u6, u7 and 2 more"),
            ("e", "nobody"),
            ("anyone", "everybody, also without credentials"),
            ("authenticated", "everybody with valid credentials"),
        ] {
            assert_eq!(of_role(&mut holders, role), wanted, "{role}");
        }
    }

    /// Roles that extend each other in a chain: the first is that of everybody.
    fn chain(length: usize) -> Policy {
        let mut text = "version: 1\nidentity: { basic: { verify: false } }\nroles:\n".to_owned();
        for role in 0..length {
            let extends =
                if role > 0 { format!("extends: [r{}], ", role - 1) } else { String::new() };
            writeln!(text, "  r{role}: {{ {extends}allow: [GET /{role}] }}").unwrap();
        }
        writeln!(text, "grants:\n  r{}: {{ users: [ann] }}", length - 1).unwrap();
        policy(&text)
    }

    #[test]
    fn each_role_of_a_chain_costs_no_more_than_the_chain() {
        let policy = chain(3000);
        let mut holders = Holders::new(&policy);
        for row in 0..200 {
            let before = holders.steps();
            assert_eq!(of_role(&mut holders, &format!("r{row}")), "user ann");
            let steps = holders.steps() - before;
            assert!(steps <= 2 * 3000 + 2, "r{row}: {steps} steps");
        }
        let before = holders.steps();
        of_role(&mut holders, "r0");
        assert_eq!(holders.steps(), before, "it is known");
    }

    #[test]
    fn what_is_too_much_for_one_page_is_left_out() {
        let policy = chain(3000);
        let mut holders = Holders::new(&policy);
        let texts: Vec<String> =
            (0..3000).map(|role| of_role(&mut holders, &format!("r{role}"))).collect();
        assert!(holders.steps() <= MAX_STEPS, "{}", holders.steps());
        assert_eq!((&*texts[0], &*texts[1500]), ("user ann", LEFT_OUT));
    }
}
