//! Resolves expressions to the names of an inventory.

use foldhash::{HashSet, HashSetExt};
use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::Reason;
use crate::expression::{Expression, Options, Part, matches};
use crate::inventory::{Inventory, Kind};
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::settings::{EvaluationSettings, EvaluationType, SECURITY_INDEX};

/// An expression that matches no index. With `allow_no_indices=false` it is an error.
pub(crate) const NOTHING: &str = "*,-*";

/// The names that a target stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names<'t> {
    /// Names of the inventory.
    pub(crate) known: RoaringBitmap,
    /// Names that the inventory lacks, and patterns that are not expanded with it.
    pub(crate) unknown: Vec<Unknown<'t>>,
    /// Whether `v4` can reduce a request to some of the names: they come from a pattern, or
    /// `ignore_unavailable` is set.
    pub(crate) is_reducible: bool,
    /// Whether a node accepts patterns that match nothing (`allow_no_indices`).
    pub(crate) may_be_empty: bool,
    /// Whether the expression stands for all indices.
    pub(crate) is_all: bool,
    /// Whether the exclusions of the expression leave no name of the inventory.
    pub(crate) is_emptied_by_exclusions: bool,
    /// Names that rolegate checks, but the plugin maybe does not: closed indices that only patterns
    /// match (`legacy`), and names that the plugin may exclude, be they open, closed or hidden. A
    /// request that is reduced because names are denied is forwarded without them.
    pub(crate) left_out_if_reduced: RoaringBitmap,
    /// The names to leave out instead if all names are permitted, and the request is reduced only
    /// because of the indices of Dashboards. The plugin then leaves the patterns to the cluster,
    /// which may exclude these names.
    pub(crate) left_out_if_permitted: RoaringBitmap,
    /// Aliases that are replaced by their indices in `known`.
    pub(crate) replaced_aliases: RoaringBitmap,
}

/// A name or pattern that the inventory cannot resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unknown<'t> {
    /// A name.
    Name(&'t str),
    /// Any name that matches a pattern.
    Pattern(&'t str),
}

impl<'t> Unknown<'t> {
    pub(crate) const fn text(self) -> &'t str {
        match self {
            Self::Name(text) | Self::Pattern(text) => text,
        }
    }

    /// Whether a pattern of a role matches the name, or may match a name that this pattern matches.
    pub(crate) fn may_match(self, pattern: &Pattern) -> bool {
        match self {
            Self::Name(name) => pattern.matches(name),
            Self::Pattern(text) => pattern.may_overlap(text),
        }
    }

    /// Whether a pattern of a role matches the name, or every name that this pattern matches.
    pub(crate) fn is_covered_by(self, pattern: &Pattern) -> bool {
        match self {
            Self::Name(name) => pattern.matches(name),
            Self::Pattern(text) => pattern.covers(text),
        }
    }

    /// Why a role that grants the action does not suffice: the name is, or the pattern may match, a
    /// system index or the index of the security configuration.
    pub(crate) fn special_reason(self, settings: &EvaluationSettings) -> Option<Reason> {
        if self.may_match(&SECURITY_INDEX) {
            return Some(Reason::SecurityIndex);
        }
        let mut system = settings.all_system_indices();
        system.any(|pattern| self.may_match(pattern)).then_some(Reason::SystemIndex)
    }
}

/// The names of a need; `None` as for [`resolve`].
pub(crate) fn resolve_need<'t>(
    inventory: Option<&Inventory>,
    evaluation: EvaluationType,
    need: &'t Need<'_>,
) -> Option<Names<'t>> {
    if let (Target::Indices(expression), Some(inventory)) = (&need.target, inventory)
        && shows_members(evaluation, need.actions)
    {
        return Some(names_shown(inventory, evaluation, expression));
    }
    resolve(inventory, evaluation, &need.target)
}

