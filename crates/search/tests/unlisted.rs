//! Aliases of which the inventory does not list all indices.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, Inventory, Privileges, Verdict, read};

use crate::requests::{config, request, subject};

const ROLES: &str = r#"
logs: { index_permissions: [{ index_patterns: ["logs-*"], allowed_actions: [read] }] }
aliases: { index_permissions: [{ index_patterns: [ghost, empty], allowed_actions: [read] }] }
halves: { index_permissions: [{ index_patterns: [half], allowed_actions: [read] }] }
"#;

const INVENTORY: &str = r#"{ "indices": [{ "name": "logs-1", "attributes": ["open"] }],
    "aliases": [
        { "name": "empty", "indices": [] },
        { "name": "ghost", "indices": ["secret-1"] },
        { "name": "half", "indices": ["logs-1", "secret-2"] } ],
    "data_streams": [] }"#;

/// Whether a request is permitted as it is.
#[track_caller]
fn is_permitted(evaluation: EvaluationType, roles: &[&str], method: &str, target: &str) -> bool {
    let mut needs = Vec::new();
    read(&request(method, target, ""), &mut needs).unwrap();
    let inventory = Arc::new(Inventory::from_resolved(INVENTORY.as_bytes()).unwrap());
    let settings =
        EvaluationSettings { evaluation, dashboards: None, ..EvaluationSettings::default() };
    let privileges = Privileges::new(config(ROLES), settings, Some(inventory));
    privileges.decide(&privileges.caller(&subject(roles)), &needs).verdict == Verdict::Permitted
}

/// Such an alias was permitted to everybody: it stood for nothing.
#[test]
fn an_alias_of_indices_that_are_not_listed_counts_by_its_own_name() {
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        for target in ["/ghost/_search", "/gh*/_search", "/empty/_search", "/em*/_search"] {
            for roles in [&[][..], &["logs"]] {
                assert!(
                    !is_permitted(evaluation, roles, "GET", target),
                    "{evaluation:?} {roles:?} {target}"
                );
            }
            assert!(
                is_permitted(evaluation, &["aliases"], "GET", target),
                "{evaluation:?} {target}"
            );
        }
    }
}

/// It was decided by those of its indices that are listed.
#[test]
fn an_alias_counts_by_all_of_its_indices() {
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        for target in [
            "/half/_search",
            "/ha*/_search",
            "/half,logs-1/_search",
            // Whether it is closed or hidden is not known.
            "/half/_search?expand_wildcards=closed",
            "/ha*/_search?expand_wildcards=closed",
            "/half,-secret*/_search",
            "/ha*,-secret*/_search",
            "/secret-2/_search",
            "/secret-2,-secret*/_search",
        ] {
            assert!(!is_permitted(evaluation, &["logs"], "GET", target), "{evaluation:?} {target}");
        }
        for target in ["/half/_search", "/ha*/_search", "/secret-2/_search", "/sec*2/_search"] {
            assert!(
                is_permitted(evaluation, &["halves"], "GET", target),
                "{evaluation:?} {target}"
            );
        }
    }
}
