//! `explain --decision` with a whole log: its denials, and what is missing for each.

use std::fs;

use serde_json::Value;

use crate::process::{PolicyFolder, run, run_with};

const POLICY: &str = "version: 1
identity: { basic: { verify: false } }
roles:
  viewer: { allow: [GET /people], deny: [\"* /people/secret\"] }
  admin: { allow: [\"* /people/**\"] }
grants: { viewer: { users: [ann] }, admin: { users: [root] } }
";

fn line(reason: &str, user: &str, method: &str, path: &str) -> String {
    let decision = if reason.is_empty() { "allowed" } else { "denied" };
    let reason =
        if reason.is_empty() { String::new() } else { format!("\"reason\":\"{reason}\",") };
    let user = if user.is_empty() { String::new() } else { format!("\"user\":\"{user}\",") };
    format!(
        "{{\"decision\":\"{decision}\",{reason}{user}\"method\":\"{method}\",\"host\":\"h\",\"path\":\"{path}\"}}\n"
    )
}

fn explain(log: &str, more: &[&str]) -> (i32, String, String) {
    let folder = PolicyFolder::new(POLICY);
    run_with(&[&["explain", "--policy", &folder.arg(), "--decision", "-"], more].concat(), log)
}

fn log() -> String {
    [
        line("", "ann", "GET", "/people"),
        line("not_allowed", "bob", "GET", "/people"),
        "not a decision\n".to_owned(),
        line("not_allowed", "eve", "POST", "/people/1"),
        line("not_allowed", "eve", "POST", "/people/1"),
        line("not_allowed", "ann", "POST", "/people/1"),
        line("not_allowed", "eve", "GET", "/nowhere"),
        line("not_allowed", "ann", "GET", "/people"),
        line("bad_password", "", "GET", "/a"),
        line("bad_password", "", "GET", "/b"),
    ]
    .concat()
}

#[test]
fn the_denials_of_a_log_are_grouped_with_what_is_missing_the_most_frequent_first() {
    let (code, out, err) = explain(&log(), &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let groups: Vec<&str> =
        out.lines().filter(|line| line.contains(" × ")).map(str::trim_start).collect();
    assert_eq!(
        groups,
        [
            "3 × POST h/people/1: not_allowed, first in line 4 (by eve)",
            "2 × GET h/people: not_allowed, first in line 2 (by bob)",
            "2 × bad_password, first in line 9",
            "1 × GET h/nowhere: not_allowed, first in line 7, by eve",
        ],
        "{out}"
    );
    for part in [
        "missing: the role `admin`, by ",
        "missing: the role `viewer`, by ",
        "policy.yaml:4:",
        "missing: a rule: none matches\n",
        "9 decisions, 8 denied\n",
        "not decisions: 1 line\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
}

#[test]
fn what_this_policy_decides_otherwise_is_said() {
    let log = line("not_allowed", "root", "POST", "/people/1").repeat(2);
    let (code, out, _) = explain(&log, &[]);
    assert!(code == 0 && out.contains("here:    200 allowed\n"), "{out}");
    let denied = line("denied", "ann", "GET", "/people/secret").repeat(2);
    let (_, out, _) = explain(&denied, &[]);
    assert!(out.contains("rule:    ") && out.contains("* /people/secret"), "{out}");
}

/// A token without roles is another cause than a user who may not.
#[test]
fn callers_from_elsewhere_are_a_group_of_their_own() {
    let of_issuer = |more: &str| {
        let issuer = format!("\"user\":\"eve\",\"issuer\":\"https://id.example\"{more}");
        line("not_allowed", "eve", "GET", "/people").replace("\"user\":\"eve\"", &issuer)
    };
    let log = [
        line("not_allowed", "eve", "GET", "/people"),
        of_issuer(""),
        of_issuer(",\"roles\":[\"guest\"]"),
        line("not_allowed", "bob", "GET", "/people"),
    ];
    let (_, out, err) = explain(&log.concat(), &[]);
    let groups: Vec<&str> =
        out.lines().filter(|line| line.contains(" × ")).map(str::trim_start).collect();
    assert_eq!(
        groups,
        [
            "2 × GET h/people: not_allowed, first in line 1 (by eve)",
            "1 × GET h/people: not_allowed, first in line 2, by eve of https://id.example",
            "1 × GET h/people: not_allowed, first in line 3, by eve of https://id.example",
        ],
        "{out}{err}"
    );
}

#[test]
fn only_the_first_groups_are_shown_and_the_others_counted() {
    let some: String =
        (0..25).map(|number| line("not_allowed", "ann", "GET", &format!("/x/{number}"))).collect();
    let (code, out, _) = explain(&some, &[]);
    assert_eq!((code, out.matches(" × ").count()), (0, 20), "{out}");
    assert!(out.contains("and 5 denials of other requests\n"), "{out}");
    let (_, out, _) = explain(&some, &["--output", "json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (shown["groups"].as_array().unwrap().len(), &shown["other_denials"]),
        (20, &5.into()),
        "{out}"
    );
    assert_eq!((&shown["decisions"], &shown["denied"]), (&25.into(), &25.into()), "{out}");
    assert_eq!(shown["groups"][0]["first_line"], 1, "{out}");
}

/// It is not kept in memory.
#[test]
fn a_log_may_be_longer_than_a_line_may_be() {
    let folder = PolicyFolder::new(POLICY);
    let file = folder.path().join("denied.log");
    fs::write(&file, line("not_allowed", "eve", "GET", "/people").repeat(20_000)).unwrap();
    let (code, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--decision", &file.display().to_string()]);
    assert!(code == 0 && out.contains("20000 × GET h/people"), "{out}{err}");
}

#[test]
fn a_log_without_denials_or_without_decisions_is_said() {
    let (code, out, _) = explain(&line("", "ann", "GET", "/people").repeat(2), &[]);
    assert!(code == 0 && out.contains("2 decisions, 0 denied\n"), "{out}");
    let (code, out, err) = explain("one\ntwo\n", &[]);
    assert!(
        code == 2 && out.is_empty() && err.contains("has no line of rolegate's decision log"),
        "{out}{err}"
    );
}

/// A log of denials suggests nothing, and there is a command that takes it.
#[test]
fn suggest_names_the_command_for_denials() {
    let (code, _, err) = run_with(&["suggest", "-"], &line("not_allowed", "ann", "GET", "/x"));
    let help = "write the log with `--decision-log all`; for permissions that are missing: `rolegate explain --policy POLICY --decision LOG`";
    assert!(code == 2 && err.contains(help), "{err}");
}
