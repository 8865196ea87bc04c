//! The contents of a `cases.yaml`, and the messages for a broken one.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use policy::cases::{Case, Credentials, parse};
use serde_json::{Value, json};

fn cases(text: &str) -> Vec<Case> {
    parse(Path::new("cases.yaml"), text.as_bytes()).unwrap().to_vec()
}

fn one_request(request: &str) -> Case {
    cases(&format!("- {{ name: x, request: {request}, expect: 200 }}\n")).remove(0)
}

fn messages(text: &str) -> Vec<String> {
    let problems = parse(Path::new("cases.yaml"), text.as_bytes()).unwrap_err();
    problems
        .iter()
        .map(|problem| format!("{}:{}: {}", problem.at.line, problem.at.column, problem.message))
        .collect()
}

#[test]
fn the_examples_of_the_language_are_read() {
    let cases = cases(
        r#"- name: a guest cannot add people
  request: { method: POST, path: /people, basic: "alice:wonderland" }
  expect: 403
- name: staff may, by token
  request: { method: POST, path: /people, claims: { iss: https://id.example.com, sub: carol, groups: [staff] } }
  expect: { status: 200, rule: "admin: POST /people", headers: { x-user: carol } }
"#,
    );
    assert_eq!(cases[0].name, "a guest cannot add people");
    assert!(
        matches!(&cases[0].request.credentials, Credentials::Basic(pair) if pair == "alice:wonderland")
    );
    assert_eq!(cases[0].expect.status, 403);
    let Credentials::Claims(claims) = &cases[1].request.credentials else { panic!("claims") };
    let expected = json!({ "iss": "https://id.example.com", "sub": "carol", "groups": ["staff"] });
    assert_eq!(claims.parse::<Value>().unwrap(), expected);
    assert_eq!(cases[1].expect.rule.as_deref(), Some("admin: POST /people"));
    assert_eq!(cases[1].expect.headers, [("x-user".to_owned(), "carol".to_owned())]);
    assert_eq!(cases[1].at.to_string(), "cases.yaml:4:3");
}

#[test]
fn what_a_request_leaves_out_is_usual() {
    let request = one_request("{ path: /x }").request;
    assert_eq!((request.method.as_str(), request.host.as_str()), ("GET", "localhost"));
    assert!(
        matches!(request.credentials, Credentials::None)
            && request.at.is_none()
            && request.headers.is_empty()
    );
}

#[test]
fn a_caller_may_be_a_name_with_groups() {
    for (request, expected) in
        [("{ path: /x, user: a, groups: [b, c] }", &["b", "c"][..]), ("{ path: /x, user: a }", &[])]
    {
        let Credentials::User { name, groups } = one_request(request).request.credentials else {
            panic!("{request}")
        };
        assert_eq!(
            (&*name, groups.iter().map(|group| &**group).collect::<Vec<_>>().as_slice()),
            ("a", expected)
        );
    }
}

#[test]
fn a_header_may_have_several_lines() {
    let request = one_request("{ path: /x, headers: { authorization: [a, b], x-n: 7 } }").request;
    let lines: Vec<_> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(lines, [("authorization", "a"), ("authorization", "b"), ("x-n", "7")]);
}

#[test]
fn a_header_without_a_value_must_be_absent() {
    let text = "- { name: x, request: { path: /x }, expect: { status: 200, headers: { a: \"\", b: , c: d } } }";
    let headers = cases(text).remove(0).expect.headers;
    assert_eq!(headers.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["", "", "d"]);
}

#[test]
fn the_clock_is_set() {
    for time in ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00Z", "2026-01-01T01:00:00+01:00"] {
        let request = one_request(&format!("{{ path: /x, at: {time} }}")).request;
        assert_eq!(request.at.unwrap().as_secs(), 1_767_225_600, "{time}");
    }
    for wrong in
        ["2026-01-01", "2026-01-01T00:00:00", "2025-02-29T00:00:00Z", "1969-12-31T23:59:59Z"]
    {
        let messages = messages(&format!(
            "- {{ name: x, request: {{ path: /x, at: {wrong} }}, expect: 200 }}"
        ));
        assert_eq!(messages, [format!("1:39: `{wrong}` is not a time")]);
    }
}

/// YAML 1.2.2, 10.3.2, against RFC 8259.
#[test]
fn claims_keep_their_types() {
    let claims = |yaml: &str| match one_request(&format!("{{ path: /x, claims: {{ a: {yaml} }} }}"))
        .request
        .credentials
    {
        Credentials::Claims(json) => json,
        credentials => panic!("{credentials:?}"),
    };
    for (yaml, json) in [
        ("1", "1"),
        ("-0", "0"),
        ("+5", "5"),
        ("007", "7"),
        ("1.50", "1.5"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("1e3", "1000.0"),
        ("-1.5E-3", "-0.0015"),
        ("12345678901234567890", "12345678901234567890"),
        ("\"1\"", "\"1\""),
        ("'true'", "\"true\""),
        ("true", "true"),
        ("False", "false"),
        ("yes", "\"yes\""),
        ("~", "null"),
        ("", "null"),
        ("null", "null"),
        ("1.2.3", "\"1.2.3\""),
        ("2026-01-01", "\"2026-01-01\""),
        ("e5", "\"e5\""),
        ("\"a\\n\\\"\\\\\\u0001é\"", "\"a\\n\\\"\\\\\\u0001é\""),
        ("[1, [], {}]", "[1,[],{}]"),
        ("{ \"b\\\"\": { c: [x] } }", "{\"b\\\"\":{\"c\":[\"x\"]}}"),
    ] {
        assert_eq!(claims(yaml), format!("{{\"a\":{json}}}"), "{yaml}");
    }
}

#[test]
fn every_problem_is_found() {
    let text = r#"- { name: a, request: { path: /x }, expect: 99 }
- { request: { method: GET }, expect: { rule: r } }
- { name: c, request: { path: /x, basic: "a:b", bearer: t }, expect: ok }
- { name: d, request: { path: /x, basic: hunter2 }, expects: 200 }
- { name: e, request: { path: /x, claims: [a] }, expect: [200] }
- { name: f, request: { path: /x, claims: { exp: 0x1F } }, expect: 200 }
- { name: g, request: { path: /x, at: yesterday }, expect: { status: 200, header: { a: b } } }
- name
- { name: h, request: { path: [x], headers: [a] }, expect: { status: 200, headers: { a: [b] } } }
- { name: i, request: { path: /x, user: "", groups: staff }, expect: 200 }
- { name: j, request: { path: /x, groups: [a] }, expect: 200 }
- { name: k, request: { path: /x, basic: "a:b", user: a, groups: [a] }, expect: 200 }
- { name: l, request: { path: /x, user: a, groups: ["\t", [a]] }, expect: 200 }
"#;
    let expected = [
        "1:45: `99` is not a status",
        "2:3: a case has no `name`",
        "2:14: a request has no `path`",
        "2:39: `expect` has no `status`",
        "3:49: a request has either `basic` or `bearer`",
        "3:70: `ok` is not a status",
        "4:42: `basic` is not `user:password`",
        "4:53: unknown key `expects`",
        "5:43: `claims` must be a mapping, not a list",
        "5:58: `expect` must be a mapping, not a list",
        "6:50: a number that JSON does not have",
        "7:39: `yesterday` is not a time",
        "7:75: unknown key `header`",
        "8:3: a case must be a mapping, not text",
        "9:31: `path` must be text, not a list",
        "9:45: `headers` must be a mapping, not a list",
        "9:89: the value of a header must be text, not a list",
        "10:41: `user` is empty",
        "10:53: `groups` must be a list, not text",
        "11:35: only a request with `user` has `groups`",
        "12:49: a request has either `basic` or `user`",
        "12:58: only a request with `user` has `groups`",
        "13:53: a group is empty",
        "13:59: a group must be text, not a list",
    ];
    assert_eq!(messages(text), expected);
}

#[test]
fn a_file_must_have_cases() {
    assert_eq!(messages(""), ["1:1: the file is empty"]);
    assert_eq!(messages("[]"), ["1:1: there are no cases"]);
    assert_eq!(messages("a: b"), ["1:1: a file of cases must be a list, not a mapping"]);
    let problems = parse(Path::new("cases.yaml"), b"cases:\n  - { name: a }\n").unwrap_err();
    let help = "help: leave `cases:` out: the file begins with `- name: …`";
    assert!(problems.first().unwrap().to_string().contains(help), "{problems:?}");
}
