//! An import is never wider than its original without an error or a note that says so: lists that
//! are written as one element, and values that are not what is expected.

use std::path::{Path, PathBuf};

use import::{Effect, Imported, Options, envoy_rbac, istio};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";

fn envoy(original: &str) -> Result<Imported, String> {
    let original = original.replace("FILTERS", FILTERS);
    let options = Options { audiences: vec!["api".to_owned()], ..Options::default() };
    envoy_rbac(Path::new("in"), original.as_bytes(), &options)
        .map_err(|problems| format!("{problems:?}"))
}

fn from_istio(original: &str, options: &Options) -> Result<Imported, String> {
    let files = [(PathBuf::from("in"), original.as_bytes().to_vec())];
    istio(&files, options).map_err(|problems| format!("{problems:?}"))
}

/// Envoy reads its configuration with a parser of protocol buffers that takes one element for a
/// list of it.
#[test]
fn one_element_is_a_list_of_it() {
    let rbac = |rules: &str| {
        format!(
            "{{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC, rules: {rules} }} }}"
        )
    };
    let open =
        rbac("{ policies: { a: { permissions: [{ any: true }], principals: [{ any: true }] } } }");
    let jwt = |provider: &str, rules: &str, rbac: &str| {
        format!(
            "http_filters: [{{ name: jwt, typed_config: {{ '@type': FILTERS.jwt_authn.v3.JwtAuthentication, rules: {rules},
  providers: {{ a: {{ issuer: 'https://a', remote_jwks: {{ http_uri: {{ uri: 'https://a/jwks' }} }}, payload_in_metadata: pl{provider} }} }} }} }},
  {rbac}]"
        )
    };
    let needed = "[{ match: { prefix: / }, requires: { provider_name: a } }]";
    let claims = |value: &str| {
        let metadata = format!(
            "{{ filter: envoy.filters.http.jwt_authn, path: [{{ key: pl }}, {{ key: sub }}], value: {value} }}"
        );
        let rules = "action: DENY, policies: { a: { permissions: [{ any: true }], principals: [{ metadata: ";
        jwt("", needed, &rbac(&format!("{{ {rules} {metadata} }}] }} }} }}")))
    };
    let of_rules = |action: &str, permission: &str, principal: &str| {
        let policy = format!("{{ permissions: {permission}, principals: {principal} }}");
        format!("rules: {{ action: {action}, policies: {{ a: {policy} }} }}")
    };
    let status = "{ url_path: { path: { exact: /status } } }";
    for template in [
        of_rules(
            "ALLOW",
            &format!("<{{ and_rules: {{ rules: <{status}> }} }}>"),
            "<{ any: true }>",
        ),
        of_rules("DENY", &format!("<{{ or_rules: {{ rules: <{status}> }} }}>"), "<{ any: true }>"),
        of_rules(
            "ALLOW",
            "[{ any: true }]",
            "<{ not_id: { or_ids: { ids: <{ source_ip: {} }> } } }>",
        ),
        of_rules("ALLOW", "[{ any: true }]", "<{ and_ids: { ids: <{ source_ip: {} }> } }>"),
        format!("http_filters: <{open}>"),
        format!("http_filters: [{open}]\nupgrade_configs: <{{ filters: <{open}> }}>"),
        format!(
            "http_filters: [{open}, {{ config_discovery: {{ type_urls: <FILTERS.rbac.v3.RBAC> }} }}]"
        ),
        format!(
            "filters: <{{ name: a, typed_config: {{ '@type': x.filters.network.rbac.v3.RBAC }} }}>\nhcm: {{ http_filters: [{open}] }}"
        ),
        jwt("", "<{ match: { prefix: / }, requires: { provider_name: a } }>", &open),
        jwt(
            "",
            "[{ match: { prefix: / }, requires: { requires_all: { requirements: <{ provider_name: a }> } } }]",
            &open,
        ),
        jwt(
            "",
            "[{ match: { prefix: / }, requires: { requires_any: { requirements: <{ provider_name: a }> } } }]",
            &open,
        ),
        jwt(", audiences: <shop>", needed, &open),
        jwt(", from_headers: <{ name: x-token }>", needed, &open),
        jwt(", from_params: <token>", needed, &open),
        claims("{ or_match: { value_matchers: <{ string_match: { exact: eve } }> } }"),
    ] {
        let read = |template: &str| {
            let imported = envoy(template).unwrap();
            // The places are those of other columns, and the paths have no numbers.
            let notes = imported.notes.into_iter();
            let mut notes: Vec<_> = notes
                .map(|note| (note.path.replace("[0]", ""), note.message, note.effect))
                .collect();
            notes.sort();
            (imported.policy, notes)
        };
        let list = read(&template.replace('<', "[").replace('>', "]"));
        assert_eq!(read(&template.replace(['<', '>'], "")), list, "{template}");
    }
}

