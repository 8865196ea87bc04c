//! The state and the age of the policy, the bundle, the keys and the inventory.

use std::time::Duration;

use authorizer::Authorizer;
use explain::{ClusterRoleQuery, Explainer};
use maud::{Markup, html};
use runtime::status::{BundleResult, Facts, KeyFacts, PolicyFacts};

use super::{ago, counted, table};
use crate::times::utc;

pub(super) fn section(
    facts: &Facts,
    shadow: Option<&Facts>,
    policy: Option<&Authorizer>,
) -> Markup {
    html! {
        (table("Policy and keys", None, ["", "state", "loaded", "details"], &html! {
            tbody {
                (policy_row("active policy", &facts.policy, policy.map(size)))
                @if let Some(bundle) = &facts.bundle {
                    tr {
                        th scope="row" { "bundle" }
                        td { (bundle.last.map_or("not fetched", BundleResult::name)) }
                        td { (at(bundle.fetched)) }
                        td {
                            @if let Some(revision) = bundle.revision { "revision " (revision) "; " }
                            @if bundle.must_be_signed { "must be signed" }
                            @else { "need not be signed" }
                            @match bundle.cached {
                                Some(true) => "; cached",
                                Some(false) => "; not cached",
                                None => "",
                            }
                        }
                    }
                }
                @for keys in facts.keys.values() {
                    (fetched_row(&format!("keys of {}", keys.issuers), keys))
                }
                @if let Some(inventory) = &facts.inventory {
                    (fetched_row("inventory of the search cluster", inventory))
                }
                @if let Some(shadow) = shadow {
                    (policy_row("shadow policy", &shadow.policy, None))
                }
            }
        }))
    }
}

fn size(authorizer: &Authorizer) -> String {
    let policy = &authorizer.loaded().policy;
    let roles = counted(policy.roles.len(), "role");
    let rules = counted(policy.rules().count(), "rule");
    match Explainer::new(authorizer).cluster_roles(ClusterRoleQuery::default(), 0) {
        Some(cluster_roles) => {
            let cluster_roles = counted(cluster_roles.count, "role");
            format!("{roles}, {rules}, {cluster_roles} of the search cluster")
        }
        None => format!("{roles}, {rules}"),
    }
}

fn policy_row(name: &str, policy: &PolicyFacts, size: Option<String>) -> Markup {
    let state = match (&policy.revision, policy.failing_since, policy.stale) {
        (None, ..) => "✗ none is active",
        (Some(_), _, true) => "✗ stale",
        (Some(_), Some(_), false) => "✗ a change does not load",
        (Some(_), None, false) => "✓ current",
    };
    html! {
        tr {
            th scope="row" { (name) }
            td { (state) }
            td { (at(policy.loaded)) }
            td {
                @if let Some(revision) = &policy.revision {
                    "revision " code { (revision.policy) }
                    @if let Some(keys) = &revision.keys { ", keys " code { (keys) } }
                    "; "
                }
                @if let Some(size) = size { (size) "; " }
                (policy.reloads) " reloaded, " (policy.failures) " failed"
                @if policy.warnings > 0 {
                    "; " (counted(policy.warnings, "lint warning")) ": see "
                    code { "rolegate check" }
                }
            }
        }
    }
}

/// A row for the keys of an issuer, or for the inventory.
fn fetched_row(name: &str, facts: &KeyFacts) -> Markup {
    let state = match (facts.loaded, facts.stale, facts.failing.is_some()) {
        (false, true, _) => "✗ too old, not used",
        (false, false, _) => "✗ not fetched",
        (true, true, _) => "! older than allowed",
        (true, false, true) => "! cannot be fetched again",
        (true, false, false) => "✓ current",
    };
    html! {
        tr {
            th scope="row" { (name) }
            td { (state) }
            td { (at(facts.fetched)) }
            td {
                (facts.fetches) " fetched, " (facts.failures) " failed, "
                (facts.rejected) " not usable"
            }
        }
    }
}

/// A time since the Unix epoch, and how long ago it was; zero means never.
fn at(time: Duration) -> Markup {
    html! { @if time.is_zero() { "never" } @else { (utc(time)) br; (ago(time)) } }
}
