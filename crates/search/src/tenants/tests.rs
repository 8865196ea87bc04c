//! Tests of the index of Dashboards and its tenant.

use std::path::Path;
use std::sync::Arc;

use policy::MapFiles;

use super::*;
use crate::config::{EvaluationType, Variables};
use crate::{
    Caller, EvaluationSettings, Expression, InventoryBuilder, Need, Options, Privileges, Requirement,
    Resolution, Steps, Subject, Verdict,
};

const SEARCH: &[Action] = &[Action::of("indices:data/read/search")];
const MAPPINGS: &[Action] = &[Action::of("indices:admin/mappings/get")];
const DELETE: &[Action] = &[Action::of("indices:admin/delete")];

/// Each of these roles may do everything on every index. Tried on a node, as all of these decisions.
const ROLES: &str = "_meta: { type: roles, config_version: 2 }
none: { index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
read: { tenant_permissions: [{ tenant_patterns: [global_tenant], allowed_actions: [kibana_all_read] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
star: { tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: ['*'] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
write: { tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: [kibana_all_write] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
other: { tenant_permissions: [{ tenant_patterns: [team], allowed_actions: [kibana_all_write] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
";

fn privileges(config: &str, build: impl Fn(&mut InventoryBuilder)) -> Privileges {
    let files = MapFiles::of("os/roles.yml", ROLES).and("os/config.yml", config);
    let config = SecurityConfig::load(&files, Path::new("os")).unwrap().config;
    let settings =
        EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::of(&config.settings) };
    let mut builder = InventoryBuilder::default();
    builder.index("public", true, false);
    build(&mut builder);
    let inventory = Some(Arc::new(builder.build()));
    Privileges::new(Arc::new(config), settings, Resolution::MappingOnly, inventory)
}

fn caller(privileges: &Privileges, name: &str, roles: &[&str]) -> Caller {
    let roles = roles.iter().map(ToString::to_string).collect();
    privileges.caller(&Subject { name: name.to_owned(), roles, ..Subject::default() })
}

/// Whether a caller with one role may perform these actions on an expression.
fn may(privileges: &Privileges, name: &str, role: &str, actions: &'static [Action], text: &str) -> bool {
    let target = Target::Indices(Expression::new(text, Options::OPEN));
    let need = Need { actions, target, is_copied: false, shows_hidden_terms: false };
    let verdict = privileges.decide(&caller(privileges, name, &[role]), &[need]).verdict;
    verdict == Verdict::Permitted
}

const CONFIG: &str = "_meta: { type: config, config_version: 2 }\nconfig: { dynamic: {} }\n";

#[test]
fn the_index_of_dashboards_needs_a_privilege_on_its_tenant() {
    let index = privileges(CONFIG, |all| {
        let _ = all.index(".kibana", true, false).alias("kb", [".kibana"]);
    });
    let alias = privileges(CONFIG, |all| {
        let _ = all.index(".kibana_1", true, false).alias(".kibana", [".kibana_1"]);
    });
    let beside = privileges(CONFIG, |all| {
        let _ = all.index(".kibana_1", true, false).alias(".kibana", [".kibana_1"]).alias("all", ["public"]);
    });
    for privileges in [&index, &alias, &beside] {
        for text in [".kibana", ".kib*", ".kibana,.kibana", "*,-public,-.o*"] {
            // The plugin goes by the aliases that match any part of the expression, of which there must be no other.
            let is_alone = text != "*,-public,-.o*" || !std::ptr::eq(privileges, &beside);
            for (role, actions, wanted) in [
                ("none", SEARCH, false),
                ("other", SEARCH, false),
                ("read", SEARCH, true),
                ("read", MAPPINGS, false),
                ("read", DELETE, false),
                ("star", SEARCH, true),
                ("star", DELETE, false),
                ("write", MAPPINGS, true),
                ("write", DELETE, true),
            ] {
                let found = may(privileges, "ann", role, actions, text);
                assert_eq!(found, wanted || !is_alone, "{role} {actions:?} {text}");
            }
        }
        assert!(may(privileges, "ann", "none", SEARCH, "*"), "all indices are more than that one");
        assert!(may(privileges, "ann", "none", SEARCH, "public"));
        assert!(may(privileges, "kibanaserver", "none", DELETE, ".kibana"), "Dashboards itself");
    }
    assert!(!may(&index, "ann", "none", SEARCH, "kb"), "an alias for it alone");
    // What a stored query looks up is not seen: it may be that index alone.
    let options = Options { closed: true, hidden: true, ..Options::OPEN };
    let target = Target::Fixed(Expression::new("", options));
    let need = [Need { actions: MAPPINGS, target, is_copied: false, shows_hidden_terms: false }];
    for (role, wanted) in
        [("none", Verdict::Denied), ("read", Verdict::Denied), ("write", Verdict::Permitted)]
    {
        assert_eq!(index.decide(&caller(&index, "ann", &[role]), &need).verdict, wanted, "{role}");
    }
    let none = privileges(CONFIG, |_| ());
    assert!(!may(&none, "ann", "none", SEARCH, ".kibana"), "it is not there yet");
    assert!(!may(&none, "ann", "none", SEARCH, "foo*,.kibana"));
    assert!(may(&alias, "ann", "none", SEARCH, ".kibana_1"), "as the plugin does");
}

/// `kibana_user` lets its holder write in the global tenant unless another role names that tenant; with `v4` it never does.
#[test]
fn a_role_for_the_global_tenant_takes_writing_from_kibana_user() {
    let load = |evaluation| {
        let roles = format!(
            "{ROLES}any: {{ tenant_permissions: [{{ tenant_patterns: ['global_*'], allowed_actions: [] }}] }}\n\
             odd: {{ tenant_permissions: [{{ tenant_patterns: ['/(?<x>a)|global_tenant/'], allowed_actions: [] }}] }}\n\
             own: {{ tenant_permissions: [{{ tenant_patterns: ['${{user.name}}'], allowed_actions: [] }}] }}\n"
        );
        let files = MapFiles::of("os/roles.yml", roles).and("os/config.yml", CONFIG);
        let config = SecurityConfig::load(&files, Path::new("os")).unwrap().config;
        let settings = EvaluationSettings { evaluation, ..EvaluationSettings::of(&config.settings) };
        let mut builder = InventoryBuilder::default();
        builder.index("public", true, false).index(".kibana", true, false);
        let inventory = Some(Arc::new(builder.build()));
        Privileges::new(Arc::new(config), settings, Resolution::MappingOnly, inventory)
    };
    let [legacy, v4] = [EvaluationType::Legacy, EvaluationType::V4].map(load);
    for (roles, reads, writes) in [
        (&["kibana_user"][..], true, true),
        (&["kibana_user", "none"], true, true),
        (&["kibana_user", "other"], true, true),
        (&["kibana_user", "own"], true, true),
        (&["kibana_user", "read"], true, false),
        (&["kibana_user", "star"], true, false),
        (&["kibana_user", "any"], true, false),
        (&["kibana_user", "odd"], false, false),
        (&["kibana_user", "odd", "read"], true, false),
        (&["kibana_user", "read", "write"], true, true),
        (&["kibana_user", "odd", "write"], true, true),
        (&["any", "none"], true, false),
        (&["odd", "none"], false, false),
    ] {
        let is_kibana_user_only = !roles.iter().any(|role| ["read", "star", "any", "write"].contains(role));
        for (privileges, actions, wanted) in [
            (&legacy, SEARCH, reads),
            (&legacy, DELETE, writes),
            (&v4, SEARCH, reads && !is_kibana_user_only),
            (&v4, DELETE, writes && !is_kibana_user_only),
        ] {
            let target = Target::Indices(Expression::new(".kibana", Options::OPEN));
            let needs = [Need { actions, target, is_copied: false, shows_hidden_terms: false }];
            let verdict = privileges.decide(&caller(privileges, "ann", roles), &needs).verdict;
            assert_eq!(verdict == Verdict::Permitted, wanted, "{roles:?} {actions:?}");
            let requirement = privileges.requirement(&needs, |_| true, &mut Steps::new(usize::MAX)).unwrap();
            let roles = roles.iter().map(|role| Arc::from(*role)).collect();
            let is_met = |one: &Requirement| one.is_met_by(&roles, &Variables::default());
            assert_eq!(is_met(&requirement), wanted, "{roles:?} {actions:?} {requirement:?}");
            let alternatives = requirement.alternatives();
            assert!(
                alternatives.iter().flat_map(|one| &one.all).flatten().all(|held| held.without.is_empty())
            );
            assert_eq!(alternatives.iter().any(is_met), wanted, "{roles:?} {actions:?} {alternatives:?}");
        }
    }
}

#[test]
fn the_configuration_names_the_index_or_leaves_it_out() {
    let with = |kibana: &str| {
        let config = format!(
            "_meta: {{ type: config, config_version: 2 }}\nconfig: {{ dynamic: {{ kibana: {kibana} }} }}\n"
        );
        privileges(&config, |all| {
            let _ = all.index(".kibana", true, false).index(".mine", true, false);
        })
    };
    assert!(may(&with("{ multitenancy_enabled: false }"), "ann", "none", DELETE, ".kibana"));
    let other = with("{ index: .mine, server_username: dash }");
    assert!(may(&other, "ann", "none", DELETE, ".kibana"));
    assert!(!may(&other, "ann", "none", DELETE, ".mine"));
    assert!(may(&other, "dash", "none", DELETE, ".mine"));
    assert!(!may(&other, "kibanaserver", "none", DELETE, ".mine"));
}
