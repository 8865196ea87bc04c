//! Action groups: names for sets of actions, which may contain each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::builtin;

/// Action groups, each with the actions and patterns of actions that it and the groups in it have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionGroups {
    members: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl ActionGroups {
    /// The built-in groups.
    #[must_use]
    pub fn builtin() -> Self {
        Self::new(BTreeMap::new())
    }

    /// These groups and the built-in ones, which replace groups of the same name. Groups may contain each other in a
    /// circle: then they have the same members.
    #[must_use]
    pub fn new(mut members: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>) -> Self {
        for (name, actions) in builtin::ACTION_GROUPS {
            members.insert((*name).into(), actions.iter().map(|action| (*action).into()).collect());
        }
        loop {
            let mut is_complete = true;
            let names: Vec<Arc<str>> = members.keys().cloned().collect();
            for name in names {
                let Some(own) = members.get(&name) else { continue };
                let inherited: Vec<Arc<str>> =
                    own.iter().filter_map(|member| members.get(member)).flatten().cloned().collect();
                let Some(own) = members.get_mut(&name) else { continue };
                let before = own.len();
                own.extend(inherited);
                is_complete &= own.len() == before;
            }
            if is_complete {
                return Self { members };
            }
        }
    }

    /// These actions and groups, with all members of the groups.
    #[must_use]
    pub fn resolve<'a>(&'a self, actions: &'a [Arc<str>]) -> BTreeSet<&'a Arc<str>> {
        let members = actions.iter().filter_map(|action| self.members.get(action)).flatten();
        actions.iter().chain(members).collect()
    }

    /// Whether there is a group of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Whether a group contains an action, a pattern or a group, itself or by the groups in it.
    pub(crate) fn has_member(&self, group: &str, member: &str) -> bool {
        self.members.get(group).is_some_and(|members| members.contains(member))
    }

    /// The names of all groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<Arc<str>> {
        texts.iter().map(|text| (*text).into()).collect()
    }

    #[test]
    fn groups_in_a_circle_have_the_same_members() {
        let groups = ActionGroups::new(BTreeMap::from([
            ("a".into(), set(&["indices:x", "b"])),
            ("b".into(), set(&["indices:y", "c"])),
            ("c".into(), set(&["indices:z", "a"])),
        ]));
        let all = set(&["a", "b", "c", "indices:x", "indices:y", "indices:z"]);
        for name in ["a", "b", "c"] {
            let resolved: BTreeSet<Arc<str>> = groups.resolve(&[name.into()]).into_iter().cloned().collect();
            assert_eq!(resolved, all);
        }
    }

    #[test]
    fn a_builtin_group_has_the_members_of_its_groups() {
        let groups = ActionGroups::builtin();
        assert_eq!(groups.names().count(), 26);
        let crud = ["crud".into()];
        let resolved = groups.resolve(&crud);
        for action in ["crud", "read", "write", "indices:data/read*", "indices:data/write*"] {
            assert!(resolved.iter().any(|member| &***member == action), "{action}");
        }
    }

    #[test]
    fn a_builtin_group_replaces_one_of_its_name() {
        let groups = ActionGroups::new(BTreeMap::from([("read".into(), set(&["*"]))]));
        assert!(!groups.resolve(&["read".into()]).iter().any(|action| &***action == "*"));
    }
}