/// Envoy starts with none of these. What they would mean is not known, so nothing is allowed, and
/// all is denied.
#[test]
fn rules_that_are_not_as_expected_allow_nothing() {
    let rules = |action: &str, policy: &str| {
        envoy(&format!("rules: {{ action: {action}, policies: {policy} }}")).unwrap()
    };
    let checked = |policy: &str| {
        let imported = rules("ALLOW", policy);
        assert_allows_nothing(&imported, policy);
        assert_denies_all(&rules("DENY", policy), policy);
    };
    for permission in [
        "{ and_rules: { ids: [{ any: true }] } }",
        "{ and_rules: [{ url_path: { path: { exact: /a } } }] }",
        "{ or_rules: [{ url_path: { path: { exact: /a } } }] }",
        "{ and_rules: { rules: [] } }",
        "{ or_rules: {} }",
        "{ and_rules: { rules: [{ any: true }], later: true } }",
        "{ not_rule: { or_rules: { rules: [] } } }",
        "{ not_rule: { and_rules: { rule: [{ any: true }] } } }",
        "{ url_path: { path: { exact: /a }, later: true } }",
        "{ uri_template: { name: a, typed_config: { path_template: /a }, later: true } }",
        "{ uri_template: { name: a, typed_config: { path_template: /a, later: true } } }",
        "{ url_path: { path: /admin } }",
        "{ url_path: { path: {} } }",
        "{ url_path: { path: { ignore_case: true } } }",
        "{ url_path: { path: { exact: /a, ignore_case: maybe } } }",
        "{ url_path: { path: { safe_regex: { regex: /a, later: true } } } }",
        "{ not_rule: { url_path: { path: /admin } } }",
        "{ header: { name: ':path', string_match: {} } }",
        "{ header: { name: ':method', safe_regex_match: { regex: GET, later: true } } }",
        "{ header: { name: ':method', exact_match: GET, invert_match: maybe } }",
    ] {
        checked(&format!(
            "{{ a: {{ permissions: [{permission}], principals: [{{ any: true }}] }} }}"
        ));
    }
    for header in [
        "string_match: { safe_regex: { regex: 'a)|(b' } }",
        "string_match: { safe_regex: { regex: '(' } }",
        "string_match: {}",
        "range_match: { start: one, end: 5 }",
        "range_match: { start: 1, end: 5, later: true }",
        "range_match: 5",
        "present_match: maybe",
        "exact_match: a, prefix_match: a",
        "exact_match: a, invert_match: maybe",
        "exact_match: a, treat_missing_header_as_empty: maybe",
        "exact_match: ''",
        "later_match: a",
    ] {
        let permission = format!("{{ header: {{ name: x-a, {header} }} }}");
        checked(&format!(
            "{{ a: {{ permissions: [{permission}], principals: [{{ any: true }}] }} }}"
        ));
    }
    for principal in [
        "{ header: { exact_match: a } }",
        "{ header: { name: 'x a', exact_match: a } }",
        "{ header: { name: authorization } }",
        "{ source_ip: {} }",
        "{ source_ip: 10.0.0.0/8 }",
        "{ source_ip: { address_prefix: 10.0.0.0, prefix_len: [8] } }",
        "{ source_ip: { address_prefix: 10.0.0.0, prefix_len: -1 } }",
        "{ direct_remote_ip: { address_prefix: 10.0.0.0, prefix_len: 33 } }",
        "{ direct_remote_ip: { address_prefix: '::ffff:10.0.0.0', prefix_len: 104 } }",
        "{ direct_remote_ip: { address_prefix: 10.0.0.0, prefix_len: 8, later: true } }",
        "{ remote_ip: { address_prefix: 10.0.0.0, prefix_len: 8 } }",
    ] {
        checked(&format!(
            "{{ a: {{ permissions: [{{ any: true }}], principals: [{principal}] }} }}"
        ));
    }
    let method = "{ select_expr: { operand: { ident_expr: { name: request } }, field: method } }";
    for condition in [
        "condition: \"request.method == 'GET'\"".to_owned(),
        "condition: {}".to_owned(),
        "checked_condition: {}".to_owned(),
        "cel_config: {}".to_owned(),
        "condition: { call_expr: { function: '!_', args: [] } }".to_owned(),
        "condition: { call_expr: { function: _&&_, args: [{ const_expr: { bool_value: true } }] } }".to_owned(),
        "condition: { const_expr: { int64_value: 1 } }".to_owned(),
        "condition: { const_expr: { bool_value: true }, later: true }".to_owned(),
        "condition: { const_expr: { bool_value: true, later: true } }".to_owned(),
        format!("condition: {{ call_expr: {{ function: _==_, args: [{method}, {{ const_expr: {{ int64_value: 1 }} }}] }} }}"),
        format!("condition: {{ call_expr: {{ function: _==_, args: [{method}, {{ const_expr: {{ null_value: 0 }} }}] }} }}"),
        format!("condition: {{ call_expr: {{ function: lowerAscii, target: {method} }} }}"),
        format!("condition: {{ call_expr: {{ function: '!_', args: [{{ call_expr: {{ function: endsWith, target: {method} }} }}] }} }}"),
    ] {
        checked(&format!(
            "{{ a: {{ permissions: [{{ any: true }}], principals: [{{ any: true }}], {condition} }} }}"
        ));
    }
    for policy in [
        "{ a: { permission: [{ any: true }], principals: [{ any: true }] } }",
        "{ a: { permissions: [], principals: [{ any: true }] } }",
        "{ a: { permissions: [{ any: true }] } }",
        "{ a: all }",
        "{ a: ~ }",
        "[{ permissions: [{ any: true }], principals: [{ any: true }] }]",
        "all",
    ] {
        checked(policy);
    }
    let with_none = "{ a: ~, b: { permissions: [{ url_path: { path: { exact: /b } } }], principals: [{ any: true }] } }";
    assert_denies_all(&rules("DENY", with_none), with_none);
    let imported =
        rules("[DENY]", "{ a: { permissions: [{ any: true }], principals: [{ any: true }] } }");
    assert_allows_nothing(&imported, "action");
}

