//! Resources of Istio: whether an `AuthorizationPolicy` has rolegate decide about each request, and
//! what the mesh says about it.

use document::{View, closest};

use crate::connection_manager::UNESCAPED_SLASHES;
use crate::values::unless_off;
use crate::{Findings, Kind, authorizer};

/// Whether this policy has another service decide.
pub(crate) fn authorizes(object: &View<'_>) -> bool {
    object.text_of("kind") == Some("AuthorizationPolicy")
        && object.text_of("spec/action") == Some("CUSTOM")
}

pub(crate) fn configs<'n>(documents: &[View<'n>]) -> Vec<View<'n>> {
    let inner = documents.iter().flat_map(|document| {
        ["mesh_config", "spec/mesh_config"].iter().filter_map(|path| document.get(path))
    });
    let configs = documents.iter().cloned().chain(inner);
    configs.filter(|config| config.get("extension_providers").is_some()).collect()
}

/// Reports policies among these objects, and settings of a mesh, that let requests pass or fail.
pub(crate) fn lint(objects: &[View<'_>], configs: &[View<'_>], findings: &mut Findings) {
    let providers: Vec<View<'_>> =
        configs.iter().flat_map(|config| config.list("extension_providers")).collect();
    for policy in objects.iter().filter(|object| authorizes(object)) {
        lint_dry_run(policy, findings);
        let Some(spec) = policy.get("spec") else { continue };
        lint_rules(&spec, findings);
        let Some(name) = spec.get("provider/name").filter(|_| !configs.is_empty()) else {
            continue;
        };
        let names: Vec<&str> =
            providers.iter().filter_map(|provider| provider.text_of("name")).collect();
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
    for config in configs {
        let providers = config.list("extension_providers");
        let providers =
            providers.iter().filter_map(|provider| provider.get("envoy_ext_authz_grpc"));
        for (number, provider) in providers.enumerate() {
            lint_provider(&provider, findings);
            if number == 0 {
                lint_paths(config, findings);
            }
        }
    }
}

fn lint_dry_run(policy: &View<'_>, findings: &mut Findings) {
    let annotations = policy.named_entries_of("metadata/annotations");
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
        findings.add(&open, Kind::FailsOpen, authorizer::FAILS_OPEN, "failOpen: false");
    }
    if provider.get("status_on_error").is_none() {
        let fix = "statusOnError: \"503\"";
        findings.add(provider, Kind::StatusOnError, authorizer::STATUS_ON_ERROR, fix);
    }
    let timeout = provider.text_of("timeout").and_then(authorizer::duration);
    if timeout.is_none_or(|timeout| timeout > authorizer::MAX_TIMEOUT) {
        let at = provider.get("timeout").unwrap_or_else(|| provider.clone());
        let message = "while rolegate hangs, each request waits for long until it is denied (600 s by default)";
        findings.add(&at, Kind::LongTimeout, message, "timeout: 2s");
    }
}

fn lint_paths(config: &View<'_>, findings: &mut Findings) {
    let setting = config.get("path_normalization/normalization");
    let (kind, message) = match setting.as_ref().and_then(View::text).unwrap_or("DEFAULT") {
        "MERGE_SLASHES" => return,
        "DECODE_AND_MERGE_SLASHES" => (Kind::UnescapedSlashes, UNESCAPED_SLASHES),
        "NONE" => (
            Kind::UnnormalizedPath,
            "the application gets the path as the client sent it, not the one that was authorized",
        ),
        _ => (
            Kind::UnmergedSlashes,
            "the application gets the path with its adjacent slashes as the client sent it, not the one that was authorized",
        ),
    };
    let fix = "pathNormalization: { normalization: MERGE_SLASHES }";
    findings.add(setting.as_ref().unwrap_or(config), kind, message, fix);
}
