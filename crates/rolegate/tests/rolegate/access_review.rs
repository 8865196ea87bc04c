//! `access-review`: what of a policy was used, according to logs.

use serde_json::{Value, json};

use crate::process::{PolicyFolder, run_with};

const POLICY: &str = r#"version: 1
identity:
  basic:
    users:
      ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] }
      bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
  jwt:
    - issuer: https://id.example.com
      audiences: [x]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, groups: groups, roles: roles }
      roles_from_token: [auditor]
      user_prefix: "id:"
roles:
  anyone: { allow: [GET /open] }
  reader: { allow: ["GET /reports/{id}"] }
  editor:
    extends: [reader]
    allow:
      - "POST /reports"
      - { methods: [DELETE], paths: ["/reports/{id}"], when: "claims.level > 3" }
    deny: ["* /reports/locked"]
  auditor: { allow: [{ name: "audit | *all*", methods: [GET], paths: ["/audit"] }] }
grants:
  editor: { groups: [staff] }
  reader: { users: [bob, eve, "id:dan"], groups: [guests] }
"#;

const ISSUER: &str = "https://id.example.com";

fn line(time: f64, rule: &str, caller: Value) -> String {
    let mut line = json!({
        "version": 1, "time": time, "decision": "allowed", "rule": rule, "method": "GET",
        "host": "a", "path": "/", "policy": "other",
    });
    line.as_object_mut().unwrap().extend(caller.as_object().unwrap().clone());
    format!("{line}\n")
}

fn ann() -> Value {
    json!({ "user": "ann", "scheme": "basic", "groups": ["staff"] })
}

fn log() -> String {
    let token =
        json!({ "user": "id:dan", "issuer": ISSUER, "scheme": "bearer", "roles": ["auditor"] });
    [
        line(1_790_000_000.5, "reader: GET /reports/{id}", ann()),
        line(1_790_000_100.0, "reader: GET /reports/{id}", json!({ "user": "bob", "scheme": "basic" })),
        line(1_790_000_200.0, "editor: POST /reports", ann()),
        line(1_790_086_400.0, "auditor: audit | *all*", token),
        line(1_790_000_300.0, "old: GET /gone", ann()),
        "{\"timestamp\":\"2026-09-21T12:00:00Z\",\"message\":\"the shadow policy would allow a request that is denied\",\
         \"shadow_rule\":\"editor: DELETE /reports/{id}\"}\n"
            .to_owned(),
        "{\"time\":1790000400.0,\"decision\":\"denied\",\"reason\":\"denied\",\"rule\":\"editor: * /reports/locked\"}\n"
            .to_owned(),
    ]
    .concat()
}

fn review(log: &str, more: &[&str]) -> (i32, String, String) {
    let folder = PolicyFolder::new(POLICY);
    let (code, out, err) =
        run_with(&[&["access-review", "--policy", &folder.arg(), "-"][..], more].concat(), log);
    let out = out.replace(&folder.arg(), "");
    (code, out, err)
}

#[test]
fn what_nobody_used_comes_first() {
    let (code, out, err) = review(&log(), &[]);
    assert_eq!(code, 0, "{err}");
    let revision = out.lines().find(|line| line.starts_with("policy:")).unwrap().to_owned();
    let out = out.replace(&revision, "policy:  REVISION").replace("/policy.yaml", "policy.yaml");
    assert_eq!(out, include_str!("access_review.txt"));
}

#[test]
fn a_rule_with_a_claim_is_for_tokens_only() {
    let policy = POLICY.replace("[GET /open]", "[\"GET /open/{claims.tenant}\"]");
    let folder = PolicyFolder::new(&policy);
    let (code, out, err) = run_with(&["access-review", "--policy", &folder.arg(), "-"], &log());
    assert_eq!(code, 0, "{err}");
    let (_, who) = out.split_once("rule `anyone: GET /open/{claims.tenant}`").unwrap();
    let who: Vec<&str> = who.lines().skip(1).take_while(|line| line.starts_with("    ")).collect();
    assert_eq!(who, ["      any token of https://id.example.com"], "{out}");
}

#[test]
fn markdown_is_for_the_owners() {
    let (_, out, _) = review(&log(), &["--output", "markdown"]);
    let out: Vec<String> = out
        .lines()
        .filter(|line| !line.starts_with("* policy"))
        .map(|line| line.replace("/policy.yaml", "policy.yaml"))
        .collect();
    assert_eq!(out.join("\n") + "\n", include_str!("access_review.md"));
}

