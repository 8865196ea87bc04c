//! The commands that read a policy, print something and exit.

use std::fs;

use testbed::manifests::deploy;

use crate::process::{PolicyFolder, example, open_to_all, rolegate, run, run_with};

const BROKEN: &str = "\
version: 1
roles:
  guest:
    allow: [\"GET people\"]
    extends: [gest]
grants:
  gues: { users: [alice] }
";

#[test]
fn a_valid_policy_passes_the_check() {
    for name in ["people", "jwt", "owner", "api"] {
        let (code, out, _) = run(&["check", &example(name)]);
        assert_eq!(code, 0, "{name}: {out}");
        assert!(out.contains(": ok, "), "{out}");
    }
}

#[test]
fn every_problem_of_a_broken_policy_is_printed_with_its_place() {
    let folder = PolicyFolder::new(BROKEN);
    let (code, out, _) = run(&["check", &folder.arg()]);
    assert_eq!(code, 3);
    for place in ["policy.yaml:4:", "policy.yaml:5:15:", "policy.yaml:7:3:"] {
        assert!(out.contains(place), "{place}\n{out}");
    }
    assert!(out.contains("did you mean `guest`?"), "{out}");
    assert!(out.lines().last().unwrap().contains(": 3 errors"), "{out}");
}

/// The warning about the method is accepted, so the other one is left.
#[test]
fn a_strict_check_fails_on_a_warning_that_nobody_accepted() {
    let policy = |path: &str| {
        format!(
            "version: 1\nroles:\n  anyone:\n    allow:\n      \
             # accept: unusual-method because our own clients send it\n      - REFRESH /a\n      - GET {path}\n"
        )
    };
    let (fine, doubtful) = (PolicyFolder::new(&policy("/b")), PolicyFolder::new(&policy("/b/*")));
    let (code, out, _) = run(&["check", "--strict", &fine.arg()]);
    assert_eq!((code, out.contains("warning")), (0, false), "{out}");
    let (code, out, _) = run(&["check", &doubtful.arg()]);
    assert_eq!((code, out.contains("warning[single-segment]")), (0, true), "{out}");
    let (code, out, _) = run(&["check", "--strict", &doubtful.arg()]);
    assert_eq!(code, 3, "{out}");
    let summary = out.lines().last().unwrap();
    assert!(summary.contains(": 1 role, 2 rules, 1 warning, not accepted (--strict), policy "), "{out}");
    let (code, out, _) = run(&["check", "--strict", "--output", "json", &doubtful.arg()]);
    assert!(code == 3 && out.contains("\"ok\": false"), "{out}");
}

#[test]
fn an_unreadable_hash_and_an_unknown_role_are_reported_at_once() {
    let folder = PolicyFolder::new(
        "version: 1
identity:
  basic:
    realm: r
    users:
      alice: { password: \"$2b$99$x\" }
grants:
  guest: { users: [alice] }
",
    );
    let (code, out, _) = run(&["check", &folder.arg()]);
    assert_eq!(code, 3);
    for place in ["policy.yaml:6:26: error", "policy.yaml:8:3: error: unknown role `guest`"] {
        assert!(out.contains(place), "{place}\n{out}");
    }
}

#[test]
fn problems_are_printed_as_json_too() {
    let folder = PolicyFolder::new(BROKEN);
    let (code, out, _) = run(&["check", "--output", "json", &folder.arg()]);
    assert_eq!(code, 3);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    let errors: Vec<_> = problems.iter().filter(|problem| problem["severity"] == "error").collect();
    assert_eq!(errors.iter().map(|error| &error["line"]).collect::<Vec<_>>(), [4, 5, 7], "{out}");
    assert_eq!(errors[1]["help"], "did you mean `guest`?");
}

#[test]
fn a_missing_policy_is_a_policy_error() {
    let (code, out, _) = run(&["check", "/nowhere/policy.yaml"]);
    assert_eq!(code, 3);
    assert!(out.contains("/nowhere/policy.yaml") && out.contains("no such file"), "{out}");
}

/// Somebody has another name for the file.
#[test]
fn a_folder_without_a_policy_yaml_is_said_to_have_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let check = || run(&["check", &folder.path().display().to_string()]);
    let shown = folder.path().display();
    let (code, out, _) = check();
    assert!(code == 3 && out.contains(&format!("help: the folder `{shown}` has no YAML file\n")), "{out}");
    for name in ["people.yaml", "b.yml", "README.md", ".people.yaml.swp"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let (code, out, _) = check();
    let help = format!(
        "help: the folder `{shown}` has `b.yml`, `people.yaml`: if one of them is the policy, name it\n"
    );
    assert!(code == 3 && out.contains("no such file") && out.contains(&help), "{out}");
}

#[test]
fn invalid_arguments_have_their_own_exit_code() {
    for args in [
        &["chek", "x"][..],
        &["check"],
        &["explain", "--policy", "p", "--basic", "a:b", "--user", "c", "GET", "/"],
        &["explain", "--policy", "p", "--role", "r", "GET", "/"],
        &["check", "--output", "xml", "p"],
        &["serve"],
    ] {
        let (code, _, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("error:"), "{err}");
    }
}

#[test]
fn help_has_examples() {
    for command in [
        "serve",
        "check",
        "test",
        "explain",
        "who-can",
        "what-can",
        "diff",
        "replay",
        "suggest",
        "import",
        "lint-envoy",
        "schema",
        "hash-password",
        "completions",
    ] {
        let (code, out, _) = run(&[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        assert!(
            out.contains("Examples:\n  rolegate") || out.contains("Examples:\n  ROLEGATE"),
            "{command}: {out}"
        );
    }
    assert_eq!(run(&["--version"]).0, 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the shipped configuration is what is tested")]
fn a_configuration_of_envoy_is_linted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.yaml");
    let name = file.display().to_string();
    let shipped = fs::read_to_string(deploy("envoy/minimal.yaml")).unwrap();
    fs::write(&file, &shipped).unwrap();
    let (code, out, err) = run(&["lint-envoy", &name]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.ends_with(&format!("{name}: ok, 2 notes\n")), "{out}");
    assert_eq!(run(&["lint-envoy", "--strict", &name]).0, 1);
    let accepted =
        ["lint-envoy", "--strict", "--accept", "no-retries", "--accept", "no-health-checks", &name];
    assert_eq!(run(&accepted), (0, format!("{name}: ok\n"), String::new()));
    fs::write(&file, shipped.replace("failure_mode_allow: false", "failure_mode_allow: true")).unwrap();
    let (code, out, _) = run(&["lint-envoy", "--output", "json", &name]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let finding = &report["findings"][0];
    assert_eq!((code, &report["ok"], &finding["name"]), (1, &false.into(), &"fails-open".into()));
    assert_eq!(
        (&finding["severity"], &finding["fix"]),
        (&"unsafe".into(), &"failure_mode_allow: false".into())
    );
    let (code, _, err) = run(&["lint-envoy", "--accept", "fail-open", &name]);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean `fails-open`?"), "{err}");
    let (code, _, err) = run(&["lint-envoy", &example("people")]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot read"), "{err}");
    fs::write(&file, "a: 1\n").unwrap();
    let (code, _, err) = run(&["lint-envoy", &name]);
    assert_eq!(code, 3);
    assert!(err.contains("there is no filter `ext_authz` here"), "{err}");
}

#[test]
fn the_cases_of_the_examples_hold() {
    for name in ["people", "jwt", "owner", "api"] {
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
    assert!(out.contains("cases.yaml:2:") && out.contains("status: expected `200`, got `401`"), "{out}");
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
    assert!(code == 3 && err.contains("nowhere:1:1: error: cannot read the cases: no such file"), "{err}");
    let folder = PolicyFolder::new(&open_to_all("/a"));
    assert_eq!(run(&["test", &folder.arg()]).0, 3, "there are none");
    folder.write("cases.yaml", "[]\n");
    assert_eq!(run(&["test", &folder.arg()]).0, 3, "there is none in it");
    folder.write("cases.yaml", "- { name: x, request: { pth: /a }, expect: 200 }\n");
    let (code, _, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 3);
    assert!(err.contains("cases.yaml:1:") && err.contains("path"), "{err}");
}

#[test]
fn explain_says_why() {
    let people = example("people");
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &people][..], more].concat());
    let (code, out, _) = explain(&["--basic", "alice:wonderland", "GET", "/people"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("guest: GET /people") && out.contains("policy.yaml:"), "{out}");
    let (code, out, _) = explain(&["--user", "alice", "POST", "http://example.com/people?x=1"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("example.com/people") && out.contains("missing: the role `admin`"), "{out}");
    let (code, out, _) = explain(&["--basic", "alice:wrong", "GET", "/people"]);
    assert_eq!(code, 1);
    assert!(out.contains("401") && !out.contains("wrong"), "{out}");
    let (code, out, _) = explain(&["--output", "json", "--user", "bob", "POST", "/people"]);
    assert_eq!(code, 0);
    let explanation: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(explanation["rule"]["role"], "admin");
    assert_eq!(explain(&["GET", "/a/../../b"]).0, 1, "a request that is invalid for every caller");
}

#[test]
fn explain_reads_credentials_from_standard_input() {
    let (code, out, _) = run_with(
        &["explain", "--policy", &example("people"), "--basic", "-", "GET", "/people"],
        "alice:wonderland\n",
    );
    assert_eq!(code, 0, "{out}");
}

#[test]
fn explain_takes_roles_groups_and_headers() {
    let policy = "version: 1\nroles:\n  a: { allow: [\"GET /a\"] }\n  b: { allow: [\"GET /b\"] }\n\
                  grants:\n  b: { groups: [g] }\n";
    let folder = PolicyFolder::new(policy);
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &folder.arg()][..], more].concat());
    assert_eq!(explain(&["--user", "u", "--role", "a", "GET", "/a"]).0, 0);
    assert_eq!(explain(&["--user", "u", "--group", "g", "GET", "/b"]).0, 0);
    assert_eq!(explain(&["--user", "u", "GET", "/b"]).0, 1);
    let two = ["--header", "authorization: Basic YTpi", "--header", "Authorization: Basic YTpi", "GET", "/a"];
    let (code, out, _) = explain(&two);
    assert_eq!(code, 1);
    assert!(out.contains("duplicate_authorization"), "{out}");
}

/// As `who-can` and a request with credentials have them.
#[test]
fn explain_gives_a_basic_user_the_groups_of_the_policy() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { user_prefix: \"b:\", group_prefix: \"b:\", users: { carl: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\", groups: [staff] } } } }\n\
         roles: { reader: { allow: [GET /a] } }\ngrants: { reader: { groups: [\"b:staff\"] } }\n",
    );
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &folder.arg()][..], more].concat());
    let (code, out, err) = explain(&["--user", "b:carl", "GET", "/a"]);
    assert!(code == 0 && out.contains("caller:  b:carl, in b:staff\n"), "{out}{err}");
    let (code, out, _) = explain(&["--user", "carl", "--role", "raeder", "--group", "b:stuff", "GET", "/a"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("note:    no source has a user `carl`: did you mean `b:carl`?\n"), "{out}");
    assert!(out.contains("note:    the policy has no role `raeder`: did you mean `reader`?\n"), "{out}");
    assert!(out.contains("note:    the policy has no group `b:stuff`: did you mean `b:staff`?\n"), "{out}");
    let (_, out, _) = explain(&["--user", "carl", "--role", "reader", "GET", "/a"]);
    assert!(out.contains("reader (given by `--role`)"), "{out}");
}

/// A prefix that was added since, for example.
#[test]
fn a_logged_user_that_the_policy_no_longer_has_is_named() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { user_prefix: \"b:\", users: { carl: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\nroles: { authenticated: { allow: [GET /a] } }\n",
    );
    let line = |user: &str| {
        format!(
            "{{\"decision\":\"allowed\",\"user\":\"{user}\",\"method\":\"GET\",\"host\":\"a\",\"path\":\"/a\"}}"
        )
    };
    let explain =
        |user: &str| run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], &line(user));
    let (code, out, err) = explain("carl");
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("because: the line names `carl`, and the policy has no such user\n"), "{out}");
    assert!(out.contains("note:    no source has a user `carl`: did you mean `b:carl`?\n"), "{out}");
    assert_eq!(explain("b:carl").0, 0);
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

