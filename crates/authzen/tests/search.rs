//! Searches: exactly those for which a question is permitted.

use std::collections::BTreeSet;

use authorizer::Authorizer;
use authzen::{Endpoint, Malformed, Sought};
use document::MapFiles;
use generator::Rng;
use serde_json::{Value, json};

use crate::asking::{answer_of, compiled, decision, question, user};

const SUBJECT: Endpoint = Endpoint::Search(Sought::Subject);
const RESOURCE: Endpoint = Endpoint::Search(Sought::Resource);
const ACTION: Endpoint = Endpoint::Search(Sought::Action);

const POLICY: &str = r#"
version: 1
identity:
  basic:
    users:
      alice: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] }
      bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
      eve: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
  jwt:
    - issuer: https://id.example.com
      audiences: [app]
      keys: { url: "https://id.example.com/keys" }
      user_prefix: "id:"
roles:
  reader: { allow: ["GET /records/{id}"], deny: ["* /records/locked"] }
  editor: { allow: ["PUT|PATCH /records/{id}", "GET /records/r%C3%BC", "* /wide/**"] }
  owner: { allow: [{ rule: "DELETE /records/{id}", when: resource.properties.owner == user }] }
grants:
  reader: { users: [alice, eve, "id:carol"], groups: [staff] }
  editor: { users: [eve] }
  owner: { users: [alice, bob] }
authzen:
  subjects: { user: {}, person: { issuer: "https://id.example.com" } }
  actions: { view: GET, edit: PUT }
  resources: { record: { path: "/records/{id}" }, other: { path: "/other/{id}" } }
  entities: entities.yaml
"#;
const ENTITIES: &str = r#"
subjects: { user: { zoe: { a: 1 } }, person: { dan: } }
resources: { record: { "1": { owner: alice }, "2": { owner: bob }, locked: } }
"#;

fn authorizer() -> Authorizer {
    compiled(&MapFiles::new("policy.yaml", POLICY).and("entities.yaml", ENTITIES))
}

/// The ids or names of results, which must be sorted and of the right type.
fn names(answer: &Value) -> Vec<String> {
    let results = answer["results"].as_array().unwrap().iter();
    let names: Vec<String> = results
        .map(|result| result.get("id").unwrap_or(&result["name"]).as_str().unwrap().to_owned())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(answer["page"]["count"], names.len());
    names
}

fn search(authorizer: &Authorizer, endpoint: Endpoint, body: &Value) -> Vec<String> {
    let answer = answer_of(authorizer, endpoint, body).unwrap();
    assert_eq!(answer["page"]["next_token"], "", "{answer}");
    names(&answer)
}

#[test]
fn subjects_are_those_whom_the_policy_and_the_entities_know() {
    let authorizer = authorizer();
    let who = |kind: &str, action: &str, id: &str| {
        let body = question(&json!({ "type": kind }), action, ("record", id));
        search(&authorizer, SUBJECT, &body)
    };
    assert_eq!(who("user", "view", "1"), ["alice", "eve", "id:carol"]);
    assert_eq!(who("person", "view", "1"), ["carol"]);
    assert_eq!(who("user", "edit", "1"), ["eve"]);
    assert_eq!(who("user", "DELETE", "1"), ["alice"]);
    assert_eq!(who("user", "DELETE", "2"), ["bob"]);
    assert!(who("user", "view", "locked").is_empty());
    assert!(who("user", "view", "a/b").is_empty());
    assert!(who("unknown", "view", "1").is_empty());
    let unknown = question(&json!({ "type": "user" }), "view", ("unknown", "1"));
    assert!(search(&authorizer, SUBJECT, &unknown).is_empty());
    let answer = answer_of(
        &authorizer,
        SUBJECT,
        &question(&json!({ "type": "person" }), "view", ("record", "1")),
    );
    let page = json!({ "count": 1, "next_token": "" });
    let results = json!([{ "type": "person", "id": "carol" }]);
    assert_eq!(answer, Ok(json!({ "page": page, "results": results })));
}

