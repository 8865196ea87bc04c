//! Conditions on the parts of questions, against the reference evaluator of policies.

use authorizer::{Authorizer, Question};
use authzen::{Endpoint, Malformed};
use condition::{CallerClaims, CallerInputs, Inputs, RequestInputs};
use document::MapFiles;
use generator::Rng;
use policy::reference::{self, Caller};
use policy::{AccessRequest, Decision};
use serde_json::{Map, Value, json};

use crate::asking::{answer_of, ask, compiled, decision, question, user};

const POLICY: &str = r#"
version: 1
roles:
  authenticated:
    allow:
      - { rule: "GET /records/{id}", when: resource.properties.owner == user }
      - { rule: "PUT /records/{id}", when: "!has(resource.properties.owner)" }
      - { rule: "DELETE /records/{id}", when: action.properties.soft && !context.locked }
      - { rule: "POST /records/{id}", when: claims.level >= context.level }
      - { rule: "PATCH /records/{id}", when: "request.time < timestamp('2026-06-01T00:00:00Z')" }
      - { rule: "OPTIONS /records/{id}", when: cidr('10.0.0.0/8').containsIP(source.ip) }
      - GET /open/{id}
    deny:
      - { rule: "* /records/{id}", when: resource.properties.secret }
      - { rule: "GET /open/{id}", when: context.emergency }
authzen:
  subjects: { user: {} }
  resources: { record: { path: "/records/{id}" }, open: { path: "/open/{id}" } }
"#;

fn authorizer(more: &str, entities: &str) -> Authorizer {
    let policy = format!("{POLICY}{more}");
    compiled(&MapFiles::new("policy.yaml", policy).and("entities.yaml", entities))
}

/// A question of alice about a record with these parts: subject, resource, action, context.
fn asked(action: &str, parts: [&Value; 4]) -> Value {
    let [subject, resource, with_action, context] = parts;
    let mut asked = question(&user("alice"), action, ("record", "1"));
    asked["subject"]["properties"] = subject.clone();
    asked["resource"]["properties"] = resource.clone();
    asked["action"]["properties"] = with_action.clone();
    asked["context"] = context.clone();
    asked
}

#[test]
fn conditions_read_properties_and_context() {
    let authorizer = authorizer("", "");
    let (nothing, open) = (json!({}), json!({ "secret": false }));
    let may = |action: &str, resource: Value, with_action: Value, context: Value| {
        let mut resource = resource;
        resource["secret"] = json!(false);
        decision(&authorizer, &asked(action, [&nothing, &resource, &with_action, &context]))
    };
    for (owner, allowed) in [(json!("alice"), true), (json!("bob"), false), (json!(1), false)] {
        assert_eq!(may("GET", json!({ "owner": owner }), json!({}), json!({})), allowed, "{owner}");
        assert!(!may("PUT", json!({ "owner": owner }), json!({}), json!({})));
    }
    assert!(!may("GET", json!({}), json!({}), json!({})));
    assert!(may("PUT", json!({}), json!({}), json!({})));
    for (soft, locked, allowed) in [
        (json!(true), json!(false), true),
        (json!(true), json!(true), false),
        (json!(false), json!(false), false),
        (json!("true"), json!(false), false),
    ] {
        let (with_action, context) = (json!({ "soft": soft }), json!({ "locked": locked }));
        assert_eq!(may("DELETE", json!({}), with_action, context), allowed);
    }
    assert!(!may("DELETE", json!({}), json!({ "soft": true }), json!({})));
    // A `deny` rule counts unless its condition is false: without the property, too.
    for (secret, denied) in [(json!({ "secret": false }), false), (json!({}), true)] {
        assert_eq!(
            !decision(&authorizer, &asked("PUT", [&nothing, &secret, &nothing, &nothing])),
            denied
        );
    }
    // Claims and context are compared with each other.
    let level = |level: i64| json!({ "level": level });
    for (subject, context, allowed) in [(2, 1, true), (1, 1, true), (1, 2, false)] {
        let question = asked("POST", [&level(subject), &open, &nothing, &level(context)]);
        assert_eq!(decision(&authorizer, &question), allowed);
    }
}

/// `null` and absent parts are empty objects, for which `has` is false.
#[test]
fn absent_parts_of_a_question_are_empty() {
    let policy = POLICY.replace("\"GET /open/{id}\", when: context.emergency", "GET /never");
    let without_a = "!has(context.a) && !has(action.properties.a) && !has(resource.properties.a)";
    let open = format!("- {{ rule: \"GET /open/{{id}}\", when: \"{without_a}\" }}\n");
    let policy = policy.replace("- GET /open/{id}\n", &open);
    let authorizer = compiled(&MapFiles::new("policy.yaml", policy));
    let mut open = question(&user("alice"), "GET", ("open", "1"));
    assert!(decision(&authorizer, &open));
    open["context"] = json!(null);
    open["action"]["properties"] = json!(null);
    open["resource"]["properties"] = json!(null);
    assert!(decision(&authorizer, &open));
    for (part, inner) in
        [("context", None), ("action", Some("properties")), ("resource", Some("properties"))]
    {
        let mut changed = open.clone();
        match inner {
            None => changed[part] = json!({ "a": 1 }),
            Some(inner) => changed[part][inner] = json!({ "a": 1 }),
        }
        assert!(!decision(&authorizer, &changed), "{part}");
    }
}

