//! What changed between two policies.

use std::path::Path;

use super::*;

fn delta(added: usize, removed: usize, changed: usize) -> Delta {
    Delta { added, removed, changed }
}

#[test]
fn users_and_grants_are_compared() {
    let load = |users: &str, grants: &str| {
        let text = format!(
            "version: 1\nidentity: {{ basic: {{ users_file: htpasswd }} }}\nroles: {{ r: {{ allow: [GET /a] }} }}\n\
             grants: {{ r: {{ users: [{grants}], groups: [x] }} }}\n"
        );
        let files = document::MapFiles::of("policy.yaml", text).and("htpasswd", users);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let before = load("a:$6$x$y\nb:$6$x$y\n", "a, b");
    assert_eq!(Change::between(&before, &before), Change::default());
    let change = Change::between(&before, &load("a:$6$x$y\nc:$6$x$y\nd:$6$x$y\n", "a, b"));
    assert_eq!(change.users, delta(2, 1, 0));
    assert_eq!(change.grants, Delta::default());
    let change = Change::between(&before, &load("a:$6$x$z\nb:$6$x$y\n", "a, b"));
    assert_eq!(change.users, delta(0, 0, 1), "another password");
    let change = Change::between(&before, &load("a:$6$x$y\nb:$6$x$y\n", "c"));
    assert_eq!(change.grants, delta(1, 2, 0));
}

#[test]
fn roles_rules_and_issuers_are_compared_wherever_they_are_in_the_file() {
    let load = |text: &str| {
        let text = format!("version: 1\n{text}");
        let files = document::MapFiles::of("policy.yaml", text);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let issuer = "identity: { jwt: [{ issuer: https://a.example, audiences: [a], keys: { url: https://a.example/k } }] }\n";
    let before = load("roles: { r: { allow: [GET /a, GET /b] }, s: { deny: [GET /c] } }\n");
    let moved =
        load("# moved\n\nroles:\n  s: { deny: [GET /c] }\n  r: { allow: [GET /b, GET /a] }\n");
    assert_eq!(Change::between(&before, &moved), Change::default());
    let after = load(&format!(
        "{issuer}roles: {{ r: {{ allow: [GET /a, GET /c] }}, t: {{ extends: [r] }} }}\n"
    ));
    let change = Change::between(&before, &after);
    assert_eq!(change.roles, delta(1, 1, 0));
    assert_eq!(change.rules, delta(1, 2, 0));
    assert_eq!(change.issuers, delta(1, 0, 0));
    let again = load(&format!(
        "{}roles: {{ r: {{ allow: [GET /a, GET /c] }}, t: {{}} }}\n",
        issuer.replace("audiences: [a]", "audiences: [b]")
    ));
    let change = Change::between(&after, &again);
    assert_eq!(change.roles, delta(0, 0, 1), "`extends`");
    assert_eq!(change.issuers, delta(0, 0, 1), "`audiences`");
    assert_eq!(change.rules, Delta::default());
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
        let files = document::MapFiles::of("policy.yaml", text);
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let (a, b) = ("https://a.example", "https://b.example");
    let before = load("", &["a", "b"], b);
    assert_eq!(Change::between(&before, &load("  # moved\n\n", &["a", "b"], b)), Change::default());
    assert_eq!(Change::between(&before, &load("", &["b", "a"], b)), Change::default());
    let change = Change::between(&before, &load("", &["b"], b));
    assert_eq!((change.issuers, change.rules), (delta(0, 1, 0), Delta::default()));
    let change = Change::between(&before, &load("", &["a", "b"], a));
    assert_eq!((change.issuers, change.rules), (Delta::default(), delta(1, 1, 0)));
}

#[test]
fn users_roles_and_mappings_of_a_search_cluster_are_compared() {
    let load = |users: &str, roles: &str, mappings: &str| {
        let head = |kind: &str, text: &str| {
            format!("# a comment\n_meta: {{ type: {kind}, config_version: 2 }}\n{text}")
        };
        let files = document::MapFiles::of("policy.yaml", "version: 1\nsearch: { folder: os }\n")
            .and("os/internal_users.yml", head("internalusers", users))
            .and("os/roles.yml", head("roles", roles))
            .and("os/roles_mapping.yml", head("rolesmapping", mappings));
        policy::load(&files, Path::new("policy.yaml")).unwrap().policy
    };
    let before = load("a: { hash: x }\nb: { hash: y }\n", "r: {}\n", "r: { users: [a] }\n");
    let moved = load("\nb: { hash: y }\na: { hash: x }\n", "\nr: {}\n", "\nr: { users: [a] }\n");
    assert_eq!(Change::between(&before, &moved), Change::default());
    let after = load(
        "a: { hash: z }\nc: { hash: y, backend_roles: [d] }\n",
        "r: { cluster_permissions: ['*'] }\ns: {}\n",
        "r: { users: [a, b] }\ns: { hosts: ['10.*'] }\n",
    );
    let change = Change::between(&before, &after);
    assert_eq!(change.cluster_users, delta(1, 1, 1));
    assert_eq!(change.cluster_roles, delta(1, 0, 1));
    assert_eq!(change.cluster_mappings, delta(1, 0, 1));
    assert_eq!(change.users, Delta::default());
}
