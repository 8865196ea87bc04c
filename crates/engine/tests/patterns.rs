//! Every row of the tables of the policy language, by hand, against the engine and the reference
//! evaluator.

#![expect(clippy::panic, reason = "two answers that differ are a failed test")]

use std::path::Path;

use document::Place;
use engine::{AccessRequest, Decision, Engine, PatternSubject};
use policy::Policy;
use policy::model::{Role, Rule, RuleId, SourceId};
use policy::pattern::{Actions, Glob, Pattern, Scope, Segment};
use policy::reference::{self, Caller};

/// A policy with one role for everyone, which has one rule for `GET`.
fn policy(scopes: &[&str], resources: &[&str]) -> Policy {
    let at = Place::start_of(Path::new("policy.yaml"));
    let rule = Rule {
        name: "it".into(),
        actions: Actions::These(vec!["GET".into()]),
        scopes: scopes.iter().map(|text| scope(text)).collect(),
        resources: resources.iter().map(|text| pattern(text)).collect(),
        when: None,
        at: at.clone(),
    };
    let role = Role {
        name: "anyone".into(),
        extends: Vec::new(),
        allow: vec![rule],
        deny: Vec::new(),
        when: None,
        at,
    };
    Policy { roles: vec![role].into(), ..Policy::default() }
}

fn scope(text: &str) -> Scope {
    text.strip_prefix("*.")
        .map_or_else(|| Scope::Exact(text.into()), |suffix| Scope::Below(suffix.into()))
}

/// Reads a pattern as it is written in a policy; the parser has tests of its own.
fn pattern(text: &str) -> Pattern {
    let absolute = text.starts_with('/');
    let mut segments: Vec<&str> = text.strip_prefix('/').unwrap_or(text).split('/').collect();
    let open_ended = segments.pop_if(|last| *last == "**").is_some();
    Pattern { absolute, segments: segments.into_iter().map(segment).collect(), open_ended }
}

fn segment(text: &str) -> Segment {
    match text {
        "{user}" => Segment::User,
        _ if text.starts_with('{') => Segment::Any(text.trim_matches(['{', '}']).into()),
        _ if text.contains('*') => Segment::Glob(Glob(text.split('*').map(Into::into).collect())),
        _ => Segment::Literal(text.into()),
    }
}

struct Request<'a> {
    user: Option<&'a str>,
    action: &'a str,
    scope: &'a str,
    resource: &'a str,
}

fn is_allowed(policy: &Policy, request: &Request<'_>) -> bool {
    let Request { user, action, scope, resource } = *request;
    let request = AccessRequest {
        action: action.as_bytes(),
        scope: scope.as_bytes(),
        resource: resource.as_bytes(),
    };
    let caller = Caller { user, ..Caller::default() };
    let expected = reference::decide(policy, &caller, &request);
    let engine = Engine::compile(policy);
    let roles =
        user.map_or_else(|| engine.anonymous().clone(), |user| engine.roles_of(user, [], []));
    let decision =
        engine.decide(&roles, user.map(|user| PatternSubject::named(user.as_bytes())), request);
    match (expected, decision) {
        (Decision::Allowed(RuleId(0)), Decision::Allowed(RuleId(0))) => true,
        (Decision::NotAllowed, Decision::NotAllowed) => false,
        other => panic!("{other:?} for `{}`", resource),
    }
}

/// The resources that a pattern matches and those that it does not, request by alice.
fn resources(text: &str, matching: &[&str], others: &[&str]) {
    resources_of_all(&[text], matching, others);
}

/// The same with several patterns.
fn resources_of_all(texts: &[&str], matching: &[&str], others: &[&str]) {
    let policy = policy(&[], texts);
    for (resource, wanted) in matching
        .iter()
        .map(|resource| (resource, true))
        .chain(others.iter().map(|resource| (resource, false)))
    {
        let request = Request { user: Some("alice"), action: "GET", scope: "localhost", resource };
        assert_eq!(is_allowed(&policy, &request), wanted, "{:?} and `{resource}`", texts.first());
    }
}

