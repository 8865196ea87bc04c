//! Istio: `AuthorizationPolicy` and `RequestAuthentication`.
//!
//! The conditions mean what those of Envoy's RBAC filter mean into which Istio translates them.

mod request_authentication;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use document::{Place, Problem, View};

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::lower::{Alternative, Original};
use crate::note::{Effect, Note};

/// Reads documents.
pub(crate) fn read(documents: &[View<'_>], options: &Options, start: &Place) -> Result<Original, Problem> {
    let mut original = Original::default();
    let resources: Vec<View<'_>> = documents.iter().flat_map(resources).collect();
    let mut policies = Vec::new();
    let mut authentications = Vec::new();
    for resource in resources {
        match resource.text_of("kind") {
            Some("AuthorizationPolicy") => policies.push(resource),
            Some("RequestAuthentication") => authentications.push(resource),
            _ => original.notes.push(resource.note(Effect::Same, "this resource is not imported")),
        }
    }
    if policies.is_empty() && authentications.is_empty() {
        let help = "give files with `AuthorizationPolicy` and `RequestAuthentication`";
        return Err(Problem::error(start.clone(), "there is no policy of Istio here").help(help));
    }
    policies.iter().chain(&authentications).try_for_each(readable)?;
    let is_given = !policies.is_empty();
    if options.namespace.is_some() {
        named_namespaces(policies.iter().chain(&authentications))?;
    }
    let options = &with_namespace(policies.iter().chain(&authentications), options)?;
    let allowing = policies.iter().find(|policy| allows(policy)).cloned();
    let policies = of_workload(policies, options, &mut original);
    if is_given && policies.is_empty() {
        // Istio would allow it everything; more likely is a typing error.
        let message = "no `AuthorizationPolicy` here is for this workload";
        return Err(Problem::error(start.clone(), message).help("check `--namespace` and `--label`"));
    }
    if let Some(policy) = allowing.filter(|_| !policies.iter().any(allows)) {
        let message =
            "no `ALLOW` policy here is for this workload, so that it would be allowed all that is not denied";
        let help =
            "check `--namespace` and `--label`; if it needs none, give only the files of this workload";
        return Err(Problem::error(policy.place(), message).help(help));
    }
    let authentications = of_workload(authentications, options, &mut original);
    same_workload(policies.iter().chain(&authentications), options, &mut original)?;
    for authentication in &authentications {
        request_authentication::read(authentication, options, &mut original);
    }
    read_policies(&policies, options, start, &mut original);
    Ok(original)
}

/// The resources of a document, which may be a list.
fn resources<'n>(document: &View<'n>) -> Vec<View<'n>> {
    let items = document.get("items").map(|items| items.items()).unwrap_or_default();
    if items.is_empty() { vec![document.clone()] } else { items.iter().flat_map(resources).collect() }
}

/// Checks the fields that say for which workloads a resource is, and the list of issuers: if one were taken for missing, what a policy
/// allows would be for more workloads, or what it denies for none.
fn readable(resource: &View<'_>) -> Result<(), Problem> {
    resource.in_one_spelling()?;
    let Some(spec) = resource.get("spec") else { return Ok(()) };
    let (labels, targets) = (spec.at(&["selector", "match_labels"]), spec.get("target_refs"));
    let values = labels.as_ref().map(View::entries).unwrap_or_default();
    let items = targets.as_ref().map(View::items).unwrap_or_default();
    let metadata = resource.get("metadata");
    let mappings =
        [metadata, Some(spec.clone()), spec.get("selector"), labels.clone(), spec.get("target_ref")];
    let no_mapping = mappings.into_iter().flatten().chain(items).find(|view| !view.is_mapping());
    let no_list = [targets, spec.get("jwt_rules")].into_iter().flatten().find(|view| !view.is_list());
    let no_text = values.into_iter().map(|(_, value)| value).find(|value| value.text().is_none());
    let no_text = no_text.or_else(|| labels.filter(View::lacks_a_value));
    let namespace = resource.at(&["metadata", "namespace"]).filter(|namespace| namespace.text().is_none());
    let wrong = [
        (no_mapping, "a mapping"),
        (no_list, "a list"),
        (no_text, "a text for each label"),
        (namespace, "a text"),
    ];
    match wrong.into_iter().find_map(|(view, expected)| Some((view?, expected))) {
        Some((view, expected)) => {
            let message = format!("`{}`: {expected} is expected here", view.path);
            Err(Problem::error(view.place(), message)
                .help("correct it: Kubernetes would refuse this resource"))
        }
        None => Ok(()),
    }
}

