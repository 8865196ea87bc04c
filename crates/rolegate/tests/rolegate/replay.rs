//! `replay`: what another policy would change for recorded requests; `suggest`: a policy for them.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::process::{PolicyFolder, run_with};

const POLICY: &str = r#"version: 1
identity:
  basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] } } }
  jwt:
    - issuer: https://id.example.com
      audiences: [x]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, groups: groups }
      user_prefix: "id:"
roles:
  anyone: { allow: [GET /open] }
  reader: { allow: ["GET /reports/{id}"] }
  editor: { extends: [reader], allow: ["POST /reports"], deny: ["* /reports/locked"] }
grants:
  editor: { groups: [staff] }
"#;

fn line(decision: &str, why: &str, user: Value, method: &str, path: &str) -> String {
    let key = if decision == "allowed" { "rule" } else { "reason" };
    let mut line =
        json!({ "time": 1.0, "decision": decision, "method": method, "host": "a", "path": path });
    line[key] = why.into();
    line.as_object_mut().unwrap().extend(user.as_object().unwrap().clone());
    format!("{line}\n")
}

fn log() -> String {
    let ann = || json!({ "user": "ann", "groups": ["staff"] });
    let locked = json!({ "user": "ann", "groups": ["staff"], "rule": "editor: * /reports/locked" });
    let token =
        || json!({ "user": "id:bob", "issuer": "https://id.example.com", "groups": ["staff"] });
    [
        line("allowed", "anyone: GET /open", json!({}), "GET", "/open"),
        line("allowed", "reader: GET /reports/{id}", ann(), "GET", "/reports/1"),
        line("allowed", "reader: GET /reports/{id}", token(), "GET", "/reports/2"),
        line("denied", "denied", locked, "GET", "/reports/locked"),
        line("denied", "missing_credentials", json!({}), "POST", "/reports"),
        line("denied", "bad_password", json!({ "attempted_user": "ann" }), "GET", "/open"),
        line("denied", "invalid_path", json!({}), "GET", "/a%2Fb"),
    ]
    .concat()
}

fn replay(policy: &str, log: &str, more: &[&str]) -> (i32, String, String) {
    let folder = PolicyFolder::new(policy);
    run_with(&[&["replay", "-", "--policy", &folder.arg()][..], more].concat(), log)
}