#[test]
fn a_method_is_exact_and_case_sensitive() {
    let allowed = |action| {
        is_allowed(
            &policy(&[], &["/people"]),
            &Request { user: None, action, scope: "", resource: "/people" },
        )
    };
    assert!(allowed("GET"));
    for other in ["HEAD", "get", "Get", "GETX", "GE", "", "POST"] {
        assert!(!allowed(other), "{other}");
    }
}

#[test]
fn any_method_is_any_method_also_one_that_no_rule_names() {
    let mut policy = policy(&[], &["/people"]);
    policy.roles[0].allow[0].actions = Actions::Any;
    for action in ["GET", "TRACE", "get", "", "M-SEARCH"] {
        assert!(
            is_allowed(&policy, &Request { user: None, action, scope: "", resource: "/people" }),
            "{action}"
        );
    }
}

#[test]
fn a_host_is_exact_or_one_or_more_labels_before_a_suffix_or_absent() {
    let allowed = |scopes: &[&str], scope| {
        let request = Request { user: None, action: "GET", scope, resource: "/status" };
        is_allowed(&policy(scopes, &["/status"]), &request)
    };
    for host in ["api.example.com", "", "x"] {
        assert!(allowed(&[], host), "{host}");
    }
    assert!(allowed(&["api.example.com"], "api.example.com"));
    for host in [
        "example.com",
        "x.api.example.com",
        "api.example.com.",
        "API.example.com",
        "",
        "xapi.example.com",
    ] {
        assert!(!allowed(&["api.example.com"], host), "{host}");
    }
    for host in ["a.example.com", "b.a.example.com"] {
        assert!(allowed(&["*.example.com"], host), "{host}");
    }
    for host in
        ["example.com", ".example.com", "aexample.com", "a.example.com.evil.test", "com", ""]
    {
        assert!(!allowed(&["*.example.com"], host), "{host}");
    }
    for host in ["one.test", "b.two.test"] {
        assert!(allowed(&["one.test", "*.two.test"], host), "{host}");
    }
    assert!(!allowed(&["one.test", "*.two.test"], "two.test"));
}

#[test]
fn a_literal_is_those_bytes() {
    resources(
        "/people",
        &["/people"],
        &["/People", "/peopl", "/people1", "/people/", "/people/1", "/", "people", ""],
    );
    resources("/a/b", &["/a/b"], &["/a", "/ab", "/a/b/c", "/a/B", "/a/b/", "/a//b"]);
    resources("/%C3%A9", &["/%C3%A9"], &["/%c3%a9", "/é"]);
}

#[test]
fn a_trailing_slash_is_a_different_path() {
    resources("/people/", &["/people/"], &["/people", "/people//", "/people/1"]);
    resources("/", &["/"], &["", "/a", "//", "*"]);
}

#[test]
fn a_placeholder_is_exactly_one_segment_never_empty_never_dots() {
    resources(
        "/people/{id}",
        &["/people/1", "/people/a.b", "/people/...", "/people/%20", "/people/{id}"],
        &[
            "/people",
            "/people/",
            "/people/1/",
            "/people/1/x",
            "/people/.",
            "/people/..",
            "/other/1",
        ],
    );
    resources("/{a}/{b}", &["/x/y"], &["/x", "/x/", "//y", "/x/y/z"]);
    resources("/{id}/edit", &["/1/edit"], &["//edit", "/edit", "/1/2/edit"]);
}

#[test]
fn user_matches_exactly_one_segment_equal_to_the_user_name() {
    resources(
        "/users/{user}/profile",
        &["/users/alice/profile"],
        &[
            "/users/bob/profile",
            "/users/Alice/profile",
            "/users/alice",
            "/users//profile",
            "/users/alicee/profile",
        ],
    );
    let policy = policy(&[], &["/users/{user}"]);
    let allowed =
        |user, resource| is_allowed(&policy, &Request { user, action: "GET", scope: "", resource });
    assert!(!allowed(None, "/users/alice"));
    assert!(!allowed(None, "/users/"));
    assert!(!allowed(Some(""), "/users/"));
    assert!(allowed(Some("a b"), "/users/a%20b"));
    assert!(allowed(Some("é"), "/users/%C3%A9"));
    assert!(!allowed(Some("a%20b"), "/users/a%20b"));
    assert!(!allowed(Some("{user}"), "/users/alice"));
}