/// An application may answer 200 to any path.
#[test]
fn health_of_a_server_that_is_not_rolegate_is_no_health() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    });
    let (code, out, err) = run(&["health", "--admin", &address]);
    server.join().unwrap();
    assert_eq!((code, &*out), (5, ""), "{err}");
    assert!(err.contains("is not rolegate's: is this the address of its `--admin`?"), "{err}");
}

/// The answer of a token endpoint, say.
#[test]
fn what_is_no_token_alone_is_said() {
    let folder = PolicyFolder::new("version: 1\nroles: { anyone: { allow: [GET /a] } }\n");
    for (given, said) in [
        (
            "{\"access_token\":\"a.b.c\",\"expires_in\":300}",
            "such as the text of `access_token` in this JSON",
        ),
        ("a.b.c,d.e.f", "none has a comma in it"),
        ("Bearer a.b.c", "without `Bearer ` before it"),
    ] {
        let (code, out, err) = run(&["explain", "--policy", &folder.arg(), "--bearer", given, "GET", "/a"]);
        assert!(code != 0 && err.contains(said) && !err.contains("a.b.c"), "{given}: {out}{err}");
    }
}

/// A case needs no password: its user has the groups of the policy, as the same caller with credentials.
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

/// Whoever it tests cannot exist, so 403 says nothing.
#[test]
fn a_case_with_a_user_whom_no_source_can_have_fails() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { user_prefix: \"basic:\", users: { bob: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\n\
         roles: { authenticated: { user_id_from: [basic], allow: [\"GET /users/{user.id}/**\"] } }\n",
    );
    folder.write("cases.yaml", "- { name: bob, request: { path: /users/ann/x, user: bob }, expect: 403 }\n");
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("cases.yaml:1:3: no source has a user `bob`: did you mean `basic:bob`?\n"), "{out}");
}

