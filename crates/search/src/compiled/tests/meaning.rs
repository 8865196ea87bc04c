//! The meaning of roles: small roles, a small cluster, and the answers to requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use document::MapFiles;

use crate::action::Action;
use crate::answer::{Answer, Part, Reason, Verdict};
use crate::compiled::filters::{Applies, FilterName, Restrictions};
use crate::config::{EvaluationType, IndexPermission, SecurityConfig, Template, Variables};
use crate::explain::requirement;
use crate::expression::{Expression, Options};
use crate::filtering::Filtering;
use crate::inventory::{Inventory, InventoryBuilder};
use crate::pattern::Pattern;
use crate::settings::EvaluationSettings;
use crate::{Need, Privileges, Subject, Target};

const SEARCH: &[Action] = &[Action::new("indices:data/read/search")];
const BULK: &[Action] = &[Action::new("indices:data/write/bulk")];
const WRITE: &[Action] =
    &[Action::new("indices:data/write/bulk[s]"), Action::new("indices:data/write/index")];
const UPDATE: &[Action] =
    &[Action::new("indices:data/write/bulk[s]"), Action::new("indices:data/write/update")];
const CREATE: &[Action] = &[Action::new("indices:admin/create")];

const ROLES: &str = r#"_meta: { type: roles, config_version: 2 }
reader:
  cluster_permissions: [cluster_composite_ops_ro]
  index_permissions: [{ index_patterns: ["logs-*"], allowed_actions: [read] }]
searcher:
  index_permissions: [{ index_patterns: ["metrics-*"], allowed_actions: [search] }]
writer:
  cluster_permissions: ["indices:data/write/bulk"]
  index_permissions: [{ index_patterns: ["logs-a"], allowed_actions: ["indices:data/write/*"] }]
bulk_only:
  index_permissions: [{ index_patterns: ["metrics-*"], allowed_actions: ["indices:data/write/bulk*"] }]
index_only:
  index_permissions: [{ index_patterns: ["metrics-*"], allowed_actions: ["indices:data/write/index"] }]
by_alias:
  index_permissions: [{ index_patterns: ["all-logs"], allowed_actions: [read] }]
by_stream:
  index_permissions: [{ index_patterns: ["stream"], allowed_actions: [read] }]
backing:
  index_permissions: [{ index_patterns: [".ds-*"], allowed_actions: [read] }]
half_a:
  index_permissions: [{ index_patterns: [".ds-1"], allowed_actions: [read] }]
half_b:
  index_permissions: [{ index_patterns: [".ds-2"], allowed_actions: [read] }]
system:
  index_permissions: [{ index_patterns: [".sys*"], allowed_actions: ["system:admin/*"] }]
own:
  index_permissions: [{ index_patterns: ["own-${user.name}"], allowed_actions: ["*"] }]
documents:
  index_permissions:
    - { index_patterns: ["logs-a"], allowed_actions: [], dls: '{"term":{"u":"${user.name}"}}', fls: ["~x"] }
"#;

fn config(roles: &str) -> Arc<SecurityConfig> {
    let files = MapFiles::new("os/roles.yml", roles);
    Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config)
}

fn privileges(settings: &EvaluationSettings, inventory: Option<Inventory>) -> Privileges {
    Privileges::new(config(ROLES), settings.clone(), inventory.map(Arc::new))
}

