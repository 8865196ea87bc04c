//! Action groups: names for sets of actions, which may contain each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Action groups, each with its own members: actions, patterns of actions, and other groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionGroups(BTreeMap<Arc<str>, Vec<Arc<str>>>);

impl ActionGroups {
    /// These groups, without the built-in groups. Groups in a circle have the same members.
    pub(crate) fn new(groups: BTreeMap<Arc<str>, Vec<Arc<str>>>) -> Self {
        Self(groups)
    }

    /// Adds groups, which replace groups of the same name.
    pub(crate) fn extend(&mut self, groups: &Self) {
        self.0.extend(groups.0.clone());
    }

    /// These actions and groups, with all members of the groups, and of the groups in them.
    #[must_use]
    pub fn resolve<'a>(&'a self, actions: &'a [Arc<str>]) -> BTreeSet<&'a Arc<str>> {
        let mut resolved = BTreeSet::new();
        let mut ahead: Vec<&Arc<str>> = actions.iter().collect();
        while let Some(name) = ahead.pop() {
            if resolved.insert(name) {
                ahead.extend(self.0.get(name).into_iter().flatten());
            }
        }
        resolved
    }

    /// Whether there is a group of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a group contains an action, a pattern or a group, itself or by the groups in it.
    pub(crate) fn has_member(&self, group: &str, member: &str) -> bool {
        self.0.get(group).is_some_and(|members| self.resolve(members).contains(&Arc::from(member)))
    }

    /// The names of all groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(groups: &[(&str, &[&str])]) -> ActionGroups {
        let members = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
        ActionGroups::new(
            groups.iter().map(|(name, texts)| ((*name).into(), members(texts))).collect(),
        )
    }

    fn resolved<'a>(groups: &'a ActionGroups, name: &'a [Arc<str>]) -> Vec<&'a str> {
        groups.resolve(name).into_iter().map(|member| &**member).collect()
    }

    #[test]
    fn groups_in_a_circle_have_the_same_members() {
        let groups = groups(&[
            ("a", &["indices:x", "b"]),
            ("b", &["indices:y", "c"]),
            ("c", &["indices:z", "a"]),
        ]);
        for name in ["a", "b", "c"] {
            let all = ["a", "b", "c", "indices:x", "indices:y", "indices:z"];
            assert_eq!(resolved(&groups, &[name.into()]), all);
            assert!(groups.has_member(name, name));
        }
    }

    /// Each group is in the one before it. All members together are the square of their number:
    /// they are not stored.
    #[test]
    fn a_group_has_the_members_of_a_long_chain_of_groups() {
        let name = |number: usize| Arc::from(format!("g{number:05}"));
        let chain = (0..20_000).map(|number| {
            (name(number), vec![name(number + 1), format!("indices:x{number}").into()])
        });
        let groups = ActionGroups::new(chain.collect());
        assert_eq!(groups.resolve(&[name(0)]).len(), 1 + 40_000);
        assert!(
            groups.has_member("g00000", "indices:x19999")
                && !groups.has_member("g00001", "indices:x0")
        );
    }
}