/// No password is involved, although the reason is that of a wrong one.
#[test]
fn a_case_with_a_mistyped_user_says_so() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { users: { vera: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\n\
         roles: { authenticated: { allow: [GET /a] } }\n",
    );
    folder.write("cases.yaml", "- { name: vera, request: { path: /a, user: vira }, expect: 200 }\n");
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("cases.yaml:1:3: the policy has no user `vira`: did you mean `vera`?\n"), "{out}");
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
        let warning = out.lines().find(|line| line.contains("warning: claims are taken as verified"));
        assert_eq!(warning.is_some(), reason.is_some(), "{claims}: {out}");
        assert!(reason.is_none_or(|reason| warning.unwrap().ends_with(reason)), "{out}");
    }
}

#[test]
fn explain_says_what_an_argument_lacks() {
    let people = example("people");
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &people][..], more].concat());
    let (code, _, err) = explain(&["/people"]);
    assert!(code == 2 && err.contains("write one before the path, such as `GET /people`"), "{err}");
    for (method, meant) in
        [("GET|POST", "did you mean `GET`?"), ("GET,POST", "did you mean `GET`?"), ("*", "such as `GET`")]
    {
        for command in ["explain", "who-can"] {
            let (code, out, err) = run(&[command, "--policy", &people, method, "/people"]);
            assert!(code == 2 && out.is_empty() && err.contains("a request has one method"), "{err}");
            assert!(err.contains(meant), "{err}");
        }
    }
    let (code, _, err) = explain(&["--bearer", "Bearer eyJ", "GET", "/people"]);
    assert!(code == 2 && err.contains("without `Bearer `") && !err.contains("eyJ"), "{err}");
}

