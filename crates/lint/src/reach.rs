//! Rules that no request reaches: `deny` rules for what nothing allows, and rules for hosts that a
//! search cluster decides about.

use crate::overlap::{Relation, Walk, overlap_but_for_paths};
use crate::trie::{Ruled, Trie};
use crate::warnings::{Budget, Warnings};
use document::{Problem, Warning};
use policy::model::{Effect, Policy, RuleId};
use policy::pattern::Scope;

/// Warns of each `deny` rule that overlaps no `allow` rule of any role.
pub(crate) fn denials(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut budget = Budget::new(2_000_000, 2_000);
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        let found = |id: RuleId, _: &mut usize| {
            let Ruled { effect, rule, .. } = trie.rules.at(id);
            *effect == Effect::Allow && overlap_but_for_paths(ruled.rule, rule)
        };
        let is_met = budget.spend(|left| {
            let mut walk = Walk { trie, relation: Relation::Overlaps, found, left };
            ruled.rule.resources.iter().any(|pattern| walk.ends(pattern))
        });
        if !is_met {
            warnings.push(warning(ruled));
        }
    }
}

fn warning(ruled: &Ruled<'_>) -> Problem {
    let message = format!("`{}` denies what nothing allows", ruled.rule.name);
    Problem::warning(ruled.rule.at.clone(), Warning::UnmatchedDeny, message)
        .help("check its path, or leave it out")
}

/// The maximum number of comparisons of a rule's host with one of the cluster's.
const BUDGET_OF_HOSTS: usize = 10_000_000;

/// Warns of rules that are never used, because the roles of the search cluster decide.
pub(crate) fn unused_rules(policy: &Policy, warnings: &mut Warnings) {
    let Some(search) = &policy.search else { return };
    if search.hosts.is_empty() {
        if policy.rules().next().is_some() {
            let message = "no rule is ever used: the search cluster decides about every host";
            let problem = Problem::warning(search.at.clone(), Warning::UnusedRule, message);
            warnings.push(problem.help("name the cluster's `hosts`"));
        }
        return;
    }
    let is_of_cluster = |scope: &Scope| search.hosts.iter().any(|host| host.covers(scope));
    let mut budget = BUDGET_OF_HOSTS;
    for (_, _, rule, _) in policy.rules() {
        budget = budget.saturating_sub(rule.scopes.len().saturating_mul(search.hosts.len()));
        if budget == 0 {
            return;
        }
        if !rule.scopes.is_empty() && rule.scopes.iter().all(is_of_cluster) {
            let message =
                format!("`{}` is never used: the search cluster decides about its host", rule.name);
            let problem = Problem::warning(rule.at.clone(), Warning::UnusedRule, message)
                .help("leave it out, or take the host out of `search`")
                .related(search.at.clone(), "the search cluster");
            warnings.push(problem);
        }
    }
}
