//! Rules without effect, because another rule covers everything that they match.

use crate::load::lint::Warnings;
use crate::load::lint::trie::{Ruled, Step, Trie};
use crate::model::{ANYONE, Effect, Policy, RoleId, Rule};
use crate::pattern::{Actions, Glob, Pattern, Scope, Segment, cuts_triplet};
use crate::problem::Problem;

/// The maximum number of comparisons for all rules together.
const BUDGET: usize = 4_000_000;
/// The maximum number of comparisons for one rule.
const BUDGET_OF_ONE: usize = 2_000;

/// Warns of each rule that another one makes redundant: one of the same role, of a role that it extends, or of
/// `anyone`.
pub(crate) fn useless(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings<'_>) {
    let mut kin = Kin::new(policy);
    let mut budget = BUDGET;
    for (number, ruled) in trie.rules.iter().enumerate() {
        kin.look_from(ruled.role, &mut budget);
        let mut search = Search { trie, kin: &kin, number, ruled, left: BUDGET_OF_ONE.min(budget) };
        let found = search.cover();
        budget -= BUDGET_OF_ONE.min(budget) - search.left;
        if let Some(cover) = found {
            warnings.push(warning(ruled, cover));
        }
    }
}

fn warning(ruled: &Ruled<'_>, cover: &Ruled<'_>) -> Problem {
    let (name, by) = (&ruled.rule.name, &cover.rule.name);
    let message = match (ruled.effect, cover.effect) {
        (Effect::Allow, Effect::Deny) => format!("`{name}` never allows anything: `{by}` denies all of it"),
        _ if name == by => format!("`{name}` stands there twice"),
        _ => format!("`{name}` adds nothing: `{by}` covers all of it"),
    };
    let note = format!("`{by}` of the role `{}`", cover.named.name);
    Problem::warning(ruled.rule.at.clone(), message).help("leave it out").related(cover.rule.at.clone(), note)
}

/// The roles that a caller with a given role also has.
struct Kin<'p> {
    policy: &'p Policy,
    anyone: Option<RoleId>,
    current: Option<u32>,
    /// For each role, the last role from which it was reached, plus one.
    reached_from: Vec<u32>,
    /// Which roles every caller has.
    everybody: Vec<bool>,
}

impl<'p> Kin<'p> {
    fn new(policy: &'p Policy) -> Self {
        let anyone = policy.role(ANYONE);
        let none = vec![false; policy.roles.len()];
        let mut kin =
            Self { policy, anyone, current: None, reached_from: vec![0; none.len()], everybody: none };
        if let Some(RoleId(anyone)) = anyone {
            kin.look_from(anyone, &mut BUDGET.clone());
            kin.everybody = kin.reached_from.iter().map(|from| *from == anyone + 1).collect();
        }
        kin
    }

    /// Computes the roles that come with a role.
    fn look_from(&mut self, role: u32, budget: &mut usize) {
        if self.current == Some(role) {
            return;
        }
        self.current = Some(role);
        let mut open: Vec<RoleId> = [RoleId(role)].into_iter().chain(self.anyone).collect();
        while let Some(RoleId(next)) = open.pop() {
            *budget = budget.saturating_sub(1);
            let reached = self.reached_from.get_mut(next as usize).filter(|it| **it != role + 1);
            if *budget == 0 {
                return;
            }
            if let Some(reached) = reached {
                *reached = role + 1;
                let extends = self.policy.roles.get(next as usize).map(|it| it.extends.as_slice());
                open.extend(extends.unwrap_or_default());
            }
        }
    }

    /// Whether every caller has either both roles or neither.
    fn are_equals(&self, one: u32, other: u32) -> bool {
        let everybody = |role: u32| self.everybody.get(role as usize).copied().unwrap_or(false);
        one == other || everybody(one) && everybody(other)
    }

    fn has(&self, role: u32) -> bool {
        let from = self.current.map(|current| current + 1);
        from.is_some() && self.reached_from.get(role as usize).copied() == from
    }
}

/// The search for a rule that covers a given one.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    kin: &'s Kin<'p>,
    number: usize,
    ruled: &'s Ruled<'p>,
    left: usize,
}

impl<'s, 'p> Search<'s, 'p> {
    fn cover(&mut self) -> Option<&'s Ruled<'p>> {
        let rule: &'p Rule = self.ruled.rule;
        let first: &'p Pattern = rule.resources.first()?;
        self.walk(Trie::root(first), &first.segments, first.rest)
    }

    /// Follows every segment that covers the next one.
    fn walk(&mut self, step: Step, segments: &'p [Segment], rest: bool) -> Option<&'s Ruled<'p>> {
        self.left = self.left.checked_sub(1)?;
        let node = self.trie.node(step)?;
        if let Some(found) = self.among(&node.rests) {
            return Some(found);
        }
        let Some((segment, further)) = segments.split_first() else {
            return if rest { None } else { self.among(&node.ends) };
        };
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(step, literal)
            && let Some(found) = self.walk(next, further, rest)
        {
            return Some(found);
        }
        for (other, next) in &node.others {
            self.left = self.left.checked_sub(1)?;
            if covers_segment(other, segment)
                && let Some(found) = self.walk(*next, further, rest)
            {
                return Some(found);
            }
        }
        None
    }

