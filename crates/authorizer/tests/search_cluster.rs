//! Requests to a search cluster.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Outcome, Reason, Request, RequestBody, Scratch, Verdict};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use document::MapFiles;
use identity::FetchedKeys;
use serde_json::{Value, json};

const NOW: Duration = Duration::from_secs(1_800_000_000);

/// `writer`, of whom nothing is verified, may write to `logs-*`, and `local` too from the machine
/// itself.
fn authorizer() -> Authorizer {
    let files = MapFiles::new(
        "policy.yaml",
        "version: 1\nidentity: { basic: { verify: false } }\nsearch: { folder: cluster, hosts: [search.example.com] }\n",
    )
    .and(
        "cluster/roles.yml",
        "_meta: { type: roles, config_version: 2 }\nw:\n  cluster_permissions: [cluster_composite_ops]\n  \
         index_permissions: [{ index_patterns: ['logs-*'], allowed_actions: [crud, create_index, 'indices:admin/mapping/put'] }]\n",
    )
    .and(
        "cluster/roles_mapping.yml",
        "_meta: { type: rolesmapping, config_version: 2 }\nw: { users: [writer], hosts: ['127.0.0.*'] }\n",
    );
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

fn reason(
    method: &str,
    path: &str,
    user: &str,
    client: &str,
    body: RequestBody<'_>,
) -> Option<Reason> {
    reason_with(&[], method, path, user, client, body)
}

fn reason_with(
    more: &[(&str, &str)],
    method: &str,
    path: &str,
    user: &str,
    client: &str,
    body: RequestBody<'_>,
) -> Option<Reason> {
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:x")));
    let headers =
        [("authorization", authorization.as_str()), ("content-type", "application/x-ndjson")];
    let headers: Vec<Header<'_>> = headers
        .iter()
        .chain(more)
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: method.as_bytes(),
        host: b"search.example.com",
        path: path.as_bytes(),
        headers: &headers,
        client: client.as_bytes(),
        body,
        ..Request::default()
    };
    let (authorizer, mut scratch) = (authorizer(), Scratch::default());
    match authorizer.check_inline(&request, &mut scratch, NOW) {
        Verdict::Allowed(_) => None,
        Verdict::Denied(denied) => Some(denied.reason),
    }
}

fn bulk(names: impl Iterator<Item = String>) -> String {
    let mut body = String::new();
    for name in names {
        writeln!(body, "{{\"index\":{{\"_index\":\"{name}\"}}}}\n{{}}").unwrap();
    }
    body
}

#[test]
fn the_last_index_of_a_long_bulk_counts() {
    let of =
        |body: &str| reason("POST", "/_bulk", "writer", "", RequestBody::Whole(body.as_bytes()));
    let many = || (0..3_000).map(|number| format!("logs-{number}"));
    assert_eq!(of(&bulk(many())), None);
    for at in [0, 1_499, 2_999] {
        let names = many()
            .enumerate()
            .map(|(number, name)| if number == at { "secret".into() } else { name });
        assert_eq!(of(&bulk(names)), Some(Reason::NotPermitted), "{at}");
    }
}

#[test]
fn only_a_body_that_does_not_come_is_explained() {
    let text = |body| {
        let authorization = format!("Basic {}", BASE64_STANDARD.encode("writer:x"));
        let headers = [Header { name: b"authorization", value: authorization.as_bytes() }];
        let request = Request {
            method: b"POST",
            host: b"search.example.com",
            path: b"/_bulk",
            headers: &headers,
            body,
            ..Request::default()
        };
        let (authorizer, mut scratch) = (authorizer(), Scratch::default());
        // What the request before left there is not this one's.
        let other = Request { path: b"/secret/_search", ..request };
        assert_eq!(authorizer.check_inline(&other, &mut scratch, NOW).status(), 403);
        let verdict = authorizer.check_inline(&request, &mut scratch, NOW);
        assert!(verdict.needs_body());
        match verdict {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denied) => Some([denied.body.to_owned(), denied.detail.to_owned()]),
        }
    };
    assert_eq!(text(RequestBody::Pending), Some(Default::default()));
    let [body, _] = text(RequestBody::Unavailable).unwrap();
    assert!(body.contains("with_request_body"), "{body}");
}

