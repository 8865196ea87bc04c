//! The requests of a decision log to a search cluster, for `rolegate suggest`: the actions that
//! each caller has performed on indices, and the permissions that were missing. They become no
//! rules, because the role files of the cluster decide about them.

use std::collections::{BTreeMap, BTreeSet};

use explain::OneLine;
use serde::Serialize;

use super::logged::LoggedDecision;
use crate::output::counted;

/// Maximum number of indices that are listed for the same actions.
const MAX_INDICES: usize = 8;

/// The requests to a search cluster, by caller.
#[derive(Debug, Default)]
pub(super) struct ClusterUsage {
    callers: BTreeMap<String, Requests>,
    /// Number of different actions, indices and missing permissions, for a limit on memory.
    pub(super) count: usize,
}

#[derive(Debug, Default)]
struct Requests {
    /// The indices of permitted requests, by their actions.
    used: BTreeMap<Vec<String>, BTreeSet<String>>,
    /// The missing permissions, with the number of requests.
    missing: BTreeMap<String, u64>,
}

/// The actions that a caller has performed on a search cluster, and the permissions that it lacked.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CallerOnCluster {
    user: String,
    used: Vec<Used>,
    missing: Vec<Missing>,
}

/// Actions of permitted requests, with the indices that the requests name.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Used {
    actions: Vec<String>,
    indices: Vec<String>,
    /// Number of indices that are not listed.
    more: usize,
}

/// Permissions that no role of the caller had.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Missing {
    /// Actions, each with the index or pattern and the reason.
    permissions: String,
    requests: u64,
}

impl ClusterUsage {
    /// Adds a decision that a search cluster's role files have made.
    pub(super) fn add(&mut self, decision: &LoggedDecision) {
        let requests = self.callers.entry(decision.caller()).or_default();
        if decision.is_allowed() {
            let actions = decision.outcome.actions.clone();
            let indices = requests.used.entry(actions).or_insert_with(|| {
                self.count += 1;
                BTreeSet::new()
            });
            let known = indices.len();
            indices.extend(decision.outcome.indices.iter().cloned());
            self.count += indices.len() - known;
        } else if let Some(detail) = &decision.outcome.detail {
            // If a part of the request was permitted, the detail begins with that part.
            let permissions = match detail.split_once("; ") {
                Some((permitted, missing)) if permitted.starts_with("permitted: ") => missing,
                Some(_) | None => detail.as_str(),
            };
            *requests.missing.entry(permissions.to_owned()).or_insert_with(|| {
                self.count += 1;
                0
            }) += 1;
        }
    }

    /// The callers that used or lacked permissions.
    pub(super) fn callers(self) -> Vec<CallerOnCluster> {
        let callers = self.callers.into_iter().map(|(user, Requests { used, missing })| {
            let used = used.into_iter().map(|(actions, indices)| Used {
                actions,
                more: indices.len().saturating_sub(MAX_INDICES),
                indices: indices.into_iter().take(MAX_INDICES).collect(),
            });
            let missing = missing
                .into_iter()
                .map(|(permissions, requests)| Missing { permissions, requests });
            CallerOnCluster { user, used: used.collect(), missing: missing.collect() }
        });
        callers.filter(|caller| !caller.used.is_empty() || !caller.missing.is_empty()).collect()
    }
}

/// Comments about these callers; empty if there are none.
pub(super) fn comments(callers: &[CallerOnCluster]) -> String {
    if callers.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "# The role files of the search cluster decide these requests, and no rule of a policy:\n",
    );
    for CallerOnCluster { user, used, missing } in callers {
        for Used { actions, indices, more } in used {
            let actions =
                if actions.is_empty() { "no action".to_owned() } else { actions.join(", ") };
            let on = if indices.is_empty() { "the cluster".to_owned() } else { indices.join(", ") };
            let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
            text += &comment(&format!("{user} used {actions} on {on}{more}"));
        }
        for Missing { permissions, requests } in missing {
            let requests = counted(requests, "request");
            text += &comment(&format!("{user} lacks, for {requests}: {permissions}"));
        }
    }
    if callers.iter().any(|caller| !caller.missing.is_empty()) {
        text += "# To permit what is missing, give a role of the caller the action in \
                 `roles.yml`: under `index_permissions` for an index, under \
                 `cluster_permissions` for the cluster. `rolegate explain` names the roles that \
                 have it.\n";
    }
    text
}

/// A comment on one line: names in a log may have line breaks.
fn comment(text: &str) -> String {
    format!("#   {}\n", OneLine(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_is_counted_once() {
        let line = r#"{ "decision": "allowed", "actions": ["read"], "indices": ["logs"] }"#;
        let mut usage = ClusterUsage::default();
        for _ in 0..2 {
            usage.add(&serde_json::from_str(line).unwrap());
        }
        assert_eq!(usage.count, 2);
    }
}