#[test]
fn the_policy_that_decided_changes_nothing() {
    let (code, out, err) = replay(POLICY, &log(), &[]);
    let why = "the credentials were invalid, and the line does not have them";
    let names = "1 evaluated with the roles and groups in the log, for callers whose tokens may have more: if this policy takes more, \
                 run `rolegate diff` of both policies";
    let expected =
        format!("1 not evaluated, because {why}: line 6\n{names}\n0 of 7 decisions would change\n");
    assert_eq!((code, out), (0, expected), "{err}");
    let (_, out, _) = replay(POLICY, &log(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["not_evaluated"], json!([{ "why": why, "count": 1, "first_lines": [6] }]));
    assert_eq!(report["perhaps_more_roles"], 1);
    let none = POLICY.replace("sub, groups: groups }", "sub }");
    assert_ne!(none, POLICY);
    assert!(!replay(&none, &log(), &[]).1.contains(names), "no token gives a group");
}

#[test]
fn what_another_policy_changes_is_grouped() {
    let new = POLICY
        .replace("GET /reports/{id}", "GET /reports/1")
        .replace(", deny: [\"* /reports/locked\"]", "");
    let new = new.replace("GET /open", "GET|POST /**");
    let (code, out, _) = replay(&new, &log(), &[]);
    let expected = "now allowed: 1 GET (was: denied by editor: * /reports/locked; is: anyone: GET|POST /**)\n  callers: ann (1)\n  line 4: GET a/reports/locked\n\
        now allowed: 1 POST (was: missing_credentials; is: anyone: GET|POST /**)\n  callers: anonymous (1)\n  line 5: POST a/reports\n";
    assert!(code == 1 && out.starts_with(expected), "{out}");
    let (code, out, _) =
        replay(&POLICY.replace("/reports/{id}", "/reports/1"), &log(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["changes"], &report["lines"]), (1, &json!(1), &json!(7)), "{out}");
    let group = &report["groups"][0];
    assert_eq!(group["now_allowed"], false);
    assert_eq!(group["was"], "reader: GET /reports/{id}");
    assert_eq!(group["callers"], json!({ "id:bob of https://id.example.com": 1 }));
    assert_eq!(
        group["examples"],
        json!([{ "line": 3, "method": "GET", "host": "a", "path": "/reports/2" }])
    );
}

#[test]
fn a_caller_has_what_the_new_policy_takes_from_its_source() {
    for (from, to, is) in [
        (", groups: [staff] }", " }", "not_allowed"),
        ("ann: {", "eve: {", "bad_password"),
        (", groups: groups }", " }", "not_allowed"),
        ("- issuer: https://id", "- issuer: https://other", "unknown_issuer"),
    ] {
        let (code, out, err) = replay(&POLICY.replace(from, to), &log(), &[]);
        assert!(code == 1 && out.contains(&format!("is: {is})")), "{from}: {out}{err}");
    }
}

#[test]
fn lines_that_are_no_decisions_are_counted_and_named() {
    let mut lines = String::from("starting\n");
    for number in 0..20 {
        let _ = writeln!(lines, "{{\"number\": {number}}}");
    }
    lines += &format!("{}\n", "x".repeat(3 << 20));
    lines += "\n";
    lines += &log();
    let cut = line(
        "allowed",
        "reader: GET /reports/{id}",
        json!({ "inexact": true }),
        "GET",
        "/reports/1",
    );
    lines += &cut;
    let (code, out, _) = replay(POLICY, &lines, &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("22 not readable: line 1, 2, 3, 4, 5, 6, 7, 8, …\n"), "{out}");
    assert!(
        out.contains("1 not evaluated, because values were cut or replaced: line 31\n"),
        "{out}"
    );
    let (code, out, err) = replay(POLICY, "nothing\n", &[]);
    assert!(
        code == 2 && out.is_empty() && err.contains("`-` has no line of a decision log"),
        "{err}"
    );
}

/// The keys were missing: nothing was wrong with the credentials.
#[test]
fn a_line_without_keys_is_named_apart_from_invalid_credentials() {
    let unavailable = line("denied", "keys_unavailable", json!({}), "GET", "/reports/1");
    let (code, out, err) = replay(POLICY, &[log(), unavailable].concat(), &[]);
    let invalid = "1 not evaluated, because the credentials were invalid, and the line does not have them: line 6\n";
    let keys = "1 not evaluated, because there were no keys to verify the token, and the line does not have it: line 8\n";
    assert!(code == 0 && out.contains(invalid) && out.contains(keys), "{out}{err}");
}

#[test]
fn a_log_without_allowed_requests_is_warned_of() {
    let denied = log().lines().skip(3).map(|line| format!("{line}\n")).collect::<String>();
    for more in [&[][..], &["--output", "json"]] {
        let (code, out, err) = replay(POLICY, &denied, more);
        assert_eq!(code, 0, "{out}");
        assert!(
            err.contains("`-` has no allowed request") && err.contains("`--decision-log all`"),
            "{err}"
        );
        let (_, _, err) = replay(POLICY, &log(), more);
        assert_eq!(err, "");
    }
    let (_, out, _) = replay(POLICY, &denied, &["--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["allowed"], 0, "{out}");
}

/// Rules for them would have no effect, and what is missing for them is not a rule.
#[test]
fn requests_to_a_search_cluster_are_no_rules_but_permissions() {
    let cluster = |decision: &str, why: &str, path: &str, index: &str, more: Value| {
        let mut line: Value =
            serde_json::from_str(&line(decision, why, json!({ "user": "leo" }), "GET", path))
                .unwrap();
        line["actions"] = json!(["indices:data/read/search"]);
        line["indices"] = json!([index]);
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{line}\n")
    };
    let missing = json!({ "detail": "indices:data/read/search on salaries (not granted)" });
    let in_part = json!({ "detail": "permitted: logs-1 ; indices:data/read/search on salaries (not granted)" });
    let denied = [
        cluster("denied", "not_permitted", "/salaries/_search", "salaries", missing),
        cluster("denied", "partly_permitted", "/*/_search", "*", in_part),
    ];
    let allowed = [
        cluster("allowed", "search", "/logs-1/_search", "logs-1", json!({})),
        cluster("allowed", "search", "/logs-2/_search", "logs-2", json!({})),
        line("allowed", "cat.help", json!({ "user": "line\nbreak" }), "GET", "/_cat"),
    ];
    let by_rules = line("allowed", "anyone: GET /open", json!({}), "GET", "/open");
    let decided =
        "# The role files of the search cluster decide these requests, and no rule of a policy:\n";
    let lacks =
        "#   leo lacks, for 2 requests: indices:data/read/search on salaries (not granted)\n";
    let used = "#   leo used indices:data/read/search on logs-1, logs-2\n";
    let other = "#   line\\nbreak used no action on the cluster\n";
    let help = "# To permit what is missing, give a role of the caller the action in `roles.yml`: ";

    let (code, out, err) =
        run_with(&["suggest", "-"], &(by_rules + &allowed.concat() + &denied.concat()));
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("/open") && !out.contains("_search") && !out.contains("_cat"), "{out}");
    assert!(out.contains(&format!("{decided}{used}{lacks}{other}{help}")), "{out}");
    assert_eq!(run_with(&["check", &PolicyFolder::new(&out).arg()], "").0, 0, "{out}");

    let (code, out, err) = run_with(&["suggest", "-"], &allowed.concat());
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(out, format!("# No request was allowed by a rule.\n{decided}{used}{other}"));

    let (code, out, _) = run_with(&["suggest", "-", "--output", "json"], &denied.concat());
    let suggested: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &suggested["policy"]), (0, &Value::Null));
    assert_eq!(
        suggested["on_cluster"],
        json!([{ "user": "leo", "used": [],
                 "missing": [{ "permissions": "indices:data/read/search on salaries (not granted)", "requests": 2 }] }])
    );
}

