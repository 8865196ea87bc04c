//! Resources of Envoy Gateway: whether the policy with rolegate is in effect where it is attached.

use document::View;

use crate::values::unless_off;
use crate::{Findings, Kind, kubernetes};

/// A `SecurityPolicy` or an `EnvoyExtensionPolicy`.
struct Policy<'n> {
    view: View<'n>,
    kind: &'n str,
    /// What has rolegate decide, if anything has.
    authorizer: Option<View<'n>>,
    targets: Vec<View<'n>>,
}

impl<'n> Policy<'n> {
    fn of(view: &View<'n>) -> Option<Self> {
        let spec = view.get("spec")?;
        let kind = view.text_of("kind")?;
        let authorizer = match kind {
            "SecurityPolicy" => spec.get("ext_auth"),
            "EnvoyExtensionPolicy" => spec.list("dynamic_module").into_iter().find(is_ours),
            _ => return None,
        };
        let targets = ["target_ref", "target_refs", "target_selectors"];
        let targets = targets.iter().flat_map(|key| spec.list(key)).collect();
        Some(Self { view: view.clone(), kind, authorizer, targets })
    }

    fn name(&self) -> &'n str {
        kubernetes::name(&self.view)
    }
}

fn is_ours(module: &View<'_>) -> bool {
    ["name", "filter_name"].iter().any(|key| module.text_of(key) == Some("rolegate"))
}

/// Whether a policy has rolegate decide.
pub(crate) fn authorizes(object: &View<'_>) -> bool {
    Policy::of(object).is_some_and(|policy| policy.authorizer.is_some())
}

/// Reports policies among these objects that have no effect, or let requests pass.
pub(crate) fn lint(objects: &[View<'_>], findings: &mut Findings) {
    let policies: Vec<Policy<'_>> = objects.iter().filter_map(Policy::of).collect();
    for policy in &policies {
        let Some(authorizer) = &policy.authorizer else { continue };
        if policy.kind == "SecurityPolicy" {
            lint_ext_auth(authorizer, findings);
        } else {
            lint_module(authorizer, objects, findings);
            lint_first(policy, findings);
        }
        for target in &policy.targets {
            lint_missing(policy, target, objects, findings);
        }
        let others = policies.iter().filter(|other| other.kind == policy.kind && other.authorizer.is_none());
        for other in others {
            lint_other(policy, other, objects, findings);
        }
    }
}

fn lint_ext_auth(ext_auth: &View<'_>, findings: &mut Findings) {
    if let Some(open) = unless_off(ext_auth, "fail_open") {
        let message = "a request passes whenever Envoy gets no decision, and each one while this SecurityPolicy is invalid";
        findings.add(&open, Kind::FailsOpen, message, "failOpen: false");
    }
    if let Some(headers) = ext_auth.get("headers_to_ext_auth") {
        let message = "headers that rolegate does not see cannot be checked or removed: a client can send one that the application reads \
                       as an identity header";
        findings.add(
            &headers,
            Kind::HiddenHeaders,
            message,
            "leave this out: rolegate then sees each header",
        );
    }
    if let Some(recompute) = unless_off(ext_auth, "recompute_route") {
        let message = "Envoy chooses the route again after the authorization: the request is authorized as its first route says, and may \
                       go to another";
        findings.add(&recompute, Kind::ClearedRoute, message, "leave this out");
    }
    if ext_auth.get("status_on_error").is_none() {
        let message = "an error is answered with 403 and looks like a denial";
        findings.add(ext_auth, Kind::StatusOnError, message, "statusOnError: 503");
    }
    if let Some(http) = ext_auth.get("http") {
        let message = "checks are sent without gRPC, and rolegate answers each with 405, or 415 for a `POST`: every request is denied";
        findings.add(
            &http,
            Kind::HttpService,
            message,
            "grpc: { backendRefs: [{ name: rolegate, port: 9191 }] }",
        );
    }
}

fn lint_module(module: &View<'_>, objects: &[View<'_>], findings: &mut Findings) {
    let mut proxies = objects.iter().filter(|object| object.text_of("kind") == Some("EnvoyProxy")).peekable();
    if proxies.peek().is_none() {
        return;
    }
    let entries = proxies.filter_map(|proxy| proxy.get("spec")).flat_map(|spec| spec.list("dynamic_modules"));
    let name = module.text_of("name").unwrap_or_default();
    let Some(entry) = entries.into_iter().find(|entry| entry.text_of("name") == Some(name)) else {
        let message = format!("no `EnvoyProxy` here has a module `{name}`: every request gets 500");
        let fix = format!(
            "dynamicModules: [{{ name: {name}, source: {{ local: {{ path: /modules/librolegate.so }} }}, doNotClose: true }}]"
        );
        findings.add(module, Kind::MissingProvider, message, fix);
        return;
    };
    if !entry.is_true("do_not_close") {
        let message = "Envoy can unload the library while its threads run, and crash";
        findings.add(&entry, Kind::ClosedModule, message, "doNotClose: true");
    }
}

