//! What an expression stands for, by an inventory.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::Reason;
use crate::expression::{Expression, Options, Part, matches};
use crate::inventory::{Inventory, Kind};
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::settings::{EvaluationSettings, EvaluationType, SECURITY_INDEX};

/// An expression that matches no index: the result is empty, or an error
/// (`allow_no_indices=false`).
pub(crate) const NOTHING: &str = "*,-*";

/// The names that a target stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names<'t> {
    /// Those of the inventory.
    pub(crate) known: RoaringBitmap,
    /// Names that the inventory lacks, and patterns if there is no inventory.
    pub(crate) unknown: Vec<Unknown<'t>>,
    /// Whether they come from a pattern, or are left out if they do not exist.
    pub(crate) is_reducible: bool,
    /// Whether patterns that match nothing are no error.
    pub(crate) may_be_empty: bool,
    /// Whether the expression stands for all indices.
    pub(crate) is_all: bool,
    /// Whether it has an exclusion, and none of the names of the inventory is left.
    pub(crate) is_emptied: bool,
    /// Names that are decided about, but to which a request is never reduced: closed indices that
    /// only its patterns match (`legacy`), and names that its exclusions may match.
    pub(crate) left_out: RoaringBitmap,
    /// The names among them that the cluster itself may exclude from the request as it is.
    pub(crate) taken_out: RoaringBitmap,
    /// Aliases that are replaced by their indices in `known`.
    pub(crate) replaced: RoaringBitmap,
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

    /// Whether a pattern of the configuration matches the name, or may match a name of the pattern.
    pub(crate) fn may_match(self, pattern: &Pattern) -> bool {
        match self {
            Self::Name(name) => pattern.matches(name),
            Self::Pattern(text) => pattern.may_overlap(text),
        }
    }

    /// Whether a pattern of the configuration matches the name, or every name of the pattern.
    pub(crate) fn is_covered_by(self, pattern: &Pattern) -> bool {
        match self {
            Self::Name(name) => pattern.matches(name),
            Self::Pattern(text) => pattern.covers(text),
        }
    }

    /// Why more than the roles decides: the name is a system index or the index of the security
    /// configuration, or the pattern may match one.
    pub(crate) fn special_reason(self, settings: &EvaluationSettings) -> Option<Reason> {
        if self.may_match(&SECURITY_INDEX) {
            return Some(Reason::SecurityIndex);
        }
        settings
            .all_system_indices()
            .any(|pattern| self.may_match(pattern))
            .then_some(Reason::SystemIndex)
    }
}

/// The names that a need is about; `None` for the cluster, and for a need that does not count.
pub(crate) fn resolve_need<'t>(
    inventory: Option<&Inventory>,
    evaluation: EvaluationType,
    need: &'t Need<'_>,
) -> Option<Names<'t>> {
    match (&need.target, inventory) {
        (Target::Indices(expression), Some(inventory))
            if shows_members(evaluation, need.actions) =>
        {
            let mut names = Names { is_all: expression.is_of_all(), ..Names::default() };
            let options = Options { open: true, closed: true, hidden: true, ..expression.options };
            (names.may_be_empty, names.is_reducible) = (options.allow_no_indices, true);
            for part in expression.parts() {
                match part {
                    Part::Name(name) => names.add_name(Some(inventory), evaluation, name),
                    Part::Pattern(pattern) => {
                        names.known |= expand(inventory, pattern, options, false)
                    }
                    Part::Except(_) => {}
                }
            }
            Some(names)
        }
        (target, _) => resolve(inventory, evaluation, target),
    }
}

/// Whether an operation (`_resolve/index`) shows the members of aliases that its patterns match,
/// also of excluded ones. For `v4` this could not be compared with a node.
pub(crate) fn shows_members(evaluation: EvaluationType, actions: &[Action]) -> bool {
    evaluation == EvaluationType::V4 && actions.contains(&RESOLVE_INDEX)
}

const RESOLVE_INDEX: Action = Action::of("indices:admin/resolve/index");

