//! Resources of Envoy Gateway: whether the policy with rolegate is in effect where it is attached.

use document::View;

use crate::{Findings, Kind, authorizer, kubernetes};

/// A `SecurityPolicy` or an `EnvoyExtensionPolicy`.
struct Policy<'n> {
    view: View<'n>,
    kind: &'n str,
    /// The field that makes rolegate authorize requests; `None` if there is none.
    authorizer: Option<View<'n>>,
    targets: Vec<View<'n>>,
}

impl<'n> Policy<'n> {
    fn new(view: &View<'n>) -> Option<Self> {
        let kind = view.text_of("kind")?;
        let mut modules = view.list("spec/dynamic_module").into_iter();
        let authorizer = match kind {
            "SecurityPolicy" => view.get("spec/ext_auth"),
            "EnvoyExtensionPolicy" => modules.find(|view| authorizer::is_rolegate(view, "name")),
            _ => return None,
        };
        let targets = ["spec/target_ref", "spec/target_refs", "spec/target_selectors"];
        let targets = targets.iter().flat_map(|path| view.list(path)).collect();
        Some(Self { view: view.clone(), kind, authorizer, targets })
    }

    /// Whether this target of the policy names this object.
    fn refers_to(&self, target: &View<'n>, object: &View<'n>) -> bool {
        let text = |key: &str| target.text_of(key).unwrap_or_default();
        (text("kind"), text("name"), kubernetes::namespace(&self.view))
            == kubernetes::reference(object)
    }

    fn name(&self) -> &'n str {
        kubernetes::reference(&self.view).1
    }
}

pub(crate) fn authorizes(object: &View<'_>) -> bool {
    Policy::new(object).is_some_and(|policy| policy.authorizer.is_some())
}

/// Reports policies among these objects that have no effect, or let requests pass.
pub(crate) fn lint(objects: &[View<'_>], findings: &mut Findings) {
    let policies: Vec<Policy<'_>> = objects.iter().filter_map(Policy::new).collect();
    for policy in &policies {
        let Some(authorizer) = &policy.authorizer else { continue };
        if policy.kind == "SecurityPolicy" {
            lint_ext_auth(authorizer, findings);
        } else {
            lint_module(authorizer, objects, findings);
            lint_early_extensions(policy, findings);
        }
        for target in &policy.targets {
            lint_missing(policy, target, objects, findings);
        }
        for open in policies.iter().filter(|open| open.authorizer.is_none()) {
            if open.kind == policy.kind {
                lint_replacement(policy, open, objects, findings);
            }
        }
    }
}

fn lint_ext_auth(ext_auth: &View<'_>, findings: &mut Findings) {
    let message = "a request passes whenever Envoy gets no decision, and every request passes \
                   while this SecurityPolicy is invalid";
    findings.add_if_on(ext_auth, "fail_open", Kind::FailsOpen, message, "failOpen: false");
    if let Some(headers) = ext_auth.get("headers_to_ext_auth") {
        let (message, fix) = (authorizer::HIDDEN_HEADERS, authorizer::HIDDEN_HEADERS_FIX);
        findings.add(&headers, Kind::HiddenHeaders, message, fix);
    }
    let message = "Envoy chooses the route again after the authorization: the request is \
                   authorized for its first route, and may take another";
    findings.add_if_on(ext_auth, "recompute_route", Kind::ClearedRoute, message, "leave this out");
    if ext_auth.get("status_on_error").is_none() {
        let (message, fix) = (authorizer::STATUS_ON_ERROR, "statusOnError: 503");
        findings.add(ext_auth, Kind::StatusOnError, message, fix);
    }
    if let Some(http) = ext_auth.get("http") {
        let fix = "grpc: { backendRefs: [{ name: rolegate, port: 9191 }] }";
        findings.add(&http, Kind::HttpService, authorizer::HTTP_SERVICE, fix);
    }
}

fn lint_module(module: &View<'_>, objects: &[View<'_>], findings: &mut Findings) {
    let proxies: Vec<&View<'_>> =
        objects.iter().filter(|object| object.text_of("kind") == Some("EnvoyProxy")).collect();
    if proxies.is_empty() {
        return;
    }
    let name = module.text_of("name").unwrap_or_default();
    let mut entries = proxies.iter().flat_map(|proxy| proxy.list("spec/dynamic_modules"));
    if let Some(entry) = entries.find(|entry| entry.text_of("name") == Some(name)) {
        if !entry.is_true("do_not_close") {
            findings.add(&entry, Kind::ClosedModule, authorizer::CLOSED_MODULE, "doNotClose: true");
        }
    } else {
        let message = format!("no `EnvoyProxy` here has a module `{name}`: every request gets 500");
        let fix = format!(
            "dynamicModules: [{{ name: {name}, source: {{ local: {{ path: \
             /modules/librolegate.so }} }}, doNotClose: true }}]"
        );
        findings.add(module, Kind::MissingProvider, message, fix);
    }
}

