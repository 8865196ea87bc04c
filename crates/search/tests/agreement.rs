//! The compiled evaluator gives the same answer as the reference evaluator, on generated roles, clusters, subjects and
//! requests; and those meet the requirement of a request whom the reference evaluator permits it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed set-up is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use document::MapFiles;
use generator::Rng;
use search::config::EvaluationType;
use search::reference::Reference;
use search::{
    Action, Answer, Dashboards, EvaluationSettings, Expression, Inventory, InventoryBuilder, Need, Options,
    Pattern, Privileges, Resolution, SecurityConfig, Steps, Subject, Target, Verdict,
};

/// Few and short, so that names, patterns and expressions meet.
const NAMES: &[&str] = &[
    "a",
    "ab",
    "abc",
    "b",
    "ba",
    "bab",
    "c",
    ".a",
    ".ab",
    ".b",
    "a-ann",
    "ann",
    ".opendistro_security",
    ".k",
    ".k-1",
    ".k-2",
    ".tasks-1",
    "a\u{1F600}",
];
const GROUPS: &[&str] = &["x", "xa", "ax", "y", ".x"];
const PATTERNS: &[&str] = &[
    "*",
    "a*",
    "ab*",
    "b*",
    ".*",
    ".a*",
    "*b",
    "*a*",
    "a",
    "ab",
    "x",
    "x*",
    "y",
    "?b",
    "a?*",
    "/a.*b?/",
    "/(?!a).*/",
    "${user.name}",
    "a-${user.name}",
    "${attr.t}*",
    "${attr.none}",
    "${attr.t:-a}b",
    "/a.*/",
    "?k",
    ".t*",
    "nothing",
    ".opendistro_security",
];
const EXPRESSIONS: &[&str] = &[
    "",
    "*",
    "_all",
    "a*",
    "b*",
    ".*",
    "*b*",
    "a*,-ab",
    "a*,-ab*",
    "*,-b",
    "x",
    "x*",
    "x,a",
    "y",
    "missing",
    "a,missing",
    "x,missing",
    "a*,missing",
    "missing*",
    "ann",
    "a-ann",
    ".a",
    ".b,a",
    ".opendistro_security",
    ".o*",
    "a,a",
    "-a",
    "*,-*",
    "y*,-y",
    "x*,-xa,-ax",
    ".a*,-*a*",
    "*,-.a*",
    "a,b,c",
    "ax,xa",
    ".k",
    ".k*",
    ".k,.k",
    "a\u{1F600}",
    ".x",
    "a-*",
    "_all,a",
    ".tasks-1",
    ".t*",
    ".k-1",
    ".k-1,.k-1",
    ".k-2",
    ".k-1,.k-2",
    ".k-*",
    ".k-3",
    ".k*,-.k-1",
    "*,-x",
];
/// Patterns of aliases, for which nothing is looked up.
const ALIASES: &[&str] = &["_all", "*", "a*", "x*", "*-*", ".o*", "?*"];
const ACTIONS: &[&[&str]] = &[
    &["indices:data/read/search"],
    &["indices:data/read/get"],
    &["indices:data/read/field_caps"],
    &["indices:data/write/bulk[s]", "indices:data/write/index"],
    &["indices:data/write/bulk[s]", "indices:data/write/delete", "indices:data/write/update"],
    &["indices:admin/delete"],
    &["indices:admin/rollover", "indices:monitor/stats"],
    &["indices:admin/aliases/get"],
    &["indices:monitor/stats"],
    &["indices:data/read/search", "indices:admin/shards/search_shards"],
];
const ALLOWED: &[&str] = &[
    "'*'",
    "read",
    "write",
    "crud",
    "search",
    "indices_all",
    "'indices:data/*'",
    "'indices:data/read/search'",
    "'indices:data/write/bulk*'",
    "'indices:data/write/index'",
    "'system:admin/system_index'",
    "'indices:admin/*'",
];
const CLUSTER: &[&str] = &["'*'", "cluster_composite_ops", "'cluster:monitor/*'", "cluster_all"];
const CLUSTER_ACTIONS: &[&[&str]] = &[
    &["indices:data/write/bulk"],
    &["cluster:monitor/health"],
    &["indices:data/read/mget"],
    &["indices:data/read/point_in_time/readall"],
];

fn pick<'a, T: ?Sized>(rng: &mut Rng, from: &[&'a T]) -> &'a T {
    from[rng.below(from.len())]
}

fn some(rng: &mut Rng, from: &[&str], most: usize) -> String {
    let count = 1 + rng.below(most);
    (0..count).map(|_| pick(rng, from).to_owned()).collect::<Vec<_>>().join(", ")
}

