//! Patches of an `EnvoyFilter` of Istio: the order of the filters that they insert into a connection manager that has others, and
//! settings that they merge into it.

use std::collections::BTreeSet;

use document::View;

use crate::authorizer::Authorizer;
use crate::connection_manager::{is_manager, lint_merged};
use crate::filter::{Discovered, Filter};
use crate::filters::Filters;
use crate::values::LINT_DUMP;
use crate::{Findings, Kind};

const ROUTER: &str = "envoy.filters.http.router";
const ANY: &str = "ANY";
const BEHIND_ROUTER: &str =
    "the filter is put behind the router, where no request passes it, and Envoy refuses the listener";

/// A patch of an `EnvoyFilter`.
#[derive(Debug)]
struct Patch<'n> {
    view: View<'n>,
    /// The number of its `EnvoyFilter`, and its own there. Istio applies the patches of one in their order, but for those that merge,
    /// which are the last. Which of several it applies first, the file does not say.
    number: (usize, usize),
    /// The labels of the workloads that it is for; without any it is for all.
    labels: Vec<(String, &'n str)>,
    /// What it inserts or merges.
    value: Option<View<'n>>,
    /// Whether that is a filter that authorizes requests.
    authorizes: bool,
}

/// Reports what is wrong about the patches of these `spec`s of `EnvoyFilter`s, in the order in which Istio applies them. `routes` are
/// those outside of a connection manager.
pub(crate) fn lint<'n>(
    specs: &[&View<'n>],
    routes: &[&View<'n>],
    discovered: &Discovered<'n>,
    findings: &mut Findings,
) {
    let numbered = specs.iter().enumerate();
    let patches: Vec<Patch<'n>> =
        numbered.flat_map(|(number, spec)| Patch::all_of(spec, number, discovered)).collect();
    for patch in &patches {
        let config = patch.view.at(&["patch", "value", "typed_config"]);
        if let Some(settings) = config.filter(is_manager) {
            lint_merged(&settings, discovered, findings);
        }
    }
    lint_taken_out(&patches, findings);
    lint_places(&patches, findings);
    let filters = || patches.iter().filter(|patch| patch.is_of_filter() && patch.value.is_some());
    let mut seen = BTreeSet::new();
    for own in filters().filter(|patch| patch.authorizes) {
        if seen.insert((own.context(), &own.labels)) {
            let here: Vec<&Patch<'_>> = filters().filter(|patch| patch.is_for_same(own)).collect();
            let list = Filters::of(&order(&here), discovered);
            list.lint_early(routes, findings);
            list.lint_rewrites(routes, findings);
            list.lint_cleared_routes(routes, findings);
        }
    }
}

/// Reports patches that take a filter out again that authorizes requests.
fn lint_taken_out(patches: &[Patch<'_>], findings: &mut Findings) {
    for removing in patches.iter().filter(|patch| patch.takes_out()) {
        let Some(name) = removing.neighbour() else { continue };
        let mut own = patches.iter().filter(|patch| patch.authorizes && patch.is_for_same(removing));
        let inserting: Vec<&Patch<'_>> = own.clone().filter(|patch| patch.inserts(name)).collect();
        let is_before =
            |patch: &&Patch<'_>| patch.number.0 == removing.number.0 && patch.number.1 < removing.number.1;
        let message = if inserting.iter().any(is_before) {
            "this takes the filter out again: requests pass without authorization"
        } else if inserting.iter().any(|patch| patch.number.0 != removing.number.0)
            || (inserting.is_empty() && own.any(|patch| patch.changes(name)))
        {
            "this may take the filter out again, so that requests pass without authorization: which `EnvoyFilter` Istio applies first \
             is not in this file"
        } else {
            // The filter that it takes out is another one, which was there before.
            continue;
        };
        findings.add(&removing.place(), Kind::DisabledFilter, message, "leave this patch out");
    }
}

/// Reports patches that put a filter that authorizes requests where no request passes it.
fn lint_places(patches: &[Patch<'_>], findings: &mut Findings) {
    for patch in patches.iter().filter(|patch| patch.authorizes && patch.is_of_listener()) {
        let name = patch.name().unwrap_or_default();
        // What a patch replaces may be any filter of this name; what it changes is one that authorizes.
        let mut others = patches.iter().filter(|other| other.authorizes || !patch.merges());
        let changes = patch.changes(name);
        if (changes || patch.merges()) && others.any(|other| other.inserts(name) && other.is_for_same(patch))
        {
            continue;
        }
        if changes {
            let message =
                "no patch in this file inserts the filter: whether one does elsewhere cannot be seen";
            findings.add(&patch.view, Kind::UnseenFilter, message, LINT_DUMP);
        } else if let Some(message) = patch.misplaced() {
            let fix = "applyTo: HTTP_FILTER, with operation: INSERT_BEFORE and subFilter: { name: envoy.filters.http.router }";
            findings.add(&patch.place(), Kind::MisplacedFilter, message, fix);
        }
    }
}

impl<'n> Patch<'n> {
    /// The patches of this `spec`, in their order.
    fn all_of(spec: &View<'n>, resource: usize, discovered: &Discovered<'n>) -> Vec<Self> {
        let labels = spec.at(&["workload_selector", "labels"]);
        let labels = labels.map(|labels| labels.named_entries()).unwrap_or_default();
        let labels: Vec<(String, &'n str)> =
            labels.into_iter().filter_map(|(name, label)| Some((name, label.text()?))).collect();
        let views = spec.list("config_patches").into_iter().filter(|view| view.get("patch").is_some());
        let patch = |(number, view): (usize, View<'n>)| {
            let value = view.at(&["patch", "value"]).filter(|_| !removes(&view));
            let is_own = |value: &View<'n>| !Authorizer::of(&Filter::of(value, discovered)).is_empty();
            Self {
                number: (resource, number),
                labels: labels.clone(),
                authorizes: value.as_ref().is_some_and(is_own),
                value,
                view,
            }
        };
        views.enumerate().map(patch).collect()
    }

    /// The name of the filter that it inserts or merges.
    fn name(&self) -> Option<&'n str> {
        self.value.as_ref()?.text_of("name")
    }

    /// Where it says what it does.
    fn place(&self) -> View<'n> {
        self.view.get("patch").unwrap_or_else(|| self.view.clone())
    }

    /// Why no request passes its filter. Istio puts it at the end of the list where no other filter is named.
    fn misplaced(&self) -> Option<&'static str> {
        if !self.is_of_filter() {
            return Some("this patch is not for the filters of HTTP requests: no request passes it");
        }
        let is_at_router = self.neighbour().is_none_or(|name| name == ROUTER);
        match (self.operation(), self.neighbour()) {
            ("ADD", _) => Some(BEHIND_ROUTER),
            ("INSERT_AFTER", _) if is_at_router => Some(BEHIND_ROUTER),
            ("REPLACE", Some(ROUTER)) => {
                Some("the filter takes the place of the router, and Envoy refuses the listener")
            }
            ("REPLACE", None) => {
                Some("this names no filter to replace, so Istio skips it: there is no filter")
            }
            ("INSERT_FIRST" | "INSERT_BEFORE" | "INSERT_AFTER" | "REPLACE", _) => None,
            _ if self.merges() => {
                Some("nothing inserts the filter: this changes another one, which is there already")
            }
            _ => Some("this is no operation of Istio, which inserts no filter then"),
        }
    }

    /// Whether two patches are for the same connection managers, or may be. No workload has two values of one label.
    fn is_for_same(&self, other: &Self) -> bool {
        let (own, of_other) = (self.context(), other.context());
        let differ = |(name, value): &(String, &str)| {
            other.labels.iter().any(|(other_name, other)| other_name == name && other != value)
        };
        (own == of_other || [own, of_other].contains(&ANY)) && !self.labels.iter().any(differ)
    }

    /// What it does.
    fn operation(&self) -> &'n str {
        operation(&self.view)
    }

    /// Whether it changes a filter that is there.
    fn merges(&self) -> bool {
        ["MERGE", "MERGE_AND_REPLACE_LIST"].contains(&self.operation())
    }

    /// Whether its filter gets into a list of filters that has none of this name.
    fn inserts(&self, name: &str) -> bool {
        let is_insert = match self.operation() {
            "ADD" | "INSERT_FIRST" | "INSERT_BEFORE" | "INSERT_AFTER" => true,
            "REPLACE" => self.neighbour().is_some_and(|replaced| replaced != name),
            _ => false,
        };
        is_insert && self.is_of_filter() && self.name() == Some(name)
    }

    /// Whether it changes a filter of this name, or puts its own, of the same name, in its place: there must be one.
    fn changes(&self, name: &str) -> bool {
        let replaces = self.operation() == "REPLACE" && self.name() == Some(name);
        (self.merges() || replaces) && self.is_of_filter() && self.neighbour() == Some(name)
    }

    /// Whether it takes the filter out that it names, and puts none that authorizes requests in its place.
    fn takes_out(&self) -> bool {
        self.is_of_filter() && (removes(&self.view) || (self.operation() == "REPLACE" && !self.authorizes))
    }

    /// Whether it is for a filter of HTTP requests.
    fn is_of_filter(&self) -> bool {
        self.view.text_of("apply_to") == Some("HTTP_FILTER")
    }

    /// Whether it is for a part of a listener. Others may have the filter's configuration for those (`EXTENSION_CONFIG`).
    fn is_of_listener(&self) -> bool {
        let parts = ["HTTP_FILTER", "NETWORK_FILTER", "LISTENER_FILTER", "LISTENER", "FILTER_CHAIN"];
        self.view.text_of("apply_to").is_some_and(|to| parts.contains(&to))
    }

    /// Which connection managers it is for.
    fn context(&self) -> &'n str {
        self.view.at(&["match", "context"]).and_then(|context| context.text()).unwrap_or(ANY)
    }

    /// The filter of the manager that it names.
    fn neighbour(&self) -> Option<&'n str> {
        let path = ["match", "listener", "filter_chain", "filter", "sub_filter", "name"];
        self.view.at(&path).and_then(|name| name.text())
    }
}