#[test]
fn resources_are_entities_and_paths_of_rules() {
    let authorizer = authorizer();
    let what = |subject: &str, action: &str, kind: &str| {
        let mut body = question(&user(subject), action, (kind, ""));
        body["resource"].as_object_mut().unwrap().remove("id");
        search(&authorizer, RESOURCE, &body)
    };
    // `locked` is denied, and `rü` is a path of a rule.
    assert_eq!(what("alice", "view", "record"), ["1", "2", "r\u{fc}"]);
    assert_eq!(what("alice", "DELETE", "record"), ["1"]);
    assert_eq!(what("bob", "DELETE", "record"), ["2"]);
    assert!(what("zoe", "view", "record").is_empty());
    assert!(what("alice", "view", "other").is_empty());
    assert!(what("alice", "view", "unknown").is_empty());
}

#[test]
fn actions_are_those_of_the_table_and_methods_of_rules() {
    let authorizer = authorizer();
    let which = |subject: &str, id: &str| {
        let mut body = question(&user(subject), "", ("record", id));
        body.as_object_mut().unwrap().remove("action");
        search(&authorizer, ACTION, &body)
    };
    assert_eq!(which("alice", "1"), ["DELETE", "GET", "view"]);
    assert_eq!(which("eve", "1"), ["GET", "PATCH", "PUT", "edit", "view"]);
    assert!(which("eve", "locked").is_empty());
    assert!(which("nobody", "1").is_empty());
    let mut unknown = question(&json!({ "type": "spaceship", "id": "x" }), "", ("record", "1"));
    assert!(search(&authorizer, ACTION, &unknown).is_empty());
    unknown["subject"]["type"] = json!("user");
    unknown["resource"]["type"] = json!("planet");
    assert!(search(&authorizer, ACTION, &unknown).is_empty());
}

/// The id of what is sought, and the action of an action search, are ignored, whatever they are.
#[test]
fn what_is_sought_is_not_asked_about() {
    let authorizer = authorizer();
    let body = question(&json!({ "type": "user" }), "view", ("record", "1"));
    let expected = search(&authorizer, SUBJECT, &body);
    for id in [json!("alice"), json!("nobody"), json!(7), json!(null)] {
        let mut with_id = body.clone();
        with_id["subject"]["id"] = id;
        assert_eq!(search(&authorizer, SUBJECT, &with_id), expected);
    }
    let body = question(&user("alice"), "view", ("record", "1"));
    assert_eq!(search(&authorizer, ACTION, &body), ["DELETE", "GET", "view"]);
    let mut wrong = body;
    wrong["action"] = json!(7);
    assert_eq!(search(&authorizer, ACTION, &wrong), ["DELETE", "GET", "view"]);
}

#[test]
fn a_search_without_its_inputs_is_malformed() {
    let authorizer = authorizer();
    let whole = question(&user("alice"), "view", ("record", "1"));
    for (endpoint, needed) in [
        (SUBJECT, ["/subject", "/subject/type", "/action", "/action/name", "/resource/id"]),
        (RESOURCE, ["/subject", "/subject/id", "/action", "/resource", "/resource/type"]),
        (ACTION, ["/subject", "/subject/id", "/resource", "/resource/type", "/resource/id"]),
    ] {
        assert!(answer_of(&authorizer, endpoint, &whole).is_ok());
        for pointer in needed {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let mut lacking = whole.clone();
            lacking.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            let answer = answer_of(&authorizer, endpoint, &lacking);
            assert!(matches!(answer, Err(Malformed::Missing(_))), "{endpoint:?} {pointer}");
            *lacking.pointer_mut(parent).unwrap() = json!(7);
            assert!(answer_of(&authorizer, endpoint, &lacking).is_err(), "{endpoint:?} {pointer}");
        }
    }
}

/// All results of a search, page by page.
fn all_pages(
    authorizer: &Authorizer,
    endpoint: Endpoint,
    body: &Value,
    limit: usize,
) -> Vec<String> {
    let mut body = body.clone();
    body["page"] = json!({ "limit": limit });
    let mut all = Vec::new();
    loop {
        let answer = answer_of(authorizer, endpoint, &body).unwrap();
        let page = names(&answer);
        assert!(page.len() <= limit);
        all.extend(page);
        let next = answer["page"]["next_token"].as_str().unwrap();
        if next.is_empty() {
            return all;
        }
        body["page"]["token"] = json!(next);
    }
}

