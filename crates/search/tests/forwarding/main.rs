//! A pattern that is permitted only because of what the inventory has is forwarded as the names
//! that it stands for, so that it reaches no index that was created since.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

mod random;

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Pattern, Privileges, Verdict, read};

use crate::requests::{config, request, subject};

/// How a permitted request is forwarded; `None` if as it is.
fn forwarded(
    privileges: &Privileges,
    roles: &[&str],
    (method, target, body): (&str, &str, &str),
) -> Option<String> {
    let request = request(method, target, body);
    let mut needs = Vec::new();
    read(&request, &mut needs).unwrap();
    let callers = [privileges.caller(&subject(roles)), privileges.uncached_caller(&subject(roles))]
        .map(|caller| {
            assert_eq!(
                privileges.decide(&caller, &needs).verdict,
                Verdict::Permitted,
                "{method} {target}"
            );
            privileges.with_names_for_patterns(&caller, &request, &needs)
        });
    assert_eq!(callers[0], callers[1], "{method} {target}: with and without caches");
    callers[0].clone()
}

/// How a request of the role `names` is forwarded.
fn get(privileges: &Privileges, target: &str) -> Option<String> {
    forwarded(privileges, &["names"], ("GET", target, ""))
}

/// Everything that exists is permitted by its name, and by its prefix.
const ROLES: &str = "
names: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: [logs-1, logs-2, app], allowed_actions: ['*'] }] }
all: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
prefix: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: ['logs-*'], allowed_actions: ['*'] }] }
some: { index_permissions: [{ index_patterns: ['logs-s*'], allowed_actions: [read], dls: '{}' }] }
other: { index_permissions: [{ index_patterns: ['other'], allowed_actions: [read], dls: '{}' }] }
deleting: { cluster_permissions: ['*'], index_permissions: [{ index_patterns: ['logs-*'], allowed_actions: ['*byquery', read, 'indices:data/write/index', 'indices:data/write/bulk*', 'indices:admin/mapping/put'] }, { index_patterns: [logs-1, logs-2], allowed_actions: [delete] }] }
own: { index_permissions: [{ index_patterns: ['${user.name}*'], allowed_actions: [read] }] }
";

fn privileges(settings: EvaluationSettings) -> Privileges {
    let mut builder = InventoryBuilder::default();
    builder.index("logs-1", true, false).index("logs-2", true, false).alias("logs-now", ["logs-2"]);
    let inventory =
        builder.index(".ds-app-1", true, true).data_stream("app", [".ds-app-1"]).build();
    Privileges::new(config(ROLES), settings, Some(Arc::new(inventory)))
}

#[test]
fn a_pattern_that_no_role_covers_is_forwarded_as_names() {
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        let privileges =
            privileges(EvaluationSettings { evaluation, ..EvaluationSettings::default() });
        for (target, wanted) in [
            ("/logs-*/_search", Some("/logs-1,logs-2/_search?ignore_unavailable=true")),
            (
                "/logs-*/_search?size=1",
                Some("/logs-1,logs-2/_search?size=1&ignore_unavailable=true"),
            ),
            (
                "/logs-*/_search?ignore_unavailable=false",
                Some("/logs-1,logs-2/_search?ignore_unavailable=true"),
            ),
            ("/logs-*,-logs-1/_count/", Some("/logs-2/_count/?ignore_unavailable=true")),
            ("/_search", Some("/_search?index=app,logs-1,logs-2&ignore_unavailable=true")),
            ("/_all/_search", Some("/app,logs-1,logs-2/_search?ignore_unavailable=true")),
            ("/_search?ind%65x=l*", Some("/_search?index=logs-1,logs-2&ignore_unavailable=true")),
            ("/logs-%2A/_search", Some("/logs-1,logs-2/_search?ignore_unavailable=true")),
            ("/a*/_search?size=1;x", Some("/app/_search?size=1&x&ignore_unavailable=true")),
            // The names that it has itself must exist.
            ("/logs-1*,logs-2/_search", Some("/logs-1,logs-2/_search")),
            (
                "/logs-*/_search?expand_wildcards=open,closed",
                Some("/logs-1,logs-2/_search?expand_wildcards=open,closed"),
            ),
            // Without a pattern.
            ("/logs-1,app/_search", None),
            ("/logs-1/_doc/1", None),
            // Patterns of other names, and operations that do not take names.
            ("/_data_stream/a*", None),
            ("/_resolve/index/logs-*", None),
            ("/logs-*/_alias", None),
        ] {
            assert_eq!(get(&privileges, target).as_deref(), wanted, "{evaluation:?} {target}");
        }
    }
}

/// An alias may have a filter, which the inventory does not tell.
#[test]
fn an_alias_is_never_replaced_by_its_indices() {
    let legacy =
        EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::default() };
    let privileges = privileges(legacy);
    assert_eq!(get(&privileges, "/logs-now/_search"), None);
    assert_eq!(
        get(&privileges, "/*-now/_search").as_deref(),
        Some("/logs-now/_search?ignore_unavailable=true")
    );
    assert_eq!(
        get(&privileges, "/*-now,logs-1/_search").as_deref(),
        Some("/logs-1,logs-now/_search")
    );
}