/// A note says that the policy is stricter, and it has no `allow`.
fn assert_allows_nothing(imported: &Imported, original: &str) {
    assert!(
        imported.is_stricter() && !imported.policy.contains("allow:"),
        "{original}: {}",
        imported.policy
    );
}

/// Everyone is denied everything, with a note.
fn assert_denies_all(imported: &Imported, original: &str) {
    let (_, deny) = imported.policy.split_once("deny:").unwrap_or_default();
    assert!(
        imported.is_stricter() && deny.contains("\"* /**\""),
        "{original}: {}",
        imported.policy
    );
}

#[test]
fn claims_that_are_not_as_expected_allow_nothing() {
    let checked = |principal: &str| {
        let with = |action: &str| {
            envoy(&format!(
                "http_filters:
  - {{ name: jwt, typed_config: {{ '@type': FILTERS.jwt_authn.v3.JwtAuthentication,
      providers: {{ a: {{ issuer: 'https://a', remote_jwks: {{ http_uri: {{ uri: 'https://a/jwks' }} }}, payload_in_metadata: pl }} }},
      rules: [{{ match: {{ prefix: / }}, requires: {{ requires_any: {{ requirements: [{{ provider_name: a }}, {{ allow_missing: {{}} }}] }} }} }}] }} }}
  - {{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC, rules: {{ action: {action}, policies: {{ a: {{
      permissions: [{{ any: true }}], principals: [{principal}] }} }} }} }} }}
"
            ))
            .unwrap()
        };
        assert_allows_nothing(&with("ALLOW"), principal);
        assert_denies_all(&with("DENY"), principal);
    };
    for value in [
        "{ or_match: { value_matchers: [] } }",
        "{ or_match: { value_matcher: [{ string_match: { exact: eve } }] } }",
        "{ or_match: { value_matchers: [{ string_match: { exact: eve } }], later: true } }",
        "{ string_match: { exact: eve }, later: true }",
        "{ list_match: { one_of: { string_match: { exact: eve }, later: true } } }",
        "{ list_match: { one_of: { string_match: { exact: eve } }, later: true } }",
        "{ string_match: eve }",
        "{ string_match: {} }",
        "{ list_match: { one_of: { string_match: eve } } }",
        "{ string_match: { exact: eve } }, invert: maybe",
    ] {
        let metadata = format!(
            "filter: envoy.filters.http.jwt_authn, path: [{{ key: pl }}, {{ key: sub }}], value: {value}"
        );
        checked(&format!("{{ metadata: {{ {metadata} }} }}"));
        checked(&format!("{{ sourced_metadata: {{ metadata_matcher: {{ {metadata} }} }} }}"));
    }
    for path in ["[{ key: pl }, { key: sub, later: true }]", "[{ key: pl }, sub]", "[{ key: pl }]"]
    {
        checked(&format!(
            "{{ metadata: {{ filter: envoy.filters.http.jwt_authn, path: {path}, value: {{ string_match: {{ exact: eve }} }} }} }}"
        ));
    }
    let metadata = "filter: envoy.filters.http.jwt_authn, path: [{ key: pl }, { key: sub }], value: { string_match: { exact: eve } }";
    for source in ["[ROUTE]", "ROUTE", "{}"] {
        checked(&format!(
            "{{ sourced_metadata: {{ metadata_matcher: {{ {metadata} }}, metadata_source: {source} }} }}"
        ));
    }
}

