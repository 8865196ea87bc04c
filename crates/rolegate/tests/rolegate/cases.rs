//! `rolegate test`: the cases of a policy.

use crate::process::{PolicyFolder, example, open_to_all, run};

#[test]
fn the_cases_of_the_examples_hold() {
    for name in ["people", "jwt", "agents", "owner", "api", "grpc", "certificates", "browser"] {
        let (code, out, err) = run(&["test", &example(name)]);
        assert_eq!(code, 0, "{name}: {out}{err}");
        assert!(out.lines().last().unwrap().ends_with("0 failed"), "{out}");
    }
}

#[test]
fn a_failed_case_is_shown_with_the_actual_answer() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    folder.write(
        "cases.yaml",
        "- { name: good, request: { path: /a }, expect: 200 }\n\
         - { name: bad, request: { path: /b }, expect: { status: 200, rule: \"anyone: GET /b\" } }\n",
    );
    let (code, out, _) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("FAILED bad: 401 (missing_credentials)"), "{out}");
    assert!(
        out.contains("cases.yaml:2:") && out.contains("status: expected `200`, got `401`"),
        "{out}"
    );
    assert!(out.contains("1 case passed, 1 failed"), "{out}");

    let (code, out, _) = run(&["test", "--quiet", &folder.arg()]);
    assert_eq!((code, out.contains("good"), out.contains("FAILED bad")), (4, false, true), "{out}");
    let (code, out, _) = run(&["test", "--quiet", &example("people")]);
    assert_eq!((code, out.as_str()), (0, ""));

    let (code, out, _) = run(&["test", "--output", "json", &folder.arg()]);
    assert_eq!(code, 4);
    let results: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&results["ok"], &results["failed"]), (&false.into(), &1.into()));
    assert_eq!(results["cases"][0]["ok"], true);
    assert_eq!(results["cases"][1]["status"], 401);
}

#[test]
fn unreadable_cases_do_not_pass() {
    let (code, _, err) = run(&["test", "nowhere"]);
    assert!(
        code == 3 && err.contains("nowhere:1:1: error: cannot read the cases: no such file"),
        "{err}"
    );
    let help = "help: name a file with cases, or a folder or bundle that contains a `cases.yaml`";
    assert!(err.contains(help), "{err}");
    let folder = PolicyFolder::new(&open_to_all("/a"));
    assert_eq!(run(&["test", &folder.arg()]).0, 3, "there are none");
    folder.write("cases.yaml", "[]\n");
    assert_eq!(run(&["test", &folder.arg()]).0, 3, "there is none in it");
    folder.write("cases.yaml", "- { name: x, request: { pth: /a }, expect: 200 }\n");
    let (code, _, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 3);
    assert!(err.contains("cases.yaml:1:") && err.contains("path"), "{err}");
}

/// In CI there may be no token to explain.
#[test]
fn a_failed_case_says_which_claim_is_malformed() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { jwt: [{ issuer: \"https://a.example\", audiences: [a], keys: { url: \"https://a.example/keys\" }, \
         claims: { user: preferred_username } }] }\nroles: { authenticated: { allow: [GET /a] } }\n",
    );
    folder.write(
        "cases.yaml",
        "- { name: a, request: { path: /a, claims: { iss: \"https://a.example\", sub: x } }, expect: 200 }\n",
    );
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("claims: no `preferred_username`"), "{out}{err}");
}

/// A case needs no password: its user has the groups of the policy, as the same caller with
/// credentials.
#[test]
fn a_case_may_name_a_user() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { user_prefix: \"b:\", group_prefix: \"b:\", users: { carl: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\", groups: [staff] } } } }\n\
         roles: { reader: { user_id_from: [basic], allow: [GET /a, \"GET /of/{user.id}\"] }, other: { allow: [GET /b] } }\n\
         grants: { reader: { groups: [\"b:staff\"] }, other: { groups: [more] } }\n\
         allow_response: { set_headers: { x-user: \"{user}\", x-groups: \"{groups}\" } }\n",
    );
    folder.write(
        "cases.yaml",
        "- { name: a, request: { path: /a, user: \"b:carl\" }, expect: { status: 200, headers: { x-user: \"b:carl\", \
         x-groups: \"b:staff\" } } }\n\
         - { name: own, request: { path: /of/carl, user: \"b:carl\" }, expect: 200 }\n\
         - { name: b, request: { path: /b, user: \"b:carl\" }, expect: { status: 403, reason: not_allowed } }\n\
         - { name: more, request: { path: /b, user: \"b:carl\", groups: [more] }, expect: 200 }\n\
         - { name: unknown, request: { path: /a, user: \"b:carla\", groups: [\"b:staff\"] }, \
         expect: { status: 401, reason: bad_password } }\n",
    );
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("5 cases passed, 0 failed"), "{out}");
}

