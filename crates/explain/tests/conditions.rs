//! Conditions in the answers of `who_can`, `what_can` and `explain`.

use std::time::Duration;

use authorizer::{Authorizer, Header, Request};
use explain::{ExplainedSubject, Explainer, NamedCaller, unverified_subject};
use identity::Subject;
use policy::cases::parse_time;
use policy::model::SourceId;
use serde_json::json;

use crate::who_can::compiled;

const POLICY: &str = r#"version: 1
identity:
  basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [support] } } }
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, roles: roles, groups: groups }
conditions:
  office: cidr('10.0.0.0/8').containsIP(source.ip)
  early: request.time.getHours('UTC') < 12
roles:
  anyone: { allow: [{ rule: GET /open, when: office }, { rule: GET /mine, when: has(claims.sub) }] }
  support:
    allow:
      - { rule: POST /refund, when: office }
      - { rule: "GET {tenant}.example.com/orders/{id}", when: host.tenant == claims.tenant }
      - { rule: GET /find, when: "request.query['q'] == 'a' || request.headers['x-level'] == '2'" }
      - GET /log
      - GET /list
  lead: { extends: [support], allow: [POST /refund, GET /away] }
  night: { when: "!early", allow: [GET /log], extends: [away] }
  away: { allow: [{ rule: GET /away, when: office }] }
  barred: { deny: [{ rule: "GET /list", when: early }] }
  authenticated: { deny: [{ rule: GET /log, when: "'barred' in groups" }] }
grants:
  support: { groups: [support], when: claims.contract == 'active' }
  night: { users: [ann] }
  barred: { groups: [support] }
"#;

/// The lines about callers of tokens, after the issuer.
fn tokens(request: &Request<'_>, time: Option<&str>) -> Vec<String> {
    let authorizer = compiled(POLICY);
    let explainer = Explainer::new(&authorizer).at(time.and_then(parse_time));
    let text = explainer.who_can(request, Duration::ZERO).to_string();
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("any token of https://id.example.com"));
    lines.map(str::to_owned).collect()
}

fn request<'a>(method: &'a str, host: &'a str, path: &'a str) -> Request<'a> {
    let (method, host, path) = (method.as_bytes(), host.as_bytes(), path.as_bytes());
    Request { method, host, path, ..Request::default() }
}

#[test]
fn each_line_has_the_conditions_of_the_grant_the_roles_and_the_rule() {
    let refund = request("POST", "localhost", "/refund");
    assert_eq!(
        tokens(&refund, None),
        [
            " with the role `lead`",
            " with the group `support`, where claims.contract == 'active' && office",
            " with the role `support`, where office",
        ]
    );
    let from_office = Request { client: b"10.1.2.3", ..refund };
    assert_eq!(
        tokens(&from_office, None),
        [
            " with the roles `lead` or `support`",
            " with the group `support`, where claims.contract == 'active'",
        ]
    );
    let from_home = Request { client: b"192.0.2.7", ..refund };
    assert_eq!(tokens(&from_home, None), [" with the role `lead`"]);
}

#[test]
fn the_values_of_placeholders_are_shown() {
    assert_eq!(
        tokens(&request("GET", "acme.example.com", "/orders/7"), None),
        [
            " with the roles `lead` or `support`, where 'acme' == claims.tenant",
            " with the group `support`, where claims.contract == 'active' && 'acme' == claims.tenant",
        ]
    );
}

#[test]
fn a_deny_rule_with_a_condition_does_not_take_its_callers_away() {
    let list = request("GET", "localhost", "/list");
    assert_eq!(tokens(&list, None).len(), 2, "{:?}", tokens(&list, None));
    assert_eq!(
        tokens(&list, Some("2026-01-31T20:00:00Z")),
        [
            " with the roles `lead` or `support`",
            " with the group `support`, where claims.contract == 'active'",
        ]
    );
    assert_eq!(
        tokens(&list, Some("2026-01-31T08:00:00Z")),
        [
            " with the roles `lead` or `support`, unless with the role `barred` or the group `support`"
        ]
    );
}

