//! `deny` rules for one path that leave open what is below it: a `deny` of `/internal` where `/**` is allowed.

use crate::lint::cover::Related;
use crate::lint::reach::overlap_but_for_paths;
use crate::lint::trie::{NodeId, Ruled, Trie};
use crate::lint::warnings::Warnings;
use crate::model::{ANYONE, AUTHENTICATED, Effect, Policy, RuleId};
use crate::pattern::{Pattern, Segment};
use crate::problem::Problem;
use crate::warning::Warning;

/// The maximum number of steps for all `deny` rules together, and for each of them.
const BUDGET: usize = 2_000_000;
const BUDGET_OF_ONE: usize = 2_000;

/// Warns of each `deny` rule for exactly one path, where an `allow` rule from further above covers what is below it and
/// no other rule is about that.
pub(crate) fn open(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings<'_>) {
    let mut related = Related::new(policy);
    let mut budget = BUDGET;
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        for pattern in ruled.rule.resources.iter().filter(|pattern| is_one_path(pattern)) {
            let mut search =
                Search { trie, ruled, above: Vec::new(), is_denied: false, left: BUDGET_OF_ONE.min(budget) };
            search.walk(Trie::root(pattern), &pattern.segments);
            let (above, is_denied, mut left) = (search.above, search.is_denied, search.left);
            let allow = above.iter().map(|id| trie.rules.at(*id)).find(|allow| {
                related.find_from(ruled.role, &mut left);
                let comes_with = related.has(allow.role);
                related.find_from(allow.role, &mut left);
                comes_with || related.has(ruled.role) || [ANYONE, AUTHENTICATED].contains(&&*ruled.named.name)
            });
            budget -= BUDGET_OF_ONE.min(budget) - left;
            if let Some(allow) = allow.filter(|_| left > 0 && !is_denied) {
                warnings.push(warning(ruled, pattern, allow));
                break;
            }
        }
    }
}

fn warning(ruled: &Ruled<'_>, pattern: &Pattern, allow: &Ruled<'_>) -> Problem {
    let path: String = pattern.segments.iter().map(|segment| format!("/{segment}")).collect();
    let message =
        format!("`{}` is only this path: `{}` allows what is below it", ruled.rule.name, allow.rule.name);
    Problem::warning(ruled.rule.at.clone(), Warning::OpenBelow, message)
        .help(format!("write `{path}/**` for the path and everything below"))
        .related(allow.rule.at.clone(), format!("`{}` of the role `{}`", allow.rule.name, allow.named.name))
}

/// Whether a path ends in a name that other paths can be below: not in a slash, and not like that of a file.
fn is_one_path(pattern: &Pattern) -> bool {
    let Some(Segment::Literal(last)) = pattern.segments.last().filter(|_| pattern.absolute && !pattern.rest)
    else {
        return false;
    };
    let is_file = last.rsplit_once('.').is_some_and(|(name, end)| {
        !name.is_empty() && end.starts_with(|first: char| first.is_ascii_alphabetic())
    });
    !last.is_empty() && !is_file
}

/// The search for `allow` rules that cover a path and everything below it.
struct Search<'s, 'p> {
    trie: &'s Trie<'p>,
    ruled: &'s Ruled<'p>,
    above: Vec<RuleId>,
    /// Whether another rule is about what is below the path.
    is_denied: bool,
    left: usize,
}

impl<'p> Search<'_, 'p> {
    fn walk(&mut self, id: NodeId, segments: &'p [Segment]) {
        let node = self.trie.node(id);
        self.left = self.left.saturating_sub(1 + node.rests.len());
        if self.left == 0 {
            return;
        }
        for rest in &node.rests {
            let other = self.trie.rules.at(*rest);
            match other.effect {
                Effect::Deny => self.is_denied |= overlap_but_for_paths(other.rule, self.ruled.rule),
                // One that begins at this very path has an exception of its own for it.
                Effect::Allow if segments.is_empty() => {}
                Effect::Allow => {
                    let denied = self.ruled.rule.actions.covers(&other.rule.actions)
                        && overlap_but_for_paths(other.rule, self.ruled.rule);
                    if denied {
                        self.above.push(*rest);
                    }
                }
            }
        }
        let Some((segment, further)) = segments.split_first() else {
            self.is_denied |= !node.literals.is_empty() || !node.others.is_empty() || !node.rests.is_empty();
            return;
        };
        if let Segment::Literal(literal) = segment
            && let Some(next) = self.trie.literal(id, literal)
        {
            self.walk(next, further);
        }
        for (other, next) in &node.others {
            self.left = self.left.saturating_sub(1);
            if self.left > 0 && other.covers(segment) {
                self.walk(*next, further);
            }
        }
    }
}