#[test]
fn a_glob_is_any_run_of_bytes_inside_a_segment_that_is_not_empty() {
    resources(
        "/index_*",
        &["/index_", "/index_1", "/index_*"],
        &["/index", "/Index_1", "/xindex_1", "/index_1/x", "/"],
    );
    resources(
        "/*.json",
        &["/a.json", "/.json", "/a.b.json"],
        &["/a.jsonx", "/json", "/a/b.json", "/a.json/"],
    );
    resources(
        "/a*b*c",
        &["/abc", "/axxbyyc", "/abbcc", "/abcbc"],
        &["/ac", "/abca", "/acb", "/ab/c"],
    );
    resources("/a*a", &["/aa", "/aba"], &["/a", "/ab"]);
    resources("/*", &["/a", "/*"], &["/", "/a/", "/a/b", ""]);
    resources("/*a*", &["/a", "/xax"], &["/", "/b"]);
}

/// RFC 3986, 2.1: a triplet stands for one byte, and neither of its digits is a character of the
/// name.
#[test]
fn a_triplet_is_one_character_to_a_glob() {
    resources("/x*9", &["/x9", "/x%C3%A99", "/x%C3%A9-9"], &["/x%C3%A9", "/x%C3%A9%C3%A9"]);
    resources("/*40", &["/40", "/%4040", "/a%40b40"], &["/%40", "/a%40", "/%404", "/%40%40"]);
    resources("/*0", &["/0", "/%200"], &["/%20", "/a%40"]);
    resources("/*4*", &["/4", "/%404", "/4%40"], &["/%40", "/%24%C3%A4", "/%40%40"]);
    resources("/a*0*z", &["/a0z", "/a%200z", "/a0%20z"], &["/a%20z", "/a%20%20z"]);
    resources("/a*0*0", &["/a00", "/a0%200"], &["/a0", "/a%200", "/a0%20", "/a%20%20"]);
    resources("/*25*", &["/%2525", "/25%25"], &["/%25", "/%252", "/%255", "/%25%25"]);
    resources("/*A9*", &["/%C3%A9A9"], &["/%C3%A9", "/%C3%A99"]);
    resources("/*%A9", &["/%C3%A9", "/a%C2%A9"], &["/A9", "/%C3%A9a"]);
    resources("/*%40*", &["/%40", "/a%40b", "/%20%40"], &["/40", "/%2540"]);
    resources("/%40*", &["/%40", "/%400", "/%40%40"], &["/40", "/%25"]);
}

#[test]
fn a_double_star_is_any_number_of_further_segments_also_none() {
    resources(
        "/people/**",
        &["/people", "/people/", "/people/1", "/people/1/x"],
        &["/peopl", "/peoplex", "/", "people"],
    );
    resources("/**", &["/", "/a", "/a/b/", "//"], &["", "*", "a"]);
    resources("/{id}/**", &["/a", "/a/", "/a/b/c"], &["/", "//a"]);
}

#[test]
fn the_asterisk_form_matches_only_itself() {
    resources("*", &["*", "a"], &["/*", "/", "", "*/a", "/a"]);
    let mut star = policy(&[], &["*"]);
    star.roles[0].allow[0].resources[0].segments = vec![Segment::Literal("*".into())];
    let allowed =
        |resource| is_allowed(&star, &Request { user: None, action: "GET", scope: "", resource });
    assert!(allowed("*"));
    assert!(!["/*", "a", "/", "", "**"].into_iter().any(allowed));
}

/// More globs than are tried one by one, of every kind, and one segment that several of them match.
#[test]
fn many_globs_at_one_place_are_all_found() {
    let globs: Vec<String> = (0..400)
        .flat_map(|n| {
            [
                format!("/p{n}*"),
                format!("/*s{n}"),
                format!("/p{n}*s{n}"),
                format!("/*m{n}*"),
                format!("/q*m{n}*l{n}*r"),
            ]
        })
        .collect();
    let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
    let matching = [
        "/p7",
        "/p399x",
        "/s7",
        "/xs12",
        "/p3s3",
        "/xm17y",
        "/m17",
        "/qm1l1r",
        "/q-m300-l300-r",
        "/aam1bbm2cc",
        "/p0",
    ];
    let others = ["/", "/p", "/xp7", "/s7x", "/ql1-r", "/m", "/qM401l401", "/n400"];
    resources_of_all(&globs, &matching, &others);
}

