//! The bound on the work for the names and patterns of a request.

use std::path::Path;
use std::sync::Arc;

use document::MapFiles;

use super::*;
use crate::{Action, EvaluationSettings, Expression, InventoryBuilder, Options, SecurityConfig};

const TOO_MANY: Result<(), Problem> =
    Err(Problem::Unsupported("so many patterns or unknown names of indices"));

fn privileges(indices: usize) -> Privileges {
    let roles = "_meta: { type: roles, config_version: 2 }\n\
        r: { index_permissions: [{ index_patterns: ['*-a', '/b.*/'], allowed_actions: [read] }] }\n";
    let mut builder = InventoryBuilder::default();
    for number in 0..indices {
        builder.index(&format!("logs-{number}"), true, false);
    }
    builder.alias(
        "all",
        (0..indices)
            .map(|number| format!("logs-{number}"))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str),
    );
    compile(roles, Some(builder.build()).filter(|_| indices > 0))
}

fn compile(roles: &str, inventory: Option<Inventory>) -> Privileges {
    let files = MapFiles::new("os/roles.yml", roles);
    let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
    let settings = EvaluationSettings::default();
    Privileges::new(config, settings, inventory.map(Arc::new))
}

fn search<'a>(target: Target<'a>) -> Need<'a> {
    const SEARCH: &[Action] = &[Action::new("indices:data/read/search")];
    Need { actions: SEARCH, target, is_copied: false, shows_hidden_terms: false, adds_names: false }
}

fn listed(part: &str, count: usize) -> Need<'static> {
    let text = vec![part; count].join(",");
    search(Target::Fixed(Expression::new(text, Options::OPEN)))
}

#[test]
fn patterns_are_bounded_by_what_they_are_compared_with() {
    let large = privileges(10_000);
    // Each is compared with 10,000 names, and adds the members of the alias that it may match.
    let numbered: Vec<String> = (0..190).map(|number| format!("*{number}")).collect();
    assert_eq!(large.bound(&[listed(&numbered.join(","), 1)]), TOO_MANY);
    assert_eq!(large.bound(&[listed("*9", 300)]), TOO_MANY);
    assert_eq!(large.bound(&vec![listed("*9", 1); 300]), TOO_MANY, "in several needs");
    assert_eq!(large.bound(&vec![listed("*9", 1); 40]), Ok(()), "as in a search for each panel");
    let different: Vec<_> = (0..40).map(|number| listed(&format!("*{number}"), 1)).collect();
    assert_eq!(large.bound(&different), TOO_MANY);
    assert_eq!(large.bound(&[listed("*9", 20)]), Ok(()));
    assert_eq!(large.bound(&[listed("logs-*", 2_000)]), Ok(()));
    assert_eq!(large.bound(&[listed("logs-*9", 300)]), TOO_MANY);
    // Each adds the 10,000 members of the alias.
    assert_eq!(large.bound(&[listed("a*", 300)]), TOO_MANY);
    assert_eq!(large.bound(&[listed("all", 300)]), TOO_MANY);
    assert_eq!(large.bound(&[listed("*,-*9", 40)]), TOO_MANY);
    assert_eq!(privileges(10).bound(&[listed("*9", 5_000)]), Ok(()));
}

/// Each adds the members of the alias.
#[test]
fn single_names_of_large_aliases_are_bounded() {
    let needs = |name: &'static str, count| vec![search(Target::Name(name.into())); count];
    let large = privileges(10_000);
    assert_eq!(large.bound(&needs("all", 300)), TOO_MANY);
    assert_eq!(large.bound(&needs("all", 100)), Ok(()));
    assert_eq!(large.bound(&needs("logs-1", 1_000)), Ok(()));
    assert_eq!(privileges(1_000).bound(&needs("all", 1_000)), Ok(()));
}

#[test]
fn ordinary_patterns_are_not_bounded() {
    let large = privileges(10_000);
    let days: Vec<String> = (1..6).map(|day| format!("logs-{day}.11.*,logs-{day}*-a")).collect();
    assert_eq!(large.bound(&[listed(&days.join(","), 1)]), Ok(()));
    assert_eq!(large.bound(&[listed("logs-2026.11.25", 20)]), Ok(()));
    for pattern in ["*", "*9", "logs-*9,-logs-1*", "*,-none-1", "*8,*9"] {
        assert_eq!(privileges(100_000).bound(&[listed(pattern, 1)]), Ok(()), "{pattern}");
    }
    assert_eq!(privileges(100_000).bound(&[listed("logs-*", 200)]), Ok(()));
    assert_eq!(privileges(300_000).bound(&[listed("*9*9", 1)]), Ok(()), "a single one");
}