/// Otherwise nobody would know that the policy lacks what these lines were about.
#[test]
fn masked_lines_are_left_out_of_a_suggestion_and_counted() {
    let line = |path: &str, more: &str| {
        format!(
            "{{\"decision\":\"allowed\",\"method\":\"GET\",\"host\":\"a\",\"path\":\"{path}\"{more}}}\n"
        )
    };
    let masked = line("/people", ",\"user\":\"hmac:x\",\"masked\":true,\"inexact\":true");
    let (code, out, err) = run_with(&["suggest", "-"], &(masked.clone() + &line("/open", "")));
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("/open")
            && out.contains("# left out, as they are cut or masked: 1 of the lines"),
        "{out}"
    );
    let (code, _, err) = run_with(&["suggest", "-"], "GET /a HTTP/1.1\n");
    assert!(code == 2 && err.contains("`-` has no line of a decision log"), "{err}");
    let (code, _, err) = run_with(&["suggest", "-"], &masked);
    assert_eq!(code, 2);
    assert!(err.contains("1 of its lines are cut or masked"), "{err}");
}

#[test]
fn a_suggested_policy_passes_the_check_and_changes_nothing() {
    let more: String = (1..9)
        .map(|id| line("allowed", "anyone: GET /open", json!({}), "GET", &format!("/a/{id}")))
        .collect();
    let denied = line("denied", "denied", json!({ "user": "eve", "rule": "x: y" }), "GET", "/a/3");
    let encoded = line("allowed", "anyone: GET /open", json!({}), "GET", "/b%3Fc");
    let log = log() + &more + &denied + &encoded;
    let (code, suggested, err) = run_with(&["suggest", "-"], &log);
    assert!(code == 0 && err.is_empty(), "{suggested}{err}");
    let folder = PolicyFolder::new(&suggested);
    let (code, out, _) = run_with(&["check", &folder.arg()], "");
    assert_eq!(code, 0, "{out}");
    let (code, out, err) = replay(&suggested, &log, &[]);
    assert_eq!(code, 0, "{suggested}{out}{err}");
    for rule in ["/open", "/reports/1", "/reports/2"] {
        assert!(suggested.contains(rule), "{suggested}");
    }
}

