//! Actions and their ids.

use crate::first_bytes::FirstBytes;
use crate::ids::ActionId;
use crate::interner::Interner;

/// Maximum number of actions that are searched linearly, which costs less than a hash. Chosen, not
/// measured: most policies name fewer HTTP methods.
const MAX_LINEAR: usize = 8;

/// The actions that the policy names.
#[derive(Default)]
pub(crate) struct Actions {
    names: Interner<ActionId>,
    /// The first [`MAX_LINEAR`] names that fit into a [`FirstBytes`], as every HTTP method does.
    short: Vec<(FirstBytes, ActionId)>,
}

impl Actions {
    /// The id of this action. A new action is added.
    pub(crate) fn add(&mut self, action: &[u8]) -> ActionId {
        let is_new = self.names.find(action).is_none();
        let (id, first) = (self.names.add(action), FirstBytes::new(action));
        if is_new && first.is_whole() && self.short.len() < MAX_LINEAR {
            self.short.push((first, id));
        }
        id
    }

    /// The id of this action, or [`ActionId::UNKNOWN`]. Short actions are compared as two integers,
    /// without a hash.
    pub(crate) fn find(&self, action: &[u8]) -> ActionId {
        let first = FirstBytes::new(action);
        match self.short.iter().find(|(short, _)| *short == first) {
            Some((_, id)) => *id,
            None => self.names.find(action).unwrap_or(ActionId::UNKNOWN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_any_length_are_found() {
        let mut actions = Actions::default();
        let names =
            ["GET", "", "indices:data/read/search", "indices:data/read/scroll", "sixteen-letters!"];
        let many = (0..100).map(|number| format!("action-{number}"));
        let names: Vec<String> = names.map(str::to_owned).into_iter().chain(many).collect();
        for (id, name) in (0..).map(ActionId).zip(&names) {
            assert_eq!(actions.add(name.as_bytes()), id);
            assert_eq!(actions.add(name.as_bytes()), id);
        }
        for (id, name) in (0..).map(ActionId).zip(&names) {
            assert_eq!(actions.find(name.as_bytes()), id);
        }
        let others =
            "get GETX G indices:data/read/searcH indices:data/Read/search sixteen-letters!!";
        for other in others.split(' ') {
            assert_eq!(actions.find(other.as_bytes()), ActionId::UNKNOWN, "{other}");
        }
    }
}