#[test]
fn pages_follow_each_other() {
    let authorizer = authorizer();
    let body = question(&json!({ "type": "user" }), "view", ("record", "1"));
    for limit in 1..5 {
        let all = all_pages(&authorizer, SUBJECT, &body, limit);
        assert_eq!(all, ["alice", "eve", "id:carol"]);
    }
    // The last page says that it is the last, also when it is full.
    let mut paged = body.clone();
    paged["page"] = json!({ "limit": 3 });
    assert_eq!(answer_of(&authorizer, SUBJECT, &paged).unwrap()["page"]["next_token"], "");
    paged["page"] = json!({ "limit": 0 });
    let answer = answer_of(&authorizer, SUBJECT, &paged).unwrap();
    assert!(names(&answer).is_empty() && answer["page"]["next_token"] != "");
    for page in [json!(null), json!({}), json!({ "limit": null, "token": null, "more": 1 })] {
        paged["page"] = page;
        assert_eq!(search(&authorizer, SUBJECT, &paged).len(), 3);
    }
    paged["page"] = json!({ "limit": 1_000_000 });
    assert_eq!(search(&authorizer, SUBJECT, &paged).len(), 3);
    for limit in [json!(-1), json!(1.5), json!("1"), json!([])] {
        paged["page"] = json!({ "limit": limit });
        assert_eq!(answer_of(&authorizer, SUBJECT, &paged), Err(Malformed::BadLimit));
    }
    paged["page"] = json!(1);
    assert!(answer_of(&authorizer, SUBJECT, &paged).is_err());
}

#[test]
fn a_token_is_for_its_own_search_only() {
    let authorizer = authorizer();
    let mut body = question(&json!({ "type": "user" }), "view", ("record", "1"));
    body["page"] = json!({ "limit": 1 });
    let answer = answer_of(&authorizer, SUBJECT, &body).unwrap();
    let token = answer["page"]["next_token"].as_str().unwrap().to_owned();
    let next = |page: Value| {
        let mut body = body.clone();
        body["page"] = page;
        answer_of(&authorizer, SUBJECT, &body).map(|answer| names(&answer))
    };
    // The limit may be repeated or left out.
    assert_eq!(next(json!({ "token": token, "limit": 1 })), Ok(vec!["eve".to_owned()]));
    assert_eq!(next(json!({ "token": token })), Ok(vec!["eve".to_owned()]));
    assert_eq!(next(json!({ "token": token, "limit": 2 })), Err(Malformed::BadToken));
    let cut = token.get(1..).unwrap();
    for wrong in ["", "x", "!", cut, &format!("{token}="), &"A".repeat(100_000)] {
        assert_eq!(next(json!({ "token": wrong })), Err(Malformed::BadToken), "{wrong:.40}");
    }
    assert_eq!(next(json!({ "token": 1 })), Err(Malformed::BadToken));
    body["page"] = json!({ "token": token });
    let mut other = body.clone();
    other["action"]["name"] = json!("edit");
    assert_eq!(answer_of(&authorizer, SUBJECT, &other), Err(Malformed::BadToken));
    other = body.clone();
    other["subject"]["id"] = json!("alice");
    other["resource"]["id"] = json!("2");
    assert_eq!(answer_of(&authorizer, SUBJECT, &other), Err(Malformed::BadToken));
    assert_eq!(answer_of(&authorizer, ACTION, &with_id(&body)), Err(Malformed::BadToken));
}

fn with_id(body: &Value) -> Value {
    let mut body = body.clone();
    body["subject"]["id"] = json!("alice");
    body
}

