//! Suggested policies, each of which loads.

use std::path::Path;

use document::MapFiles;

use super::{Usage, UserId};

fn usage(requests: &[(&str, bool, &str)]) -> Usage {
    let mut usage = Usage::default();
    for (user, allowed, request) in requests {
        let (method, path) = request.split_once(' ').unwrap();
        let user = Some(*user).filter(|user| !user.is_empty());
        usage.add((user, None), *allowed, (method, "A.example.com:443", path));
    }
    let text = usage.policy();
    let loaded =
        policy::load(&MapFiles::new("policy.yaml", text.as_bytes()), Path::new("policy.yaml"));
    assert!(loaded.is_ok(), "{text}\n{loaded:?}");
    usage
}

#[test]
fn each_caller_has_rules_for_its_requests() {
    let text = usage(&[
        ("", true, "GET /open"),
        ("ann", true, "GET /open"),
        ("ann", true, "GET /users/ann"),
        ("bob", true, "GET /users/bob"),
        ("bob", true, "PUT /users/bob"),
        ("eve", false, "GET /open"),
    ])
    .policy();
    let expected = r#"version: 1
roles:
  anyone:
    allow:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/open"] }
  used-1:
    deny:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/open"] }
  used-2:
    allow:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/users/{user}"] }
  used-3:
    allow:
      - { methods: ["GET", "PUT"], hosts: ["a.example.com"], paths: ["/users/{user}"] }
grants:
  used-1: { users: ["eve"] }
  used-2: { users: ["ann"] }
  used-3: { users: ["bob"] }
"#;
    assert_eq!(text, expected);
}

#[test]
fn a_name_without_the_prefix_of_its_source_becomes_a_placeholder() {
    let mut usage = Usage::default();
    let id = |source| Some(UserId { id: "ann", source });
    let mut add = |user, id, path| usage.add((Some(user), id), true, ("GET", "a", path));
    add("basic:ann", id("basic"), "/users/ann/basic:ann");
    add("basic:bob", Some(UserId { id: "bob", source: "basic" }), "/users/bob/basic%3Abob");
    add("id:ann", id("https://id.example.com"), "/users/ann");
    // Which of the two sources it is cannot be said of both.
    add("p:ann", id("a"), "/users/ann");
    add("p:ann", id("b"), "/users/ann");
    let roles = r#"  used-1:
    allow:
      - { methods: ["GET"], hosts: ["a"], paths: ["/users/{user.id}"], user_id_from: ["https://id.example.com"] }
  used-2:
    allow:
      - { methods: ["GET"], hosts: ["a"], paths: ["/users/{user.id}/{user}"], user_id_from: ["basic"] }
  used-3:
    allow:
      - { methods: ["GET"], hosts: ["a"], paths: ["/users/ann"] }
grants:
  used-1: { users: ["id:ann"] }
  used-2: { users: ["basic:ann", "basic:bob"] }
  used-3: { users: ["p:ann"] }
"#;
    let text = usage.policy();
    assert!(text.ends_with(roles), "{text}");
    let text = format!(
        "{text}identity: {{ basic: {{ users_file: users, user_prefix: 'basic:' }}, \
         jwt: [{{ issuer: 'https://id.example.com', audiences: [x], keys: {{ file: k }}, user_prefix: 'id:' }}] }}"
    );
    let files =
        MapFiles::new("policy.yaml", text.as_bytes()).and("users", "ann:$6$x$y").and("k", "{}");
    let loaded = policy::load(&files, Path::new("policy.yaml"));
    assert!(loaded.is_ok(), "{text}\n{loaded:?}");
}

/// What was denied to a user stays so, under the name without its prefix, too.
#[test]
fn ids_that_a_user_was_denied_are_no_placeholder() {
    let mut usage = Usage::default();
    let ann = (Some("p:ann"), Some(UserId { id: "ann", source: "basic" }));
    for id in 1..4 {
        usage.add(ann, true, ("GET", "a", &format!("/ann/{id}")));
    }
    assert!(usage.policy().contains("/{user.id}/{id}"), "{}", usage.policy());
    usage.add(ann, false, ("GET", "a", "/ann/x"));
    assert!(!usage.policy().contains("{id}"), "{}", usage.policy());
}

