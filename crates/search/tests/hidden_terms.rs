//! Searches that show terms of documents which a role hides.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Privileges, Reason, Verdict, read};

use crate::requests::{config, request, subject};

/// `documents` hides documents of `logs`, `fields` fields of it and `masks` masks; `all` shows all
/// of it, and `star` hides documents of every index.
const ROLES: &str = r#"
documents: { index_permissions: [{ index_patterns: [logs], allowed_actions: ['*'], dls: '{"term":{"a":1}}' }] }
fields: { index_permissions: [{ index_patterns: [logs], allowed_actions: ['*'], fls: ['~f'] }] }
masks: { index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'], masked_fields: [f] }] }
all: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: [logs, other], allowed_actions: ['*'] }] }
star: { index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'], dls: '{"term":{"a":1}}' }] }
"#;

/// Whether a request is permitted to a caller with these roles, where filters are handed over, with
/// a filter if it needs one. The evaluators agree.
#[track_caller]
fn is_permitted(
    roles: &[&str],
    empty_overrides_all: bool,
    method: &str,
    target: &str,
    body: &str,
) -> bool {
    let (config, subject) = (config(ROLES), subject(roles));
    let mut needs = Vec::new();
    read(&request(method, target, body), &mut needs).unwrap();
    let mut builder = InventoryBuilder::default();
    builder.index("logs", true, false).index("other", true, false);
    let inventory = Arc::new(builder.build());
    let [legacy, v4] = [EvaluationType::Legacy, EvaluationType::V4].map(|evaluation| {
        let settings = EvaluationSettings {
            evaluation,
            hands_over_filters: true,
            empty_overrides_all,
            dashboards: None,
            ..EvaluationSettings::default()
        };
        let privileges = Privileges::new(config.clone(), settings, Some(inventory.clone()));
        let answer = privileges.decide(&privileges.caller(&subject), &needs);
        if answer.verdict == Verdict::Denied {
            let reasons: Vec<Reason> = answer.missing.iter().map(|cell| cell.reason).collect();
            assert!(reasons.contains(&Reason::HiddenTerms), "{method} {target} {body} {reasons:?}");
        }
        answer.verdict == Verdict::Permitted
    });
    assert_eq!(legacy, v4, "{method} {target} {body}");
    legacy
}

const SHOWING: &[&str] = &[
    r#"{"profile":true}"#,
    r#"{"profile":"true"}"#,
    r#"{"\u0070rofile":true}"#,
    r#"{"profile":false,"profile":true}"#,
    r#"{"profile":true,"profile":false}"#,
    r#"{"profile":null}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":0}}}}"#,
    r#"{"aggregations":{"a":{"terms":{"min_doc_count":0,"field":"f"}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":"0"}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":0.5}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":0e1}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":-0}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":1,"min_doc_count":0}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_\u0063ount":0}}}}"#,
    r#"{"aggs":{},"aggregations":{"a":{"terms":{"field":"f","min_doc_count":0}}}}"#,
    r#"{"aggs":{"terms":{"terms":{"field":"f","min_doc_count":0}}}}"#,
    // A node takes these for members of the search.
    r#"{"query":{"function_score":{"random_score":{"z":{}}},"profile":true}}"#,
    r#"{"query":{"function_score":{"random_score":{"z":{}}},"profile":"tru\u0065"}}"#,
    r#"{"query":{"function_score":{"random_score":{"z":{}}},"aggs":{"a":{"terms":{"field":"f","min_doc_count":0}}}}}"#,
    r#"{"aggs":{"histogram":{"terms":{"field":"f"},"min_doc_count":0}}}"#,
    r#"{"aggs":{"a":{"aggs":{"b":{"terms":{"field":"f","min_doc_count":0}}},"filter":{"match_all":{}}}}}"#,
];

const OTHERS: &[&str] = &[
    "{}",
    r#"{"profile":false}"#,
    r#"{"query":{"term":{"profile":"x"}}}"#,
    r#"{"query":{"term":{"profile":{"value":"true"}}}}"#,
    r#"{"aggs":{"profile":{"terms":{"field":"min_doc_count"}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":1}}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","min_doc_count":"10"}}}}"#,
    r#"{"aggs":{"a":{"date_histogram":{"field":"f","interval":"1d","min_doc_count":0}}}}"#,
];

#[test]
fn a_search_that_shows_hidden_terms_is_denied() {
    for body in SHOWING {
        for roles in
            [&["documents"][..], &["documents", "all"], &["documents", "fields"], &["star"]]
        {
            for target in ["/logs/_search", "/logs/_search?scroll=1m", "/lo*/_search"] {
                assert!(
                    !is_permitted(roles, false, "POST", target, body),
                    "{roles:?} {target} {body}"
                );
            }
        }
        for roles in [&["fields"][..], &["masks"], &["all"]] {
            assert!(is_permitted(roles, false, "GET", "/logs/_search", body), "{roles:?} {body}");
        }
        // Nothing hides documents of this one.
        assert!(
            is_permitted(&["documents", "all"], false, "GET", "/other/_search", body),
            "{body}"
        );
    }
    for body in OTHERS {
        for roles in [&["documents"][..], &["documents", "all"], &["star"]] {
            assert!(is_permitted(roles, false, "POST", "/logs/_search", body), "{roles:?} {body}");
        }
    }
}

#[test]
fn who_is_shown_all_by_another_role_may_see_terms_where_that_prevails() {
    for body in SHOWING {
        assert!(is_permitted(&["documents", "all"], true, "GET", "/logs/_search", body), "{body}");
        // A role that hides documents of every index counts for the plugin, even if another role
        // shows all of them.
        assert!(!is_permitted(&["star", "all"], true, "GET", "/logs/_search", body), "{body}");
        assert!(is_permitted(&["masks", "all"], true, "GET", "/logs/_search", body), "{body}");
    }
}

#[test]
fn each_search_of_several_counts_for_itself() {
    let roles = &["documents", "all"];
    for body in SHOWING {
        for (index, is_wanted) in [("logs", false), ("other", true)] {
            let many = format!("{{\"index\":\"logs\"}}\n{{}}\n{{\"index\":\"{index}\"}}\n{body}\n");
            assert_eq!(is_permitted(roles, false, "POST", "/_msearch", &many), is_wanted, "{many}");
            let many = format!("{{}}\n{body}\n{{\"index\":\"logs\"}}\n{{}}\n");
            let target = format!("/{index}/_msearch");
            assert_eq!(is_permitted(roles, false, "POST", &target, &many), is_wanted, "{many}");
        }
    }
}

/// A search pipeline may ask for a `profile`.
#[test]
fn a_search_pipeline_that_may_show_hidden_terms_is_denied() {
    let pipelines = [
        (
            r#"{"request_processors":[{"script":{"source":"ctx._source['pro'+'file'] = true"}}]}"#,
            false,
        ),
        (
            r#"{"request_processors":[{"scr\u0069pt":{"source":"ctx._source['pro'+'file'] = true"}}]}"#,
            false,
        ),
        (r#"{"request_processors":[{"ml_inference":{}}]}"#, false),
        (r#"{"request_processors":[{"filter_query":{"profile":true}}]}"#, false),
        (r#""stored""#, false),
        ("1", false),
        (r#""_none""#, true),
        (r#"{"phase_results_processors":[{"normalization-processor":{}}]}"#, true),
    ];
    for (pipeline, is_wanted) in pipelines {
        let body = format!(r#"{{"search_pipeline":{pipeline}}}"#);
        assert_eq!(
            is_permitted(&["star"], false, "POST", "/logs/_search", &body),
            is_wanted,
            "{body}"
        );
        let nested = format!(
            r#"{{"query":{{"function_score":{{"random_score":{{"z":{{}}}},"search_pipeline":{pipeline}}}}}}}"#
        );
        assert_eq!(
            is_permitted(&["star"], false, "POST", "/logs/_search", &nested),
            is_wanted,
            "{nested}"
        );
    }
    assert!(!is_permitted(&["star"], false, "POST", "/logs/_search?search_pipeline=stored", ""));
    assert!(is_permitted(&["star"], false, "POST", "/logs/_search?search_pipeline=_none", ""));
    assert!(!is_permitted(
        &["star"],
        false,
        "POST",
        "/_msearch?search_pipeline=stored",
        "{\"index\":\"logs\"}\n{}\n"
    ));
}

#[test]
fn a_template_that_shows_hidden_terms_is_denied() {
    let roles = &["documents", "all"];
    let target = "/logs/_search/template";
    for body in SHOWING.iter().filter(|body| !body.contains("\\u")) {
        for body in [format!(r#"{{"source":{body}}}"#), format!(r#"{{"source":{}}}"#, quoted(body))]
        {
            assert!(!is_permitted(roles, false, "POST", target, &body), "{body}");
            assert!(is_permitted(roles, false, "POST", "/other/_search/template", &body), "{body}");
        }
    }
    for body in OTHERS {
        for body in [format!(r#"{{"source":{body}}}"#), format!(r#"{{"source":{}}}"#, quoted(body))]
        {
            assert!(is_permitted(roles, false, "POST", target, &body), "{body}");
        }
    }
    for body in [
        r#"{"source":{},"profile":true}"#,
        r#"{"source":{"profile":"{{p}}"},"params":{"p":true}}"#,
        r#"{"source":{"aggs":{"a":{"terms":{"field":"f","min_doc_count":"{{n}}"}}}},"params":{"n":0}}"#,
        r#"{"source":"{\"profile\":{{p}}}","params":{"p":true}}"#,
        r#"{"id":"stored"}"#,
    ] {
        assert!(!is_permitted(roles, false, "POST", target, body), "{body}");
    }
    let many = "{\"index\":\"logs\"}\n{\"id\":\"stored\"}\n";
    assert!(!is_permitted(roles, false, "POST", "/_msearch/template", many));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}
