//! Sets of actions.

use std::sync::Arc;

use foldhash::HashMap;

use crate::action::Action;
use crate::groups::ActionGroups;
use crate::pattern::Pattern;

/// How many words hold a bit for each action.
const WORDS: usize = 4;

const _: () = assert!(Action::COUNT <= WORDS * 64, "there are more actions than bits");

/// The privilege that system indices need, beside that for the action. The pattern `*` does not grant it.
pub(super) const SYSTEM_INDEX: Action = Action::of("system:admin/system_index");

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ActionSet([u64; WORDS]);

/// The sets of the patterns that were read: few patterns are used in many roles.
#[derive(Default)]
pub(super) struct ActionSets(HashMap<Arc<str>, ActionSet>);

impl ActionSet {
    pub(super) fn contains(&self, action: Action) -> bool {
        let (word, bit) = place(action);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn insert(&mut self, action: Action) {
        let (word, bit) = place(action);
        self.0.get_mut(word).into_iter().for_each(|word| *word |= bit);
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }
}

fn place(action: Action) -> (usize, u64) {
    (action.number() / 64, 1 << (action.number() % 64))
}

impl ActionSets {
    /// The actions that a list of actions, patterns and groups has.
    pub(super) fn of(&mut self, groups: &ActionGroups, allowed: &[Arc<str>]) -> ActionSet {
        let mut all = ActionSet::default();
        for text in groups.resolve(allowed) {
            let set = self.0.entry(text.clone()).or_insert_with(|| matching(text));
            all.extend(set);
        }
        all
    }
}

fn matching(text: &Arc<str>) -> ActionSet {
    let mut set = ActionSet::default();
    let Ok(pattern) = Pattern::parse(text) else { return set };
    for action in Action::all().filter(|action| pattern.matches(action.name())) {
        if action != SYSTEM_INDEX || !pattern.is_anything() {
            set.insert(action);
        }
    }
    set
}