    fn among(&mut self, rules: &[usize]) -> Option<&'s Ruled<'p>> {
        for number in rules {
            self.left = self.left.checked_sub(1)?;
            let cover = self.trie.rules.get(*number)?;
            if *number != self.number && self.kin.has(cover.role) && self.is_cover(*number, cover) {
                return Some(cover);
            }
        }
        None
    }

    fn is_cover(&mut self, number: usize, cover: &Ruled<'_>) -> bool {
        if self.ruled.effect == Effect::Deny && cover.effect == Effect::Allow {
            return false;
        }
        if !self.covers(cover.rule, self.ruled.rule) {
            return false;
        }
        // Of two rules that cover each other, the first one is kept, or the inherited one.
        let equals = self.ruled.effect == cover.effect && self.kin.are_equals(self.ruled.role, cover.role);
        !(equals && number > self.number && self.covers(self.ruled.rule, cover.rule))
    }

    fn covers(&mut self, cover: &Rule, rule: &Rule) -> bool {
        let pairs = |cover: usize, rule: usize| cover.saturating_mul(rule);
        let resources = pairs(cover.resources.len(), rule.resources.len());
        self.left =
            self.left.saturating_sub(resources).saturating_sub(pairs(cover.scopes.len(), rule.scopes.len()));
        self.left > 0
            && covers_actions(&cover.actions, &rule.actions)
            && covers_scopes(&cover.scopes, &rule.scopes)
            && rule.resources.iter().all(|it| cover.resources.iter().any(|cover| covers_pattern(cover, it)))
    }
}

fn covers_actions(cover: &Actions, actions: &Actions) -> bool {
    match (cover, actions) {
        (Actions::Any, _) => true,
        (Actions::These(_), Actions::Any) => false,
        (Actions::These(cover), Actions::These(actions)) => actions.iter().all(|it| cover.contains(it)),
    }
}

fn covers_scopes(cover: &[Scope], scopes: &[Scope]) -> bool {
    cover.is_empty()
        || !scopes.is_empty() && scopes.iter().all(|it| cover.iter().any(|cover| covers_scope(cover, it)))
}

fn covers_scope(cover: &Scope, scope: &Scope) -> bool {
    match (cover, scope) {
        (cover, Scope::Exact(exact)) => cover.matches(exact.as_bytes()),
        (Scope::Below(cover), Scope::Below(suffix)) => cover == suffix || is_below(suffix, cover),
        (Scope::Exact(_), Scope::Below(_)) => false,
    }
}

/// Whether a host is below another.
pub(crate) fn is_below(host: &str, other: &str) -> bool {
    host.strip_suffix(other).is_some_and(|front| front.ends_with('.'))
}

fn covers_pattern(cover: &Pattern, pattern: &Pattern) -> bool {
    let (most, fewest) = (cover.segments.len(), pattern.segments.len());
    let length = if cover.rest { most <= fewest } else { most == fewest && !pattern.rest };
    let mut pairs = cover.segments.iter().zip(&pattern.segments);
    cover.absolute == pattern.absolute
        && length
        && pairs.all(|(cover, segment)| covers_segment(cover, segment))
}

fn covers_segment(cover: &Segment, segment: &Segment) -> bool {
    match (cover, segment) {
        (cover, Segment::Literal(literal)) => {
            !matches!(cover, Segment::Owner) && cover.matches(literal.as_bytes(), None)
        }
        (Segment::One(_), _) | (Segment::Owner, Segment::Owner) => true,
        (Segment::Glob(cover), Segment::Glob(glob)) => covers_glob(cover, glob),
        (Segment::Glob(cover), Segment::One(_) | Segment::Owner) => cover.0.iter().all(|it| it.is_empty()),
        (Segment::Literal(_) | Segment::Owner, _) => false,
    }
}

/// A sufficient condition, not a necessary one: equal, or one piece on each side of a single `*`.
fn covers_glob(cover: &Glob, glob: &Glob) -> bool {
    if cover == glob {
        return true;
    }
    let ([before, after], Some(first), Some(last)) = (cover.0.as_slice(), glob.0.first(), glob.0.last())
    else {
        return false;
    };
    first.starts_with(&**before) && ends_with(last, after)
}

/// Whether a piece of a glob ends in another piece. The digits of a triplet are not an end.
fn ends_with(piece: &str, end: &str) -> bool {
    let before = piece.strip_suffix(end);
    before.is_some_and(|before| !cuts_triplet(piece.as_bytes(), before.len()))
}
