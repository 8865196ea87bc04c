//! An alias may get further indices after the inventory was read. A role that restricts the name of
//! the alias restricts these, too.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{Answer, EvaluationSettings, InventoryBuilder, Privileges, Reason, Subject, read};

use crate::requests::{config, request, subject};

const BOTH: [EvaluationType; 2] = [EvaluationType::Legacy, EvaluationType::V4];

const ROLES: &str = r#"
by_alias: { index_permissions: [{ index_patterns: ["al*", "st"], allowed_actions: [read, write, manage], dls: '{"term":{"team":"red"}}' }] }
by_value: { index_permissions: [{ index_patterns: ["${user.name}*"], allowed_actions: [read, write, manage], dls: '{"term":{"team":"red"}}' }] }
by_index: { index_permissions: [{ index_patterns: ["logs-*"], allowed_actions: [read, write, manage], dls: '{"term":{"team":"red"}}' }] }
free: { index_permissions: [{ index_patterns: ["logs-*", "other"], allowed_actions: ["*"] }] }
named: { index_permissions: [{ index_patterns: [all, mine, "*-*"], allowed_actions: ["*", "system:admin/system_index"] }] }
"#;

/// The answer to a request of a caller with these roles. The evaluators agree.
fn answer(
    settings: &EvaluationSettings,
    roles: &[&str],
    method: &str,
    target: &str,
    body: &str,
) -> Answer {
    let subject = Subject { name: "al".to_owned(), ..subject(roles) };
    let mut needs = Vec::new();
    read(&request(method, target, body), &mut needs).unwrap();
    let mut builder = InventoryBuilder::default();
    for index in ["logs-1", "logs-2", "other"] {
        builder.index(index, true, false);
    }
    builder.alias("all", ["logs-1", "logs-2"]).alias("mine", ["other"]);
    let inventory = Arc::new(builder.build());
    let privileges = Privileges::new(config(ROLES), settings.clone(), Some(inventory));
    privileges.decide(&privileges.caller(&subject), &needs)
}

fn settings(evaluation: EvaluationType) -> EvaluationSettings {
    let dashboards = None;
    EvaluationSettings {
        evaluation,
        hands_over_filters: true,
        dashboards,
        ..EvaluationSettings::default()
    }
}

fn filtered(settings: &EvaluationSettings, roles: &[&str], target: &str) -> Vec<String> {
    let answer = answer(settings, roles, "GET", target, "");
    assert!(answer.missing.is_empty(), "{target}: {:?}", answer.missing);
    answer.filters.into_iter().map(|filter| filter.name).collect()
}

/// Found by an attack: an index that was added to the alias since the last poll was shown as a
/// whole.
#[test]
fn what_is_hidden_is_said_for_the_name_of_an_alias_by_which_indices_are_reached() {
    for settings in BOTH.map(settings) {
        for role in ["by_alias", "by_value"] {
            for target in ["/all/_search", "/al*/_search", "/all,logs-1/_search"] {
                assert_eq!(
                    filtered(&settings, &[role], target),
                    ["all", "logs-1", "logs-2"],
                    "{settings:?} {role} {target}"
                );
            }
            // These do not reach the indices by the alias.
            assert_eq!(filtered(&settings, &[role], "/logs-1/_search"), ["logs-1"]);
            assert_eq!(filtered(&settings, &[role], "/logs-*/_search"), ["logs-1", "logs-2"]);
        }
        // Its patterns match no name of an alias: which new index they match is not known.
        assert_eq!(
            filtered(&settings, &["by_index", "named"], "/all/_search"),
            ["logs-1", "logs-2"]
        );
    }
}

/// Another role shows all of the indices that the alias has by now, but not of those that it gets.
#[test]
fn a_role_that_shows_all_of_the_indices_does_not_show_all_of_the_alias() {
    for evaluation in BOTH {
        let settings = EvaluationSettings { empty_overrides_all: true, ..settings(evaluation) };
        for target in ["/all/_search", "/al*/_search"] {
            assert_eq!(
                filtered(&settings, &["by_alias", "free"], target),
                ["all"],
                "{evaluation:?} {target}"
            );
        }
        assert_eq!(filtered(&settings, &["by_alias", "free"], "/logs-1/_search"), [""; 0]);
        assert_eq!(filtered(&settings, &["by_alias", "free"], "/_search"), [""; 0]);
    }
}

/// A rollover gives the alias to an index that the inventory does not have yet.
#[test]
fn a_caller_from_whom_something_is_hidden_rolls_no_alias_over() {
    let reasons = |settings: &EvaluationSettings, roles: &[&str], target: &str| {
        let answer = answer(settings, roles, "POST", target, "");
        answer.missing.into_iter().map(|missing| missing.reason).collect::<Vec<_>>()
    };
    for settings in BOTH.map(settings) {
        for role in ["by_alias", "by_value", "by_index"] {
            let roles = &[role, "named"];
            for target in ["/all/_rollover", "/all/_rollover/logs-3"] {
                let reasons = reasons(&settings, roles, target);
                assert!(
                    reasons.contains(&Reason::CannotFilter),
                    "{settings:?} {role} {target} {reasons:?}"
                );
            }
        }
        assert_eq!(reasons(&settings, &["named"], "/all/_rollover"), []);
        // A role hides documents of an index with the new name.
        let to_hidden = reasons(&settings, &["by_index", "named"], "/mine/_rollover/logs-3");
        assert!(to_hidden.contains(&Reason::CannotFilter), "{settings:?} {to_hidden:?}");
        let to_other = reasons(&settings, &["by_index", "named"], "/mine/_rollover/other");
        assert!(!to_other.contains(&Reason::CannotFilter), "{settings:?} {to_other:?}");
        // Where the request does not say what it is called, that may be hidden, too.
        let to_any = reasons(&settings, &["by_index", "named"], "/mine/_rollover");
        assert!(to_any.contains(&Reason::CannotFilter), "{settings:?} {to_any:?}");
    }
}
