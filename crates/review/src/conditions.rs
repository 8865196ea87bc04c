//! The roles and groups of a token with which the answer to a request differs.
//!
//! Under each of the two policies, a name in a token allows a request, denies it, or has no effect.

use std::collections::BTreeSet;

use serde::Serialize;

/// Whether callers may do more or less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Only the new policy allows the request.
    Granted,
    /// Only the old policy allows the request.
    Revoked,
}

/// A name that a token has and the policy uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// This role.
    Role(String),
    /// This group, with the prefix of its issuer.
    Group(String),
}

/// The roles and groups that a token must have for a change to apply. The change is about tokens
/// that have no other role and group of the policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// The token needs at least one attribute of each list.
    pub needs: Vec<Vec<Attribute>>,
}

/// The roles and groups of a token, as indices of `SourceCallers::attributes`: none, a single
/// attribute, or a pair (see [`answers`]).
pub(crate) type Attributes = Vec<usize>;

/// The callers of a kind who have a rule: everyone, or callers with any of these attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) everyone: bool,
    pub(crate) attributes: BTreeSet<usize>,
}

/// The callers whom the rules that match a request allow or deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) allow: Holders,
    pub(crate) deny: Holders,
}

impl Holders {
    pub(crate) fn add(&mut self, everyone: bool, attributes: &[usize]) {
        self.everyone |= everyone;
        self.attributes.extend(attributes);
    }

    fn include(&self, attributes: &[usize]) -> bool {
        self.everyone || attributes.iter().any(|attribute| self.attributes.contains(attribute))
    }
}

impl Effects {
    pub(crate) fn allow(&self, attributes: &[usize]) -> bool {
        self.allow.include(attributes) && !self.deny.include(attributes)
    }
}

/// Whether the old and the new policy allow a request to callers of a kind with these attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) attributes: Vec<usize>,
    pub(crate) allowed: [bool; 2],
}

impl Answer {
    /// Whether the request is granted or revoked. Only meaningful if the policies differ.
    pub(crate) const fn direction(&self) -> Direction {
        match self.allowed {
            [_, true] => Direction::Granted,
            [_, false] => Direction::Revoked,
        }
    }

    fn new(attributes: Vec<usize>, old: &Effects, new: &Effects) -> Self {
        Self { allowed: [old.allow(&attributes), new.allow(&attributes)], attributes }
    }
}

/// The answers for callers without attributes, with each attribute that has an effect, and with
/// some pairs of attributes. A pair is included if the policies differ for it, and no answer for
/// fewer attributes shows the same difference.
///
/// Larger sets are not needed. If the policies differ for a set of attributes, one policy allows
/// the request because of one attribute in the set. The other policy does not: either it has no
/// `allow` rule for this attribute, or it denies the request because of a second attribute in the
/// set.
pub(crate) fn answers(old: &Effects, new: &Effects) -> Vec<Answer> {
    let mut attributes = BTreeSet::new();
    for holders in [&old.allow, &old.deny, &new.allow, &new.deny] {
        attributes.extend(&holders.attributes);
    }
    let mut answers = vec![Answer::new(Vec::new(), old, new)];
    answers.extend(attributes.iter().map(|attribute| Answer::new(vec![*attribute], old, new)));
    let mut pairs = Vec::new();
    for (index, first) in attributes.iter().enumerate() {
        for (other, second) in attributes.iter().enumerate().skip(index + 1) {
            let pair = Answer::new(vec![*first, *second], old, new);
            // Whether the answer without attributes, or with one of the two, shows the same.
            let is_implied = [0, index + 1, other + 1].into_iter().any(|place| {
                answers.get(place).is_some_and(|answer| answer.allowed == pair.allowed)
            });
            if pair.allowed[0] != pair.allowed[1] && !is_implied {
                pairs.push(pair);
            }
        }
    }
    answers.extend(pairs);
    answers
}

#[cfg(test)]
mod tests {
    use super::{Effects, Holders, answers};

    /// Bit 0 is every caller, the others are attributes.
    fn holders(mask: usize) -> Holders {
        Holders {
            everyone: mask & 1 == 1,
            attributes: (0..3).filter(|bit| mask >> (bit + 1) & 1 == 1).collect(),
        }
    }

    /// For every meaning that three attributes can have: if the answers differ for some of them,
    /// they do so for at most two of these.
    #[test]
    fn a_difference_for_many_attributes_is_one_for_two() {
        for mask in 0_usize..65_536 {
            let part = |shift: usize| holders(mask >> shift & 15);
            let old = Effects { allow: part(0), deny: part(4) };
            let new = Effects { allow: part(8), deny: part(12) };
            let found = answers(&old, &new);
            for subset in 0_usize..8 {
                let has: Vec<usize> = (0..3).filter(|bit| subset >> bit & 1 == 1).collect();
                let allowed = [old.allow(&has), new.allow(&has)];
                let said = found.iter().any(|answer| {
                    answer.allowed == allowed
                        && answer.attributes.iter().all(|attribute| has.contains(attribute))
                });
                assert!(allowed[0] == allowed[1] || said, "{has:?}: {old:?} {new:?}: {found:?}");
            }
        }
    }
}