#[test]
fn several_ids_become_a_placeholder_unless_one_of_them_was_denied() {
    let all = [("x", true, "GET /a/1"), ("x", true, "GET /a/22"), ("x", true, "GET /a/333")];
    assert!(usage(&all).policy().contains(r#"paths: ["/a/{id}"]"#));
    assert!(usage(&all[..2]).policy().contains(r#"paths: ["/a/22"]"#));
    let denied = [&all[..], &[("x", false, "GET /a/locked")]].concat();
    assert!(!usage(&denied).policy().contains("{id}"));
}

/// A caller that was seen in one or two tenants gets no rule for all of them.
#[test]
fn an_id_of_which_there_are_few_is_no_placeholder() {
    let paths = |paths: &[&str]| {
        let requests: Vec<String> = paths.iter().map(|path| format!("GET {path}")).collect();
        let requests: Vec<_> = requests.iter().map(|request| ("ann", true, &**request)).collect();
        let text = usage(&requests).policy();
        let found = text
            .split("paths: [\"")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        found.collect::<Vec<_>>()
    };
    let one = ["/tenants/42/invoices/1", "/tenants/42/invoices/2", "/tenants/42/invoices/3"];
    assert_eq!(paths(&one), ["/tenants/42/invoices/{id}"]);
    let two = [one.as_slice(), &["/tenants/43/invoices/1", "/tenants/43/invoices/2"]].concat();
    let exact = ["/tenants/42/invoices/{id}", "/tenants/43/invoices/1", "/tenants/43/invoices/2"];
    assert_eq!(paths(&two), exact);
    let three = [two.as_slice(), &["/tenants/44/invoices/3"]].concat();
    assert_eq!(paths(&three), ["/tenants/{id}/invoices/{id}"]);
}

#[test]
fn each_interpretation_of_an_allowed_path_counts() {
    for (requests, count) in [
        (&[("a", true, "GET /a"), ("a", true, "GET /a"), ("b", true, "GET /a")][..], 2),
        (&[("a", true, "GET /a"), ("a", false, "GET /a")], 2),
        (&[("a", true, "GET /a;b")], 2),
        (&[("a", true, "GET /a"), ("a", false, "GET /a;b")], 2),
    ] {
        assert_eq!(usage(requests).len(), count, "{requests:?}");
    }
}

/// A client chooses the path: what it writes there must not become a rule for other paths.
#[test]
fn the_text_of_a_placeholder_in_a_request_is_not_one() {
    for path in ["/secrets/{id}", "/secrets/{id%7D", "/secrets/%7Bid}", "/brace/{user}", "/{a}"] {
        for user in ["", "ann"] {
            let text = usage(&[(user, true, &format!("GET {path}"))]).policy();
            assert!(text.contains("%7B") && !text.contains("/{"), "{path}: {text}");
        }
    }
}

#[test]
fn any_path_can_be_written() {
    for path in [
        "/", "/a*b", "/:id", "/a(b)+", "/a%25b", "/a;x=1/b", "/%C3%A9", "/a@b:c", "/~a", "/a,b",
        "/a/", "/a%253Fb",
    ] {
        usage(&[("a", true, &format!("GET {path}"))]);
    }
    for user in ["\u{FEFF}a", "a\u{FEFF}b\u{FFFE}\u{FFFF}", "a\u{2028}b"] {
        usage(&[(user, true, "GET /a")]);
    }
    usage(&[("a", true, "OPTIONS *"), ("\"b\\", true, "M-SEARCH /a")]);
}

/// A rule with `%3F` matches both `%3F` and `?`, which two of the interpretations have.
#[test]
fn the_spellings_of_a_path_are_one_rule() {
    for path in ["/a%3Fb", "/a%23b", "/a%24b"] {
        let text = usage(&[("a", true, &format!("GET {path}"))]).policy();
        assert_eq!(text.matches(&format!("paths: [\"{path}\"]")).count(), 1, "{text}");
        assert!(!text.contains(['?', '#']), "{text}");
    }
}

/// A client chooses the method: `*` must not become a rule for all methods, and no other one make
/// the policy an error.
#[test]
fn a_method_that_a_rule_cannot_name_is_left_out() {
    for method in ["*", "ANY", "ALL", "GET|POST", "-X", "!GET", "~", "^A", "get", "Get"] {
        let request = format!("{method} /files/1");
        let usage = usage(&[("", true, &request), ("", true, "GET /files/1")]);
        assert!(usage.policy().contains(r#"methods: ["GET"]"#), "{}", usage.policy());
        assert_eq!(usage.unnameable_methods(), 1, "{method}");
    }
    let many: Vec<String> = (0..250).map(|number| format!("X{number} /a")).collect();
    let many: Vec<_> = many.iter().map(|request| ("ann", true, &**request)).collect();
    assert_eq!(usage(&many).policy().matches("methods: [").count(), 3);
    for method in [
        "A.B_C-1", "ANYTHING", "1", "2GET", "A+B", "_X", "A'B", "#A", "%A", "&A", "A*", "`A", "$",
        "A!",
    ] {
        let usage = usage(&[("a", true, &format!("{method} /a"))]);
        assert_eq!(usage.unnameable_methods(), 0, "{method}");
        assert!(usage.policy().contains(&format!("methods: [\"{method}\"]")), "{}", usage.policy());
    }
}