#[test]
fn requirements_of_tokens_that_are_not_as_expected_allow_nothing() {
    let with_provider = |field: &str, rules: &str| {
        envoy(&format!(
            "http_filters:
  - {{ name: jwt, typed_config: {{ '@type': FILTERS.jwt_authn.v3.JwtAuthentication, rules: {rules},
      providers: {{ a: {{ issuer: 'https://a', remote_jwks: {{ http_uri: {{ uri: 'https://a/jwks' }} }}{field} }} }} }} }}
  - {{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC,
      rules: {{ policies: {{ a: {{ permissions: [{{ any: true }}], principals: [{{ any: true }}] }} }} }} }} }}
"
        ))
        .unwrap()
    };
    let with = |rules: &str| with_provider("", rules);
    let needed = "requires: { provider_name: a }";
    let sound = with(&format!("[{{ match: {{ prefix: / }}, {needed} }}]"));
    assert!(sound.policy.contains("authenticated") && !sound.is_stricter(), "{}", sound.policy);
    for requires in [
        "require: { provider_name: a }",
        "requires: a",
        "requires: { provider_name: a, allow_missing: {} }",
        "requires: { requires_all: { requirement: [{ provider_name: a }] } }",
        "requires: { requires_all: [{ provider_name: a }] }",
        "requires: { requires_all: { requirements: [] } }",
        "requires: { requires_all: { requirements: [{ allow_missing: {} }], later: true } }",
        "requires: { requires_any: { requirements: [{ allow_missing: {} }], later: true } }",
        "requires: { requires_any: { requirements: [] } }",
        "requires: { requires_any: { requirements: [{ provider_name: a, allow_missing: {} }] } }",
        "requires: { requires_any: { requirements: [{ provider_name: a, later: true }] } }",
        "requires: { allow_missing: {} }, requirement_name: b",
    ] {
        assert_denies_all(&with(&format!("[{{ match: {{ prefix: / }}, {requires} }}]")), requires);
    }
    for field in [", clock_skew_seconds: [0]", ", audiences: [[api]]", ", later: true"] {
        let imported = with_provider(field, &format!("[{{ match: {{ prefix: / }}, {needed} }}]"));
        assert_denies_all(&imported, field);
    }
    // The first rule that matches decides. What is not as expected may match nothing, so that the
    // next one decides.
    let rest = format!("{{ match: {{ prefix: / }}, {needed} }}");
    for first in [
        "/public",
        "{}",
        "{ match: /public }",
        "{ match: {} }",
        "{ match: { case_sensitive: true } }",
        "{ match: { prefix: [/public] } }",
        "{ match: { path_separated_prefix: {} } }",
        "{ match: { safe_regex: /public } }",
        "{ match: { safe_regex: { regex: /public, later: true } } }",
    ] {
        let imported = with(&format!("[{first}, {rest}]"));
        let (anyone, _) =
            imported.policy.split_once("authenticated").unwrap_or((&imported.policy, ""));
        assert!(
            imported.is_stricter() && !anyone.contains("\"* /**\""),
            "{first}: {}",
            imported.policy
        );
    }
}