fn answer(privileges: &Privileges, subject: &Subject, needs: &[Need<'_>]) -> Answer {
    privileges.decide(&privileges.caller(subject), needs)
}

fn inventory() -> Inventory {
    let mut builder = InventoryBuilder::default();
    builder
        .index("logs-a", true, false)
        .index("logs-b", true, false)
        .index("logs-old", false, false);
    builder.index("metrics-a", true, false).index(".sys", true, true).index(
        ".opendistro_security",
        true,
        true,
    );
    builder.index(".ds-1", true, true).index(".ds-2", true, true);
    builder.alias("all-logs", ["logs-a", "logs-b"]).data_stream("stream", [".ds-1", ".ds-2"]);
    builder.build()
}

fn settings(evaluation: EvaluationType) -> EvaluationSettings {
    EvaluationSettings {
        evaluation,
        system_indices: vec![Pattern::from_wildcards(".sys")],
        ..EvaluationSettings::default()
    }
}

fn subject(roles: &[&str]) -> Subject {
    Subject {
        name: "ann".to_owned(),
        roles: roles.iter().map(ToString::to_string).collect(),
        ..Subject::default()
    }
}

fn on<'a>(actions: &'static [Action], text: &'a str) -> Need<'a> {
    Need {
        actions,
        target: Target::Indices(Expression::new(text, Options::OPEN)),
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    }
}

fn with(settings: &EvaluationSettings, roles: &[&str], needs: &[Need<'_>]) -> Answer {
    answer(&privileges(settings, Some(inventory())), &subject(roles), needs)
}

/// The verdict of both evaluations, and without an inventory: `+` permitted, `~` in part, `-`
/// denied.
fn verdicts(roles: &[&str], need: &Need<'_>) -> String {
    let sign = |settings: &EvaluationSettings, inventory: Option<Inventory>| {
        let privileges = privileges(settings, inventory);
        match answer(&privileges, &subject(roles), std::slice::from_ref(need)).verdict {
            Verdict::Permitted => '+',
            Verdict::PermittedInPart(_) => '~',
            Verdict::Denied => '-',
        }
    };
    let legacy = settings(EvaluationType::Legacy);
    let reducing = EvaluationSettings {
        do_not_fail_on_forbidden: true,
        do_not_fail_on_forbidden_empty: true,
        ..legacy.clone()
    };
    let v4 = settings(EvaluationType::V4);
    let with = |settings| sign(settings, Some(inventory()));
    [with(&legacy), with(&reducing), with(&v4), sign(&v4, None)].iter().collect()
}

#[test]
fn what_roles_grant_is_permitted() {
    // Legacy, legacy with `do_not_fail_on_forbidden` (also `_empty`), v4, and v4 without an
    // inventory.
    for (roles, actions, expression, expected) in [
        (&["reader"][..], SEARCH, "logs-a", "++++"),
        (&["reader"], SEARCH, "logs-*", "++++"),
        (&["reader"], SEARCH, "logs-a,logs-b", "++++"),
        (&["reader"], SEARCH, "logs-new", "++++"),
        (&["reader"], SEARCH, "logs*", "+++-"),
        (&["reader"], SEARCH, "metrics-a", "-~--"),
        (&["reader"], SEARCH, "logs-a,metrics-a", "-~--"),
        (&["reader"], SEARCH, "*", "-~~-"),
        (&["reader"], SEARCH, "", "-~~-"),
        // The name of a data stream excludes nothing: `*` stands for its indices.
        (&["reader"], SEARCH, "*,-metrics-*,-stream", "--~-"),
        (&["reader"], SEARCH, "*,-metrics-*,-stream*", "--+-"),
        (&["reader"], SEARCH, "logs-*,metrics-*", "-~~-"),
        (&["reader"], SEARCH, "metrics-*", "-~~-"),
        (&["reader"], WRITE, "logs-a", "----"),
        (&["reader", "searcher"], SEARCH, "logs-*,metrics-*", "++++"),
        (&["reader"], SEARCH, "nothing-*", "+++-"),
        (&[], SEARCH, "nothing-*", "++--"),
        (&[], SEARCH, "logs-a", "-~--"),
        (&["missing"], SEARCH, "logs-a", "-~--"),
        (&["all_access"], SEARCH, "*", "-~+-"),
        (&["all_access"], SEARCH, "logs-*", "++++"),
        // Different roles may grant different actions and indices.
        (&["bulk_only"], WRITE, "metrics-a", "----"),
        (&["bulk_only", "index_only"], WRITE, "metrics-a", "++++"),
        // An alias gives its members, and in the legacy evaluation the members give the alias.
        (&["by_alias"], SEARCH, "all-logs", "++++"),
        (&["by_alias"], SEARCH, "logs-a", "+++-"),
        (&["by_alias"], SEARCH, "logs-old", "-~--"),
        (&["reader"], SEARCH, "all-logs", "++--"),
        // A data stream gives its backing indices. One permission on all of them gives the stream
        // in `legacy`.
        (&["by_stream"], SEARCH, "stream", "++++"),
        (&["by_stream"], SEARCH, ".ds-1", "+++-"),
        (&["backing"], SEARCH, "stream", "-~--"),
        (&["half_a", "half_b"], SEARCH, "stream", "-~--"),
        (&["half_a", "half_b"], SEARCH, ".ds-1,.ds-2", "++++"),
        // System indices need a privilege of their own, which `*` does not have.
        (&["all_access"], SEARCH, ".sys", "----"),
        (&["all_access", "system"], SEARCH, ".sys", "++++"),
        (&["system"], SEARCH, ".sys", "-~--"),
        (&["all_access", "system"], SEARCH, ".opendistro_security", "----"),
        (&["all_access"], SEARCH, ".s*", "--~-"),
        // A user's own index.
        (&["own"], SEARCH, "own-ann", "++++"),
        (&["own"], SEARCH, "own-bob", "-~--"),
        (&["own_index"], SEARCH, "ann", "++++"),
        (&["own_index"], CREATE, "ann", "++++"),
    ] {
        assert_eq!(
            verdicts(roles, &on(actions, expression)),
            expected,
            "{roles:?} {actions:?} {expression}"
        );
    }
}

#[test]
fn a_missing_name_keeps_the_legacy_evaluation_from_expanding_patterns() {
    // `logs-*` is then compared as it is, so a role for the only indices that match is not enough.
    assert_eq!(verdicts(&["by_alias"], &on(SEARCH, "all-*")), "+++-");
    assert_eq!(verdicts(&["by_alias", "reader"], &on(SEARCH, "all-logs,logs-missing")), "++++");
    assert_eq!(verdicts(&["own", "by_alias"], &on(SEARCH, "logs-*,-logs-old,own-ann")), "--+-");
    // Exclusions are then compared as names, with their `-`. Each was tried on a node.
    for text in
        ["logs-*,-nope", "logs-*,-", "logs-*,-logs-b,logs-missing", "logs-*,-logs-b*,logs-missing"]
    {
        let reader = verdicts(&["reader"], &on(SEARCH, text));
        assert!(reader.starts_with('-'), "{text}: {reader}");
        let all = verdicts(&["all_access"], &on(SEARCH, text));
        assert!(all.starts_with('+'), "{text}: {all}");
    }
    for text in ["logs-*,-logs-b", "logs-*,-metrics-a", "logs-*,-nope*"] {
        assert!(verdicts(&["reader"], &on(SEARCH, text)).starts_with('+'), "{text}");
    }
}

#[test]
fn cluster_actions_come_from_cluster_permissions() {
    let need = Need {
        actions: BULK,
        target: Target::Cluster,
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    assert_eq!(verdicts(&["writer"], &need), "++++");
    assert_eq!(verdicts(&["reader"], &need), "----");
    assert_eq!(verdicts(&["bulk_only"], &need), "----");
}

#[test]
fn a_service_account_has_no_cluster_and_no_regular_index() {
    let privileges = privileges(&settings(EvaluationType::Legacy), Some(inventory()));
    let subject = Subject { is_service: true, ..subject(&["all_access", "system"]) };
    let verdict = |need: Need<'_>| answer(&privileges, &subject, &[need]).verdict;
    assert_eq!(
        verdict(Need {
            actions: BULK,
            target: Target::Cluster,
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false
        }),
        Verdict::Denied
    );
    assert_eq!(verdict(on(SEARCH, "logs-a")), Verdict::Denied);
    assert_eq!(verdict(on(SEARCH, ".sys")), Verdict::Permitted);
}

#[test]
fn a_restricted_role_needs_a_filter() {
    let denied =
        with(&settings(EvaluationType::V4), &["reader", "documents"], &[on(SEARCH, "logs-*")]);
    assert_eq!(denied.verdict, Verdict::Denied);
    let cell = denied.missing.first().unwrap();
    assert_eq!((&*cell.name, cell.reason), ("logs-a", Reason::NeedsFilter));
    let other =
        with(&settings(EvaluationType::V4), &["reader", "documents"], &[on(SEARCH, "logs-b")]);
    assert_eq!(other.verdict, Verdict::Permitted);

    let settings = EvaluationSettings { hands_over_filters: true, ..settings(EvaluationType::V4) };
    let handed = with(&settings, &["reader", "documents"], &[on(SEARCH, "logs-*")]);
    assert_eq!(handed.verdict, Verdict::Permitted);
    let filter = handed.filters.first().unwrap();
    assert_eq!(
        (&*filter.name, filter.queries.first().unwrap().as_str()),
        ("logs-a", r#"{"term":{"u":"ann"}}"#)
    );
    assert_eq!(filter.fields, BTreeSet::from(["~x".into()]));
    let write = with(&settings, &["all_access", "documents"], &[on(WRITE, "logs-a")]);
    assert_eq!((write.verdict, write.filters.len()), (Verdict::Permitted, 0));
    let update = with(&settings, &["all_access", "documents"], &[on(UPDATE, "logs-a")]);
    assert_eq!(update.missing.first().unwrap().reason, Reason::CannotFilter);
}

#[test]
fn fields_and_queries_of_several_roles_are_combined_as_the_plugin_does() {
    let permission = |dls: Option<&str>, fls: &[&str], masked: &[&str]| IndexPermission {
        patterns: Vec::new(),
        allowed_actions: Vec::new(),
        document_query: dls.map(|text| Template::parse(&text.into()).unwrap()),
        fields: fls.iter().map(|field| (*field).into()).collect(),
        masked_fields: masked.iter().map(|field| (*field).into()).collect(),
    };
    let combined = |permissions: &[&IndexPermission], empty_overrides_all: bool| {
        let settings = EvaluationSettings {
            hands_over_filters: true,
            empty_overrides_all,
            ..EvaluationSettings::default()
        };
        let roles: Vec<String> = (0..permissions.len()).map(|role| role.to_string()).collect();
        let mut restrictions = Restrictions::default();
        for (role, permission) in roles.iter().zip(permissions) {
            restrictions.add(role, permission, &Variables::default(), Applies::Certainly);
        }
        let filter = restrictions
            .filter(FilterName::Known("a"), &settings, Filtering::Possible)
            .unwrap()
            .unwrap_or_default();
        let texts = |texts: Vec<&str>| texts.join(" ");
        [
            texts(filter.queries.iter().map(String::as_str).collect()),
            texts(filter.fields.iter().map(|field| &**field).collect()),
            texts(filter.masked_fields.iter().map(|field| &**field).collect()),
        ]
    };
    let (all, x, y) = (
        permission(None, &[], &[]),
        permission(Some("{}"), &[], &[]),
        permission(Some("[]"), &[], &[]),
    );
    let fields = |fls: &[&str]| permission(None, fls, &[]);
    let (mask, other) = (permission(None, &[], &["m"]), permission(None, &[], &["m::/a/::b"]));
    // As a node with the plugin 3.4.0 answered.
    for (permissions, expected) in [
        (vec![&all, &x], ["{}", "", ""]),
        (vec![&x, &y], ["[] {}", "", ""]),
        (vec![&fields(&["a"]), &fields(&["b"])], ["", "a b", ""]),
        (vec![&fields(&["~a"]), &fields(&["~b"])], ["", "~a ~b", ""]),
        (vec![&fields(&["a"]), &fields(&["~b"])], ["", "~b", ""]),
        (vec![&fields(&["a*", "~ab"])], ["", "~ab", ""]),
        (vec![&all, &fields(&["a"])], ["", "a", ""]),
        (vec![&mask, &other, &all], ["", "", "m m::/a/::b"]),
        (vec![&x, &fields(&["a"])], ["{}", "a", ""]),
    ] {
        assert_eq!(combined(&permissions, false), expected, "{permissions:?}");
    }
    // With `plugins.security.dfm_empty_overrides_all`.
    for (permissions, expected) in [
        (vec![&all, &x], ["", "", ""]),
        (vec![&x, &y], ["[] {}", "", ""]),
        (vec![&x, &fields(&["a"])], ["", "", ""]),
        (vec![&mask, &all], ["", "", ""]),
        (vec![&permission(Some("{}"), &["a"], &[]), &fields(&["b"])], ["", "a b", ""]),
    ] {
        assert_eq!(combined(&permissions, true), expected, "{permissions:?}");
    }
}

#[test]
fn without_an_inventory_a_name_may_be_an_alias_of_what_a_role_hides() {
    for hands_over_filters in [false, true] {
        let settings =
            EvaluationSettings { hands_over_filters, ..settings(EvaluationType::Legacy) };
        let privileges = privileges(&settings, None);
        let verdict =
            |roles: &[&str]| answer(&privileges, &subject(roles), &[on(SEARCH, "logs-b")]);
        assert_eq!(verdict(&["reader"]).verdict, Verdict::Permitted);
        let denied = verdict(&["reader", "documents"]);
        assert_eq!(denied.verdict, Verdict::Denied);
        assert_eq!(denied.missing.first().unwrap().reason, Reason::NeedsFilter);
    }
}

/// Found by an attack: a caller with hidden documents made an alias for their index, and read them
/// by that name until the inventory had the alias.
#[test]
fn nothing_hidden_is_shown_by_an_alias_that_was_made_since() {
    const ALIASES: &[Action] = &[Action::new("indices:admin/aliases")];
    const GET: &[Action] = &[Action::new("indices:admin/get")];
    for (evaluation, hands_over_filters) in [
        (EvaluationType::Legacy, false),
        (EvaluationType::Legacy, true),
        (EvaluationType::V4, false),
        (EvaluationType::V4, true),
    ] {
        let settings = EvaluationSettings { hands_over_filters, ..settings(evaluation) };
        let privileges = privileges(&settings, Some(inventory()));
        for (target, actions, reason) in [
            (Target::Name("logs-new-z".into()), SEARCH, Some(Reason::NeedsFilter)),
            (
                Target::Indices(Expression::new("logs-new-z", Options::OPEN)),
                SEARCH,
                Some(Reason::NeedsFilter),
            ),
            (Target::Name("logs-new-z".into()), GET, Some(Reason::NeedsFilter)),
            (Target::Name("logs-new-z".into()), UPDATE, Some(Reason::CannotFilter)),
            (Target::Name("logs-new-z".into()), WRITE, None),
            (Target::Name("metrics-a".into()), SEARCH, None),
            (
                Target::Fixed(Expression::new("logs-a", Options::OPEN)),
                ALIASES,
                Some(Reason::CannotFilter),
            ),
            (
                Target::Fixed(Expression::new("all-logs", Options::OPEN)),
                ALIASES,
                Some(Reason::CannotFilter),
            ),
            (Target::Fixed(Expression::new("metrics-a", Options::OPEN)), ALIASES, None),
            // An index that the same request creates.
            (Target::Name("logs-new-z".into()), ALIASES, None),
            (Target::AliasOrNewIndex("logs-new-z".into()), ALIASES, None),
        ] {
            let context = format!("{evaluation:?} {hands_over_filters} {target:?} {actions:?}");
            let needs = [Need {
                actions,
                target,
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            }];
            for (roles, reason) in
                [(&["all_access", "documents"][..], reason), (&["all_access"], None)]
            {
                let subject = subject(roles);
                let answer = answer(&privileges, &subject, &needs);
                assert_eq!(
                    answer.missing.first().map(|cell| cell.reason),
                    reason,
                    "{context} {roles:?}"
                );
                assert_eq!(
                    answer.verdict == Verdict::Permitted,
                    reason.is_none(),
                    "{context} {roles:?}"
                );
                let steps = &mut crate::Steps::new(usize::MAX);
                let requirement =
                    requirement(&privileges, (&needs, false), |_| true, steps).unwrap();
                let held = subject.roles.iter().map(|role| role.as_str().into()).collect();
                let is_met = requirement.is_met_by(&held, &subject.variables(&held, evaluation));
                assert!(!is_met || reason.is_none(), "{context} {roles:?}");
            }
        }
    }
}

#[test]
fn the_answer_names_what_is_missing_and_what_remains() {
    let settings =
        EvaluationSettings { do_not_fail_on_forbidden: true, ..settings(EvaluationType::Legacy) };
    let answer = with(&settings, &["reader"], &[on(SEARCH, "logs-*,metrics-*")]);
    let names: Vec<&str> = answer.missing.iter().map(|cell| &*cell.name).collect();
    assert_eq!(names, ["metrics-a"]);
    let names = vec!["logs-a".to_owned(), "logs-b".to_owned()];
    assert_eq!(answer.verdict, Verdict::PermittedInPart(vec![Part { need: 0, names }]));
}

#[test]
fn a_name_that_a_request_makes_is_needed_where_it_matters() {
    let missing = |name: &'static str| Need {
        actions: CREATE,
        target: Target::CreatedIfMissing(name.into()),
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    let alias = |name: &'static str| Need {
        actions: CREATE,
        target: Target::AliasOrNewIndex(name.into()),
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    assert_eq!(verdicts(&["own"], &missing("own-ann")), "++++");
    assert_eq!(verdicts(&["own"], &missing("logs-a")), "+++-");
    assert_eq!(verdicts(&["own"], &missing("logs-new")), "----");
    assert_eq!(verdicts(&["own"], &alias("logs-new")), "++--");
}

/// The index of the results of tasks is a system index of every node: with `v4` always, with
/// `legacy` if such indices are protected.
#[test]
fn the_results_of_tasks_need_the_privilege_of_system_indices() {
    const DELETE: &[Action] = &[Action::new("indices:admin/delete")];
    let roles = "_meta: { type: roles, config_version: 2 }\n\
        tasks: { index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*', 'system:admin/system_index'] }] }\n";
    let config = config(roles);
    let mut builder = InventoryBuilder::default();
    builder.index("a", true, false).index(".tasks", true, true).alias("done", [".tasks"]);
    let inventory = Arc::new(builder.build());
    for (evaluation, systems, is_protected) in [
        (EvaluationType::V4, &[][..], true),
        (EvaluationType::V4, &[".sys"], true),
        (EvaluationType::Legacy, &[".sys"], true),
        (EvaluationType::Legacy, &[], false),
    ] {
        let system_indices = systems.iter().map(|name| Pattern::from_wildcards(name)).collect();
        let settings =
            EvaluationSettings { evaluation, system_indices, ..EvaluationSettings::default() };
        for known in [Some(inventory.clone()), None] {
            let privileges = Privileges::new(config.clone(), settings.clone(), known.clone());
            for (role, name, actions, is_open) in [
                ("readall", ".tasks", SEARCH, false),
                ("readall", "done", SEARCH, known.is_none()),
                ("readall", ".tasks-2", SEARCH, false),
                ("readall", ".t*", SEARCH, false),
                ("readall", "a", SEARCH, true),
                ("all_access", ".tasks", DELETE, false),
                ("tasks", ".tasks", SEARCH, true),
                ("tasks", ".tasks", DELETE, true),
            ] {
                let subject = Subject { roles: vec![role.to_owned()], ..Subject::default() };
                let target =
                    Target::Fixed(Expression::new(name, Options { hidden: true, ..Options::OPEN }));
                let needs = [Need {
                    actions,
                    target,
                    is_copied: false,
                    shows_hidden_terms: false,
                    adds_names: false,
                }];
                let answer = answer(&privileges, &subject, &needs);
                let context =
                    format!("{evaluation:?} {systems:?} {role} {name} {}", known.is_some());
                let is_permitted = answer.verdict == Verdict::Permitted;
                assert_eq!(is_permitted, is_open || !is_protected, "{context} {answer:?}");
                let requirement = requirement(
                    &privileges,
                    (&needs, false),
                    |_| true,
                    &mut crate::Steps::new(usize::MAX),
                )
                .unwrap();
                let roles = subject.roles.iter().map(|role| role.as_str().into()).collect();
                let is_met = requirement.is_met_by(&roles, &subject.variables(&roles, evaluation));
                assert_eq!(is_met, is_permitted, "{context}");
            }
        }
    }
}
