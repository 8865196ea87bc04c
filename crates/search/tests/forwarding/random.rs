//! Generated roles, clusters and requests: what is forwarded reaches the same, and nothing that was
//! created since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use generator::Rng;
use search::config::EvaluationType;
use search::{
    EvaluationSettings, Expression, Inventory, InventoryBuilder, Need, Options, Part, Pattern,
    Privileges, Target, Verdict, matches, read,
};

use crate::requests::{config, request, subject};

/// The contents of a cluster.
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
        self.inventory_without(&BTreeSet::new())
    }

    /// The inventory of an account that may not see these indices.
    fn inventory_without(&self, unlisted: &BTreeSet<&str>) -> Inventory {
        let mut builder = InventoryBuilder::default();
        for (name, (is_open, is_hidden)) in
            self.indices.iter().filter(|(name, _)| !unlisted.contains(*name))
        {
            builder.index(name, *is_open, *is_hidden);
        }
        for (name, members) in &self.aliases {
            builder.alias(name, members.iter().copied());
        }
        for name in &self.streams {
            builder.data_stream(name, [""; 0]);
        }
        builder.build()
    }

    /// The indices that a request reaches: the cluster resolves one part after the other. `None` if
    /// a name does not exist.
    fn reached(&self, expression: &Expression<'_>) -> Option<Reached> {
        let options = expression.options;
        let is_all = expression.is_empty_or_all() || expression.text() == "*";
        let (mut names, mut indices) = (BTreeSet::new(), BTreeSet::new());
        let expand = |pattern: &str| {
            let (mut names, mut indices) = (BTreeSet::new(), BTreeSet::new());
            let has_state =
                |index: &str| if self.indices[index].0 { options.open } else { options.closed };
            for (name, (_, is_hidden)) in &self.indices {
                let is_shown = options.hidden
                    || !is_hidden
                    || (pattern.starts_with('.') && name.starts_with('.'));
                if matches(pattern, name) && is_shown && has_state(name) {
                    names.insert((*name).to_owned());
                    indices.insert((*name).to_owned());
                }
            }
            for (alias, members) in
                self.aliases.iter().filter(|(alias, _)| matches(pattern, alias) && !is_all)
            {
                names.insert((*alias).to_owned());
                indices.extend(
                    members.iter().filter(|index| has_state(index)).map(ToString::to_string),
                );
            }
            let streams = self.streams.iter().filter(|stream| matches(pattern, stream));
            streams.for_each(|stream| {
                names.insert((*stream).to_owned());
                indices.insert((*stream).to_owned());
            });
            (names, indices)
        };
        // Aliases and data streams by their names, which are looked up last.
        let mut groups: BTreeSet<&str> = BTreeSet::new();
        let parts: Vec<Part<'_>> = match options.open || options.closed {
            true => expression.parts().collect(),
            // Where patterns expand to nothing, all parts are names.
            false => expression.text().split(',').map(Part::Name).collect(),
        };
        for part in parts {
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
                    groups.remove(name);
                    if self.indices.contains_key(name) {
                        names.remove(name);
                        indices.remove(name);
                    }
                }
                Part::Name(name) => {
                    names.insert(name.to_owned());
                    if self.aliases.contains_key(name) || self.streams.contains(name) {
                        groups.insert(name);
                    }
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
        for group in groups {
            names.insert(group.to_owned());
            match self.aliases.get(group) {
                Some(members) => indices.extend(members.iter().map(ToString::to_string)),
                None => drop(indices.insert(group.to_owned())),
            }
        }
        let filtered = |index: &String| {
            let aliases = self.aliases.iter().filter(|(alias, members)| {
                names.contains(**alias) && members.contains(index.as_str())
            });
            (!names.contains(index))
                .then(|| aliases.map(|(alias, _)| (*alias).to_owned()).collect())
        };
        Some(indices.iter().map(|index| (index.clone(), filtered(index))).collect())
    }
}

