//! The cases in which a change applies: which conditions must be true, and which must not.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::grants::join;
use crate::worlds::World;

/// The maximum number of alternatives that are listed.
const MAX_ALTERNATIVES: usize = 4;

/// The cases in which a change applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Cases {
    /// It applies in no other case than these. In a case, all of its literals are true.
    pub any_of: Vec<Vec<Literal>>,
    /// Whether it applies in all of these cases. If not, there may be no request to which it
    /// applies.
    pub exact: bool,
}

/// A condition, and the value that it must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Literal {
    /// The condition, with named conditions replaced by their text.
    pub condition: String,
    /// Its value.
    pub is: Truth,
}

/// The value that a condition must have. A condition that cannot be computed, such as a condition
/// about a claim that a token lacks, is neither true nor false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// True.
    True,
    /// False, or it cannot be computed.
    NotTrue,
    /// False.
    False,
    /// True, or it cannot be computed.
    NotFalse,
    /// It cannot be computed.
    NotComputable,
}

impl Truth {
    /// Whether a condition with this value has the value that it must have. `None` is a condition
    /// that cannot be computed.
    #[must_use]
    pub fn includes(self, value: Option<bool>) -> bool {
        match self {
            Self::True => value == Some(true),
            Self::NotTrue => value != Some(true),
            Self::False => value == Some(false),
            Self::NotFalse => value != Some(false),
            Self::NotComputable => value.is_none(),
        }
    }
}

impl Cases {
    /// Cases that were too many to be looked at.
    pub(crate) fn too_many() -> Self {
        Self { any_of: vec![Vec::new()], exact: false }
    }

    /// Describes those of the `worlds` of these conditions for which `applies` is true. `None` if
    /// it is true for all of them.
    pub(crate) fn new(conditions: &[String], worlds: &[World], applies: &[bool]) -> Option<Self> {
        let outside: Vec<&World> = selected(worlds, applies, false);
        if outside.is_empty() {
            return None;
        }
        let mut uncovered = selected(worlds, applies, true);
        let mut any_of: Vec<Vec<(usize, Truth)>> = Vec::new();
        while let Some(world) = uncovered.first() {
            if any_of.len() == MAX_ALTERNATIVES {
                return Some(Self::common(conditions, &selected(worlds, applies, true)));
            }
            let mut case = literals(world);
            // Literals that are not needed are left out. `is true` is tried last, so it stays where
            // another literal would be enough, too.
            for truth in
                [Truth::NotComputable, Truth::False, Truth::NotFalse, Truth::NotTrue, Truth::True]
            {
                for condition in (0..conditions.len()).rev() {
                    let without: Vec<_> = case
                        .iter()
                        .copied()
                        .filter(|literal| *literal != (condition, truth))
                        .collect();
                    if without.len() < case.len()
                        && !outside.iter().any(|world| is_case(&without, world))
                    {
                        case = without;
                    }
                }
            }
            uncovered.retain(|world| !is_case(&case, world));
            any_of.push(case);
        }
        let mut any_of: Vec<Vec<Literal>> =
            any_of.into_iter().map(|case| named(conditions, case)).collect();
        any_of.sort();
        Some(Self { any_of, exact: true })
    }

    /// The literals that all of these worlds share.
    fn common(conditions: &[String], worlds: &[&World]) -> Self {
        let mut common = worlds.first().map(|world| literals(world)).unwrap_or_default();
        common.retain(|literal| worlds.iter().all(|world| is_case(&[*literal], world)));
        // `is true` says more than `is not false`.
        let literals = common.clone();
        common.retain(|(condition, truth)| match truth {
            Truth::NotTrue => {
                !literals.contains(&(*condition, Truth::False))
                    && !literals.contains(&(*condition, Truth::NotComputable))
            }
            Truth::NotFalse => {
                !literals.contains(&(*condition, Truth::True))
                    && !literals.contains(&(*condition, Truth::NotComputable))
            }
            Truth::True | Truth::False | Truth::NotComputable => true,
        });
        Self { any_of: vec![named(conditions, common)], exact: false }
    }
}

fn selected<'w>(worlds: &'w [World], applies: &[bool], wanted: bool) -> Vec<&'w World> {
    worlds.iter().zip(applies).filter(|(_, applies)| **applies == wanted).map(|(w, _)| w).collect()
}

/// All that is so in a world.
fn literals(world: &World) -> Vec<(usize, Truth)> {
    let literals = world.iter().enumerate().flat_map(|(condition, truth)| {
        let all: &[Truth] = match truth {
            Some(true) => &[Truth::True, Truth::NotFalse],
            Some(false) => &[Truth::NotTrue, Truth::False],
            None => &[Truth::NotTrue, Truth::NotFalse, Truth::NotComputable],
        };
        all.iter().map(move |truth| (condition, *truth))
    });
    literals.collect()
}

fn is_case(case: &[(usize, Truth)], world: &World) -> bool {
    case.iter().all(|(condition, truth)| {
        world.get(*condition).is_some_and(|condition| truth.includes(*condition))
    })
}

fn named(conditions: &[String], case: Vec<(usize, Truth)>) -> Vec<Literal> {
    let literals = case.into_iter().filter_map(|(condition, is)| {
        Some(Literal { condition: conditions.get(condition)?.clone(), is })
    });
    let mut literals: Vec<Literal> = literals.collect();
    literals.sort();
    literals
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is = match self.is {
            Truth::True => "is true",
            Truth::NotTrue => "is not true",
            Truth::False => "is false",
            Truth::NotFalse => "is not false",
            Truth::NotComputable => "cannot be computed",
        };
        write!(f, "`{}` {is}", self.condition.replace('\n', " "))
    }
}

/// Shows them as the end of a sentence: ``where `a` is true``.
impl Display for Cases {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let cases = self.any_of.iter().filter(|case| !case.is_empty());
        let cases: Vec<String> = cases.map(|case| join(case, "and")).collect();
        match (cases.is_empty(), self.exact) {
            (true, _) => f.write_str("in some cases, which have too many conditions to list"),
            (false, true) => write!(f, "where {}", cases.join("; or where ")),
            (false, false) => write!(f, "in some cases where {}", cases.join("; or where ")),
        }
    }
}
