//! What a request to the search cluster needs, for an explanation.

use std::collections::HashSet;

use search::{Need, Privileges, Target};

use super::ExplainedNeed;

/// The most names that a pattern or an alias is said to stand for.
const MOST_NAMES: usize = 5;

/// The needs of a request that count, without duplicates.
pub(super) fn explained_needs(privileges: &Privileges, needs: &[Need<'_>]) -> Vec<ExplainedNeed> {
    let mut explained = Vec::new();
    // A request may have 50,000 needs, and may name the same list in thousands of them: it is
    // looked up once.
    let (mut found, mut listed) = (HashSet::new(), HashSet::new());
    let counting = needs.iter().filter(|need| search::explain::counts(privileges, need));
    for need in counting.filter(|need| found.insert((need.actions, &need.target))) {
        let on = need.target.text();
        let names = search::explain::names_of(privileges, &need.target);
        let parts: HashSet<&str> = on.split(',').collect();
        let stands_for =
            if names.iter().all(|name| parts.contains(name)) { Vec::new() } else { names };
        let one = ExplainedNeed {
            actions: need.actions.iter().map(|action| action.name()).collect(),
            on: on.to_owned(),
            target: match need.target {
                Target::Cluster => "cluster",
                Target::Name(_) => "index",
                // It is made beside another one, whether its name is free or not.
                Target::AddedName(_) if is_made(need) => "index",
                Target::Indices(_) | Target::Fixed(_) => "indices",
                Target::Missing(_) => "new_index",
                Target::AddedName(_) => "new_alias",
            },
            stands_for: stands_for.iter().take(MOST_NAMES).map(ToString::to_string).collect(),
            stands_for_more: stands_for.len().saturating_sub(MOST_NAMES),
        };
        // Several targets may be listed in the same words.
        if listed.insert(one.clone()) {
            explained.push(one);
        }
    }
    explained
}

/// Whether a need is that an index is created.
fn is_made(need: &Need<'_>) -> bool {
    need.actions.iter().all(|action| action.name() == "indices:admin/create")
}
