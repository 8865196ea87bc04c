//! With which roles and groups of a token the answer to a request differs.
//!
//! Each name that a token can have allows a request, denies it, or means nothing to it, by each of
//! the two policies.

use std::collections::BTreeSet;

use serde::Serialize;

/// Whether callers may do more or less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// They may do what they could not do before.
    Granted,
    /// They may no longer do what they could do before.
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

/// What a token must have for a change to apply. It is about tokens that have no other role and
/// group of the policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// It has one of each list.
    pub needs: Vec<Vec<Attribute>>,
}

/// Who has the rules that match a request: every caller of a kind, and those with an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) all: bool,
    pub(crate) attributes: BTreeSet<usize>,
}

/// What the rules that match a request mean for callers of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) allow: Holders,
    pub(crate) deny: Holders,
}

impl Holders {
    pub(crate) fn add(&mut self, all: bool, attributes: &[usize]) {
        self.all |= all;
        self.attributes.extend(attributes);
    }

    fn include(&self, has: &[usize]) -> bool {
        self.all || has.iter().any(|attribute| self.attributes.contains(attribute))
    }
}

impl Effects {
    fn allow(&self, has: &[usize]) -> bool {
        self.allow.include(has) && !self.deny.include(has)
    }
}

/// Whether the old and the new policy allow a request to callers of a kind with these attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) has: Vec<usize>,
    pub(crate) allowed: [bool; 2],
}

/// The answers for no attribute and for each that means something, and for two where their answers
/// differ and those for one do not.
///
/// More need not be asked: if the answers for some attributes differ, one of them allows by one
/// policy, and by the other policy either that is not allowed for this one alone, or another one of
/// them denies it.
pub(crate) fn answers(old: &Effects, new: &Effects) -> Vec<Answer> {
    let answer = |has: Vec<usize>| Answer { allowed: [old.allow(&has), new.allow(&has)], has };
    let mut meaning = BTreeSet::new();
    for holders in [&old.allow, &old.deny, &new.allow, &new.deny] {
        meaning.extend(&holders.attributes);
    }
    let mut all = vec![answer(Vec::new())];
    all.extend(meaning.iter().map(|attribute| answer(vec![*attribute])));
    let alone = all.clone();
    for (place, one) in meaning.iter().enumerate() {
        for other in meaning.iter().skip(place + 1) {
            let both = answer(vec![*one, *other]);
            let implied = |known: &Answer| {
                known.allowed == both.allowed
                    && known.has.iter().all(|attribute| both.has.contains(attribute))
            };
            let [before, after] = both.allowed;
            if before != after && !alone.iter().any(implied) {
                all.push(both);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Effects, Holders, answers};

    /// Bit 0 is every caller, the others are attributes.
    fn holders(mask: usize) -> Holders {
        Holders {
            all: mask & 1 == 1,
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
                        && answer.has.iter().all(|attribute| has.contains(attribute))
                });
                assert!(allowed[0] == allowed[1] || said, "{has:?}: {old:?} {new:?}: {found:?}");
            }
        }
    }
}
