//! Which roles extend a role.

use std::collections::{BTreeSet, HashMap, HashSet};

use policy::Policy;
use policy::model::{Role, RoleId};

/// The most roles that are named.
const MAX_NAMED: usize = 3;
/// The most roles that are looked at for one role.
const MAX_VISITED: usize = 64;

/// For each role, those that extend it directly.
pub(crate) struct Extending(HashMap<RoleId, Vec<RoleId>>);

impl Extending {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut by: HashMap<RoleId, Vec<RoleId>> = HashMap::new();
        for (number, role) in (0..).zip(&policy.roles) {
            for extended in &role.extends {
                by.entry(*extended).or_default().push(RoleId(number));
            }
        }
        Self(by)
    }

    pub(crate) fn directly(&self, role: RoleId) -> impl Iterator<Item = RoleId> {
        self.0.get(&role).into_iter().flatten().copied()
    }

    /// A role, and those that extend it, directly or not.
    pub(crate) fn having(&self, role: RoleId) -> BTreeSet<RoleId> {
        let (mut having, mut to_visit) = (BTreeSet::from([role]), vec![role]);
        while let Some(role) = to_visit.pop() {
            to_visit.extend(self.directly(role).filter(|extending| having.insert(*extending)));
        }
        having
    }

    /// The names of the first few roles that extend this one, directly or not, and are of use.
    pub(crate) fn names(
        &self,
        policy: &Policy,
        role: &Role,
        is_useful: impl Fn(&Role) -> bool,
    ) -> Vec<String> {
        let mut seen: HashSet<RoleId> = policy.role(&role.name).into_iter().collect();
        let mut to_visit: Vec<RoleId> = seen.iter().copied().collect();
        let mut at = 0;
        while let Some(id) = to_visit.get(at).copied().filter(|_| at < MAX_VISITED) {
            at += 1;
            to_visit.extend(self.directly(id).filter(|by| seen.insert(*by)));
        }
        let extending = to_visit.iter().skip(1).filter_map(|id| policy.roles.get(id.0 as usize));
        extending
            .filter(|role| is_useful(role))
            .take(MAX_NAMED)
            .map(|role| role.name.to_string())
            .collect()
    }
}