#[test]
fn who_can_lists_users() {
    let people = example("people");
    let (code, out, _) = run(&["who-can", "--policy", &people, "POST", "/people"]);
    assert_eq!(code, 0);
    assert!(out.contains("bob") && !out.contains("alice"), "{out}");
    let (code, out, _) = run(&["who-can", "--policy", &people, "--output", "json", "POST", "/people"]);
    assert_eq!(code, 0);
    let who: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        who["callers"][0],
        serde_json::json!({
            "source": "basic", "users": ["bob"], "except_users": [], "needs": [], "unless": []
        })
    );
    assert_eq!(who["rules"][0]["role"], "admin");
}

#[test]
fn who_can_ends_with_1_where_nobody_may() {
    let folder = PolicyFolder::new(
        "version: 1\nroles:\n  anyone: { allow: [GET /a, GET /closed], deny: [GET /closed] }\n",
    );
    let who_can = |path| run(&["who-can", "--policy", &folder.arg(), "GET", path]);
    assert_eq!(who_can("/a").0, 0);
    for (path, why) in [
        ("/closed", "nobody: no caller can have a role that allows it without one that denies it"),
        ("/b", "nobody: no rule allows it"),
        ("b", "nobody: the request is invalid: the path does not start with `/` (invalid_path)"),
    ] {
        let (code, out, err) = who_can(path);
        assert_eq!((code, out.lines().next(), err.as_str()), (1, Some(why), ""), "{path}");
    }
    assert_eq!(run(&["who-can", "--policy", "/does/not/exist", "GET", "/a"]).0, 3);
    assert_eq!(run(&["who-can", "--policy", &folder.arg(), "GET"]).0, 2);
}

