//! Conditions in CEL, for what methods, hosts, paths and callers do not say.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use condition::{Condition, Constant, NamedConditions};

use crate::note::Note;

/// A condition of a rule, or a part of a condition.
///
/// It is false, not an error, where the original's condition does not hold because a header, a
/// claim or a token is absent. So its negation means what it means in the original.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// A comparison or a call.
    Test(String),
    /// Whether the caller's token has a claim: false without a token.
    HasClaim(String),
    Not(Box<When>),
    All(Vec<When>),
    Any(Vec<When>),
}

/// Requests for which a condition cannot be computed, so that they are denied.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) note: Note,
    /// Whether the original's condition is false for these requests. Then the answers differ only
    /// where an `allow` rule has the condition negated, or a `deny` rule has it as it is.
    pub(crate) only_negated: bool,
}

impl When {
    pub(crate) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut conjuncts = Vec::new();
        for part in parts {
            let parts = if let Self::All(parts) = part { parts } else { vec![part] };
            for part in parts {
                if !conjuncts.contains(&part) {
                    conjuncts.push(part);
                }
            }
        }
        match <[Self; 1]>::try_from(conjuncts) {
            Ok([part]) => part,
            Err(conjuncts) => Self::All(conjuncts),
        }
    }

    pub(crate) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut alternatives = Vec::new();
        for part in parts {
            let parts = if let Self::Any(parts) = part { parts } else { vec![part] };
            for part in parts {
                if !alternatives.contains(&part) {
                    alternatives.push(part);
                }
            }
        }
        match <[Self; 1]>::try_from(alternatives) {
            Ok([part]) => part,
            Err(alternatives) => Self::Any(alternatives),
        }
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            inner => Self::Not(Box::new(inner)),
        }
    }

    /// Whether it is false for every caller without a token.
    pub(crate) fn needs_token(&self) -> bool {
        match self {
            Self::HasClaim(_) => true,
            Self::Test(_) | Self::Not(_) => false,
            Self::All(parts) => parts.iter().any(Self::needs_token),
            Self::Any(parts) => parts.iter().all(Self::needs_token),
        }
    }

    /// Checks that a policy can have it.
    ///
    /// # Errors
    /// Why not: it is too large, or has a part that conditions do not have.
    pub(crate) fn check(&self) -> Result<(), condition::ConditionError> {
        let text = Arc::from(self.to_string());
        Condition::parse(&text, &NamedConditions::default()).map(drop)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(text) | Self::HasClaim(text) => f.write_str(text),
            Self::Not(inner) => match &**inner {
                Self::HasClaim(text) => write!(f, "!{text}"),
                inner => write!(f, "!({inner})"),
            },
            Self::All(parts) => write_joined(f, parts, " && "),
            Self::Any(parts) => write_joined(f, parts, " || "),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, parts: &[When], operator: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(operator)?;
        }
        match part {
            When::All(_) | When::Any(_) => write!(f, "({part})")?,
            When::Test(_) | When::HasClaim(_) | When::Not(_) => write!(f, "{part}")?,
        }
    }
    Ok(())
}

/// Whether a condition and its negation are in a conjunction.
pub(crate) fn is_contradictory(all: &BTreeSet<When>) -> bool {
    all.iter().any(|when| matches!(when, When::Not(inner) if all.contains(inner)))
}

/// A text as CEL writes it.
pub(crate) fn quoted(text: &str) -> String {
    Constant::Text(text.into()).to_string()
}

/// A claim in a condition.
pub(crate) struct Claim {
    /// Its value.
    pub(crate) value: String,
    /// Whether the token has it.
    pub(crate) is_there: When,
}

/// The claim at a path of names: each name is a member of the object before it, and the last name
/// is the claim's own.
pub(crate) fn claim(names: &[&str]) -> Claim {
    let (mut value, mut guards) = ("claims".to_owned(), Vec::new());
    for name in names {
        let (member, guard) = if condition::is_name(name) {
            (format!("{value}.{name}"), format!("has({value}.{name})"))
        } else {
            let name = quoted(name);
            (format!("{value}[{name}]"), format!("({name} in {value})"))
        };
        guards.push(When::HasClaim(guard));
        value = member;
    }
    Claim { value, is_there: When::all(guards) }
}

#[cfg(test)]
mod tests {
    use super::{When, claim};

    #[test]
    fn conditions_are_written_with_brackets_where_they_need_them() {
        let [a, b, c] = ["a", "b", "c"].map(|text| When::Test(text.to_owned()));
        let either = When::any([a.clone(), b.clone()]);
        for (when, text) in [
            (When::all([either.clone(), c.clone()]), "(a || b) && c"),
            (When::any([When::all([a.clone(), b.clone()]), c.clone()]), "(a && b) || c"),
            (either.clone().negated(), "!(a || b)"),
            (either.clone().negated().negated(), "a || b"),
            (When::any([either, c]), "a || b || c"),
            (When::all([a.clone(), When::all([b.clone(), a])]), "a && b"),
            (claim(&["a", "b"]).is_there, "has(claims.a) && has(claims.a.b)"),
            (claim(&["a"]).is_there.negated(), "!has(claims.a)"),
            (claim(&["a/b", "c"]).is_there, "('a/b' in claims) && has(claims['a/b'].c)"),
            (claim(&["in"]).is_there.negated(), "!('in' in claims)"),
            (claim(&["for", "_a"]).is_there, "('for' in claims) && has(claims['for']._a)"),
        ] {
            assert_eq!(when.to_string(), text);
        }
        assert_eq!(claim(&["realm", "x-y", "in"]).value, "claims.realm['x-y']['in']");
    }

    #[test]
    fn only_a_condition_that_is_false_without_a_token_needs_one() {
        let (has, other) = (claim(&["a"]).is_there, When::Test("b".to_owned()));
        assert!(When::all([other.clone(), has.clone()]).needs_token());
        assert!(!When::any([other, has.clone()]).needs_token());
        assert!(!has.negated().needs_token());
    }
}