/// As for a proxy: what nobody says cannot be computed.
#[test]
fn requests_of_proxies_have_no_question() {
    let authorizer = authorizer("", "");
    for (method, path) in [("PUT", "/records/1"), ("GET", "/records/1"), ("GET", "/open/1")] {
        let request = authorizer::Request {
            method: method.as_bytes(),
            path: path.as_bytes(),
            ..authorizer::Request::default()
        };
        let alice = explain::unverified_subject::<&str>("alice", None, &[], &[]);
        let mut scratch = authorizer::Scratch::default();
        let now = std::time::Duration::from_secs(1);
        let verdict = authorizer.check_as(&request, Ok(Some(alice)), &mut scratch, now);
        assert_eq!(verdict.status(), 403, "{method} {path}");
    }
}

#[test]
fn a_context_is_the_time_and_the_client_where_it_is_trusted() {
    let open = json!({ "secret": false });
    let nothing = json!({});
    let in_time = json!({ "time": "2026-05-31T23:59:59Z" });
    let too_late = json!({ "time": "2026-06-01T00:00:00Z" });
    let ask = |authorizer: &Authorizer, action: &str, context: &Value| {
        let question = asked(action, [&nothing, &open, &nothing, context]);
        let answer = answer_of(authorizer, Endpoint::Evaluation, &question);
        answer.map(|answer| answer["decision"].as_bool().unwrap())
    };
    // The clock of these tests is at the beginning of 1970.
    let untrusted = authorizer("", "");
    for context in [&nothing, &in_time, &too_late, &json!({ "time": 1, "ip": "x" })] {
        assert_eq!(ask(&untrusted, "PATCH", context), Ok(true), "{context}");
        assert_eq!(ask(&untrusted, "OPTIONS", context), Ok(false), "{context}");
    }
    assert_eq!(ask(&untrusted, "OPTIONS", &json!({ "ip": "10.0.0.1" })), Ok(false));
    let trusted = authorizer("  trust_context: true\n", "");
    for (context, expected) in [
        (&nothing, Ok(true)),
        (&in_time, Ok(true)),
        (&too_late, Ok(false)),
        // As the specification writes it.
        (&json!({ "time": "2026-05-31T18:03-07:00" }), Ok(false)),
        (&json!({ "time": "2026-05-31T16:59-07:00" }), Ok(true)),
        (&json!({ "time": "2026-05-31" }), Err(Malformed::BadTime)),
        (&json!({ "time": "now" }), Err(Malformed::BadTime)),
        (&json!({ "time": 1 }), Err(Malformed::BadTime)),
        (&json!({ "time": null }), Err(Malformed::BadTime)),
        (&json!({ "time": "1969-12-31T23:59:59Z" }), Err(Malformed::BadTime)),
        (&json!({ "ip": "10.0.0.256" }), Err(Malformed::BadAddress)),
    ] {
        assert_eq!(ask(&trusted, "PATCH", context), expected, "{context}");
    }
    for (ip, expected) in [
        (json!("10.0.0.1"), Ok(true)),
        (json!("::ffff:10.0.0.1"), Ok(true)),
        (json!("192.0.2.1"), Ok(false)),
        (json!(""), Err(Malformed::BadAddress)),
        (json!(10), Err(Malformed::BadAddress)),
    ] {
        assert_eq!(ask(&trusted, "OPTIONS", &json!({ "ip": ip })), expected, "{ip}");
    }
    assert_eq!(ask(&trusted, "OPTIONS", &nothing), Ok(false));
}

#[test]
fn a_bad_context_is_an_error_of_its_item_only() {
    let trusted = authorizer("  trust_context: true\n", "");
    let mut batch = question(&user("alice"), "GET", ("open", "1"));
    batch["context"] = json!({ "emergency": false, "time": "2026-01-01T00:00:00Z" });
    batch["evaluations"] = json!([{}, { "context": { "time": "x" } }, { "context": {} }, {}]);
    let (answer, seen) = ask(&trusted, Endpoint::Evaluations, batch.to_string().as_bytes());
    let answer = answer.unwrap();
    let items = answer["evaluations"].as_array().unwrap();
    let decisions: Vec<_> = items.iter().map(|item| item["decision"].as_bool().unwrap()).collect();
    // A context of an item is in the place of the default, as a whole.
    assert_eq!(decisions, [true, false, false, true]);
    assert_eq!(items[1]["context"]["error"]["status"], 400);
    assert_eq!(seen.len(), 3);
}

const ENTITIES: &str = r#"
subjects:
  user:
    alice: { level: 2, team: { name: a } }
    bob:
resources:
  record:
    "1": { owner: alice, secret: false }
    "2": { owner: bob, secret: true }
"#;

