//! The commands about requests to a search cluster.

use serde_json::json;

use crate::process::{PolicyFolder, example, run, run_with};

fn explain(more: &[&str]) -> (i32, String, String) {
    run(&[&["explain", "--policy", &example("search"), "--user", "leo"][..], more].concat())
}

const NO_BODY: &str = "note:    the permissions for this operation depend on its body, which counts as empty: set it by `--body`";

#[test]
fn explain_takes_a_body() {
    let (code, out, _) = explain(&["GET", "/logs-2026-11/_search"]);
    assert_eq!((code, out.contains(NO_BODY)), (0, true), "{out}");
    let body =
        r#"{"query": {"terms": {"user": {"index": "salaries", "id": "1", "path": "names"}}}}"#;
    let folder = PolicyFolder::new("version: 1\n");
    folder.write("body.json", body);
    for given in [body.to_owned(), format!("@{}/body.json", folder.arg())] {
        let (code, out, _) = explain(&["--body", &given, "GET", "/logs-2026-11/_search"]);
        assert_eq!((code, out.contains(NO_BODY)), (1, false), "{out}");
        assert!(out.contains("missing: indices:data/read/get on salaries (not granted)"), "{out}");
    }
    let from_input = [
        "explain",
        "--policy",
        &example("search"),
        "--user",
        "leo",
        "--body",
        "-",
        "POST",
        "/_bulk",
    ];
    let (code, out, _) = run_with(&from_input, "{\"index\": {\"_index\": \"salaries\"}}\n{}\n");
    assert!(
        code == 1 && out.contains("indices:data/write/index on salaries (not granted)"),
        "{out}"
    );
    let (_, out, _) =
        explain(&["--body", "{}", "--content-type", "text/plain", "GET", "/logs-1/_search"]);
    assert!(out.contains("(unsupported_operation)"), "{out}");
    let (code, _, err) = explain(&["--body", "@/nowhere/body", "GET", "/"]);
    assert!(code == 2 && err.contains("cannot read the body `@/nowhere/body`"), "{err}");
    for (inputs, is_read_twice) in [
        (["--basic", "-", "--body", "-"], true),
        (["--api-key", "-", "--body", "@-"], true),
        (["--basic", "@-", "--body", "-"], false),
    ] {
        let search = example("search");
        let explain = ["explain", "--policy", &search, "GET", "/"];
        let (code, _, err) = run_with(&[&explain[..], &inputs].concat(), "");
        let is_refused = code == 2 && err.contains("standard input is read once");
        assert_eq!(is_refused, is_read_twice, "{inputs:?}: {code} {err}");
    }
}

/// Without its body, an update is read as one with a script, and the deletion of points in time as
/// one of some only.
#[test]
fn that_the_body_of_an_update_decides_is_said() {
    const INEXACT: &str = "inexact: the operation depends on the body";
    let update = ["POST", "/orders-leo/_update/1"];
    for request in [update, ["DELETE", "/_search/point_in_time"]] {
        let (_, out, _) = explain(&request);
        assert!(out.contains(NO_BODY), "{out}");
        let (_, out, _) = explain(&[&request[..], &["--body", "{}"]].concat());
        assert!(!out.contains("depends on its body"), "{out}");
        let who_can = |more: &[&str]| {
            run(&[&["who-can", "--policy", &example("search")][..], &request, more].concat()).1
        };
        let out = who_can(&[]);
        assert!(out.contains("note:    the permissions for this operation depend on"), "{out}");
        let out = who_can(&["--body", "{}"]);
        assert!(!out.contains("depends on its body"), "{out}");
        let [method, path] = request;
        let line = format!(
            r#"{{"decision":"denied","reason":"not_permitted","user":"leo","groups":["oncall"],"method":"{method}","host":"localhost","path":"{path}"}}"#
        );
        let of_line = |more: &[&str]| {
            let args = ["explain", "--policy", &example("search"), "--decision", "-"];
            run_with(&[&args[..], more].concat(), &line).1
        };
        let out = of_line(&[]);
        assert!(out.contains(INEXACT), "{out}");
        let out = of_line(&["--body", "{}"]);
        assert!(!out.contains("inexact"), "{out}");
    }
}

#[test]
fn explain_says_so_if_a_logged_decision_depends_on_a_body() {
    let explain = |line: &str, more: &[&str]| {
        let args = ["explain", "--policy", &example("search"), "--decision", "-"];
        run_with(&[&args[..], more].concat(), line)
    };
    let line = r#"{"decision":"denied","reason":"not_permitted","actions":["indices:data/write/bulk","indices:data/write/index"],"indices":["salaries"],"user":"leo","groups":["oncall"],"method":"POST","host":"localhost","path":"/_bulk"}"#;
    let (code, out, _) = explain(line, &[]);
    assert_eq!(code, 1);
    assert!(out.contains("inexact: the operation depends on the body"), "{out}");
    assert!(
        out.contains(
            "it needed indices:data/write/bulk, indices:data/write/index\n         on salaries"
        ),
        "{out}"
    );
    let body = "{\"index\": {\"_index\": \"salaries\"}}\n{}\n";
    let (_, out, _) = explain(line, &["--body", body]);
    assert!(
        out.contains("logged:  same decision as in the log") && !out.contains("inexact"),
        "{out}"
    );
    let line = r#"{"decision":"denied","reason":"not_permitted","user":"leo","groups":["oncall"],"method":"GET","host":"localhost","path":"/_stats","query":"index=salaries"}"#;
    let (_, out, _) = explain(line, &[]);
    assert!(out.contains("same decision as in the log") && !out.contains("inexact"), "{out}");
    let line = r#"{"decision":"allowed","rule":"indices.get","user":"leo","groups":["admins"],"method":"GET","host":"localhost","path":"/salaries"}"#;
    let (code, out, _) = explain(line, &[]);
    assert!(code == 0 && out.contains("logged:  same decision as in the log"), "{out}");
}