/// The names that a target stands for; `None` for the cluster, and for a need that does not count.
pub(crate) fn resolve<'t>(
    inventory: Option<&Inventory>,
    evaluation: EvaluationType,
    target: &'t Target<'_>,
) -> Option<Names<'t>> {
    let mut names = Names::default();
    match target {
        Target::Cluster => return None,
        Target::Name(name) => names.add_name(inventory, evaluation, name),
        Target::Missing(name) => match inventory.and_then(|inventory| inventory.number(name)) {
            Some(_) => return None,
            None => names.unknown.push(Unknown::Name(name)),
        },
        Target::AddedName(name) => match evaluation {
            EvaluationType::Legacy => return None,
            EvaluationType::V4 => match pattern_of_aliases(name) {
                Some(pattern) => names.unknown.push(Unknown::Pattern(pattern)),
                None => names.add_itself(inventory, name),
            },
        },
        Target::Indices(expression) | Target::Fixed(expression) => {
            names.add_expression(inventory, evaluation, expression)
        }
    }
    Some(names)
}

/// Whether an evaluation asks for a need.
pub(crate) fn counts(evaluation: EvaluationType, need: &Need<'_>) -> bool {
    match need.target {
        Target::AddedName(_) => evaluation == EvaluationType::V4,
        Target::Cluster => {
            evaluation == EvaluationType::V4
                || !need.actions.iter().all(|action| CLUSTER_IN_V4.contains(action))
        }
        Target::Name(_) | Target::Indices(_) | Target::Fixed(_) | Target::Missing(_) => true,
    }
}

/// Actions that only `v4` asks for on the cluster.
const CLUSTER_IN_V4: [Action; 2] = [
    Action::of("cluster:monitor/point_in_time/segments/_all"),
    Action::of("indices:data/read/point_in_time/readall"),
];

/// The pattern of a list of aliases, if it is one: the aliases that match are not looked up.
pub(crate) fn pattern_of_aliases(name: &str) -> Option<&str> {
    match name {
        "_all" => Some("*"),
        pattern => pattern.contains('*').then_some(pattern),
    }
}

impl<'t> Names<'t> {
    /// Whether there is no name.
    pub(crate) fn is_nothing(&self) -> bool {
        self.known.is_empty() && self.unknown.is_empty()
    }

    fn add_expression(
        &mut self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        expression: &'t Expression<'_>,
    ) {
        let mut options = expression.options;
        if evaluation == EvaluationType::Legacy {
            // `legacy` always asks for open and hidden indices.
            (options.open, options.hidden) = (true, true);
        }
        self.is_all = expression.is_of_all();
        self.may_be_empty = options.allow_no_indices;
        self.is_reducible = options.ignore_unavailable;
        if evaluation == EvaluationType::Legacy && is_unresolved(inventory, expression) {
            return self.add_unresolved(inventory, expression);
        }
        // `*,-*` matches no index, whichever exist.
        if expression.text() == NOTHING && inventory.is_some() {
            self.is_reducible |= options.open;
            return;
        }
        let mut excluded = Exclusions::default();
        let mut named = Names::default();
        // Named aliases and data streams. A node looks them up after the exclusions.
        let mut groups = Names::default();
        // With `expand_wildcards=none` a node takes each part for a name.
        let excludes = expression.options.expands();
        let exclusions = exclusions(expression, evaluation);
        for part in expression.parts() {
            match (part, inventory) {
                (Part::Name(name), _) => {
                    named.add_name(inventory, evaluation, name);
                    self.add_name(inventory, evaluation, name);
                    let number =
                        inventory.and_then(|inventory| Some((inventory, inventory.number(name)?)));
                    if number.is_some_and(|(inventory, number)| !inventory.is_index(number)) {
                        groups.add_name(inventory, evaluation, name);
                    }
                }
                (Part::Pattern(pattern), _) if !options.expands() => {
                    self.unknown.push(Unknown::Name(pattern))
                }
                (Part::Pattern(pattern), Some(inventory)) => {
                    self.is_reducible |= options.open;
                    let matching = names_for_pattern(inventory, pattern, options, self.is_all);
                    self.replaced |= &matching & &inventory.aliases;
                    let expanded = expand_matching(inventory, matching, options);
                    self.left_out -= &expanded;
                    self.taken_out -= &expanded;
                    self.known |= expanded;
                }
                (Part::Pattern(pattern), None) => {
                    self.is_reducible |= options.open;
                    self.unknown.push(Unknown::Pattern(pattern));
                }
                (Part::Except(name), Some(inventory)) if !name.contains('*') => {
                    // Patterns stand for indices: the name of a group excludes none.
                    let index = inventory.number(name).filter(|number| inventory.is_index(*number));
                    index.into_iter().for_each(|number| {
                        self.known.remove(number);
                    });
                    excluded.add(name, self.unknown.len());
                }
                (Part::Except(pattern), Some(inventory)) => {
                    // Comparing with the names takes most of the time, so it is done once.
                    let names = names_matching(inventory, pattern);
                    let matching =
                        |options| without_hidden(inventory, names.clone(), pattern, options, false);
                    self.known -= certainly_excluded(inventory, matching(exclusions), exclusions);
                    let any_state = Options { open: true, closed: true, hidden: true, ..options };
                    self.left_out |= expand_matching(inventory, matching(any_state), any_state);
                    self.taken_out |= expand_matching(
                        inventory,
                        matching(expression.options),
                        expression.options,
                    );
                }
                // Exclusions indices need no privilege. Without an inventory they are unknown, so
                // they are checked anyway: stricter, never wider.
                (Part::Except(_), None) => {}
            }
        }
        excluded.take_out(&mut self.unknown, |unknown| match unknown {
            Unknown::Name(name) if excludes => Some(name),
            Unknown::Name(_) | Unknown::Pattern(_) => None,
        });
        self.known |= if excludes { groups.known } else { named.known.clone() };
        self.is_emptied = expression.excludes() && inventory.is_some() && self.is_nothing();
        if let (EvaluationType::Legacy, Some(inventory)) = (evaluation, inventory) {
            self.left_out |= &inventory.closed;
        }
        for out in [&mut self.left_out, &mut self.taken_out] {
            *out &= &self.known;
            *out -= &named.known;
        }
    }

