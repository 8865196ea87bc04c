//! Hidden documents may be reached by names that were made after the inventory was read. These
//! names show nothing to callers from whom a role hides something.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Privileges, Verdict, read};

use crate::requests::{config, meets_requirement, request, subject};

/// `free` may do everything with every index, and `hiding` hides documents of `secret`.
const ROLES: &str = r#"
free: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
hiding: { index_permissions: [{ index_patterns: [secret], allowed_actions: ['*'], dls: '{"term":{"a":1}}' }] }
"#;

/// Whether a request is permitted to a caller with these roles, and is not forwarded with a pattern
/// that may show hidden documents. The evaluators and the requirement agree.
#[track_caller]
fn is_permitted(roles: &[&str], method: &str, target: &str, body: &str) -> bool {
    let (config, subject) = (config(ROLES), subject(roles));
    let mut needs = Vec::new();
    let request = request(method, target, body);
    read(&request, &mut needs).unwrap();
    let mut builder = InventoryBuilder::default();
    builder.index("logs", true, false).index("other", true, false).alias("al", ["other"]);
    let inventory = Arc::new(builder.build());
    let all = [
        (EvaluationType::Legacy, false),
        (EvaluationType::Legacy, true),
        (EvaluationType::V4, false),
        (EvaluationType::V4, true),
    ];
    let permitted = all.map(|(evaluation, hands_over_filters)| {
        let settings = EvaluationSettings {
            evaluation,
            hands_over_filters,
            dashboards: None,
            ..EvaluationSettings::default()
        };
        let privileges = Privileges::new(config.clone(), settings.clone(), Some(inventory.clone()));
        let caller = privileges.caller(&subject);
        let is_permitted = privileges.decide(&caller, &needs).verdict == Verdict::Permitted;
        let is_met = meets_requirement(&privileges, &subject, &needs);
        assert_eq!(is_met, is_permitted, "{method} {target} {body}");
        let is_replaced = privileges.with_names_for_patterns(&caller, &request, &needs).is_some();
        is_permitted
            && (is_replaced || privileges.missing_if_patterns_stay(&caller, &needs).is_none())
    });
    assert!(
        permitted.iter().all(|one| *one == permitted[0]),
        "{permitted:?} {method} {target} {body}"
    );
    permitted[0]
}

#[track_caller]
fn assert_denied_where_something_is_hidden(method: &str, target: &str, body: &str) {
    assert!(is_permitted(&["free"], method, target, body), "{method} {target} {body}");
    assert!(!is_permitted(&["free", "hiding"], method, target, body), "{method} {target} {body}");
}

#[track_caller]
fn assert_permitted(method: &str, target: &str, body: &str) {
    for roles in [&["free"][..], &["free", "hiding"]] {
        assert!(is_permitted(roles, method, target, body), "{roles:?} {method} {target} {body}");
    }
}

#[test]
fn a_caller_with_hidden_documents_gives_no_alias_to_indices_of_the_future() {
    let aliases = r#"{"aliases":{"al":{}}}"#;
    let in_template = r#"{"index_patterns":["x"],"template":{"aliases":{"al":{}}}}"#;
    for (method, target, body) in [
        ("POST", "/al/_rollover/logs-3", aliases),
        ("POST", "/al/_rollover/logs-2", aliases),
        ("POST", "/al/_rollover/logs-3", r#"{"\u0061liases":{"al":{}}}"#),
        ("POST", "/al/_rollover/logs-3", r#"{"aliases":{},"conditions":{},"aliases":{"al":{}}}"#),
        // An index of that name would be reached by the alias.
        ("POST", "/al/_rollover/secret", "{}"),
        ("PUT", "/_index_template/t", in_template),
        ("POST", "/_index_template/t", in_template),
        ("PUT", "/_component_template/t", in_template),
        ("PUT", "/_template/t", r#"{"index_patterns":["x"],"aliases":{"al":{}}}"#),
        ("PUT", "/logs/_clone/logs-2", aliases),
        (
            "POST",
            "/_snapshot/r/s/_restore",
            r#"{"indices":"a","include_global_state":false,"rename_pattern":"a","rename_replacement":"b"}"#,
        ),
    ] {
        // Duplicate members are no plain JSON.
        if read(&request(method, target, body), &mut Vec::new()).is_ok() {
            assert_denied_where_something_is_hidden(method, target, body);
        }
    }
    for (method, target, body) in [
        ("POST", "/al/_rollover/logs-3", "{}"),
        ("POST", "/al/_rollover/logs-3", r#"{"aliases":{},"conditions":{"max_docs":1}}"#),
        ("PUT", "/_index_template/t", r#"{"index_patterns":["x"],"template":{"settings":{}}}"#),
        ("PUT", "/_template/t", r#"{"index_patterns":["x"],"aliases":{}}"#),
        ("POST", "/_snapshot/r/s/_restore", r#"{"indices":"a","include_global_state":false}"#),
    ] {
        assert_permitted(method, target, body);
    }
}

#[test]
fn a_pattern_that_is_not_replaced_by_names_shows_nothing_hidden() {
    let found = r#"{"source":{"index":"lo*"},"dest":{"index":"copy"}}"#;
    for (method, target, body) in [
        ("POST", "/_msearch", "{\"index\":\"lo*\"}\n{}\n"),
        ("POST", "/_msearch", "{\"index\":[\"logs\",\"new*\"]}\n{}\n"),
        ("POST", "/_msearch", "{}\n{}\n"),
        ("POST", "/_reindex", found),
        ("GET", "/_cat/count/lo*", ""),
        ("GET", "/_cat/count", ""),
        ("GET", "/lo*/_search_shards", ""),
        // It reaches the alias as it is, because names would not reach the same.
        ("POST", "/a*/_update_by_query", "{}"),
    ] {
        assert_denied_where_something_is_hidden(method, target, body);
    }
    for (method, target, body) in [
        ("POST", "/_msearch", "{\"index\":\"logs\"}\n{}\n"),
        ("GET", "/_cat/count/logs", ""),
        ("GET", "/lo*/_search", ""),
        ("GET", "/_search", ""),
        ("GET", "/_cat/indices/lo*", ""),
        ("DELETE", "/lo*", ""),
    ] {
        assert_permitted(method, target, body);
    }
}