/// Reports extensions that Envoy Gateway puts before dynamic modules, if this policy has modules or is merged with one
/// that has.
fn lint_first(policy: &Policy<'_>, findings: &mut Findings) {
    if policy.kind == "SecurityPolicy" {
        return;
    }
    for key in ["lua", "ext_proc", "wasm"] {
        if let Some(first) = policy.view.at(&["spec", key]) {
            let message = "this runs before rolegate: it acts on requests that are not authorized, or changes what rolegate sees";
            findings.add(
                &first,
                Kind::EarlyFilter,
                message,
                "leave this out, or use `extAuth` of a SecurityPolicy, which runs first",
            );
        }
    }
}

/// Reports a target that is not among these objects, where others of its kind are: Envoy Gateway does not.
fn lint_missing(policy: &Policy<'_>, target: &View<'_>, objects: &[View<'_>], findings: &mut Findings) {
    let (Some(kind), Some(name)) = (target.text_of("kind"), target.text_of("name")) else { return };
    let mut of_kind = objects.iter().filter(|object| object.text_of("kind") == Some(kind)).peekable();
    if of_kind.peek().is_none() {
        return;
    }
    let namespace = kubernetes::namespace(&policy.view);
    let is_it =
        |object: &&View<'_>| kubernetes::name(object) == name && kubernetes::namespace(object) == namespace;
    let found = of_kind.find(is_it);
    let section = target.text_of("section_name");
    let has_section = |object: &View<'_>| {
        let parts = object.get("spec").map(|spec| [spec.list("rules"), spec.list("listeners")].concat());
        parts.is_some_and(|parts| parts.iter().any(|part| part.text_of("name") == section))
    };
    if !found.is_some_and(|object| section.is_none() || has_section(object)) {
        let part = section.map(|section| format!(" with a section `{section}`")).unwrap_or_default();
        let message = format!(
            "there is no {kind} `{name}`{part} in the namespace of this policy, so it has no effect: requests pass without authorization"
        );
        findings.add(target, Kind::UnenforcedPolicy, message, "name one that is there, in its namespace");
    }
}

/// Reports what another policy, without authorization, takes from one with it.
fn lint_other(policy: &Policy<'_>, other: &Policy<'_>, objects: &[View<'_>], findings: &mut Findings) {
    for target in &policy.targets {
        for more in &other.targets {
            let is_same =
                ["kind", "name", "section_name"].iter().all(|key| target.text_of(key) == more.text_of(key))
                    && target.get("name").is_some()
                    && kubernetes::namespace(&policy.view) == kubernetes::namespace(&other.view);
            if is_same {
                let message = format!(
                    "`{}` is for the same target: Envoy Gateway ignores the newer of two, and if this is it, requests pass without \
                     authorization",
                    other.name()
                );
                findings.add(target, Kind::UnenforcedPolicy, message, "write both as one policy");
                continue;
            }
            if rank(more) <= rank(target) || !may_be_in(more, target, other, objects) {
                continue;
            }
            if other.view.at(&["spec", "merge_type"]).is_some() {
                lint_first(other, findings);
            } else {
                let message = format!(
                    "this policy takes the place of `{}` here, and has no authorization: requests pass without it",
                    policy.name()
                );
                let fix = "mergeType: StrategicMerge (for a route), or write the authorization here, too";
                findings.add(more, Kind::UnenforcedPolicy, message, fix);
            }
        }
    }
}

/// How specific a target is. Only the policy of the most specific one is in effect.
fn rank(target: &View<'_>) -> (usize, bool) {
    let kinds = ["Gateway", "ListenerSet"];
    let kind = target.text_of("kind").unwrap_or_default();
    (
        kinds.iter().position(|other| *other == kind).unwrap_or(kinds.len()),
        target.get("section_name").is_some(),
    )
}

/// Whether this target may be a part of that one. Of a route that is not here, its gateway is not known.
fn may_be_in(part: &View<'_>, whole: &View<'_>, policy: &Policy<'_>, objects: &[View<'_>]) -> bool {
    let (Some(name), Some(whole_name)) = (part.text_of("name"), whole.text_of("name")) else { return true };
    if part.text_of("kind") == whole.text_of("kind") {
        return name == whole_name;
    }
    let is_it = |object: &&View<'_>| {
        object.text_of("kind") == part.text_of("kind")
            && kubernetes::name(object) == name
            && kubernetes::namespace(object) == kubernetes::namespace(&policy.view)
    };
    let Some(spec) = objects.iter().find(is_it).and_then(|object| object.get("spec")) else { return true };
    let parents = spec.list("parent_refs");
    parents.iter().any(|parent| {
        parent.text_of("kind").unwrap_or("Gateway") != "Gateway" || parent.text_of("name") == Some(whole_name)
    })
}
