//! `rolegate explain` with one request.

use crate::process::{PolicyFolder, example, run, run_with};

#[test]
fn explain_says_why() {
    let people = example("people");
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &people][..], more].concat());
    let (code, out, _) = explain(&["--basic", "alice:wonderland", "GET", "/people"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("guest: GET /people") && out.contains("policy.yaml:"), "{out}");
    let (code, out, _) = explain(&["--user", "alice", "POST", "http://example.com/people?x=1"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("example.com/people") && out.contains("missing: the role `admin`"),
        "{out}"
    );
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
    let explain =
        |more: &[&str]| run(&[&["explain", "--policy", &folder.arg()][..], more].concat());
    let (code, out, _) = explain(&["--user", "u", "--role", "a", "GET", "/a"]);
    assert!(code == 0 && out.contains("a (given by `--role`)"), "{out}");
    let (_, out, _) = explain(&["--user", "u", "--role", "c", "GET", "/a"]);
    assert!(out.contains("note:    the policy has no role `c`"), "{out}");
    assert_eq!(explain(&["--user", "u", "--group", "g", "GET", "/b"]).0, 0);
    assert_eq!(explain(&["--user", "u", "GET", "/b"]).0, 1);
    let two = [
        "--header",
        "authorization: Basic YTpi",
        "--header",
        "Authorization: Basic YTpi",
        "GET",
        "/a",
    ];
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
    let explain =
        |more: &[&str]| run(&[&["explain", "--policy", &folder.arg()][..], more].concat());
    let (code, out, err) = explain(&["--user", "b:carl", "GET", "/a"]);
    assert!(code == 0 && out.contains("caller:  b:carl, in b:staff\n"), "{out}{err}");
    let (code, out, _) = explain(&["--user", "b:carl", "--group", "b:stuff", "GET", "/a"]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("note:    the policy has no group `b:stuff`: did you mean `b:staff`?\n"),
        "{out}"
    );
    for command in ["explain", "what-can"] {
        let request: &[&str] = if command == "explain" { &["GET", "/a"] } else { &[] };
        let carl = [command, "--policy", &folder.arg(), "--user", "carl"];
        let (code, out, err) = run(&[&carl[..], request].concat());
        let why = "no source has a user `carl`: did you mean `b:carl`?";
        assert!(code == 2 && out.is_empty() && err.contains(why), "{command}: {out}{err}");
    }
}

/// Beside Basic users without a prefix, the name of a token's user may lack its own.
#[test]
fn explain_offers_the_names_of_issuers_for_a_user_that_basic_does_not_have() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  basic: { users: { alice: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } }\n  \
         jwt: [{ issuer: \"https://k.example\", audiences: [a], keys: { url: \"https://k.example/keys\" }, user_prefix: \"kc:\" }]\n\
         roles: { reader: { allow: [GET /a] } }\ngrants: { reader: { users: [alice, \"kc:kim\"] } }\n",
    );
    let explain =
        |user: &str| run(&["explain", "--policy", &folder.arg(), "--user", user, "GET", "/a"]);
    let (code, out, err) = explain("kim");
    assert_eq!(code, 1, "{out}{err}");
    let note = "note:    Basic has no user `kim`; the user of a token of `https://k.example` is `kc:kim`\n";
    assert!(out.contains(note), "{out}");
    let (_, out, _) = explain("alicee");
    assert!(
        out.contains("note:    the policy has no user `alicee`: did you mean `alice`?\n"),
        "{out}"
    );
    assert_eq!(explain("kc:kim").0, 0);
}

#[test]
fn explain_names_the_roles_that_extend_the_missing_one_and_would_do() {
    let folder = PolicyFolder::new(
        "version: 1\nroles:\n  viewer: { allow: [GET /a] }\n  editor: { extends: [viewer], allow: [POST /a] }\n  \
         admin: { extends: [editor] }\n  banned: { extends: [viewer], deny: [\"* /**\"] }\n  authenticated: { allow: [GET /b] }\n\
         grants: { admin: { groups: [staff] } }\n",
    );
    let explain = |request: [&str; 2]| {
        run(&[&["explain", "--policy", &folder.arg(), "--user", "u"][..], &request].concat()).1
    };
    let out = explain(["GET", "/a"]);
    assert!(
        out.contains(
            "missing: the role `viewer`, or `editor`, `admin`, which extend it, by `viewer: "
        ),
        "{out}"
    );
    let out = explain(["POST", "/a"]);
    assert!(
        out.contains("missing: the role `editor`, or `admin`, which extends it, by `editor: "),
        "{out}"
    );
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
    let explain = |user: &str| {
        run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], &line(user))
    };
    let (code, out, err) = explain("carl");
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        out.contains("because: the line names `carl`, and the policy has no such user\n"),
        "{out}"
    );
    assert!(
        out.contains("note:    no source has a user `carl`: did you mean `b:carl`?\n"),
        "{out}"
    );
    assert_eq!(explain("b:carl").0, 0);
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
        let (code, out, err) =
            run(&["explain", "--policy", &folder.arg(), "--bearer", given, "GET", "/a"]);
        assert!(code != 0 && err.contains(said) && !err.contains("a.b.c"), "{given}: {out}{err}");
    }
}