/// The names that `_resolve/index` shows, with the members of aliases.
fn names_shown<'t>(
    inventory: &Inventory,
    evaluation: EvaluationType,
    expression: &'t Expression<'_>,
) -> Names<'t> {
    let mut names = Names { is_all: expression.is_all(), ..Names::default() };
    let options = Options { open: true, closed: true, hidden: true, ..expression.options };
    (names.may_be_empty, names.is_reducible) = (options.allow_no_indices, true);
    for part in expression.parts() {
        match part {
            Part::Name(name) => names.add_name(Some(inventory), evaluation, name),
            Part::Pattern(pattern) => {
                let matching = visible_matches(inventory, pattern, options);
                names.known |= expand_matching(inventory, matching, options);
            }
            Part::Except(_) => {}
        }
    }
    names
}

/// Whether an operation (`_resolve/index`) shows the members of aliases that its patterns match,
/// even of excluded aliases. Assumed for `v4`, which was not compared with a node. `legacy` was: it
/// checks the operation like any other.
pub(crate) fn shows_members(evaluation: EvaluationType, actions: &[Action]) -> bool {
    evaluation == EvaluationType::V4 && actions.contains(&RESOLVE_INDEX)
}

const RESOLVE_INDEX: Action = Action::new("indices:admin/resolve/index");

/// The names that a target stands for. `None` for the cluster, for an index that exists already and
/// so is not created, and for a target that this evaluation does not check.
pub(crate) fn resolve<'t>(
    inventory: Option<&Inventory>,
    evaluation: EvaluationType,
    target: &'t Target<'_>,
) -> Option<Names<'t>> {
    let mut names = Names::default();
    match target {
        Target::Cluster => return None,
        Target::Name(name) => names.add_name(inventory, evaluation, name),
        Target::CreatedIfMissing(name) => {
            match inventory.and_then(|inventory| inventory.id(name)) {
                Some(_) => return None,
                None => names.unknown.push(Unknown::Name(name)),
            }
        }
        Target::AliasOrNewIndex(name) => match evaluation {
            EvaluationType::Legacy => return None,
            EvaluationType::V4 => match alias_pattern(name) {
                Some(pattern) => names.unknown.push(Unknown::Pattern(pattern)),
                None => names.add_unreplaced(inventory, name),
            },
        },
        Target::Indices(expression) | Target::Fixed(expression) => {
            names.add_expression(inventory, evaluation, expression)
        }
    }
    Some(names)
}

/// Whether the plugin checks a need. Some needs are checked by `v4` only.
pub(crate) fn is_checked(evaluation: EvaluationType, need: &Need<'_>) -> bool {
    match need.target {
        Target::AliasOrNewIndex(_) => evaluation == EvaluationType::V4,
        Target::Cluster => {
            evaluation == EvaluationType::V4
                || !need.actions.iter().all(|action| CLUSTER_ONLY_IN_V4.contains(action))
        }
        Target::Name(_) | Target::Indices(_) | Target::Fixed(_) | Target::CreatedIfMissing(_) => {
            true
        }
    }
}

/// Actions on the cluster that only `v4` checks.
const CLUSTER_ONLY_IN_V4: [Action; 2] = [
    Action::new("cluster:monitor/point_in_time/segments/_all"),
    Action::new("indices:data/read/point_in_time/readall"),
];

/// The pattern of an alias argument, if the argument is a pattern. It is checked as a pattern: the
/// aliases that match it are not looked up.
pub(crate) fn alias_pattern(name: &str) -> Option<&str> {
    match name {
        "_all" => Some("*"),
        pattern => pattern.contains('*').then_some(pattern),
    }
}

