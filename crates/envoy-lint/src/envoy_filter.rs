//! Patches of Istio's `EnvoyFilter`s. They insert filters into a connection manager, which has
//! other filters already, and merge settings into it. The order of the filters matters.

use std::collections::BTreeSet;

use document::View;

use crate::authorizer::Authorizer;
use crate::connection_manager::{is_manager, lint_merged};
use crate::filter::{Discovered, Filter};
use crate::filters::Filters;
use crate::{Findings, Kind, LINT_DUMP, get_or_self};

const ROUTER: &str = "envoy.filters.http.router";
const ANY: &str = "ANY";

#[derive(Debug)]
struct Patch<'n> {
    view: View<'n>,
    /// The field `patch`, which has the operation; `view` if there is none.
    at: View<'n>,
    /// The index of the `EnvoyFilter`, and the index of the patch in it. Istio applies the patches
    /// of an `EnvoyFilter` in order, but those that merge come last. The file does not determine
    /// the order of several `EnvoyFilter`s.
    number: (usize, usize),
    /// The labels of the workloads that the patch applies to; if empty, to every workload.
    labels: Vec<(String, &'n str)>,
    apply_to: &'n str,
    /// Which connection managers the patch applies to, such as `GATEWAY` or `ANY`.
    context: &'n str,
    operation: &'n str,
    /// The existing filter in the connection manager that the patch refers to.
    neighbour: Option<&'n str>,
    /// The inserted or merged filter or settings. `name` is its name.
    value: Option<View<'n>>,
    name: Option<&'n str>,
    /// Whether the patch inserts or merges a filter that authorizes requests.
    authorizes: bool,
}