/// `kubectl apply` decides the namespace of a resource that names none: it may be that of the workload.
fn named_namespaces<'v, 'n: 'v>(mut all: impl Iterator<Item = &'v View<'n>>) -> Result<(), Problem> {
    let unnamed = all.find(|resource| Workload::of(resource).namespace.is_none());
    unnamed.map_or(Ok(()), |resource| {
        let problem = Problem::error(resource.place(), "this names no namespace, but `--namespace` is given");
        Err(problem.help("write `metadata.namespace`, or leave `--namespace` out"))
    })
}

/// The options, with the namespace of the resources if they are in one and labels are given without it: that is the root namespace
/// only if all are there.
fn with_namespace<'v, 'n: 'v>(
    all: impl Iterator<Item = &'v View<'n>>,
    options: &Options,
) -> Result<Options, Problem> {
    let mut namespaces: Vec<(&str, &View<'_>)> = Vec::new();
    for resource in all {
        let namespace = Workload::of(resource).namespace.unwrap_or_default();
        if namespace != options.root_namespace && namespaces.iter().all(|(known, _)| *known != namespace) {
            namespaces.push((namespace, resource));
        }
    }
    if options.namespace.is_some() || options.labels.is_empty() {
        return Ok(options.clone());
    }
    match namespaces.as_slice() {
        // The labels count also where all resources are for each namespace.
        [] => Ok(Options { namespace: Some(options.root_namespace.clone()), ..options.clone() }),
        [(only, _)] => Ok(Options { namespace: Some((*only).to_owned()), ..options.clone() }),
        [(first, _), (second, resource), ..] => {
            let message = format!("the resources are in the namespaces `{first}` and `{second}`");
            let help = "name that of the workload by `--namespace`; one that counts for all workloads is \
                        `--root-namespace`";
            Err(Problem::error(resource.place(), message).help(help))
        }
    }
}

/// The workloads for which a resource is.
#[derive(PartialEq)]
struct Workload<'n> {
    namespace: Option<&'n str>,
    labels: BTreeMap<String, &'n str>,
    /// What `targetRefs` refers to.
    targets: BTreeSet<Target<'n>>,
}

/// What a policy with `targetRefs` is for. A `Gateway` and a `Service` may have one name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target<'n> {
    group: &'n str,
    kind: &'n str,
    name: &'n str,
    namespace: &'n str,
}

