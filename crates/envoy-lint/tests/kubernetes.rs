//! Policies of Envoy Gateway and of Istio: which are in effect where they are attached.
#![expect(clippy::panic, reason = "the problems are the message of the failed test")]

use std::path::Path;

use envoy_lint::{Kind, lint};

const ROLEGATE: &str =
    "extAuth: { statusOnError: 503, grpc: { backendRefs: [{ name: rolegate, port: 9191 }] } }";
const MODULE: &str = "dynamicModule: [{ name: rolegate }]";

fn found(documents: &[String]) -> Vec<Kind> {
    let text = documents.join("---\n");
    let findings = lint(Path::new("policies.yaml"), text.as_bytes(), &[]);
    let findings = findings.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    findings.iter().map(|finding| finding.kind).collect()
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("kind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}\n")
}

fn in_namespace(namespace: &str, object: &str) -> String {
    object.replacen("metadata: { ", &format!("metadata: {{ namespace: {namespace}, "), 1)
}

fn to(kind: &str, name: &str) -> String {
    format!("targetRefs: [{{ kind: {kind}, name: {name} }}]")
}

#[test]
fn a_policy_for_a_part_takes_the_place_of_one_for_the_whole() {
    for (kind, authorizer) in [("SecurityPolicy", ROLEGATE), ("EnvoyExtensionPolicy", MODULE)] {
        let gateway = object(kind, "a", &format!("{}, {authorizer}", to("Gateway", "g")));
        let other = |spec: &str| object(kind, "b", spec);
        let route = to("HTTPRoute", "r");
        let of_other_gateway = object("HTTPRoute", "r", "parentRefs: [{ name: h }]");
        let of_gateway = object("HTTPRoute", "r", "parentRefs: [{ name: g }]");
        let set = to("ListenerSet", "l");
        let listener = "targetRefs: [{ kind: Gateway, name: g, sectionName: s }]";
        for (others, expected) in [
            (vec![], false),
            (vec![other(&route)], true),
            (vec![other(&route), of_gateway], true),
            (vec![other(&route), of_other_gateway], false),
            (vec![other(&set)], true),
            (vec![other(&set), object("ListenerSet", "l", "parentRef: { name: g }")], true),
            (vec![other(&set), object("ListenerSet", "l", "parentRef: { name: h }")], false),
            (vec![other(&format!("{route}, mergeType: StrategicMerge"))], false),
            (vec![other(&format!("{route}, {authorizer}"))], false),
            (vec![other(listener)], true),
            (vec![other("targetSelectors: [{ kind: HTTPRoute, matchLabels: { a: b } }]")], true),
            (vec![other(&to("Gateway", "g"))], true),
            (vec![other(&to("Gateway", "h"))], false),
            (vec![object("BackendTrafficPolicy", "b", &route)], false),
        ] {
            let documents = [vec![gateway.clone()], others].concat();
            let kinds = found(&documents);
            assert_eq!(kinds, vec![Kind::UnenforcedPolicy; usize::from(expected)], "{documents:?}");
        }
    }
}

/// Where a namespace is not written, it may be any.
#[test]
fn a_part_of_a_gateway_is_in_the_namespace_that_is_written() {
    let gateway = object("SecurityPolicy", "a", &format!("{}, {ROLEGATE}", to("Gateway", "g")));
    let here = in_namespace("m", &gateway);
    let listener =
        object("SecurityPolicy", "b", "targetRefs: [{ kind: Gateway, name: g, sectionName: s }]");
    let of_route = object("SecurityPolicy", "b", &to("HTTPRoute", "r"));
    let route = object("HTTPRoute", "r", "parentRefs: [{ name: g }]");
    let across = object("HTTPRoute", "r", "parentRefs: [{ name: g, namespace: m }]");
    let elsewhere = in_namespace("n", &of_route);
    for (documents, expected) in [
        (vec![here.clone(), in_namespace("m", &listener)], true),
        (vec![here.clone(), in_namespace("n", &listener)], false),
        (vec![here.clone(), listener.clone()], true),
        (vec![gateway.clone(), in_namespace("n", &listener)], true),
        (vec![here.clone(), in_namespace("m", &of_route), in_namespace("m", &route)], true),
        (vec![here.clone(), elsewhere.clone(), in_namespace("n", &route)], false),
        (vec![here.clone(), elsewhere.clone(), in_namespace("n", &across)], true),
        (vec![gateway, elsewhere, in_namespace("n", &route)], true),
        (vec![here, of_route, route], true),
    ] {
        let kinds = found(&documents);
        assert_eq!(kinds, vec![Kind::UnenforcedPolicy; usize::from(expected)], "{documents:?}");
    }
}