/// A token names the last result, so it is right under another policy, too.
#[test]
fn a_token_is_valid_after_a_reload() {
    let mut body = question(&json!({ "type": "user" }), "view", ("record", "1"));
    body["page"] = json!({ "limit": 1 });
    let answer = answer_of(&authorizer(), SUBJECT, &body).unwrap();
    assert_eq!(names(&answer), ["alice"]);
    body["page"]["token"] = answer["page"]["next_token"].clone();
    let policy = POLICY.replace("[alice, eve,", "[adam, eve, bert,");
    let [adam, bert] = ["adam", "bert"].map(|name| {
        format!("\n      {name}: {{ password: \"{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" }}")
    });
    let policy = policy.replace("    users:", &format!("    users:{adam}{bert}"));
    let reloaded = compiled(&MapFiles::new("policy.yaml", policy).and("entities.yaml", ENTITIES));
    let answer = answer_of(&reloaded, SUBJECT, &body).unwrap();
    assert_eq!(names(&answer), ["bert"]);
    // Without the section, nobody is permitted anything.
    let (without, _) = POLICY.split_once("authzen:").unwrap();
    let without = compiled(&MapFiles::new("policy.yaml", without));
    let answer = answer_of(&without, SUBJECT, &body).unwrap();
    assert_eq!(answer["page"]["next_token"], "");
    assert!(names(&answer).is_empty());
}

/// A search decides about a bounded number of candidates, and continues after them.
#[test]
fn a_search_is_bounded() {
    let users: String = (0..2_500).map(|number| format!("u{number:04}, ")).collect();
    let policy = format!(
        "version: 1\nroles: {{ r: {{ allow: [GET /a/1] }}, s: {{ allow: [GET /a/2] }} }}\n\
         grants: {{ r: {{ users: [{users}] }}, s: {{ users: [u2400] }} }}\n\
         authzen: {{ subjects: {{ user: {{}} }}, resources: {{ a: {{ path: \"/a/{{id}}\" }} }} }}\n"
    );
    let authorizer = compiled(&MapFiles::new("policy.yaml", policy));
    let body = question(&json!({ "type": "user" }), "GET", ("a", "1"));
    let first = answer_of(&authorizer, SUBJECT, &body).unwrap();
    assert_eq!(names(&first).len(), authzen::MAX_EVALUATIONS);
    assert_eq!(all_pages(&authorizer, SUBJECT, &body, 1_000).len(), 2_500);
    assert_eq!(all_pages(&authorizer, SUBJECT, &body, 700).len(), 2_500);
    let rare = question(&json!({ "type": "user" }), "GET", ("a", "2"));
    let first = answer_of(&authorizer, SUBJECT, &rare).unwrap();
    assert!(names(&first).is_empty() && first["page"]["next_token"] != "");
    assert_eq!(all_pages(&authorizer, SUBJECT, &rare, 10), ["u2400"]);
    // Fewer, if each takes a copy of many properties.
    let mut large = body;
    large["subject"]["properties"] = (0..5_000).map(|n| (format!("p{n}"), json!(n))).collect();
    let answer = answer_of(&authorizer, SUBJECT, &large).unwrap();
    assert_eq!(names(&answer).len(), 199);
}

const USERS: [&str; 5] = ["ann", "ben", "cid", "dot", "eli"];
const RECORDS: [&str; 5] = ["1", "2", "3", "a b", "x"];
const ACTIONS: [&str; 6] = ["view", "edit", "GET", "PUT", "DELETE", "none"];

