//! The state and the age of the policy, the keys and the bundle.

use std::time::Duration;

use authorizer::Authorizer;
use explain::{ClusterRoleQuery, Explainer};
use maud::{Markup, html};
use runtime::status::{Facts, KeyFacts, PolicyFacts};

use super::{ago, counted, table};
use crate::times::utc;

pub(super) fn section(
    facts: &Facts,
    shadow: Option<&Facts>,
    policy: Option<&Authorizer>,
) -> Markup {
    let size = policy.map(|authorizer| {
        let policy = &authorizer.loaded().policy;
        let size = format!(
            "{}, {}",
            counted(policy.roles.len(), "role"),
            counted(policy.rules().count(), "rule")
        );
        match Explainer::new(authorizer).cluster_roles(ClusterRoleQuery::default(), 0) {
            Some(roles) => {
                format!("{size}, {} of the search cluster", counted(roles.count, "role"))
            }
            None => size,
        }
    });
    html! {
        (table("Policy and keys", None, ["what", "state", "loaded", "details"], &html! {
            tbody {
                (of_policy("active policy", &facts.policy, size))
                @if let Some(bundle) = &facts.bundle {
                    tr {
                        th scope="row" { "bundle" }
                        td { (bundle.last.map_or("not fetched", runtime::status::BundleResult::name)) }
                        td { (at(bundle.fetched)) }
                        td {
                            @if let Some(revision) = bundle.revision { "revision " (revision) "; " }
                            (if bundle.must_be_signed { "must be signed" } else { "need not be signed" })
                            @if let Some(cached) = bundle.cached { (if cached { "; cached" } else { "; not cached" }) }
                        }
                    }
                }
                @for keys in facts.keys.values() {
                    tr {
                        th scope="row" { "keys of " (keys.issuers) }
                        td { (state(keys)) }
                        td { (at(keys.fetched)) }
                        td { (keys.fetches) " fetched, " (keys.failures) " failed, " (keys.rejected) " not usable" }
                    }
                }
                @if let Some(inventory) = &facts.inventory {
                    tr {
                        th scope="row" { "inventory of the search cluster" }
                        td { (state(inventory)) }
                        td { (at(inventory.fetched)) }
                        td { (inventory.fetches) " fetched, " (inventory.failures) " failed, " (inventory.rejected) " not usable" }
                    }
                }
                @if let Some(shadow) = shadow { (of_policy("shadow policy", &shadow.policy, None)) }
            }
        }))
    }
}

fn of_policy(name: &str, policy: &PolicyFacts, size: Option<String>) -> Markup {
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
                @if policy.warnings > 0 { "; " (counted(policy.warnings, "lint warning")) ": see " code { "rolegate check" } }
            }
        }
    }
}

fn state(keys: &KeyFacts) -> &'static str {
    match (keys.loaded, keys.stale, keys.failing.is_some()) {
        (false, true, _) => "✗ too old, not used",
        (false, false, _) => "✗ not fetched",
        (true, true, _) => "! older than allowed",
        (true, false, true) => "! cannot be fetched again",
        (true, false, false) => "✓ current",
    }
}

/// A time since the Unix epoch, and how long ago it was; zero means never.
fn at(time: Duration) -> Markup {
    html! { @if time.is_zero() { "never" } @else { (utc(time)) br; (ago(time)) } }
}