#[test]
fn csv_has_a_line_for_each_grant_and_rule() {
    let (_, out, err) = review(&log(), &["--output", "csv"]);
    let out = out.replace("/policy.yaml", "policy.yaml");
    assert_eq!(out.replace("\r\n", "\n"), include_str!("access_review.csv"));
    assert_eq!(out.matches('\n').count(), out.matches("\r\n").count());
    assert!(err.contains("5 of the lines were decided by other revisions"), "{err}");
}

fn json_of(log: &str, more: &[&str]) -> Value {
    let (code, out, err) = review(log, &[&["--output", "json"][..], more].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

fn row(report: &Value, name: &str) -> Value {
    let mut rows =
        report["unused"].as_array().unwrap().iter().chain(report["used"].as_array().unwrap());
    rows.find(|row| row["name"] == name).unwrap().clone()
}

#[test]
fn samples_are_estimates_and_show_nothing_unused() {
    let mut half = ann();
    half["sampled"] = 0.25.into();
    let log = [line(1.0, "editor: POST /reports", half), log()].concat();
    let report = json_of(&log, &[]);
    let post = row(&report, "POST /reports");
    assert_eq!(
        (&post["uses"], &post["is_estimated"], &post["callers"]),
        (&json!(5), &json!(true), &json!(1))
    );
    assert_eq!(row(&report, "group guests")["status"], "not_in_sample");
    assert!(!review(&log, &[]).1.contains(": unused"));
    for bad in [json!(0.0), json!(-1.0), json!(7.5)] {
        let mut wrong = ann();
        wrong["sampled"] = bad;
        let report = json_of(&line(1.0, "editor: POST /reports", wrong), &[]);
        assert_eq!(row(&report, "POST /reports")["uses"], 1);
    }
}

#[test]
fn masked_users_use_no_grants_to_users() {
    let hashed =
        json!({ "user": "hmac:0123", "scheme": "basic", "masked": true, "groups": ["staff"] });
    let dropped = json!({ "scheme": "basic", "masked": true });
    let path = json!({ "user": "bob", "scheme": "basic", "masked": true });
    let rule = "reader: GET /reports/{id}";
    let log = [line(1.0, rule, hashed), line(2.0, rule, dropped)].concat();
    let report = json_of(&log, &[]);
    assert_eq!(row(&report, "group staff")["uses"], 1);
    assert_eq!(row(&report, "user bob")["status"], "not_seen_masked");
    assert_eq!(row(&report, "group guests")["status"], "unused");
    let used = row(&report, "GET /reports/{id}");
    assert_eq!(
        (&used["uses"], &used["callers"], &used["has_more_callers"]),
        (&json!(2), &json!(1), &json!(true))
    );
    // A masked path leaves the user as it is.
    let report = json_of(&[log, line(3.0, rule, path)].concat(), &[]);
    assert_eq!(row(&report, "user bob")["uses"], 1);
}

#[test]
fn a_period_begins_with_its_first_day() {
    let report = json_of(&log(), &["--since", "2026-09-22"]);
    assert_eq!((&report["log"]["lines"], &report["log"]["before"]), (&json!(1), &json!(5)));
    assert_eq!(row(&report, "group staff")["status"], "unused");
    let (code, _, err) = review(&log(), &["--since", "2027-01-01"]);
    assert!(code == 2 && err.contains("no line is of the period"), "{err}");
    let (code, _, err) = review(&log(), &["--since", "yesterday"]);
    assert!(code == 2 && err.contains("not a date"), "{err}");
}

/// Otherwise the default log, which has denials only, would take everything away.
#[test]
fn a_log_without_allowed_requests_is_an_error() {
    let denied = "{\"time\":1.0,\"decision\":\"denied\",\"reason\":\"not_allowed\"}\n";
    let (code, out, err) = review(denied, &[]);
    assert!(code == 2 && out.is_empty() && err.contains("`--decision-log all`"), "{err}");
    let (code, _, err) = review("nothing\n", &[]);
    assert!(code == 2 && err.contains("has no line of a decision log"), "{err}");
    let (code, _, err) = review(&log(), &["-"]);
    assert!(code == 2 && err.contains("given twice"), "{err}");
}

#[test]
fn requests_to_a_search_cluster_are_not_reviewed() {
    let search =
        json!({ "user": "id:dan", "issuer": ISSUER, "actions": ["read"], "roles": ["logs"] });
    let log = [log(), line(5.0, "search", search)].concat();
    let report = json_of(&log, &[]);
    assert_eq!(report["cluster_roles"][0]["name"], "logs");
    assert!(
        report["notes"].to_string().contains("1 of the lines are requests to a search cluster")
    );
}
