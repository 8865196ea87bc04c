//! Resources of Istio: whether an `AuthorizationPolicy` has rolegate decide about each request, and what the mesh says about it.

use std::time::Duration;

use document::{View, closest};

use crate::authorizer::duration;
use crate::values::unless_off;
use crate::{Findings, Kind};

/// Whether this policy has another service decide.
pub(crate) fn authorizes(object: &View<'_>) -> bool {
    object.text_of("kind") == Some("AuthorizationPolicy")
        && object.at(&["spec", "action"]).and_then(|action| action.text()) == Some("CUSTOM")
}

/// The settings of a mesh in these documents.
pub(crate) fn configs<'n>(documents: &[View<'n>]) -> Vec<View<'n>> {
    let paths: [&[&str]; 3] = [&[], &["mesh_config"], &["spec", "mesh_config"]];
    let views = documents.iter().flat_map(|document| paths.iter().filter_map(|path| document.at(path)));
    views.filter(|config| config.get("extension_providers").is_some()).collect()
}

/// Reports what is wrong about these objects and settings of a mesh.
pub(crate) fn lint(objects: &[View<'_>], configs: &[View<'_>], findings: &mut Findings) {
    let providers: Vec<View<'_>> =
        configs.iter().flat_map(|config| config.list("extension_providers")).collect();
    for policy in objects.iter().filter(|object| authorizes(object)) {
        lint_dry_run(policy, findings);
        let Some(spec) = policy.get("spec") else { continue };
        lint_rules(&spec, findings);
        let Some(name) = spec.at(&["provider", "name"]).filter(|_| !configs.is_empty()) else { continue };
        let names: Vec<&str> = providers.iter().filter_map(|provider| provider.text_of("name")).collect();
        let missing = name.text().unwrap_or_default();
        if !names.contains(&missing) {
            let message = format!(
                "there is no provider `{missing}` in `extensionProviders`: Istio denies each request of these rules"
            );
            let fix = closest(missing, names).map_or_else(
                || format!("add a provider `{missing}` to `extensionProviders` of the mesh"),
                |near| format!("name: {near}"),
            );
            findings.add(&name, Kind::MissingProvider, message, fix);
        }
    }
    let is_grpc = |provider: &View<'_>| provider.get("envoy_ext_authz_grpc").is_some();
    for config in configs.iter().filter(|config| config.list("extension_providers").iter().any(is_grpc)) {
        lint_paths(config, findings);
    }
    for provider in providers.iter().filter_map(|provider| provider.get("envoy_ext_authz_grpc")) {
        lint_provider(&provider, findings);
    }
}

fn lint_dry_run(policy: &View<'_>, findings: &mut Findings) {
    let annotations = policy.at(&["metadata", "annotations"]);
    let annotations = annotations.map(|annotations| annotations.named_entries()).unwrap_or_default();
    if let Some((_, value)) = annotations.iter().find(|(key, _)| key == "istio.io/dry-run")
        && value.text() != Some("false")
    {
        let message = "a dry run is not enforced: requests pass without authorization";
        findings.add(value, Kind::UnenforcedPolicy, message, "remove the annotation");
    }
}

fn lint_rules(spec: &View<'_>, findings: &mut Findings) {
    let rules = spec.list("rules");
    if rules.is_empty() {
        let message = "without a rule this is for no request: all pass without authorization";
        findings.add(spec, Kind::UnenforcedPolicy, message, "rules: [{}]");
    }
    // One without conditions is for each request.
    let has_conditions = |rule: &View<'_>| !rule.entries().is_empty();
    if let Some(rule) = rules.first().filter(|_| rules.iter().all(has_conditions)) {
        let message = "only requests that match these rules are authorized: the others pass";
        let fix = "rules: [{}]; and write such conditions into rolegate's policy";
        findings.add(rule, Kind::ConditionalFilter, message, fix);
    }
}

fn lint_provider(provider: &View<'_>, findings: &mut Findings) {
    if let Some(open) = unless_off(provider, "fail_open") {
        let message =
            "a request passes whenever Envoy gets no decision: while rolegate restarts, or after a timeout";
        findings.add(&open, Kind::FailsOpen, message, "failOpen: false");
    }
    if provider.get("status_on_error").is_none() {
        let message = "an error is answered with 403 and looks like a denial";
        findings.add(provider, Kind::StatusOnError, message, "statusOnError: \"503\"");
    }
    let timeout = provider.get("timeout");
    let is_short = |timeout: &View<'_>| {
        timeout.text().and_then(duration).is_some_and(|timeout| timeout <= Duration::from_secs(10))
    };
    if !timeout.as_ref().is_some_and(is_short) {
        let message =
            "while rolegate hangs, each request waits for long until it is denied (600 s by default)";
        findings.add(timeout.as_ref().unwrap_or(provider), Kind::LongTimeout, message, "timeout: 2s");
    }
}

fn lint_paths(config: &View<'_>, findings: &mut Findings) {
    let setting = config.at(&["path_normalization", "normalization"]);
    let (kind, message) = match setting.as_ref().and_then(|setting| setting.text()).unwrap_or("DEFAULT") {
        "MERGE_SLASHES" => return,
        "DECODE_AND_MERGE_SLASHES" => {
            let message =
                "Envoy decodes `%2F` and `%5C` before rolegate sees the path, which would deny them";
            (Kind::UnescapedSlashes, message)
        }
        "NONE" => {
            let message =
                "the application gets the path as the client sent it, not the one that was authorized";
            (Kind::UnnormalizedPath, message)
        }
        _ => {
            let message = "the application gets the path with its adjacent slashes as the client sent it, not the one that was authorized";
            (Kind::UnmergedSlashes, message)
        }
    };
    findings.add(
        setting.as_ref().unwrap_or(config),
        kind,
        message,
        "pathNormalization: { normalization: MERGE_SLASHES }",
    );
}
