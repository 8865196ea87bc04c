//! Istio: `AuthorizationPolicy` and `RequestAuthentication`.
//!
//! Istio translates the conditions to Envoy's RBAC filter.

mod request_authentication;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use document::{Place, Problem, View};

use crate::Options;
use crate::expr::{Expr, Notes as _, reason};
use crate::lower::{Alternative, Original};
use crate::note::{Effect, Note};

pub(crate) fn read(
    documents: &[View<'_>],
    options: &Options,
    start: &Place,
) -> Result<Original, Problem> {
    let mut original = Original::default();
    let (mut policies, mut authentications) = (Vec::new(), Vec::new());
    for view in documents.iter().flat_map(resources) {
        match view.text_of("kind") {
            Some("AuthorizationPolicy") => policies.push(Resource::new(view)?),
            Some("RequestAuthentication") => authentications.push(Resource::new(view)?),
            _ => original.notes.push(view.note(Effect::Same, "this resource is not imported")),
        }
    }
    if policies.is_empty() && authentications.is_empty() {
        let help = "give files with `AuthorizationPolicy` and `RequestAuthentication`";
        return Err(Problem::error(start.clone(), "there is no Istio policy here").help(help));
    }
    let namespace = workload_namespace(policies.iter().chain(&authentications), options)?;
    let options = &Options { namespace, ..options.clone() };
    let has_policies = !policies.is_empty();
    let allowing = policies.iter().find(|policy| allows(&policy.view));
    let allowing = allowing.map(|policy| policy.view.place());
    retain_workload(&mut policies, options, &mut original);
    if has_policies && policies.is_empty() {
        // Istio would allow everything here, but a mistyped option is more likely.
        let message = "no `AuthorizationPolicy` here is for this workload";
        let help = "check `--namespace` and `--label`";
        return Err(Problem::error(start.clone(), message).help(help));
    }
    if let Some(at) = allowing.filter(|_| !policies.iter().any(|policy| allows(&policy.view))) {
        let message = "no `ALLOW` policy here is for this workload, so everything that is not \
                       denied would be allowed";
        let help = "check `--namespace` and `--label`; if the workload needs no `ALLOW` policy, \
                    give only its files";
        return Err(Problem::error(at, message).help(help));
    }
    retain_workload(&mut authentications, options, &mut original);
    check_same_workload(policies.iter().chain(&authentications), options, &mut original)?;
    for authentication in &authentications {
        request_authentication::read(&authentication.view, options, &mut original);
    }
    let policies: Vec<View<'_>> = policies.into_iter().map(|policy| policy.view).collect();
    read_policies(&policies, options, start, &mut original);
    Ok(original)
}

/// The resources of a document, which may be a list.
fn resources<'n>(document: &View<'n>) -> Vec<View<'n>> {
    let items = document.get("items").map(|items| items.items()).unwrap_or_default();
    if items.is_empty() {
        vec![document.clone()]
    } else {
        items.iter().flat_map(resources).collect()
    }
}

/// An `AuthorizationPolicy` or a `RequestAuthentication`, and the workloads it applies to.
struct Resource<'n> {
    view: View<'n>,
    namespace: Option<&'n str>,
    labels: BTreeMap<String, &'n str>,
    /// The objects to which `targetRefs` refers: group, kind, name and namespace of each. A
    /// `Gateway` and a `Service` may have the same name.
    targets: BTreeSet<[&'n str; 4]>,
}

impl<'n> Resource<'n> {
    fn new(view: View<'n>) -> Result<Self, Problem> {
        check_workload_fields(&view)?;
        let namespace =
            view.text_of("metadata/namespace").filter(|namespace| !namespace.is_empty());
        let mut labels = BTreeMap::new();
        for (key, value) in view.entries_as_written_at("spec/selector/match_labels") {
            labels.insert(key, value.text().unwrap_or_default());
        }
        let mut targets = BTreeSet::new();
        for target in view.list("spec/target_refs").into_iter().chain(view.get("spec/target_ref")) {
            let [group, kind, name] =
                ["group", "kind", "name"].map(|key| target.text_of(key).unwrap_or_default());
            // The group of Kubernetes itself has no name, and is the default.
            let group = if group == "core" { "" } else { group };
            let namespace = target.text_of("namespace").or(namespace).unwrap_or_default();
            targets.insert([group, kind, name, namespace]);
        }
        Ok(Self { view, namespace, labels, targets })
    }

    /// Whether it is in the root namespace, whose resources apply to all namespaces.
    fn is_in_root(&self, options: &Options) -> bool {
        self.namespace == Some(&options.root_namespace)
    }
}

