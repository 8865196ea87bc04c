//! The actions that requests perform, by the names that roles grant.

/// The names, sorted: those of OpenSearch 3.4.0 and its module rank-eval, and a name of the plugin
/// ml-commons that a query may need. An action that creates or maps an index on the way
/// (`auto_create`, `auto_put`) has the name of the plain action here, since roles grant that name.
/// The security plugin itself defines the action that shows the segments of all points in time.
const ACTIONS: &[&str] = &include!("actions.in");

/// An action, by its number among [`ACTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(u16);

impl Action {
    /// How many actions there are.
    pub(crate) const COUNT: usize = ACTIONS.len();

    /// The action of this name, if a request can perform it.
    #[must_use]
    pub fn named(name: &str) -> Option<Action> {
        let number = ACTIONS.binary_search(&name).ok()?;
        u16::try_from(number).ok().map(Action)
    }

    /// All actions, in the order of their numbers and of their names.
    pub fn all() -> impl Iterator<Item = Action> {
        (0..).take(ACTIONS.len()).map(Action)
    }

    /// The name, such as `indices:data/read/search`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ACTIONS.get(self.number()).copied().unwrap_or_default()
    }

    /// The number: the position in [`Action::all`].
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The action of this name, for constants: an unknown name fails to compile.
    #[expect(clippy::indexing_slicing, reason = "it runs when constants are compiled")]
    pub(crate) const fn new(name: &str) -> Action {
        let mut number: u16 = 0;
        while !is_same(ACTIONS[number as usize].as_bytes(), name.as_bytes()) {
            number += 1;
        }
        Action(number)
    }
}

#[expect(clippy::indexing_slicing, reason = "it runs when constants are compiled")]
const fn is_same(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted() {
        assert!(ACTIONS.is_sorted());
    }
}