#[test]
fn a_case_may_expect_metadata() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { verify: false } }\n\
         roles: { gold: { allow: [GET /a] }, anyone: { allow: [GET /b] } }\n\
         grants: { gold: { users: [ann] } }\n\
         allow_response: { metadata: { name: \"{user}\", rate: { gold: 1000, else: 100 }, \
         limit: { gold: { rate: 5, on: true } } } }\n",
    );
    let limit = "limit: { rate: 5, on: true, off: }";
    for (expected, failures) in [
        (format!("name: ann, rate: 1000, {limit}, other:"), &[][..]),
        ("name: bob".to_owned(), &["metadata name: expected `bob`, got `ann`"][..]),
        ("rate:".to_owned(), &["metadata rate: expected none, got `1000`"][..]),
        ("limit:".to_owned(), &["metadata limit: expected none, got `5, true`"][..]),
        ("limit: { rate: 4 }".to_owned(), &["metadata limit.rate: expected `4`, got `5`"][..]),
    ] {
        folder.write(
            "cases.yaml",
            &format!(
                "- {{ name: gold, request: {{ path: /a, user: ann }}, expect: {{ status: 200, metadata: {{ {expected} }} }} }}\n\
                 - {{ name: denied, request: {{ path: /a }}, expect: {{ status: 401, metadata: {{ rate: , name: }} }} }}\n\
                 - {{ name: anyone, request: {{ path: /b }}, expect: {{ status: 200, metadata: {{ rate: 100, name: , limit: }} }} }}\n",
            ),
        );
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, if failures.is_empty() { 0 } else { 4 }, "{out}{err}");
        for failure in failures {
            assert!(out.contains(failure), "{out}{err}");
        }
    }
}

/// Whoever it tests cannot exist, so 403 says nothing.
#[test]
fn a_case_with_a_user_whom_no_source_can_have_fails() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { user_prefix: \"basic:\", users: { bob: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\n\
         roles: { authenticated: { user_id_from: [basic], allow: [\"GET /users/{user.id}/**\"] } }\n",
    );
    folder.write(
        "cases.yaml",
        "- { name: bob, request: { path: /users/ann/x, user: bob }, expect: 403 }\n",
    );
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(
        out.contains("cases.yaml:1:3: no source has a user `bob`: did you mean `basic:bob`?\n"),
        "{out}"
    );
}

/// No password is involved, although the reason is that of a wrong one.
#[test]
fn a_case_with_a_mistyped_user_says_so() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { users: { vera: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\n\
         roles: { authenticated: { allow: [GET /a] } }\n",
    );
    folder
        .write("cases.yaml", "- { name: vera, request: { path: /a, user: vira }, expect: 200 }\n");
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(
        out.contains("cases.yaml:1:3: the policy has no user `vira`: did you mean `vera`?\n"),
        "{out}"
    );
}

/// The claims of a case are not verified, so a 200 may be one that no token gets.
#[test]
fn a_case_whose_claims_no_valid_token_has_is_warned_of() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { jwt: [{ issuer: \"https://id.example\", audiences: [people], keys: { url: \
         \"https://id.example/keys\" }, max_age: 1h, claims: { user: sub } }] }\n\
         roles: { authenticated: { allow: [GET /a] } }\n",
    );
    let case = |claims: &str| {
        format!(
            "- {{ name: a, request: {{ path: /a, at: 2026-01-01T00:00:00Z, claims: {{ iss: \"https://id.example\", \
             sub: carol{claims} }} }}, expect: 200 }}\n"
        )
    };
    for (claims, reason) in [
        (", aud: account", Some("(wrong_audience)")),
        (", exp: 1", Some("(expired)")),
        (", nbf: 9999999999", Some("(not_yet_valid)")),
        (", aud: [people], exp: 9999999999", None),
        ("", None),
    ] {
        folder.write("cases.yaml", &case(claims));
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, 0, "{out}{err}");
        let warning =
            out.lines().find(|line| line.contains("warning: claims are taken as verified"));
        assert_eq!(warning.is_some(), reason.is_some(), "{claims}: {out}");
        assert!(reason.is_none_or(|reason| warning.unwrap().ends_with(reason)), "{out}");
    }
}

