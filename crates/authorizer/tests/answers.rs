//! The headers of an allowed request, and the answer to a denied one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Request, Scratch, Verdict};
use explain::{ExplainedSubject, Explainer};
use identity::Subject;
use serde_json::{Value, json};

const NOW: Duration = Duration::from_secs(1_800_000_000);

const HEADERS: &str = r#"
version: 1
identity:
  basic: { verify: false }
roles:
  anyone: { allow: [GET /**] }
  b-role: { allow: [] }
  a-role: { extends: [b-role], allow: [] }
grants: { a-role: { users: [alice] } }
allow_response:
  set_headers:
    X-User: "{user}"
    x-roles: "{roles}"
    x-groups: "{groups}"
    x-rule: "{rule}"
    x-who: "user={user}"
    x-tenant: "{claims./tenant/id}"
    x_mail: "{claims.mail}"
    x-braces: "{{}}"
  remove_headers: [Cookie, x-debug-mode]
"#;

fn authorizer(policy: &str) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn subject(user: &str, groups: &[&str], claims: Value) -> Subject {
    let groups = groups.iter().map(|group| Arc::from(*group)).collect();
    Subject {
        user: user.into(),
        issuer: None,
        source: None,
        groups,
        roles: Vec::new(),
        claims,
        actor: None,
    }
}

/// What is set and removed on an allowed `GET /x` with these headers.
fn changes(who: Option<Subject>, headers: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
    changes_by(HEADERS, who, headers)
}

fn changes_by(
    policy: &str,
    who: Option<Subject>,
    headers: &[&str],
) -> (Vec<(String, String)>, Vec<String>) {
    let authorizer = authorizer(policy);
    let headers: Vec<Header<'_>> =
        headers.iter().map(|name| Header { name: name.as_bytes(), value: b"mallory" }).collect();
    let request =
        Request { method: b"GET", host: b"", path: b"/x", headers: &headers, ..Request::default() };
    let mut scratch = Scratch::default();
    let Verdict::Allowed(allowed) = authorizer.check_as(&request, Ok(who), &mut scratch, NOW)
    else {
        panic!("denied")
    };
    let set = allowed.set().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (set, allowed.remove().map(str::to_owned).collect())
}

fn value(who: Subject, header: &str) -> Option<String> {
    let (set, removed) = changes(Some(who), &[]);
    let value = set.into_iter().find(|(name, _)| name == header).map(|(_, value)| value);
    assert_ne!(
        value.is_some(),
        removed.iter().any(|name| name == header),
        "{header} is either set or removed"
    );
    value
}

#[test]
fn header_templates_are_filled_in_for_a_caller() {
    let claims = json!({ "tenant": { "id": 42 }, "mail": "alice@example.com" });
    let (set, removed) = changes(Some(subject("alice", &["staff", "night"], claims)), &[]);
    let expected = [
        ("x-user", "alice"),
        ("x-roles", "b-role,a-role"),
        ("x-groups", "staff,night"),
        ("x-rule", "anyone: GET /**"),
        ("x-who", "user=alice"),
        ("x-tenant", "42"),
        ("x_mail", "alice@example.com"),
        ("x-braces", "{}"),
    ];
    assert_eq!(set, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(removed, ["cookie", "x-debug-mode"]);
}

#[test]
fn every_identity_header_is_set_or_removed_also_for_an_anonymous_caller() {
    let (set, removed) = changes(None, &["x-user", "x-roles", "x-groups"]);
    let names: Vec<&str> = set.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-rule", "x-who", "x-braces"]);
    assert_eq!(
        removed,
        ["x-user", "x-roles", "x-groups", "x-tenant", "x_mail", "cookie", "x-debug-mode"]
    );
}

#[test]
fn aliases_of_set_headers_are_removed_and_the_headers_themselves_are_kept() {
    // RFC 3875, 4.1.18: a server that passes headers as environment variables calls all of these
    // `HTTP_X_USER`.
    let aliases = [
        "x_user",
        "x.user",
        "X_User",
        "x-tenant_",
        "x_tenant",
        "x.rule",
        "x-mail",
        "x.mail",
        "x_debug.mode",
    ];
    let others = [
        "x-user",
        "X-USER",
        "x-rule",
        "x_mail",
        "x-users",
        "xuser",
        "x--user",
        "cookie",
        "x-debug-mode",
        "accept",
    ];
    // lighttpd's CGI makes `_` of each character but letters and digits; these may be in a name
    // (RFC 9110, 5.6.2).
    let of_lighttpd: Vec<String> =
        "!#$%&'*+^`|~".chars().map(|other| format!("x{other}user")).collect();
    for alias in &of_lighttpd {
        let (_, removed) = changes(None, &["x-user", alias]);
        assert!(removed.contains(alias), "{alias}");
        let (_, removed) = changes(Some(subject("alice", &[], Value::Null)), &[alias]);
        assert!(removed.contains(alias), "{alias}");
    }
    let (set, removed) =
        changes(Some(subject("alice", &[], Value::Null)), &[&aliases[..], &others[..]].concat());
    for alias in aliases.iter().filter(|alias| **alias != "x-tenant_") {
        assert!(
            removed.iter().any(|name| name.eq_ignore_ascii_case(alias)),
            "{alias} is not removed"
        );
    }
    for (name, _) in set {
        assert!(
            !removed.iter().any(|removed| removed.eq_ignore_ascii_case(&name)),
            "{name} is set and removed"
        );
    }
    for other in ["x-users", "xuser", "x--user", "accept", "x-tenant_", "X-USER"] {
        assert!(!removed.iter().any(|name| name == other), "{other} is removed");
    }
}

/// The next server removes what `Connection` names (RFC 9110, 7.6.1).
#[test]
fn a_request_that_has_the_next_server_remove_a_header_is_denied() {
    let reason = |policy: &str, values: &[&str]| {
        let authorizer = authorizer(policy);
        let headers: Vec<_> = values
            .iter()
            .map(|value| Header { name: b"Connection", value: value.as_bytes() })
            .collect();
        let request = Request {
            method: b"GET",
            host: b"",
            path: b"/x",
            headers: &headers,
            ..Request::default()
        };
        match authorizer.check_as(&request, Ok(None), &mut Scratch::default(), NOW) {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denied) => Some((denied.reason.status(), denied.reason.name())),
        }
    };
    let denied = Some((400, "connection_header"));
    for value in ["x-user", "Upgrade, X-User", "upgrade,x_user ,close", "upgrade,\tx-debug-mode"] {
        assert_eq!(reason(HEADERS, &[value]), denied, "{value}");
        assert_eq!(reason(HEADERS, &["upgrade", value]), denied, "{value} in a second line");
        assert_eq!(reason("version: 1\nroles: { anyone: { allow: [GET /**] } }\n", &[value]), None);
    }
    for value in ["", "upgrade", "keep-alive, Upgrade", "x-users, te", "x user", "x-user;"] {
        assert_eq!(reason(HEADERS, &[value]), None, "{value}");
    }
}

/// A client chooses the lines of a request. The answer, which names the aliases, must not grow with
/// their number.
#[test]
fn an_alias_is_removed_once_and_too_many_are_denied() {
    let (_, removed) = changes(None, &["x_user", "x.user", "X_USER"].repeat(3_000));
    assert_eq!(removed.iter().filter(|name| name.eq_ignore_ascii_case("x_user")).count(), 1);
    assert_eq!(removed.iter().filter(|name| *name == "x.user").count(), 1);

    let authorizer = authorizer(&HEADERS.replace("x-debug-mode", "a-b-c-d-e"));
    let request = |names: &[String]| {
        let headers: Vec<_> =
            names.iter().map(|name| Header { name: name.as_bytes(), value: b"" }).collect();
        let request = Request {
            method: b"GET",
            host: b"",
            path: b"/x",
            headers: &headers,
            ..Request::default()
        };
        match authorizer.check_as(&request, Ok(None), &mut Scratch::default(), NOW) {
            Verdict::Allowed(allowed) => Ok(allowed.remove().count()),
            Verdict::Denied(denied) => Err((denied.reason.status(), denied.reason.name())),
        }
    };
    let none = request(&[]).unwrap();
    // Each of the four dashes may be `_` instead: fifteen aliases, and a sixteenth with a dot.
    let spelling = |number: usize| -> String {
        let dash = |at: usize| if number >> at & 1 == 1 { '_' } else { '-' };
        format!("a{}b{}c{}d{}e", dash(0), dash(1), dash(2), dash(3))
    };
    let mut names: Vec<String> = (1..16).map(spelling).collect();
    names.push("a.b-c-d-e".to_owned());
    assert_eq!(request(&names), Ok(none + 16));
    names.push("a-b.c-d-e".to_owned());
    assert_eq!(request(&names), Err((400, "too_many_headers")));
}

#[test]
fn a_value_with_control_characters_or_outer_spaces_is_not_sent() {
    // RFC 9110, 5.5 and CWE-113: line ends and other controls; readers trim the spaces at the ends.
    for user in [
        "al\rice",
        "al\nice",
        "alice\0",
        "al\tice",
        "al\u{7f}ice",
        "al\u{85}ice",
        " alice",
        "alice ",
        "\u{a0}alice",
        " ",
    ] {
        let who = || subject(user, &[], json!({ "mail": user }));
        for header in ["x-user", "x-who", "x_mail"] {
            assert_eq!(value(who(), header), None, "{user:?}");
        }
    }
    assert_eq!(
        value(subject("zoë müller", &[], Value::Null), "x-user").as_deref(),
        Some("zoë müller")
    );
}

#[test]
fn a_group_with_a_comma_is_left_out_of_its_list() {
    let groups = ["staff", "a,admin", "x\ny", " admin", "", "night"];
    assert_eq!(
        value(subject("alice", &groups, Value::Null), "x-groups").as_deref(),
        Some("staff,night")
    );
    assert_eq!(value(subject("alice", &["a,admin"], Value::Null), "x-groups"), None);
    assert_eq!(value(subject("a,b", &[], Value::Null), "x-user").as_deref(), Some("a,b"));
}

#[test]
fn only_string_number_and_boolean_claims_are_filled_in() {
    for (claim, expected) in [
        (json!("acme"), Some("acme")),
        (json!(17), Some("17")),
        (json!(u64::MAX), Some("18446744073709551615")),
        // Of more than 64 bits: rounded, so that two tenants would be one.
        (serde_json::from_str("18446744073709551617").unwrap(), None),
        (json!(-1e300), None),
        (json!(1.5), Some("1.5")),
        (json!(true), Some("true")),
        (json!(false), Some("false")),
        (json!(null), None),
        (json!(""), None),
        (json!(["acme"]), None),
        (json!({ "x": 1 }), None),
    ] {
        let who = subject("alice", &[], json!({ "tenant": { "id": claim } }));
        assert_eq!(value(who, "x-tenant").as_deref(), expected, "{claim}");
    }
    assert_eq!(value(subject("alice", &[], json!({ "tenant": "flat" })), "x-tenant"), None);
}

#[test]
fn a_pointer_may_lead_into_a_list() {
    let policy = HEADERS.replace("{claims./tenant/id}", "{claims./tenants/1/id}");
    let (set, _) = changes_by(
        &policy,
        Some(subject("alice", &[], json!({ "tenants": [0, { "id": "acme" }] }))),
        &[],
    );
    assert!(set.contains(&("x-tenant".to_owned(), "acme".to_owned())), "{set:?}");
}

/// Whatever decides: a request, its explanation, or a test.
#[test]
fn headers_over_64_kib_are_denied() {
    let authorizer = authorizer(HEADERS);
    let request = Request { method: b"GET", host: b"", path: b"/x", ..Request::default() };
    for (length, expected) in [(16_000, None), (17_000, Some("response_too_large"))] {
        // In the headers for the user, the groups and `x-who`, and in two claims.
        let (user, note) = ("u".repeat(length), "n".repeat(length));
        let who = subject(&user, &[], json!({ "tenant": { "id": note }, "mail": note }));
        let explained = ExplainedSubject::Given(who.clone());
        let mut scratch = Scratch::default();
        let reason = match authorizer.check_as(&request, Ok(Some(who)), &mut scratch, NOW) {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denied) => {
                assert_eq!(
                    (denied.reason.status(), denied.subject.map(|subject| &*subject.user)),
                    (400, Some(&*user))
                );
                Some(denied.reason.name())
            }
        };
        assert_eq!(reason, expected);
        assert_eq!(Explainer::new(&authorizer).explain(&request, explained, NOW).reason, expected);
    }
}

/// A denial: its status, headers and body.
fn denial(
    policy: &str,
    path: &str,
    id: &[u8],
    credentials: Option<&str>,
) -> (u16, Vec<(String, String)>, String) {
    let headers: Vec<_> = credentials.iter().map(|value| ("authorization", *value)).collect();
    denial_with(policy, path, id, &headers)
}

/// The same of a request with these headers.
fn denial_with(
    policy: &str,
    path: &str,
    id: &[u8],
    headers: &[(&str, &str)],
) -> (u16, Vec<(String, String)>, String) {
    let authorizer = authorizer(policy);
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: b"GET",
        host: b"",
        path: path.as_bytes(),
        headers: &headers,
        id,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let verdict = authorizer.check_inline(&request, &mut scratch, NOW);
    let status = verdict.status();
    let Verdict::Denied(denied) = verdict else { panic!("allowed") };
    let headers = denied
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), header.value.to_string()))
        .collect();
    (status, headers, denied.body.to_owned())
}

/// Basic `alice:x`.
const ALICE: Option<&str> = Some("Basic YWxpY2U6eA==");
const PLAIN: &str = "
version: 1
identity: { basic: { realm: 'the \"people\" \\', verify: false } }
roles: { guest: { allow: [GET /people], deny: [\"GET /pri<v>ate\"] } }
grants: { guest: { users: [alice] } }
";

fn with_answer(answer: &str) -> String {
    format!("{PLAIN}\ndeny_response: {{ {answer} }}\n")
}

#[test]
fn a_denial_is_json_with_the_request_id() {
    let (status, headers, body) = denial(PLAIN, "/x", b"id-17", ALICE);
    assert_eq!((status, &*body), (403, r#"{"error":"forbidden","request_id":"id-17"}"#));
    assert_eq!(headers, [("content-type".to_owned(), "application/json".to_owned())]);
    assert_eq!(denial(PLAIN, "/x", b"", ALICE).2, r#"{"error":"forbidden"}"#);
    assert_eq!(denial(PLAIN, "/x", b"", None).2, r#"{"error":"unauthorized"}"#);
    assert_eq!(denial(PLAIN, "/..", b"", None).2, r#"{"error":"bad_request"}"#);
    assert_eq!(denial(PLAIN, "/..", b"", None).0, 400);
}

#[test]
fn a_request_id_is_escaped_in_the_body() {
    // RFC 8259, 7: quotes, backslashes and controls are escaped; what is not UTF-8 is replaced.
    let id = b"\"}\\\r\n\0\x1f\x7f</script>\xff\xe2\x80\xa8\xc2\x85";
    let body: Value = serde_json::from_str(&denial(PLAIN, "/x", id, ALICE).2).unwrap();
    assert_eq!(body["request_id"], "\"}\\\r\n\0\u{1f}\u{7f}</script>\u{fffd}\u{2028}\u{85}");
    let html = denial(&with_answer("content_type: html"), "/x", b"<b>&\"'\0", ALICE).2;
    assert!(html.contains("<code>&lt;b&gt;&amp;&quot;&#39;\u{fffd}</code>"), "{html}");
    let text = denial(&with_answer("content_type: text"), "/x", b"a\nreason: b", ALICE).2;
    assert_eq!(text, "forbidden\nrequest: a\u{fffd}reason: b\n");
}

#[test]
fn the_body_has_the_reason_only_with_explain_true() {
    let explain = with_answer("explain: true");
    assert_eq!(
        denial(&explain, "/x", b"1", ALICE).2,
        r#"{"error":"forbidden","request_id":"1","reason":"not_allowed"}"#
    );
    assert_eq!(
        denial(&explain, "/pri<v>ate", b"", ALICE).2,
        r#"{"error":"forbidden","reason":"denied","rule":"guest: GET /pri<v>ate"}"#
    );
    assert_eq!(denial(PLAIN, "/pri<v>ate", b"", ALICE).2, r#"{"error":"forbidden"}"#);
    let html =
        denial(&with_answer("explain: true, content_type: html"), "/pri<v>ate", b"", ALICE).2;
    assert!(html.ends_with("<p>rule: <code>guest: GET /pri&lt;v&gt;ate</code></p>"), "{html}");
    assert_eq!(
        denial(&with_answer("explain: true, content_type: text"), "/..", b"", None).2,
        "bad_request\nreason: invalid_path\n"
    );
}

#[test]
fn a_configured_body_is_sent_unchanged() {
    for (content_type, value) in [
        ("json", "application/json"),
        ("text", "text/plain; charset=utf-8"),
        ("html", "text/html; charset=utf-8"),
    ] {
        let policy = with_answer(&format!(
            "content_type: {content_type}, body: 'no {{user}}', explain: true"
        ));
        let (_, headers, body) = denial(&policy, "/x", b"17", ALICE);
        assert_eq!(body, "no {user}");
        assert_eq!(headers, [("content-type".to_owned(), value.to_owned())]);
    }
}

/// The headers and the message of the denial of a gRPC call.
fn grpc_denial(answer: &str, path: &str, id: &[u8]) -> (Vec<(String, String)>, String) {
    let call = [("authorization", "Basic YWxpY2U6eA=="), ("Content-Type", "application/grpc")];
    let (_, headers, message) = denial_with(&with_answer(answer), path, id, &call);
    (headers, message)
}

/// Envoy sends the message in a header, and has a content type of its own.
#[test]
fn a_grpc_client_gets_a_message_of_one_line() {
    let explain = "content_type: html, explain: true";
    assert_eq!(grpc_denial("explain: false", "/x", b""), (vec![], "forbidden".to_owned()));
    for (answer, path, id, message) in [
        ("explain: false", "/x", &b"17"[..], "forbidden; request: 17"),
        ("explain: false", "/..", b"a\r\nb", "bad_request; request: a\u{fffd}\u{fffd}b"),
        (explain, "/x", b"17", "forbidden; request: 17; reason: not_allowed"),
        (explain, "/pri<v>ate", b"", "forbidden; reason: denied; rule: guest: GET /pri<v>ate"),
        // A text is a message, and nothing else is.
        ("content_type: text, body: Ask us.", "/x", b"17", "Ask us."),
        ("content_type: json, body: '{}'", "/x", b"17", "forbidden; request: 17"),
        ("content_type: html, body: <h1>", "/x", b"17", "forbidden; request: 17"),
    ] {
        assert_eq!(grpc_denial(answer, path, id), (vec![], message.to_owned()), "{answer}");
    }
    // Challenges are metadata of the answer.
    for (content_type, is_grpc) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc-web", false),
        ("application/grpcx", false),
        ("application/json", false),
        ("", false),
    ] {
        let (_, headers, body) = denial_with(PLAIN, "/x", b"", &[("content-type", content_type)]);
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        if is_grpc {
            assert_eq!((&names[..], &*body), (&["www-authenticate"][..], "unauthorized"));
        } else {
            assert_eq!(names, ["content-type", "www-authenticate"], "{content_type}");
            assert_eq!(body, r#"{"error":"unauthorized"}"#, "{content_type}");
        }
    }
}

#[test]
fn no_denial_is_ok_for_a_grpc_client() {
    for reason in authorizer::Reason::all() {
        assert!((1..=16).contains(&reason.grpc_status().parse().unwrap()), "{}", reason.name());
    }
}

fn challenges(policy: &str, credentials: Option<&str>) -> Vec<String> {
    let (_, headers, _) = denial(policy, "/x", b"", credentials);
    headers
        .into_iter()
        .filter(|(name, _)| name == "www-authenticate")
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn a_401_has_a_challenge_for_each_method() {
    // RFC 9110, 11.6.1 and 5.6.4; RFC 7617, 2 and 2.1; RFC 6750, 3 and 3.1.
    let basic = r#"Basic realm="the \"people\" \\", charset="UTF-8""#;
    assert_eq!(challenges(PLAIN, None), [basic]);
    assert_eq!(challenges(PLAIN, Some("Digest x")), [basic]);
    assert!(challenges(PLAIN, ALICE).is_empty(), "a 403 has no challenge");
    let both = "
version: 1
identity:
  basic: { realm: people, verify: false }
  jwt:
    - { issuer: https://a.example, audiences: [x], keys: { url: 'https://a.example/jwks' }, claims: { user: sub } }
roles: { guest: { allow: [GET /people] } }
";
    let basic = r#"Basic realm="people", charset="UTF-8""#;
    assert_eq!(challenges(both, None), [basic, r#"Bearer realm="people""#]);
    assert_eq!(challenges(both, Some("Basic !")), [basic, r#"Bearer realm="people""#]);
    assert_eq!(
        challenges(both, Some("bearer a.b.c")),
        [basic, r#"Bearer realm="people", error="invalid_token""#]
    );
    let none = "{ version: 1, roles: { anyone: { allow: [GET /people] } } }";
    assert!(challenges(none, None).is_empty());
}

#[test]
fn the_revision_of_the_policy_depends_on_its_files_and_that_of_the_keys_on_the_keys() {
    let revision = |text: &str, keys: &[(&str, &str)]| {
        let files = document::MapFiles::new("policy.yaml", text);
        let loaded = policy::load(&files, Path::new("policy.yaml"))
            .unwrap_or_else(|problems| panic!("{problems:#?}"));
        let fetched = keys
            .iter()
            .map(|(url, keys)| (policy::KeyUrl::from(*url), Some(Arc::from(keys.as_bytes()))))
            .collect();
        Authorizer::compile(Arc::new(loaded), &fetched, None).unwrap().0.revision().clone()
    };
    let plain = revision(PLAIN, &[]);
    assert_eq!((plain.policy.len(), &plain.keys), (12, &None));
    assert!(plain.policy.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(plain, revision(PLAIN, &[]));
    assert_ne!(plain.policy, revision(&format!("{PLAIN} "), &[]).policy);
    let (one, two) = (("https://a.example/", "{}"), ("https://b.example/", "{}"));
    let with_one = revision(PLAIN, &[one]);
    assert_eq!(
        (&with_one.policy, with_one.keys.as_ref().map(|keys| keys.len())),
        (&plain.policy, Some(12))
    );
    assert_eq!(revision(PLAIN, &[one, two]), revision(PLAIN, &[two, one]));
    assert_ne!(revision(PLAIN, &[one, two]), with_one);
}