/// Checks the fields that select workloads, and the list of issuers. If a malformed field were read
/// as absent, an `ALLOW` policy could apply to more workloads, or a `DENY` policy could be lost.
fn check_workload_fields(resource: &View<'_>) -> Result<(), Problem> {
    resource.check_spellings()?;
    let get_all = |paths: &[&str]| -> Vec<View<'_>> {
        paths.iter().filter_map(|path| resource.get(path)).collect()
    };
    let label_map = "spec/selector/match_labels";
    let mut mappings =
        get_all(&["metadata", "spec", "spec/selector", label_map, "spec/target_ref"]);
    mappings.extend(resource.get("spec/target_refs").iter().flat_map(View::items));
    let labels = resource.entries_as_written_at(label_map).into_iter().map(|(_, label)| label);
    let wrong_label = labels
        .filter(|label| label.text().is_none())
        .chain(resource.get(label_map).filter(View::lacks_a_value))
        .next();
    let lists = get_all(&["spec/target_refs", "spec/jwt_rules"]);
    let namespace = resource.get("metadata/namespace");
    let wrong = [
        (mappings.into_iter().find(|view| !view.is_mapping()), "a mapping"),
        (lists.into_iter().find(|view| !view.is_list()), "a list"),
        (wrong_label, "a text for each label"),
        (namespace.filter(|namespace| namespace.text().is_none()), "a text"),
    ];
    for (view, expected) in wrong {
        if let Some(view) = view {
            let message = format!("`{}`: {expected} is expected here", view.path);
            let help = "correct it: Kubernetes would refuse this resource";
            return Err(Problem::error(view.place(), message).help(help));
        }
    }
    Ok(())
}

/// The namespace of the workload: the one that the options name. If they name only labels, it is
/// the common namespace of the resources outside the root namespace, or the root namespace if all
/// resources are there. If they name neither, it is `None`, and [`check_same_workload`] compares
/// the namespaces.
fn workload_namespace<'v, 'n: 'v>(
    mut resources: impl Iterator<Item = &'v Resource<'n>>,
    options: &Options,
) -> Result<Option<String>, Problem> {
    if options.namespace.is_some() {
        // A resource without a namespace may be for this workload: `kubectl apply` chooses its
        // namespace.
        return match resources.find(|resource| resource.namespace.is_none()) {
            None => Ok(options.namespace.clone()),
            Some(Resource { view, .. }) => {
                let message = "this resource has no namespace, but `--namespace` is given";
                let help = "add `metadata.namespace`, or leave out `--namespace`";
                Err(Problem::error(view.place(), message).help(help))
            }
        };
    }
    if options.labels.is_empty() {
        return Ok(None);
    }
    let mut resources = resources.filter(|resource| !resource.is_in_root(options));
    // If all resources are in the root namespace, only the labels select among them.
    let Some(first) = resources.next() else { return Ok(Some(options.root_namespace.clone())) };
    let namespace = first.namespace.unwrap_or_default();
    let Some(second) = resources.find(|resource| resource.namespace != first.namespace) else {
        return Ok(Some(namespace.to_owned()));
    };
    let message = format!(
        "the resources are in the namespaces `{namespace}` and `{}`",
        second.namespace.unwrap_or_default()
    );
    let help = "give the workload's namespace with `--namespace`, and the root namespace of the \
                mesh with `--root-namespace`";
    Err(Problem::error(second.view.place(), message).help(help))
}

/// Retains the resources for the workload of the options. [`check_same_workload`] checks the
/// properties of the workload that the options do not name.
fn retain_workload(resources: &mut Vec<Resource<'_>>, options: &Options, original: &mut Original) {
    resources.retain(|resource| {
        let is_in_namespace = options.namespace.as_deref().is_none_or(|namespace| {
            resource.namespace.unwrap_or_default() == namespace || resource.is_in_root(options)
        });
        let is_selected = options.labels.is_empty()
            || resource.labels.iter().all(|(key, value)| {
                options.labels.iter().any(|(name, text)| name == key && text == value)
            });
        let message = if !is_in_namespace {
            format!(
                "this is for workloads of another namespace (the root namespace is `{}`, see \
                 `--root-namespace`)",
                options.root_namespace
            )
        } else if !is_selected {
            "this is for workloads with other labels than `--label`".to_owned()
        } else {
            return true;
        };
        original.notes.push(resource.view.note(Effect::Same, message));
        false
    });
}

