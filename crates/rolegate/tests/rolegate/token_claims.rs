//! What `explain` says of a token whose claims give its caller no role.

use serde_json::{Value, json};
use testbed::tokens::Signer;

use crate::keys::key_set;
use crate::process::{PolicyFolder, run, run_with};

/// A policy that reads these claims, and its signer.
fn policy(claims: &str) -> (PolicyFolder, Signer) {
    let signer = Signer::default();
    let folder = PolicyFolder::new(&format!(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
         keys: {{ file: keys.json }}\n      {claims}\nroles:\n  viewer: {{ allow: [GET /a] }}\n  \
         anyone: {{ allow: [GET /open] }}\ngrants:\n  viewer: {{ groups: [staff] }}\n"
    ));
    folder.write("keys.json", &key_set(&signer, "k"));
    (folder, signer)
}

/// The explanation of a request with a token that has these claims, too.
fn explain((folder, signer): &(PolicyFolder, Signer), more: &Value, path: &str) -> String {
    let mut claims = json!({ "iss": "https://id.example", "aud": "a", "sub": "carol", "exp": 9_999_999_999_u64 });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let token = signer.sign(&json!({ "alg": "ES256", "kid": "k" }), &claims);
    let (_, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--bearer", &token, "GET", path]);
    assert!(!out.contains(&token), "{out}");
    out + &err
}

const BOTH: &str = "claims: { roles: roles, groups: groups }";

#[test]
fn a_claim_that_the_token_does_not_have_is_named_with_where_its_roles_are() {
    let roles = policy("claims: { roles: roles }");
    let missing = "note:    the token has no claim `roles`, which `claims.roles` names";
    for (more, found) in [
        (
            json!({ "realm_access": { "roles": ["viewer"] } }),
            "; it has roles of the policy in `/realm_access/roles`\n",
        ),
        (
            json!({ "resource_access": { "shop": { "roles": ["viewer"] } } }),
            "; it has roles of the policy in `/resource_access/shop/roles`\n",
        ),
        (
            json!({ "groups": ["other"], "permissions": [], "scope": "read viewer" }),
            "; it has roles of the policy in `scope`\n",
        ),
        (json!({ "scope": "read" }), "; it has `scope`\n"),
        (
            json!({ "realm_access": { "roles": 7 }, "groups": { "a": 1 }, "resource_access": ["x"] }),
            "\n",
        ),
        (json!({}), "\n"),
    ] {
        let out = explain(&roles, &more, "/a");
        assert!(
            out.starts_with("403 denied") && out.contains(&format!("{missing}{found}")),
            "{more}: {out}"
        );
    }
    // Keycloak's default roles, which no policy defines.
    let default = json!({ "roles": ["offline_access"], "resource_access": { "shop": { "roles": ["viewer"] } } });
    let out = explain(&roles, &default, "/a");
    let elsewhere = "note:    the token also has roles of the policy in `/resource_access/shop/roles`, which `claims` does not name\n";
    assert!(out.contains("ignored: `offline_access`") && out.contains(elsewhere), "{out}");
    // An allowed request, and a denied one of a caller with roles, need no such note.
    for (more, path) in [(json!({}), "/open"), (json!({ "roles": ["viewer"] }), "/b")] {
        assert!(!explain(&roles, &more, path).contains("claims.roles"), "{more}");
    }
    let both = explain(&policy(BOTH), &json!({ "realm_access": { "roles": ["s3cret"] } }), "/a");
    let groups = "the token has no claim `groups`, which `claims.groups` names; it has `/realm_access/roles`";
    assert!(both.contains(missing) && both.contains(groups) && !both.contains("s3cret"), "{both}");
}

#[test]
fn an_empty_claim_is_named() {
    let out = explain(&policy(BOTH), &json!({ "roles": [], "groups": " " }), "/a");
    for name in ["roles", "groups"] {
        let note = format!(
            "note:    the claim `{name}` of the token, which `claims.{name}` names, is empty\n"
        );
        assert!(out.contains(&note), "{name}: {out}");
    }
}

/// Such a token is not valid: a group that a `deny` rule is for could be in there.
#[test]
fn a_claim_of_the_wrong_type_is_named_with_where_its_roles_are() {
    let nested = json!({ "realm_access": { "roles": ["s3cret"] } });
    let out = explain(&policy("claims: { roles: realm_access }"), &nested, "/a");
    assert!(out.starts_with("401 denied"), "{out}");
    assert!(out.contains("because: `realm_access` is neither a text nor a list of texts"), "{out}");
    assert!(
        out.contains("note:    the token has `/realm_access/roles`\n") && !out.contains("s3cret"),
        "{out}"
    );
}

#[test]
fn a_policy_that_reads_no_claim_is_named() {
    let out = explain(
        &policy("user_prefix: \"id:\""),
        &json!({ "roles": ["s3cret"], "scope": "openid" }),
        "/a",
    );
    let note = "note:    the policy reads no roles or groups from tokens of `https://id.example`: `claims.roles` and \
                `claims.groups` are not set; the token has `roles`, `scope`\n";
    assert!(out.contains(note) && !out.contains("s3cret"), "{out}");
    assert!(!explain(&policy("user_prefix: \"id:\""), &json!({}), "/a").contains("note:"));
}

/// The name of a member is chosen by who makes the token.
#[test]
fn names_in_a_token_are_escaped_and_bounded() {
    let clients: serde_json::Map<String, Value> = (0..30)
        .map(|number| (format!("c\n{number}{}", "x".repeat(200)), json!({ "roles": ["viewer"] })))
        .collect();
    let out =
        explain(&policy("claims: { roles: roles }"), &json!({ "resource_access": clients }), "/a");
    let note = out.lines().find(|line| line.contains("it has")).unwrap();
    assert!(
        note.len() < 1500 && out.lines().filter(|line| line.starts_with('x')).count() == 0,
        "{out}"
    );
}

/// The line has the roles of the token, and not its claims.
#[test]
fn a_logged_decision_names_the_roles_that_have_no_effect() {
    let (folder, _) = policy(BOTH);
    let line = |more: &str| {
        format!(
            "{{\"decision\":\"denied\",\"reason\":\"not_allowed\",\"user\":\"carol\",\"issuer\":\"https://id.example\",\
             \"method\":\"GET\",\"host\":\"h\",\"path\":\"/a\"{more}}}\n"
        )
    };
    let explain =
        |lines: &str| run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], lines).1;
    let logged = |more: &str| explain(&line(more));
    let ignored =
        "note:    ignored: `Viewer` in the token, because the policy defines no such role\n";
    let out = logged(",\"roles\":[\"Viewer\"]");
    assert!(out.starts_with("403 denied") && out.contains(ignored), "{out}");
    let elsewhere = "note:    the line has no claims: `explain --bearer` says whether the token has roles of the policy in \
                     another claim\n";
    assert!(out.contains(elsewhere), "{out}");
    assert!(!logged(",\"roles\":[\"viewer\",\"Viewer\"]").contains("ignored"), "it is allowed");
    let nothing = "note:    the line has no role and no group of the token: `explain --bearer` says whether the token has what \
                   `claims.roles` and `claims.groups` name\n";
    let out = logged("");
    assert!(out.contains(nothing), "{out}");
    assert!(!logged(",\"groups\":[\"other\"]").contains("the line has no role"));
    let two = explain(&line(",\"roles\":[\"Viewer\"]").repeat(2));
    let of_first = "because the policy defines no such role (the first of them)\n";
    assert!(
        two.contains("first in line 1 (by carol of https://id.example)\n")
            && two.contains(of_first),
        "{two}"
    );
}