#[test]
fn a_role_may_be_mapped_to_addresses() {
    let of = |user, client| reason("GET", "/logs-1/_doc/1", user, client, RequestBody::Unavailable);
    assert_eq!(of("writer", "192.0.2.1"), None);
    assert_eq!(of("other", "127.0.0.9"), None);
    for client in ["192.0.2.1", "", "127.0.0", "127.0.0.1.example.com", "127.0.0.1, 192.0.2.1"] {
        assert_eq!(of("other", client), Some(Reason::NotPermitted), "{client}");
    }
}

/// The plugin behind rolegate may see one account for all callers, which may use every tenant.
#[test]
fn a_tenant_or_another_user_in_a_header_is_denied() {
    let of = |header: (&str, &str)| {
        reason_with(&[header], "GET", "/logs-1/_doc/1", "writer", "", RequestBody::Unavailable)
    };
    for name in [
        "securitytenant",
        "SecurityTenant",
        "security_tenant",
        "opendistro_security_impersonate_as",
    ] {
        for value in ["finance", "__user__", "global_tenant", " "] {
            let denied = of((name, value)).unwrap();
            assert_eq!(denied.name(), "unsupported_operation", "{name}: {value}");
        }
        assert_eq!(of((name, "")), None, "{name}");
    }
    assert_eq!(of(("x-securitytenant", "finance")), None);
}

const HEADER: &str = "x-document-security";

/// The header that says what to hide, as an allowed request has it; or why the request is denied.
/// The client sends one, too.
fn hidden(settings: &str, host: &str, path: &str, user: &str) -> Result<Option<String>, Reason> {
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:x")));
    let sent =
        [("authorization", authorization.as_str()), (HEADER, "{}"), ("X_Document.Security", "{}")];
    let headers: Vec<Header<'_>> = sent
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: b"GET",
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        body: RequestBody::Whole(b""),
        ..Request::default()
    };
    let policy = format!(
        "version: 1\nidentity: {{ basic: {{ verify: false }} }}\nroles: {{ anyone: {{ allow: [GET /] }} }}\n\
         search: {{ folder: cluster, hosts: [search.example.com], inventory: {{ file: inventory.json }}{settings} }}\n"
    );
    let long = "x".repeat(6_200);
    let roles = format!(
        "_meta: {{ type: roles, config_version: 2 }}
own: {{ index_permissions: [{{ index_patterns: ['logs-*'], allowed_actions: [read], dls: '{{\"term\":{{\"u\":\"${{user.name}}\"}}}}' }}] }}
fields: {{ index_permissions: [{{ index_patterns: ['logs-2'], allowed_actions: [read], fls: [a, ~b], masked_fields: [m] }}] }}
all: {{ index_permissions: [{{ index_patterns: ['logs-*', public], allowed_actions: [crud] }}] }}
long: {{ index_permissions: [{{ index_patterns: ['public'], allowed_actions: [read], dls: '{{\"term\":{{\"u\":\"{long}\"}}}}' }}] }}
"
    );
    let mapping = "_meta: { type: rolesmapping, config_version: 2 }