#[test]
fn entities_complete_a_question_member_by_member() {
    let authorizer = authorizer("  entities: entities.yaml\n", ENTITIES);
    let may = |subject: Value, action: &str, resource: (&str, Value), context: Value| {
        let (id, properties) = resource;
        let mut asked = question(&user("alice"), action, ("record", id));
        asked["subject"]["properties"] = subject;
        asked["resource"]["properties"] = properties;
        asked["context"] = context;
        decision(&authorizer, &asked)
    };
    assert!(may(json!({}), "GET", ("1", json!({})), json!({})));
    assert!(may(json!({}), "GET", ("1", json!({ "other": 1 })), json!({})));
    assert!(!may(json!({}), "GET", ("2", json!({})), json!({})));
    // The question wins.
    assert!(!may(json!({}), "GET", ("1", json!({ "owner": "bob" })), json!({})));
    assert!(!may(json!({}), "GET", ("1", json!({ "owner": null })), json!({})));
    assert!(!may(json!({}), "GET", ("2", json!({ "owner": "alice" })), json!({})));
    assert!(may(json!({}), "GET", ("2", json!({ "owner": "alice", "secret": false })), json!({})));
    // Of an unknown entity nothing is known.
    assert!(!may(json!({}), "GET", ("3", json!({ "secret": false })), json!({})));
    for (level, allowed) in [(1, true), (2, true), (3, false)] {
        let context = json!({ "level": level });
        assert_eq!(may(json!({}), "POST", ("1", json!({})), context), allowed, "{level}");
    }
    assert!(may(json!({ "level": 3 }), "POST", ("1", json!({})), json!({ "level": 3 })));
    assert!(!may(json!({ "level": 1 }), "POST", ("1", json!({})), json!({ "level": 2 })));
}

/// Groups and roles of a subject may be in the file, too.
#[test]
fn entities_give_groups_and_roles() {
    let policy = r#"
version: 1
roles: { crew: { allow: ["GET /a/{id}"] }, lead: { allow: ["PUT /a/{id}"] } }
grants: { crew: { groups: [staff] } }
authzen:
  subjects: { user: { groups: /groups, roles: /roles } }
  resources: { a: { path: "/a/{id}" } }
  entities: entities.yaml
"#;
    let entities = "subjects: { user: { ann: { groups: [staff], roles: [lead] } } }";
    let files = MapFiles::new("policy.yaml", policy).and("entities.yaml", entities);
    let authorizer = compiled(&files);
    for (name, action, allowed) in
        [("ann", "GET", true), ("ann", "PUT", true), ("bob", "GET", false), ("bob", "PUT", false)]
    {
        let question = question(&user(name), action, ("a", "1"));
        assert_eq!(decision(&authorizer, &question), allowed, "{question}");
    }
    let mut without = question(&user("ann"), "GET", ("a", "1"));
    without["subject"]["properties"] = json!({ "groups": [] });
    assert!(!decision(&authorizer, &without));
}

#[test]
fn decisions_about_random_questions_are_those_of_the_reference() {
    let authorizer = authorizer("", "");
    let policy = &authorizer.loaded().policy;
    let mut rng = Rng::new(1);
    let values = [json!(true), json!(false), json!("alice"), json!(1), json!(2), json!(null)];
    let names = ["owner", "secret", "soft", "locked", "level", "emergency"];
    let mut allowed = 0;
    for _ in 0..5_000 {
        let mut part = || -> Map<String, Value> {
            let mut part = Map::new();
            for name in names {
                if rng.percent(60) {
                    part.insert(name.to_owned(), rng.pick(&values).unwrap().clone());
                }
            }
            part
        };
        let [claims, resource_properties, action_properties, context] =
            [part(), part(), part(), part()];
        let actions = ["GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS"];
        let action = *rng.pick(&actions).unwrap();
        let kind = if rng.percent(20) { "open" } else { "record" };
        let mut asked = question(&user("alice"), action, (kind, "1"));
        asked["subject"]["properties"] = claims.clone().into();
        asked["resource"]["properties"] = resource_properties.clone().into();
        asked["action"]["properties"] = action_properties.clone().into();
        asked["context"] = context.clone().into();
        let parts = Question::Asked {
            resource_properties: &resource_properties,
            action_properties: &action_properties,
            context: &context,
        };
        let of_caller = CallerInputs {
            user: Some("alice"),
            claims: CallerClaims::Known(&claims),
            ..CallerInputs::default()
        };
        let request = RequestInputs {
            time: condition::time(1, 0),
            question: Some(&parts),
            ..RequestInputs::default()
        };
        let inputs = Inputs { request, caller: Some(&of_caller), ..Inputs::default() };
        let path = if kind == "open" { "/open/1" } else { "/records/1" };
        let access =
            AccessRequest { action: action.as_bytes(), scope: b"", resource: path.as_bytes() };
        let caller = Caller { user: Some("alice"), ..Caller::default() };
        let expected = reference::decide_with(policy, &caller, &access, &inputs);
        let expected = matches!(expected, Decision::Allowed(_));
        assert_eq!(decision(&authorizer, &asked), expected, "{asked}");
        allowed += u32::from(expected);
    }
    assert!(allowed > 100, "{allowed}");
}