fn roles(rng: &mut Rng) -> String {
    let mut text = "_meta: { type: roles, config_version: 2 }\n".to_owned();
    for role in 0..4 {
        let cluster = some(rng, CLUSTER, 2);
        let tenants = match rng.below(6) {
            0 => {
                "tenant_permissions: [{ tenant_patterns: ['global*'], allowed_actions: [kibana_all_write] }]"
            }
            1 => "tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: [kibana_all_read] }]",
            2 => "tenant_permissions: [{ tenant_patterns: ['${user.name}'], allowed_actions: ['*'] }]",
            _ => "tenant_permissions: []",
        };
        writeln!(text, "role{role}:\n  cluster_permissions: [{cluster}]\n  {tenants}\n  index_permissions:")
            .unwrap();
        for _ in 0..=rng.below(3) {
            let patterns: Vec<String> =
                (0..=rng.below(3)).map(|_| format!("'{}'", pick(rng, PATTERNS))).collect();
            let rule = match rng.below(12) {
                0 => r#", dls: '{"term":{"u":"${user.name}"}}'"#,
                1 => r#", dls: '{"term":{"u":"${attr.none}"}}'"#,
                2 => ", fls: ['~f'], masked_fields: [m]",
                3 => ", fls: [g, h]",
                4 => ", fls: ['!g']",
                _ => "",
            };
            let actions = some(rng, ALLOWED, 3);
            let patterns = patterns.join(", ");
            writeln!(text, "    - {{ index_patterns: [{patterns}], allowed_actions: [{actions}]{rule} }}")
                .unwrap();
        }
    }
    text
}

/// One that there may not be.
fn role(rng: &mut Rng) -> String {
    match rng.below(6) {
        5 => "kibana_user".to_owned(),
        number => format!("role{number}"),
    }
}

fn inventory(rng: &mut Rng) -> Inventory {
    let mut builder = InventoryBuilder::default();
    for name in NAMES {
        if *name == ".k" && rng.below(3) == 0 {
            builder.alias(name, [".k-1"]);
        } else if rng.below(4) > 0 {
            builder.index(name, rng.below(5) > 0, name.starts_with('.') && rng.below(3) > 0);
        }
    }
    for group in GROUPS {
        let members: Vec<&str> = (0..=rng.below(3)).map(|_| pick(rng, NAMES)).collect();
        match rng.below(3) {
            0 => {}
            1 => drop(builder.alias(group, members)),
            _ => drop(builder.data_stream(group, members)),
        }
        if rng.below(4) == 0 {
            builder.hide(group);
        }
    }
    builder.build()
}

fn settings(rng: &mut Rng) -> EvaluationSettings {
    let evaluation = if rng.below(2) == 0 { EvaluationType::Legacy } else { EvaluationType::V4 };
    let patterns = |rng: &mut Rng, from: &[&str]| match rng.below(3) {
        0 => vec![Pattern::parse(&pick(rng, from).into()).unwrap()],
        _ => Vec::new(),
    };
    EvaluationSettings {
        evaluation,
        do_not_fail_on_forbidden: rng.below(2) == 0,
        do_not_fail_on_forbidden_empty: rng.below(2) == 0,
        ignore_unauthorized_indices: rng.below(3) > 0,
        system_indices: patterns(rng, &[".a*", "ab", "*b"]),
        protected_indices: patterns(rng, &["a*", "c", "*"]),
        protected_roles: patterns(rng, &["role1", "none"]),
        hands_over_filters: rng.below(2) == 0,
        empty_overrides_all: rng.below(2) == 0,
        dashboards: (rng.below(4) > 0).then(|| Dashboards { index: ".k".into(), server: "server".into() }),
        ..EvaluationSettings::default()
    }
}

fn actions(lists: &[&[&str]]) -> Vec<&'static [Action]> {
    let list = |names: &&[&str]| -> &'static [Action] {
        Vec::leak(names.iter().map(|name| Action::named(name).unwrap()).collect())
    };
    lists.iter().map(list).collect()
}

fn target(rng: &mut Rng) -> Target<'static> {
    let name = if rng.below(3) == 0 { pick(rng, GROUPS) } else { pick(rng, NAMES) };
    match rng.below(12) {
        0 => Target::Name(name.into()),
        1 => Target::Missing(name.into()),
        2 => Target::AddedName(if rng.below(3) == 0 { pick(rng, ALIASES) } else { name }.into()),
        3 => Target::Name("missing".into()),
        _ => {
            let mut flag = |of: usize| rng.below(of) == 0;
            let options = Options {
                open: !flag(8),
                closed: flag(4),
                hidden: flag(4),
                ignore_unavailable: flag(4),
                allow_no_indices: !flag(4),
            };
            let is_unseen = flag(30);
            let options = Options {
                closed: options.closed || is_unseen,
                hidden: options.hidden || is_unseen,
                ..options
            };
            let expression = Expression::new(if is_unseen { "" } else { pick(rng, EXPRESSIONS) }, options);
            if rng.below(6) == 0 { Target::Fixed(expression) } else { Target::Indices(expression) }
        }
    }
}