#[test]
fn explain_knows_the_names_of_the_cluster() {
    let run =
        |more: &[&str]| run(&[&["explain", "--policy", &example("search")][..], more].concat());
    let (code, out, _) = run(&["--user", "lea", "GET", "/logs-1/_search"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("(bad_password)") && out.contains("no user `lea`: did you mean `leo`?"),
        "{out}"
    );
    let (_, out, _) = run(&["--user", "leo", "--group", "admin", "GET", "/logs-1/_search"]);
    assert!(out.contains("mapped from the backend role `admin`: did you mean `admins`?"), "{out}");
}

#[test]
fn who_can_lists_users_of_the_cluster() {
    let who_can = |more: &[&str]| {
        let args = ["who-can", "--policy", &example("search"), "--host", "search.example.com"];
        run(&[&args[..], more].concat())
    };
    let (code, out, _) = who_can(&["GET", "/logs-*/_search"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("the users `ann` and `leo` by Basic\n"), "{out}");
    assert!(
        out.contains(
            "needs:   indices:data/read/search on logs-*, which stands for logs-2026-10, logs-2026-11\nnote:    the \
             permissions for this operation depend"
        ),
        "{out}"
    );
    let (code, out, _) = who_can(&["POST", "/_bulk"]);
    assert!(code == 1 && out.contains("(invalid_operation)"), "{out}");
    let body = "{\"index\": {\"_index\": \"logs-1\"}}\n{}\n";
    let (code, out, _) = who_can(&["--body", body, "POST", "/_bulk"]);
    assert!(code == 0 && out.starts_with("the users `ann` and `shipper` by Basic\n"), "{out}");
    let (_, out, _) = who_can(&["--output", "json", "GET", "/salaries/_doc/1"]);
    let who: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(who["callers"][0]["users"], serde_json::json!(["ann"]));
    assert_eq!(who["cluster"]["operation"], "get");
}

#[test]
fn what_can_lists_the_permissions_of_the_cluster() {
    let what_can = |more: &[&str]| {
        let args = ["what-can", "--policy", &example("search"), "--host", "search.example.com"];
        run(&[&args[..], more].concat())
    };
    let (code, out, _) = what_can(&["--user", "leo"]);
    assert_eq!(code, 0);
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [
            "caller:  leo, with the backend roles oncall",
            "roles:   logs_reader (mapped from the backend role `oncall`)",
            "roles:   own_orders (mapped from the user `*`)",
            "allows:  cluster_composite_ops_ro on the cluster (`logs_reader`)",
            "allows:  read on logs-* (`logs_reader`)",
            "allows:  crud on orders-leo (`own_orders`)",
        ]
    );
    let (code, out, _) = what_can(&["--role", "ingest"]);
    assert!(
        code == 0
            && out.contains(
                "allows:  write, create_index, indices:admin/mapping/put on logs-* (`ingest`)"
            )
    );
    let (_, out, _) = what_can(&["--group", "admins"]);
    assert!(out.contains("allows:  * on * (`all_access`)"), "{out}");
    let (code, out, _) = what_can(&[]);
    assert!(
        code == 1 && out.contains("nothing: no role of the search cluster allows anything"),
        "{out}"
    );
    let (code, _, err) = what_can(&["--role", "ingst"]);
    assert!(code == 2 && err.contains("the search cluster has no role `ingst`"), "{err}");
    assert_eq!(what_can(&["--user", "nobody"]).0, 1);
}

/// Without a host, what the cluster's roles allow is not listed among the rules, whatever the names
/// of its hosts are.
#[test]
fn what_can_without_a_host_lists_rules_and_names_the_hosts_of_the_cluster() {
    let (code, out, err) = run(&["what-can", "--policy", &example("search"), "--user", "leo"]);
    assert!(code == 1 && !out.contains("logs-*"), "{out}{err}");
    assert!(
        out.contains("note:    the search cluster's own roles decide on `search.example.com`, `localhost`: see `--host`"),
        "{out}"
    );
}

/// Names of indices are decoded, and operators read them in a terminal.
#[test]
fn what_a_terminal_obeys_is_escaped() {
    let path = "/q%0Aneeds:%1B%5B2J%C2%9B/_search";
    let (_, out, _) = explain(&["GET", path]);
    let line = json!({ "decision": "denied", "reason": "missing_credentials", "method": "GET", "host": "localhost", "path": path });
    let log = format!("{line}\n{line}\n");
    let of_log = |log: &str| {
        run_with(&["explain", "--policy", &example("search"), "--decision", "-"], log).1
    };
    let who = run(&["who-can", "--policy", &example("search"), "GET", path]).1;
    for out in [out, of_log(&line.to_string()), of_log(&log), who] {
        let obeyed = |character: char| character.is_control() && character != '\n';
        assert!(!out.contains(obeyed), "{out:?}");
        assert!(!out.lines().any(|line| line.starts_with("needs:\\")), "{out}");
    }
}