/// A random policy, and its entities.
fn random_policy(rng: &mut Rng) -> (String, String) {
    let rules = [
        "GET /records/{id}",
        "GET|PUT /records/1",
        "* /records/2",
        "DELETE /records/a%20b",
        "PUT /records/**",
        "GET /records/{user}",
    ];
    let conditions = [
        "resource.properties.owner == user",
        "claims.level >= 2",
        "context.open",
        "!has(resource.properties.owner)",
        "action.properties.soft",
    ];
    let (mut roles, mut grants) = (String::new(), String::new());
    for role in ["a", "b", "c", "authenticated"] {
        let mut lists = [String::new(), String::new()];
        for (list, percent) in lists.iter_mut().zip([50, 12]) {
            for rule in rules {
                if rng.percent(percent) {
                    let condition = rng.pick(&conditions).unwrap();
                    let when = if rng.percent(50) {
                        format!(", when: '{condition}'")
                    } else {
                        String::new()
                    };
                    list.push_str(&format!("{{ rule: '{rule}'{when} }}, "));
                }
            }
        }
        let [allow, deny] = lists;
        roles.push_str(&format!("  {role}: {{ allow: [{allow}], deny: [{deny}] }}\n"));
        let users: Vec<&str> = USERS.into_iter().filter(|_| rng.percent(30)).collect();
        if role != "authenticated" && !users.is_empty() {
            grants.push_str(&format!("  {role}: {{ users: [{}] }}\n", users.join(", ")));
        }
    }
    let grants = if grants.is_empty() { grants } else { format!("grants:\n{grants}") };
    let policy = format!(
        "version: 1\nroles:\n{roles}{grants}authzen:\n  subjects: {{ user: {{}} }}\n  \
         actions: {{ view: GET, edit: PUT }}\n  entities: entities.yaml\n  \
         resources: {{ record: {{ path: \"/records/{{id}}\" }} }}\n"
    );
    let mut entities = "subjects:\n  user:\n    eli:\n".to_owned();
    for user in USERS.into_iter().take(4) {
        if rng.percent(50) {
            entities.push_str(&format!("    {user}: {{ level: {} }}\n", rng.below(4)));
        }
    }
    entities.push_str("resources:\n  record:\n    x:\n");
    for record in RECORDS.into_iter().take(4) {
        if rng.percent(50) {
            let owner = rng.pick(&USERS).unwrap();
            entities.push_str(&format!("    \"{record}\": {{ owner: {owner} }}\n"));
        }
    }
    (policy, entities)
}

#[test]
fn a_search_finds_exactly_what_a_question_permits() {
    let mut rng = Rng::new(7);
    let mut found = 0;
    for _ in 0..300 {
        let (policy, entities) = random_policy(&mut rng);
        let files =
            MapFiles::new("policy.yaml", policy.clone()).and("entities.yaml", entities.clone());
        let authorizer = compiled(&files);
        for _ in 0..4 {
            let subject = *rng.pick(&USERS).unwrap();
            let action = *rng.pick(&ACTIONS).unwrap();
            let resource = *rng.pick(&RECORDS).unwrap();
            let mut whole = question(&user(subject), action, ("record", resource));
            if rng.percent(50) {
                whole["context"] = json!({ "open": rng.percent(50) });
            }
            if rng.percent(30) {
                whole["resource"]["properties"] = json!({ "owner": rng.pick(&USERS) });
            }
            if rng.percent(30) {
                whole["subject"]["properties"] = json!({ "level": rng.below(4) });
            }
            let limit = 1 + rng.below(4);
            for (endpoint, pointer, universe) in [
                (SUBJECT, "/subject/id", &USERS[..]),
                (RESOURCE, "/resource/id", &RECORDS),
                (ACTION, "/action/name", &ACTIONS),
            ] {
                let permitted: BTreeSet<String> = universe
                    .iter()
                    .filter(|candidate| {
                        let mut asked = whole.clone();
                        *asked.pointer_mut(pointer).unwrap() = json!(candidate);
                        decision(&authorizer, &asked)
                    })
                    .map(|candidate| (*candidate).to_owned())
                    .collect();
                let results = all_pages(&authorizer, endpoint, &whole, limit);
                let results: BTreeSet<String> = results.into_iter().collect();
                assert!(results.is_subset(&permitted), "{whole}\n{policy}\n{entities}");
                for missing in permitted.difference(&results) {
                    // Only what neither the policy nor its entities name is not found.
                    let encoded = missing.replace(' ', "%20");
                    let is_named = match endpoint {
                        SUBJECT => {
                            let mut grants =
                                policy.lines().filter(|line| line.contains("users: ["));
                            entities.contains(&format!("\n    {missing}:"))
                                || grants.any(|line| line.contains(missing.as_str()))
                        }
                        RESOURCE => {
                            entities.contains(&format!(" \"{missing}\":"))
                                || *missing == "x"
                                || policy.contains(&format!("/records/{encoded}'"))
                        }
                        _ => {
                            ["view", "edit"].contains(&missing.as_str())
                                || policy.contains(&format!("'{missing}"))
                                || policy.contains(&format!("|{missing} "))
                        }
                    };
                    assert!(!is_named, "{endpoint:?} {missing}: {whole}\n{policy}\n{entities}");
                }
                found += results.len();
            }
        }
    }
    assert!(found > 1_000, "{found}");
}
