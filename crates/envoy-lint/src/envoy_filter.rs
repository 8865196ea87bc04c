//! Patches of an `EnvoyFilter` of Istio: the order of the filters that they insert into a connection manager that has others, and
//! settings that they merge into it.

use std::collections::BTreeSet;

use policy::document::View;

use crate::authorizer::Authorizer;
use crate::connection_manager::{is_manager, lint_merged};
use crate::filter::{Discovered, Filter};
use crate::filters::Filters;
use crate::{Findings, Kind};

const ROUTER: &str = "envoy.filters.http.router";
const ANY: &str = "ANY";
const BEHIND_ROUTER: &str =
    "the filter is put behind the router, where no request passes it, and Envoy refuses the listener";

/// Reports what is wrong about these patches, in the order in which Istio applies them. `routes` are those outside of a connection
/// manager.
pub(crate) fn lint<'n>(
    patches: &[&View<'n>],
    routes: &[&View<'n>],
    discovered: &Discovered<'n>,
    findings: &mut Findings,
) {
    for patch in patches {
        let config = patch.at(&["patch", "value", "typed_config"]);
        if let Some(settings) = config.filter(is_manager) {
            lint_merged(&settings, discovered, findings);
        }
    }
    lint_places(patches, discovered, findings);
    let with_value = patches.iter().filter_map(|patch| Some((*patch, patch.at(&["patch", "value"])?)));
    let filters: Vec<(&View<'n>, View<'n>)> =
        with_value.filter(|(patch, _)| is_of_filter(patch) && !removes(patch)).collect();
    let own = filters.iter().filter(|(_, value)| authorizes(value, discovered));
    let own = own.map(|(patch, _)| context(patch));
    for place in own.collect::<BTreeSet<&str>>() {
        let mut here = filters.clone();
        here.retain(|(patch, _)| [context(patch), place].contains(&ANY) || context(patch) == place);
        let list = Filters::of(&order(&here), discovered);
        list.lint_early(routes, findings);
        list.lint_rewrites(findings);
        list.lint_cleared_routes(routes, findings);
    }
}

/// Whether the value of a patch is a filter that authorizes requests.
fn authorizes<'n>(value: &View<'n>, discovered: &Discovered<'n>) -> bool {
    !Authorizer::of(&Filter::of(value, discovered)).is_empty()
}

/// Reports patches that take a filter out again that authorizes requests, and those that put one where no request passes it.
fn lint_places<'n>(patches: &[&View<'n>], discovered: &Discovered<'n>, findings: &mut Findings) {
    let mut own: Vec<(&View<'n>, View<'n>)> = Vec::new();
    for patch in patches.iter().filter(|patch| !removes(patch)) {
        own.extend(patch.at(&["patch", "value"]).map(|value| (*patch, value)));
    }
    own.retain(|(_, value)| authorizes(value, discovered));
    let place = |patch: &View<'n>| patch.get("patch").unwrap_or_else(|| patch.clone());
    for removing in patches.iter().filter(|patch| is_of_filter(patch) && removes(patch)) {
        let is_removed = |(patch, value): &(&View<'n>, View<'n>)| {
            is_for_same(patch, removing) && value.text_of("name") == neighbour(removing)
        };
        if own.iter().any(is_removed) {
            let message = "this takes the filter out again: requests pass without authorization";
            findings.add(&place(removing), Kind::DisabledFilter, message, "leave this patch out");
        }
    }
    for (patch, value) in own.iter().filter(|(patch, _)| is_of_listener(patch)) {
        let name = value.text_of("name").unwrap_or_default();
        let inserts = |(other, value): &(&View<'n>, View<'n>)| {
            value.text_of("name") == Some(name) && operation(other) != "MERGE" && is_for_same(other, patch)
        };
        let merges = operation(patch) == "MERGE";
        if merges && own.iter().any(inserts) {
            continue;
        }
        if merges && neighbour(patch) == Some(name) {
            let message =
                "no patch in this file inserts the filter: whether one does elsewhere cannot be seen";
            let fix = "lint what `/config_dump` of Envoy's admin page prints";
            findings.add(patch, Kind::UnseenFilter, message, fix);
        } else if let Some(message) = misplaced(patch) {
            let fix = "applyTo: HTTP_FILTER, with operation: INSERT_BEFORE and subFilter: { name: envoy.filters.http.router }";
            findings.add(&place(patch), Kind::MisplacedFilter, message, fix);
        }
    }
}