#[test]
fn explain_says_what_an_argument_lacks() {
    let people = example("people");
    let explain = |more: &[&str]| run(&[&["explain", "--policy", &people][..], more].concat());
    let (code, _, err) = explain(&["/people"]);
    assert!(code == 2 && err.contains("write one before the path, such as `GET /people`"), "{err}");
    for (method, meant) in [
        ("GET|POST", "did you mean `GET`?"),
        ("GET,POST", "did you mean `GET`?"),
        ("*", "such as `GET`"),
    ] {
        for command in ["explain", "who-can"] {
            let (code, out, err) = run(&[command, "--policy", &people, method, "/people"]);
            assert!(
                code == 2 && out.is_empty() && err.contains("a request has one method"),
                "{err}"
            );
            assert!(err.contains(meant), "{err}");
        }
    }
    let (code, _, err) = explain(&["--bearer", "Bearer eyJ", "GET", "/people"]);
    assert!(code == 2 && err.contains("without `Bearer `") && !err.contains("eyJ"), "{err}");
    let file = format!("{people}/policy.yaml");
    let (code, _, err) = explain(&["--bearer", &file, "GET", "/people"]);
    assert!(code == 2 && err.contains("`--bearer - < FILE` reads"), "{err}");
}

#[test]
fn a_fix_names_the_lines_and_whom_else_it_lets_in() {
    let people = example("people");
    let fix = |more: &[&str]| run(&[&["explain", "--fix", "--policy", &people][..], more].concat());
    let (code, out, err) = fix(&["--user", "alice", "POST", "/people"]);
    let (_, fixes) = out.split_once("\nfix:").unwrap_or_else(|| panic!("{out}{err}"));
    let fixes = format!("fix:{}", fixes.replace(&format!("{people}/"), ""));
    assert_eq!((code, &*fixes), (1, include_str!("explain_fix.txt")));
    let (_, out, _) =
        fix(&["--user", "alice", "--output", "json", "GET", "http://a.test/people/7"]);
    let explanation: serde_json::Value = serde_json::from_str(&out).unwrap();
    let proposal = &explanation["fixes"]["proposals"][0];
    assert_eq!(proposal["line"], 15);
    assert_eq!(proposal["added"][0], "    allow: [\"GET a.test/people/7\", \"GET /people\"]");
    assert_eq!(proposal["lets_in"][0]["users"], serde_json::json!(["bob"]));
    for (more, needed) in [
        (&["POST", "/people"][..], "credentials: the request has none"),
        (&["--basic", "alice:wrong", "POST", "/people"], "valid credentials: "),
        (&["--user", "alice", "POST", "/people%2F1"], "a valid request: "),
        (&["--user", "bob", "POST", "/people"], "nothing: the request is allowed"),
    ] {
        let (_, out, _) = fix(more);
        let has_fix = out.contains("\nfix:");
        assert!(!has_fix && out.contains(&format!("\nneeded:  {needed}")), "{out}");
    }
}

/// A grant to the hash of a masked user would be a grant to nobody, or to whoever has this name.
#[test]
fn a_fix_needs_a_line_that_is_whole() {
    let people = example("people");
    let fix = |line: &str| run_with(&["explain", "--fix", "--decision", "-", &people], line);
    let line = r#"{"decision":"denied","reason":"not_allowed","user":"alice","method":"POST","host":"h.test","path":"/people"}"#;
    let (_, out, err) = fix(line);
    assert!(out.contains("\nfix:     grant the role `admin` to the user `alice`"), "{out}{err}");
    let masked = line.replace("\"host\"", "\"inexact\":true,\"masked\":true,\"host\"");
    let (_, out, _) = fix(&masked);
    assert!(!out.contains("\nfix:") && out.contains("\nneeded:  the actual request: "), "{out}");
    let (code, _, err) = fix(&format!("{line}\n{line}\n"));
    assert!(code == 2 && err.contains("`--fix` is for one line"), "{err}");
}
