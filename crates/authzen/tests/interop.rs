//! The decisions that the AuthZEN working group has published for its interoperability events: 40
//! questions and 3 batches of the todo application, 25 questions of its API gateway. The policy is
//! our own.

use authorizer::Authorizer;
use authzen::Endpoint;
use document::MapFiles;
use serde_json::{Value, json};

use crate::asking::{answer_of, compiled};

const POLICY: &str = include_str!("interop/policy.yaml");
const ENTITIES: &str = include_str!("interop/entities.yaml");
const APPLICATION: &str = include_str!("interop/todo.txt");
const GATEWAY: &str = include_str!("interop/gateway.txt");

fn authorizer() -> Authorizer {
    compiled(&MapFiles::new("policy.yaml", POLICY).and("entities.yaml", ENTITIES))
}

/// The `id` of the subject with this name.
fn subject_id(authorizer: &Authorizer, name: &str) -> String {
    let authzen = authorizer.loaded().policy.authzen.as_ref().unwrap();
    let users = &authzen.entities.subjects.0["user"];
    users.iter().find(|(_, properties)| properties["name"] == name).unwrap().0.to_string()
}

/// A line of a table: the decision, and its columns.
fn row(line: &str) -> (bool, Vec<&str>) {
    let mut columns = line.split_whitespace();
    (columns.next() == Some("yes"), columns.collect())
}

fn todo_question(authorizer: &Authorizer, columns: &[&str]) -> Value {
    let [name, action, kind, id, owner] = columns else { panic!("{columns:?}") };
    let mut resource = json!({ "type": kind, "id": id });
    if *owner != "-" {
        resource["properties"] = json!({ "ownerID": owner });
    }
    json!({
        "subject": { "type": "user", "id": subject_id(authorizer, name) },
        "action": { "name": action },
        "resource": resource,
    })
}

#[test]
fn the_todo_application_gets_the_published_decisions() {
    let authorizer = authorizer();
    let mut tables = APPLICATION.split("\n\n");
    let mut count = 0;
    for line in tables.next().unwrap().lines() {
        let (expected, columns) = row(line);
        let question = todo_question(&authorizer, &columns);
        let answer = answer_of(&authorizer, Endpoint::Evaluation, &question);
        assert_eq!(answer, Ok(json!({ "decision": expected })), "{line}");
        count += 1;
    }
    assert_eq!(count, 40);
    for table in tables {
        let (mut items, mut expected) = (Vec::new(), Vec::new());
        for line in table.lines() {
            let (decision, columns) = row(line);
            items.push(todo_question(&authorizer, &columns));
            expected.push(json!({ "decision": decision }));
        }
        let mut batch = items[0].clone();
        batch.as_object_mut().unwrap().remove("resource");
        batch["evaluations"] =
            items.iter().map(|item| json!({ "resource": item["resource"] })).collect();
        let answer = answer_of(&authorizer, Endpoint::Evaluations, &batch);
        assert_eq!(answer, Ok(json!({ "evaluations": expected })), "{table}");
        count += 1;
    }
    assert_eq!(count, 43);
}

#[test]
fn the_gateway_gets_the_published_decisions() {
    let authorizer = authorizer();
    for line in GATEWAY.lines() {
        let (expected, columns) = row(line);
        let [name, method, route] = &*columns else { panic!("{line}") };
        let question = json!({
            "subject": { "type": "identity", "id": subject_id(&authorizer, name) },
            "action": { "name": method },
            "resource": { "type": "route", "id": route },
            "context": {},
        });
        let answer = answer_of(&authorizer, Endpoint::Evaluation, &question);
        assert_eq!(answer, Ok(json!({ "decision": expected })), "{line}");
    }
    assert_eq!(GATEWAY.lines().count(), 25);
}
