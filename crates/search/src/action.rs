//! The actions that requests perform, by the names that roles grant.

/// An action, by its number among [`ACTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(u16);

impl Action {
    /// How many actions there are.
    pub(crate) const COUNT: usize = COUNT as usize;

    /// The action of this name, if a request can perform it.
    #[must_use]
    pub fn named(name: &str) -> Option<Action> {
        let number = ACTIONS.binary_search(&name).ok()?;
        u16::try_from(number).ok().map(Action)
    }

    /// All actions, in the order of their numbers and of their names.
    pub fn all() -> impl ExactSizeIterator<Item = Action> {
        (0..COUNT).map(Action)
    }

    /// The name, such as `indices:data/read/search`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ACTIONS.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// The number, below the number of [`Action::all`].
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The action of this name, for constants: a name that is missing below fails to compile.
    #[expect(
        clippy::panic,
        clippy::indexing_slicing,
        reason = "it runs when constants are compiled"
    )]
    pub(crate) const fn of(name: &str) -> Action {
        let mut number = 0;
        while number < COUNT {
            if is_same(ACTIONS[number as usize].as_bytes(), name.as_bytes()) {
                return Action(number);
            }
            number += 1;
        }
        panic!("no such action")
    }
}

#[expect(clippy::indexing_slicing, reason = "it runs when constants are compiled")]
const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The names, sorted, one a line. They are those of OpenSearch 3.4.0 and its module rank-eval, and
/// the one of the plugin ml-commons that a query may need. An action that creates or maps an index
/// on the way (`auto_create`, `auto_put`) has the name of the plain one, as roles grant it. The
/// action for the segments of all points in time is the plugin's own.
const TABLE: &str = include_str!("actions.txt");

/// How many actions there are.
const COUNT: u16 = 152;

const ACTIONS: [&str; COUNT as usize] = lines(TABLE);

/// The lines of the table. Another number of them fails to compile.
#[expect(clippy::panic, clippy::indexing_slicing, reason = "it runs when constants are compiled")]
const fn lines(table: &str) -> [&str; COUNT as usize] {
    let (mut lines, mut number, mut rest) = ([""; COUNT as usize], 0, table.as_bytes());
    while !rest.is_empty() {
        let mut end = 0;
        while rest[end] != b'\n' {
            end += 1;
        }
        let (line, after) = rest.split_at(end);
        lines[number] = match std::str::from_utf8(line) {
            Ok(line) => line,
            Err(_) => panic!("a name is not UTF-8"),
        };
        (number, rest) = (number + 1, after.split_at(1).1);
    }
    assert!(number == COUNT as usize, "there are more or fewer actions");
    lines
}