/// Reports extensions that Envoy Gateway puts before dynamic modules. The policy has modules, or is
/// merged with a policy that has modules.
fn lint_early_extensions(policy: &Policy<'_>, findings: &mut Findings) {
    if policy.kind == "SecurityPolicy" {
        return;
    }
    for path in ["spec/lua", "spec/ext_proc", "spec/wasm"] {
        if let Some(extension) = policy.view.get(path) {
            let message = "this runs before rolegate: it acts on requests that are not authorized, \
                           or changes what rolegate sees";
            let fix = "leave this out, or use `extAuth` of a SecurityPolicy, which runs first";
            findings.add(&extension, Kind::EarlyFilter, message, fix);
        }
    }
}

/// Reports a target that is not among these objects, if others of its kind are. Envoy Gateway
/// itself does not report it.
fn lint_missing<'n>(
    policy: &Policy<'n>,
    target: &View<'n>,
    objects: &[View<'n>],
    findings: &mut Findings,
) {
    let (Some(kind), Some(name)) = (target.text_of("kind"), target.text_of("name")) else { return };
    if !objects.iter().any(|object| object.text_of("kind") == Some(kind)) {
        return;
    }
    let section = target.text_of("section_name");
    let has_section = |object: &View<'_>| {
        let sections = [object.list("spec/rules"), object.list("spec/listeners")].concat();
        section.is_none() || sections.iter().any(|view| view.text_of("name") == section)
    };
    if !objects.iter().any(|object| policy.refers_to(target, object) && has_section(object)) {
        let with_section =
            section.map(|section| format!(" with a section `{section}`")).unwrap_or_default();
        let message = format!(
            "there is no {kind} `{name}`{with_section} in the namespace of this policy, so it has \
             no effect: requests pass without authorization"
        );
        let fix = "name an existing target, in its namespace";
        findings.add(target, Kind::UnenforcedPolicy, message, fix);
    }
}

/// Reports a target of the authorizing `policy` where `open`, which does not authorize, is in
/// effect instead.
fn lint_replacement<'n>(
    policy: &Policy<'n>,
    open: &Policy<'n>,
    objects: &[View<'n>],
    findings: &mut Findings,
) {
    let namespaces = [policy, open].map(|policy| kubernetes::namespace(&policy.view));
    let is_same = |a: &View<'n>, b: &View<'n>| {
        let keys = ["kind", "name", "section_name"];
        let [namespace, open_namespace] = namespaces;
        namespace == open_namespace && keys.iter().all(|key| a.text_of(key) == b.text_of(key))
    };
    let targets = policy.targets.iter();
    let pairs = targets.flat_map(|target| open.targets.iter().map(move |other| (target, other)));
    for (target, open_target) in pairs {
        if target.get("name").is_some() && is_same(target, open_target) {
            let message = format!(
                "`{}` is for the same target: Envoy Gateway ignores the newer policy, and if that \
                 is this one, requests pass without authorization",
                open.name()
            );
            findings.add(target, Kind::UnenforcedPolicy, message, "write both as one policy");
        } else if rank(open_target) > rank(target)
            && may_be_in((open_target, open), (target, policy), objects)
        {
            if open.view.get("spec/merge_type").is_some() {
                lint_early_extensions(open, findings);
                continue;
            }
            let message = format!(
                "this policy takes the place of `{}` here, and has no authorization: requests pass \
                 without it",
                policy.name()
            );
            let fix =
                "mergeType: StrategicMerge (for a route), or write the authorization here, too";
            findings.add(open_target, Kind::UnenforcedPolicy, message, fix);
        }
    }
}

/// How specific a target is. Only the policy of the most specific target is in effect.
fn rank(target: &View<'_>) -> (u8, bool) {
    let kind = match target.text_of("kind") {
        Some("Gateway") => 0,
        Some("ListenerSet") => 1,
        _ => 2,
    };
    (kind, target.get("section_name").is_some())
}

/// Whether the target `part` of a policy may be a part of the target `whole` of another, such as a
/// route of a `Gateway`. True if the file cannot tell, for example because the route is not in it.
fn may_be_in<'n>(
    (part, policy): (&View<'n>, &Policy<'n>),
    (whole, whole_policy): (&View<'n>, &Policy<'n>),
    objects: &[View<'n>],
) -> bool {
    let (Some(name), Some(whole_name)) = (part.text_of("name"), whole.text_of("name")) else {
        return true;
    };
    let namespace = whole_policy.view.text_of(NAMESPACE);
    if part.text_of("kind") == whole.text_of("kind") {
        return name == whole_name && may_be_equal(policy.view.text_of(NAMESPACE), namespace);
    }
    let Some(object) = objects.iter().find(|object| policy.refers_to(part, object)) else {
        return true;
    };
    // A `ListenerSet` has a single parent.
    let parents = [object.list("spec/parent_refs"), object.list("spec/parent_ref")].concat();
    object.get("spec").is_none()
        || parents.iter().any(|parent| {
            let parent_namespace = parent.text_of("namespace").or(object.text_of(NAMESPACE));
            parent.text_of("kind").unwrap_or("Gateway") != "Gateway"
                || parent.text_of("name") == Some(whole_name)
                    && may_be_equal(parent_namespace, namespace)
        })
}

const NAMESPACE: &str = "metadata/namespace";

/// Whether two namespaces may be equal. `None` is a namespace that the file does not name: it is
/// chosen when the file is applied.
fn may_be_equal(a: Option<&str>, b: Option<&str>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}
