//! `what-can`, callers who are named with their issuer, and the output of commands that pages show.

use crate::process::{PolicyFolder, example, run, run_with};

const PAGE: &str = include_str!("../../../../policies/README.md");
const GUIDE: &str = include_str!("../../../../docs/policy.md");

/// Two sources that can have the same names.
const POLICY: &str = r#"version: 1
identity:
  basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] } } }
  jwt:
    - issuer: https://id.example.com
      audiences: [x]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, roles: roles }
      roles_from_token: [reader, barred]
    - issuer: https://ci.example.com
      audiences: [x]
      keys: { url: "https://ci.example.com/jwks" }
      user_prefix: "ci:"
      claims: { user: sub, groups: groups }
roles:
  anyone: { allow: [GET /open] }
  authenticated:
    user_id_from: ["https://id.example.com"]
    allow: ["GET /own/{user.id}", "GET /mine/{user}"]
  reader: { allow: [{ name: read, methods: [GET, HEAD], hosts: [a.example.com, b.example.com], paths: [/a, /b/**] }] }
  editor: { extends: [reader], allow: [POST a.example.com/a], deny: ["* /b/secret"] }
  barred: { deny: ["* /**"] }
grants:
  editor: { groups: [staff], users: ["ci:nightly"] }
"#;

fn what_can(more: &[&str]) -> (i32, String, String) {
    let folder = PolicyFolder::new(POLICY);
    run(&[&["what-can", "--policy", &folder.arg()][..], more].concat())
}

/// The rules, without their places.
fn rules(out: &str) -> Vec<String> {
    let rules = out.lines().filter_map(|line| line.strip_prefix("rule:    "));
    let without_place = |rule: &str| {
        let (before, after) = rule.split_once(" at ").unwrap();
        format!("{before}{}", after.split_once(')').unwrap().1)
    };
    rules.map(without_place).collect()
}

const OPEN: &str = "`anyone: GET /open` (allowed";
const OWN: &str =
    "`authenticated: GET /own/{user.id}` (allowed, `{user.id}` from https://id.example.com";
const MINE: &str = "`authenticated: GET /mine/{user}` (allowed";
const READ: &str = "`reader: read` (allowed: GET|HEAD /a, /b/** on a.example.com, b.example.com";
const POST: &str = "`editor: POST a.example.com/a` (allowed";
const SECRET: &str = "`editor: * /b/secret` (denied";

#[test]
fn with_a_host_only_rules_for_it_are_listed() {
    let of = |host: &str| rules(&what_can(&["--role", "editor", "--host", host]).1);
    let all = [OPEN, OWN, MINE, READ, POST, SECRET].map(str::to_owned);
    assert_eq!(of("A.example.com:443"), all);
    assert_eq!(of("b.example.com"), [OPEN, OWN, MINE, READ, SECRET]);
    assert_eq!(of("localhost"), [OPEN, OWN, MINE, SECRET]);
    assert_eq!(what_can(&["--role", "reader", "--host", "c.example.com"]).0, 0, "`anyone` may");
}

#[test]
fn a_role_has_the_rules_of_those_that_it_extends_and_of_the_reserved_ones() {
    let (code, out, _) = what_can(&["--role", "editor"]);
    assert_eq!(
        (code, rules(&out)),
        (0, [OPEN, OWN, MINE, READ, POST, SECRET].map(str::to_owned).to_vec())
    );
    assert!(out.starts_with("caller:  everyone with these roles\n"), "{out}");
    assert!(out.contains("\nroles:   reader (extended by `editor`)\n"), "{out}");
    assert!(out.contains("policy.yaml:20:"), "{out}");
}

#[test]
fn a_user_has_the_roles_that_are_granted() {
    let (_, out, _) = what_can(&["--user", "ann"]);
    assert!(out.starts_with("caller:  ann, in staff\n"), "{out}");
    assert_eq!(
        rules(&out),
        [OPEN, MINE, READ, POST, SECRET],
        "`{{user.id}}` is for another source"
    );
    let (_, out, _) = what_can(&["--user", "ann", "--issuer", "https://id.example.com"]);
    assert_eq!(rules(&out), [OPEN, OWN, MINE], "another ann: {out}");
    let (_, out, _) = what_can(&["--user", "ci:nightly", "--issuer", "https://ci.example.com"]);
    assert_eq!(rules(&out), [OPEN, MINE, READ, POST, SECRET], "{out}");
    let (_, out, _) = what_can(&["--user", "bob"]);
    assert_eq!(rules(&out), [OPEN, MINE]);
    assert!(out.ends_with("`{user.id}` are left out: `--issuer` names it\n"), "{out}");
}

#[test]
fn an_anonymous_caller_has_the_role_anyone() {
    for more in [&[][..], &["--role", "anyone"]] {
        let (code, out, _) = what_can(more);
        assert_eq!((code, rules(&out)), (0, vec![OPEN.to_owned()]));
        assert!(out.starts_with("caller:  anonymous\n"), "{out}");
    }
}

#[test]
fn what_can_ends_with_1_where_no_rule_allows_anything() {
    let folder = PolicyFolder::new("version: 1\nroles: { barred: { deny: [GET /a] } }\n");
    let (code, out, _) = run(&["what-can", "--policy", &folder.arg(), "--role", "barred"]);
    assert!(code == 1 && out.ends_with("nothing: no rule allows anything\n"), "{out}");
    let (code, out, _) = run(&["what-can", "--policy", &folder.arg(), "--output", "json"]);
    let what: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, what["rules"].as_array().unwrap().len()), (1, 0));
    assert_eq!(run(&["what-can", "--policy", "/does/not/exist"]).0, 3);
}

#[test]
fn what_can_is_printed_as_json() {
    let (_, out, _) = what_can(&["--role", "reader", "--output", "json"]);
    let what: serde_json::Value = serde_json::from_str(&out).unwrap();
    let rule = &what["rules"][3];
    assert_eq!(
        (&rule["role"], &rule["rule"], &rule["denies"]),
        (&"reader".into(), &"read".into(), &false.into())
    );
    assert_eq!(rule["methods"], "GET|HEAD");
    assert_eq!(rule["hosts"], serde_json::json!(["a.example.com", "b.example.com"]));
    assert_eq!(rule["paths"], serde_json::json!(["/a", "/b/**"]));
    assert_eq!(what["rules"][1]["user_id_from"], serde_json::json!(["https://id.example.com"]));
}

#[test]
fn names_that_nobody_can_have_are_wrong_arguments() {
    let ci = "https://ci.example.com";
    for (more, why) in [
        (&["--role", "editr"][..], "the policy has no role `editr`: did you mean `editor`?"),
        (&["--role", "edi"], "the policy has no role `edi`: did you mean `editor`?"),
        (&["--issuer", ci], "--user"),
        (
            &["--user", "a", "--issuer", "https://cl.example.com"],
            "did you mean `https://ci.example.com`?",
        ),
        (&["--user", "a", "--issuer", ci], "have a prefix: did you mean `ci:a`?"),
        (&["--user", "ci:a", "--issuer", ci, "--role", "reader"], "takes no roles from tokens of"),
        (
            &["--user", "a", "--issuer", "https://id.example.com", "--role", "editor"],
            "`roles_from_token` of `https://id.example.com` does not list the role `editor`",
        ),
        (
            &["--user", "a", "--issuer", "https://id.example.com", "--group", "g"],
            "takes no groups from tokens of",
        ),
        // Without an issuer, the name decides where the caller comes from.
        (
            &["--user", "ci:a", "--role", "reader"],
            "takes no roles from tokens of `https://ci.example.com`",
        ),
        (
            &["--user", "ann", "--role", "reader"],
            "a user of Basic has only the roles that the policy grants: leave out the role `reader` of `ann`, or name the \
             issuer of its token",
        ),
        (&["--user", "bob", "--role", "editor"], "does not list the role `editor`"),
    ] {
        let (code, out, err) = what_can(more);
        assert!(code == 2 && out.is_empty() && err.contains(why), "{more:?}: {out}{err}");
    }
    let (_, out, _) = what_can(&["--group", "stafff"]);
    assert!(
        out.contains("\nnote:    the policy has no group `stafff`: did you mean `staff`?"),
        "{out}"
    );
}

/// As the server would deny it: the names are of a source that cannot give them.
#[test]
fn explain_refuses_a_role_or_group_that_the_source_of_the_name_cannot_give() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  basic: { users: { alice: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } }\n  jwt:\n    \
         - { issuer: \"https://id.example.com\", audiences: [x], keys: { url: \"https://id.example.com/jwks\" }, user_prefix: \"id:\", \
         claims: { user: sub, roles: roles }, roles_from_token: [reader] }\n\
         roles:\n  reader: { allow: [GET /orders] }\n  admin: { allow: [\"* /orders/*\"] }\n\
         grants: { reader: { groups: [staff] } }\n",
    );
    let explain =
        |more: &[&str]| run(&[&["explain", "--policy", &folder.arg()][..], more].concat());
    for (more, why) in [
        (
            ["--user", "id:x", "--role", "admin", "DELETE", "/orders/1"],
            "`roles_from_token` of `https://id.example.com` does not list the role `admin`: leave it out",
        ),
        (
            ["--user", "id:x", "--group", "staff", "GET", "/orders"],
            "takes no groups from tokens of `https://id.example.com`",
        ),
        (
            ["--user", "alice", "--role", "admin", "DELETE", "/orders/1"],
            "has only the roles that the policy grants: leave out the role `admin` of `alice`\n",
        ),
    ] {
        let (code, out, err) = explain(&more);
        assert!(code == 2 && out.is_empty() && err.contains(why), "{more:?}: {out}{err}");
    }
    assert_eq!(explain(&["--user", "id:x", "--role", "reader", "GET", "/orders"]).0, 0);
    let (code, out, _) = explain(&["--user", "alice", "--group", "staff", "GET", "/orders"]);
    let note =
        "note:    Basic does not put `alice` in the group `staff`: this is the answer if it did\n";
    assert!(code == 0 && out.contains(note), "{out}");
}

/// Without a token of that issuer.
#[test]
fn explain_takes_the_issuer_of_a_user() {
    let folder = PolicyFolder::new(POLICY);
    let explain = |more: &[&str]| {
        run(&[&["explain", "--policy", &folder.arg()][..], more, &["GET", "/own/bob"]].concat())
    };
    let (code, out, _) = explain(&["--user", "bob"]);
    assert_eq!(code, 1);
    let why = "`{user.id}` is for callers of `https://id.example.com`, and the caller's source is not known: `--issuer` \
               names it";
    assert!(out.contains(why), "{out}");
    let (code, out, _) = explain(&["--user", "bob", "--issuer", "https://id.example.com"]);
    assert!(
        code == 0 && out.contains("caller:  bob, by a token of https://id.example.com\n"),
        "{out}"
    );
    let (code, out, _) = explain(&["--user", "ci:bob", "--issuer", "https://ci.example.com"]);
    assert!(code == 1 && out.contains("not of `https://ci.example.com`"), "{out}");
    let (code, _, err) = explain(&["--user", "bob", "--issuer", "https://d.example.com"]);
    assert!(code == 2 && err.contains("did you mean `https://id.example.com`?"), "{err}");
}

/// As the server answers, and as `rolegate test` does: its password is right for nobody.
#[test]
fn a_user_whom_basic_does_not_have_may_do_nothing() {
    let people = example("people");
    let because = "bad password (bad_password)";
    for (args, answer) in [
        (
            &["what-can", "--policy", &people, "--user", "bobb"][..],
            "nothing: every request gets 401",
        ),
        (
            &["what-can", "--policy", &people, "--user", "bobb", "--role", "admin"],
            "nothing: every request gets 401",
        ),
        (&["explain", "--policy", &people, "--user", "bobb", "GET", "/people"], "401 denied"),
        (
            &[
                "explain", "--policy", &people, "--user", "bobb", "--role", "admin", "GET",
                "/people",
            ],
            "401 denied",
        ),
    ] {
        let (code, out, err) = run(args);
        assert_eq!(code, 1, "{args:?}: {out}{err}");
        assert!(out.contains(&format!("{answer}: {because}\n")), "{out}");
        assert!(!out.contains("rule:"), "{out}");
        let note = "\nnote:    the policy has no user `bobb`: did you mean `bob`?";
        assert!(out.contains(note), "{out}");
        assert!(args[0] != "what-can" || out.contains(&format!("{note}\nnothing: ")), "{out}");
    }
    let (code, out, _) =
        run(&["what-can", "--policy", &people, "--user", "bobb", "--output", "json"]);
    let what: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &what["reason"], &what["user"]),
        (1, &"bad_password".into(), &"bobb".into()),
        "{out}"
    );
}

/// A prefix says which source a user is of; a user that an issuer may have is not looked up in
/// Basic.
#[test]
fn a_user_with_the_prefix_of_basic_is_looked_up_in_basic_only() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  basic: { user_prefix: \"basic:\", group_prefix: \"basic:\", users: { ann: \
         { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\", groups: [analysts] } } }\n  jwt:\n    - { issuer: \"https://id.example.com\", \
         audiences: [x], keys: { url: \"https://id.example.com/jwks\" }, user_prefix: \"id:\" }\n\
         roles: { authenticated: { allow: [\"GET /users/**\"] } }\n",
    );
    let asked = |user: &str| {
        let explain =
            run(&["explain", "--policy", &folder.arg(), "--user", user, "GET", "/users/x"]).0;
        (explain, run(&["what-can", "--policy", &folder.arg(), "--user", user]).0)
    };
    assert_eq!(asked("basic:ann"), (0, 0));
    assert_eq!(asked("basic:bob"), (1, 1));
    assert_eq!(asked("id:bob"), (0, 0));
    let (_, out, _) = run(&["what-can", "--policy", &folder.arg(), "--group", "analysts"]);
    assert!(
        out.contains("note:    the policy has no group `analysts`: did you mean `basic:analysts`?"),
        "{out}"
    );
    let line =
        r#"{"decision":"allowed","method":"GET","host":"a","path":"/users/x","user":"basic:bob"}"#;
    let (code, out, err) =
        run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], line);
    assert!(
        code == 1 && out.starts_with("401 denied") && out.contains("another decision"),
        "removed since: {out}{err}"
    );
}

#[test]
fn the_rules_of_the_examples_are_listed() {
    let (code, out, _) = run(&["what-can", "--policy", &example("people"), "--user", "bob"]);
    assert_eq!(code, 0, "{out}");
    let printed = out.replace(&example("people"), "policies/people");
    assert!(
        PAGE.contains(&format!("\n```\n{printed}```\n")),
        "policies/README.md prints this otherwise:\n{printed}"
    );
}

#[test]
fn the_policy_of_the_guide_passes_its_cases_and_gives_the_answers_that_it_shows() {
    let examples = GUIDE.split("```yaml\n").skip(1).map(|part| part.split_once("```").unwrap().0);
    let (cases, policies): (Vec<_>, Vec<_>) =
        examples.partition(|example| example.starts_with("- "));
    let whole_policy = policies.iter().rfind(|policy| policy.starts_with("version:")).unwrap();
    let folder = PolicyFolder::new(whole_policy);
    folder.write("cases.yaml", &cases.concat());
    let (code, out, err) = run(&["test", "--strict", &folder.arg()]);
    assert_eq!(code, 0, "{out}{err}");

    let reports = "https://reports.example.com/reports";
    for (arguments, end) in [
        (
            ["explain", "--user", "ed", "--group", "staff", "PUT", &format!("{reports}/7")]
                .as_slice(),
            "policy: ",
        ),
        (&["who-can", "GET", &format!("{reports}/internal/7")], "rule:    "),
    ] {
        let (_, out, err) = run(&[arguments, &[&folder.arg()]].concat());
        let printed = out.replace(&folder.arg(), ".");
        let (shown, _) = printed.split_once(end).unwrap_or_else(|| panic!("{out}{err}"));
        assert!(
            GUIDE.contains(&format!("\n```\n{shown}```\n")),
            "docs/policy.md shows this otherwise:\n{shown}"
        );
    }
}

const CONDITIONAL: &str = r#"version: 1
identity:
  jwt: [{ issuer: "https://id.example.com", audiences: [x], keys: { url: "https://id.example.com/jwks" }, claims: { user: sub, groups: groups } }]
roles:
  a: { allow: [{ rule: GET /a, when: "source.ip == ip('192.0.2.7')" }, { rule: GET /b, when: "request.headers['x-b'] == '1'" }] }
  b: { allow: [{ rule: GET /c, when: "request.time < timestamp('2026-01-01T00:00:00Z')" }, { rule: GET /d, when: claims.d == 1 }] }
grants: { a: { groups: [staff] }, b: { groups: [staff] } }
"#;

/// The arguments decide conditions of all three commands.
#[test]
fn arguments_decide_conditions() {
    let folder = PolicyFolder::new(CONDITIONAL);
    let run =
        |command: &str, more: &[&str]| run(&[&[command, "--policy", &folder.arg()], more].concat());
    let line = "any token of https://id.example.com with the group `staff`";
    for (path, given) in [
        ("/a", &["--client", "192.0.2.7"][..]),
        ("/b", &["--header", "X-B: 1"]),
        ("/c", &["--time", "2025-01-31T08:00:00Z"]),
    ] {
        let (_, out, _) = run("who-can", &["GET", path]);
        assert!(out.starts_with(&format!("{line}, where ")), "{out}");
        let (code, out, err) = run("who-can", &[&["GET", path], given].concat());
        assert!(code == 0 && out.starts_with(&format!("{line}\n")), "{out}{err}");
        let (_, out, _) = run("what-can", &["--group", "staff"]);
        assert_eq!(out.matches(", where ").count(), 4, "{out}");
        let (_, out, _) = run("what-can", &[&["--group", "staff"], given].concat());
        assert_eq!(out.matches(", where ").count(), 3, "{out}");
        let zoe = ["--user", "zoe", "--group", "staff", "GET", path];
        let (_, out, _) = run("explain", &zoe);
        assert!(out.contains("\ndepends: "), "{out}");
        let (code, out, _) = run("explain", &[&zoe[..], given].concat());
        assert!(code == 0 && !out.contains("depends: "), "{out}");
    }
    let zoe = ["--user", "zoe", "--group", "staff", "GET", "/d"];
    let (code, out, _) = run("explain", &zoe);
    assert!(code == 1 && out.contains("\ndepends: claims.d (not given)"), "{out}");
    let (code, out, _) = run("explain", &[&zoe[..], &["--claims", "{\"d\":1}"]].concat());
    assert!(code == 0 && !out.contains("depends: "), "{out}");
    let zoe_may = ["--user", "zoe", "--group", "staff"];
    let (_, out, _) = run("what-can", &zoe_may);
    assert_eq!(out.matches(", where ").count(), 4, "{out}");
    let (_, out, _) = run("what-can", &[&zoe_may[..], &["--claims", "{\"d\":1}"]].concat());
    assert_eq!(out.matches(", where ").count(), 3, "{out}");
    let (code, _, err) = run("explain", &[&zoe[..], &["--claims", "[]"]].concat());
    assert!(code == 2 && err.contains("not a JSON object"), "{err}");
    let (code, _, err) = run("who-can", &["--time", "noon", "GET", "/a"]);
    assert!(code == 2 && err.contains("not a time"), "{err}");
}
