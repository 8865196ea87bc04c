//! Properties of answers, for generated roles, clusters, callers and requests.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use document::MapFiles;
use generator::Rng;

use crate::config::EvaluationType;
use crate::explain::{names_of, requirement};
use crate::{
    Action, Answer, Dashboards, EvaluationSettings, Expression, Inventory, InventoryBuilder, Need,
    Options, Pattern, Privileges, SecurityConfig, Steps, Subject, Target, Verdict,
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
            1 => {
                "tenant_permissions: [{ tenant_patterns: ['*'], allowed_actions: [kibana_all_read] }]"
            }
            2 => {
                "tenant_permissions: [{ tenant_patterns: ['${user.name}'], allowed_actions: ['*'] }]"
            }
            _ => "tenant_permissions: []",
        };
        writeln!(
            text,
            "role{role}:\n  cluster_permissions: [{cluster}]\n  {tenants}\n  index_permissions:"
        )
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
            writeln!(
                text,
                "    - {{ index_patterns: [{patterns}], allowed_actions: [{actions}]{rule} }}"
            )
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
        hands_over_filters: rng.below(2) == 0,
        empty_overrides_all: rng.below(2) == 0,
        dashboards: (rng.below(4) > 0)
            .then(|| Dashboards { index: ".k".into(), server: "server".into() }),
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
        1 => Target::CreatedIfMissing(name.into()),
        2 => Target::AliasOrNewIndex(
            if rng.below(3) == 0 { pick(rng, ALIASES) } else { name }.into(),
        ),
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
            let expression =
                Expression::new(if is_unseen { "" } else { pick(rng, EXPRESSIONS) }, options);
            if rng.below(6) == 0 { Target::Fixed(expression) } else { Target::Indices(expression) }
        }
    }
}

/// A generated configuration and cluster.
struct World {
    roles: String,
    config: Arc<SecurityConfig>,
    settings: EvaluationSettings,
    inventory: Option<Arc<Inventory>>,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let roles = roles(rng);
        let config = config(&roles);
        let inventory = (rng.below(5) > 0).then(|| Arc::new(inventory(rng)));
        Self { roles, config, settings: settings(rng), inventory }
    }

    fn privileges(&self) -> Privileges {
        let (config, settings) = (self.config.clone(), self.settings.clone());
        Privileges::new(config, settings, self.inventory.clone())
    }

    fn describe(&self, subject: &Subject, needs: &[Need<'_>]) -> String {
        let Self { roles, settings, inventory, .. } = self;
        format!("{roles}\n{settings:?}\n{inventory:?}\n{subject:?}\n{needs:?}")
    }
}

fn config(roles: &str) -> Arc<SecurityConfig> {
    let files = MapFiles::new("os/roles.yml", roles);
    Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config)
}

fn subject(rng: &mut Rng) -> Subject {
    let team = pick(rng, &["a", "x", ".", "*", "?", "/.*/"]).to_owned();
    Subject {
        name: pick(rng, &["ann", "ann", "ann", "ann", "ann", "*", "a?", "server"]).to_owned(),
        roles: (0..=rng.below(3)).map(|_| role(rng)).collect(),
        attributes: vec![("attr.t".to_owned(), team)],
        is_service: rng.below(12) == 0,
        ..Subject::default()
    }
}

fn need(actions: &'static [Action], target: Target<'static>) -> Need<'static> {
    Need { actions, target, is_copied: false, shows_hidden_terms: false, adds_names: false }
}

/// The actions of requests.
struct Actions {
    on_indices: Vec<&'static [Action]>,
    on_cluster: Vec<&'static [Action]>,
}

impl Actions {
    fn new() -> Self {
        Self { on_indices: actions(ACTIONS), on_cluster: actions(CLUSTER_ACTIONS) }
    }

    fn need(&self, rng: &mut Rng) -> Need<'static> {
        if rng.below(10) == 0 {
            return need(self.on_cluster[rng.below(self.on_cluster.len())], Target::Cluster);
        }
        let need = need(self.on_indices[rng.below(self.on_indices.len())], target(rng));
        Need {
            is_copied: rng.below(10) == 0,
            shows_hidden_terms: rng.below(6) == 0,
            adds_names: rng.below(40) == 0,
            ..need
        }
    }
}

/// Permitted as it is, and nothing must be filtered.
fn is_whole(answer: &Answer) -> bool {
    answer.verdict == Verdict::Permitted && answer.filters.is_empty()
}

