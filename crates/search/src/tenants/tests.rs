//! Tests of the index of Dashboards and its tenant.

use std::path::Path;
use std::sync::Arc;

use document::MapFiles;

use super::*;
use crate::config::{EvaluationType, Variables};
use crate::explain::{Requirement, requirement};
use crate::{
    Caller, EvaluationSettings, Expression, InventoryBuilder, Need, Options, Privileges, Steps,
    Subject, Verdict,
};

const SEARCH: &[Action] = &[Action::new("indices:data/read/search")];
const MAPPINGS: &[Action] = &[Action::new("indices:admin/mappings/get")];
const DELETE: &[Action] = &[Action::new("indices:admin/delete")];

/// Each of these roles may do everything on every index. Tried on a node, as all of these
/// decisions.
const ROLES: &str = "_meta: { type: roles, config_version: 2 }
none: { index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
read: { tenant_permissions: [{ tenant_patterns: [global_tenant], allowed_actions: [kibana_all_read] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
star: { tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: ['*'] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
write: { tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: [kibana_all_write] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
other: { tenant_permissions: [{ tenant_patterns: [team], allowed_actions: [kibana_all_write] }], index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }] }
";

fn privileges(config: &str, build: impl Fn(&mut InventoryBuilder)) -> Privileges {
    let files = MapFiles::new("os/roles.yml", ROLES).and("os/config.yml", config);
    let config = SecurityConfig::load(&files, Path::new("os")).unwrap().config;
    let settings =
        EvaluationSettings { evaluation: EvaluationType::Legacy, ..config.settings.clone() };
    let mut builder = InventoryBuilder::default();
    builder.index("public", true, false);
    build(&mut builder);
    let inventory = Some(Arc::new(builder.build()));
    Privileges::new(Arc::new(config), settings, inventory)
}

fn caller(privileges: &Privileges, name: &str, roles: &[&str]) -> Caller {
    let roles = roles.iter().map(ToString::to_string).collect();
    privileges.caller(&Subject { name: name.to_owned(), roles, ..Subject::default() })
}

/// Whether a caller with one role may perform these actions on an expression.
fn may(
    privileges: &Privileges,
    name: &str,
    role: &str,
    actions: &'static [Action],
    text: &str,
) -> bool {
    let target = Target::Indices(Expression::new(text, Options::OPEN));
    let need =
        Need { actions, target, is_copied: false, shows_hidden_terms: false, adds_names: false };
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
        let _ = all
            .index(".kibana_1", true, false)
            .alias(".kibana", [".kibana_1"])
            .alias("all", ["public"]);
    });
    for privileges in [&index, &alias, &beside] {
        for text in [".kibana", ".kib*", ".kibana,.kibana", "*,-public,-.o*"] {
            // The plugin goes by the aliases that match any part of the expression, of which there
            // must be no other.
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
    // The look-ups of a stored query are not seen: they may be about that index alone.
    let options = Options { closed: true, hidden: true, ..Options::OPEN };
    let target = Target::Fixed(Expression::new("", options));
    let need = [Need {
        actions: MAPPINGS,
        target,
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    }];
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

/// Found by comparison with a node: where the index of Dashboards was left out of the answer, names
/// in place of the expression had what the expression takes out by aliases, and a closed index.
#[test]
fn what_a_request_takes_out_stays_out_beside_the_index_of_dashboards() {
    const FIELDS: &[Action] = &[Action::new("indices:data/read/field_caps")];
    let privileges = privileges(CONFIG, |all| {
        let _ = all
            .index(".kibana", true, false)
            .index("gen-a", true, false)
            .index("gen-b", true, false);
        let _ = all.index("old-gen", false, false);
        let _ = all.alias("al-gen", [".kibana", "public"]).alias("al-b", ["gen-b"]);
    });
    let options = Options { hidden: true, ..Options::OPEN };
    let target = Target::Indices(Expression::new("*gen*,-al-b*", options));
    let need = Need {
        actions: FIELDS,
        target,
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    let caller = caller(&privileges, "ann", &["none"]);
    let Verdict::PermittedInPart(parts) = privileges.decide(&caller, &[need]).verdict else {
        panic!("the index of Dashboards is left out")
    };
    let names: Vec<&str> = parts.iter().flat_map(|part| &part.names).map(|name| &**name).collect();
    assert_eq!(names, ["gen-a", "public"]);
}

/// The same: a hidden index that the expression reaches by an alias is shown, and one that just
/// matches a pattern is not.
#[test]
fn a_hidden_index_of_an_alias_stays_beside_the_index_of_dashboards() {
    const FIELDS: &[Action] = &[Action::new("indices:data/read/field_caps")];
    let privileges = privileges(CONFIG, |all| {
        let _ = all.index(".kibana", true, false).index("gen", true, true).index(
            "other-gen",
            true,
            true,
        );
        let _ = all.alias("al-gen", [".kibana", "public", "gen"]);
    });
    let caller = caller(&privileges, "ann", &["none"]);
    // Excluded by a pattern, the index is not hidden, either.
    for text in ["*gen", "al-gen", "*,-ge*"] {
        let target = Target::Indices(Expression::new(text, Options::OPEN));
        let need = Need {
            actions: FIELDS,
            target,
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false,
        };
        let Verdict::PermittedInPart(parts) = privileges.decide(&caller, &[need]).verdict else {
            panic!("the index of Dashboards is left out")
        };
        let names: Vec<&str> =
            parts.iter().flat_map(|part| &part.names).map(|name| &**name).collect();
        assert_eq!(names, ["gen", "public"], "{text}");
    }
}

/// `kibana_user` lets its holder write in the global tenant unless another role names that tenant;
/// with `v4` it never does.
#[test]
fn a_role_for_the_global_tenant_takes_writing_from_kibana_user() {
    let load = |evaluation| {
        let roles = format!(
            "{ROLES}any: {{ tenant_permissions: [{{ tenant_patterns: ['global_*'], allowed_actions: [] }}] }}\n\
             odd: {{ tenant_permissions: [{{ tenant_patterns: ['/(?<x>a)|global_tenant/'], allowed_actions: [] }}] }}\n\
             own: {{ tenant_permissions: [{{ tenant_patterns: ['${{user.name}}'], allowed_actions: [] }}] }}\n"
        );
        let files = MapFiles::new("os/roles.yml", roles).and("os/config.yml", CONFIG);
        let config = SecurityConfig::load(&files, Path::new("os")).unwrap().config;
        let settings = EvaluationSettings { evaluation, ..config.settings.clone() };
        let mut builder = InventoryBuilder::default();
        builder.index("public", true, false).index(".kibana", true, false);
        let inventory = Some(Arc::new(builder.build()));
        Privileges::new(Arc::new(config), settings, inventory)
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
        let is_kibana_user_only =
            !roles.iter().any(|role| ["read", "star", "any", "write"].contains(role));
        for (privileges, actions, wanted) in [
            (&legacy, SEARCH, reads),
            (&legacy, DELETE, writes),
            (&v4, SEARCH, reads && !is_kibana_user_only),
            (&v4, DELETE, writes && !is_kibana_user_only),
        ] {
            let target = Target::Indices(Expression::new(".kibana", Options::OPEN));
            let needs = [Need {
                actions,
                target,
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            }];
            let verdict = privileges.decide(&caller(privileges, "ann", roles), &needs).verdict;
            assert_eq!(verdict == Verdict::Permitted, wanted, "{roles:?} {actions:?}");
            let requirement =
                requirement(privileges, (&needs, false), |_| true, &mut Steps::new(usize::MAX))
                    .unwrap();
            let roles = roles.iter().map(|role| Arc::from(*role)).collect();
            let is_met = |one: &Requirement| one.is_met_by(&roles, &Variables::default());
            assert_eq!(is_met(&requirement), wanted, "{roles:?} {actions:?} {requirement:?}");
            let alternatives = requirement.alternatives();
            assert!(
                alternatives
                    .iter()
                    .flat_map(|one| &one.required)
                    .flatten()
                    .all(|held| held.without.is_empty())
            );
            assert_eq!(
                alternatives.iter().any(is_met),
                wanted,
                "{roles:?} {actions:?} {alternatives:?}"
            );
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

/// With `v4` each name that begins with that of the index is of a tenant, and those of other
/// tenants are for nobody.
#[test]
fn with_v4_what_begins_with_the_name_of_the_index_is_of_a_tenant() {
    let build = |has_inventory: bool| {
        let files = MapFiles::new("os/roles.yml", ROLES).and("os/config.yml", CONFIG);
        let config = SecurityConfig::load(&files, Path::new("os")).unwrap().config;
        let mut all = InventoryBuilder::default();
        all.index("public", true, false).index(".kibana_1", true, false).index(
            ".kibana_2",
            true,
            false,
        );
        all.index(".kibana_3", true, false).index(".kibana_7_ann_1", true, false);
        all.index(".kibana-sample", true, false);
        all.alias(".kibana", [".kibana_1", ".kibana_3"])
            .alias(".kibana_7_ann", [".kibana_7_ann_1"]);
        all.alias(".kibana_x", [".kibana_3"])
            .alias("mine", [".kibana_2"])
            .alias("other", [".kibana_1"]);
        let inventory = has_inventory.then(|| Arc::new(all.build()));
        let settings = config.settings.clone();
        let settings = EvaluationSettings { evaluation: EvaluationType::V4, ..settings };
        Privileges::new(Arc::new(config), settings, inventory)
    };
    let [known, unknown] = [true, false].map(build);
    for (text, is_of_tenant, is_of_global) in [
        (".kibana", true, true),
        (".kibana_1", true, true),
        (".kibana_1,.kibana_1", true, true),
        (".kibana_1*", true, true),
        ("*,-public,-.kibana-*,-.kibana_2,-.kibana_3,-.kibana_7*", true, true),
        (".kibana_2", true, false),
        (".kibana_2,.kibana_2", true, false),
        (".kibana_2*", true, false),
        ("*,-public,-.kibana-*,-.kibana_1,-.kibana_3,-.kibana_7*", true, false),
        (".kibana_3", true, false),
        (".kibana_x", true, false),
        (".kibana_7_ann", true, false),
        (".kibana_7_ann_1", true, false),
        (".kibana-sample", true, false),
        (".kibana_missing", true, false),
        // Of several, none is asked for a tenant by the plugin.
        (".kibana_1,.kibana_2", true, true),
        (".kibana_*", true, true),
        ("public", false, true),
        ("mine", false, true),
        ("other", false, true),
        ("*", false, true),
        (".kib", false, true),
    ] {
        for (role, actions, may_in_tenant) in [
            ("none", SEARCH, false),
            ("read", SEARCH, true),
            ("read", DELETE, false),
            ("write", DELETE, true),
        ] {
            let wanted = (may_in_tenant || !is_of_tenant) && is_of_global;
            assert_eq!(may(&known, "ann", role, actions, text), wanted, "{role} {text}");
        }
        if !text.contains('*') {
            let is_certain = matches!(text, ".kibana" | "public" | "mine" | "other" | ".kib");
            let wanted = is_certain || text == ".kibana_1,.kibana_2";
            assert_eq!(may(&unknown, "ann", "write", SEARCH, text), wanted, "{text}");
        }
        if text != "*" {
            assert!(may(&known, "kibanaserver", "none", DELETE, text), "Dashboards itself: {text}");
        }
    }
    assert!(!may(&unknown, "ann", "none", SEARCH, ".kibana_*"));
    // To copy them elsewhere is more than reading.
    for (role, is_copied, wanted) in
        [("read", false, true), ("read", true, false), ("write", true, true)]
    {
        let target = Target::Fixed(Expression::new(".kibana", Options::OPEN));
        let needs = [Need {
            actions: SEARCH,
            target,
            is_copied,
            shows_hidden_terms: false,
            adds_names: false,
        }];
        let verdict = known.decide(&caller(&known, "ann", &[role]), &needs).verdict;
        assert_eq!(verdict == Verdict::Permitted, wanted, "{role} {is_copied}");
    }
    // The fields of each index are looked up by themselves.
    for (name, role, wanted) in [
        ("ann", "none", vec!["public"]),
        ("ann", "write", vec![".kibana_1", "public"]),
        ("kibanaserver", "none", Vec::new()),
    ] {
        const FIELDS: &[Action] = &[Action::new("indices:data/read/field_caps")];
        let target = Target::Indices(Expression::new("*", Options::OPEN));
        let needs = [Need {
            actions: FIELDS,
            target,
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false,
        }];
        match known.decide(&caller(&known, name, &[role]), &needs).verdict {
            Verdict::Permitted => assert_eq!(name, "kibanaserver"),
            Verdict::PermittedInPart(parts) => assert_eq!(parts[0].names, wanted, "{role}"),
            Verdict::Denied => panic!("{role}"),
        }
    }
    let needs = |target| {
        [Need {
            actions: DELETE,
            target,
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false,
        }]
    };
    let verdict = |name: &str, target| {
        known.decide(&caller(&known, name, &["write"]), &needs(target)).verdict
    };
    assert_eq!(
        verdict("ann", Target::CreatedIfMissing(".kibana_9".into())),
        Verdict::Denied,
        "it is made for no tenant"
    );
    assert_eq!(
        verdict("kibanaserver", Target::CreatedIfMissing(".kibana_9".into())),
        Verdict::Permitted
    );
    assert_eq!(verdict("ann", Target::AliasOrNewIndex(".kibana_9".into())), Verdict::Permitted);
    let target = Target::Indices(Expression::new(".kibana_2", Options::OPEN));
    let requirement =
        requirement(&known, (&needs(target), false), |_| true, &mut Steps::new(usize::MAX))
            .unwrap();
    assert_eq!(requirement.required, [Vec::new()], "nobody");
}