#[test]
fn both_evaluators_give_the_same_answer() {
    let (on_indices, on_cluster) = (actions(ACTIONS), actions(CLUSTER_ACTIONS));
    let mut rng = Rng::new(14);
    // Permitted, in part, denied; and those with filters.
    let mut seen = [0_usize; 4];
    // Of those permitted as they are and without filters, those for which look-ups were enough.
    let (mut whole, mut by_look_up) = (0_usize, 0_usize);
    for _ in 0..720 {
        let text = roles(&mut rng);
        let files = MapFiles::of("os/roles.yml", text.as_str());
        let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
        let inventory = (rng.below(5) > 0).then(|| Arc::new(inventory(&mut rng)));
        let settings = settings(&mut rng);
        let resolution = Resolution::MappingOnly;
        let privileges = Privileges::new(config.clone(), settings.clone(), resolution, inventory.clone());
        let reference =
            Reference { config: &config, resolution, settings: &settings, inventory: inventory.as_deref() };
        for _ in 0..8 {
            let subject = Subject {
                name: pick(&mut rng, &["ann", "ann", "ann", "ann", "ann", "*", "a?", "server"]).to_owned(),
                roles: (0..=rng.below(3)).map(|_| role(&mut rng)).collect(),
                attributes: vec![(
                    "attr.t".to_owned(),
                    pick(&mut rng, &["a", "x", ".", "*", "?", "/.*/"]).to_owned(),
                )],
                is_service: rng.below(12) == 0,
                ..Subject::default()
            };
            let caller = privileges.caller(&subject);
            for _ in 0..25 {
                let need = |rng: &mut Rng| match rng.below(10) {
                    0 => Need {
                        actions: on_cluster[rng.below(on_cluster.len())],
                        target: Target::Cluster,
                        is_copied: false,
                        shows_hidden_terms: false,
                        adds_names: false,
                    },
                    _ => Need {
                        actions: on_indices[rng.below(on_indices.len())],
                        target: target(rng),
                        is_copied: rng.below(10) == 0,
                        shows_hidden_terms: rng.below(6) == 0,
                        adds_names: rng.below(40) == 0,
                    },
                };
                let needs: Vec<Need<'_>> = (0..=rng.below(8) / 6).map(|_| need(&mut rng)).collect();
                let expected = reference.evaluate(&subject, &needs);
                let found = privileges.decide(&caller, &needs);
                let is_whole = expected.verdict == Verdict::Permitted && expected.filters.is_empty();
                let permits = privileges.permits(&caller, &needs);
                assert!(!permits || is_whole, "{expected:?} {needs:?}");
                if !subject.is_service && subject.name != "server" && rng.below(4) == 0 {
                    let roles = config.roles_of(&subject, resolution);
                    let requirement =
                        privileges.requirement(&needs, |_| true, &mut Steps::new(usize::MAX)).unwrap();
                    let is_met =
                        requirement.is_met_by(&roles, &subject.variables(&roles, settings.evaluation));
                    // A requirement says who is restricted by no role, not whom another role frees from that.
                    let is_right = is_met == is_whole || (settings.empty_overrides_all && is_whole);
                    assert!(
                        is_right,
                        "{text}\n{settings:?}\n{inventory:?}\n{subject:?}\n{needs:?}\n{requirement:?}"
                    );
                }
                whole += usize::from(is_whole);
                by_look_up += usize::from(permits);
                assert_same(&found, &expected, || {
                    format!("{text}\n{settings:?}\n{inventory:?}\n{subject:?}\n{needs:?}")
                });
                seen[match expected.verdict {
                    Verdict::Permitted => 0,
                    Verdict::PermittedInPart(_) => 1,
                    Verdict::Denied => 2,
                }] += 1;
                seen[3] += usize::from(!expected.filters.is_empty());
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    assert!(by_look_up * 100 > whole * 75, "{by_look_up} of {whole}");
}

fn assert_same(found: &Answer, expected: &Answer, context: impl Fn() -> String) {
    assert!(found == expected, "{}\n   found: {found:?}\nexpected: {expected:?}", context());
}