    /// Adds the parts of an expression as they are, also exclusions, with their `-`.
    fn add_unresolved(&mut self, inventory: Option<&Inventory>, expression: &'t Expression<'_>) {
        for part in expression.text().split(',') {
            if part.contains('*') {
                self.unknown.push(Unknown::Pattern(part));
            } else {
                self.add_itself(inventory, part);
            }
        }
    }

    /// Adds a name: `legacy` replaces an alias by its members. An alias without known members stays
    /// itself. If it counted as nothing, everybody might search it.
    fn add_name(
        &mut self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        name: &'t str,
    ) {
        let known = inventory.and_then(|inventory| Some((inventory, inventory.number(name)?)));
        match known {
            Some((inventory, number))
                if evaluation == EvaluationType::Legacy
                    && inventory.kind(number) == Some(Kind::Alias)
                    && !inventory.related(number).is_empty() =>
            {
                self.known.extend(inventory.related(number));
                self.replaced.insert(number);
            }
            Some(_) | None => self.add_itself(inventory, name),
        }
    }

    fn add_itself(&mut self, inventory: Option<&Inventory>, name: &'t str) {
        match inventory.and_then(|inventory| inventory.number(name)) {
            Some(number) => {
                self.known.insert(number);
            }
            None => self.unknown.push(Unknown::Name(name)),
        }
    }
}

/// Names that an expression excludes from those before them. All are removed at once. Searching for
/// each would take time that grows with the square of their number, which a client chooses.
#[derive(Default)]
pub(crate) struct Exclusions<'e> {
    /// The number of names that were gathered before the name was last excluded.
    before: HashMap<&'e str, usize, RandomState>,
}

impl<'e> Exclusions<'e> {
    /// Excludes a name from the first `gathered` names.
    pub(crate) fn add(&mut self, name: &'e str, gathered: usize) {
        if gathered > 0 {
            self.before.insert(name, gathered);
        }
    }

    pub(crate) fn take_out<T>(
        &self,
        gathered: &mut Vec<T>,
        name: impl for<'t> Fn(&'t T) -> Option<&'t str>,
    ) {
        if self.before.is_empty() {
            return;
        }
        let mut number = 0;
        gathered.retain(|item| {
            number += 1;
            name(item).and_then(|name| self.before.get(name)).is_none_or(|before| number > *before)
        });
    }
}

/// The names that a pattern stands for: indices, the members of aliases, and data streams.
pub(crate) fn expand(
    inventory: &Inventory,
    pattern: &str,
    options: Options,
    is_all: bool,
) -> RoaringBitmap {
    expand_matching(inventory, names_for_pattern(inventory, pattern, options, is_all), options)
}