/// Checks that all resources apply to the same workload, because rules for another workload could
/// allow more. Namespaces and labels are compared only if the options do not name them. A resource
/// without a selector applies to every workload of its namespace; in the root namespace, it applies
/// to every workload.
fn check_same_workload<'v, 'n: 'v>(
    resources: impl Iterator<Item = &'v Resource<'n>>,
    options: &Options,
    original: &mut Original,
) -> Result<(), Problem> {
    let (mut namespace, mut targets) = (None, None);
    let mut selected: Option<&Resource<'_>> = None;
    let mut is_for_all = false;
    for resource in resources {
        let is_namespace_settled = options.namespace.is_some() || resource.is_in_root(options);
        let compares_labels = options.labels.is_empty() && !resource.labels.is_empty();
        is_for_all |= options.labels.is_empty() && resource.labels.is_empty();
        if *targets.get_or_insert(&resource.targets) != &resource.targets
            || !is_namespace_settled
                && *namespace.get_or_insert(resource.namespace) != resource.namespace
            || compares_labels && selected.get_or_insert(resource).labels != resource.labels
        {
            let message = "this is for other workloads than the resources before";
            let help = "select a workload with `--namespace` and `--label`, or give only its \
                        files; policies with `targetRefs` must have the same targets";
            return Err(Problem::error(resource.view.place(), message).help(help));
        }
    }
    if let Some(resource) = selected.filter(|_| is_for_all) {
        let message =
            "the imported policy is for the workloads that this resource selects, not for others";
        original.notes.push(resource.view.note(Effect::Same, message));
    }
    Ok(())
}

fn read_policies(policies: &[View<'_>], options: &Options, start: &Place, original: &mut Original) {
    let mut allow = Vec::new();
    for policy in policies {
        if let Some(annotation) = dry_run(policy) {
            let message = "a dry run decides nothing and is not imported: try a policy with \
                           `rolegate serve --shadow`";
            original.notes.push(annotation.note(Effect::Same, message));
            continue;
        }
        let alternatives = rules(policy, options, original);
        match action(policy) {
            "ALLOW" => allow.extend(alternatives),
            "DENY" => original.deny.extend(alternatives),
            "AUDIT" => {
                let message = "`AUDIT` decides nothing and is not imported";
                original.notes.push(policy.note(Effect::Same, message));
            }
            // `CUSTOM`, or an unknown action, may deny the requests that its rules match.
            _ => {
                let at = policy.get("spec/action").unwrap_or_else(|| policy.clone());
                let message = "decisions of an external authorizer are not imported, so each \
                               request sent to it is denied";
                original.deny.extend(alternatives.into_iter().map(|alternative| {
                    let condition = at.between(Expr::never(), alternative.condition, message);
                    Alternative { condition, ..alternative }
                }));
            }
        }
    }
    if !policies.iter().any(allows) {
        // As in Istio. The note is for a person who forgot a file.
        let origin =
            policies.first().map_or_else(|| (start.clone(), String::new()), |view| view.origin());
        let message =
            "no `ALLOW` policy is for this workload: everything that is not denied is allowed";
        original.notes.push(Note::new(&origin, Effect::Same, message));
        let (name, condition) = ("no ALLOW policy".to_owned(), Expr::always());
        allow.push(Alternative { name, origin, condition });
    }
    original.allow.push(allow);
}

/// The action for the requests that a policy matches.
fn action<'n>(policy: &View<'n>) -> &'n str {
    policy.get("spec/action").map_or("ALLOW", |action| action.text().unwrap_or_default())
}

/// Whether this is an `ALLOW` policy in force. With one, requests that no rule allows are denied.
fn allows(policy: &View<'_>) -> bool {
    dry_run(policy).is_none() && action(policy) == "ALLOW"
}

/// The annotation that makes a policy a dry run. Istio parses it with Go's `strconv.ParseBool`, for
/// which only the texts below are true; `yes` is not.
fn dry_run<'n>(policy: &View<'n>) -> Option<View<'n>> {
    let annotations = policy.entries_as_written_at("metadata/annotations");
    let (_, value) = annotations.into_iter().find(|(key, _)| key == "istio.io/dry-run")?;
    matches!(value.text(), Some("1" | "t" | "T" | "TRUE" | "true" | "True")).then_some(value)
}

/// The fields other than `known` and the selectors. An unknown field may narrow the selection.
fn unknown_fields<'n>(spec: &View<'n>, known: &str) -> Vec<View<'n>> {
    let selector = spec.get("selector").map(|selector| selector.values_except("match_labels"));
    let fields = spec.values_except(&format!("selector target_ref target_refs {known}"));
    fields.into_iter().chain(selector.unwrap_or_default()).collect()
}

/// The rules of a policy. A policy without rules matches nothing.
fn rules(policy: &View<'_>, options: &Options, original: &Original) -> Vec<Alternative> {
    let Some(spec) = policy.get("spec") else { return Vec::new() };
    let name = policy.text_of("metadata/name").unwrap_or("policy");
    let rules = match rule::items(&spec, "rules") {
        Ok(rules) => rules,
        Err(condition) => return vec![Alternative::new(&spec, name, condition)],
    };
    let unknown = unknown_fields(&spec, "rules action provider");
    let unknown = unknown.iter().map(|field| field.inexpressible(reason::UNKNOWN_FIELD));
    let rules = rules.iter().map(|rule| {
        let condition = rule::condition(rule, options, &original.sources);
        Alternative::new(rule, name, Expr::all([condition].into_iter().chain(unknown.clone())))
    });
    rules.collect()
}