impl<'n> Workload<'n> {
    fn of(resource: &View<'n>) -> Self {
        let namespace = resource.at(&["metadata", "namespace"]).and_then(|namespace| namespace.text());
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let labels = resource.at(&["spec", "selector", "match_labels"]);
        let labels = labels.map(|labels| labels.named_entries()).unwrap_or_default();
        let labels = labels.into_iter().map(|(key, value)| (key, value.text().unwrap_or_default())).collect();
        let list = resource.get("spec").map(|spec| spec.list("target_refs")).unwrap_or_default();
        let targets = list.into_iter().chain(resource.at(&["spec", "target_ref"]));
        let target = |target: View<'n>| {
            let text = |key| target.text_of(key).unwrap_or_default();
            // The group of Kubernetes itself has no name, and one that is not named is it.
            let group = Some(text("group")).filter(|group| *group != "core").unwrap_or_default();
            let namespace = target.text_of("namespace").or(namespace).unwrap_or_default();
            Target { group, kind: text("kind"), name: text("name"), namespace }
        };
        let targets = targets.map(target).collect();
        Self { namespace, labels, targets }
    }

    /// Whether it is in the namespace of the options, or counts for all. Without one, all must be in the same ([`same_workload`]).
    fn is_in_namespace(&self, options: &Options) -> bool {
        let own = options.namespace.as_deref();
        own.is_none_or(|own| self.namespace.unwrap_or_default() == own) || self.is_in_root(options)
    }

    /// Whether it is in the namespace that counts for all others.
    fn is_in_root(&self, options: &Options) -> bool {
        self.namespace == Some(&options.root_namespace)
    }

    /// Whether it selects a workload with the labels of the options. Without labels, all must select the same ([`same_workload`]).
    fn selects(&self, options: &Options) -> bool {
        let has = |(key, value): (&String, &&str)| {
            options.labels.iter().any(|(name, text)| name == key && text == value)
        };
        options.labels.is_empty() || self.labels.iter().all(has)
    }
}

/// The resources for the workload of the options.
fn of_workload<'n>(
    mut resources: Vec<View<'n>>,
    options: &Options,
    original: &mut Original,
) -> Vec<View<'n>> {
    resources.retain(|resource| {
        let workload = Workload::of(resource);
        let message = match (workload.is_in_namespace(options), workload.selects(options)) {
            (true, true) => return true,
            (true, false) => "this is for workloads with other labels than those of `--label`".to_owned(),
            (false, _) => format!(
                "this is for workloads of another namespace, as the root namespace is `{}` (`--root-namespace`)",
                options.root_namespace
            ),
        };
        original.notes.push(resource.note(Effect::Same, message));
        false
    });
    resources
}

/// What the options do not say of the workload, its namespace or its labels, must be the same for all: rules for another would allow
/// more. Those without a selector are for each workload of their namespace, also for the one that others select, and those of the
/// root namespace for each.
fn same_workload<'v, 'n: 'v>(
    all: impl Iterator<Item = &'v View<'n>>,
    options: &Options,
    original: &mut Original,
) -> Result<(), Problem> {
    let (mut namespace, mut targets) = (None, None);
    let mut selected: Option<(&View<'_>, BTreeMap<String, &str>)> = None;
    let mut is_for_all = false;
    for resource in all {
        let other_workload = || {
            let help = "name one by `--namespace` and `--label`, or give only its files; a policy with `targetRefs` is \
                        imported with others of the same targets";
            Problem::error(resource.place(), "this is for other workloads than those before").help(help)
        };
        let workload = Workload::of(resource);
        if *targets.get_or_insert_with(|| workload.targets.clone()) != workload.targets {
            return Err(other_workload());
        }
        let is_included = options.namespace.is_some() || workload.is_in_root(options);
        if !is_included && *namespace.get_or_insert(workload.namespace) != workload.namespace {
            return Err(other_workload());
        }
        if !options.labels.is_empty() {
            continue;
        }
        if workload.labels.is_empty() {
            is_for_all = true;
        } else if selected.get_or_insert_with(|| (resource, workload.labels.clone())).1 != workload.labels {
            return Err(other_workload());
        }
    }
    if let Some((resource, _)) = selected.filter(|_| is_for_all) {
        let message = "the policy is for the workloads that this selects: others have other policies";
        original.notes.push(resource.note(Effect::Same, message));
    }
    Ok(())
}

fn read_policies(policies: &[View<'_>], options: &Options, start: &Place, original: &mut Original) {
    let mut allow = Vec::new();
    for policy in policies {
        if let Some(annotation) = dry_run(policy) {
            let message =
                "a dry run decides nothing and is not imported: try a policy by `rolegate serve --shadow`";
            original.notes.push(annotation.note(Effect::Same, message));
            continue;
        }
        let alternatives = rules(policy, policy.get("spec").as_ref(), options, original);
        match action(policy) {
            "ALLOW" => allow.extend(alternatives),
            "DENY" => original.deny.extend(alternatives),
            "AUDIT" => {
                original.notes.push(policy.note(Effect::Same, "`AUDIT` decides nothing and is not imported"))
            }
            // `CUSTOM`, or an action that is not known, may deny what its rules match.
            _ => original.deny.extend(alternatives.into_iter().map(|one| undecided(policy, one))),
        }
    }
    if !policies.iter().any(allows) {
        // So it is in Istio; but a file may be missing.
        let (at, path) = policies
            .first()
            .map_or_else(|| (start.clone(), String::new()), |policy| (policy.place(), policy.path.clone()));
        let message = "no `ALLOW` policy is for this workload: all that is not denied is allowed".to_owned();
        original.notes.push(Note { at: at.clone(), path: path.clone(), message, effect: Effect::Same });
        let name = "no ALLOW policy".to_owned();
        allow.push(Alternative { name, origin: (at, path), condition: Expr::always() });
    }
    original.allow.push(allow);
}

/// What a policy does with the requests that it matches.
fn action<'n>(policy: &View<'n>) -> &'n str {
    policy.at(&["spec", "action"]).map_or("ALLOW", |action| action.text().unwrap_or_default())
}