/// Whether a patch takes something out, so that its value does not count.
pub(crate) fn removes(patch: &View<'_>) -> bool {
    operation(patch) == "REMOVE"
}

fn operation<'n>(patch: &View<'n>) -> &'n str {
    patch.at(&["patch", "operation"]).and_then(|operation| operation.text()).unwrap_or_default()
}

/// The filters that these patches insert, in the order in which requests pass them. The manager's own are those that patches name and
/// none inserts; the router is the last.
fn order<'n>(patches: &[&Patch<'n>]) -> Vec<View<'n>> {
    let inserted: Vec<&str> = patches.iter().filter_map(|patch| patch.name()).collect();
    let mut list: Vec<(&str, Option<View<'n>>)> = Vec::new();
    for name in patches.iter().filter_map(|patch| patch.neighbour()).chain([ROUTER]) {
        let is_own = name == ROUTER || !inserted.contains(&name);
        if is_own {
            list.retain(|(other, _)| *other != name);
            list.push((name, None));
        }
    }
    list.sort_by_key(|(name, _)| *name == ROUTER);
    // Which of two `EnvoyFilter`s Istio applies first, the file does not say: a patch may name a filter that a later one inserts.
    let mut left = patches.iter().collect::<Vec<_>>();
    for _ in 0..2 {
        left.retain(|patch| {
            let position = position(patch, &list);
            if let Some(position) = position {
                list.insert(position, (patch.name().unwrap_or_default(), patch.value.clone()));
            }
            position.is_none()
        });
    }
    list.into_iter().filter_map(|(_, value)| value).collect()
}

/// Where in this list of names a patch inserts its filter; `None` if the filter that it names is not there.
fn position(patch: &Patch<'_>, list: &[(&str, Option<View<'_>>)]) -> Option<usize> {
    let at = match patch.neighbour() {
        Some(next) => Some(list.iter().position(|(name, _)| *name == next)?),
        None => None,
    };
    match patch.operation() {
        "INSERT_FIRST" => Some(0),
        "INSERT_BEFORE" | "REPLACE" => Some(at.unwrap_or(0)),
        "INSERT_AFTER" => Some(at.map_or(list.len(), |at| at + 1)),
        "ADD" => Some(list.len()),
        _ => None,
    }
}
