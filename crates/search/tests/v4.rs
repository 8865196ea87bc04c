//! Privileges that only the evaluation `v4` asks for: `legacy` permits the same requests without.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{
    EvaluationSettings, InventoryBuilder, Privileges, Request, RequestBody, Target, Verdict, read,
};

use crate::requests::{config, meets_requirement, request, subject};

/// Whether requests are permitted to the role `r`, which has these permissions: with an inventory
/// of the indices `logs-1`, `a` and `b` and of the aliases `logs`, `logs-prod` and `prod`. Without
/// one no more is permitted. The requirement agrees.
#[track_caller]
fn is_permitted(
    permissions: &str,
    evaluation: EvaluationType,
    method: &str,
    target: &str,
    body: &str,
) -> bool {
    let (config, subject) = (config(&format!("r: {{{permissions}}}")), subject(&["r"]));
    let request = request(method, target, body);
    let mut needs = Vec::new();
    read(&request, &mut needs).unwrap();
    let mut builder = InventoryBuilder::default();
    builder.index("logs-1", true, false).index("a", true, false).index("b", true, false);
    builder.alias("logs", ["logs-1"]).alias("logs-prod", ["logs-1"]).alias("prod", ["logs-1"]);
    let mut verdicts = [Some(Arc::new(builder.build())), None].into_iter().map(|inventory| {
        let settings =
            EvaluationSettings { evaluation, dashboards: None, ..EvaluationSettings::default() };
        let privileges = Privileges::new(config.clone(), settings.clone(), inventory.clone());
        let caller = privileges.caller(&subject);
        let is_permitted = privileges.decide(&caller, &needs).verdict == Verdict::Permitted;
        assert_eq!(privileges.permits(&caller, &needs), is_permitted, "{method} {target} {body}");
        let is_met = meets_requirement(&privileges, &subject, &needs);
        assert_eq!(is_met, is_permitted, "{method} {target} {body}");
        is_permitted
    });
    let (with, without) = (verdicts.next().unwrap(), verdicts.next().unwrap());
    assert!(with || !without, "{method} {target} {body}");
    with
}

/// `legacy` permits a request in any case, and `v4` only with the second permissions.
#[track_caller]
fn assert_needs_more_in_v4(method: &str, target: &str, body: &str, [less, more]: [&str; 2]) {
    for (permissions, evaluation, wanted) in [
        (less, EvaluationType::Legacy, true),
        (more, EvaluationType::Legacy, true),
        (less, EvaluationType::V4, false),
        (more, EvaluationType::V4, true),
    ] {
        let is_permitted = is_permitted(permissions, evaluation, method, target, body);
        assert_eq!(is_permitted, wanted, "{method} {target} {body} {evaluation:?} {permissions}");
    }
}

/// Permissions on indices: patterns, and actions.
fn on(permissions: &[(&str, &str)]) -> String {
    let permission = |(patterns, actions): &(&str, &str)| {
        format!("{{index_patterns: [{patterns}], allowed_actions: [{actions}]}}")
    };
    format!(
        "index_permissions: [{}]",
        permissions.iter().map(permission).collect::<Vec<_>>().join(", ")
    )
}

#[test]
fn an_index_that_is_made_beside_the_first_needs_its_creation() {
    let resize = "'indices:admin/resize', 'indices:monitor/stats'";
    let rollover = "'indices:admin/rollover', 'indices:monitor/stats'";
    let create = "'indices:admin/create'";
    for verb in ["_clone", "_shrink", "_split"] {
        let less = on(&[("a, b", resize), ("a", create)]);
        let more = on(&[("a, b", resize), ("b", create)]);
        assert_needs_more_in_v4("PUT", &format!("/a/{verb}/b"), "", [&less, &more]);
    }
    let less = on(&[("logs, logs-x", rollover), ("logs", create)]);
    let more = on(&[("logs, logs-x", rollover), ("logs-x", create)]);
    assert_needs_more_in_v4("POST", "/logs/_rollover/logs-x", "", [&less, &more]);
    assert_needs_more_in_v4("POST", "/logs/_rollover?new_index=logs-x", "", [&less, &more]);
}

