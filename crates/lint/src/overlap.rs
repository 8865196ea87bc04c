//! Rules whose paths overlap: some path matches both.

use crate::trie::{NodeId, Trie};
use policy::model::{Rule, RuleId};
use policy::pattern::is_below;
use policy::pattern::{Actions, Pattern, Scope, Segment};

/// The search for rules whose paths overlap a pattern.
pub(crate) struct Search<'s, 'p, F> {
    pub(crate) trie: &'s Trie<'p>,
    /// Gets each rule, some more than once; true ends the search.
    pub(crate) found: F,
    /// The number of steps that are left.
    pub(crate) left: usize,
}

impl<'p, F: FnMut(RuleId) -> bool> Search<'_, 'p, F> {
    /// Whether `found` ended the search. If the budget is used up, it returns true, so that no warning follows.
    pub(crate) fn ends(&mut self, pattern: &'p Pattern) -> bool {
        self.walk(Trie::root(pattern), &pattern.segments, pattern.rest)
    }

    fn walk(&mut self, id: NodeId, segments: &'p [Segment], rest: bool) -> bool {
        if !self.spend(1) {
            return true;
        }
        let node = self.trie.node(id);
        if self.among(&node.rests) {
            return true;
        }
        let Some((segment, further)) = segments.split_first() else {
            return self.among(&node.ends) || rest && self.below(id);
        };
        let mut others = node.others.iter();
        if others
            .any(|(other, next)| !self.spend(1) || overlap(segment, other) && self.walk(*next, further, rest))
        {
            return true;
        }
        if let Segment::Literal(literal) = segment {
            return self.trie.literal(id, literal).is_some_and(|next| self.walk(next, further, rest));
        }
        node.literals.iter().any(|(literal, next)| {
            !self.spend(1) || matches_literal(segment, literal) && self.walk(*next, further, rest)
        })
    }

    /// Whether a rule that ends anywhere below ends the search.
    fn below(&mut self, id: NodeId) -> bool {
        if !self.spend(1) {
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
        rules.iter().any(|id| !self.spend(1) || (self.found)(*id))
    }

    fn spend(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.left > 0
    }
}

/// The rules whose paths overlap those of a rule, in order.
pub(crate) fn overlapping<'p>(trie: &Trie<'p>, rule: &'p Rule, left: &mut usize) -> Vec<RuleId> {
    let mut near: Vec<RuleId> = Vec::new();
    let mut search = Search {
        trie,
        found: |id| {
            near.push(id);
            false
        },
        left: *left,
    };
    for pattern in &rule.resources {
        search.ends(pattern);
    }
    *left = search.left;
    near.sort_unstable();
    near.dedup();
    near
}

pub(crate) fn overlap_but_for_paths(one: &Rule, other: &Rule) -> bool {
    let actions = match (&one.actions, &other.actions) {
        (Actions::Any, _) | (_, Actions::Any) => true,
        (Actions::These(one), Actions::These(other)) => one.iter().any(|action| other.contains(action)),
    };
    let scopes = one.scopes.is_empty()
        || other.scopes.is_empty()
        || one.scopes.iter().any(|one| other.scopes.iter().any(|other| overlap_scopes(one, other)));
    actions && scopes
}

fn overlap_scopes(one: &Scope, other: &Scope) -> bool {
    match (one, other) {
        (scope, Scope::Exact(exact)) | (Scope::Exact(exact), scope) => scope.matches(exact.as_bytes()),
        (Scope::Below(one), Scope::Below(other)) => {
            one == other || is_below(one, other) || is_below(other, one)
        }
    }
}

/// Whether some name matches both, where `other` is not literal. Two globs are assumed to overlap.
fn overlap(segment: &Segment, other: &Segment) -> bool {
    match segment {
        Segment::Literal(literal) => matches_literal(other, literal),
        Segment::One(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => true,
    }
}

/// Whether a segment that is not literal may match this literal. A user may have any name, so `{user}` may.
fn matches_literal(segment: &Segment, literal: &str) -> bool {
    match segment {
        Segment::User | Segment::UserId(_) => !literal.is_empty(),
        segment => segment.matches(literal.as_bytes(), None),
    }
}
