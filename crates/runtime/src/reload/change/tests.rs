//! What changed between two policies.

use std::path::Path;

use super::*;

fn changes(before: &Policy, after: &Policy) -> String {
    Change::between(before, after).to_string()
}

#[test]
fn users_and_grants_are_compared() {
    let load = |users: &str, grants: &str| {
        let text = format!(
            "version: 1\nidentity: {{ basic: {{ users_file: htpasswd }} }}\nroles: {{ r: {{ allow: [GET /a] }} }}\n\
             grants: {{ r: {{ users: [{grants}], groups: [x] }} }}\n"
        );
        let files = document::MapFiles::new("policy.yaml", text).and("htpasswd", users);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let before = load("a:$6$x$y\nb:$6$x$y\n", "a, b");
    assert_eq!(changes(&before, &before), "");
    assert_eq!(
        changes(&before, &load("a:$6$x$y\nc:$6$x$y\nd:$6$x$y\n", "a, b")),
        "users_added=2 users_removed=1"
    );
    assert_eq!(changes(&before, &load("a:$6$x$z\nb:$6$x$y\n", "a, b")), "users_changed=1");
    assert_eq!(
        changes(&before, &load("a:$6$x$y\nb:$6$x$y\n", "c")),
        "grants_added=1 grants_removed=2"
    );
}

#[test]
fn roles_rules_and_issuers_are_compared_wherever_they_are_in_the_file() {
    let load = |text: &str| {
        let text = format!("version: 1\n{text}");
        let files = document::MapFiles::new("policy.yaml", text);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let issuer = "identity: { jwt: [{ issuer: https://a.example, audiences: [a], keys: { url: https://a.example/k } }] }\n";
    let before = load("roles: { r: { allow: [GET /a, GET /b] }, s: { deny: [GET /c] } }\n");
    let moved =
        load("# moved\n\nroles:\n  s: { deny: [GET /c] }\n  r: { allow: [GET /b, GET /a] }\n");
    assert_eq!(changes(&before, &moved), "");
    let after = load(&format!(
        "{issuer}roles: {{ r: {{ allow: [GET /a, GET /c] }}, t: {{ extends: [r] }} }}\n"
    ));
    assert_eq!(
        changes(&before, &after),
        "issuers_added=1 roles_added=1 roles_removed=1 rules_added=1 rules_removed=2"
    );
    let again = load(&format!(
        "{}roles: {{ r: {{ allow: [GET /a, GET /c] }}, t: {{}} }}\n",
        issuer.replace("audiences: [a]", "audiences: [b]")
    ));
    assert_eq!(changes(&after, &again), "issuers_changed=1 roles_changed=1");
}

/// Where the roles of tokens are listed, and which number an issuer has in the list, is nothing
/// that was granted.
#[test]
fn an_issuer_or_a_comment_above_changes_neither_issuers_nor_rules() {
    let issuer = |name: &str| {
        format!(
            "    - {{ issuer: https://{name}.example, audiences: [a], keys: {{ url: https://{name}.example/k }}, \
             claims: {{ roles: roles }}, roles_from_token: [r], user_prefix: '{name}:' }}\n"
        )
    };
    let load = |above: &str, jwt: &[&str], from: &str| {
        let jwt: String = jwt.iter().map(|name| issuer(name)).collect();
        let text = format!(
            "version: 1\nroles: {{ r: {{ user_id_from: ['{from}'], allow: ['GET /{{user.id}}'] }} }}\n\
             identity:\n{above}  jwt:\n{jwt}"
        );
        let files = document::MapFiles::new("policy.yaml", text);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let (a, b) = ("https://a.example", "https://b.example");
    let before = load("", &["a", "b"], b);
    assert_eq!(changes(&before, &load("  # moved\n\n", &["a", "b"], b)), "");
    assert_eq!(changes(&before, &load("", &["b", "a"], b)), "");
    assert_eq!(changes(&before, &load("", &["b"], b)), "issuers_removed=1");
    assert_eq!(changes(&before, &load("", &["a", "b"], a)), "rules_added=1 rules_removed=1");
}

#[test]
fn users_roles_and_mappings_of_a_search_cluster_are_compared() {
    let load = |users: &str, roles: &str, mappings: &str| {
        let head = |kind: &str, text: &str| {
            format!("# a comment\n_meta: {{ type: {kind}, config_version: 2 }}\n{text}")
        };
        let files = document::MapFiles::new("policy.yaml", "version: 1\nsearch: { folder: os }\n")
            .and("os/internal_users.yml", head("internalusers", users))
            .and("os/roles.yml", head("roles", roles))
            .and("os/roles_mapping.yml", head("rolesmapping", mappings));
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let before = load("a: { hash: x }\nb: { hash: y }\n", "r: {}\n", "r: { users: [a] }\n");
    let moved = load("\nb: { hash: y }\na: { hash: x }\n", "\nr: {}\n", "\nr: { users: [a] }\n");
    assert_eq!(changes(&before, &moved), "");
    let after = load(
        "a: { hash: z }\nc: { hash: y, backend_roles: [d] }\n",
        "r: { cluster_permissions: ['*'] }\ns: {}\n",
        "r: { users: [a, b] }\ns: { hosts: ['10.*'] }\n",
    );
    assert_eq!(
        changes(&before, &after),
        "cluster_mappings_added=1 cluster_mappings_changed=1 cluster_roles_added=1 cluster_roles_changed=1 cluster_users_added=1 cluster_users_changed=1 cluster_users_removed=1"
    );
}

#[test]
fn what_a_question_of_authzen_means_is_compared() {
    let load = |subject: &str, actions: &str, path: &str| {
        let text = format!(
            "version: 1\nauthzen:\n  subjects: {{ user: {{ {subject} }} }}\n  actions: {{ {actions} }}\n  \
             resources: {{ record: {{ path: \"{path}\" }} }}\n"
        );
        let files = document::MapFiles::new("policy.yaml", text);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let before = load("", "view: GET", "/a/{id}");
    assert_eq!(changes(&before, &before), "");
    for after in [
        load("roles: /roles", "view: GET", "/a/{id}"),
        load("groups: /groups", "view: GET", "/a/{id}"),
        load("", "view: PUT", "/a/{id}"),
        load("", "view: GET", "/b/{id}"),
    ] {
        assert_eq!(changes(&before, &after), "authzen_types_changed=1");
    }
    let after = load("", "view: GET, edit: PUT", "/a/{id}");
    assert_eq!(changes(&before, &after), "authzen_types_added=1");
}