/// A misspelt name gets the 403 that the case expects, so the case tests nothing.
#[test]
fn a_case_that_passes_with_a_misspelt_name_is_warned_of() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  basic: { users: { alice: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } }\n  \
         jwt: [{ issuer: \"https://id.example\", user_prefix: \"id:\", group_prefix: \"id:\", audiences: [a], keys: { url: \
         \"https://id.example/keys\" }, claims: { user: sub, groups: groups, roles: roles } }]\n\
         roles: { editor: { allow: [GET /a] } }\n\
         grants: { editor: { groups: [editors, \"id:editors\", \"id:team-a\", \"id:unit1\"] } }\n",
    );
    let edittors = "the policy has no group `edittors`: did you mean `editors`?";
    let of_token = "the policy has no group `id:edittors`: did you mean `id:editors`?";
    for (caller, status, warning) in [
        ("user: alice, groups: [edittors]", 403, Some(edittors)),
        // Basic brings the groups of the policy alone, so this one is nobody's.
        ("user: alice, groups: [others]", 403, Some("the policy has no group `others`")),
        ("user: alice, groups: [editors]", 200, None),
        ("user: alice, groups: [editors, edittors]", 200, Some(edittors)),
        // Whoever has a wrong password gets 401, and it is what the case expects.
        ("user: mallory", 401, None),
        // A token may bring any name: only what looks misspelt is worth a warning.
        ("user: \"id:carol\", groups: [\"id:edittors\"]", 403, Some(of_token)),
        ("user: \"id:carol\", groups: [\"id:others\", \"id:team-b\", \"id:unit2\"]", 403, None),
        (
            "claims: { iss: \"https://id.example\", sub: carol, groups: [edittors] }",
            403,
            Some(of_token),
        ),
        (
            "claims: { iss: \"https://id.example\", sub: carol, roles: [edittor] }",
            403,
            Some("the policy has no role `edittor`: did you mean `editor`?"),
        ),
        (
            "claims: { iss: \"https://id.example\", sub: carol, groups: [others], roles: [offline_access] }",
            403,
            None,
        ),
    ] {
        let case =
            format!("- {{ name: a, request: {{ path: /a, {caller} }}, expect: {status} }}\n");
        folder.write("cases.yaml", &case);
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, 0, "{caller}: {out}{err}");
        let found = out.lines().find_map(|line| line.split_once("cases.yaml:1:3: warning: "));
        assert_eq!(found.map(|(_, warning)| warning), warning, "{caller}: {out}");
        let summary = if warning.is_some() {
            "1 case passed, 0 failed, 1 warning\n"
        } else {
            "passed, 0 failed\n"
        };
        assert!(out.ends_with(summary), "{out}");

        let (code, out, _) = run(&["test", "--output", "json", &folder.arg()]);
        let results: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (code, results["cases"][0]["warning"].as_str()),
            (0, warning),
            "{caller}: {out}"
        );

        let (code, out, _) = run(&["test", "--strict", "--quiet", &folder.arg()]);
        assert_eq!(
            (code, out.contains("warning: ")),
            warning.map_or((0, false), |_| (4, true)),
            "{caller}: {out}"
        );
    }
}

/// On the hosts of a search cluster, groups are backend roles.
#[test]
fn a_case_that_passes_with_a_misspelt_backend_role_is_warned_of() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { jwt: [ { issuer: \"https://id.example\", audiences: [search], user_prefix: \"id:\", \
         keys: { url: \"https://id.example/jwks\" }, claims: { groups: groups } } ] }\n\
         search: { folder: cluster, hosts: [search.example] }\n",
    );
    let cluster = testbed::repository().join("policies/search/cluster");
    testbed::policies::copy(&cluster, &folder.path().join("cluster")).unwrap();
    let of = |caller: &str| {
        let request = "host: search.example, path: /logs-1/_search";
        folder.write(
            "cases.yaml",
            &format!("- {{ name: a, request: {{ {request}, {caller} }}, expect: 403 }}\n"),
        );
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, 0, "{out}{err}");
        out.split_once("warning: ").map(|(_, warning)| warning.lines().next().unwrap().to_owned())
    };
    let unmapped = "no role of the search cluster is mapped from the backend role";
    let misspelt = Some(format!("{unmapped} `oncal`: did you mean `oncall`?"));
    assert_eq!(of("user: \"id:carol\", groups: [oncal]"), misspelt);
    assert_eq!(of("user: \"id:carol\", groups: [strangers]"), None);
    assert_eq!(of("user: shipper, groups: [strangers]"), Some(format!("{unmapped} `strangers`")));
    assert_eq!(
        of("claims: { iss: \"https://id.example\", sub: carol, groups: [oncal] }"),
        misspelt
    );
}