/// With the `identity` of a policy that lists roles, the suggested one would have errors: these
/// roles are not in it.
#[test]
fn a_suggestion_says_that_tokens_give_none_of_its_roles() {
    let gives = POLICY.replace(
        "groups: groups }",
        "groups: groups, roles: roles }\n      roles_from_token: [reader]",
    );
    let folder = PolicyFolder::new(&gives);
    let suggest = ["suggest", "-", "--policy", &folder.arg()];
    let (code, text, err) = run_with(&suggest, &log());
    let says = "write `roles_from_token: false`, because these roles are granted by name, for `https://id.example.com`.";
    assert!(code == 0 && text.contains(says), "{text}{err}");
    let (_, identity) = gives.split_once("identity:").unwrap();
    let (identity, _) = identity.split_once("roles:\n  anyone").unwrap();
    let with = |identity: &str| PolicyFolder::new(&format!("{text}identity:{identity}"));
    assert_ne!(run_with(&["check", &with(identity).arg()], "").0, 0);
    let followed = with(&identity.replace("[reader]", "false"));
    let (code, out, _) = run_with(&["check", &followed.arg()], "");
    assert_eq!(code, 0, "{out}");
    let none = PolicyFolder::new(&gives.replace("[reader]", "false"));
    let (_, text, _) = run_with(&["suggest", "-", "--policy", &none.arg()], &log());
    assert!(!text.contains("roles_from_token"), "{text}");
}