fn policy_of_istio(spec: &str) -> String {
    format!(
        "kind: AuthorizationPolicy\nmetadata: {{ name: a, namespace: shop }}\nspec: {{ {spec} }}\n"
    )
}

/// Kubernetes refuses most of these. Istio's newer fields are not known, whatever their type.
#[test]
fn rules_of_istio_that_are_not_as_expected_allow_nothing() {
    let with = |spec: &str| from_istio(&policy_of_istio(spec), &Options::default()).unwrap();
    let checked = |rules: &str| {
        let imported = with(&format!("rules: {rules}"));
        assert_allows_nothing(&imported, rules);
        assert_denies_all(&with(&format!("action: DENY, rules: {rules}")), rules);
    };
    for rule in [
        "~",
        "all",
        "[]",
        "{ to: { operation: { paths: [/a] } } }",
        "{ from: { source: {} } }",
        "{ from: [{ source: ~ }] }",
        "{ from: [{}] }",
        "{ from: [~] }",
        "{ from: [{ source: all }] }",
        "{ from: [{ source: {}, later: true }] }",
        "{ from: [{ source: { later: { mtls: true }, anonymous: false } }] }",
        "{ to: [{ operation: { later: true } }] }",
        "{ to: [{ operation: { paths: { exact: /status } } }] }",
        "{ to: [{ operation: { notPaths: { exact: /status } } }] }",
        "{ to: [{ operation: { paths: [~] } }] }",
        "{ when: { key: source.ip, values: [10.0.0.0/8] } }",
        "{ when: [{ key: source.ip, values: 10.0.0.0/8 }] }",
        "{ when: [{ key: source.ip, notValues: 10.0.0.0/8 }] }",
        "{ when: [{ key: source.ip }] }",
        "{ when: [{ key: source.ip, values: [] }] }",
        "{ when: [{ key: source.ip, values: [], notValues: [] }] }",
        "{ when: [source.ip] }",
        "{ when: [~] }",
        "{ later: true }",
    ] {
        checked(&format!("[{rule}]"));
    }
    checked("{ to: [{ operation: { paths: [/admin] } }] }");
    checked("all");
    let imported = with("rules: [{ to: [{ operation: { paths: /status } }] }]");
    assert_allows_nothing(&imported, "paths");
    // What is no text is no action: `ALLOW` is what a policy has that names none.
    assert_denies_all(&with("action: [DENY], rules: [{}]"), "action");
    // Istio takes these for no condition.
    for rule in ["{}", "{ from: [], to: ~ }", "{ to: [{ operation: { paths: [] } }] }"] {
        let imported = with(&format!("rules: [{rule}]"));
        assert!(
            imported.policy.contains("\"* /**\"") && !imported.is_stricter(),
            "{rule}: {}",
            imported.policy
        );
    }
}

/// If these were taken for none, a policy that allows would be for more workloads.
#[test]
fn workloads_that_cannot_be_read_are_an_error() {
    for spec in [
        "targetRefs: { kind: Gateway, name: g }, rules: [{}]",
        "targetRefs: [g], rules: [{}]",
        "targetRef: g, rules: [{}]",
        "selector: [a], rules: [{}]",
        "selector: { matchLabels: [{ app: a }] }, rules: [{}]",
        "selector: { matchLabels: { app: [a] } }, rules: [{}]",
        "selector: { matchLabels: { app: ~ } }, rules: [{}]",
    ] {
        let error = from_istio(&policy_of_istio(spec), &Options::default()).unwrap_err();
        assert!(error.contains("is expected here"), "{spec}: {error}");
    }
    for resource in [
        "{ kind: AuthorizationPolicy, spec: [{ action: DENY, rules: [{}] }] }",
        "{ kind: AuthorizationPolicy, spec: all }",
        "{ kind: AuthorizationPolicy, metadata: [{ namespace: shop }], spec: { rules: [{}] } }",
    ] {
        let error = from_istio(resource, &Options::default()).unwrap_err();
        assert!(error.contains("a mapping is expected here"), "{resource}: {error}");
    }
    let namespace =
        "{ kind: AuthorizationPolicy, metadata: { namespace: [shop] }, spec: { rules: [{}] } }";
    let error = from_istio(namespace, &Options::default()).unwrap_err();
    assert!(error.contains("a text is expected here"), "{error}");
    let tokens = "kind: RequestAuthentication\nspec: { jwtRules: { issuer: 'https://a' } }\n";
    let error = from_istio(tokens, &Options::default()).unwrap_err();
    assert!(error.contains("a list is expected here"), "{error}");
}

