//! Tests of reading a security configuration.

use document::MapFiles;

use super::*;

const ROLES: &str = r#"_meta: { type: roles, config_version: 2 }
reader:
  reserved: false
  description: reads logs
  cluster_permissions: [cluster_composite_ops_ro]
  index_permissions:
    - index_patterns: ["logs-*", "${user.name}-*", "/team-[0-9]+/"]
      dls: '{"term": {"owner": "${user.name}"}}'
      fls: ["~secret"]
      masked_fields: [name]
      allowed_actions: [read]
  tenant_permissions:
    - tenant_patterns: [one]
      allowed_actions: [kibana_all_read]
empty: {}
"#;

fn folder(roles: &str) -> MapFiles {
    MapFiles::new("os/roles.yml", roles)
}

fn load(files: &MapFiles) -> Result<Loaded, Vec<String>> {
    SecurityConfig::load(files, Path::new("os"))
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn warnings(files: &MapFiles) -> Vec<String> {
    load(files).unwrap().warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn all_fields_are_read() {
    let files = folder(ROLES)
        .and(
            "os/roles_mapping.yml",
            "_meta: { type: rolesmapping, config_version: 2 }\nreader: { users: [ann, 'b*'], backend_roles: [r], \
             and_backend_roles: [x, y], hosts: ['10.*'] }\nempty: { users: [x] }\n",
        )
        .and(
            "os/internal_users.yml",
            "_meta: { type: internalusers, config_version: 2 }\nann:\n  hash: $2y$12$x\n  backend_roles: [r]\n  \
             attributes: { dept: 7 }\n  opendistro_security_roles: [reader]\nbot: { hash: a, service: true }\n\
             gone: { hash: b, enabled: false }\n",
        )
        .and(
            "os/action_groups.yml",
            "_meta: { type: actiongroups, config_version: 2 }\nmine: { type: index, allowed_actions: [read, 'indices:x'] }\n",
        )
        .and("os/tenants.yml", "_meta: { type: tenants, config_version: 2 }\none: { description: a tenant }\n")
        .and(
            "os/config.yml",
            "_meta: { type: config, config_version: 2 }\nconfig: { dynamic: { do_not_fail_on_forbidden: true, \
             privileges_evaluation_type: v4, authc: { a: {} } } }\n",
        );
    let loaded = load(&files).unwrap();
    // The two settings of `config.yml`.
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert_eq!(loaded.sources.len(), 6);
    let config = loaded.config;
    assert_eq!(config.roles.len(), 8 + 2);
    let permission = &config.roles.get("reader").unwrap().index_permissions[0];
    assert_eq!(permission.patterns.len(), 3);
    assert!(matches!(permission.patterns[1], IndexPattern::Template(_)));
    assert!(permission.document_query.is_some());
    assert_eq!(permission.fields, ["~secret".into()]);
    assert_eq!(permission.masked_fields, ["name".into()]);
    let mapping = &config.mappings[0];
    assert_eq!(
        (mapping.users.len(), mapping.and_backend_roles.len(), mapping.hosts.len()),
        (2, 2, 1)
    );
    assert_eq!(config.users[0].attributes.get("dept").map(|value| &**value), Some("7"));
    assert_eq!(
        config.users.iter().map(|user| user.hash.is_some()).collect::<Vec<_>>(),
        [true, true, false]
    );
    assert!(config.users[1].is_service);
    assert_eq!(config.action_groups.names().count(), 27);
    assert_eq!(config.tenants, ["one".into()]);
    assert!(config.settings.do_not_fail_on_forbidden);
    assert_eq!(config.settings.evaluation, EvaluationType::V4);
}

#[test]
fn problems_have_their_places() {
    let meta = "_meta: { type: roles, config_version: 2 }\n";
    for (text, expected) in [
        ("a: { cluster_permission: [x] }", "os/roles.yml:2:6: error: unknown key"),
        (
            "a: { index_permissions: [{ index_patterns: ['/a(?<=b)/'] }] }",
            "os/roles.yml:2:48: error: of the groups",
        ),
        (
            "a: { index_permissions: [{ index_patterns: ['a${b'] }] }",
            "os/roles.yml:2:47: error: `${` is not closed",
        ),
        (
            "a: { index_permissions: [{ index_patterns: ['<a-{now}>'] }] }",
            "os/roles.yml:2:45: error: date math",
        ),
        (
            "a: { index_permissions: [{ index_patterns: ['/${user.name}/'] }] }",
            "os/roles.yml:2:45: error: variables",
        ),
        (
            "a: { index_permissions: [{ dls: '{' }] }",
            "os/roles.yml:2:33: error: `dls` must be a query",
        ),
        (
            "a: { cluster_permissions: read }",
            "os/roles.yml:2:27: error: `cluster_permissions` must be a list",
        ),
    ] {
        let problems = load(&folder(&format!("{meta}{text}\n"))).unwrap_err();
        assert!(problems[0].starts_with(expected), "{problems:?}");
    }
    assert!(load(&folder("a: {}\n")).unwrap_err()[0].contains("has no `_meta`"));
    assert!(
        load(&folder("_meta: { type: x, config_version: 2 }\n")).unwrap_err()[0]
            .contains("not `roles`")
    );
    assert!(
        load(&MapFiles::new("os/other", "")).unwrap_err()[0]
            .contains("the folder has no `roles.yml`")
    );
}

#[test]
fn an_unknown_key_is_named_with_what_was_meant_or_what_is_known() {
    let notes = "`reserved`, `hidden`, `static` and `description`";
    for (file, kind, text, problem, help) in [
        (
            "roles.yml",
            "roles",
            "a: { cluster_permission: [x] }",
            "2:6: error: unknown key `cluster_permission`",
            "did you mean `cluster_permissions`?".to_owned(),
        ),
        (
            "roles.yml",
            "roles",
            "a: { something: [x] }",
            "2:6: error: unknown key `something`",
            format!(
                "a role of the cluster has `cluster_permissions`, `index_permissions`, `tenant_permissions`, {notes}"
            ),
        ),
        // Roles of a policy have other keys.
        (
            "roles.yml",
            "roles",
            "a: { permissions: [x] }",
            "2:6: error: unknown key `permissions`",
            format!(
                "a role of the cluster has `cluster_permissions`, `index_permissions`, `tenant_permissions`, {notes}"
            ),
        ),
        (
            "roles.yml",
            "roles",
            "a: { index_permissions: [{ names: [x] }] }",
            "2:28: error: unknown key `names`",
            "did you mean `index_patterns`?".to_owned(),
        ),
        (
            "roles.yml",
            "roles",
            "a: { tenant_permissions: [{ tenants: [x] }] }",
            "2:29: error: unknown key `tenants`",
            "each of `tenant_permissions` has `tenant_patterns` and `allowed_actions`".to_owned(),
        ),
        (
            "roles_mapping.yml",
            "rolesmapping",
            "reader: { user: [x] }",
            "2:11: error: unknown key `user`",
            "did you mean `users`?".to_owned(),
        ),
        (
            "action_groups.yml",
            "actiongroups",
            "a: { actions: [x] }",
            "2:6: error: unknown key `actions`",
            "did you mean `allowed_actions`?".to_owned(),
        ),
        (
            "tenants.yml",
            "tenants",
            "a: { name: x }",
            "2:6: error: unknown key `name`",
            format!("a tenant has {notes}"),
        ),
        // It may be a misplaced secret.
        (
            "internal_users.yml",
            "internalusers",
            "a: { hash: $2y$12$x, password: x }",
            "2:22: error: unknown key",
            "did you mean `hash`?".to_owned(),
        ),
        (
            "internal_users.yml",
            "internalusers",
            "a: { hunter2 }",
            "2:6: error: unknown key",
            format!(
                "a user of the cluster has `hash`, `backend_roles`, `attributes`, `opendistro_security_roles`, \
                 `enabled`, `service`, {notes}"
            ),
        ),
        (
            "config.yml",
            "config",
            "conf: {}",
            "2:1: error: unknown key `conf`",
            "the file has `_meta` and `config`".to_owned(),
        ),
        (
            "config.yml",
            "config",
            "config: { dynamic: { do_not_fail_on_forbiden: true } }",
            "2:22: error: unknown key `do_not_fail_on_forbiden`",
            "did you mean `do_not_fail_on_forbidden`?".to_owned(),
        ),
    ] {
        let path = format!("os/{file}");
        let text = format!("_meta: {{ type: {kind}, config_version: 2 }}\n{text}\n");
        let files = if file == "roles.yml" {
            folder(&text)
        } else {
            folder(ROLES).and(&path, text.as_str())
        };
        assert_eq!(load(&files).unwrap_err(), [format!("{path}:{problem}\n    help: {help}")]);
    }
}

#[test]
fn what_is_not_used_is_a_warning() {
    let meta = "_meta: { type: roles, config_version: 2 }\n";
    let found = warnings(&folder(&format!("{meta}readall: {{ cluster_permissions: ['*'] }}\n")));
    assert!(found[1].contains("is a built-in role"), "{found:?}");
    let found =
        warnings(&folder(&format!("{meta}a: {{ cluster_permissions: [cluster_montor] }}\n")));
    assert!(found[1].contains("did you mean `cluster_monitor`?"), "{found:?}");
    let mapping = "_meta: { type: rolesmapping, config_version: 2 }\nreadr: { users: [x] }\n";
    let found = warnings(&folder(ROLES).and("os/roles_mapping.yml", mapping));
    assert!(found.iter().any(|one| one.contains("did you mean `reader`?")), "{found:?}");
    let anonymous = "_meta: { type: config, config_version: 2 }\nconfig: { dynamic: { http: { anonymous_auth_enabled: true } } }\n";
    let found = warnings(&folder(ROLES).and("os/config.yml", anonymous));
    assert!(found[0].contains("warning[unsupported-setting]"), "{found:?}");
    let both = "_meta: { type: config, config_version: 2 }\nconfig: { dynamic: { do_not_fail_on_forbidden: true, privileges_evaluation_type: v4 } }\n";
    let found = warnings(&folder(ROLES).and("os/config.yml", both));
    assert!(
        found[0].starts_with("os/config.yml:2:22: warning[unsupported-setting]: `do_not_fail"),
        "{found:?}"
    );
}

/// The plugin accepts both. An unknown name grants nothing, and groups in a circle have the actions
/// of all of them.
#[test]
fn action_groups_that_are_unknown_or_contain_each_other_are_a_warning() {
    let groups = "_meta: { type: actiongroups, config_version: 2 }\nown: { allowed_actions: [raed, mine, 'indices:a'] }\n\
                  mine: { allowed_actions: [read] }\na: { allowed_actions: ['indices:a', b] }\n\
                  b: { allowed_actions: [mine, c] }\nc: { allowed_actions: [a, d] }\nd: { allowed_actions: [own] }\n\
                  self: { allowed_actions: [write, self] }\nread: { static: true, allowed_actions: [nothing] }\n";
    let files = folder(ROLES).and("os/action_groups.yml", groups);
    assert_eq!(
        warnings(&files)[..5],
        [
            "os/action_groups.yml:2:26: warning[unknown-name]: there is no action group `raed`\n    help: did you mean `read`?",
            "os/action_groups.yml:4:37: warning[circular-group]: the action group `a` contains itself by way of `b`: \
             both have the same actions\n    help: leave out the member `b`",
            "os/action_groups.yml:5:30: warning[circular-group]: the action group `b` contains itself by way of `c`: \
             both have the same actions\n    help: leave out the member `c`",
            "os/action_groups.yml:6:24: warning[circular-group]: the action group `c` contains itself by way of `a`: \
             both have the same actions\n    help: leave out the member `a`",
            "os/action_groups.yml:8:34: warning[circular-group]: the action group `self` contains itself\n    help: leave out the member `self`",
        ]
    );
    let loaded = load(&files).unwrap().config.action_groups;
    for name in ["a", "b", "c"] {
        assert!(
            loaded.has_member(name, "indices:data/read*") && loaded.has_member(name, "indices:a")
        );
        assert!(!loaded.has_member(name, "indices:data/write*"));
    }
}

/// Each group is in the one before it: a file of 70 KB has two million members, which are not
/// stored.
#[test]
fn a_long_chain_of_action_groups_is_read() {
    let mut groups = "_meta: { type: actiongroups, config_version: 2 }\n".to_owned();
    for number in 0..2_000 {
        let next = number + 1;
        groups.push_str(&format!(
            "g{number:04}: {{ allowed_actions: [g{next:04}, 'indices:x{number}'] }}\n"
        ));
    }
    let loaded = load(&folder(ROLES).and("os/action_groups.yml", groups)).unwrap();
    assert!(loaded.config.action_groups.has_member("g0000", "indices:x1999"));
}

/// Similar names are searched for until that takes too long.
#[test]
fn very_many_misspelt_action_groups_are_a_warning_each() {
    let name =
        |start: &str, number: usize| format!("{start}-{}-{number:03}", "of-a-long-name".repeat(14));
    let mut groups = "_meta: { type: actiongroups, config_version: 2 }\n".to_owned();
    (0..900).for_each(|number| {
        groups.push_str(&format!("{}: {{ allowed_actions: [read] }}\n", name("known", number)))
    });
    let misspelt: Vec<String> = (0..900).map(|number| name("knwon", number)).collect();
    let roles = format!(
        "_meta: {{ type: roles, config_version: 2 }}\nr: {{ cluster_permissions: [{}] }}\n",
        misspelt.join(", ")
    );
    let warnings = warnings(&folder(&roles).and("os/action_groups.yml", groups));
    let unknown = warnings.iter().filter(|text| text.contains("there is no action group"));
    assert_eq!(unknown.clone().count(), 900);
    let meant = unknown.filter(|text| text.contains("did you mean")).count();
    assert!((1..10).contains(&meant), "{meant}");
}

#[test]
fn unknown_action_groups_of_tenants_and_unknown_roles_of_users_are_a_warning() {
    let roles = "_meta: { type: roles, config_version: 2 }\nreader: { tenant_permissions: [{ tenant_patterns: [a], \
                 allowed_actions: [kibana_all_raed] }] }\n";
    let users = "_meta: { type: internalusers, config_version: 2 }\n\
                 ann: { hash: $2y$12$x, opendistro_security_roles: [reader, readr, readall] }\n";
    let mapping = "_meta: { type: rolesmapping, config_version: 2 }\n";
    let files =
        folder(roles).and("os/internal_users.yml", users).and("os/roles_mapping.yml", mapping);
    assert_eq!(
        warnings(&files),
        [
            "os/internal_users.yml:2:60: warning[unknown-name]: there is no role `readr`\n    help: did you mean `reader`?",
            "os/roles.yml:2:74: warning[unknown-name]: there is no action group `kibana_all_raed`\n    help: did you mean \
             `kibana_all_read`?",
        ]
    );
}

#[test]
fn hashes_that_the_plugin_does_not_verify_by_default_are_one_warning() {
    let users = |hashes: &[&str]| {
        let mut text = "_meta: { type: internalusers, config_version: 2 }\n".to_owned();
        for (number, hash) in hashes.iter().enumerate() {
            text += &format!(
                "user{number}: {{ hash: '{hash}', opendistro_security_roles: [reader] }}\n"
            );
        }
        text += "disabled: { hash: '$argon2id$x', enabled: false }\n";
        let meta = "_meta: { type: rolesmapping, config_version: 2 }\nempty: { users: [a] }\n";
        warnings(
            &folder(ROLES)
                .and("os/internal_users.yml", text.as_str())
                .and("os/roles_mapping.yml", meta),
        )
    };
    assert_eq!(users(&["$2a$10$a", "$2b$10$a", "$2y$12$secret"]), [""; 0]);
    let help = "hash them anew with `rolegate hash-password --algorithm bcrypt`, or set \
                `plugins.security.password.hashing.algorithm` in the cluster's `opensearch.yml`, which holds for all users";
    assert_eq!(
        users(&["$2y$12$secret", "$argon2id$v=19$secret"]),
        [format!(
            "os/internal_users.yml:3:1: warning[hash-algorithm]: by default the security plugin verifies only bcrypt hashes: \
             `user1` cannot sign in to the cluster itself\n    help: {help}"
        )]
    );
    let all = [
        "$3$1$secret$x",
        "$pbkdf2-sha512$secret",
        "$6$secret$x",
        "$5$secret$x",
        "$5$12$secret$x",
        "{SHA}secret",
    ];
    assert_eq!(
        users(&all)[0].lines().next().unwrap(),
        "os/internal_users.yml:2:1: warning[hash-algorithm]: by default the security plugin verifies only bcrypt hashes: \
         `user0`, `user1`, `user2`, `user3`, `user4` and `user5` \
         cannot sign in to the cluster itself"
    );
    let many = users(&["$argon2id$secret"; 12]);
    assert!(many[0].contains("`user9` and 2 more cannot sign in"), "{many:?}");
}

#[test]
fn who_and_what_nobody_has_is_a_warning() {
    let first_lines = |files: &MapFiles| -> Vec<String> {
        warnings(files).iter().filter_map(|text| text.lines().next().map(str::to_owned)).collect()
    };
    let roles = "_meta: { type: roles, config_version: 2 }\nmapped: {}\ndirect: {}\nunmapped: {}\nnobody: {}\n\
                 exported: { reserved: true }\nreadall: { static: true }\n\
                 variables: { index_permissions: [{ index_patterns: ['${attr.ldap.x}-*', '${user.name}', '${attr.ldap.y:-z}', \
                 'a-${usr.name}', '${attr.jwt.a}-${attr_internal_b}'], dls: '{\"term\": {\"a\": \"${attr.proxy.z}\"}}' }] }\n";
    let mapping = "_meta: { type: rolesmapping, config_version: 2 }\nmapped: { backend_roles: [a] }\nvariables: { users: [a] }\n\
                   nobody: { users: [] }\n";
    let users = "_meta: { type: internalusers, config_version: 2 }\nann: { hash: a, opendistro_security_roles: [direct] }\n\
                 bob: { backend_roles: [a] }\ncarl: { enabled: false }\n";
    let files =
        folder(roles).and("os/roles_mapping.yml", mapping).and("os/internal_users.yml", users);
    assert_eq!(
        first_lines(&files),
        [
            "os/internal_users.yml:3:1: warning[no-password]: the user `bob` has no `hash`, and so no access",
            "os/roles.yml:4:1: warning[unused-role]: nobody has the role `unmapped`: no role mapping and no user names it",
            "os/roles.yml:5:1: warning[unused-role]: nobody has the role `nobody`: no role mapping and no user names it",
            "os/roles.yml:8:54: warning[unknown-name]: no caller has the variable `attr.ldap.x`, so this matches nothing",
            "os/roles.yml:8:113: warning[unknown-name]: no caller has the variable `usr.name`, so this matches nothing",
            "os/roles.yml:8:169: warning[unknown-name]: no caller has the variable `attr.proxy.z`, so this matches nothing",
        ]
    );
    assert_eq!(
        first_lines(&folder(roles).and("os/internal_users.yml", users))[1],
        "os/roles.yml:1:1: warning[unused-role]: the folder has no `roles_mapping.yml`: only users that name their own roles have any"
    );
}

#[test]
fn a_problem_never_shows_a_hash() {
    let users = "_meta: { type: internalusers, config_version: 2 }\nann: { $2y$12$secret: x }\nbob: { hash: [$2y$12$secret] }\n";
    let problems = load(&folder(ROLES).and("os/internal_users.yml", users)).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| !problem.contains("secret")), "{problems:?}");
}
