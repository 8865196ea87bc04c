//! A pattern that is permitted only because of what the inventory has is forwarded as the names that it stands for, so that it
//! reaches no index that was created since.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use generator::Rng;
use policy::MapFiles;
use search::config::EvaluationType;
use search::reference::Reference;
use search::{
    EvaluationSettings, Expression, Inventory, InventoryBuilder, Need, Options, Part, Pattern, Privileges,
    Request, RequestBody, Resolution, SecurityConfig, Subject, Target, Verdict, matches, read,
};

fn config(roles: &str) -> Arc<SecurityConfig> {
    let files = MapFiles::of("os/roles.yml", format!("_meta: {{ type: roles, config_version: 2 }}\n{roles}"));
    Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config)
}

fn request<'a>(method: &'a str, target: &'a str, body: &'a str) -> Request<'a> {
    Request {
        method,
        target,
        content_type: Some("application/json"),
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(body.as_bytes()),
        now: Request::time(std::time::Duration::ZERO),
    }
}

fn subject(roles: &[&str]) -> Subject {
    Subject {
        name: "ann".to_owned(),
        roles: roles.iter().map(ToString::to_string).collect(),
        ..Subject::default()
    }
}

/// How a permitted request is forwarded; `None` if as it is.
fn forwarded(
    privileges: &Privileges,
    roles: &[&str],
    (method, target, body): (&str, &str, &str),
) -> Option<String> {
    let request = request(method, target, body);
    let mut needs = Vec::new();
    read(&request, &mut needs).unwrap();
    let callers =
        [privileges.caller(&subject(roles)), privileges.uncached_caller(&subject(roles))].map(|caller| {
            assert_eq!(privileges.decide(&caller, &needs).verdict, Verdict::Permitted, "{method} {target}");
            privileges.forwarded(&caller, &request, &needs)
        });
    assert_eq!(callers[0], callers[1], "{method} {target}: with and without caches");
    callers[0].clone()
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
    let inventory = builder.index(".ds-app-1", true, true).data_stream("app", [".ds-app-1"]).build();
    Privileges::new(config(ROLES), settings, Resolution::MappingOnly, Some(Arc::new(inventory)))
}

#[test]
fn a_pattern_that_no_role_covers_is_forwarded_as_names() {
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        let privileges = privileges(EvaluationSettings { evaluation, ..EvaluationSettings::default() });
        let of = |target: &str| forwarded(&privileges, &["names"], ("GET", target, ""));
        for (target, wanted) in [
            ("/logs-*/_search", Some("/logs-1,logs-2/_search?ignore_unavailable=true")),
            ("/logs-*/_search?size=1", Some("/logs-1,logs-2/_search?size=1&ignore_unavailable=true")),
            (
                "/logs-*/_search?ignore_unavailable=false",
                Some("/logs-1,logs-2/_search?ignore_unavailable=true"),
            ),
            ("/logs-*,-logs-1/_count/", Some("/logs-2/_count/?ignore_unavailable=true")),
            ("/_search", Some("/_search?index=app,logs-1,logs-2&ignore_unavailable=true")),
            ("/_all/_search", Some("/app,logs-1,logs-2/_search?ignore_unavailable=true")),
            ("/_search?ind%65x=l*", Some("/_search?ind%65x=logs-1,logs-2&ignore_unavailable=true")),
            ("/logs-%2A/_search", Some("/logs-1,logs-2/_search?ignore_unavailable=true")),
            ("/a*/_search?size=1;x", Some("/app/_search?size=1;x&ignore_unavailable=true")),
            // The names that it has itself must exist.
            ("/logs-1*,app/_search", Some("/app,logs-1/_search")),
            (
                "/logs-*/_search?expand_wildcards=open,closed",
                Some("/logs-1,logs-2/_search?expand_wildcards=open,closed"),
            ),
            // Without a pattern.
            ("/logs-1,app/_search", None),
            ("/logs-1/_doc/1", None),
            // Patterns of names of other things, and what is not done to names.
            ("/_data_stream/a*", None),
            ("/_resolve/index/logs-*", None),
            ("/logs-*/_alias", None),
        ] {
            assert_eq!(of(target).as_deref(), wanted, "{evaluation:?} {target}");
        }
    }
}

/// An alias may have a filter, which the inventory does not tell.
#[test]
fn an_alias_is_never_replaced_by_its_indices() {
    let legacy = EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::default() };
    let privileges = privileges(legacy);
    let of = |target: &str| forwarded(&privileges, &["names"], ("GET", target, ""));
    assert_eq!(of("/logs-now/_search"), None);
    assert_eq!(of("/*-now/_search").as_deref(), Some("/logs-now/_search?ignore_unavailable=true"));
    assert_eq!(of("/*-now,app/_search").as_deref(), Some("/app,logs-now/_search"));
}