own: { users: [ann, both] }\nfields: { users: [both] }\nall: { users: [all, both] }\nlong: { users: [long] }
";
    let names = ["logs-1", "logs-2", "public"]
        .map(|name| format!(r#"{{"name": "{name}", "attributes": ["open"]}}"#));
    let inventory = format!(
        r#"{{"indices": [{}], "aliases": [{{"name": "mine", "indices": ["logs-1"]}}], "data_streams": []}}"#,
        names.join(",")
    );
    let files = MapFiles::new("policy.yaml", policy)
        .and("cluster/roles.yml", roles)
        .and("cluster/roles_mapping.yml", mapping)
        .and("inventory.json", inventory);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let authorizer = Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
    let mut scratch = Scratch::default();
    match authorizer.check_inline(&request, &mut scratch, NOW) {
        Verdict::Allowed(allowed) => {
            let set =
                allowed.set().find(|(name, _)| *name == HEADER).map(|(_, value)| value.to_owned());
            let removed: Vec<&str> = allowed.remove().collect();
            let is_named = settings.to_lowercase().contains(HEADER);
            assert_eq!(removed.contains(&HEADER), set.is_none() && is_named, "{removed:?}");
            assert_eq!(removed.contains(&"X_Document.Security"), is_named, "{removed:?}");
            Ok(set)
        }
        Verdict::Denied(denied) => Err(denied.reason),
    }
}

#[test]
fn what_roles_hide_is_handed_over_or_the_request_is_denied() {
    let header = ", document_security: { header: X-Document-Security }";
    let of = |path: &str, user: &str| hidden(header, "search.example.com", path, user);
    let logs_1 = r#"{"logs-1":{"dls":["{\"term\":{\"u\":\"ann\"}}"]}}"#;
    let both =
        r#"{"logs-2":{"dls":["{\"term\":{\"u\":\"both\"}}"],"fls":["~b"],"masked_fields":["m"]}}"#;
    assert_eq!(of("/logs-1/_search", "ann"), Ok(Some(logs_1.to_owned())));
    assert_eq!(of("/mine/_search", "ann"), Ok(Some(logs_1.to_owned())));
    assert_eq!(of("/logs-2/_search", "both"), Ok(Some(both.to_owned())));
    assert_eq!(of("/public/_search", "both"), Ok(None));
    assert_eq!(of("/logs-*/_search", "all"), Ok(None));
    assert_eq!(of("/public/_search", "long"), Err(Reason::DocumentSecurityTooLong));
    // A pattern that stays as it is may stand for what was made since.
    assert_eq!(of("/_cat/count/public", "both"), Ok(None));
    assert_eq!(of("/_cat/count/pub*", "both"), Err(Reason::NotPermitted));
    assert_eq!(of("/pub*/_count", "both"), Ok(None));
    // What cannot be filtered, or is not permitted, is denied.
    assert_eq!(of("/public/_search", "ann"), Err(Reason::NotPermitted));
    let reducing = format!("{header}, do_not_fail_on_forbidden: true");
    let reduced = hidden(&reducing, "search.example.com", "/logs-1,public/_search", "ann");
    assert_eq!(reduced, Ok(Some(logs_1.to_owned())));
    // By the rules of the policy.
    assert_eq!(hidden(header, "other.example.com", "/", "ann"), Ok(None));
    for settings in ["", ", document_security: deny"] {
        let denied = hidden(settings, "search.example.com", "/logs-1/_search", "ann");
        assert_eq!(denied, Err(Reason::NotPermitted));
        assert_eq!(hidden(settings, "other.example.com", "/", "ann"), Ok(None));
    }
}

#[test]
fn a_role_that_shows_all_prevails_only_where_the_policy_says_so() {
    let of = |settings: &str, path: &str| hidden(settings, "search.example.com", path, "both");
    assert_eq!(of("", "/logs-2/_search"), Err(Reason::NotPermitted));
    assert_eq!(
        of(", dfm_empty_overrides_all: false", "/logs-2/_search"),
        Err(Reason::NotPermitted)
    );
    for path in ["/logs-2/_search", "/logs-*/_search", "/mine/_search", "/_search"] {
        assert_eq!(of(", dfm_empty_overrides_all: true", path), Ok(None), "{path}");
    }
    let ann =
        hidden(", dfm_empty_overrides_all: true", "search.example.com", "/logs-1/_search", "ann");
    assert_eq!(ann, Err(Reason::NotPermitted));
}

/// The path with which a permitted request is forwarded: to a cluster with an index of which the
/// inventory may not know.
fn forwarded(authorizer: &Authorizer, path: &str) -> Option<String> {
    let authorization = format!("Basic {}", BASE64_STANDARD.encode("ann:x"));
    let headers = [Header { name: b"authorization", value: authorization.as_bytes() }];
    let request = Request {
        method: b"GET",
        host: b"search.example.com",
        path: path.as_bytes(),
        headers: &headers,
        body: RequestBody::Whole(b""),
        ..Request::default()
    };
    match authorizer.check_inline(&request, &mut Scratch::default(), NOW) {
        Verdict::Allowed(allowed) => {
            let set =
                allowed.set().find(|(name, _)| *name == ":path").map(|(_, value)| value.to_owned());
            Some(set.unwrap_or_else(|| path.to_owned()))
        }
        Verdict::Denied(_) => None,
    }
}

#[test]
fn an_index_that_was_created_since_is_not_reached_by_a_pattern() {
    let policy = "version: 1\nidentity: { basic: { verify: false } }\n\
                  search: { folder: cluster, inventory: { file: inventory.json } }\n";
    let roles = "_meta: { type: roles, config_version: 2 }
a: { index_permissions: [{ index_patterns: ['logs-a-*', 'logs-b-*', 'own-*'], allowed_actions: [read] }] }
";
    let compiled = |names: &[&str]| {
        let indices: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{{"name": "{name}", "attributes": ["open"]}}"#))
            .collect();
        let inventory =
            format!(r#"{{"indices": [{}], "aliases": [], "data_streams": []}}"#, indices.join(","));
        let files = MapFiles::new("policy.yaml", policy)
            .and("cluster/roles.yml", roles)
            .and(
                "cluster/roles_mapping.yml",
                "_meta: { type: rolesmapping, config_version: 2 }\na: { users: [ann] }\n",
            )
            .and("inventory.json", inventory);
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
    };
    let before = compiled(&["logs-a-1", "logs-b-1", "own-1"]);
    let of = |path: &str| forwarded(&before, path).unwrap();
    // Of a cluster that has `logs-c-1` meanwhile, this path does not name it.
    assert_eq!(of("/logs-*/_search?q=a"), "/logs-a-1,logs-b-1/_search?q=a&ignore_unavailable=true");
    assert_eq!(of("/logs-a-*/_search"), "/logs-a-*/_search");
    assert_eq!(of("/logs-a-1/_search"), "/logs-a-1/_search");
    let after = compiled(&["logs-a-1", "logs-b-1", "logs-c-1", "own-1"]);
    assert_eq!(forwarded(&after, "/logs-*/_search"), None);
}

#[test]
fn a_body_that_was_not_sent_is_asked_for() {
    let of = |body| reason("POST", "/_bulk", "writer", "", body);
    assert_eq!(of(RequestBody::Unavailable), Some(Reason::Cluster(search::Problem::BodyNeeded)));
    let empty = of(RequestBody::Whole(b""));
    assert!(matches!(empty, Some(Reason::Cluster(search::Problem::Invalid(_)))), "{empty:?}");
}

/// The key of an issuer, which signs with HMAC.
const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// A token with these groups.
fn token(groups: &Value) -> String {
    let encoded = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let exp = NOW.as_secs() + 60;
    let claims = json!({ "iss": "https://id.example.com", "aud": "a", "sub": "ann", "exp": exp, "groups": groups });
    let signed = format!("{}.{}", encoded(json!({ "alg": "HS256", "kid": "k" })), encoded(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, KEY), signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// Split at spaces, a group that is named `billing admins` would have the roles of `admins`.
#[test]
fn a_claim_of_backend_roles_that_is_text_is_split_at_commas_as_the_plugin_does() {
    let keys = json!({ "keys": [{ "kty": "oct", "kid": "k", "alg": "HS256", "k": BASE64_URL_SAFE_NO_PAD.encode(KEY) }] });
    let files = MapFiles::new(
        "policy.yaml",
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example.com\n      audiences: [a]\n      \
         keys: { file: keys.json }\n      claims: { user: sub, groups: groups }\n\
         search: { folder: cluster, hosts: [search.example.com] }\n\
         roles: { admin: { allow: [GET /logs/_doc/1] } }\ngrants: { admin: { groups: [admins] } }\n",
    )
    .and("keys.json", keys.to_string())
    .and(
        "cluster/roles.yml",
        "_meta: { type: roles, config_version: 2 }\n\
         admin: { index_permissions: [{ index_patterns: [logs], allowed_actions: [read] }] }\n",
    )
    .and(
        "cluster/roles_mapping.yml",
        "_meta: { type: rolesmapping, config_version: 2 }\nadmin: { backend_roles: [admins] }\n",
    );
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let authorizer = Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
    let status = |host: &str, groups: &Value| {
        let authorization = format!("Bearer {}", token(groups));
        let headers = [Header { name: b"authorization", value: authorization.as_bytes() }];
        let (host, headers) = (host.as_bytes(), &headers[..]);
        let request =
            Request { method: b"GET", host, path: b"/logs/_doc/1", headers, ..Request::default() };
        authorizer.check_inline(&request, &mut Scratch::default(), NOW).status()
    };
    for (groups, on_cluster, by_rules) in [
        (json!("admins"), 200, 200),
        (json!("billing admins"), 403, 200),
        (json!("billing,admins"), 200, 403),
        (json!("billing , admins"), 200, 200),
        (json!(["billing", "admins"]), 200, 200),
        (json!(["billing admins", "billing,admins"]), 403, 403),
        (json!(""), 403, 403),
    ] {
        assert_eq!(status("search.example.com", &groups), on_cluster, "{groups}");
        assert_eq!(status("other.example.com", &groups), by_rules, "{groups}");
    }
}

/// `wonderland`.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu";
const OTHER_HASH: &str = "$2y$05$abcdefghijklmnopqrstuuA0vov2GDneHB3.8.cv9UF9g.RdvScIW";

/// The policy's user `ann` has the role `staff`, which alone may get `/staff`; on the cluster she
/// has what her name is mapped to. Its own users, if there are any, are those of `users`.
fn of_two_hosts(search: bool, users: &str, previous: Option<&Authorizer>) -> Authorizer {
    let section =
        if search { "search: { folder: cluster, hosts: [search.example.com] }" } else { "" };
    let policy = format!(
        "version: 1\nidentity: {{ basic: {{ users: {{ ann: {{ password: '{HASH}' }} }} }} }}\n\
         roles: {{ staff: {{ allow: [\"GET /staff\"] }} }}\ngrants: {{ staff: {{ users: [ann] }} }}\n{section}\n"
    );
    let mut files = MapFiles::new("policy.yaml", policy);
    if search {
        files = files
            .and(
                "cluster/roles.yml",
                "_meta: { type: roles, config_version: 2 }\nr: { index_permissions: [{ index_patterns: [logs], allowed_actions: [read] }] }\n",
            )
            .and("cluster/roles_mapping.yml", "_meta: { type: rolesmapping, config_version: 2 }\nr: { users: [ann] }\n");
    }
    if !users.is_empty() {
        files = files.and("cluster/internal_users.yml", users);
    }
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), previous).unwrap().0
}

/// What becomes of a request by `ann` to the policy's own application, and of one to the cluster:
/// whether it is allowed, or `None` if her password must be verified first.
fn of_ann(authorizer: &Authorizer, password: &str) -> [Option<bool>; 2] {
    [("app.example.com", "/staff"), ("search.example.com", "/logs/_doc/1")].map(|(host, path)| {
        let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("ann:{password}")));
        let headers = [Header { name: b"authorization", value: authorization.as_bytes() }];
        let request = Request {
            method: b"GET",
            host: host.as_bytes(),
            path: path.as_bytes(),
            headers: &headers,
            ..Request::default()
        };
        match authorizer.check(&request, None, &mut Scratch::default(), NOW) {
            Outcome::Decided(verdict) => Some(matches!(verdict, Verdict::Allowed(_))),
            Outcome::Pending(verification) => {
                if password == "wonderland" && host == "app.example.com" {
                    authorizer.cache_result(&verification.run(), NOW);
                }
                None
            }
        }
    })
}

