//! Rules that no request reaches: `deny` rules for what nothing allows, and rules for hosts that a search cluster decides about.

use crate::overlap::{Search, overlap_but_for_paths};
use crate::trie::{Ruled, Trie};
use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::model::{Effect, Policy, RuleId, Search as Cluster};
use policy::pattern::Scope;

/// The maximum number of steps for all `deny` rules together, and for each of them.
const BUDGET: usize = 2_000_000;
const BUDGET_OF_ONE: usize = 2_000;

/// Warns of each `deny` rule that overlaps no `allow` rule of any role.
pub(crate) fn denials(trie: &Trie<'_>, warnings: &mut Warnings<'_>) {
    let mut budget = BUDGET;
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        let found = |id: RuleId| {
            let Ruled { effect, rule, .. } = trie.rules.at(id);
            *effect == Effect::Allow && overlap_but_for_paths(ruled.rule, rule)
        };
        let mut search = Search { trie, found, left: BUDGET_OF_ONE.min(budget) };
        let met = ruled.rule.resources.iter().any(|pattern| search.ends(pattern));
        budget -= BUDGET_OF_ONE.min(budget) - search.left;
        if !met {
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
pub(crate) fn unused_rules(policy: &Policy, warnings: &mut Warnings<'_>) {
    let Some(search) = &policy.search else { return };
    if search.hosts.is_empty() {
        if policy.rules().next().is_some() {
            let message = "no rule is ever used: the search cluster decides about every host";
            let problem = Problem::warning(search.at.clone(), Warning::UnusedRule, message);
            warnings.push(problem.help("name the cluster's `hosts`"));
        }
        return;
    }
    let mut budget = BUDGET_OF_HOSTS;
    for (_, _, rule, _) in policy.rules() {
        budget = budget.saturating_sub(rule.scopes.len().saturating_mul(search.hosts.len()));
        if budget == 0 {
            return;
        }
        if !rule.scopes.is_empty() && rule.scopes.iter().all(|scope| is_of_cluster(search, scope)) {
            let message = format!("`{}` is never used: the search cluster decides about its host", rule.name);
            let problem = Problem::warning(rule.at.clone(), Warning::UnusedRule, message)
                .help("leave it out, or take the host out of `search`")
                .related(search.at.clone(), "the search cluster");
            warnings.push(problem);
        }
    }
}

/// Whether the cluster decides about all hosts of a scope.
fn is_of_cluster(cluster: &Cluster, scope: &Scope) -> bool {
    cluster.hosts.iter().any(|host| match (host, scope) {
        (_, Scope::Exact(exact)) => host.matches(exact.as_bytes()),
        (Scope::Below(host), Scope::Below(below)) => {
            below.strip_suffix(&**host).is_some_and(|front| front.is_empty() || front.ends_with('.'))
        }
        (Scope::Exact(_), Scope::Below(_)) => false,
    })
}