#[test]
fn a_pattern_that_stands_for_nothing_is_forwarded_as_nothing() {
    let legacy = EvaluationSettings { evaluation: EvaluationType::Legacy, ..EvaluationSettings::default() };
    for settings in [legacy, EvaluationSettings::default()] {
        let privileges = privileges(settings);
        let of = |target: &str| forwarded(&privileges, &["names"], ("GET", target, ""));
        let nothing = Some("/*,-*/_search?ignore_unavailable=true".to_owned());
        assert_eq!(of("/nothing*/_search"), nothing);
        assert_eq!(of("/logs-*,-logs-*/_search"), nothing);
    }
}

#[test]
fn a_pattern_that_roles_cover_is_forwarded_as_it_is() {
    let privileges = privileges(EvaluationSettings::default());
    for (roles, target) in [
        (&["prefix"][..], "/logs-*/_search"),
        (&["prefix"], "/logs-1*,-logs-2/_search"),
        (&["names", "prefix"], "/logs-*/_search"),
        (&["names", "all"], "/_search"),
        (&["names", "all"], "/*/_search"),
        // What another role hides is elsewhere.
        (&["prefix", "other"], "/logs-*/_search"),
    ] {
        assert_eq!(forwarded(&privileges, roles, ("GET", target, "")), None, "{roles:?} {target}");
    }
    // A new index may have documents that a role hides, or be a system index.
    let names = Some("/logs-1,logs-2/_search?ignore_unavailable=true".to_owned());
    let hiding = forwarded(&privileges, &["prefix", "some"], ("GET", "/logs-*/_search", ""));
    assert_eq!(hiding, names);
    let system_indices = vec![Pattern::parse(&"logs-system".into()).unwrap()];
    let privileges = self::privileges(EvaluationSettings { system_indices, ..EvaluationSettings::default() });
    assert_eq!(forwarded(&privileges, &["prefix"], ("GET", "/logs-*/_search", "")), names);
    let protected_indices = vec![Pattern::parse(&"logs-p*".into()).unwrap()];
    let privileges =
        self::privileges(EvaluationSettings { protected_indices, ..EvaluationSettings::default() });
    assert_eq!(forwarded(&privileges, &["prefix"], ("GET", "/logs-*/_search", "")), None);
    let changed = forwarded(&privileges, &["prefix"], ("PUT", "/logs-*/_settings", "{}"));
    assert_eq!(changed.as_deref(), Some("/logs-1,logs-2/_settings"));
}