/// The same where globs are looked up by their ends, and by what stands between them.
#[test]
fn a_triplet_is_one_character_to_many_globs() {
    let of = |glob: fn(usize) -> String| (0..100).map(glob).collect::<Vec<_>>();
    for (globs, matching, others) in [
        (
            of(|n| format!("/*{n:02}")),
            ["/40", "/%4040", "/%2517"],
            ["/%40", "/a%25", "/%404", "/%25%40"],
        ),
        (
            of(|n| format!("/a*{n:02}")),
            ["/a40", "/a%4040", "/a%C3%A917"],
            ["/a%40", "/a-%25", "/a4", "/40"],
        ),
        (
            of(|n| format!("/*{n:02}*")),
            ["/40", "/%40a17%20", "/%2517"],
            ["/%40", "/%40-%25", "/%404", "/%255a"],
        ),
        (
            of(|n| format!("/*{n:02}*b*")),
            ["/40b", "/%4040b", "/4%4040%20b"],
            ["/%40b", "/%40b40", "/40", "/b"],
        ),
    ] {
        let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
        resources_of_all(&globs, &matching, &others);
    }
}

#[test]
fn very_long_names_cost_little_and_break_nothing() {
    let globs: Vec<String> = (0..100).map(|n| format!("/*a{n}*")).collect();
    let mut all: Vec<&str> = globs.iter().map(String::as_str).collect();
    all.extend(["/{a}/{b}/**", "/x/**", "/{user}", "/*x", "/a/b/c"]);
    let policy = policy(&["*.example.com", "exact.test"], &all);
    let engine = Engine::compile(&policy);
    let segments = "/a".repeat(100_000);
    let slashes = "/".repeat(100_000);
    let one = format!("/{}", "a".repeat(100_000));
    let dots = ".".repeat(100_000);
    let labels = format!("{}example.com", "a.".repeat(100_000));
    let decide = |scope: &str, resource: &str| {
        let request = AccessRequest {
            action: b"GET",
            scope: scope.as_bytes(),
            resource: resource.as_bytes(),
        };
        engine.decide(engine.anonymous(), Some(PatternSubject::named(b"alice")), request)
    };
    assert_eq!(decide(&labels, &segments), Decision::Allowed(RuleId(0)));
    assert_eq!(decide(&labels, &slashes), Decision::NotAllowed);
    assert_eq!(decide(&labels, &one), Decision::NotAllowed);
    assert_eq!(decide(&dots, &segments), Decision::NotAllowed);
    assert_eq!(decide(&dots, &one), Decision::NotAllowed);
}

/// `ann` of one source is not `ann` of another, whatever stands before her name.
#[test]
fn a_name_without_its_prefix_counts_only_from_the_sources_that_the_rule_names() {
    const OTHER: SourceId = SourceId(2);
    let named =
        |sources: &[SourceId], user: &'static str, prefix: usize, source: Option<SourceId>| {
            let mut policy = policy(&[], &["/users/{user}", "/users/{user}/x"]);
            let rule = &mut policy.roles[0].allow[0];
            rule.resources[0].segments[1] = Segment::UserId(sources.to_vec());
            let subject =
                Some(PatternSubject { user: user.as_bytes(), prefix_len: prefix, source });
            let request = AccessRequest { action: b"GET", scope: b"", resource: b"/users/ann" };
            let engine = Engine::compile(&policy);
            let matches = rule_matches(&policy, subject);
            let decision = engine.decide(engine.anonymous(), subject, request);
            assert_eq!(
                decision == Decision::Allowed(RuleId(0)),
                matches,
                "{sources:?} {user} {source:?}"
            );
            matches
        };
    let (basic, issuer) = (SourceId::BASIC, SourceId::from_issuer(0));
    assert!(named(&[basic], "basic:ann", 6, Some(basic)));
    assert!(named(&[basic, issuer], "basic:ann", 6, Some(basic)));
    assert!(named(&[basic, issuer], "ann", 0, Some(issuer)));
    assert!(!named(&[basic], "ann", 0, Some(issuer)));
    assert!(!named(&[basic, issuer], "ann", 0, Some(OTHER)));
    assert!(!named(&[basic], "ann", 0, None));
    assert!(!named(&[basic], "basic:bob", 6, Some(basic)));
    assert!(!named(&[basic], "basic:ann", 0, Some(basic)));
    assert!(!named(&[], "ann", 0, Some(basic)));
    assert!(!named(&[basic], "", 0, Some(basic)));
}

