//! A decision about a caller, an action and an expression that have been seen allocates nothing.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{
    Action, EvaluationSettings, Expression, InventoryBuilder, MAX_FILTERS, Need, Options,
    Privileges, Target,
};

use crate::requests::{config, request, subject};

const ROLES: &str = "reader:
  cluster_permissions: ['indices:data/read/*']
  index_permissions:
    - { index_patterns: ['logs-*', 'own-${user.name}', '*-b*c', '/x[0-9]+/'], allowed_actions: [read] }
";

#[test]
fn a_permitted_request_allocates_nothing() {
    let mut builder = InventoryBuilder::default();
    builder
        .index("logs-1", true, false)
        .index("own-ann", true, false)
        .alias("logs-all", ["logs-1"]);
    let inventory = Some(Arc::new(builder.build()));
    for inventory in [inventory, None] {
        let settings = EvaluationSettings::default();
        let privileges = Privileges::new(config(ROLES), settings, inventory);
        let caller = privileges.caller(&subject(&["reader"]));
        for text in [
            "logs-1",
            "logs-new",
            "logs-1,logs-new",
            "logs-*",
            "own-ann",
            "a-bbc",
            "x17",
            "logs-all",
        ] {
            let need = searching(Target::Indices(Expression::new(text, Options::OPEN)));
            let cluster = searching(Target::Cluster);
            assert!(privileges.permits(&caller, [&need]), "{text}");
            let mut permitted = false;
            let counted = allocation_counter::measure(|| {
                permitted = privileges.permits(&caller, [&cluster, &need])
            });
            assert!(permitted, "{text}");
            assert_eq!(counted.count_total, 0, "{text}");
        }
    }
}

/// The names are known since the first request: only the path with them is made anew.
#[test]
fn a_request_with_names_in_place_of_patterns_allocates_its_path_only() {
    let mut builder = InventoryBuilder::default();
    let inventory = builder.index("logs-1", true, false).index("own-ann", true, false).build();
    let settings = EvaluationSettings::default();
    let privileges = Privileges::new(config(ROLES), settings, Some(Arc::new(inventory)));
    let caller = privileges.caller(&subject(&["reader"]));
    for (target, wanted) in [
        ("/logs-*/_search", None),
        ("/o*/_search?size=1", Some("/own-ann/_search?size=1&ignore_unavailable=true")),
        ("/_search", Some("/_search?index=logs-1,own-ann&ignore_unavailable=true")),
    ] {
        let request = request("GET", target, "");
        let mut needs = Vec::new();
        search::read(&request, &mut needs).unwrap();
        assert_eq!(
            privileges.with_names_for_patterns(&caller, &request, &needs).as_deref(),
            wanted
        );
        let counted = allocation_counter::measure(|| {
            drop(privileges.with_names_for_patterns(&caller, &request, &needs))
        });
        assert_eq!(counted.count_total, u64::from(wanted.is_some()), "{target}");
    }
}

/// Found by an attack: a request with 900 look-ups on an alias with 10,000 indices took 5 s, in
/// which each filter was made 900 times.
#[test]
fn the_filters_of_a_request_are_made_once_and_no_more_than_fit_into_the_header() {
    const NEEDS: usize = 900;
    let roles = "hiding: { index_permissions: [{ index_patterns: [all, 'logs-*'], allowed_actions: [read], dls: '{\"term\":{\"a\":1}}' }] }
";
    for (evaluation, members) in [
        (EvaluationType::Legacy, 300),
        (EvaluationType::V4, 300),
        (EvaluationType::Legacy, 10_000),
        (EvaluationType::V4, 10_000),
    ] {
        let names: Vec<String> = (0..members).map(|number| format!("logs-{number}")).collect();
        let mut builder = InventoryBuilder::default();
        for name in &names {
            builder.index(name, true, false);
        }
        let inventory = builder.alias("all", names.iter().map(String::as_str)).build();
        let settings = EvaluationSettings {
            evaluation,
            hands_over_filters: true,
            dashboards: None,
            ..EvaluationSettings::default()
        };
        let privileges = Privileges::new(config(roles), settings, Some(Arc::new(inventory)));
        let caller = privileges.caller(&subject(&["hiding"]));
        for text in ["all", "logs-*"] {
            let needs = vec![searching_in(text); NEEDS];
            let mut filters = 0;
            let counted = allocation_counter::measure(|| {
                filters = privileges.decide(&caller, &needs).filters.len();
            });
            assert!(filters <= MAX_FILTERS + 1, "{filters} of {members}");
            // Each need is still resolved, but its filters are not made again.
            let most = (MAX_FILTERS * 30 + NEEDS * 60) as u64;
            assert!(
                counted.count_total < most,
                "{evaluation:?} {members}: {}",
                counted.count_total
            );
        }
    }
}