#[test]
fn a_policy_has_the_target_that_it_names() {
    let policy = |target: &str| {
        object("SecurityPolicy", "a", &format!("targetRefs: [{{ {target} }}], {ROLEGATE}"))
    };
    let route = || object("HTTPRoute", "r", "rules: [{ name: s }]");
    let elsewhere = route().replace("name: r", "name: r, namespace: n");
    for (target, route, expected) in [
        ("kind: HTTPRoute, name: r", route(), false),
        ("kind: HTTPRoute, name: r, sectionName: s", route(), false),
        ("kind: GRPCRoute, name: x", route(), false),
        ("kind: HTTPRoute, name: x", route(), true),
        ("kind: HTTPRoute, name: r, sectionName: x", route(), true),
        ("kind: HTTPRoute, name: r", elsewhere, true),
    ] {
        let kinds = found(&[policy(target), route.clone()]);
        assert_eq!(kinds, vec![Kind::UnenforcedPolicy; usize::from(expected)], "{target} {route}");
    }
}

#[test]
fn a_module_is_one_of_the_proxy_and_the_first() {
    let policy = |more: &str| {
        object("EnvoyExtensionPolicy", "a", &format!("{}, {MODULE}{more}", to("Gateway", "g")))
    };
    let merged = |more: &str| {
        let route = to("HTTPRoute", "r");
        object("EnvoyExtensionPolicy", "b", &format!("{route}, mergeType: StrategicMerge, {more}"))
    };
    let proxy =
        |module: &str| object("EnvoyProxy", "p", &format!("dynamicModules: [{{ {module} }}]"));
    for (documents, expected) in [
        (vec![policy(""), proxy("name: rolegate, doNotClose: true")], vec![]),
        (vec![policy(""), proxy("name: rolegate")], vec![Kind::ClosedModule]),
        (vec![policy(""), proxy("name: other")], vec![Kind::MissingProvider]),
        (vec![policy(", wasm: [{ name: a }]")], vec![Kind::EarlyFilter]),
        (vec![policy(""), merged("lua: [{ type: Inline }]")], vec![Kind::EarlyFilter]),
        (vec![policy(""), merged("")], vec![]),
    ] {
        assert_eq!(found(&documents), expected, "{documents:?}");
    }
}

#[test]
fn a_policy_of_istio_is_for_each_request_and_names_a_provider() {
    let policy = |rules: &str| {
        object(
            "AuthorizationPolicy",
            "a",
            &format!("action: CUSTOM, provider: {{ name: rolegate }}{rules}"),
        )
    };
    let provider =
        "envoyExtAuthzGrpc: { service: rolegate, port: 9191, timeout: 2s, statusOnError: \"503\" }";
    let mesh = |name: &str, normalization: &str| {
        format!(
            "pathNormalization: {{ normalization: {normalization} }}\nextensionProviders: [{{ name: {name}, {provider} }}]\n"
        )
    };
    let in_map = |mesh: &str| {
        let block: String = mesh.lines().map(|line| format!("    {line}\n")).collect();
        format!("kind: ConfigMap\ndata:\n  mesh: |\n{block}")
    };
    let (all, good) = (", rules: [{}]", mesh("rolegate", "MERGE_SLASHES"));
    let annotated = |dry_run: &str| {
        let annotations = format!("name: a, annotations: {{ istio.io/dry-run: \"{dry_run}\" }}");
        policy(all).replace("name: a", &annotations)
    };
    for (documents, expected) in [
        (vec![policy(all)], vec![]),
        (vec![policy(all), good.clone()], vec![]),
        (vec![policy(all), in_map(&good)], vec![]),
        (vec![policy(all), mesh("other", "MERGE_SLASHES")], vec![Kind::MissingProvider]),
        (vec![policy(all), in_map(&mesh("other", "MERGE_SLASHES"))], vec![Kind::MissingProvider]),
        (vec![policy("")], vec![Kind::UnenforcedPolicy]),
        (vec![annotated("true")], vec![Kind::UnenforcedPolicy]),
        (vec![annotated("false")], vec![]),
        (
            vec![policy(", rules: [{ to: [{ operation: { paths: [/a] } }] }]")],
            vec![Kind::ConditionalFilter],
        ),
        (vec![mesh("rolegate", "BASE")], vec![Kind::UnmergedSlashes]),
        (vec![mesh("rolegate", "NONE")], vec![Kind::UnnormalizedPath]),
        (vec![mesh("rolegate", "DECODE_AND_MERGE_SLASHES")], vec![Kind::UnescapedSlashes]),
        (vec![good.replace("2s", "600s")], vec![Kind::LongTimeout]),
    ] {
        assert_eq!(found(&documents), expected, "{documents:?}");
    }
}
