//! Istio resources: whether an `AuthorizationPolicy` has rolegate authorize every request, and the
//! provider settings of the mesh.

use document::{View, closest};

use crate::connection_manager::UNESCAPED_SLASHES;
use crate::{Findings, Kind, authorizer, get_or_self};

/// Whether this policy delegates to an external authorizer.
pub(crate) fn authorizes(object: &View<'_>) -> bool {
    object.text_of("kind") == Some("AuthorizationPolicy")
        && object.text_of("spec/action") == Some("CUSTOM")
}

/// The `MeshConfig`s with providers.
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
    let names: Vec<&str> =
        providers.iter().filter_map(|provider| provider.text_of("name")).collect();
    for policy in objects.iter().filter(|object| authorizes(object)) {
        lint_dry_run(policy, findings);
        let Some(spec) = policy.get("spec") else { continue };
        lint_rules(&spec, findings);
        let Some(reference) = spec.get("provider/name") else { continue };
        let name = reference.text().unwrap_or_default();
        if !configs.is_empty() && !names.contains(&name) {
            let message = format!(
                "there is no provider `{name}` in `extensionProviders`: Istio denies each request \
                 of these rules"
            );
            let fix = closest(name, names.iter().copied()).map_or_else(
                || format!("add a provider `{name}` to `extensionProviders` of the mesh"),
                |near| format!("name: {near}"),
            );
            findings.add(&reference, Kind::MissingProvider, message, fix);
        }
    }
    for config in configs {
        let providers = config.list("extension_providers").into_iter();
        let providers: Vec<View<'_>> =
            providers.filter_map(|provider| provider.get("envoy_ext_authz_grpc")).collect();
        providers.iter().for_each(|provider| lint_provider(provider, findings));
        if !providers.is_empty() {
            lint_paths(config, findings);
        }
    }
}

fn lint_dry_run(policy: &View<'_>, findings: &mut Findings) {
    let annotations = policy.entries_as_written_at("metadata/annotations");
    if let Some((_, value)) = annotations.iter().find(|(key, _)| key == "istio.io/dry-run")
        && value.text() != Some("false")
    {
        let message = "a dry run is not enforced: requests pass without authorization";
        findings.add(value, Kind::UnenforcedPolicy, message, "remove the annotation");
    }
}

fn lint_rules(spec: &View<'_>, findings: &mut Findings) {
    let rules = spec.list("rules");
    let Some(first) = rules.first() else {
        let message = "without a rule this applies to no request: all pass without authorization";
        findings.add(spec, Kind::UnenforcedPolicy, message, "rules: [{}]");
        return;
    };
    // A rule without conditions applies to each request.
    if rules.iter().all(|rule| !rule.entries().is_empty()) {
        let message = "only requests that match these rules are authorized: the others pass";
        let fix = "rules: [{}]; and write such conditions into rolegate's policy";
        findings.add(first, Kind::ConditionalFilter, message, fix);
    }
}

fn lint_provider(provider: &View<'_>, findings: &mut Findings) {
    let (kind, message) = (Kind::FailsOpen, authorizer::FAILS_OPEN);
    findings.add_if_on(provider, "fail_open", kind, message, "failOpen: false");
    if provider.get("status_on_error").is_none() {
        let fix = "statusOnError: \"503\"";
        findings.add(provider, Kind::StatusOnError, authorizer::STATUS_ON_ERROR, fix);
    }
    let timeout = provider.text_of("timeout").and_then(authorizer::duration);
    if timeout.is_none_or(|timeout| timeout > authorizer::MAX_TIMEOUT) {
        let message = "while rolegate hangs, each request waits for long until it is denied \
                       (600 s by default)";
        let at = get_or_self(provider, "timeout");
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
            "the application gets the path with its adjacent slashes as the client sent it, not \
             the one that was authorized",
        ),
    };
    let fix = "pathNormalization: { normalization: MERGE_SLASHES }";
    findings.add(setting.as_ref().unwrap_or(config), kind, message, fix);
}
