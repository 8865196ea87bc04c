//! Originals with the policies and the notes that they become: `cases/*.txt`. Each case is a line
//! `=== name`, with the options that are set in brackets, then the original, then after `---
//! policy` the policy and after `--- notes` the notes.

#![expect(clippy::disallowed_methods, reason = "the cases are files")]

use std::path::{Path, PathBuf};

use import::{Imported, Options, envoy_rbac, istio};

#[test]
fn originals_become_these_policies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut wrong) = (0, String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (_, cases) = text.split_once("=== ").unwrap();
        for case in cases.split("\n=== ") {
            count += 1;
            let (name, case) = case.split_once('\n').unwrap();
            let (original, expected) = case.split_once("--- policy").unwrap();
            let found = shown(&imported(name, original));
            if found.trim() != expected.trim() {
                wrong += &format!("=== {name}\n{original}--- policy\n{found}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 20);
}

fn imported(name: &str, original: &str) -> Result<Imported, String> {
    let has = |option: &str| name.contains(&format!("[{option}]"));
    let options = Options {
        allow_wider: has("allow-wider"),
        audiences: if has("audience") { vec!["api".to_owned()] } else { Vec::new() },
        listener: has("listener").then(|| "public".to_owned()),
        namespace: (has("workload") || has("namespace")).then(|| "shop".to_owned()),
        root_namespace: if has("root") { "infra" } else { "istio-system" }.to_owned(),
        labels: if has("workload") || has("label") {
            vec![("app".to_owned(), "b".to_owned())]
        } else {
            Vec::new()
        },
    };
    let bytes = original.as_bytes();
    let result = if has("istio") {
        istio(&[(PathBuf::from("in"), bytes.to_vec())], &options)
    } else {
        envoy_rbac(Path::new("in"), bytes, &options)
    };
    result
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn shown(imported: &Result<Imported, String>) -> String {
    match imported {
        Err(error) => error.clone(),
        Ok(imported) => {
            let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            let files: String = imported
                .key_sets
                .iter()
                .map(|(name, text)| format!("file {name}: {text}\n"))
                .collect();
            format!("{}{files}--- notes\n{notes}", imported.policy)
        }
    }
}

/// Envoy reads `yes` as `true`. Read as `false`, an inverted condition would allow what it is to
/// deny.
#[test]
fn booleans_are_read_as_envoy_reads_them() {
    let with = |value: &str| {
        let original = format!(
            "http_filters:
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        policies:
          one:
            permissions:
              - and_rules:
                  rules:
                    - url_path: {{ path: {{ exact: /a }} }}
                    - header: {{ name: ':method', string_match: {{ exact: GET }}, invert_match: {value} }}
            principals: [{{ any: true }}]
"
        );
        imported("", &original).map(|imported| imported.policy)
    };
    let inverted = with("true");
    for value in ["yes", "on", "Y", "True"] {
        assert_eq!(with(value), inverted, "{value}");
    }
    assert!(with("false").unwrap().contains("GET /a"));
    assert_ne!(with("no"), inverted);
}

#[test]
fn the_case_of_a_route_is_read_as_envoy_reads_it() {
    let with = |value: &str| {
        let original = format!(
            "http_filters:
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules: {{ policies: {{ all: {{ permissions: [{{ any: true }}], principals: [{{ any: true }}] }} }} }}
route_config:
  virtual_hosts:
    - routes:
        - match: {{ prefix: /admin, case_sensitive: {value} }}
          typed_per_filter_config: {{ rbac: {{}} }}
"
        );
        imported("", &original).unwrap().policy
    };
    let ignored = with("false");
    for value in ["no", "off", "N", "False"] {
        assert_eq!(with(value), ignored, "{value}");
    }
    assert_ne!(with("true"), ignored);
    assert_eq!(with("yes"), with("true"));
}

#[test]
fn a_path_without_letters_has_no_case_to_ignore() {
    for prefix in ["", "/", "/1/", "/1.2"] {
        let [ignored, not_ignored] = [("true", "false"), ("false", "true")].map(
            |(ignore_case, case_sensitive)| {
                let original = format!(
                    "http_filters:
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        policies:
          one:
            permissions: [{{ url_path: {{ path: {{ prefix: '{prefix}', ignore_case: {ignore_case} }} }} }}]
            principals: [{{ any: true }}]
route_config:
  virtual_hosts:
    - routes:
        - match: {{ prefix: '{prefix}', case_sensitive: {case_sensitive} }}
          typed_per_filter_config: {{ rbac: {{}} }}
"
                );
                imported("", &original).unwrap()
            },
        );
        assert_eq!(ignored.policy, not_ignored.policy, "{prefix}");
        assert_eq!(ignored.notes, not_ignored.notes, "{prefix}");
    }
}

/// Istio reads the annotation with `strconv.ParseBool` of Go, and takes what that does not know for
/// false.
#[test]
fn a_dry_run_is_what_istio_reads_as_one() {
    let with = |value: &str| {
        let original = format!(
            "kind: AuthorizationPolicy
metadata: {{ name: tried, annotations: {{ istio.io/dry-run: '{value}' }} }}
spec: {{ action: DENY, rules: [{{}}] }}
"
        );
        imported("[istio]", &original).unwrap().policy.contains("deny:")
    };
    for value in ["true", "True", "TRUE", "t", "T", "1"] {
        assert!(!with(value), "{value}");
    }
    for value in ["false", "0", "yes", "on", "tRUE", ""] {
        assert!(with(value), "{value}");
    }
}

/// rolegate accepts user names with spaces: a condition on one of them is not one that never holds.
#[test]
fn a_user_name_may_have_a_space() {
    let with = |action: &str, field: &str, user: &str| {
        let original = format!(
            "kind: RequestAuthentication
metadata: {{ name: tokens }}
spec: {{ jwtRules: [{{ issuer: 'https://id.example.com' }}] }}
---
kind: AuthorizationPolicy
metadata: {{ name: one }}
spec:
  action: {action}
  rules: [{{ from: [{{ source: {{ {field}: ['https://id.example.com/{user}'] }} }}] }}]
"
        );
        imported("[istio] [audience]", &original).unwrap()
    };
    for (action, field) in [
        ("DENY", "requestPrincipals"),
        ("ALLOW", "notRequestPrincipals"),
        ("ALLOW", "requestPrincipals"),
    ] {
        let imported = with(action, field, "Alice Smith");
        assert!(imported.policy.contains(r#"users: ["Alice Smith"]"#), "{}", imported.policy);
        assert!(!imported.is_stricter(), "{:?}", imported.notes);
    }
    // Tokens give this name, but a grant cannot have it.
    assert!(with("DENY", "requestPrincipals", " ").is_stricter());
}

#[test]
fn a_user_in_any_case_is_not_one_user() {
    let with = |more: &str| {
        let original = format!(
            "http_filters:
  - name: basic
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
      users: {{ inline_string: 'bob:{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=' }}
      forward_username_header: x-user
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        action: DENY
        policies:
          one:
            permissions: [{{ any: true }}]
            principals: [{{ header: {{ name: x-user, string_match: {{ exact: bob{more} }} }} }}]
"
        );
        imported("", &original).unwrap()
    };
    assert!(!with("").is_stricter());
    let imported = with(", ignore_case: true");
    let is_named = |note: &import::Note| {
        note.message == "a grant names users exactly, not by a pattern: more is denied"
    };
    assert!(imported.notes.iter().any(is_named), "{:?}", imported.notes);
}

/// With one file, each of two issuers could sign the tokens of the other.
#[test]
fn each_key_set_has_a_file_of_its_own() {
    let keys = r#"{"keys":[{"kty":"oct","alg":"HS256","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;
    let original = format!(
        "http_filters:
  - name: jwt
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
      providers:
        id.a: {{ issuer: 'https://a.example.com', local_jwks: {{ inline_string: '{keys}' }} }}
        id-a: {{ issuer: 'https://b.example.com', local_jwks: {{ inline_string: '{keys}' }} }}
        c: {{ issuer: 'https://c.example.com', local_jwks: {{ filename: id-a.jwks.json }} }}
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules: {{ policies: {{ all: {{ permissions: [{{ any: true }}], principals: [{{ any: true }}] }} }} }}
"
    );
    let imported = imported("[audience]", &original).unwrap();
    let names: Vec<&str> = imported.key_sets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["id-a-2.jwks.json", "id-a-3.jwks.json"]);
    for name in names.iter().chain(&["id-a.jwks.json"]) {
        assert_eq!(
            imported.policy.matches(&format!("{{ file: \"{name}\" }}")).count(),
            1,
            "{name}"
        );
    }
}

/// With one prefix that begins with another, or the same for two sources, a user of one could have
/// the name of a user of the other.
#[test]
fn no_prefix_begins_with_another() {
    let original = "kind: RequestAuthentication
metadata: { name: tokens }
spec: { jwtRules: [{ issuer: 'https://id.test' }, { issuer: 'https://id.test:8443' }] }
---
kind: AuthorizationPolicy
metadata: { name: one }
spec: { rules: [{ from: [{ source: { requestPrincipals: ['https://id.test:8443/ann'] } }] }] }
";
    let policy = imported("[istio] [audience]", original).unwrap().policy;
    assert!(policy.contains(r#"user_prefix: "id.test:""#), "{policy}");
    assert!(policy.contains(r#"users: ["2-id.test:8443:ann"]"#), "{policy}");
    // A provider may be called like the users of Basic.
    let original = "http_filters:
  - name: basic
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
      users: { inline_string: 'bob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=' }
      forward_username_header: x-user
  - name: jwt
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
      providers:
        basic: { issuer: 'https://a.example.com', remote_jwks: { http_uri: { uri: 'https://a.example.com/jwks' } } }
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules: { policies: { all: { permissions: [{ any: true }], principals: [{ any: true }] } } }
";
    let imported = imported("[audience]", original).unwrap();
    for prefix in ["basic:", "2-basic:"] {
        assert!(
            imported.policy.contains(&format!("user_prefix: \"{prefix}\"")),
            "{}",
            imported.policy
        );
    }
    let is_named = |note: &import::Note| note.message.ends_with("names with the prefix `basic:`");
    assert!(imported.notes.iter().any(is_named), "{:?}", imported.notes);
}

/// Envoy starts with none of these but the one where text follows `**`. What they would match is
/// not known, so all is denied.
#[test]
fn what_a_template_that_is_not_known_would_match_is_denied() {
    for template in [
        "/a/**/b",
        "/a/**.json",
        "/a/x*",
        "/a/x*/b",
        "/a/x{b}/c",
        "/a/{b}{c}/d",
        "/a/{b",
        "/a/{b=c/*",
        "/a/b}",
        "/a/{b=}",
        "/a/{b=c/}",
        "/a/{b=/c}",
        "/a/{b=*c}",
        "/a/{b={c}}",
        "/a/{}",
        "/a/{=*}",
        "/a/***",
        "/a/*.json/b",
        "/a/*%41",
        "/a//b",
        "/a/./b",
        "a/*",
        "",
    ] {
        let original = format!(
            "rules:
  action: DENY
  policies:
    a:
      permissions: [{{ uri_template: {{ typed_config: {{ path_template: '{template}' }} }} }}]
      principals: [{{ any: true }}]
"
        );
        let imported = imported("", &original).unwrap();
        let (_, deny) = imported.policy.split_once("deny:").unwrap_or_default();
        assert!(
            imported.is_stricter() && deny.contains("* /**"),
            "{template}: {}",
            imported.policy
        );
    }
}

#[test]
fn policies_for_targets_that_differ_are_for_different_workloads() {
    let with = |other: &str| {
        let policy = |targets: &str| {
            format!(
                "kind: AuthorizationPolicy
metadata: {{ name: one, namespace: shop }}
spec: {{ targetRefs: [{targets}], rules: [{{ to: [{{ operation: {{ paths: ['/a'] }} }}] }}] }}
"
            )
        };
        let gateway = "{ group: gateway.networking.k8s.io, kind: Gateway, name: orders }";
        imported("[istio]", &format!("{}---\n{}", policy(gateway), policy(other)))
    };
    for same in [
        "{ group: gateway.networking.k8s.io, kind: Gateway, name: orders }",
        "{ group: gateway.networking.k8s.io, kind: Gateway, name: orders, namespace: shop }",
    ] {
        assert!(with(same).is_ok(), "{same}");
    }
    for other in [
        "{ kind: Service, name: orders }",
        "{ group: gateway.networking.k8s.io, kind: GatewayClass, name: orders }",
        "{ group: networking.istio.io, kind: Gateway, name: orders }",
        "{ group: gateway.networking.k8s.io, kind: Gateway, name: other }",
        "{ group: gateway.networking.k8s.io, kind: Gateway, name: orders, namespace: other }",
        "",
    ] {
        let error = with(other).unwrap_err();
        assert!(
            error.contains("this is for other workloads than the resources before"),
            "{other}: {error}"
        );
    }
}

/// A denial that was left out would allow more.
#[test]
fn a_denial_is_for_the_workload_unless_it_says_otherwise() {
    let with = |options: &str, metadata: &str, selector: &str| {
        let original = format!(
            "kind: AuthorizationPolicy
metadata: {{ name: reads, namespace: shop }}
spec: {{ action: ALLOW, rules: [{{ to: [{{ operation: {{ methods: [GET] }} }}] }}] }}
---
kind: AuthorizationPolicy
metadata: {{ {metadata} }}
spec: {{ action: DENY, {selector} rules: [{{ to: [{{ operation: {{ paths: ['/admin*'] }} }}] }}] }}
"
        );
        imported(&format!("[istio] {options}"), &original)
    };
    let denied = |imported: Result<Imported, String>| imported.unwrap().policy.contains("/admin");
    let (here, other) = ("name: no-admin, namespace: shop", "name: no-admin, namespace: other");
    assert!(denied(with("", here, "")));
    assert!(denied(with("[namespace]", here, "")));
    assert!(!denied(with("[namespace]", other, "")));
    // Only one selector is there, so no label need be given.
    let selector = "selector: { matchLabels: { app: b } },";
    assert!(denied(with("[namespace]", here, selector)));
    assert!(denied(with("[workload]", here, selector)));
    assert!(!denied(with("[workload]", here, "selector: { matchLabels: { app: c } },")));
    for options in ["[namespace]", "[workload]"] {
        let error = with(options, "name: no-admin", "").unwrap_err();
        assert!(error.contains("has no namespace") && error.contains("in:5:1"), "{error}");
    }
}

/// rolegate answers 401 to a token without a subject.
#[test]
fn any_subject_is_any_caller_with_a_token() {
    let with = |other: &str| {
        let claim = |name: &str, value: &str| {
            format!(
                "{{ metadata: {{ filter: envoy.filters.http.jwt_authn, path: [{{ key: pl }}, {{ key: {name} }}], \
                 value: {{ string_match: {value} }} }} }}"
            )
        };
        let policy = |path: &str, principal: &str| {
            format!(
                "{{ permissions: [{{ url_path: {{ path: {{ exact: {path} }} }} }}], principals: [{principal}] }}"
            )
        };
        let any = claim("sub", "{ safe_regex: { regex: '.*' } }");
        let (first, second) = (policy("/bob", &claim(other, "{ exact: bob }")), policy("/h", &any));
        let original = format!(
            "filter_chains: [{{ filters: [{{ name: hcm, typed_config: {{ normalize_path: true, http_filters: [
  {{ name: a, typed_config: {{ '@type': type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication,
    providers: {{ p: {{ issuer: 'https://id', audiences: [a], payload_in_metadata: pl, remote_jwks: {{ http_uri: {{ uri: 'https://id/jwks' }} }} }} }},
    rules: [{{ match: {{ prefix: / }}, requires: {{ provider_name: p }} }}] }} }},
  {{ name: b, typed_config: {{ '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC,
    rules: {{ action: ALLOW, policies: {{ bob: {first}, humans: {second} }} }} }} }} ] }} }}] }}]
"
        );
        imported("", &original).unwrap()
    };
    for other in ["sub", "email"] {
        let imported = with(other);
        assert!(
            imported.policy.contains("\"* /h\"") && !imported.is_stricter(),
            "{}",
            imported.policy
        );
    }
    assert!(with("email").policy.contains("claims.email == 'bob'"), "{}", with("email").policy);
}