impl<'t> Names<'t> {
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.unknown.is_empty()
    }

    fn add_expression(
        &mut self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        expression: &'t Expression<'_>,
    ) {
        let requested = expression.options;
        let mut checked = requested;
        if evaluation == EvaluationType::Legacy {
            // `legacy` always checks open and hidden indices.
            (checked.open, checked.hidden) = (true, true);
        }
        self.is_all = expression.is_all();
        self.may_be_empty = requested.allow_no_indices;
        // `v4` reduces patterns only if they expand to open indices.
        self.is_reducible =
            requested.ignore_unavailable || (requested.open && expression.has_pattern());
        if evaluation == EvaluationType::Legacy && is_unresolved(inventory, expression) {
            // Nothing is expanded or excluded. Each part, even `-a`, is checked as a name or a
            // pattern.
            for part in expression.text().split(',') {
                match part.contains('*') {
                    true => self.unknown.push(Unknown::Pattern(part)),
                    false => self.add_unreplaced(inventory, part),
                }
            }
            return;
        }
        let Some(inventory) = inventory else { return self.add_unknown(expression, checked) };
        // `*,-*` matches no index, whichever exist.
        if expression.text() == NOTHING {
            return;
        }
        // With `expand_wildcards=none` a node takes each part for a name, so no name is dropped.
        let parts = match requested.expands() {
            true => parts_without_excluded(inventory, expression),
            false => expression.parts().collect(),
        };
        let excluded_states = excluded_states(expression, evaluation);
        // `named`: all names that the names in the expression stand for. `named_by_parent`: those
        // that come from a named alias or data stream. Exclusions do not remove these, because a
        // node looks up the alias or data stream after the exclusions.
        let (mut named, mut named_by_parent) = (RoaringBitmap::new(), RoaringBitmap::new());
        for part in parts {
            match part {
                Part::Name(name) => {
                    self.add_name(Some(inventory), evaluation, name);
                    if let Some(id) = inventory.id(name) {
                        let names = names_of(inventory, evaluation, &id);
                        named.extend(names);
                        if !inventory.is_index(id) {
                            named_by_parent.extend(names);
                        }
                    }
                }
                Part::Pattern(pattern) if !checked.expands() => {
                    self.unknown.push(Unknown::Name(pattern))
                }
                Part::Pattern(pattern) => {
                    let matching = matches_in(inventory, expression, pattern, checked);
                    self.replaced_aliases |= &matching & &inventory.aliases;
                    let expanded = expand_matching(inventory, matching, checked);
                    self.left_out_if_reduced -= &expanded;
                    self.left_out_if_permitted -= &expanded;
                    self.known |= expanded;
                }
                Part::Except(name) if !name.contains('*') => {
                    // The name of an alias or data stream excludes none of its indices.
                    if let Some(id) = inventory.id(name).filter(|id| inventory.is_index(*id)) {
                        self.known.remove(id);
                    }
                }
                Part::Except(pattern) => {
                    self.exclude(inventory, pattern, excluded_states, requested)
                }
            }
        }
        // With `expand_wildcards=none` a node excludes nothing, so all names come back.
        self.known |= if requested.expands() { &named_by_parent } else { &named };
        self.is_emptied_by_exclusions = expression.excludes() && self.is_empty();
        if evaluation == EvaluationType::Legacy {
            self.left_out_if_reduced |= &inventory.closed;
        }
        for names in [&mut self.left_out_if_reduced, &mut self.left_out_if_permitted] {
            *names &= &self.known;
            *names -= &named;
        }
    }

    /// Removes the matches of a pattern that a node [certainly excludes](certainly_excluded). Adds
    /// the matches that the plugin or the cluster may exclude to the names that are left out.
    /// `requested` are the options of the request, unchanged for `legacy`.
    fn exclude(
        &mut self,
        inventory: &Inventory,
        pattern: &str,
        excluded_states: Options,
        requested: Options,
    ) {
        let any_state = Options { open: true, closed: true, hidden: true, ..requested };
        // Comparing with the names takes most of the time, so it is done once.
        let names = all_matches(inventory, pattern);
        let [certain_names, possible_names, requested_names] =
            [excluded_states, any_state, requested]
                .map(|options| without_hidden(inventory, names.clone(), pattern, options));
        self.known -= certainly_excluded(inventory, certain_names, excluded_states);
        self.left_out_if_reduced |= expand_matching(inventory, possible_names, any_state);
        self.left_out_if_permitted |= expand_matching(inventory, requested_names, requested);
    }

    /// Adds the parts of an expression without an inventory.
    fn add_unknown(&mut self, expression: &'t Expression<'_>, options: Options) {
        self.unknown.extend(expression.parts().filter_map(|part| match part {
            Part::Pattern(pattern) if options.expands() => Some(Unknown::Pattern(pattern)),
            Part::Name(name) | Part::Pattern(name) => Some(Unknown::Name(name)),
            // Excluded indices need no privilege. Without an inventory rolegate cannot tell them
            // apart, so it checks them, too.
            Part::Except(_) => None,
        }));
    }

    fn add_name(
        &mut self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        name: &'t str,
    ) {
        let Some((inventory, id)) =
            inventory.and_then(|inventory| Some((inventory, inventory.id(name)?)))
        else {
            return self.unknown.push(Unknown::Name(name));
        };
        let names = names_of(inventory, evaluation, &id);
        self.known.extend(names);
        if names != [id] {
            self.replaced_aliases.insert(id);
        }
    }

    fn add_unreplaced(&mut self, inventory: Option<&Inventory>, name: &'t str) {
        match inventory.and_then(|inventory| inventory.id(name)) {
            Some(id) => drop(self.known.insert(id)),
            None => self.unknown.push(Unknown::Name(name)),
        }
    }
}