/// The same for the names that the pattern matches.
pub(crate) fn expand_matching(
    inventory: &Inventory,
    matching: RoaringBitmap,
    options: Options,
) -> RoaringBitmap {
    let mut indices = &matching & &inventory.open;
    indices |= &matching & &inventory.closed;
    for alias in &matching & &inventory.aliases {
        let members = inventory.related(alias);
        indices.extend(members);
        // An alias without known members counts by its own name.
        if members.is_empty() {
            indices.insert(alias);
        }
    }
    if !options.open {
        // An index that is not listed may be closed.
        indices -= &inventory.open - &inventory.unlisted;
    }
    if !options.closed {
        indices -= &inventory.closed;
    }
    indices | (matching & &inventory.data_streams)
}

/// The hidden indices that a target does not stand for: it has neither their names nor those of
/// their aliases, and its patterns do not match. `legacy` decides about them, too.
pub(crate) fn hidden_beside(inventory: &Inventory, target: &Target<'_>) -> RoaringBitmap {
    let Some(expression) = target.expression() else { return RoaringBitmap::new() };
    let mut hidden = inventory.hidden.clone();
    for part in expression.parts() {
        match part {
            Part::Name(name) => {
                let number = inventory.number(name);
                let members = number.map(|number| inventory.related(number)).unwrap_or_default();
                number.iter().chain(members).for_each(|number| {
                    hidden.remove(*number);
                });
            }
            Part::Pattern(pattern) => {
                hidden -= expand(inventory, pattern, expression.options, expression.is_of_all());
            }
            Part::Except(_) => {}
        }
    }
    hidden
}

/// The names that a pattern certainly excludes, of those that it matches: indices and data streams.
/// It is not known whether an alias, or a data stream whose name begins with a dot, is hidden, and
/// some operations ignore aliases. An index that is not listed may be hidden or closed.
pub(crate) fn certainly_excluded(
    inventory: &Inventory,
    matching: RoaringBitmap,
    options: Options,
) -> RoaringBitmap {
    let mut certain = matching;
    certain -= &inventory.aliases;
    certain -= &inventory.unlisted;
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

/// The states of indices that exclusions expand to. A node goes by the request. If the request has
/// only patterns, open indices may count, too, because a node does not reach them.
fn exclusions(expression: &Expression<'_>, evaluation: EvaluationType) -> Options {
    let counts_open = evaluation == EvaluationType::Legacy && !expression.has_name();
    Options { open: expression.options.open || counts_open, ..expression.options }
}

/// Whether `legacy` takes the parts of an expression as they are. It resolves none if it does not
/// find one of the names, and it finds no data streams by their names.
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
    let kind = inventory.and_then(|inventory| inventory.kind(inventory.number(name)?));
    matches!(kind, Some(Kind::OpenIndex | Kind::ClosedIndex | Kind::Alias))
}

/// The names that a pattern stands for by themselves. All indices are meant without their aliases.
pub(crate) fn names_for_pattern(
    inventory: &Inventory,
    pattern: &str,
    options: Options,
    is_all: bool,
) -> RoaringBitmap {
    without_hidden(inventory, names_matching(inventory, pattern), pattern, options, is_all)
}

/// The names for which a pattern stands among its matches: hidden names only if asked for.
fn without_hidden(
    inventory: &Inventory,
    mut matching: RoaringBitmap,
    pattern: &str,
    options: Options,
    is_all: bool,
) -> RoaringBitmap {
    if !options.hidden {
        let mut hidden = &matching & &inventory.hidden;
        if pattern.starts_with('.') && !is_all {
            hidden.remove_range(inventory.with_prefix("."));
        }
        matching -= hidden;
    }
    if is_all {
        matching -= &inventory.aliases;
    }
    matching
}

/// The names that match a pattern whose only wildcard is `*`.
fn names_matching(inventory: &Inventory, pattern: &str) -> RoaringBitmap {
    let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
    let range = inventory.with_prefix(prefix);
    let mut names = RoaringBitmap::new();
    if rest.is_empty() && prefix.len() < pattern.len() {
        names.insert_range(range);
    } else {
        names.extend(range.filter(|number| matches(pattern, inventory.name(*number))));
    }
    names
}