/// Envoy's filter removes them from what clients send. Without it an application would believe a
/// client.
#[test]
fn headers_for_the_application_are_noted_as_what_clients_may_send() {
    let envoy_with = |field: &str| {
        envoy(&format!(
            "http_filters:
  - {{ name: jwt, typed_config: {{ '@type': FILTERS.jwt_authn.v3.JwtAuthentication,
      providers: {{ a: {{ issuer: 'https://a', remote_jwks: {{ http_uri: {{ uri: 'https://a/jwks' }} }}, {field} }} }} }} }}
  - {{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC }} }}
"
        ))
        .unwrap()
    };
    let istio_with = |field: &str| {
        let resource = format!(
            "kind: RequestAuthentication\nspec: {{ jwtRules: [{{ issuer: 'https://a', audiences: [x], {field} }}] }}\n"
        );
        from_istio(&resource, &Options::default()).unwrap()
    };
    for imported in [
        envoy_with("forward_payload_header: x-payload"),
        envoy_with("claim_to_headers: [{ header_name: x-sub, claim_name: sub }]"),
        // Also where no token of the issuer is accepted.
        envoy_with("claim_to_headers: [{ header_name: x-sub, claim_name: sub }], later: true"),
        istio_with("outputPayloadToHeader: x-payload"),
        istio_with("outputClaimToHeaders: [{ header: x-sub, claim: sub }]"),
        istio_with("outputClaimToHeaders: [{ header: x-sub, claim: sub }], later: true"),
    ] {
        let is_noted = |note: &import::Note| {
            note.effect == Effect::Unexpected
                && note.message.contains("remove those that clients send")
        };
        assert!(imported.notes.iter().any(is_noted), "{:?}", imported.notes);
    }
}

#[test]
fn a_filter_that_is_disabled_denies_nothing() {
    let open =
        "rules: { policies: { a: { permissions: [{ any: true }], principals: [{ any: true }] } } }";
    let rbac = |disabled: &str| {
        format!(
            "{{ name: rbac, {disabled} typed_config: {{ '@type': FILTERS.rbac.v3.RBAC, {open} }} }}"
        )
    };
    let composite =
        "{ name: a, disabled: true, typed_config: { '@type': FILTERS.composite.v3.Composite } }"
            .to_owned();
    for filter in [
        rbac("disabled: true,"),
        composite,
        format!("{{ typed_config: {{ {open} }}, disabled: true }}"),
    ] {
        let error = envoy(&format!("http_filters: [{filter}]")).unwrap_err();
        assert!(error.contains("no RBAC filter here is active"), "{filter}: {error}");
        assert!(envoy(&format!("http_filters: [{filter}, {}]", rbac(""))).is_ok());
    }
    // Envoy does not start with a filter that has no type.
    let untyped = "{ typed_config: { rules: { action: DENY } } }";
    let imported = envoy(&format!("http_filters: [{untyped}, {}]", rbac(""))).unwrap();
    assert_allows_nothing(&imported, untyped);
}