#[test]
fn a_suggestion_for_a_policy_with_prefixes_changes_nothing() {
    let token =
        |user: &str| json!({ "user": user, "issuer": "https://id.example.com", "groups": [] });
    let more = [
        line("allowed", "x: y", token("id:bob"), "GET", "/users/bob"),
        line("allowed", "x: y", token("id:eve"), "GET", "/users/eve"),
        line("denied", "not_allowed", token("id:eve"), "GET", "/users/bob"),
    ];
    let log = more.concat();
    let folder = PolicyFolder::new(POLICY);
    let (code, text, err) = run_with(&["suggest", "-", "--policy", &folder.arg()], &log);
    let rule = r#"paths: ["/users/{user.id}"], user_id_from: ["https://id.example.com"]"#;
    assert!(code == 0 && text.contains(rule), "{text}{err}");
    assert!(text.contains(r#"used-1: { users: ["id:bob", "id:eve"] }"#), "{text}");
    let (_, identity) = POLICY.split_once("identity:").unwrap();
    let (identity, _) = identity.split_once("roles:\n  anyone").unwrap();
    let (code, out, err) = replay(&format!("{text}identity:{identity}"), &log, &[]);
    assert_eq!(code, 0, "{text}{out}{err}");
}

#[test]
fn rules_that_decided_no_request_are_listed() {
    let folder = PolicyFolder::new(POLICY);
    let (code, out, _) =
        run_with(&["suggest", "-", "--policy", &folder.arg(), "--output", "json"], &log());
    let suggested: Value = serde_json::from_str(&out).unwrap();
    let unused: Vec<&str> = suggested["unused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unused| unused["rule"].as_str().unwrap())
        .collect();
    assert_eq!((code, unused), (0, vec!["editor: POST /reports"]), "{out}");
    let denied = line("denied", "not_allowed", json!({ "user": "ann" }), "GET", "/x");
    let (code, _, err) = run_with(&["suggest", "-"], &denied);
    assert!(code == 2 && err.contains("no allowed request"), "{err}");
    let unnamed = line("allowed", "anyone: * /x", json!({}), "get", "/x");
    let (code, _, err) = run_with(&["suggest", "-"], &unnamed);
    assert!(
        code == 2 && err.contains("a rule cannot name the method of 1 of its requests"),
        "{err}"
    );
    assert!(!err.contains("--decision-log all"), "{err}");
}

/// The users of a search cluster are its own, also beside issuers of the policy. Its decisions
/// depend on the query.
#[test]
fn a_request_to_a_search_cluster_is_evaluated_with_its_user_and_query() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { jwt: [ { issuer: \"https://id.example.com\", audiences: [search], user_prefix: \"id:\", \
         keys: { url: \"https://id.example.com/jwks\" } } ] }\nsearch: { folder: cluster }\n",
    );
    testbed::policies::copy(
        &testbed::repository().join("policies/search/cluster"),
        &folder.path().join("cluster"),
    )
    .unwrap();
    for (user, method, path, query, code, printed) in [
        ("nobody", "GET", "/_cat", "", 1, "now denied: 1 GET (was: index; is: bad_password)"),
        ("shipper", "PUT", "/logs-1/_doc/1", "", 0, "0 of 1"),
        // An ingest pipeline may write to any index: with it, this cluster denies the request.
        ("shipper", "PUT", "/logs-1/_doc/1", "pipeline=p", 0, "1 not evaluated, because a search"),
    ] {
        let caller = json!({ "user": user, "scheme": "basic", "query": query });
        let log = line("allowed", "index", caller, method, path);
        let (exit, out, err) = run_with(&["replay", "-", "--policy", &folder.arg()], &log);
        assert!(exit == code && out.starts_with(printed), "{out}{err}");
    }
}

/// A policy that has lost its `identity` lets nobody sign in.
#[test]
fn that_nobody_can_sign_in_is_said() {
    const NOBODY: &str = "the policy has no `identity`, so nobody can sign in";
    let policy =
        "version: 1\nroles: { r: { allow: [GET /open] } }\ngrants: { r: { users: [ann] } }\n";
    let by_ann = line("allowed", "r: GET /open", json!({ "user": "ann" }), "GET", "/open");
    let (code, _, err) = replay(policy, &by_ann, &[]);
    assert!(code == 0 && err.contains(NOBODY), "{err}");
    let (_, _, err) =
        replay(policy, &line("denied", "missing_credentials", json!({}), "GET", "/open"), &[]);
    assert!(!err.contains(NOBODY), "{err}");
    let folder = PolicyFolder::new(policy);
    for (command, more) in [("explain", &["GET", "/open"][..]), ("what-can", &[])] {
        let (code, out, _) =
            run_with(&[&[command, "--policy", &folder.arg(), "--user", "ann"], more].concat(), "");
        assert!(code == 0 && out.contains(NOBODY), "{out}");
    }
    let explained =
        |log: &str| run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], log);
    let (code, out, _) = explained(&by_ann);
    assert!(code == 0 && out.contains(NOBODY) && out.contains("same decision"), "{out}");
    let denied = |user: Value| line("denied", "not_allowed", user, "GET", "/other");
    let (code, out, _) = explained(&denied(json!({ "user": "ann" })));
    assert!(code == 1 && out.contains(NOBODY), "{out}");
    assert!(!explained(&denied(json!({}))).1.contains(NOBODY));
    let (code, out, err) = explained(&[by_ann, denied(json!({ "user": "ann" }))].concat());
    assert!(code == 0 && err.contains(NOBODY), "{out}{err}");
    assert!(out.contains("missing: a rule: none matches") && !out.contains(NOBODY), "{out}");
    let (_, out, err) = explained(&denied(json!({})).repeat(2));
    assert!(!err.contains(NOBODY), "{out}{err}");
    folder.write(
        "cases.yaml",
        "- { name: ann, request: { path: /open, user: ann }, expect: 200 }\n\
         - { name: anonymous, request: { path: /open }, expect: 401 }\n",
    );
    let (code, out, _) = run_with(&["test", &folder.arg()], "");
    assert!(code == 0 && out.contains("2 cases passed, 0 failed, 1 warning"), "{out}");
    assert!(out.contains(NOBODY), "{out}");
    folder
        .write("cases.yaml", "- { name: ann, request: { path: /open, user: ann }, expect: 403 }\n");
    let (code, out, _) = run_with(&["test", &folder.arg()], "");
    assert!(code == 4 && out.contains(NOBODY), "{out}");
}

const CONDITIONS: &str = r#"version: 1
identity:
  jwt: [{ issuer: "https://id.example.com", audiences: [x], keys: { url: "https://id.example.com/jwks" } }]
roles:
  anyone:
    allow:
      - { rule: GET /level, when: "request.headers['x-level'] == '2'" }
      - { rule: GET /early, when: "request.time < timestamp('2026-01-01T00:00:00Z')" }
  authenticated:
    allow: [{ rule: GET /tenant, when: "claims.tenant == 'a'" }]
"#;

/// What a rule of the new policy reads and the line does not have is not guessed.
#[test]
fn a_line_without_what_conditions_read_is_not_replayable() {
    let mut lines = String::new();
    let token = json!({ "user": "bob", "issuer": "https://id.example.com" });
    for (decision, why, more, path, inputs) in [
        (
            "allowed",
            "anyone: GET /level",
            json!({}),
            "/level",
            json!({ "values": { "request.headers['x-level']": "2" } }),
        ),
        (
            "denied",
            "missing_credentials",
            json!({ "rule": "anyone: GET /level" }),
            "/level",
            json!({ "absent": ["request.headers['x-level']"] }),
        ),
        ("allowed", "anyone: GET /level", json!({}), "/level", json!({})),
        ("allowed", "anyone: GET /early", json!({}), "/early", json!({})),
        (
            "allowed",
            "authenticated: GET /tenant",
            token.clone(),
            "/tenant",
            json!({ "values": { "claims.tenant": "a" } }),
        ),
        (
            "denied",
            "condition_failed",
            json!({ "user": "bob", "issuer": "https://id.example.com", "rule": "authenticated: GET /tenant" }),
            "/tenant",
            json!({ "values": { "claims.tenant": "b" } }),
        ),
        ("allowed", "authenticated: GET /tenant", token, "/tenant", json!({})),
    ] {
        let mut line: Value =
            serde_json::from_str(&self::line(decision, why, more, "GET", path)).unwrap();
        line["condition_inputs"] = inputs;
        writeln!(lines, "{line}").unwrap();
    }
    let (code, out, err) = replay(CONDITIONS, &lines, &[]);
    let expected = "1 not evaluated, because a condition reads `claims.tenant`, which the line does not have: line 7\n\
        1 not evaluated, because a condition reads `request.headers['x-level']`, which the line does not have: line 3\n\
        1 not evaluated, because a condition reads `request.time`, which the line does not have: line 4\n\
        0 of 7 decisions would change\n";
    assert_eq!((code, &*out), (0, expected), "{err}");

    let other = CONDITIONS.replace("== '2'", "== '3'").replace("x-level", "x-other");
    let (code, out, _) = replay(&other, &lines, &["--output", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let why = "a condition reads `request.headers['x-other']`, which the line does not have";
    let named = json!({ "why": why, "count": 3, "first_lines": [1, 2, 3] });
    assert_eq!((code, &report["without_caller"]), (0, &json!(5)), "{report}");
    assert!(report["not_evaluated"].as_array().unwrap().contains(&named), "{report}");

    let (code, out, _) = replay(&CONDITIONS.replace("== 'a'", "== 'b'"), &lines, &[]);
    assert!(code == 1 && out.contains("now denied: 1 GET (was: authenticated: GET /tenant; is: condition_failed by authenticated: GET /tenant)"), "{out}");
    assert!(out.contains("now allowed: 1 GET"), "{out}");

    let last = lines.lines().last().unwrap();
    let folder = PolicyFolder::new(CONDITIONS);
    let (_, out, err) = run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], last);
    assert!(out.contains("a condition reads `claims.tenant`, which the line"), "{out}{err}");
}
