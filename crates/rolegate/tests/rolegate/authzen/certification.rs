//! The certification scenario of AuthZEN 1.0, with a fixture and cases of our own making.

use serde_json::{Value, json};

use super::{METADATA, TOKEN, address, authorization, post, request, send};
use crate::process::{PolicyFolder, Server};

const POLICY: &str = include_str!("policy.yaml");
const ENTITIES: &str = include_str!("entities.yaml");
const CASES: &str = include_str!("cases.txt");
const URL: &str = "https://pdp.example.com/tenant";

fn serve(folder: &PolicyFolder) -> Server {
    folder.write("entities.yaml", ENTITIES);
    folder.write("tokens", TOKEN);
    let [policy, tokens] =
        ["policy.yaml", "tokens"].map(|name| folder.path().join(name).display().to_string());
    let settings = ["--authzen", "127.0.0.1:0", "--authzen-tokens", &tokens, "--authzen-url", URL];
    let server = Server::start(&policy, &settings);
    server.wait_for_log("\"AuthZEN\"");
    server
}

/// A question with its short names replaced.
fn expand(question: &str) -> String {
    let record = |id: &str, status: &str| json!({ "type": "record", "id": id, "properties": { "status": status } });
    let admin = json!({ "type": "user", "id": "bob", "properties": { "role": "admin" } });
    let noon = json!({ "time": "2025-06-27T18:03-07:00", "ip": "192.168.1.1" });
    let mut question = question.to_owned();
    for (name, value) in [
        ("@alice", json!({ "type": "user", "id": "alice" })),
        ("@bob", json!({ "type": "user", "id": "bob" })),
        ("@admin", admin),
        ("@users", json!({ "type": "user" })),
        ("@1", json!({ "type": "record", "id": "record-1" })),
        ("@2", json!({ "type": "record", "id": "record-2" })),
        ("@active", record("record-1", "active")),
        ("@archived", record("record-2", "archived")),
        ("@records", json!({ "type": "record" })),
        ("@read", json!({ "name": "read" })),
        ("@write", json!({ "name": "write" })),
        ("@noon", noon),
    ] {
        question = question.replace(&format!("{name},"), &format!("{value},"));
        question = question.replace(&format!("{name}}}"), &format!("{value}}}"));
    }
    question
}

/// What an answer is compared with: the decisions, or the names of results.
fn summary(answer: &Value) -> Vec<String> {
    let decision = |item: &Value| {
        assert!(item.get("context").is_none_or(Value::is_object), "{answer}");
        if item["decision"].as_bool().unwrap() { "yes" } else { "no" }.to_owned()
    };
    if let Some(items) = answer["evaluations"].as_array() {
        return items.iter().map(decision).collect();
    }
    let Some(results) = answer["results"].as_array() else { return vec![decision(answer)] };
    assert!(answer["page"]["next_token"].is_string(), "{answer}");
    let names = results.iter().map(|result| result.get("name").unwrap_or(&result["id"]));
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_level_of_the_certification_is_met() {
    let folder = PolicyFolder::new(POLICY);
    let server = serve(&folder);
    let at = address(&server);
    let mut levels = std::collections::BTreeMap::new();
    for case in CASES.split("\n\n").filter(|case| !case.starts_with('#')) {
        let mut lines = case.trim_start().lines();
        let (title, what) = (lines.next().unwrap(), lines.next().unwrap());
        let (endpoint, expected) = what.split_once(" => ").unwrap();
        let question = expand(lines.next().unwrap_or_default());
        let (status, head, body) = post(at, &format!("/access/v1/{endpoint}"), &question);
        *levels.entry(title.split(':').next().unwrap()).or_insert(0) += 1;
        if let Ok(expected) = expected.parse::<u16>() {
            assert_eq!(status, expected, "{case}\n{body}");
            continue;
        }
        assert_eq!(status, 200, "{case}\n{body}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let found = summary(&answer);
        let expected: Vec<&str> = expected.split(' ').filter(|name| *name != "none").collect();
        let is_met = if let Some(results) = answer["results"].as_array() {
            let asked: Value = serde_json::from_str(&question).unwrap();
            let kind = endpoint.trim_start_matches("search/");
            let has_kind = results.iter().all(|result| result["type"] == asked[kind]["type"]);
            let is_empty = expected.is_empty() && !found.is_empty();
            (has_kind || kind == "action")
                && !is_empty
                && expected.iter().all(|name| found.iter().any(|result| result == name))
        } else {
            found.len() == expected.len()
                && found.iter().zip(&expected).all(|(is, wanted)| *wanted == "?" || is == wanted)
        };
        assert!(is_met, "{case}\n{body}");
    }
    let counts: Vec<_> = levels.into_iter().collect();
    assert_eq!(
        counts,
        [
            ("Basic Core", 19),
            ("Basic Properties", 4),
            ("Batch Core", 7),
            ("Batch Properties", 3),
            ("Search Core", 19),
            ("Search Properties", 3)
        ]
    );
}

#[test]
fn a_page_leads_to_the_next_until_the_token_is_empty() {
    let folder = PolicyFolder::new(POLICY);
    let server = serve(&folder);
    let at = address(&server);
    let first =
        expand(r#"{"subject": @users, "action": @read, "resource": @1, "page": {"limit": 1}}"#);
    let page = |question: &str| -> Value {
        let (status, _, body) = post(at, "/access/v1/search/subject", question);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let answer = page(&first);
    assert_eq!(summary(&answer), ["alice"]);
    let token = answer["page"]["next_token"].as_str().unwrap();
    let next = first.replace(r#""limit": 1"#, &format!(r#""token": "{token}""#));
    let answer = page(&next);
    assert_eq!(
        (summary(&answer), &answer["page"]["next_token"]),
        (vec!["bob".to_owned()], &json!(""))
    );
}

#[test]
fn the_metadata_are_those_of_the_public_url() {
    let folder = PolicyFolder::new(POLICY);
    let server = serve(&folder);
    let at = address(&server);
    for path in [METADATA.to_owned(), format!("{METADATA}/tenant")] {
        let (status, head, body) = send(at, &request(&format!("GET {path}"), &[], ""));
        assert!(status == 200 && head.contains("content-type: application/json"), "{head}");
        let metadata: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(metadata["policy_decision_point"], URL);
        for (name, endpoint) in [
            ("access_evaluation_endpoint", "evaluation"),
            ("access_evaluations_endpoint", "evaluations"),
            ("search_subject_endpoint", "search/subject"),
            ("search_resource_endpoint", "search/resource"),
            ("search_action_endpoint", "search/action"),
        ] {
            assert_eq!(metadata[name], format!("{URL}/access/v1/{endpoint}"));
        }
        assert_eq!(metadata.as_object().unwrap().len(), 6);
    }
    let other = request(&format!("GET {METADATA}/other"), &[], "");
    assert_eq!(send(at, &other).0, 401);
}

#[test]
fn the_same_question_has_the_same_answer_and_its_id() {
    let folder = PolicyFolder::new(POLICY);
    let server = serve(&folder);
    let question = expand(r#"{"subject": @alice, "action": @read, "resource": @1}"#);
    let token = authorization(TOKEN);
    for number in 0..5 {
        let id = format!("x-request-id: {number}");
        let lines = [&*token, "content-type: application/json", &id];
        let ask = request("POST /access/v1/evaluation", &lines, &question);
        let (status, head, body) = send(address(&server), &ask);
        assert_eq!((status, &*body), (200, "{\"decision\":true}"));
        assert!(head.contains(&id), "{head}");
    }
}
