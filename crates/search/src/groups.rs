//! Action groups: names for sets of actions, which may contain each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::builtin;
use crate::steps::Steps;

/// How many members of groups are looked at to find those of all groups. A chain of 1,400 groups, each in the
/// one before it, has a million: nobody writes such a file by hand.
const MAX_STEPS: usize = 1_000_000;

/// Action groups, each with the actions and patterns of actions that it and the groups in it have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionGroups {
    members: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl ActionGroups {
    /// The built-in groups.
    #[must_use]
    pub fn builtin() -> Self {
        Self::new(BTreeMap::new()).0
    }

    /// These groups and the built-in ones, which replace groups of the same name. Groups may contain each other in a
    /// circle: then they have the same members.
    ///
    /// Also the first group whose members are too many, with those of all groups before it. It and the groups
    /// after it have only their own members.
    pub(crate) fn new(mut own: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>) -> (Self, Option<Arc<str>>) {
        for (name, actions) in builtin::ACTION_GROUPS {
            own.insert((*name).into(), actions.iter().map(|action| (*action).into()).collect());
        }
        let is_builtin = |name: &str| builtin::ACTION_GROUPS.iter().any(|(builtin, _)| *builtin == name);
        let (mut steps, mut free) = (Steps::new(MAX_STEPS), Steps::new(usize::MAX));
        let (mut members, mut too_many) = (BTreeMap::new(), None);
        for (name, actions) in &own {
            let all = all_members(&own, name, if is_builtin(name) { &mut free } else { &mut steps });
            if all.is_none() && too_many.is_none() {
                too_many = Some(name.clone());
            }
            members.insert(name.clone(), all.unwrap_or_else(|| actions.clone()));
        }
        (Self { members }, too_many)
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

    /// The members of a group: its own, and those of the groups in it.
    #[cfg(test)]
    pub(crate) fn members(&self, group: &str) -> impl Iterator<Item = &str> {
        self.members.get(group).into_iter().flatten().map(|member| &**member)
    }

    /// The names of all groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(|name| &**name)
    }
}

/// The members of a group: its own, and those of the groups in it. Each group is visited once. `None` if that takes too many steps.
fn all_members(
    own: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    name: &Arc<str>,
    steps: &mut Steps,
) -> Option<BTreeSet<Arc<str>>> {
    let (mut all, mut ahead) = (BTreeSet::new(), vec![name]);
    while let Some(actions) = ahead.pop().and_then(|group| own.get(group)) {
        steps.take(actions.len())?;
        for member in actions.iter().filter(|member| all.insert(Arc::clone(*member))) {
            if own.contains_key(member) {
                ahead.push(member);
            }
        }
    }
    Some(all)
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
        ]))
        .0;
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
        let groups = ActionGroups::new(BTreeMap::from([("read".into(), set(&["*"]))])).0;
        assert!(!groups.resolve(&["read".into()]).iter().any(|action| &***action == "*"));
    }

    /// Each group is in the one before it, so that the members of all are as many as the square of their number.
    fn chain(length: usize) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        let name = |number: usize| format!("g{number:05}");
        let group = |number| (name(number).into(), set(&[&name(number + 1), &format!("indices:x{number}")]));
        (0..length).map(group).collect()
    }

    #[test]
    fn a_group_has_the_members_of_a_long_chain_of_groups() {
        let (groups, too_many) = ActionGroups::new(chain(800));
        assert_eq!(too_many, None);
        assert_eq!(groups.members("g00000").count(), 1_600);
        assert!(groups.has_member("g00000", "indices:x799") && !groups.has_member("g00001", "indices:x0"));
    }

    #[test]
    fn the_members_of_all_groups_are_bounded() {
        let (groups, too_many) = ActionGroups::new(chain(20_000));
        // Each has two members, and the first has those of all.
        assert!(too_many.is_some_and(|name| name.starts_with("g000")));
        let kept: usize = groups.names().map(|name| groups.members(name).count()).sum();
        assert!(kept <= MAX_STEPS + 2 * 20_000, "{kept}");
        assert_eq!(groups.members("g19999").count(), 2);
    }
}