/// Reports unsafe patches in these `spec`s of `EnvoyFilter`s. `routes` are the routes outside of
/// connection managers.
pub(crate) fn lint<'n>(
    specs: &[View<'n>],
    routes: &[&View<'n>],
    discovered: &Discovered<'n>,
    findings: &mut Findings,
) {
    let mut patches: Vec<Patch<'n>> = Vec::new();
    for (resource, spec) in specs.iter().enumerate() {
        let mut views = spec.list("config_patches");
        views.retain(|view| view.get("patch").is_some());
        for (number, view) in views.iter().enumerate() {
            patches.push(Patch::new(view, spec, (resource, number), discovered));
        }
    }
    for patch in &patches {
        if let Some(settings) = patch.at.get("value/typed_config").filter(is_manager) {
            lint_merged(&settings, discovered, findings);
        }
    }
    lint_removals(&patches, findings);
    lint_places(&patches, findings);
    let mut linted = BTreeSet::new();
    for patch in patches.iter().filter(|patch| patch.is_of_filter() && patch.authorizes) {
        if linted.insert((patch.context, &patch.labels)) {
            let mut filters: Vec<&Patch<'_>> = patches.iter().collect();
            filters.retain(|filter| {
                filter.is_of_filter() && filter.value.is_some() && filter.is_for_same(patch)
            });
            Filters::new(&order(&filters), discovered).lint(routes, routes, findings);
        }
    }
}

/// Reports patches that remove an authorizing filter that other patches insert.
fn lint_removals(patches: &[Patch<'_>], findings: &mut Findings) {
    for removal in patches.iter().filter(|patch| patch.takes_out()) {
        let Some(name) = removal.neighbour else { continue };
        let mut authorizers: Vec<&Patch<'_>> = patches.iter().collect();
        authorizers.retain(|patch| patch.authorizes && patch.is_for_same(removal));
        let inserts: Vec<(usize, usize)> = authorizers
            .iter()
            .filter(|patch| patch.inserts(name))
            .map(|patch| patch.number)
            .collect();
        let (resource, _) = removal.number;
        let message = if inserts.iter().any(|at| at.0 == resource && *at < removal.number) {
            "this takes the filter out again: requests pass without authorization"
        } else if inserts.iter().any(|at| at.0 != resource)
            || (inserts.is_empty() && authorizers.iter().any(|patch| patch.changes(name)))
        {
            "this may take the filter out again, so that requests pass without authorization: \
             which `EnvoyFilter` Istio applies first is not in this file"
        } else {
            // The patch removes another filter, which the connection manager had already.
            continue;
        };
        findings.add(&removal.at, Kind::DisabledFilter, message, "leave this patch out");
    }
}

/// Reports patches that insert an authorizing filter where no request passes it.
fn lint_places(patches: &[Patch<'_>], findings: &mut Findings) {
    for patch in patches.iter().filter(|patch| patch.authorizes && patch.is_of_listener()) {
        let name = patch.name.unwrap_or_default();
        let changes = patch.changes(name);
        // A patch that replaces a filter may replace any of this name. A patch that merges into a
        // filter needs one that authorizes by itself.
        let has_filter = patches.iter().any(|filter| {
            (filter.authorizes || !patch.merges())
                && filter.inserts(name)
                && filter.is_for_same(patch)
        });
        if (changes || patch.merges()) && has_filter {
            continue;
        }
        if changes {
            let message = "no patch in this file inserts the filter: whether one does elsewhere \
                           cannot be seen";
            findings.add(&patch.view, Kind::UnseenFilter, message, LINT_DUMP);
        } else if let Some(message) = patch.misplaced() {
            let fix = "applyTo: HTTP_FILTER, with operation: INSERT_BEFORE and subFilter: { name: \
                       envoy.filters.http.router }";
            findings.add(&patch.at, Kind::MisplacedFilter, message, fix);
        }
    }
}

impl<'n> Patch<'n> {
    fn new(
        view: &View<'n>,
        spec: &View<'n>,
        number: (usize, usize),
        discovered: &Discovered<'n>,
    ) -> Self {
        let labels = spec.entries_as_written_at("workload_selector/labels").into_iter();
        let value = view.get("patch/value").filter(|_| !removes(view));
        let filter = value.as_ref().map(|value| Filter::new(value, discovered));
        Self {
            view: view.clone(),
            at: get_or_self(view, "patch"),
            number,
            labels: labels.filter_map(|(name, label)| Some((name, label.text()?))).collect(),
            apply_to: view.text_of("apply_to").unwrap_or_default(),
            context: view.text_of("match/context").unwrap_or(ANY),
            operation: view.text_of("patch/operation").unwrap_or_default(),
            neighbour: view.text_of("match/listener/filter_chain/filter/sub_filter/name"),
            name: value.as_ref().and_then(|value| value.text_of("name")),
            value,
            authorizes: filter.is_some_and(|filter| !Authorizer::all_in(&filter).is_empty()),
        }
    }

    /// Why no request passes the patch's filter. Istio appends the filter to the list for `ADD`,
    /// and for an `INSERT_AFTER` that names no other filter.
    fn misplaced(&self) -> Option<&'static str> {
        if !self.is_of_filter() {
            return Some(
                "this patch is not for the filters of HTTP requests: no request passes it",
            );
        }
        Some(match (self.operation, self.neighbour) {
            ("ADD", _) | ("INSERT_AFTER", None | Some(ROUTER)) => {
                "the filter is put behind the router, where no request passes it, and Envoy \
                 refuses the listener"
            }
            ("REPLACE", Some(ROUTER)) => {
                "the filter takes the place of the router, and Envoy refuses the listener"
            }
            ("REPLACE", None) => {
                "this names no filter to replace, so Istio skips it: there is no filter"
            }
            ("INSERT_FIRST" | "INSERT_BEFORE" | "INSERT_AFTER" | "REPLACE", _) => return None,
            _ if self.merges() => {
                "nothing inserts the filter: this changes another one, which is there already"
            }
            _ => "this is no operation of Istio, which inserts no filter then",
        })
    }

    /// Whether two patches may apply to the same connection managers. A workload has one value for
    /// each label.
    fn is_for_same(&self, other: &Self) -> bool {
        let differ = |(name, value): &(String, &str)| {
            other.labels.iter().any(|(key, label)| key == name && label != value)
        };
        (self.context == other.context || [self.context, other.context].contains(&ANY))
            && !self.labels.iter().any(differ)
    }

    fn merges(&self) -> bool {
        ["MERGE", "MERGE_AND_REPLACE_LIST"].contains(&self.operation)
    }

    /// Whether the patch inserts a filter of this name, and needs no existing filter of this name.
    fn inserts(&self, name: &str) -> bool {
        let is_insert = match self.operation {
            "ADD" | "INSERT_FIRST" | "INSERT_BEFORE" | "INSERT_AFTER" => true,
            "REPLACE" => self.neighbour.is_some_and(|replaced| replaced != name),
            _ => false,
        };
        is_insert && self.is_of_filter() && self.name == Some(name)
    }

    /// Whether the patch merges into or replaces a filter of this name, and keeps the name. It
    /// needs an existing filter.
    fn changes(&self, name: &str) -> bool {
        let replaces = self.operation == "REPLACE" && self.name == Some(name);
        (self.merges() || replaces) && self.is_of_filter() && self.neighbour == Some(name)
    }

    /// Whether the patch removes the filter that it names, without an authorizing replacement.
    fn takes_out(&self) -> bool {
        let replaces = self.operation == "REPLACE" && !self.authorizes;
        self.is_of_filter() && (self.operation == "REMOVE" || replaces)
    }

    fn is_of_filter(&self) -> bool {
        self.apply_to == "HTTP_FILTER"
    }

    /// Whether the patch applies to a part of a listener. Other patches, such as those of
    /// `EXTENSION_CONFIG`, may contain a filter's configuration without inserting the filter.
    fn is_of_listener(&self) -> bool {
        ["HTTP_FILTER", "NETWORK_FILTER", "LISTENER_FILTER", "LISTENER", "FILTER_CHAIN"]
            .contains(&self.apply_to)
    }
}

pub(crate) fn removes(patch: &View<'_>) -> bool {
    patch.text_of("patch/operation") == Some("REMOVE")
}

/// The filters that these patches insert, in the order in which requests pass them. If a patch
/// names a filter that no patch has, the connection manager has it already. The router is last.
fn order<'n>(patches: &[&Patch<'n>]) -> Vec<View<'n>> {
    let mut list: Vec<(&str, Option<View<'n>>)> = Vec::new();
    for name in patches.iter().filter_map(|patch| patch.neighbour) {
        if name != ROUTER && !patches.iter().any(|patch| patch.name == Some(name)) {
            list.retain(|(earlier, _)| *earlier != name);
            list.push((name, None));
        }
    }
    list.push((ROUTER, None));
    // A patch may name a filter that a later patch inserts, as the order of `EnvoyFilter`s is
    // unknown: try twice.
    let mut pending = patches.to_vec();
    for _ in 0..2 {
        pending.retain(|patch| {
            let Some(position) = position(patch, &list) else { return true };
            list.insert(position, (patch.name.unwrap_or_default(), patch.value.clone()));
            false
        });
    }
    list.into_iter().filter_map(|(_, value)| value).collect()
}

/// The position in this list at which a patch inserts its filter; `None` if the filter that the
/// patch names is not in the list.
fn position(patch: &Patch<'_>, list: &[(&str, Option<View<'_>>)]) -> Option<usize> {
    let at = match patch.neighbour {
        Some(neighbour) => Some(list.iter().position(|(name, _)| *name == neighbour)?),
        None => None,
    };
    match patch.operation {
        "INSERT_FIRST" => Some(0),
        "INSERT_BEFORE" | "REPLACE" => Some(at.unwrap_or(0)),
        "INSERT_AFTER" => Some(at.map_or(list.len(), |at| at + 1)),
        "ADD" => Some(list.len()),
        _ => None,
    }
}