/// The name that a rollover makes follows from the one that the last index was created by, which
/// may have date math. It could even be one of a system index.
#[test]
fn a_rollover_to_a_name_that_is_not_seen_needs_the_creation_of_any() {
    let rollover = "'indices:admin/rollover', 'indices:monitor/stats'";
    let create = "'indices:admin/create'";
    for pattern in ["'logs*'", "'logs-??????'", "'/(?!secret).*/'", "'?????'"] {
        let less = on(&[("logs", rollover), (pattern, create)]);
        let without = on(&[("logs", rollover), ("'*'", create)]);
        for pattern in ["'*'", "'*-*'"] {
            let more = on(&[
                ("logs", rollover),
                (pattern, &format!("{create}, 'system:admin/system_index'")),
            ]);
            assert_needs_more_in_v4("POST", "/logs/_rollover", "", [&without, &more]);
            assert_needs_more_in_v4("POST", "/logs/_rollover", "", [&less, &more]);
            assert_needs_more_in_v4("POST", "/logs/_rollover?dry_run", "{}", [&less, &more]);
        }
    }
}

#[test]
fn the_removal_of_an_alias_needs_a_right_on_it() {
    let aliases = "'indices:admin/aliases'";
    let less = on(&[("logs-1", aliases)]);
    let more = on(&[("logs-1, prod", aliases)]);
    for target in ["/logs-1/_alias/prod", "/logs-1/_aliases/prod", "/logs-1/_alias/prod,"] {
        assert_needs_more_in_v4("DELETE", target, "", [&less, &more]);
    }
    for target in ["/logs-1/_alias/prod,logs-prod", "/logs-1/_alias/logs-prod%2Cprod"] {
        let both = on(&[("logs-1, prod, logs-prod", aliases)]);
        assert_needs_more_in_v4("DELETE", target, "", [&more, &both]);
    }
}