/// Who replaces the old filters must not take out one that denies, too.
#[test]
fn a_filter_that_may_deny_is_to_be_kept() {
    let noted = |http: &str, network: &str| {
        let original = format!(
            "filters:
  - {network}
  - name: hcm
    typed_config:
      normalize_path: true
      merge_slashes: true
      upgrade_configs: [{{ filters: [{http}] }}]
      http_filters:
        - {http}
        - {{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC }} }}
"
        );
        let imported = envoy(&original).unwrap();
        imported
            .notes
            .iter()
            .filter(|note| note.message == "this filter is not imported: keep it")
            .count()
    };
    let router = "{ name: r, typed_config: { '@type': FILTERS.router.v3.Router } }";
    let tcp = "{ name: t, typed_config: { '@type': envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy } }";
    assert_eq!(noted(router, tcp), 0);
    let upstream = |inner: &str| {
        format!(
            "{{ name: r, typed_config: {{ '@type': FILTERS.router.v3.Router, upstream_http_filters: [{inner}] }} }}"
        )
    };
    let codec = "{ name: c, typed_config: { '@type': FILTERS.upstream_codec.v3.UpstreamCodec } }";
    assert_eq!(noted(&upstream(codec), tcp), 0);
    assert_eq!(
        noted(&upstream(&format!("{codec}, {{ name: envoy.filters.http.ext_authz }}")), tcp),
        2
    );
    assert_eq!(
        noted("{ name: envoy.filters.http.cors }", "{ name: envoy.filters.network.tcp_proxy }"),
        0
    );
    for http in [
        "{ name: envoy.filters.http.dynamic_modules, typed_config: { '@type': FILTERS.dynamic_modules.v3.DynamicModuleFilter } }",
        "{ name: envoy.filters.http.mcp, typed_config: { '@type': acme.authz.v1.Authz } }",
        "{ name: istio_authn, typed_config: { '@type': istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig } }",
        "{ name: envoy.filters.http.ext_authz }",
        "{ name: envoy.filters.http.fault }",
        "{ name: envoy.filters.http.ratelimit }",
        "{ name: envoy.filters.http.local_ratelimit }",
        "{ name: envoy.filters.http.router, config_discovery: { type_urls: [acme.authz.v1.Authz] } }",
        "{ name: envoy.filters.http.router, typed_config: { '@type': type.googleapis.com/acme.envoy.extensions.filters.http.router.v3.Router } }",
        "{}",
    ] {
        assert_eq!(noted(http, tcp), 2, "{http}");
    }
    for network in [
        "{ name: envoy.filters.network.ext_authz }",
        "{ name: envoy.filters.network.ratelimit }",
        "{ name: envoy.filters.network.local_ratelimit }",
        "{ name: a, typed_config: { '@type': envoy.extensions.filters.network.rbac.v3.RBAC } }",
        "{ name: a, typed_config: { '@type': acme.Firewall } }",
    ] {
        assert_eq!(noted(router, network), 1, "{network}");
    }
}

/// Envoy joins the lists of both spellings of a field, so that one of them alone is not what it
/// does.
#[test]
fn a_field_in_two_spellings_is_an_error() {
    let rbac = "[{ name: rbac, typed_config: { '@type': FILTERS.rbac.v3.RBAC } }]";
    let rules =
        "rules: { policies: { a: { permissions: [{ any: true }], principals: [{ any: true }] } } }";
    for original in [
        format!("http_filters: {rbac}\nhttpFilters: {rbac}"),
        format!(
            "http_filters: {rbac}\nupgrade_configs: []\nupgradeConfigs: [{{ filters: {rbac} }}]"
        ),
        format!(
            "http_filters: {rbac}\nroute_config: [{{ requestHeaders: [], request_headers: [] }}]"
        ),
        format!("{rules}\nshadow_rules: {{}}\nshadowRules: {{}}"),
        format!("typed_config: {{ {rules} }}\ntypedConfig: {{ {rules} }}"),
        "rules: { policies: { policies: { url_path: {}, urlPath: {} } } }".to_owned(),
    ] {
        let error = envoy(&original).unwrap_err();
        assert!(error.contains("this field is here in two spellings"), "{original}: {error}");
    }
    let selector = "selector: { matchLabels: { app: a }, match_labels: {} }, rules: [{}]";
    let error = from_istio(&policy_of_istio(selector), &Options::default()).unwrap_err();
    assert!(error.contains("this field is here in two spellings"), "{error}");
    // Names are no fields, nor is what is in values of any content.
    let open = "{ permissions: [{ any: true }], principals: [{ any: true }] }";
    for original in [
        format!("rules: {{ policies: {{ readAll: {open}, read_all: {open} }} }}"),
        format!(
            "http_filters: {rbac}\nroute_config: {{ typed_per_filter_config: {{ aB: {{}}, a_b: {{}} }} }}"
        ),
        format!(
            "http_filters: {rbac}\nroute_config: {{ metadata: {{ filter_metadata: {{ a: [{{ aB: 1, a_b: 2 }}] }} }} }}"
        ),
        format!(
            "http_filters: {rbac}\nx: {{ '@type': type.googleapis.com/google.protobuf.Struct, value: {{ aB: 1, a_b: 2 }} }}"
        ),
    ] {
        envoy(&original).unwrap();
    }
    let labels = "selector: { matchLabels: { appName: a, app_name: a } }, rules: [{}]";
    assert!(from_istio(&policy_of_istio(labels), &Options::default()).is_ok());
    // Not what has no value.
    assert!(envoy(&format!("http_filters: {rbac}\nhttpFilters: ~")).is_ok());
}
