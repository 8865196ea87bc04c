//! Rules whose paths overlap or cover those of a pattern.

use crate::trie::{NodeId, Trie};
use policy::model::{Rule, RuleId};
use policy::pattern::{Pattern, Segment};

/// How the paths of a rule relate to those of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Some path matches both.
    Overlaps,
    /// All paths that match the pattern match the rule.
    Covers,
}

/// A walk to the rules whose paths have a relation to a pattern.
pub(crate) struct Walk<'s, 'p, F> {
    pub(crate) trie: &'s Trie<'p>,
    pub(crate) relation: Relation,
    /// Gets each rule, some more than once; true ends the walk.
    pub(crate) found: F,
    /// The number of steps that are left.
    pub(crate) left: &'s mut usize,
}

impl<'p, F: FnMut(RuleId, &mut usize) -> bool> Walk<'_, 'p, F> {
    /// Whether `found` ended the walk, or no steps are left.
    pub(crate) fn ends(&mut self, pattern: &'p Pattern) -> bool {
        self.walk(Trie::root(pattern), &pattern.segments, pattern.rest)
    }

    fn walk(&mut self, id: NodeId, segments: &'p [Segment], rest: bool) -> bool {
        if !self.spend_one() {
            return true;
        }
        let node = self.trie.node(id);
        if self.among(&node.rests) {
            return true;
        }
        let Some((segment, further)) = segments.split_first() else {
            return match self.relation {
                Relation::Overlaps => self.among(&node.ends) || rest && self.below(id),
                Relation::Covers => !rest && self.among(&node.ends),
            };
        };
        if let Segment::Literal(literal) = segment
            && self.trie.literal(id, literal).is_some_and(|next| self.walk(next, further, rest))
        {
            return true;
        }
        for (other, next) in &node.others {
            let is_related = match self.relation {
                Relation::Overlaps => overlap(segment, other),
                Relation::Covers => other.covers(segment),
            };
            if !self.spend_one() || is_related && self.walk(*next, further, rest) {
                return true;
            }
        }
        let overlaps_literals =
            self.relation == Relation::Overlaps && !matches!(segment, Segment::Literal(_));
        overlaps_literals
            && node.literals.iter().any(|(literal, next)| {
                !self.spend_one()
                    || matches_literal(segment, literal) && self.walk(*next, further, rest)
            })
    }

    /// Whether a rule that ends anywhere below ends the walk.
    fn below(&mut self, id: NodeId) -> bool {
        if !self.spend_one() {
            return true;
        }
        let node = self.trie.node(id);
        let literals = node.literals.iter().map(|(_, next)| *next);
        let others = node.others.iter().map(|(_, next)| *next);
        self.among(&node.rests)
            || self.among(&node.ends)
            || literals.chain(others).any(|next| self.below(next))
    }

    fn among(&mut self, rules: &[RuleId]) -> bool {
        rules.iter().any(|id| !self.spend_one() || (self.found)(*id, self.left))
    }

    fn spend_one(&mut self) -> bool {
        *self.left = self.left.saturating_sub(1);
        *self.left > 0
    }
}

/// The rules whose paths overlap those of a rule, in order.
pub(crate) fn overlapping<'p>(trie: &Trie<'p>, rule: &'p Rule, left: &mut usize) -> Vec<RuleId> {
    let mut near: Vec<RuleId> = Vec::new();
    let found = |id, _: &mut usize| {
        near.push(id);
        false
    };
    let mut walk = Walk { trie, relation: Relation::Overlaps, found, left };
    for pattern in &rule.resources {
        walk.ends(pattern);
    }
    near.sort_unstable();
    near.dedup();
    near
}

/// Whether some method and some host match both rules.
pub(crate) fn overlap_but_for_paths(one: &Rule, other: &Rule) -> bool {
    let mut pairs = one.scopes.iter().flat_map(|a| other.scopes.iter().map(move |b| (a, b)));
    one.actions.intersection(&other.actions).is_some()
        && (one.scopes.is_empty()
            || other.scopes.is_empty()
            || pairs.any(|(a, b)| a.intersection(b).is_some()))
}

/// Whether some name matches both, where `other` is not literal. Two globs are assumed to overlap.
fn overlap(segment: &Segment, other: &Segment) -> bool {
    match segment {
        Segment::Literal(literal) => matches_literal(other, literal),
        Segment::One(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => true,
    }
}

/// Whether a segment that is not literal may match this literal. A user may have any name, so
/// `{user}` may.
fn matches_literal(segment: &Segment, literal: &str) -> bool {
    match segment {
        Segment::User | Segment::UserId(_) => !literal.is_empty(),
        segment => segment.matches(literal.as_bytes(), None),
    }
}
