//! Rules for hosts that a search cluster decides about.

use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::model::{Policy, Search};
use policy::pattern::Scope;

/// The maximum number of comparisons of a rule's host with one of the cluster's.
const BUDGET: usize = 10_000_000;

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
    let mut budget = BUDGET;
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
fn is_of_cluster(search: &Search, scope: &Scope) -> bool {
    search.hosts.iter().any(|host| match (host, scope) {
        (_, Scope::Exact(exact)) => host.matches(exact.as_bytes()),
        (Scope::Below(host), Scope::Below(below)) => {
            below.strip_suffix(&**host).is_some_and(|front| front.is_empty() || front.ends_with('.'))
        }
        (Scope::Exact(_), Scope::Below(_)) => false,
    })
}
