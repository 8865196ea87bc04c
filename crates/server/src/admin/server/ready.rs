//! `/readyz`: whether this process is ready, and in a line each what is not as it should be nevertheless. The lines are short:
//! the log, `/console` and `/metrics` have more.

use std::path::Path;
use std::sync::Arc;

use hyper::StatusCode;
use runtime::clock;
use runtime::status::{BundleResult, Facts};

use super::{Page, text};
use crate::admin::metrics::Metrics;

pub(super) fn ready(metrics: &Arc<Metrics>) -> Page {
    match metrics.status.ready() {
        Ok(()) => {
            let lines: String = lines(metrics).into_iter().map(|line| line + "\n").collect();
            text(StatusCode::OK, format!("ready\n{lines}"))
        }
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

fn lines(metrics: &Metrics) -> Vec<String> {
    let facts = metrics.status.facts();
    let mut lines: Vec<String> = policy(&facts).into_iter().chain(keys(&facts)).collect();
    let issuers = facts.issuers_without_keys();
    if !issuers.0.is_empty() {
        lines.push(format!("no keys of {issuers}: their tokens get 401"));
    }
    lines.extend(inventory(&facts).map(str::to_owned));
    if facts.bundle.as_ref().is_some_and(|bundle| bundle.cached == Some(false)) {
        lines.push("the active bundle is not in the cache: a restart needs its server".to_owned());
    }
    if metrics.authorization.certificate_expiry().is_some_and(|expiry| expiry <= clock::now()) {
        lines.push("the TLS certificate has expired: Envoy does not connect with it".to_owned());
    }
    lines.extend(metrics.shadow.iter().flat_map(|shadow| of_shadow(&shadow.status.facts())));
    lines
}

fn policy(facts: &Facts) -> Option<String> {
    let what = not_loaded(facts, "policy")?;
    let active =
        facts.policy.revision.as_ref().map(|revision| format!(": {} is still active", revision.policy));
    let stale = if facts.policy.stale { ", although older than `max-policy-age`" } else { "" };
    Some(format!("{what}{}{stale}", active.unwrap_or_default()))
}

/// The keys that are used although newer ones cannot be had.
fn keys(facts: &Facts) -> impl Iterator<Item = String> {
    let old = facts.keys.values().filter(|keys| keys.loaded && (keys.stale || keys.failing.is_some()));
    old.map(|keys| {
        let stale = if keys.stale { ", although older than `max-keys-age`" } else { "" };
        format!(
            "the keys of {} cannot be fetched again, or are not usable: the last good ones are used{stale}",
            keys.issuers
        )
    })
}

fn inventory(facts: &Facts) -> Option<&'static str> {
    if facts.is_without_inventory() {
        return Some(
            "no inventory of the search cluster: patterns and aliases are permitted only where roles cover them by name",
        );
    }
    let is_failing = facts.inventory.as_ref().is_some_and(|inventory| inventory.failing.is_some());
    is_failing.then_some(
        "the inventory of the search cluster cannot be fetched again: the last one is used until its `max_age`",
    )
}

fn of_shadow(facts: &Facts) -> Vec<String> {
    let compared = match facts.policy.revision {
        Some(_) => "requests are compared with the last good one",
        None => "nothing is compared",
    };
    let not_loaded = not_loaded(facts, "shadow policy").map(|what| format!("{what}: {compared}"));
    let issuers = facts.issuers_without_keys();
    let without_keys = (!issuers.0.is_empty()).then(|| format!("no keys of {issuers} for the shadow policy"));
    not_loaded.into_iter().chain(without_keys).collect()
}

/// That a new version of a policy cannot be used, with its first place; `None` if that is not so.
fn not_loaded(facts: &Facts, which: &str) -> Option<String> {
    facts.policy.failing_since?;
    let place = facts.policy.problems.first().and_then(|problem| {
        // Its folders may be many, and the log has them.
        let file = &problem.at.file;
        let mut name = file.file_name()?.to_string_lossy().into_owned();
        // An included file may have the name of another one.
        let folder = file.parent().and_then(Path::file_name).filter(|_| name != "policy.yaml");
        if let Some(folder) = folder {
            name = format!("{}/{name}", folder.to_string_lossy());
        }
        Some(format!(" ({}:{}:{})", name.escape_debug(), problem.at.line, problem.at.column))
    });
    let place = place.unwrap_or_default();
    Some(match &facts.bundle {
        None => format!("the changed {which} does not load{place}, as `rolegate check` and the log say"),
        Some(bundle) => {
            let last = bundle.last.map_or("none yet", BundleResult::name);
            format!("no new bundle of the {which} is accepted, last fetch: {last}{place}")
        }
    })
}