/// A script may delete documents, which another permission grants than the update.
#[test]
fn what_a_body_does_to_the_indices_of_the_path_counts() {
    let privileges = privileges(EvaluationSettings::default());
    let of = |body: &str| forwarded(&privileges, &["deleting"], ("POST", "/logs-*/_update_by_query", body));
    assert_eq!(of("{}"), None);
    let script = of(r#"{"script": {"source": "ctx.op = 'delete'"}}"#);
    assert_eq!(script.as_deref(), Some("/logs-1,logs-2/_update_by_query?ignore_unavailable=true"));
}

#[test]
fn what_names_cannot_replace_is_forwarded_as_it_is() {
    let privileges = privileges(EvaluationSettings::default());
    for (method, target, body) in [
        // A node may refuse a pattern here (`action.destructive_requires_name`), and must still see it.
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
    let config =
        config("names: { index_permissions: [{ index_patterns: [views], allowed_actions: ['*'] }] }\n");
    let settings = EvaluationSettings::default();
    let privileges = Privileges::new(config, settings, Resolution::MappingOnly, inventory);
    let of = |target: &str| forwarded(&privileges, &["names"], ("GET", target, ""));
    assert_eq!(of("/view*"), None);
    assert_eq!(of("/view*/_search").as_deref(), Some("/views/_search?ignore_unavailable=true"));
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
    let privileges = Privileges::new(config(&roles), settings, Resolution::MappingOnly, inventory);
    let of = |target: &str| forwarded(&privileges, &["names"], ("GET", target, ""));
    assert_eq!(of("/logs-*/_search"), None);
    let some = of("/logs-000000000000000*/_search").unwrap();
    assert!(some.starts_with("/logs-0000000000000000,logs-0000000000000001,"), "{some}");
}

/// What a cluster contains.
#[derive(Clone, Debug, Default)]
struct Cluster {
    /// Whether each is open, and hidden.
    indices: BTreeMap<&'static str, (bool, bool)>,
    aliases: BTreeMap<&'static str, BTreeSet<&'static str>>,
    streams: BTreeSet<&'static str>,
}

/// Indices, each with the aliases whose filters apply to it; `None` if none does.
type Reached = BTreeMap<String, Option<BTreeSet<String>>>;

const NAMES: &[&str] = &["a", "ab", "abc", "b", "ba", "bab", "c", ".a", ".ab", ".b", "a-ann"];
const ALIASES: &[&str] = &["x", "xa", "ax"];
const STREAMS: &[&str] = &["y", "ay"];
const PATTERNS: &[&str] = &[
    "*",
    "a*",
    "ab*",
    "b*",
    ".*",
    "*b",
    "a",
    "ab",
    "abc",
    "b",
    "ba",
    "bab",
    "c",
    ".a",
    ".b",
    "a-ann",
    "x",
    "x*",
    "y",
    "ay",
    "?b",
    "${user.name}*",
    "a-${user.name}",
    "/[abc]+/",
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
    "x*",
    "x*,-a",
    "x,a*",
    "a*,x,-a*",
    "a*,c",
    "a*,missing",
    "missing*",
    "a*,-a*",
    "*a,b*",
    "a-*",
    "y*",
    "*,-x*",
    "*,-x",
];

impl Cluster {
    fn generate(rng: &mut Rng, with_aliases: bool) -> Self {
        let mut cluster = Self::default();
        cluster.add(rng);
        for alias in ALIASES.iter().filter(|_| with_aliases) {
            let names: Vec<&str> = cluster.indices.keys().copied().collect();
            if !names.is_empty() && rng.below(3) > 0 {
                let members = (0..=rng.below(3)).map(|_| names[rng.below(names.len())]).collect();
                cluster.aliases.insert(alias, members);
            }
        }
        cluster
    }

    /// Creates some of the indices and data streams that there are not.
    fn add(&mut self, rng: &mut Rng) {
        for name in NAMES {
            if rng.below(2) == 0 {
                let is_hidden = name.starts_with('.') && rng.below(3) > 0;
                self.indices.entry(name).or_insert((rng.below(5) > 0, is_hidden));
            }
        }
        self.streams.extend(STREAMS.iter().filter(|_| rng.below(3) == 0));
    }

    fn inventory(&self) -> Inventory {
        let mut builder = InventoryBuilder::default();
        for (name, (is_open, is_hidden)) in &self.indices {
            builder.index(name, *is_open, *is_hidden);
        }
        for (name, members) in &self.aliases {
            builder.alias(name, members.iter().copied());
        }
        for name in &self.streams {
            builder.data_stream(name, []);
        }
        builder.build()
    }

    /// What a request reaches: as the cluster resolves it, one part after the other. `None` if a name does not exist.
    fn reached(&self, expression: &Expression<'_>) -> Option<Reached> {
        let options = expression.options;
        let is_all = expression.is_all() || expression.text() == "*";
        let (mut names, mut indices) = (BTreeSet::new(), BTreeSet::new());
        let expand = |pattern: &str| {
            let (mut names, mut indices) = (BTreeSet::new(), BTreeSet::new());
            let has_state = |index: &str| if self.indices[index].0 { options.open } else { options.closed };
            for (name, (_, is_hidden)) in &self.indices {
                let is_shown =
                    options.hidden || !is_hidden || (pattern.starts_with('.') && name.starts_with('.'));
                if matches(pattern, name) && is_shown && has_state(name) {
                    names.insert((*name).to_owned());
                    indices.insert((*name).to_owned());
                }
            }
            for (alias, members) in
                self.aliases.iter().filter(|(alias, _)| matches(pattern, alias) && !is_all)
            {
                names.insert((*alias).to_owned());
                indices.extend(members.iter().filter(|index| has_state(index)).map(ToString::to_string));
            }
            let streams = self.streams.iter().filter(|stream| matches(pattern, stream));
            streams.for_each(|stream| {
                names.insert((*stream).to_owned());
                indices.insert((*stream).to_owned());
            });
            (names, indices)
        };
        for part in expression.parts() {
            match part {
                Part::Pattern(pattern) => {
                    let (more_names, more_indices) = expand(pattern);
                    names.extend(more_names);
                    indices.extend(more_indices);
                }
                Part::Except(pattern) if pattern.contains('*') => {
                    let (fewer_names, fewer_indices) = expand(pattern);
                    names.retain(|name| !fewer_names.contains(name));
                    indices.retain(|name| !fewer_indices.contains(name));
                }
                Part::Except(name) => {
                    names.remove(name);
                    indices.remove(name);
                }
                Part::Name(name) => {
                    names.insert(name.to_owned());
                    match self.aliases.get(name) {
                        Some(members) => indices.extend(members.iter().map(ToString::to_string)),
                        None if self.indices.contains_key(name) || self.streams.contains(name) => {
                            indices.insert(name.to_owned());
                        }
                        None if options.ignore_unavailable => {}
                        None => return None,
                    }
                }
            }
        }
        let filtered = |index: &String| {
            let aliases = self
                .aliases
                .iter()
                .filter(|(alias, members)| names.contains(**alias) && members.contains(index.as_str()));
            (!names.contains(index)).then(|| aliases.map(|(alias, _)| (*alias).to_owned()).collect())
        };
        Some(indices.iter().map(|index| (index.clone(), filtered(index))).collect())
    }
}

fn roles(rng: &mut Rng) -> String {
    let mut text = String::new();
    for role in 0..3 {
        writeln!(text, "role{role}:\n  index_permissions:").unwrap();
        for _ in 0..=rng.below(2) {
            let patterns: Vec<String> =
                (0..=rng.below(6)).map(|_| format!("'{}'", PATTERNS[rng.below(PATTERNS.len())])).collect();
            let rule = if rng.below(8) == 0 { ", dls: '{}'" } else { "" };
            let patterns = patterns.join(", ");
            writeln!(text, "    - {{ index_patterns: [{patterns}], allowed_actions: [read]{rule} }}")
                .unwrap();
        }
    }
    text
}

#[test]
fn what_is_forwarded_reaches_the_same_and_nothing_that_was_created_since() {
    let mut rng = Rng::new(29);
    // As names, and as it is; and of the latter those that also reach what was created since.
    let mut seen = [0_usize; 3];
    for round in 0..3_000 {
        let with_aliases = round % 2 == 0;
        let (config, cluster) = (config(&roles(&mut rng)), Cluster::generate(&mut rng, with_aliases));
        let mut later = cluster.clone();
        later.add(&mut rng);
        let settings = EvaluationSettings {
            evaluation: if rng.below(2) == 0 { EvaluationType::Legacy } else { EvaluationType::V4 },
            system_indices: if rng.below(3) == 0 {
                vec![Pattern::parse(&".a*".into()).unwrap()]
            } else {
                Vec::new()
            },
            ..EvaluationSettings::default()
        };
        let inventory = Some(Arc::new(cluster.inventory()));
        let resolution = Resolution::MappingOnly;
        let privileges = Privileges::new(config.clone(), settings.clone(), resolution, inventory);
        let since = later.inventory();
        let reference =
            Reference { config: &config, resolution, settings: &settings, inventory: Some(&since) };
        let subject = subject(&["role0", "role1", "role2"][..=rng.below(3)]);
        let caller = privileges.caller(&subject);
        for _ in 0..20 {
            let text = EXPRESSIONS[rng.below(EXPRESSIONS.len())];
            let states = ["open", "open", "open", "all", "open,hidden", "closed", "none"][rng.below(7)];
            let target = format!("/_search?index={text}&expand_wildcards={states}");
            let context =
                || format!("{target}\n{config:?}\n{settings:?}\n{cluster:?}\n{later:?}\n{subject:?}");
            let request = request("GET", &target, "");
            let mut needs = Vec::new();
            read(&request, &mut needs).unwrap();
            if privileges.decide(&caller, &needs).verdict != Verdict::Permitted {
                continue;
            }
            let asked = expression(&needs[0]);
            let named: BTreeSet<&str> = asked.parts().filter_map(name).collect();
            let Some(target) = privileges.forwarded(&caller, &request, &needs) else {
                seen[1] += 1;
                if with_aliases || !asked.options.expands() {
                    continue;
                }
                for index in later.reached(asked).into_iter().flat_map(BTreeMap::into_keys) {
                    let target = Target::Fixed(Expression::new(index.clone(), Options::OPEN));
                    let need = Need { actions: needs[0].actions, target };
                    let verdict = reference.evaluate(&subject, &[need]).verdict;
                    assert_eq!(verdict, Verdict::Permitted, "{index}: {}", context());
                    seen[2] += usize::from(!cluster.indices.contains_key(index.as_str()));
                }
                continue;
            };
            let again = self::request("GET", &target, "");
            let mut again_needs = Vec::new();
            read(&again, &mut again_needs).unwrap();
            assert_eq!(needs.len(), again_needs.len());
            let new = expression(&again_needs[0]);
            let reached = cluster.reached(new);
            assert_eq!(reached, cluster.reached(asked), "{target} for {}", context());
            // Whatever names it has itself that do not exist yet.
            let options = Options { ignore_unavailable: true, ..asked.options };
            let before = cluster.reached(&Expression::new(asked.text(), options)).unwrap();
            for index in later.reached(new).into_iter().flat_map(BTreeMap::into_keys) {
                let was_there = before.contains_key(&index);
                assert!(was_there || named.contains(index.as_str()), "{index} by {target}: {}", context());
            }
            seen[0] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

fn expression<'n>(need: &'n Need<'_>) -> &'n Expression<'n> {
    match &need.target {
        Target::Indices(expression) => expression,
        other => panic!("{other:?}"),
    }
}

fn name(part: Part<'_>) -> Option<&str> {
    match part {
        Part::Name(name) => Some(name),
        Part::Pattern(_) | Part::Except(_) => None,
    }
}