/// The names that a name stands for: `legacy` replaces an alias with its members. An alias without
/// known members stands for itself. If it stood for nothing, everybody might search it.
pub(crate) fn names_of<'i>(
    inventory: &'i Inventory,
    evaluation: EvaluationType,
    id: &'i u32,
) -> &'i [u32] {
    let is_alias = evaluation == EvaluationType::Legacy && inventory.aliases.contains(*id);
    let members = if is_alias { inventory.members(*id) } else { &[] };
    if members.is_empty() { std::slice::from_ref(id) } else { members }
}

/// The parts of an expression without the unknown names that a later part excludes. Searching for
/// each exclusion would take time that grows with the square of the number of names, which a client
/// chooses.
pub(crate) fn parts_without_excluded<'e>(
    inventory: &Inventory,
    expression: &'e Expression<'_>,
) -> Vec<Part<'e>> {
    let mut parts: Vec<Part<'_>> = expression.parts().collect();
    let mut excluded = HashSet::new();
    parts.reverse();
    parts.retain(|part| match part {
        Part::Name(name) => inventory.id(name).is_some() || !excluded.contains(name),
        Part::Except(name) => {
            excluded.insert(*name);
            true
        }
        Part::Pattern(_) => true,
    });
    parts.reverse();
    parts
}

/// The names that a pattern stands for, from the names that it matches: indices, the members of
/// aliases, and data streams.
pub(crate) fn expand_matching(
    inventory: &Inventory,
    matching: RoaringBitmap,
    options: Options,
) -> RoaringBitmap {
    let mut indices = &matching & &inventory.open;
    indices |= &matching & &inventory.closed;
    for alias in &matching & &inventory.aliases {
        let members = inventory.members(alias);
        indices.extend(members);
        // An alias without known members stands for itself.
        if members.is_empty() {
            indices.insert(alias);
        }
    }
    if !options.open {
        // An unlisted index (known only as a member of an alias or data stream) may be closed.
        indices -= &inventory.open - &inventory.unlisted;
    }
    if !options.closed {
        indices -= &inventory.closed;
    }
    indices | (matching & &inventory.data_streams)
}

/// The hidden indices that a node does not reach by a target: neither by a name or an alias, nor by
/// a pattern with the options of the request. `legacy` checks them, too.
pub(crate) fn hidden_outside(inventory: &Inventory, target: &Target<'_>) -> RoaringBitmap {
    let Some(expression) = target.expression() else { return RoaringBitmap::new() };
    let mut hidden = inventory.hidden.clone();
    for part in expression.parts() {
        match part {
            Part::Name(name) => {
                let named: RoaringBitmap = inventory.id(name).into_iter().collect();
                hidden -= inventory.with_members(named);
            }
            Part::Pattern(pattern) => {
                let matching = matches_in(inventory, expression, pattern, expression.options);
                hidden -= expand_matching(inventory, matching, expression.options);
            }
            Part::Except(_) => {}
        }
    }
    hidden
}