fn rule_matches(policy: &Policy, subject: Option<PatternSubject<'_>>) -> bool {
    let mut patterns = policy.rules().flat_map(|(_, _, rule, _)| &rule.resources);
    patterns.any(|pattern| pattern.matches(b"/users/ann", subject))
}

/// No recursion follows the depth of a policy or of a request.
#[test]
fn very_deep_patterns_and_chains_of_roles_break_nothing() {
    let deep = "/a".repeat(50_000);
    let mut policy = policy(&[], &[&deep, &format!("{deep}/**")]);
    let template = Role { allow: Vec::new(), ..policy.roles[0].clone() };
    policy.roles.extend((1..20_000).map(|number| Role {
        name: format!("role-{number}").into(),
        extends: vec![policy::model::RoleId(number - 1)],
        ..template.clone()
    }));
    let engine = Engine::compile(&policy);
    let roles = engine.roles_of("alice", [], ["role-19999"]);
    assert_eq!(engine.role_names(&roles).count(), 20_000);
    let request = AccessRequest { action: b"GET", scope: b"", resource: deep.as_bytes() };
    assert_eq!(engine.decide(&roles, None, request), Decision::Allowed(RuleId(0)));
}

#[test]
fn a_policy_of_nothing_allows_nothing() {
    let engine = Engine::compile(&Policy::default());
    let request = AccessRequest { action: b"GET", scope: b"", resource: b"/" };
    let roles = engine.roles_of("alice", ["staff"], ["admin", "anyone", "authenticated"]);
    assert_eq!(
        engine.decide(&roles, Some(PatternSubject::named(b"alice")), request),
        Decision::NotAllowed
    );
    assert_eq!(engine.decide(engine.anonymous(), None, request), Decision::NotAllowed);
    assert_eq!(engine.role_names(&roles).count(), 0);
}

/// More roles and actions at one place than are searched one by one.
#[test]
fn of_many_roles_and_actions_at_one_place_the_lowest_rule_decides() {
    let base = policy(&[], &["/people"]);
    let mut policy = Policy::default();
    for number in 0..300_u32 {
        let mut role = base.roles[0].clone();
        role.name = format!("role-{number}").into();
        let actions = [Actions::These(vec![format!("A{}", number % 20).into()]), Actions::Any];
        role.allow[0].actions = actions[usize::from(number % 3 == 0)].clone();
        if number % 7 == 0 {
            role.deny =
                vec![Rule { actions: Actions::These(vec!["A1".into()]), ..role.allow[0].clone() }];
        }
        policy.roles.push(role);
    }
    let engine = Engine::compile(&policy);
    for first in (0..300).step_by(11) {
        for second in (0..300).step_by(17) {
            let names = [format!("role-{first}"), format!("role-{second}")];
            let roles: Vec<&str> = names.iter().map(String::as_str).collect();
            let caller = Caller { user: Some("alice"), roles: roles.clone(), ..Caller::default() };
            for action in ["A0", "A1", "A2", "A19", "other"] {
                let request =
                    AccessRequest { action: action.as_bytes(), scope: b"", resource: b"/people" };
                let set = engine.roles_of("alice", [], roles.iter().copied());
                let expected = reference::decide(&policy, &caller, &request);
                assert_eq!(engine.decide(&set, None, request), expected);
            }
        }
    }
}