fn roles(rng: &mut Rng) -> String {
    let mut text = String::new();
    for role in 0..3 {
        writeln!(text, "role{role}:\n  index_permissions:").unwrap();
        for _ in 0..=rng.below(2) {
            let patterns: Vec<String> = (0..=rng.below(6))
                .map(|_| format!("'{}'", PATTERNS[rng.below(PATTERNS.len())]))
                .collect();
            let rule = if rng.below(8) == 0 { ", dls: '{}'" } else { "" };
            let patterns = patterns.join(", ");
            writeln!(
                text,
                "    - {{ index_patterns: [{patterns}], allowed_actions: [read]{rule} }}"
            )
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
        let (config, cluster) =
            (config(&roles(&mut rng)), Cluster::generate(&mut rng, with_aliases));
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
        let privileges = Privileges::new(config.clone(), settings.clone(), inventory);
        let since = Some(Arc::new(later.inventory()));
        let since = Privileges::new(config.clone(), settings.clone(), since);
        let subject = subject(&["role0", "role1", "role2"][..=rng.below(3)]);
        let caller = privileges.caller(&subject);
        for _ in 0..20 {
            let text = EXPRESSIONS[rng.below(EXPRESSIONS.len())];
            let states =
                ["open", "open", "open", "all", "open,hidden", "closed", "none"][rng.below(7)];
            let target = format!("/_search?index={text}&expand_wildcards={states}");
            let context = || {
                format!("{target}\n{config:?}\n{settings:?}\n{cluster:?}\n{later:?}\n{subject:?}")
            };
            let first = request("GET", &target, "");
            let mut needs = Vec::new();
            read(&first, &mut needs).unwrap();
            if privileges.decide(&caller, &needs).verdict != Verdict::Permitted {
                continue;
            }
            let asked = expression(&needs[0]);
            let named: BTreeSet<&str> = asked.parts().filter_map(name).collect();
            let Some(target) = privileges.with_names_for_patterns(&caller, &first, &needs) else {
                seen[1] += 1;
                if with_aliases || !asked.options.expands() {
                    continue;
                }
                for index in later.reached(asked).into_iter().flat_map(BTreeMap::into_keys) {
                    let target = Target::Fixed(Expression::new(index.clone(), Options::OPEN));
                    let need = Need {
                        actions: needs[0].actions,
                        target,
                        is_copied: false,
                        shows_hidden_terms: false,
                        adds_names: false,
                    };
                    let verdict = since.decide(&since.caller(&subject), &[need]).verdict;
                    assert_eq!(verdict, Verdict::Permitted, "{index}: {}", context());
                    seen[2] += usize::from(!cluster.indices.contains_key(index.as_str()));
                }
                continue;
            };
            let again = request("GET", &target, "");
            let mut again_needs = Vec::new();
            read(&again, &mut again_needs).unwrap();
            assert_eq!(needs.len(), again_needs.len());
            let new = expression(&again_needs[0]);
            let reached = cluster.reached(new);
            assert_eq!(reached, cluster.reached(asked), "{target} for {}", context());
            // Its own names may not exist yet.
            let options = Options { ignore_unavailable: true, ..asked.options };
            let before = cluster.reached(&Expression::new(asked.text(), options)).unwrap();
            for index in later.reached(new).into_iter().flat_map(BTreeMap::into_keys) {
                let was_there = before.contains_key(&index);
                assert!(
                    was_there || named.contains(index.as_str()),
                    "{index} by {target}: {}",
                    context()
                );
            }
            seen[0] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

#[test]
fn an_inventory_that_leaves_indices_of_aliases_out_permits_no_more() {
    let mut rng = Rng::new(30);
    // Permitted requests that reach something, and those that reach what is not listed.
    let mut seen = [0_usize; 2];
    for _ in 0..3_000 {
        let (config, cluster) = (config(&roles(&mut rng)), Cluster::generate(&mut rng, true));
        let members = cluster.aliases.values().flatten();
        let unlisted: BTreeSet<&str> = members.copied().filter(|_| rng.below(2) == 0).collect();
        let evaluation =
            if rng.below(2) == 0 { EvaluationType::Legacy } else { EvaluationType::V4 };
        let settings = EvaluationSettings { evaluation, ..EvaluationSettings::default() };
        let told = Arc::new(cluster.inventory_without(&unlisted));
        let privileges = Privileges::new(config.clone(), settings.clone(), Some(told));
        let whole = Some(Arc::new(cluster.inventory()));
        let whole = Privileges::new(config.clone(), settings.clone(), whole);
        let subject = subject(&["role0", "role1", "role2"][..=rng.below(3)]);
        let caller = privileges.caller(&subject);
        for _ in 0..20 {
            let text = EXPRESSIONS[rng.below(EXPRESSIONS.len())];
            let states = ["open", "open", "all", "open,hidden", "closed", "none"][rng.below(6)];
            let target = format!("/_search?index={text}&expand_wildcards={states}");
            let asked = request("GET", &target, "");
            let mut needs = Vec::new();
            read(&asked, &mut needs).unwrap();
            if privileges.decide(&caller, &needs).verdict != Verdict::Permitted {
                continue;
            }
            let forwarded = privileges
                .with_names_for_patterns(&caller, &asked, &needs)
                .unwrap_or_else(|| target.clone());
            let again = request("GET", &forwarded, "");
            let mut again_needs = Vec::new();
            read(&again, &mut again_needs).unwrap();
            for index in cluster
                .reached(expression(&again_needs[0]))
                .into_iter()
                .flat_map(BTreeMap::into_keys)
            {
                let need = Need {
                    actions: needs[0].actions,
                    target: Target::Fixed(Expression::new(index.clone(), Options::OPEN)),
                    is_copied: false,
                    shows_hidden_terms: false,
                    adds_names: false,
                };
                let verdict = whole.decide(&whole.caller(&subject), &[need]).verdict;
                assert_eq!(
                    verdict,
                    Verdict::Permitted,
                    "{index} by {forwarded}\n{unlisted:?}\n{config:?}\n{settings:?}\n{cluster:?}\n{subject:?}"
                );
                seen[0] += 1;
                seen[1] += usize::from(unlisted.contains(index.as_str()));
            }
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
