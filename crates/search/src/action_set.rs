//! Sets of actions.

use std::sync::Arc;

use foldhash::HashMap;

use crate::action::Action;
use crate::groups::ActionGroups;
use crate::pattern::Pattern;

/// How many words hold a bit for each action.
const WORDS: usize = 4;

const _: () = assert!(Action::COUNT <= WORDS * 64, "there are more actions than bits");

/// The privilege for system indices, needed in addition to the action. `*` does not grant it.
pub(crate) const SYSTEM_INDEX: Action = Action::new("system:admin/system_index");

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// The actions that match any of these patterns.
    pub(crate) fn matching(patterns: &[&str]) -> Self {
        let mut set = Self::default();
        for pattern in patterns.iter().filter_map(|text| Pattern::parse(&Arc::from(*text)).ok()) {
            Action::all()
                .filter(|action| pattern.matches(action.name()))
                .for_each(|action| set.insert(action));
        }
        set
    }

    pub(crate) fn contains(&self, action: Action) -> bool {
        let (word, bit) = place(action);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn insert(&mut self, action: Action) {
        let (word, bit) = place(action);
        self.0.get_mut(word).into_iter().for_each(|word| *word |= bit);
    }

    fn remove(&mut self, action: Action) {
        let (word, bit) = place(action);
        self.0.get_mut(word).into_iter().for_each(|word| *word &= !bit);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }
}

fn place(action: Action) -> (usize, u64) {
    (action.number() / 64, 1 << (action.number() % 64))
}

/// Makes sets of actions. It keeps the set of each text, since many roles use the same few texts.
pub(crate) struct ActionSets<'g> {
    groups: &'g ActionGroups,
    sets: HashMap<Arc<str>, ActionSet>,
}

impl<'g> ActionSets<'g> {
    pub(crate) fn new(groups: &'g ActionGroups) -> Self {
        Self { groups, sets: HashMap::default() }
    }

    /// The actions of a list of actions, patterns and groups.
    pub(crate) fn set(&mut self, allowed: &[Arc<str>]) -> ActionSet {
        let mut actions = ActionSet::default();
        for text in allowed {
            actions.extend(&self.with_members(text));
        }
        actions
    }

    fn with_members(&mut self, text: &Arc<str>) -> ActionSet {
        if let Some(set) = self.sets.get(text) {
            return *set;
        }
        let mut set = ActionSet::default();
        // `resolve` also lists the members of groups within a group. So groups are passed over.
        for member in self.groups.resolve(std::slice::from_ref(text)) {
            if !self.groups.contains(member) {
                set.extend(self.sets.entry(member.clone()).or_insert_with(|| granted_by(member)));
            }
        }
        self.sets.insert(text.clone(), set);
        set
    }
}

/// The actions that an action or pattern in a role grants.
fn granted_by(text: &Arc<str>) -> ActionSet {
    let mut set = ActionSet::matching(&[text]);
    if **text == *"*" {
        set.remove(SYSTEM_INDEX);
    }
    set
}
