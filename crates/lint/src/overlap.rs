//! Finds the rules whose paths overlap or cover the paths of a pattern.

use policy::model::{Rule, RuleId};
use policy::pattern::{Pattern, Segment};

use crate::trie::{NodeId, Trie};
use crate::warnings::Steps;

/// How the paths of a rule relate to the paths of a pattern.
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
    /// Called for each rule, for some rules more than once. The walk ends if it returns true.
    pub(crate) visit: F,
    pub(crate) steps: &'s mut Steps,
}

impl<'p, F: FnMut(RuleId, &mut Steps) -> bool> Walk<'_, 'p, F> {
    /// Visits the related rules. True if `visit` ended the walk, or if no steps are left. A check
    /// that has no steps left gives no warning.
    pub(crate) fn run(&mut self, pattern: &'p Pattern) -> bool {
        self.walk(Trie::root(pattern), &pattern.segments, pattern.open_ended)
    }

    fn walk(&mut self, id: NodeId, segments: &'p [Segment], open_ended: bool) -> bool {
        if !self.steps.take(1) {
            return true;
        }
        let node = self.trie.node(id);
        if self.visit_all(&node.open_ended) {
            return true;
        }
        let Some((segment, further)) = segments.split_first() else {
            return match self.relation {
                Relation::Overlaps => {
                    self.visit_all(&node.exact) || open_ended && self.visit_below(id)
                }
                Relation::Covers => !open_ended && self.visit_all(&node.exact),
            };
        };
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(id, literal)
            && self.walk(next, further, open_ended)
        {
            return true;
        }
        for (other, next) in &node.non_literals {
            let is_related = match self.relation {
                Relation::Overlaps => overlap(segment, other),
                Relation::Covers => other.covers(segment),
            };
            if !self.steps.take(1) || is_related && self.walk(*next, further, open_ended) {
                return true;
            }
        }
        let overlaps_literals =
            self.relation == Relation::Overlaps && !matches!(segment, Segment::Literal(_));
        overlaps_literals
            && node.literals.iter().any(|(literal, next)| {
                !self.steps.take(1)
                    || matches_literal(segment, literal) && self.walk(*next, further, open_ended)
            })
    }

    /// Visits the rules that end at a node or anywhere below.
    fn visit_below(&mut self, id: NodeId) -> bool {
        if !self.steps.take(1) {
            return true;
        }
        let node = self.trie.node(id);
        let literals = node.literals.iter().map(|(_, next)| *next);
        let non_literals = node.non_literals.iter().map(|(_, next)| *next);
        self.visit_all(&node.open_ended)
            || self.visit_all(&node.exact)
            || literals.chain(non_literals).any(|next| self.visit_below(next))
    }

    fn visit_all(&mut self, rules: &[RuleId]) -> bool {
        rules.iter().any(|id| !self.steps.take(1) || (self.visit)(*id, self.steps))
    }
}

/// The rules whose paths overlap the paths of a rule, in order.
pub(crate) fn overlapping<'p>(trie: &Trie<'p>, rule: &'p Rule, steps: &mut Steps) -> Vec<RuleId> {
    let mut rules: Vec<RuleId> = Vec::new();
    let mut walk = Walk {
        trie,
        relation: Relation::Overlaps,
        visit: |id, _: &mut Steps| {
            rules.push(id);
            false
        },
        steps,
    };
    for pattern in &rule.resources {
        walk.run(pattern);
    }
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Whether some method and some host match both rules. Their paths are not compared.
pub(crate) fn share_method_and_host(a: &Rule, b: &Rule) -> bool {
    let mut pairs = a.scopes.iter().flat_map(|a| b.scopes.iter().map(move |b| (a, b)));
    a.actions.intersection(&b.actions).is_some()
        && (a.scopes.is_empty()
            || b.scopes.is_empty()
            || pairs.any(|(a, b)| a.intersection(b).is_some()))
}

/// Whether some segment of a path may match both. `other` is not literal. Two globs are assumed to
/// overlap.
fn overlap(segment: &Segment, other: &Segment) -> bool {
    match segment {
        Segment::Literal(literal) => matches_literal(other, literal),
        Segment::Any(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => true,
    }
}

/// Whether a segment that is not literal may match this literal. `{user}` may match any literal,
/// because a user may have any name.
fn matches_literal(segment: &Segment, literal: &str) -> bool {
    match segment {
        Segment::User | Segment::UserId(_) => !literal.is_empty(),
        segment => segment.matches(literal.as_bytes(), None),
    }
}