/// Whether a policy allows requests, so that others are denied.
fn allows(policy: &View<'_>) -> bool {
    dry_run(policy).is_none() && action(policy) == "ALLOW"
}

/// What says that a policy decides nothing.
fn dry_run<'n>(policy: &View<'n>) -> Option<View<'n>> {
    let annotations = policy.at(&["metadata", "annotations"])?.named_entries();
    let annotation = annotations.into_iter().find(|(key, _)| key == "istio.io/dry-run");
    annotation.map(|(_, value)| value).filter(|value| value.text().is_some_and(is_true))
}

/// Whether Istio reads this annotation as true (`strconv.ParseBool` of Go). Others than these, such as `yes`, are false.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// What another authorizer decides is denied.
fn undecided(policy: &View<'_>, alternative: Alternative) -> Alternative {
    let at = policy.at(&["spec", "action"]).unwrap_or_else(|| policy.clone());
    let condition = at.between(
        Expr::never(),
        alternative.condition,
        "what an external authorizer decides is not imported, and all about which it is asked is denied",
    );
    Alternative { condition, ..alternative }
}

/// The fields besides these and those that say for which workloads a resource is. What is not known may limit it to fewer.
fn unknown_fields<'n>(spec: &View<'n>, known: &[&str]) -> Vec<View<'n>> {
    let known = [&["selector", "target_ref", "target_refs"], known].concat();
    let selector = spec.get("selector").map(|selector| selector.besides(&["match_labels"]));
    spec.besides(&known).into_iter().chain(selector.unwrap_or_default()).collect()
}

/// The rules of a policy; without any, it matches nothing.
fn rules(
    policy: &View<'_>,
    spec: Option<&View<'_>>,
    options: &Options,
    original: &mut Original,
) -> Vec<Alternative> {
    let Some(spec) = spec else { return Vec::new() };
    let name = policy.at(&["metadata", "name"]).and_then(|name| name.text()).unwrap_or("policy").to_owned();
    let unknown = unknown_fields(spec, &["rules", "action", "provider"]);
    let rules = match rule::items(spec, "rules") {
        Ok(rules) => rules,
        Err(condition) => {
            return vec![Alternative { name, origin: (spec.place(), spec.path.clone()), condition }];
        }
    };
    let rules = rules.into_iter().map(|rule| {
        let limits = unknown.iter().map(|unknown| unknown.inexpressible("a field that is not known"));
        let condition = Expr::All(
            [rule::condition(&rule, options, &original.sources)].into_iter().chain(limits).collect(),
        );
        Alternative { name: name.clone(), origin: (rule.place(), rule.path.clone()), condition }
    });
    rules.collect()
}