#[test]
fn a_pattern_that_stands_for_nothing_is_forwarded_as_nothing() {
    let legacy =
        EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::default() };
    for settings in [legacy, EvaluationSettings::default()] {
        let privileges = privileges(settings);
        let nothing = Some("/*,-*/_search?ignore_unavailable=true".to_owned());
        assert_eq!(get(&privileges, "/nothing*/_search"), nothing);
    }
}

#[test]
fn a_pattern_that_roles_cover_is_forwarded_as_it_is() {
    let privileges = privileges(EvaluationSettings::default());
    for (roles, target) in [
        (&["prefix"][..], "/logs-*/_search"),
        (&["prefix"], "/logs-1*,-logs-2/_search"),
        (&["names", "prefix"], "/logs-*/_search"),
    ] {
        assert_eq!(forwarded(&privileges, roles, ("GET", target, "")), None, "{roles:?} {target}");
    }
    // A new index may be that of the results of tasks, which with `v4` is always a system index.
    let legacy =
        EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::default() };
    let legacy = self::privileges(legacy);
    for (target, with_v4) in [
        ("/_search", "/_search?index=app,logs-1,logs-2&ignore_unavailable=true"),
        ("/*/_search", "/app,logs-1,logs-2/_search?ignore_unavailable=true"),
    ] {
        assert_eq!(forwarded(&legacy, &["names", "all"], ("GET", target, "")), None, "{target}");
        let found = forwarded(&privileges, &["names", "all"], ("GET", target, ""));
        assert_eq!(found.as_deref(), Some(with_v4), "{target}");
    }
    // A new index may have documents that a role hides, or be a system index.
    let names = Some("/logs-1,logs-2/_search?ignore_unavailable=true".to_owned());
    let hiding = forwarded(&privileges, &["prefix", "some"], ("GET", "/logs-*/_search", ""));
    assert_eq!(hiding, names);
    // A new alias may be for what a role hides, whatever its name is.
    let hiding_elsewhere =
        forwarded(&privileges, &["prefix", "other"], ("GET", "/logs-*/_search", ""));
    assert_eq!(hiding_elsewhere, names);
    let system_indices = vec![Pattern::parse(&"logs-system".into()).unwrap()];
    let privileges =
        self::privileges(EvaluationSettings { system_indices, ..EvaluationSettings::default() });
    assert_eq!(forwarded(&privileges, &["prefix"], ("GET", "/logs-*/_search", "")), names);
}

/// A script may delete documents, which another permission grants than the update.
#[test]
fn what_a_body_does_to_the_indices_of_the_path_counts() {
    let privileges = privileges(EvaluationSettings::default());
    let [plain, script] = ["{}", r#"{"script": {"source": "ctx.op = 'delete'"}}"#].map(|body| {
        forwarded(&privileges, &["deleting"], ("POST", "/logs-*/_update_by_query", body))
    });
    assert_eq!(plain, None);
    assert_eq!(script.as_deref(), Some("/logs-1,logs-2/_update_by_query?ignore_unavailable=true"));
}

#[test]
fn what_names_cannot_replace_is_forwarded_as_it_is() {
    let privileges = privileges(EvaluationSettings::default());
    for (method, target, body) in [
        // A node may refuse a pattern here (`action.destructive_requires_name`), and must still see
        // it.
        ("DELETE", "/logs-*", ""),
        ("POST", "/logs-*/_close", ""),
        ("POST", "/logs-*/_open", ""),
        ("PUT", "/logs-*/_block/write", ""),
        // Names in bodies.
        ("POST", "/_msearch", "{\"index\":\"logs-*\"}\n{}\n"),
        // The body says which index is searched.
        ("POST", "/_search", r#"{"pit":{"id":"abc"}}"#),
    ] {
        let forwarded = forwarded(&privileges, &["names"], (method, target, body));
        assert_eq!(forwarded, None, "{method} {target}");
    }
}

#[test]
fn a_name_that_is_a_path_of_another_operation_is_not_forwarded() {
    let mut builder = InventoryBuilder::default();
    let inventory = Some(Arc::new(builder.index("views", true, false).build()));
    let config = config(
        "names: { index_permissions: [{ index_patterns: [views], allowed_actions: ['*'] }] }\n",
    );
    let settings = EvaluationSettings::default();
    let privileges = Privileges::new(config, settings, inventory);
    assert_eq!(get(&privileges, "/view*"), None);
    assert_eq!(
        get(&privileges, "/view*/_search").as_deref(),
        Some("/views/_search?ignore_unavailable=true")
    );
}

#[test]
fn a_path_that_a_node_would_refuse_is_not_made() {
    let mut builder = InventoryBuilder::default();
    let names: Vec<String> = (0..300).map(|number| format!("logs-{number:0>16}")).collect();
    for name in &names {
        builder.index(name, true, false);
    }
    let roles = format!(
        "names: {{ index_permissions: [{{ index_patterns: [{}], allowed_actions: [read] }}] }}\n",
        names.join(", ")
    );
    let inventory = Some(Arc::new(builder.build()));
    let settings = EvaluationSettings::default();
    let privileges = Privileges::new(config(&roles), settings, inventory);
    assert_eq!(get(&privileges, "/logs-*/_search"), None);
    let some = get(&privileges, "/logs-000000000000000*/_search").unwrap();
    assert!(some.starts_with("/logs-0000000000000000,logs-0000000000000001,"), "{some}");
}