/// A selector with more than labels is for fewer workloads, and not for all.
#[test]
fn a_selector_that_is_not_known_allows_nothing() {
    let with = |resource: &str| {
        let original = format!(
            "kind: RequestAuthentication
metadata: {{ name: tokens, namespace: shop }}
spec: {{ jwtRules: [{{ issuer: 'https://id.example.com' }}]{resource} }}
---
kind: AuthorizationPolicy
metadata: {{ name: one, namespace: shop }}
spec: {{ selector: {{ matchExpressions: [{{ key: app, operator: Exists }}] }}, rules: [{{}}] }}
---
kind: AuthorizationPolicy
metadata: {{ name: two, namespace: shop }}
spec: {{ rules: [{{ from: [{{ source: {{ requestPrincipals: ['*'] }} }}] }}] }}
"
        );
        imported("[istio] [audience]", &original).unwrap()
    };
    let imported = with("");
    assert!(!imported.policy.contains("anyone"), "{}", imported.policy);
    assert!(imported.policy.contains("authenticated"), "{}", imported.policy);
    for unknown in [", selector: { matchExpressions: [] }", ", later: 1"] {
        let imported = with(unknown);
        assert!(!imported.policy.contains("jwt"), "{}", imported.policy);
        assert!(imported.is_stricter());
    }
}

/// A policy has no condition that is larger. What does not fit into one is in several rules, or is
/// allowed to nobody.
#[test]
fn conditions_are_as_large_as_a_policy_can_have_them() {
    let with = |action: &str, set: &str, count: usize| {
        let headers: String = (0..count)
            .map(|number| {
                format!("{{ header: {{ name: x-{number}, string_match: {{ exact: a }} }} }}, ")
            })
            .collect();
        let original = format!(
            "rules: {{ action: {action}, policies: {{ a: {{ permissions: [{{ any: true }}],
  principals: [{{ {set}: {{ ids: [{headers}] }} }}] }} }} }}
"
        );
        imported("", &original).unwrap()
    };
    for action in ["ALLOW", "DENY"] {
        assert!(!with(action, "and_ids", 32).is_stricter());
        assert!(with(action, "and_ids", 33).is_stricter());
        let either = with(action, "or_ids", 80);
        let rules = either.policy.matches("x-79").count();
        assert!(!either.is_stricter() && rules >= 2, "{}", either.policy);
    }
    assert!(!with("ALLOW", "and_ids", 33).policy.contains("allow:"));
    let policy = with("DENY", "and_ids", 33).policy;
    assert!(policy.contains("deny:"), "{policy}");
}