#[test]
fn what_is_known_of_callers_decides() {
    let authorizer = compiled(POLICY);
    let who = |path| {
        Explainer::new(&authorizer).who_can(&request("GET", "localhost", path), Duration::ZERO)
    };
    let open = who("/open").to_string();
    assert!(
        open.starts_with(
            "anyone without credentials, where office\nthe user `ann` by Basic, where office\n"
        ),
        "{open}"
    );
    // Who has no token has no claims.
    let mine = who("/mine").to_string();
    assert!(
        mine.starts_with("any token of https://id.example.com, where has(claims.sub)\nrequest"),
        "{mine}"
    );
    // Ann is not in the group `barred`, and has the role `night` alone: her grant of `support` needs
    // a claim.
    let log = who("/log").to_string();
    assert!(log.starts_with("the user `ann` by Basic, where !early\n"), "{log}");
    assert!(log.contains("unless 'barred' in groups"), "{log}");
}

#[test]
fn a_header_and_the_query_decide() {
    let find = |path, headers| Request { headers, ..request("GET", "localhost", path) };
    let two = [Header { name: b"X-Level", value: b"2" }];
    let where_ = |given: &str| {
        [
            format!(" with the group `support`, where claims.contract == 'active'{given}"),
            " with the roles `lead` or `support`".to_owned(),
        ]
    };
    let plain = ["request.query['q'] == 'a' || request.headers['x-level'] == '2'"];
    assert!(tokens(&find("/find", &[]), None)[1].ends_with(plain[0]));
    for found in [tokens(&find("/find?q=a", &[]), None), tokens(&find("/find", &two), None)] {
        let mut found = found;
        found.sort();
        assert_eq!(found, where_(""));
    }
    let other = tokens(&find("/find?q=b", &[]), None);
    assert!(other[1].ends_with("where request.headers['x-level'] == '2'"), "{other:?}");
    assert_eq!(
        tokens(&find("/find?q=b", &[Header { name: b"x-level", value: b"3" }]), None),
        [""; 0]
    );
}

#[test]
fn conditions_are_in_json_too() {
    let authorizer = compiled(POLICY);
    let who = Explainer::new(&authorizer)
        .who_can(&request("POST", "localhost", "/refund"), Duration::ZERO);
    let json = serde_json::to_value(&who).unwrap();
    assert_eq!(json["callers"][0].get("when"), None);
    assert_eq!(json["callers"][1]["when"], "claims.contract == 'active' && office");
    assert_eq!(json["rules"][0]["when"], "office");
}

fn subject(roles: &[&str], groups: &[&str]) -> Subject {
    let subject = unverified_subject("zoe", Some(SourceId::from_issuer(0)), groups, roles);
    Subject { issuer: Some("https://id.example.com".into()), ..subject }
}

#[test]
fn what_can_has_the_condition_of_each_rule() {
    let authorizer = compiled(POLICY);
    let what = Explainer::new(&authorizer).what_can(Some(&subject(&[], &["support"])));
    let of = |name: &str| {
        let mut rules = what.rules.iter().filter(|rule| rule.rule.rule == name);
        rules.next().and_then(|rule| rule.when.clone())
    };
    assert_eq!(of("POST /refund").as_deref(), Some("claims.contract == 'active' && office"));
    assert_eq!(of("GET /list").as_deref(), Some("claims.contract == 'active'"));
    assert!(what.to_string().contains(", where early"), "{what}");
    assert!(
        !what.to_string().contains("'barred' in groups"),
        "it is false for this caller: {what}"
    );
    let from_home = Request { client: b"192.0.2.7", ..Request::default() };
    let what = Explainer::new(&authorizer)
        .at(parse_time("2026-01-31T20:00:00Z"))
        .what_can_with(&from_home, Some(&subject(&["night"], &[])));
    let rules: Vec<_> = what.rules.iter().map(|rule| (&*rule.rule.rule, &rule.when)).collect();
    assert_eq!(rules.last(), Some(&("GET /log", &None)), "`early` is false, and `office`: {what}");
}

fn explained(authorizer: &Authorizer, request: &Request<'_>, subject: Subject) -> String {
    let explainer = Explainer::new(authorizer);
    explainer.explain(request, ExplainedSubject::Given(subject), Duration::ZERO).to_string()
}