#[test]
fn a_password_is_verified_once_for_the_policy_and_the_cluster() {
    let first = of_two_hosts(true, "", None);
    assert_eq!(of_ann(&first, "wonderland"), [None, Some(true)], "cached for both by the first");
    assert_eq!(of_ann(&first, "wonderland"), [Some(true), Some(true)]);
    assert_eq!(of_ann(&first, "x"), [None, None], "another password");
    // The same after each change of the policy, also where it gets a cluster.
    let second = of_two_hosts(true, "", Some(&first));
    assert_eq!(of_ann(&second, "wonderland"), [Some(true), Some(true)], "carried over");
    let without = of_two_hosts(false, "", Some(&second));
    let mut third = of_two_hosts(true, "", None);
    third.carry_over(&without);
    assert_eq!(of_ann(&third, "wonderland"), [Some(true), None], "carried over where it was known");
    let fourth = of_two_hosts(true, "", Some(&of_two_hosts(false, "", None)));
    assert_eq!(of_ann(&fourth, "wonderland"), [None, Some(true)]);
}

/// The cluster may have a user of the same name with another password.
#[test]
fn a_password_of_the_policy_is_none_of_a_user_of_the_cluster() {
    let users = |name: &str, hash: &str| {
        format!(
            "_meta: {{ type: internalusers, config_version: 2 }}\n{name}: {{ hash: '{hash}' }}\n"
        )
    };
    for (name, hash) in [("ann", OTHER_HASH), ("bob", HASH)] {
        let authorizer = of_two_hosts(true, &users(name, hash), None);
        assert_eq!(of_ann(&authorizer, "wonderland"), [None, None], "{name}");
        assert_eq!(of_ann(&authorizer, "wonderland"), [Some(true), None], "{name}");
    }
}
