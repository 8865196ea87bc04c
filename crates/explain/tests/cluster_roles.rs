//! The roles of a search cluster, with those whom they are mapped to.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;

use authorizer::Authorizer;
use explain::{ClusterRoleQuery, ClusterRoles, Explainer};

const HASH: &str = "$2b$11$ZoaBbnHvrDS4zseU06GqZujX.QEt1xyWqTmO0kWabP8jJtkkov7fW";

fn authorizer(policy: &str) -> Authorizer {
    let head =
        |kind: &str, text: &str| format!("_meta: {{ type: {kind}, config_version: 2 }}\n{text}");
    let roles = "reader: { cluster_permissions: [cluster_composite_ops_ro], index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n\
                 own: { index_permissions: [{ index_patterns: ['own-${user.name}'], allowed_actions: [crud] }] }\n\
                 masked: { index_permissions: [{ index_patterns: [red-1], allowed_actions: [read], fls: [~a] }] }\n\
                 unused: { cluster_permissions: [cluster_monitor] }\n";
    let mapping = "reader: { users: [ann], backend_roles: [dev-*], and_backend_roles: [a, b], hosts: [127.0.0.1] }\n\
                   own: { users: ['*', ann] }\nmasked: { backend_roles: [intern] }\n\
                   gone: { users: [bob] }\nreadall: { users: [bob] }\n";
    let users = format!(
        "ann: {{ hash: {HASH} }}\nbob: {{ hash: {HASH}, opendistro_security_roles: [masked] }}\n"
    );
    let files = document::MapFiles::new("policy.yaml", policy)
        .and("os/roles.yml", head("roles", roles).as_str())
        .and("os/roles_mapping.yml", head("rolesmapping", mapping).as_str())
        .and("os/internal_users.yml", head("internalusers", &users).as_str());
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn names(roles: &ClusterRoles) -> Vec<&str> {
    roles.roles.iter().map(|role| role.role.role.as_str()).collect()
}

#[test]
fn roles_are_listed_with_those_who_may_have_them() {
    let authorizer = authorizer("version: 1\nsearch: { folder: os }\n");
    let all = Explainer::new(&authorizer).cluster_roles(ClusterRoleQuery::default(), 100).unwrap();
    assert_eq!(names(&all), ["gone", "masked", "own", "readall", "reader", "unused"]);
    let of = |name: &str| all.roles.iter().find(|role| role.role.role == name).unwrap();
    assert_eq!(
        of("reader").mapped_from,
        [
            "the user `ann`",
            "the backend role `dev-*`",
            "the address `127.0.0.1`",
            "all of the backend roles `a`, `b`"
        ]
    );
    assert_eq!(of("own").mapped_from, ["everybody with valid credentials"]);
    assert_eq!(
        of("masked").mapped_from,
        ["the backend role `intern`", "the user `bob` (without a mapping)"]
    );
    assert_eq!(of("unused").mapped_from, Vec::<String>::new());
    assert!(of("gone").is_missing && !of("readall").is_missing);
    let own = of("own").role.index_permissions.first().unwrap();
    assert_eq!(own.index_patterns, ["own-${user.name}"], "variables as they are written");
    assert!(of("masked").role.index_permissions.iter().all(|permission| permission.is_restricted));
}

#[test]
fn roles_are_searched_by_user_name_and_index() {
    let authorizer = authorizer("version: 1\nsearch: { folder: os }\n");
    let asked = |of_user, name_has, on_index| {
        Explainer::new(&authorizer)
            .cluster_roles(ClusterRoleQuery { of_user, name_has, on_index }, 2)
            .unwrap()
    };
    let first = asked("", "", "");
    assert_eq!((names(&first), first.count), (vec!["gone", "masked"], 6), "at most two");
    assert_eq!(names(&asked("ann", "", "")), ["own", "reader"]);
    assert_eq!(asked("bob", "", "").count, 4);
    assert_eq!(names(&asked("", "read", "")), ["readall", "reader"]);
    assert_eq!(names(&asked("", "", "logs-1")), ["readall", "reader"]);
    assert_eq!(names(&asked("ann", "", "own-")), ["own"]);
    let unknown = asked("bobb", "", "");
    assert_eq!(unknown.notes, ["the search cluster has no user `bobb`: did you mean `bob`?"]);
    assert_eq!(unknown.count, 0);
}

#[test]
fn a_policy_without_a_search_cluster_has_none() {
    let files = document::MapFiles::new(
        "policy.yaml",
        "version: 1\nroles: { anyone: { allow: [GET /a] } }\n",
    );
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let authorizer =
        Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0;
    assert_eq!(Explainer::new(&authorizer).cluster_roles(ClusterRoleQuery::default(), 100), None);
}
