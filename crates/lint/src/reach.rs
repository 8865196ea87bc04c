//! Rules that no request reaches: `deny` rules for requests that nothing allows, and rules for
//! hosts that a search cluster decides about.

use document::{Problem, Warning};
use policy::model::{Effect, Policy};

use crate::overlap::{Relation, Walk, share_method_and_host};
use crate::trie::Trie;
use crate::warnings::{Budget, Steps, Warnings};

/// Warns of each `deny` rule that overlaps no `allow` rule of any role.
pub(crate) fn unmatched_denials(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut budget = Budget { total: Steps(2_000_000), max_per_rule: 2_000 };
    for deny in trie.denials() {
        let overlaps_allow = budget.spend(|steps| {
            let mut walk = Walk {
                trie,
                relation: Relation::Overlaps,
                visit: |id, _: &mut Steps| {
                    let allow = trie.rules.at(id);
                    allow.effect == Effect::Allow && share_method_and_host(deny.rule, allow.rule)
                },
                steps,
            };
            deny.rule.resources.iter().any(|pattern| walk.run(pattern))
        });
        if !overlaps_allow {
            let message = format!("`{}` denies what nothing allows", deny.rule.name);
            let help = "check its path, or leave it out";
            warnings.push(deny.warning(Warning::UnmatchedDeny, message, help));
        }
    }
}

/// The maximum number of comparisons between hosts of rules and hosts of the cluster.
const MAX_COMPARISONS: usize = 10_000_000;

/// Warns of rules that are never used, because the search cluster's own roles decide about all of
/// their hosts.
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
    let mut steps = Steps(MAX_COMPARISONS);
    for (_, _, rule, _) in policy.rules().filter(|(_, _, rule, _)| !rule.scopes.is_empty()) {
        if !steps.take(rule.scopes.len().saturating_mul(search.hosts.len())) {
            return;
        }
        if rule.scopes.iter().all(|scope| search.hosts.iter().any(|host| host.covers(scope))) {
            let message =
                format!("`{}` is never used: the search cluster decides about its host", rule.name);
            let problem = Problem::warning(rule.at.clone(), Warning::UnusedRule, message)
                .help("leave it out, or take the host out of `search`")
                .related(search.at.clone(), "the search cluster");
            warnings.push(problem);
        }
    }
}