/// Why no request passes the filter of a patch. Istio puts it at the end of the list where no other filter is named.
fn misplaced(patch: &View<'_>) -> Option<&'static str> {
    if !is_of_filter(patch) {
        return Some("this patch is not for the filters of HTTP requests: no request passes it");
    }
    let is_at_router = neighbour(patch).is_none_or(|name| name == ROUTER);
    match (operation(patch), neighbour(patch)) {
        ("ADD", _) => Some(BEHIND_ROUTER),
        ("INSERT_AFTER", _) if is_at_router => Some(BEHIND_ROUTER),
        ("REPLACE", Some(ROUTER)) => {
            Some("the filter takes the place of the router, and Envoy refuses the listener")
        }
        ("REPLACE", None) => Some("this names no filter to replace, so Istio skips it: there is no filter"),
        ("MERGE", _) => Some("nothing inserts the filter: this changes another one, which is there already"),
        _ => None,
    }
}

/// Whether two patches are for the same connection managers, or may be.
fn is_for_same(one: &View<'_>, other: &View<'_>) -> bool {
    context(one) == context(other) || [context(one), context(other)].contains(&ANY)
}

/// What a patch does.
fn operation<'n>(patch: &View<'n>) -> &'n str {
    patch.at(&["patch", "operation"]).and_then(|operation| operation.text()).unwrap_or_default()
}

/// Whether a patch is for a filter of HTTP requests.
fn is_of_filter(patch: &View<'_>) -> bool {
    patch.text_of("apply_to") == Some("HTTP_FILTER")
}

/// Whether a patch is for a part of a listener. Others may have the filter's configuration for those (`EXTENSION_CONFIG`).
fn is_of_listener(patch: &View<'_>) -> bool {
    let parts = ["HTTP_FILTER", "NETWORK_FILTER", "LISTENER_FILTER", "LISTENER", "FILTER_CHAIN"];
    patch.text_of("apply_to").is_some_and(|to| parts.contains(&to))
}

/// Whether a patch takes something out, so that its value does not count.
pub(crate) fn removes(patch: &View<'_>) -> bool {
    operation(patch) == "REMOVE"
}

/// Which connection managers a patch is for.
fn context<'n>(patch: &View<'n>) -> &'n str {
    patch.at(&["match", "context"]).and_then(|context| context.text()).unwrap_or(ANY)
}

/// The filter of the manager that a patch names.
fn neighbour<'n>(patch: &View<'n>) -> Option<&'n str> {
    let path = ["match", "listener", "filter_chain", "filter", "sub_filter", "name"];
    patch.at(&path).and_then(|name| name.text())
}

/// The filters that these patches insert, in the order in which requests pass them. The manager's own are those that patches name and
/// none inserts; the router is the last.
fn order<'n>(patches: &[(&View<'n>, View<'n>)]) -> Vec<View<'n>> {
    let inserted: Vec<&str> = patches.iter().filter_map(|(_, value)| value.text_of("name")).collect();
    let mut list: Vec<(&str, Option<View<'n>>)> = Vec::new();
    for name in patches.iter().filter_map(|(patch, _)| neighbour(patch)).chain([ROUTER]) {
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
        left.retain(|(patch, value)| {
            let position = position(patch, &list);
            if let Some(position) = position {
                list.insert(position, (value.text_of("name").unwrap_or_default(), Some(value.clone())));
            }
            position.is_none()
        });
    }
    list.into_iter().filter_map(|(_, value)| value).collect()
}

/// Where in this list of names a patch inserts its filter; `None` if the filter that it names is not there.
fn position(patch: &View<'_>, list: &[(&str, Option<View<'_>>)]) -> Option<usize> {
    let at = match neighbour(patch) {
        Some(next) => Some(list.iter().position(|(name, _)| *name == next)?),
        None => None,
    };
    match patch.at(&["patch", "operation"])?.text()? {
        "INSERT_FIRST" => Some(0),
        "INSERT_BEFORE" | "REPLACE" => Some(at.unwrap_or(0)),
        "INSERT_AFTER" => Some(at.map_or(list.len(), |at| at + 1)),
        "ADD" => Some(list.len()),
        _ => None,
    }
}
