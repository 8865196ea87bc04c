//! Rules without effect, because another rule covers everything that they match.

use crate::related::Related;
use crate::trie::{NodeId, Ruled, Trie};
use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::model::{Effect, Policy, Rule, RuleId};
use policy::pattern::{Pattern, Scope, Segment};

/// The maximum number of comparisons for all rules together.
const BUDGET: usize = 4_000_000;
/// The maximum number of comparisons for one rule.
const BUDGET_OF_ONE: usize = 2_000;

/// Warns of each rule that another one makes redundant: one of the same role, of a role that it extends, or of
/// `anyone` or `authenticated`.
pub(crate) fn useless(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings<'_>) {
    let mut related = Related::new(policy);
    let mut budget = BUDGET;
    let has_denials = trie.rules.entries().any(|(_, ruled)| ruled.effect == Effect::Deny);
    for (id, ruled) in trie.rules.entries() {
        related.find_from(ruled.role, &mut budget);
        let mut find = |only: Option<Effect>| {
            let mut search =
                Search { trie, related: &related, id, ruled, only, left: BUDGET_OF_ONE.min(budget) };
            let found = search.cover();
            budget -= BUDGET_OF_ONE.min(budget) - search.left;
            found
        };
        if let Some(cover) = find(None) {
            // What is denied is not allowed by another rule either: that says more than that the rule is not needed.
            let may_be_denied = has_denials && (ruled.effect, cover.effect) == (Effect::Allow, Effect::Allow);
            let denied = may_be_denied.then(|| find(Some(Effect::Deny))).flatten();
            warnings.push(warning(ruled, denied.unwrap_or(cover)));
        }
    }
}

fn warning(ruled: &Ruled<'_>, cover: &Ruled<'_>) -> Problem {
    let (name, by, of) = (&ruled.rule.name, &cover.rule.name, &cover.named.name);
    let (kind, message, help) = match (ruled.effect, cover.effect) {
        (Effect::Allow, Effect::Deny) => (
            Warning::DeniedRule,
            format!("`{name}` never allows anything: `{by}` of `{of}` denies all of it"),
            "a `deny` wins over every `allow` that a caller has: leave one of them out, or move the `deny` to the \
             role whose `allow` is wider",
        ),
        _ => (
            Warning::RedundantRule,
            format!("`{name}` adds nothing: `{by}` covers all of it"),
            "leave it out",
        ),
    };
    let note = format!("`{by}` of the role `{of}`");
    Problem::warning(ruled.rule.at.clone(), kind, message).help(help).related(cover.rule.at.clone(), note)
}

/// The search for a rule that covers a given one.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    related: &'s Related<'p>,
    id: RuleId,
    ruled: &'s Ruled<'p>,
    /// Which rules count; `None` means all.
    only: Option<Effect>,
    left: usize,
}

impl<'s, 'p> Search<'s, 'p> {
    fn cover(&mut self) -> Option<&'s Ruled<'p>> {
        let rule: &'p Rule = self.ruled.rule;
        let first: &'p Pattern = rule.resources.first()?;
        self.walk(Trie::root(first), &first.segments, first.rest)
    }

    /// Follows every segment that covers the next one.
    fn walk(&mut self, node: NodeId, segments: &'p [Segment], rest: bool) -> Option<&'s Ruled<'p>> {
        self.left = self.left.checked_sub(1)?;
        let edges = self.trie.node(node);
        if let Some(found) = self.among(&edges.rests) {
            return Some(found);
        }
        let Some((segment, further)) = segments.split_first() else {
            return if rest { None } else { self.among(&edges.ends) };
        };
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(node, literal)
            && let Some(found) = self.walk(next, further, rest)
        {
            return Some(found);
        }
        for (other, next) in &edges.others {
            self.left = self.left.checked_sub(1)?;
            if other.covers(segment)
                && let Some(found) = self.walk(*next, further, rest)
            {
                return Some(found);
            }
        }
        None
    }

    fn among(&mut self, rules: &[RuleId]) -> Option<&'s Ruled<'p>> {
        for id in rules {
            self.left = self.left.checked_sub(1)?;
            let cover = self.trie.rules.at(*id);
            let counts = *id != self.id && self.only.is_none_or(|only| only == cover.effect);
            if counts && self.related.has(cover.role) && self.is_cover(*id, cover) {
                return Some(cover);
            }
        }
        None
    }

    fn is_cover(&mut self, id: RuleId, cover: &Ruled<'_>) -> bool {
        if self.ruled.effect == Effect::Deny && cover.effect == Effect::Allow {
            return false;
        }
        if !self.covers(cover.rule, self.ruled.rule) {
            return false;
        }
        // Of two rules that cover each other, the first one is kept, or the inherited one.
        let equals =
            self.ruled.effect == cover.effect && self.related.are_equals(self.ruled.role, cover.role);
        !(equals && id > self.id && self.covers(self.ruled.rule, cover.rule))
    }

    fn covers(&mut self, cover: &Rule, rule: &Rule) -> bool {
        let pairs = |cover: usize, rule: usize| cover.saturating_mul(rule);
        let resources = pairs(cover.resources.len(), rule.resources.len());
        self.left =
            self.left.saturating_sub(resources).saturating_sub(pairs(cover.scopes.len(), rule.scopes.len()));
        self.left > 0
            && cover.actions.covers(&rule.actions)
            && covers_scopes(&cover.scopes, &rule.scopes)
            && rule.resources.iter().all(|pattern| cover.resources.iter().any(|cover| cover.covers(pattern)))
    }
}

pub(crate) fn covers_scopes(cover: &[Scope], scopes: &[Scope]) -> bool {
    cover.is_empty()
        || !scopes.is_empty() && scopes.iter().all(|scope| cover.iter().any(|cover| cover.covers(scope)))
}
