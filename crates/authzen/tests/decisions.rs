//! Decisions about questions, against the reference evaluator of policies.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Request, RequestBody, Scratch, Verdict};
use authzen::{Decider, Endpoint, Malformed, answer};
use document::MapFiles;
use identity::FetchedKeys;
use policy::AccessRequest;
use policy::model::{Policy, SourceId};
use policy::reference::{self, Caller};
use serde_json::{Value, json};

use crate::asking::{ask, compiled, decision, question, user};

/// Of an application with records. `who` has a subject type for each way to be a caller.
const POLICY: &str = r#"
version: 1
identity:
  basic:
    users:
      alice: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] }
      bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
  jwt:
    - issuer: https://id.example.com
      audiences: [app]
      keys: { url: "https://id.example.com/keys" }
      roles_from_token: [auditor]
      claims: { roles: /roles }
      user_prefix: "id:"
      group_prefix: "id:"
roles:
  anyone: { allow: ["GET /open/{id}"] }
  reader: { allow: ["GET /records/{id}", "GET api.example.com/items/{id}"] }
  owner: { user_id_from: ["https://id.example.com"], allow: ["* /homes/{user.id}/files"] }
  editor: { allow: ["PUT|DELETE /records/{id}"], deny: ["* /records/locked"] }
  auditor: { allow: ["GET /log/{id}"] }
  wide: { allow: ["* /**"] }
  sales: { allow: [{ rule: "POST /records/{id}", when: "claims.department == 'Sales'" }] }
grants:
  reader: { users: [alice, "id:carol"], groups: [staff, "id:crew"] }
  owner: { users: [alice, "id:carol"] }
  editor: { users: [alice] }
  wide: { users: [bob] }
  sales: { users: [alice] }
authzen:
  subjects:
    user: {}
    person: { issuer: "https://id.example.com", groups: /groups, roles: /roles }
    service: { groups: /of/groups, roles: /roles }
  actions: { view: GET, edit: PUT }
  resources:
    record: { path: "/records/{id}" }
    item: { host: API.example.com, path: "/items/{id}" }
    home: { path: "/homes/{id}/files" }
    log: { path: "/log/{id}" }
    open: { path: "/open/{id}" }
"#;

fn authorizer(policy: &str) -> Authorizer {
    compiled(&MapFiles::new("policy.yaml", policy))
}

