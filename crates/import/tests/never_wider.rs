//! An import is never wider than its original without an error or a note that says so: lists that are written as one element,
//! and values that are not what is expected.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::{Path, PathBuf};

use import::{Effect, Imported, Options, envoy_rbac, istio};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";

fn envoy(original: &str) -> Result<Imported, String> {
    let original = original.replace("FILTERS", FILTERS);
    let options = Options { audiences: vec!["api".to_owned()], ..Options::default() };
    envoy_rbac(Path::new("in"), original.as_bytes(), &options).map_err(|problems| format!("{problems:?}"))
}

fn from_istio(original: &str, options: &Options) -> Result<Imported, String> {
    let files = [(PathBuf::from("in"), original.as_bytes().to_vec())];
    istio(&files, options).map_err(|problems| format!("{problems:?}"))
}

/// Envoy reads its configuration with a parser of protocol buffers that takes one element for a list of it.
#[test]
fn one_element_is_a_list_of_it() {
    let rbac = |rules: &str| {
        format!("{{ name: rbac, typed_config: {{ '@type': FILTERS.rbac.v3.RBAC, rules: {rules} }} }}")
    };
    let open = rbac("{ policies: { a: { permissions: [{ any: true }], principals: [{ any: true }] } } }");
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
        of_rules("ALLOW", &format!("<{{ and_rules: {{ rules: <{status}> }} }}>"), "<{ any: true }>"),
        of_rules("DENY", &format!("<{{ or_rules: {{ rules: <{status}> }} }}>"), "<{ any: true }>"),
        of_rules("ALLOW", "[{ any: true }]", "<{ not_id: { or_ids: { ids: <{ source_ip: {} }> } } }>"),
        of_rules("ALLOW", "[{ any: true }]", "<{ and_ids: { ids: <{ source_ip: {} }> } }>"),
        format!("http_filters: <{open}>"),
        format!("http_filters: [{open}]\nupgrade_configs: <{{ filters: <{open}> }}>"),
        format!("http_filters: [{open}, {{ config_discovery: {{ type_urls: <FILTERS.rbac.v3.RBAC> }} }}]"),
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
            let mut notes: Vec<_> =
                notes.map(|note| (note.path.replace("[0]", ""), note.message, note.effect)).collect();
            notes.sort();
            (imported.policy, notes)
        };
        let list = read(&template.replace('<', "[").replace('>', "]"));
        assert_eq!(read(&template.replace(['<', '>'], "")), list, "{template}");
    }
}
