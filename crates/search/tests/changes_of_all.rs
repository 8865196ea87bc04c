//! With `legacy` nobody changes all indices at once, whatever roles say and whatever the cluster
//! contains.

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Need, Privileges, Reason, Verdict, read};

use crate::requests::{config, meets_requirement, request, subject};

/// Requests of a caller who may do everything, with whether they change all indices.
const REQUESTS: &[(&str, &str, &str, bool)] = &[
    ("DELETE", "/_all", "", true),
    ("DELETE", "/*", "", true),
    ("DELETE", "/_all?expand_wildcards=all", "", true),
    ("DELETE", "/*?expand_wildcards=none", "", true),
    ("PUT", "/_settings", "{}", true),
    ("PUT", "/*/_settings", "{}", true),
    ("PUT", "/*/_mapping", "{}", true),
    ("POST", "/_all/_close", "", true),
    ("POST", "/_all/_delete_by_query", "{}", true),
    ("POST", "/_all/_update_by_query", "{}", true),
    ("PUT", "/_all/_alias/x", "", true),
    ("PUT", "/_alias/x", "", true),
    ("PUT", "/_alias/x?expand_wildcards=all", r#"{"index":""}"#, true),
    ("PUT", "/a/_alias/x", r#"{"index":"_all"}"#, true),
    ("DELETE", "/_all/_alias/x", "", true),
    ("POST", "/_aliases", r#"{"actions":[{"add":{"index":"*","alias":"x"}}]}"#, true),
    (
        "POST",
        "/_aliases",
        r#"{"actions":[{"add":{"index":"a","alias":"x"}},{"remove_index":{"index":"_all"}}]}"#,
        true,
    ),
    ("POST", "/_reindex", r#"{"source":{"index":"*"},"dest":{"index":"b"}}"#, true),
    ("POST", "/_reindex", r#"{"source":{"index":["_all"]},"dest":{"index":"b"}}"#, true),
    ("DELETE", "/a*", "", false),
    ("DELETE", "/*,-b", "", false),
    ("DELETE", "/a,*", "", false),
    ("PUT", "/a/_alias/x", "", false),
    ("POST", "/_all/_open", "", false),
    ("POST", "/_all/_refresh", "", false),
    ("GET", "/_all/_search", "", false),
    ("GET", "/_search", "", false),
    ("PUT", "/a/_doc/1?pipeline=p", "{}", false),
    (
        "POST",
        "/_reindex",
        r#"{"source":{"index":"a*"},"dest":{"index":"b","pipeline":"p"}}"#,
        false,
    ),
    (
        "POST",
        "/_reindex",
        r#"{"source":{"index":"a"},"dest":{"index":"b"},"script":{"source":"x"}}"#,
        false,
    ),
];

#[test]
fn nobody_changes_all_indices_with_legacy() {
    let (config, subject) = (config(""), subject(&["all_access"]));
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        for has_inventory in [true, false] {
            let settings = EvaluationSettings {
                evaluation,
                do_not_fail_on_forbidden: true,
                do_not_fail_on_forbidden_empty: true,
                ..EvaluationSettings::default()
            };
            let inventory = has_inventory.then(|| {
                Arc::new(
                    InventoryBuilder::default()
                        .index("a", true, false)
                        .index("b", true, false)
                        .build(),
                )
            });
            let privileges = Privileges::new(config.clone(), settings.clone(), inventory.clone());
            let caller = privileges.caller(&subject);
            for (method, target, body, is_change) in REQUESTS {
                let mut needs: Vec<Need<'_>> = Vec::new();
                read(&request(method, target, body), &mut needs).unwrap();
                let answer = privileges.decide(&caller, &needs);
                let context = format!("{evaluation:?} {has_inventory} {method} {target} {body}");
                // Without an inventory, the index of the security configuration may be among any.
                let is_denied = *is_change && evaluation == EvaluationType::Legacy;
                if !(has_inventory || is_denied) {
                    continue;
                }
                let is_permitted = answer.verdict == Verdict::Permitted;
                assert_eq!(is_permitted, !is_denied, "{context} {answer:?}");
                assert!(!privileges.permits(&caller, &needs) || is_permitted, "{context}");
                if is_denied {
                    assert!(
                        answer.missing.iter().any(|one| one.reason == Reason::AllIndices),
                        "{context} {answer:?}"
                    );
                }
                let is_met = meets_requirement(&privileges, &subject, &needs);
                assert_eq!(is_met, is_permitted, "{context}");
            }
        }
    }
}