/// A node looks up which aliases a pattern stands for.
#[test]
fn a_pattern_of_aliases_needs_a_right_on_all_that_it_may_stand_for() {
    let aliases = "'indices:admin/aliases'";
    for (pattern, more) in [("logs-*", "'logs-*'"), ("l*s-*d", "'l*'"), ("-*", "'*'")] {
        for less in ["'logs-?'", "'l?????????'", "'logs-prod'"] {
            let [less, more] =
                [less, more].map(|names| on(&[("logs-1", aliases), (names, aliases)]));
            for body in [
                format!(r#"{{"actions":[{{"remove":{{"index":"logs-1","alias":"{pattern}"}}}}]}}"#),
                format!(
                    r#"{{"actions":[{{"remove":{{"index":"logs-1","aliases":["logs-1","{pattern}"]}}}}]}}"#
                ),
            ] {
                assert_needs_more_in_v4("POST", "/_aliases", &body, [&less, &more]);
            }
            let target = format!("/logs-1/_alias/{pattern}");
            assert_needs_more_in_v4("DELETE", &target, "", [&less, &more]);
        }
    }
}

/// One of them could be the name of the index of the security configuration, on which nobody has a
/// right.
#[test]
fn all_aliases_are_more_than_anybody_has_a_right_on() {
    let all = on(&[("'*', '_a*'", "'*'")]);
    for pattern in ["_all", "*", "*y"] {
        let body =
            format!(r#"{{"actions":[{{"remove":{{"index":"logs-1","alias":"{pattern}"}}}}]}}"#);
        let target = format!("/logs-1/_alias/{pattern}");
        for (method, target, body) in [("POST", "/_aliases", &*body), ("DELETE", &*target, "")] {
            assert!(is_permitted(&all, EvaluationType::Legacy, method, target, body), "{target}");
            assert!(!is_permitted(&all, EvaluationType::V4, method, target, body), "{target}");
        }
    }
}

#[test]
fn what_names_an_alias_to_read_it_needs_a_right_on_it() {
    let get = "'indices:admin/aliases/get'";
    let less = on(&[("logs-1", get)]);
    let more = on(&[("logs-1, prod", get)]);
    for (method, target) in [
        ("GET", "/logs-1/_alias/prod"),
        ("HEAD", "/logs-1/_alias/prod"),
        ("GET", "/logs-1/_alias?name=prod"),
        ("GET", "/logs-1/_alias/prod,logs-1"),
    ] {
        assert_needs_more_in_v4(method, target, "", [&less, &more]);
    }
    let pattern = on(&[("logs-1", get), ("'pr*'", get)]);
    assert_needs_more_in_v4(
        "GET",
        "/logs-1/_alias/p*",
        "",
        [&pattern, &on(&[("logs-1, 'p*'", get)])],
    );
    // A node takes these as if no alias were named, and shows those of permitted indices.
    for target in
        ["/logs-1/_alias", "/logs-1/_alias/*", "/logs-1/_alias/_all", "/logs-1/_alias?name=*"]
    {
        assert!(is_permitted(&less, EvaluationType::V4, "GET", target, ""), "{target}");
    }
    // But not beside others.
    assert!(!is_permitted(&less, EvaluationType::V4, "GET", "/logs-1/_alias/*,*", ""));
}

#[test]
fn a_list_of_named_aliases_needs_a_right_on_them() {
    let get = "'indices:admin/aliases/get'";
    let mut needs = Vec::new();
    for (target, wanted) in [
        ("/_cat/aliases", vec!["_all"]),
        ("/_cat/aliases/prod,p*", vec!["_all", "prod", "p*"]),
        ("/_cat/aliases?alias=prod", vec!["_all", "prod"]),
        ("/_cat/aliases/*", vec!["_all", "*"]),
    ] {
        needs.clear();
        read(&request("GET", target, ""), &mut needs).unwrap();
        let found: Vec<&str> = needs.iter().map(|need| need.target.text()).collect();
        assert_eq!(found, wanted, "{target}");
        assert!(
            needs.iter().all(|need| need.actions.iter().all(|action| get.contains(action.name())))
        );
    }
}

/// Only the cluster knows the points in time and their indices.
#[test]
fn all_points_in_time_need_rights_on_the_cluster() {
    let on_indices = on(&[("'*'", "'indices:*'")]);
    let with = |cluster: &str| format!("cluster_permissions: [{cluster}], {on_indices}");
    let [readall, segments] = [
        "'indices:data/read/point_in_time/readall'",
        "'cluster:monitor/point_in_time/segments/_all'",
    ];
    let both = format!("{readall}, {segments}");
    let pits = r#"{"pit_id":["_all"]}"#;
    for (method, target, body, less, more) in [
        ("GET", "/_search/point_in_time/_all", "", segments, readall),
        ("DELETE", "/_search/point_in_time/_all", "", segments, readall),
        ("DELETE", "/_search/point_in_time", pits, segments, readall),
        ("DELETE", "/_search/point_in_time", r#"{"pit_id":["\u005fall"]}"#, segments, readall),
        ("GET", "/_cat/pit_segments/_all", "", segments, &both),
        ("GET", "/_cat/pit_segments/_all", "", readall, &both),
        ("GET", "/_cat/pit_segments", pits, segments, &both),
        ("GET", "/_cat/pit_segments", pits, readall, &both),
        ("GET", "/_cat/pit_segments/%5fall", "", readall, &both),
    ] {
        assert_needs_more_in_v4(method, target, body, [&with(less), &with(more)]);
        assert_needs_more_in_v4(method, target, body, [&on_indices, &with(more)]);
    }
    for (method, target) in [("DELETE", "/_search/point_in_time"), ("GET", "/_cat/pit_segments")] {
        let body = r#"{"pit_id":["46ToAwMDaWR5"]}"#;
        assert!(is_permitted(&on_indices, EvaluationType::V4, method, target, body), "{target}");
        // The body is not there, or of another type.
        for request in [
            Request { body: RequestBody::Unavailable, ..request(method, target, "") },
            Request { content_type: Some("application/yaml"), ..request(method, target, body) },
            Request { content_encoding: Some("gzip"), ..request(method, target, body) },
        ] {
            let mut needs = Vec::new();
            read(&request, &mut needs).unwrap();
            assert!(needs.iter().any(|need| need.target == Target::Cluster), "{target}");
        }
    }
}