#[test]
fn long_names_count_as_several() {
    let mut builder = InventoryBuilder::default();
    for number in 0..1_000 {
        builder.index(&format!("{}{number}", "long-".repeat(40)), true, false);
    }
    let large = with_globs(2, Some(builder.build()));
    assert_eq!(large.bound(&[listed("*x", 20)]), Ok(()));
    assert_eq!(large.bound(&[listed("*x", 60)]), TOO_MANY);
    let pattern = format!("*{}x", "long-".repeat(40));
    assert_eq!(large.bound(&[listed(&pattern, 20)]), TOO_MANY);
}

/// The privileges of a role with patterns that must be compared one by one.
fn with_globs(globs: usize, inventory: Option<Inventory>) -> Privileges {
    let patterns: Vec<String> = (0..globs).map(|number| format!("'*-team{number}-*-x'")).collect();
    let roles = format!(
        "_meta: {{ type: roles, config_version: 2 }}\n\
         r: {{ index_permissions: [{{ index_patterns: ['logs-*', {}], allowed_actions: [read] }}] }}\n",
        patterns.join(",")
    );
    compile(&roles, inventory)
}

const OF_LOOK_UP: &[Action] = &[
    Action::new("indices:data/read/get"),
    Action::new("indices:data/read/mget[shard]"),
    Action::new("indices:data/read/search"),
    Action::new("indices:data/read/tv"),
];

fn named(length: usize) -> Need<'static> {
    Need { actions: OF_LOOK_UP, ..search(Target::Name("n".repeat(length).into())) }
}

#[test]
fn names_are_bounded_by_their_length_and_by_what_is_done_to_them() {
    let globs = with_globs(39, None);
    assert_eq!(globs.bound(&vec![named(200); 40_000]), TOO_MANY);
    assert_eq!(
        globs.bound(&vec![named(200); 1_000]),
        TOO_MANY,
        "so few of short names are not counted"
    );
    assert_eq!(globs.bound(&vec![named(20); 1_000]), Ok(()));
    assert_eq!(globs.bound(&vec![named(20); 40_000]), TOO_MANY);
    let list = vec!["n".repeat(200); 2_000].join(",");
    assert_eq!(globs.bound(&[listed(&list, 1)]), TOO_MANY);
}

/// Each makes an index and writes to it. Most patterns are prefixes.
#[test]
fn ordinary_bulk_requests_are_not_bounded() {
    const CREATE: &[Action] = &[Action::new("indices:admin/create")];
    let items = |count| {
        let name = |number: usize| format!("logs-2026.11.{number:07}");
        let of_item = |number: usize| {
            let made =
                Need { actions: CREATE, ..search(Target::CreatedIfMissing(name(number).into())) };
            let written = Need { actions: OF_LOOK_UP, ..search(Target::Name(name(number).into())) };
            [made, written]
        };
        (0..count).flat_map(of_item).collect::<Vec<_>>()
    };
    let roles: String = (0..40)
        .map(|number| {
            format!("r{number}: {{ index_permissions: [{{ index_patterns: [a{number}, 'b{number}-*', 'c{number}.*'] }}] }}\n")
        })
        .collect();
    let roles = format!("_meta: {{ type: roles, config_version: 2 }}\n{roles}");
    let ordinary = compile(&roles, None);
    for count in [1_000, 20_000, 25_000] {
        assert_eq!(ordinary.bound(&items(count)), Ok(()), "{count}");
    }
    assert_eq!(with_globs(80, None).bound(&items(1_000)), Ok(()));
}

#[test]
fn names_are_bounded_by_the_patterns_that_they_are_compared_with() {
    let small = privileges(0);
    let name = || search(Target::CreatedIfMissing("none".into()));
    assert_eq!(small.bound(&[listed("none", 50_000)]), Ok(()));
    assert_eq!(small.bound(&vec![name(); 50_000]), Ok(()));
    assert_eq!(small.bound(&vec![name(); 700_000]), TOO_MANY);
}