#[test]
fn explain_says_what_the_answer_depends_on() {
    let authorizer = compiled(POLICY);
    let refund = request("POST", "localhost", "/refund");
    let text = explained(&authorizer, &refund, subject(&[], &["support"]));
    assert!(text.contains("\ndepends: claims.contract, source.ip (not given)"), "{text}");
    assert!(
        text.contains(
            "roles:   support (granted to the group `support`), where claims.contract == 'active'"
        ),
        "{text}"
    );
    let given = Request { client: b"10.1.2.3", ..refund };
    let claims = serde_json::json!({ "contract": "active" });
    let text = explained(&authorizer, &given, Subject { claims, ..subject(&[], &["support"]) });
    assert!(text.starts_with("200 allowed") && !text.contains("depends"), "{text}");
    // One rule without a condition decides.
    let text = explained(&authorizer, &refund, subject(&["lead"], &[]));
    assert!(text.starts_with("200 allowed") && !text.contains("depends"), "{text}");
    let text = explained(
        &authorizer,
        &request("GET", "localhost", "/list"),
        subject(&["support", "barred"], &[]),
    );
    assert!(text.contains("\ndepends: request.time (not given)"), "{text}");
}

#[test]
fn explain_says_under_which_condition_a_missing_role_helps() {
    let authorizer = compiled(POLICY);
    let refund = request("POST", "localhost", "/refund");
    let text = explained(&authorizer, &refund, subject(&[], &[]));
    assert!(
        text.contains(
            "missing: the role `support`, or `lead`, which extends it, by `support: POST /refund`"
        ),
        "{text}"
    );
    assert!(text.contains("), where office\n"), "{text}");
    let from_home = Request { client: b"192.0.2.7", ..refund };
    let text = explained(&authorizer, &from_home, subject(&[], &[]));
    assert!(text.contains("), but office is not true\n"), "{text}");
    // The caller's own rule fails: the rule of another role is said, too.
    let text = explained(&authorizer, &from_home, subject(&["support"], &[]));
    assert!(
        text.contains("condition_failed") && text.contains("missing: the role `lead`"),
        "{text}"
    );
    let text =
        explained(&authorizer, &request("PUT", "localhost", "/refund"), subject(&["support"], &[]));
    assert!(text.contains("it is for `POST`, not `PUT`, where office"), "{text}");
}

#[test]
fn explain_says_why_a_placeholder_is_not_the_claim() {
    const RULES: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
roles:
  authenticated: { allow: ["GET {claims.tenant}.example.com/", "GET /units/{claims./org/unit}"] }
"#;
    let authorizer = compiled(RULES);
    let root = request("GET", "acme.example.com", "/");
    let unit = request("GET", "localhost", "/units/a");
    for (request, claims, why) in [
        (root, serde_json::json!({ "tenant": "ACME" }), "the claim is `ACME`"),
        (root, serde_json::json!({ "tenant": ["acme"] }), "the claim is not text"),
        (root, serde_json::json!({}), "the caller has no `claims.tenant`"),
        (
            root,
            serde_json::json!({ "tennant": "acme" }),
            "the caller has no `claims.tenant`; it has `claims.tennant`",
        ),
        (
            unit,
            serde_json::json!({ "org": { "units": "a" } }),
            "the caller has no `claims.org.unit`; it has `claims.org.units`",
        ),
    ] {
        let text = explained(&authorizer, &request, Subject { claims, ..subject(&[], &[]) });
        assert!(text.contains(&format!(" of the rule: false ({why})\n")), "{text}");
    }
}

fn who_can_get(policy: &str, path: &str) -> String {
    let request = request("GET", "localhost", path);
    Explainer::new(&compiled(policy)).who_can(&request, Duration::ZERO).to_string()
}