#[test]
fn a_hash_works_in_a_policy() {
    for (algorithm, start) in
        [("argon2id", "$argon2id$"), ("bcrypt", "$2b$"), ("pbkdf2-sha256", "$pbkdf2-sha256$")]
    {
        let (code, out, err) = run_with(&["hash-password", "--algorithm", algorithm], "correct horse\n");
        assert_eq!((code, err.as_str()), (0, ""), "{algorithm}");
        let hash = out.trim_end();
        assert!(hash.starts_with(start), "{hash}");
        let folder = PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  basic:\n    realm: r\n    users:\n      u: {{ password: \"{hash}\" }}\n\
             roles:\n  authenticated:\n    allow: [\"GET /\"]\n"
        ));
        let explain = ["explain", "--policy", &folder.arg(), "--basic", "u:correct horse", "GET", "/"];
        assert_eq!(run(&explain).0, 0, "{algorithm}");
    }
}

#[test]
fn an_invalid_password_is_rejected_and_not_shown() {
    assert_eq!(run_with(&["hash-password"], "\n").0, 2);
    let long = "x".repeat(73);
    let (code, out, err) = run_with(&["hash-password", "--algorithm", "bcrypt"], &long);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("72") && !err.contains("xx"), "{err}");
}

#[test]
fn a_password_in_the_arguments_causes_a_warning() {
    let (code, out, err) = run(&["hash-password", "--output", "json", "wonderland"]);
    assert_eq!(code, 0);
    assert!(err.contains("warning") && !err.contains("wonderland"), "{err}");
    let hash: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(hash["hash"].as_str().unwrap().starts_with("$argon2id$"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(out.contains("who-can"), "{shell}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    use std::process::Stdio;
    let mut child =
        rolegate(&["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// It is not truncated either: the hash would be of another password.
#[test]
fn an_endless_line_is_not_a_password() {
    let (code, out, err) = run_with(&["hash-password"], &"x".repeat(64 << 10));
    assert!(code != 0 && out.is_empty() && err.contains("64 KiB"), "{code} {out} {err}");
}