#[test]
fn decisions_are_those_of_the_reference() {
    let authorizer = authorizer(POLICY);
    let policy: &Policy = &authorizer.loaded().policy;
    let issuer = Some(SourceId::from_issuer(0));
    let basic = Some(SourceId::BASIC);
    let callers: [(Value, Caller<'_>); 7] = [
        (
            user("alice"),
            Caller {
                user: Some("alice"),
                source: basic,
                groups: vec!["staff"],
                ..Caller::default()
            },
        ),
        (user("bob"), Caller { user: Some("bob"), source: basic, ..Caller::default() }),
        // Names with the prefix of an issuer are of its users.
        (user("id:carol"), Caller { user: Some("id:carol"), source: issuer, ..Caller::default() }),
        (
            json!({ "type": "person", "id": "carol" }),
            Caller { user: Some("id:carol"), source: issuer, ..Caller::default() },
        ),
        (
            json!({ "type": "person", "id": "dan", "properties": { "groups": ["crew"] } }),
            Caller {
                user: Some("id:dan"),
                source: issuer,
                groups: vec!["id:crew"],
                ..Caller::default()
            },
        ),
        // `roles_from_token` of the issuer limits its users' roles.
        (
            json!({ "type": "person", "id": "dan", "properties": { "roles": "auditor wide" } }),
            Caller {
                user: Some("id:dan"),
                source: issuer,
                roles: vec!["auditor"],
                ..Caller::default()
            },
        ),
        (
            json!({
                "type": "service", "id": "alice",
                "properties": { "of": { "groups": ["staff"] }, "roles": ["wide"] },
            }),
            Caller {
                user: Some("alice"),
                source: basic,
                groups: vec!["staff"],
                roles: vec!["wide"],
                actor: None,
            },
        ),
    ];
    let actions = [("view", "GET"), ("edit", "PUT"), ("delete", "DELETE"), ("POST", "POST")];
    let resources = [
        (("record", "101"), "", "/records/101"),
        (("record", "locked"), "", "/records/locked"),
        (("item", "7"), "api.example.com", "/items/7"),
        (("home", "alice"), "", "/homes/alice/files"),
        (("home", "carol"), "", "/homes/carol/files"),
        (("log", "a b"), "", "/log/a%20b"),
        (("open", "x"), "", "/open/x"),
    ];
    let mut allowed = 0;
    for (subject, caller) in &callers {
        for (action, method) in actions {
            for (resource, host, path) in resources {
                let request = AccessRequest {
                    action: method.as_bytes(),
                    scope: host.as_bytes(),
                    resource: path.as_bytes(),
                };
                let expected = reference::decide(policy, caller, &request);
                let expected = matches!(expected, policy::Decision::Allowed(_));
                let question = question(subject, action, resource);
                assert_eq!(decision(&authorizer, &question), expected, "{question}");
                allowed += u32::from(expected);
            }
        }
    }
    assert!(allowed > 30, "{allowed}");
}

/// A name with an issuer's prefix, and a type with an issuer.
#[test]
fn conditions_read_the_issuer_of_its_callers() {
    let reader = "reader: { allow: [\"GET /records/{id}\"";
    let only = "{ rule: \"PATCH /records/{id}\", when: \"issuer == 'https://id.example.com'\" }";
    let authorizer = authorizer(&POLICY.replace(reader, &format!("{reader}, {only}")));
    for (subject, allowed) in [
        (user("id:carol"), true),
        (json!({ "type": "person", "id": "carol" }), true),
        (user("alice"), false),
    ] {
        let question = question(&subject, "patch", ("record", "7"));
        assert_eq!(decision(&authorizer, &question), allowed, "{subject}");
    }
}

/// A `deny` rule may be for the groups that would be lost.
#[test]
fn a_subject_whose_groups_are_unknown_is_denied() {
    let barred =
        "  barred: { deny: [\"* /records/{id}\"] }\ngrants:\n  barred: { groups: [leavers] }";
    let authorizer = authorizer(&POLICY.replace("grants:", barred));
    for (of, allowed) in [
        (json!({}), true),
        (json!({ "groups": ["staff"] }), true),
        (json!({ "groups": ["leavers"] }), false),
        (json!({ "groups": 7 }), false),
        (json!("leavers"), false),
        (json!(null), false),
    ] {
        let subject = json!({ "type": "service", "id": "alice", "properties": { "of": of } });
        let question = question(&subject, "view", ("record", "6"));
        assert_eq!(decision(&authorizer, &question), allowed, "{subject}");
    }
}

#[test]
fn what_an_issuers_tokens_must_have_its_subjects_must_have() {
    let required = "user_prefix: \"id:\"\n      require: { email_verified: true }";
    let authorizer = authorizer(&POLICY.replacen("user_prefix: \"id:\"", required, 1));
    for (properties, allowed) in [
        (json!({ "email_verified": true }), true),
        (json!({ "email_verified": false }), false),
        (json!({}), false),
    ] {
        for (kind, id) in [("person", "carol"), ("user", "id:carol")] {
            let subject = json!({ "type": kind, "id": id, "properties": properties });
            let question = question(&subject, "view", ("record", "7"));
            assert_eq!(decision(&authorizer, &question), allowed, "{subject}");
        }
    }
    assert!(decision(&authorizer, &question(&user("alice"), "view", ("record", "7"))));
}

/// Everything is allowed to `bob`, so that only the mapping can deny.
#[test]
fn what_cannot_be_mapped_is_denied() {
    let authorizer = authorizer(POLICY);
    let bob = user("bob");
    assert!(decision(&authorizer, &question(&bob, "view", ("record", "101"))));
    for id in
        ["", ".", "..", "a/b", "../../log/1", "a\\b", "a\0b", "a\r\nb", "%2e%2e", "..;x", "%252e"]
    {
        let question = question(&bob, "view", ("record", id));
        assert!(!decision(&authorizer, &question), "{question}");
    }
    let long = "a".repeat(2_000);
    assert!(!decision(&authorizer, &question(&bob, "view", ("record", &long))));
    assert!(!decision(&authorizer, &question(&bob, "view", ("unknown", "1"))));
    assert!(!decision(&authorizer, &question(&bob, "view", ("Record", "1"))));
    for action in ["", "a b", "GET /x", "get\r\n", "löschen"] {
        let question = question(&bob, action, ("record", "101"));
        assert!(!decision(&authorizer, &question), "{question}");
    }
    // Even where `anyone` may.
    let open = ("open", "1");
    assert!(decision(&authorizer, &question(&bob, "view", open)));
    let nobody =
        |subject: Value| assert!(!decision(&authorizer, &question(&subject, "view", open)));
    nobody(json!({ "type": "unknown", "id": "bob" }));
    nobody(json!({ "type": "User", "id": "bob" }));
    nobody(user(""));
    nobody(user(" "));
    nobody(user("bob\n"));
    nobody(json!({ "type": "person", "id": "" }));
    for groups in
        [json!(1), json!({}), json!(["crew", 1]), json!([["crew"]]), json!([""]), json!(null)]
    {
        nobody(json!({ "type": "person", "id": "dan", "properties": { "groups": groups } }));
    }
}

/// As with other invalid credentials: with the prefix, and without control characters.
#[test]
fn the_log_names_a_subject_that_is_no_caller() {
    let authorizer = authorizer(POLICY);
    for (subject, name) in [
        (user("eve"), Some("eve")),
        (json!({ "type": "person", "id": "eve", "properties": { "groups": 1 } }), Some("id:eve")),
        (json!({ "type": "unknown", "id": "eve" }), None),
        (user("eve\n"), None),
    ] {
        let mut attempted = Vec::new();
        let mut record = |verdict: &Verdict<'_>, request: &Request<'_>, now| {
            let Verdict::Denied(denied) = verdict else { panic!("{subject}") };
            let error = denied.reason.credentials_error().unwrap();
            attempted.push(authorizer.attempted(request, error, now).user);
        };
        let mut decider = Decider {
            authorizer: &authorizer,
            scratch: &mut Scratch::default(),
            now: Duration::from_secs(1),
            id: b"",
            record: &mut record,
        };
        let body = question(&subject, "view", ("record", "101")).to_string();
        answer(Endpoint::Evaluation, body.as_bytes(), &mut decider).unwrap();
        assert_eq!(attempted, [name.map(str::to_owned)], "{subject}");
    }
}

/// An `id` that is in several segments once it is decoded again is not allowed by a rule for one.
#[test]
fn an_id_stays_in_its_segment() {
    let authorizer = authorizer(POLICY);
    let alice = user("alice");
    for id in ["x%2fy", "x%2Fy", "x%5cy"] {
        assert!(!decision(&authorizer, &question(&alice, "view", ("record", id))), "{id}");
    }
    for id in ["locked", "locked%00", "locked;a", "locked?a", "locked#a"] {
        assert!(!decision(&authorizer, &question(&alice, "view", ("record", id))), "{id}");
    }
}

#[test]
fn properties_of_a_subject_are_claims() {
    let authorizer = authorizer(POLICY);
    let alice = |properties: Value| {
        let subject = json!({ "type": "user", "id": "alice", "properties": properties });
        decision(&authorizer, &question(&subject, "post", ("record", "1")))
    };
    assert!(alice(json!({ "department": "Sales" })));
    assert!(!alice(json!({ "department": "sales" })));
    assert!(!alice(json!({ "department": ["Sales", 1] })));
    assert!(!alice(json!({})));
    // Groups and roles are no properties of this type.
    assert!(!alice(json!({ "groups": ["staff"], "roles": ["wide"] })));
}

#[test]
fn a_policy_without_the_section_denies_all_questions() {
    let (without, _) = POLICY.split_once("authzen:").unwrap();
    let authorizer = authorizer(without);
    assert!(!decision(&authorizer, &question(&user("bob"), "view", ("record", "101"))));
}

#[test]
fn a_malformed_request_gets_no_decision() {
    let authorizer = authorizer(POLICY);
    let whole = question(&user("bob"), "view", ("record", "1"));
    let mut wrong: Vec<String> =
        ["", " ", "x", "[]", "1", "null", "{}", "{} {}", "{\"subject\":"].map(str::to_owned).into();
    for member in ["subject", "action", "resource"] {
        for value in [json!(null), json!("bob"), json!(1), json!([]), json!({})] {
            let mut changed = whole.clone();
            changed[member] = value;
            wrong.push(changed.to_string());
        }
        let mut changed = whole.clone();
        changed.as_object_mut().unwrap().remove(member);
        wrong.push(changed.to_string());
        let mut changed = whole.clone();
        changed[member]["properties"] = json!([1]);
        wrong.push(changed.to_string());
    }
    for (member, part) in [
        ("subject", "type"),
        ("subject", "id"),
        ("action", "name"),
        ("resource", "type"),
        ("resource", "id"),
    ] {
        let mut changed = whole.clone();
        changed[member][part] = json!(1);
        wrong.push(changed.to_string());
        changed[member].as_object_mut().unwrap().remove(part);
        wrong.push(changed.to_string());
    }
    let mut changed = whole.clone();
    changed["context"] = json!("now");
    wrong.push(changed.to_string());
    let text = whole.to_string();
    // Two values of a name, as text and escaped.
    wrong.push(text.replacen("\"id\":\"bob\"", "\"id\":\"eve\",\"id\":\"bob\"", 1));
    wrong.push(text.replacen("\"id\":\"bob\"", "\"id\":\"eve\",\"\\u0069d\":\"bob\"", 1));
    wrong.push(text.replacen("\"bob\"", "\"\\ud800\"", 1));
    wrong.push(text.replacen('{', &format!("{{\"x\":{}{},", "[".repeat(200), "]".repeat(200)), 1));
    for body in wrong {
        for endpoint in [Endpoint::Evaluation, Endpoint::Evaluations] {
            let (answer, seen) = ask(&authorizer, endpoint, body.as_bytes());
            assert!(answer.is_err() && seen.is_empty(), "{body}");
        }
    }
    let mut unknown = whole;
    unknown["x"] = json!({ "y": [1] });
    unknown["subject"]["x"] = json!(1);
    unknown["context"] = json!({ "time": "2026-01-11T00:00:00Z" });
    assert!(decision(&authorizer, &unknown));
}

fn batch(body: &Value) -> (Value, Vec<String>) {
    let (answer, seen) =
        ask(&authorizer(POLICY), Endpoint::Evaluations, body.to_string().as_bytes());
    (answer.unwrap(), seen)
}

#[test]
fn a_batch_is_answered_in_order() {
    let ids = ["1", "locked", "2"];
    let items: Vec<Value> =
        ids.iter().map(|id| json!({ "resource": { "type": "record", "id": id } })).collect();
    let mut body =
        json!({ "subject": user("alice"), "action": { "name": "view" }, "evaluations": items });
    for (semantic, expected) in [
        (json!({}), &[true, false, true][..]),
        (json!({ "evaluations_semantic": "execute_all" }), &[true, false, true]),
        (json!({ "evaluations_semantic": "deny_on_first_deny" }), &[true, false]),
        (json!({ "evaluations_semantic": "permit_on_first_permit" }), &[true]),
    ] {
        body["options"] = semantic;
        let decisions: Vec<Value> =
            expected.iter().map(|decision| json!({ "decision": decision })).collect();
        let (answer, seen) = batch(&body);
        assert_eq!(answer, json!({ "evaluations": decisions }), "{body}");
        assert_eq!(seen.len(), expected.len());
    }
    for semantic in [json!("all"), json!("EXECUTE_ALL"), json!(1), json!([])] {
        body["options"] = json!({ "evaluations_semantic": semantic });
        let (answer, _) =
            ask(&authorizer(POLICY), Endpoint::Evaluations, body.to_string().as_bytes());
        assert_eq!(answer, Err(Malformed::UnknownSemantic));
    }
}

#[test]
fn defaults_are_taken_as_a_whole() {
    let locked = json!({ "type": "record", "id": "locked" });
    let (answer, seen) = batch(&json!({
        "subject": { "type": "person", "id": "dan", "properties": { "roles": ["auditor"] } },
        "action": { "name": "view" },
        "resource": { "type": "log", "id": "1" },
        "evaluations": [
            {},
            { "subject": { "type": "person", "id": "dan" } },
            { "subject": user("bob"), "resource": locked },
        ],
    }));
    let decisions: Vec<_> = answer["evaluations"].as_array().unwrap().iter().collect();
    let decisions: Vec<_> =
        decisions.iter().map(|item| item["decision"].as_bool().unwrap()).collect();
    assert_eq!(decisions, [true, false, true]);
    assert_eq!(seen, ["200 GET /log/1", "403 GET /log/1", "200 GET /records/locked"]);
}

#[test]
fn a_malformed_item_is_denied_and_the_others_are_answered() {
    let record = json!({ "type": "record", "id": "1" });
    let (answer, seen) = batch(&json!({
        "subject": user("bob"),
        "action": { "name": "view" },
        "evaluations": [
            { "resource": record },
            {},
            { "resource": record, "subject": null },
            { "resource": { "type": "record" } },
            1,
            { "resource": record, "context": 1 },
            { "resource": record },
        ],
    }));
    let items = answer["evaluations"].as_array().unwrap();
    let decisions: Vec<_> = items.iter().map(|item| item["decision"].as_bool().unwrap()).collect();
    assert_eq!(decisions, [true, false, false, false, false, false, true]);
    assert_eq!(items[1]["context"]["error"]["status"], 400);
    assert_eq!(items[1]["context"]["error"]["message"], "`resource` is missing");
    assert_eq!(seen.len(), 2);
}

#[test]
fn without_items_a_batch_is_a_single_question() {
    let mut body = question(&user("bob"), "view", ("record", "1"));
    assert_eq!(batch(&body).0, json!({ "decision": true }));
    body["evaluations"] = json!([]);
    assert_eq!(batch(&body).0, json!({ "decision": true }));
}

#[test]
fn a_batch_has_bounds() {
    let item = |count: usize| {
        let mut body = question(&user("bob"), "view", ("record", "1"));
        body["evaluations"] = vec![json!({}); count].into();
        ask(&authorizer(POLICY), Endpoint::Evaluations, body.to_string().as_bytes()).0
    };
    let answer = item(authzen::MAX_EVALUATIONS).unwrap();
    assert_eq!(answer["evaluations"].as_array().unwrap().len(), authzen::MAX_EVALUATIONS);
    assert_eq!(item(authzen::MAX_EVALUATIONS + 1), Err(Malformed::TooMany));
}

/// `writer` may do everything on the cluster, whose roles decide about bodies, too.
#[test]
fn there_is_no_decision_about_a_search_cluster() {
    for hosts in ["hosts: [search.example.com]", "evaluation: legacy"] {
        let policy = format!(
            "version: 1\nidentity: {{ basic: {{ verify: false }} }}\n\
             search: {{ folder: cluster, {hosts} }}\n\
             authzen:\n  subjects: {{ user: {{}} }}\n  \
             resources: {{ index: {{ host: search.example.com, path: \"/{{id}}/_search\" }} }}\n"
        );
        let roles = "_meta: { type: roles, config_version: 2 }\nw:\n  \
            cluster_permissions: ['*']\n  \
            index_permissions: [{ index_patterns: ['*'], allowed_actions: ['*'] }]\n";
        let mapping = "_meta: { type: rolesmapping, config_version: 2 }\nw: { users: [writer] }\n";
        let files = MapFiles::new("policy.yaml", policy)
            .and("cluster/roles.yml", roles)
            .and("cluster/roles_mapping.yml", mapping);
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        let authorizer =
            Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
        let request = authorizer::Request {
            method: b"GET",
            host: b"search.example.com",
            path: b"/logs/_search",
            headers: &[],
            body: RequestBody::Whole(b""),
            ..authorizer::Request::default()
        };
        let writer = explain::unverified_subject::<&str>("writer", None, &[], &[]);
        let mut scratch = Scratch::default();
        let now = Duration::from_secs(1);
        let verdict = authorizer.check_as(&request, Ok(Some(writer)), &mut scratch, now);
        assert_eq!(verdict.status(), 200, "the proxy's request is allowed");
        for resource in [("index", "logs"), ("unknown", "logs"), ("index", "a/b")] {
            let question = question(&user("writer"), "GET", resource);
            assert!(!decision(&authorizer, &question), "{question}");
        }
    }
}