/// A rule counts at each of its hosts and paths that match: one at which its conditions are true
/// allows.
#[test]
fn explain_shows_the_conditions_at_the_path_that_decides() {
    const RULES: &str = r#"version: 1
identity: { basic: { verify: false } }
roles:
  by_rule: { allow: [{ methods: [GET], paths: ["/{id}/b", "/a/{id}"], when: path.id == 'b' }] }
  by_role: { allow: [{ methods: [GET], paths: ["/{id}/d", "/c/{id}"] }], when: path.id == 'd' }
  by_deny:
    allow: [GET /**]
    deny: [{ methods: [GET], paths: ["/{id}/f", "/e/{id}"], when: path.id == 'f' }]
"#;
    let authorizer = compiled(RULES);
    for (path, role, status) in
        [("/a/b", "by_rule", "200"), ("/c/d", "by_role", "200"), ("/e/f", "by_deny", "403")]
    {
        let subject = unverified_subject("ann", Some(SourceId::BASIC), &[], &[role]);
        let text = explained(&authorizer, &request("GET", "localhost", path), subject);
        assert!(text.starts_with(status), "{text}");
        assert!(text.contains(": true\n") && !text.contains(": false"), "{text}");
    }
}

/// Two texts of conditions may be equal though their parts are not.
#[test]
fn anyone_is_listed_beside_a_role_under_the_same_condition() {
    const RULES: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, roles: roles }
roles:
  authenticated:
    allow: [{ rule: GET /a, when: "source.ip in ['10.0.0.1'] && claims.a == 'b'" }]
  reader: { when: "source.ip in ['10.0.0.1']", allow: [{ rule: GET /a, when: claims.a == 'b' }] }
"#;
    let text = who_can_get(RULES, "/a");
    assert!(
        text.starts_with(
            "any token of https://id.example.com, where source.ip in ['10.0.0.1'] && \
             claims.a == 'b'\n"
        ),
        "{text}"
    );
}

#[test]
fn a_user_whose_condition_is_narrower_is_an_exception() {
    const RULES: &str = r#"version: 1
identity: { basic: { verify: false, users: { mallory: { groups: [blocked] } } } }
roles:
  authenticated: { when: "!('blocked' in groups)", allow: [GET /a] }
  reader: { allow: [GET /a] }
grants: { reader: { users: [mallory], when: "source.ip in ['10.0.0.1']" } }
"#;
    let text = who_can_get(RULES, "/a");
    assert!(
        text.starts_with(
            "any user by Basic, except for the user `mallory`\n\
             the user `mallory` by Basic, where source.ip in ['10.0.0.1']\n"
        ),
        "{text}"
    );
}

/// All callers have tokens, and what they may do depends on the claims.
const TOKENS: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, groups: groups }
conditions: { office: cidr('10.0.0.0/8').containsIP(source.ip) }
roles:
  support:
    when: host.tenant == claims.tenant
    allow:
      - "* {tenant}.example.com/orders/**"
      - { rule: "POST {tenant}.example.com/orders/{id}/refund", when: office }
    deny:
      - { rule: "POST {tenant}.example.com/orders/{id}/refund", when: "!office" }
      - { rule: "DELETE {tenant}.example.com/orders/**", when: claims.level < 3 }
grants: { support: { groups: [support], when: claims.contract == 'active' } }
"#;

#[test]
fn what_can_leaves_open_what_the_token_of_a_user_says() {
    let authorizer = compiled(TOKENS);
    let explainer = Explainer::new(&authorizer);
    let groups = ["support".to_owned()];
    let sue = NamedCaller { user: "sue", groups: &groups, ..NamedCaller::default() };
    let sue = explainer.named_caller("", sue).unwrap().unwrap();
    let of_sue = explainer.what_can(Some(&sue)).rules;
    assert!(of_sue.len() == 4 && of_sue.iter().all(|rule| rule.when.is_some()), "{of_sue:#?}");
    let everyone = unverified_subject("", None, &["support"], &[]);
    assert_eq!(of_sue, explainer.what_can(Some(&everyone)).rules);
    // The claims decide where they are given.
    let claims = serde_json::json!({ "contract": "active", "tenant": "acme", "level": 3 });
    let rules = explainer.what_can(Some(&Subject { claims, ..sue })).rules;
    let when: Vec<_> = rules.iter().map(|rule| rule.when.as_deref().unwrap()).collect();
    let tenant = "host.tenant == claims.tenant";
    assert_eq!(
        when,
        [tenant, &format!("{tenant} && office"), &format!("{tenant} && !office")],
        "{rules:#?}"
    );
}

/// A rule may have such hosts and paths beside others.
#[test]
fn what_can_leaves_out_hosts_and_paths_with_a_claim_that_the_caller_lacks() {
    const CLAIMED: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub }
roles:
  anyone:
    allow:
      - "GET {claims.tenant}.example.com/orders"
      - "GET /units/{claims./org/unit}"
      - { methods: [GET], hosts: ["{claims.tenant}.example.com", b.example.com], paths: ["/b", "/c/{claims.tenant}"] }
    deny: ["GET /c/{claims.tenant}"]
"#;
    let authorizer = compiled(CLAIMED);
    let orders = "{claims.tenant}.example.com/orders";
    let unit = "/units/{claims./org/unit}";
    let both = "{claims.tenant}.example.com|b.example.com/b|/c/{claims.tenant}";
    let (only_b, denied) = ("b.example.com/b", "/c/{claims.tenant}");
    let [of_acme, of_a_number] = [json!({ "tenant": "acme" }), json!({ "tenant": 7 })]
        .map(|claims| Subject { claims, ..subject(&[], &[]) });
    for (caller, wanted) in [
        (None, &[only_b][..]),
        (Some(named("ann", Some(SourceId::BASIC))), &[only_b]),
        (Some(named("ci", Some(SourceId::API_KEYS))), &[only_b]),
        (Some(named("batch", Some(SourceId::CERTIFICATES))), &[only_b]),
        (Some(of_a_number), &[only_b]),
        (Some(of_acme), &[orders, both, denied]),
        (Some(subject(&[], &[])), &[orders, unit, both, denied]),
        (Some(named("zoe", None)), &[orders, unit, both, denied]),
        (Some(named("", None)), &[orders, unit, both, denied]),
    ] {
        let rules = Explainer::new(&authorizer).what_can(caller.as_ref()).rules;
        let places = rules.iter().map(|rule| rule.hosts.join("|") + &rule.paths.join("|"));
        assert_eq!(places.collect::<Vec<_>>(), wanted, "{caller:?}");
    }
}

fn named(user: &str, source: Option<SourceId>) -> Subject {
    unverified_subject::<&str>(user, source, &[], &[])
}

#[test]
fn nobody_may_where_the_condition_that_allows_also_denies() {
    let authorizer = compiled(TOKENS);
    let refund = request("POST", "acme.example.com", "/orders/7/refund");
    let from_home = Request { client: b"192.0.2.7", ..refund };
    let who = Explainer::new(&authorizer).who_can(&from_home, Duration::ZERO);
    assert!(who.callers.is_empty() && who.to_string().starts_with("nobody: "), "{who}");
    // One alternative contains the other.
    let who = Explainer::new(&authorizer).who_can(&refund, Duration::ZERO);
    let [callers] = &*who.callers else { panic!("{who}") };
    let where_ = callers.when.as_deref();
    assert_eq!(where_, Some("claims.contract == 'active' && 'acme' == claims.tenant"), "{who}");
    assert!(callers.to_string().ends_with("&& !office"), "{who}");

    const ALL: &str = r#"version: 1
identity: { basic: { verify: false } }
roles:
  authenticated:
    allow: [{ rule: GET /a, when: "request.query['b'] == 'c'" }]
    deny: [{ rule: GET /a, when: "request.query['b'] == 'c'" }]
"#;
    let text = who_can_get(ALL, "/a");
    assert!(text.starts_with("nobody: "), "{text}");
}

/// Two conditions may have one text, and read other segments or another reading of the path.
#[test]
fn a_denial_under_the_same_words_may_be_another() {
    const RULES: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub }
roles:
  authenticated:
    allow: ["GET /units/{claims./org/unit}/*"]
    deny: ["GET /units/*/{claims./org/unit}"]
"#;
    let text = who_can_get(RULES, "/units/a/b");
    assert!(text.starts_with("any token of https://id.example.com, where "), "{text}");
}

/// Of callers whose source is not known, as of others.
#[test]
fn a_claim_that_is_given_is_not_said_to_be_missing() {
    let authorizer = compiled(POLICY);
    let refund = request("POST", "localhost", "/refund");
    let claims = serde_json::json!({ "contract": "active" });
    let zoe = Subject { claims, ..unverified_subject("zoe", None, &["support"], &[]) };
    let text = explained(&authorizer, &refund, zoe);
    assert!(text.contains("\ndepends: source.ip (not given)"), "{text}");
}

#[test]
fn a_user_whom_a_condition_of_others_lets_in_too_is_no_exception() {
    const GRANTED: &str = r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, groups: groups }
roles: { s: { allow: [{ rule: GET /a, when: claims.a == 'b' }] } }
grants: { s: { users: [bob], groups: [support] } }
"#;
    let text = who_can_get(GRANTED, "/a");
    assert!(
        text.starts_with(
            "any token of https://id.example.com with the group `support`, where claims.a == 'b'\n\
             any token of https://id.example.com for the user `bob`, where claims.a == 'b'\n"
        ),
        "{text}"
    );
}