fn privileges(roles: &str, inventory: &InventoryBuilder) -> Privileges {
    let settings = EvaluationSettings {
        hands_over_filters: true,
        dashboards: None,
        ..EvaluationSettings::default()
    };
    Privileges::new(config(roles), settings, Some(Arc::new(inventory.build())))
}

fn searching_in(text: &str) -> Need<'_> {
    searching(Target::Fixed(Expression::new(text, Options::OPEN)))
}

fn searching(target: Target<'_>) -> Need<'_> {
    let actions = Vec::leak(vec![Action::named("indices:data/read/search").unwrap()]);
    Need { actions, target, is_copied: false, shows_hidden_terms: false, adds_names: false }
}

/// A search of 50,000 names took seconds: each of them gathered anew what the caller's values hide.
#[test]
fn what_is_hidden_by_values_of_a_caller_is_worked_out_once() {
    const NEEDS: usize = 900;
    let hiding = |pattern: &str| {
        format!(
            "  - {{ index_patterns: ['{pattern}'], allowed_actions: [read], dls: '{{\"term\":{{\"a\":1}}}}' }}\n"
        )
    };
    let roles = format!(
        "hiding:\n  index_permissions:\n  - {{ index_patterns: [other], allowed_actions: [read] }}\n{}{}",
        hiding("${user.name}-*"),
        (0..100).map(|number| hiding(&format!("n*{number}"))).collect::<String>()
    );
    let mut builder = InventoryBuilder::default();
    for number in 0..10_000 {
        builder.index(&format!("ann-{number}"), true, false);
    }
    let privileges = privileges(&roles, builder.index("other", true, false));
    let caller = privileges.caller(&subject(&["hiding"]));
    let mut found = usize::MAX;
    let needs = vec![searching_in("other"); NEEDS];
    let counted = allocation_counter::measure(|| {
        found = privileges.decide(&caller, &needs).missing.len();
    });
    assert_eq!(found, 0);
    let each = (counted.count_total / NEEDS as u64, counted.bytes_total / NEEDS as u64);
    assert!(each.0 < 60 && each.1 < 4_000, "{each:?} allocations and bytes each");
}

/// Each pattern gathered all names that begin with a dot, though it is counted as one that matches
/// none.
#[test]
fn a_pattern_that_begins_with_a_dot_costs_no_more_than_others() {
    const PATTERNS: usize = 500;
    let roles = "r: { index_permissions: [{ index_patterns: [a], allowed_actions: [read] }] }";
    let mut builder = InventoryBuilder::default();
    for number in 0..10_000 {
        builder.index(&format!(".x-{number}"), true, number < 5_000);
    }
    let privileges = privileges(roles, builder.index("a", true, false));
    let caller = privileges.caller(&subject(&["r"]));
    let patterns = (0..PATTERNS).map(|number| format!(".y{number}*")).collect::<Vec<_>>().join(",");
    let needs = [searching_in(&patterns)];
    let counted = allocation_counter::measure(|| drop(privileges.decide(&caller, &needs)));
    let each = counted.bytes_total / PATTERNS as u64;
    assert!(each < 1_000, "{each} bytes for each pattern");
}