/// The matches of an exclusion that a node certainly excludes: indices and data streams. A node may
/// keep an alias, or a data stream whose name begins with a dot, which may be hidden, and an
/// unlisted index, which may be hidden or closed. Some operations ignore aliases.
pub(crate) fn certainly_excluded(
    inventory: &Inventory,
    matching: RoaringBitmap,
    options: Options,
) -> RoaringBitmap {
    let mut certain = matching - &inventory.aliases - &inventory.unlisted;
    if !options.open {
        certain -= &inventory.open;
    }
    if !options.closed {
        certain -= &inventory.closed;
    }
    if !options.hidden {
        let mut dotted = &certain & &inventory.data_streams;
        let range = inventory.with_prefix(".");
        dotted.remove_range(..range.start);
        dotted.remove_range(range.end..);
        certain -= dotted;
    }
    certain
}

/// The states of the indices that exclusions exclude. A node takes the states of the request. But
/// `legacy` adds open indices to every pattern (see [`Names::add_expression`]), which exclusions
/// must remove again. Removing them is safe if the expression has no names: with
/// `expand_wildcards=closed`, a node reaches an open index only by its name.
fn excluded_states(expression: &Expression<'_>, evaluation: EvaluationType) -> Options {
    let excludes_open = evaluation == EvaluationType::Legacy && !expression.has_name();
    Options { open: expression.options.open || excludes_open, ..expression.options }
}

/// Whether `legacy` takes the parts of an expression literally. It does so if it does not find a
/// name. Names of data streams count as not found.
pub(crate) fn is_unresolved(inventory: Option<&Inventory>, expression: &Expression<'_>) -> bool {
    expression.parts().any(|part| match part {
        Part::Name(name) => !is_index_or_alias(inventory, name),
        // With `expand_wildcards=none` a node excludes nothing.
        Part::Except(_) if !expression.options.expands() => true,
        Part::Except(name) => !name.contains('*') && !is_index_or_alias(inventory, name),
        Part::Pattern(_) => false,
    })
}

fn is_index_or_alias(inventory: Option<&Inventory>, name: &str) -> bool {
    let kind = inventory.and_then(|inventory| inventory.kind(inventory.id(name)?));
    matches!(kind, Some(Kind::OpenIndex | Kind::ClosedIndex | Kind::Alias))
}

/// The visible matches of a pattern of an expression. An expression for all indices matches no
/// aliases.
pub(crate) fn matches_in(
    inventory: &Inventory,
    expression: &Expression<'_>,
    pattern: &str,
    options: Options,
) -> RoaringBitmap {
    let matching = visible_matches(inventory, pattern, options);
    if expression.is_all() { matching - &inventory.aliases } else { matching }
}

/// The matches of a pattern without hidden names, before aliases are expanded.
pub(crate) fn visible_matches(
    inventory: &Inventory,
    pattern: &str,
    options: Options,
) -> RoaringBitmap {
    without_hidden(inventory, all_matches(inventory, pattern), pattern, options)
}

/// Removes the hidden names from the matches of a pattern, unless it asks for them.
fn without_hidden(
    inventory: &Inventory,
    mut matching: RoaringBitmap,
    pattern: &str,
    options: Options,
) -> RoaringBitmap {
    if !options.hidden {
        let mut hidden = &matching & &inventory.hidden;
        if pattern.starts_with('.') {
            hidden.remove_range(inventory.with_prefix("."));
        }
        matching -= hidden;
    }
    matching
}

/// The names that match a pattern whose only wildcard is `*`.
fn all_matches(inventory: &Inventory, pattern: &str) -> RoaringBitmap {
    let mut names = RoaringBitmap::new();
    match pattern.split_once('*') {
        Some((prefix, "")) => drop(names.insert_range(inventory.with_prefix(prefix))),
        Some((prefix, _)) => names.extend(
            inventory.with_prefix(prefix).filter(|id| matches(pattern, inventory.name(*id))),
        ),
        None => names.extend(inventory.id(pattern)),
    }
    names
}