/// [`Privileges::permits`] looks up whether a request is permitted as it is, and
/// [`Privileges::decide_in_full`] works out the missing privileges in another way. The look-up is
/// never wider, with caches or without, and is enough for most requests. The requirement for a
/// request, which is for people, says the same of each caller.
#[test]
fn look_ups_permit_only_what_the_whole_evaluation_permits() {
    let actions = Actions::new();
    let mut rng = Rng::new(14);
    // Permitted, in part, denied; and those with filters.
    let mut seen = [0_usize; 4];
    // Of those permitted as they are and without filters, those for which look-ups were enough.
    let (mut whole, mut by_look_up) = (0_usize, 0_usize);
    for _ in 0..720 {
        let world = World::new(&mut rng);
        let privileges = world.privileges();
        for _ in 0..8 {
            let subject = subject(&mut rng);
            let caller = privileges.caller(&subject);
            let uncached = privileges.uncached_caller(&subject);
            for _ in 0..25 {
                let needs: Vec<Need<'_>> =
                    (0..=rng.below(8) / 6).map(|_| actions.need(&mut rng)).collect();
                let context = || world.describe(&subject, &needs);
                let answer = privileges.decide_in_full(&caller, &needs);
                let permits = privileges.permits(&caller, &needs);
                assert!(!permits || is_whole(&answer), "{answer:?}\n{}", context());
                assert_eq!(permits, privileges.permits(&uncached, &needs), "{}", context());
                assert_eq!(answer, privileges.decide(&uncached, &needs), "{}", context());
                if !subject.is_service && subject.name != "server" && rng.below(4) == 0 {
                    let is_met = meets_requirement(&world, &privileges, &subject, &needs);
                    let is_whole = is_whole(&answer);
                    // A requirement says who is restricted by no role, not whom another role frees
                    // from that.
                    let is_right =
                        is_met == is_whole || (world.settings.empty_overrides_all && is_whole);
                    assert!(is_right, "{}", context());
                }
                whole += usize::from(is_whole(&answer));
                by_look_up += usize::from(permits);
                seen[match answer.verdict {
                    Verdict::Permitted => 0,
                    Verdict::PermittedInPart(_) => 1,
                    Verdict::Denied => 2,
                }] += 1;
                seen[3] += usize::from(!answer.filters.is_empty());
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    assert!(by_look_up * 100 > whole * 75, "{by_look_up} of {whole}");
}

fn meets_requirement(
    world: &World,
    privileges: &Privileges,
    subject: &Subject,
    needs: &[Need<'_>],
) -> bool {
    let roles = world.config.roles_of(subject);
    let requirement =
        requirement(privileges, (needs, false), |_| true, &mut Steps::new(usize::MAX)).unwrap();
    requirement.is_met_by(&roles, &subject.variables(&roles, world.settings.evaluation))
}

/// A role that hides nothing only adds permissions. (With `legacy`, one that names the tenant of
/// Dashboards takes what `kibana_user` gives there away.)
#[test]
fn an_added_role_never_takes_a_permission_away() {
    let actions = Actions::new();
    let mut rng = Rng::new(15);
    let mut seen = [0_usize; 3];
    for _ in 0..100 {
        let mut world = World::new(&mut rng);
        let unrestricted = world.roles.lines().map(|line| {
            let rule = line.split_once(", dls").or_else(|| line.split_once(", fls"));
            rule.map_or_else(|| format!("{line}\n"), |(before, _)| format!("{before} }}\n"))
        });
        world.roles = unrestricted.collect();
        world.config = config(&world.roles);
        world.settings.dashboards = None;
        let privileges = world.privileges();
        for _ in 0..8 {
            let fewer = subject(&mut rng);
            let mut more = fewer.clone();
            more.roles.push(role(&mut rng));
            for _ in 0..25 {
                let needs = [actions.need(&mut rng)];
                let before = privileges.decide(&privileges.caller(&fewer), &needs);
                let after = privileges.decide(&privileges.caller(&more), &needs);
                let context = || format!("{}\n{:?}", world.describe(&fewer, &needs), more.roles);
                match (&before.verdict, &after.verdict) {
                    (Verdict::Permitted, verdict) => {
                        assert_eq!(*verdict, Verdict::Permitted, "{}", context());
                        seen[0] += 1;
                    }
                    (Verdict::PermittedInPart(few), Verdict::PermittedInPart(many)) => {
                        let is_kept = few[0].names.iter().all(|name| many[0].names.contains(name));
                        assert!(is_kept, "{}", context());
                        seen[1] += 1;
                    }
                    (Verdict::PermittedInPart(_), verdict) => {
                        assert_eq!(*verdict, Verdict::Permitted, "{}", context());
                    }
                    (Verdict::Denied, _) => seen[2] += 1,
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

/// A list of indices is permitted if each of them is.
#[test]
fn two_indices_are_permitted_if_each_is() {
    let actions = Actions::new();
    let mut rng = Rng::new(16);
    let (mut permitted, mut denied) = (0_usize, 0_usize);
    for _ in 0..400 {
        let world = World::new(&mut rng);
        let privileges = world.privileges();
        for _ in 0..8 {
            let subject = subject(&mut rng);
            let caller = privileges.caller(&subject);
            for _ in 0..10 {
                // Dashboards' index counts only where it is alone.
                let names = [pick(&mut rng, NAMES), pick(&mut rng, NAMES)];
                let actions = actions.on_indices[rng.below(actions.on_indices.len())];
                if names.iter().any(|name| name.starts_with(".k")) {
                    continue;
                }
                let list = |text: String| {
                    need(actions, Target::Indices(Expression::new(text, Options::OPEN)))
                };
                let is_permitted =
                    |text: String| is_whole(&privileges.decide(&caller, &[list(text)]));
                let each = names.iter().all(|name| is_permitted((*name).to_owned()));
                let both = is_permitted(names.join(","));
                assert_eq!(both, each, "{names:?}\n{}", world.describe(&subject, &[]));
                *(if both { &mut permitted } else { &mut denied }) += 1;
            }
        }
    }
    assert!(permitted > 500 && denied > 500, "{permitted} {denied}");
}

/// A request that is reduced to the permitted names is permitted as it is, and names nothing new.
#[test]
fn what_remains_of_a_request_is_permitted() {
    let actions = Actions::new();
    let mut rng = Rng::new(17);
    let mut seen = 0_usize;
    for _ in 0..600 {
        let mut world = World::new(&mut rng);
        // Its index counts only where it is alone.
        world.settings.dashboards = None;
        let privileges = world.privileges();
        for _ in 0..8 {
            let subject = subject(&mut rng);
            let caller = privileges.caller(&subject);
            for _ in 0..25 {
                let need = actions.need(&mut rng);
                let answer = privileges.decide(&caller, std::slice::from_ref(&need));
                let (Verdict::PermittedInPart(parts), Target::Indices(expression)) =
                    (&answer.verdict, &need.target)
                else {
                    continue;
                };
                let [part] = &**parts else { panic!("{parts:?}") };
                // No request is read that has a name such as `_all` in a list.
                if part.names.is_empty() || part.names.iter().any(|name| name.starts_with('_')) {
                    continue;
                }
                let reached = names_of(&privileges, &need.target);
                let context = || world.describe(&subject, std::slice::from_ref(&need));
                assert!(part.names.iter().all(|name| reached.contains(&&**name)), "{}", context());
                let narrowed = Expression::new(part.names.join(","), expression.options);
                let narrowed = Need { target: Target::Indices(narrowed), ..need.clone() };
                let again = privileges.decide(&caller, std::slice::from_ref(&narrowed));
                assert_eq!(again.verdict, Verdict::Permitted, "{parts:?} {again:?}\n{}", context());
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "{seen}");
}

/// Other letters, in another order. Neither are in the names that mean something by themselves.
fn rename(text: &str) -> String {
    let letter = |letter| match letter {
        'a' => 'z',
        'b' => 'j',
        'c' => 'q',
        'x' => 'v',
        'y' => 'h',
        letter => letter,
    };
    match text {
        "_all" | ".opendistro_security" | "missing" | "missing*" | "nothing" => text.to_owned(),
        text => text.chars().map(letter).collect(),
    }
}

/// An answer depends on names only by what matches them. Here roles, cluster and request have other
/// names.
#[test]
fn renamed_indices_have_renamed_answers() {
    let actions = Actions::new();
    let (mut permitted, mut denied) = (0_usize, 0_usize);
    for seed in 0..300 {
        let mut rng = Rng::new(1_000 + seed);
        let plain: Vec<&str> =
            PATTERNS.iter().copied().filter(|text| !text.contains('$')).collect();
        let patterns: Vec<Vec<&str>> =
            (0..3).map(|_| (0..2).map(|_| pick(&mut rng, &plain)).collect()).collect();
        let allowed: Vec<&str> = (0..3).map(|_| pick(&mut rng, ALLOWED)).collect();
        let roles = |rename: fn(&str) -> String| {
            let mut text = "_meta: { type: roles, config_version: 2 }\n".to_owned();
            for (number, (patterns, allowed)) in patterns.iter().zip(&allowed).enumerate() {
                let patterns: Vec<String> =
                    patterns.iter().map(|pattern| format!("'{}'", rename(pattern))).collect();
                writeln!(
                    text,
                    "role{number}: {{ index_permissions: [{{ index_patterns: [{}], allowed_actions: [{allowed}] }}] }}",
                    patterns.join(", ")
                )
                .unwrap();
            }
            text
        };
        let indices: Vec<(&str, bool)> = NAMES
            .iter()
            .filter(|name| !name.contains("tasks") && rng.below(4) > 0)
            .map(|name| (*name, name.starts_with('.')))
            .collect();
        let members: Vec<&str> =
            (0..2).map(|_| pick(&mut rng, &["a", "ab", "b", "c", ".a"])).collect();
        let evaluation =
            if rng.below(2) == 0 { EvaluationType::Legacy } else { EvaluationType::V4 };
        let privileges = |rename: fn(&str) -> String| {
            let mut builder = InventoryBuilder::default();
            for (name, is_hidden) in &indices {
                builder.index(&rename(name), true, *is_hidden);
            }
            let members: Vec<String> = members.iter().map(|name| rename(name)).collect();
            builder.alias(&rename("x"), members.iter().map(String::as_str));
            let settings = EvaluationSettings {
                evaluation,
                system_indices: vec![Pattern::parse(&rename(".a*").into()).unwrap()],
                dashboards: None,
                do_not_fail_on_forbidden: true,
                ..EvaluationSettings::default()
            };
            let inventory = Some(Arc::new(builder.build()));
            Privileges::new(config(&roles(rename)), settings, inventory)
        };
        let (original, renamed) = (privileges(str::to_owned), privileges(rename));
        let subject = Subject {
            name: "-".to_owned(),
            roles: (0..=rng.below(3)).map(|number| format!("role{number}")).collect(),
            ..Subject::default()
        };
        for text in
            EXPRESSIONS.iter().filter(|text| !text.contains(".tasks") && !text.contains("_all,"))
        {
            let rename_list = || text.split(',').map(rename).collect::<Vec<_>>().join(",");
            let actions = actions.on_indices[rng.below(actions.on_indices.len())];
            let decide = |privileges: &Privileges, text: String| {
                let target = Target::Indices(Expression::new(text, Options::OPEN));
                let answer =
                    privileges.decide(&privileges.caller(&subject), &[need(actions, target)]);
                let parts = match answer.verdict {
                    Verdict::PermittedInPart(parts) => {
                        Some(parts.into_iter().flat_map(|part| part.names).collect::<BTreeSet<_>>())
                    }
                    Verdict::Permitted => None,
                    Verdict::Denied => Some(BTreeSet::new()),
                };
                let missing = answer.missing.into_iter();
                let missing: BTreeSet<_> =
                    missing.map(|cell| (cell.action, cell.name, cell.reason)).collect();
                (parts, missing)
            };
            let (parts, missing) = decide(&original, (*text).to_owned());
            let (renamed_parts, renamed_missing) = decide(&renamed, rename_list());
            let context =
                || format!("{text} {}\n{evaluation:?} {}", rename_list(), roles(str::to_owned));
            let wanted =
                parts.map(|names| names.iter().map(|name| rename(name)).collect::<BTreeSet<_>>());
            *(if wanted.is_none() { &mut permitted } else { &mut denied }) += 1;
            assert_eq!(wanted, renamed_parts, "{}", context());
            let cells = missing.into_iter();
            let wanted = cells.map(|(action, name, reason)| {
                let parts: Vec<String> = name.split(',').map(rename).collect();
                (action, parts.join(","), reason)
            });
            assert_eq!(wanted.collect::<BTreeSet<_>>(), renamed_missing, "{}", context());
        }
    }
    assert!(permitted > 500 && denied > 500, "{permitted} {denied}");
}
