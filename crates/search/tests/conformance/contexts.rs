//! Scrolls and points in time: what a node answers to who has opened one, and to others who know
//! its id.
//!
//! `contexts.jsonl` has recorded answers; `make search-conformance RECORD=1` writes it anew.

use std::env;
use std::fmt::Write;
use std::sync::PoisonError;

use serde_json::{Value, json};

use crate::decision::{self, Decision};
use crate::node::{Answer, Node};
use crate::requests::Sent;
use crate::world::{self, ROLES, World};
use crate::{NODE, setting};

/// A user with a role, as the sender of a request.
type Asking = (&'static str, &'static str);

/// The users that open a scroll and a point in time of `logs-a`. `r0` may read `logs-*`, `r1`
/// another index, `r2` everything, and `r3` may read `logs-*` but do nothing on the cluster.
const OPENING: [Asking; 4] = [("ann", "r0"), ("ann", "r1"), ("ann", "r2"), ("ann", "r3")];

/// Others who then use it.
const OTHERS: [Asking; 5] =
    [("bob", "r0"), ("bob", "r1"), ("bob", "r2"), ("bob", "r3"), ("ann", "r1")];

/// A role that may search all indices, and so continue the scroll of another user: only a cluster
/// can tell whose it is.
const SEARCHES_ALL: &str = "r2";

/// Operations that rolegate denies to some whom a node permits them: it does not know what an id is
/// of.
const STRICTER: [&str; 5] = ["scroll", "search", "delete_pit", "get_all_pits", "delete_all_pits"];

#[test]
fn recorded_answers_about_scrolls_and_points_in_time_are_ours() {
    let mut world = None;
    // The same, stricter, and denied by a node alone because the scroll is another user's.
    let mut seen = [0_usize; 3];
    for line in include_str!("contexts.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line["roles"].is_object() {
            world = Some(World::with_roles(line["roles"].clone(), false));
            continue;
        }
        let (world, sent) = (world.as_ref().expect("roles come first"), Sent::from_record(&line));
        let answer = Sent::recorded_answer(&line);
        let shown = || format!("{} {}: {answer:?}", line["user"], sent.shown());
        let is_permitted = answer.allowed.unwrap_or_else(|| panic!("undecided: {}", shown()));
        let is_of_another = line["of_another"] == true && sent.target == "/_search/scroll";
        match (decision::decide(world, &sent), is_permitted) {
            (Decision::Permitted(None), false) if is_of_another && sent.roles == SEARCHES_ALL => {}
            (Decision::Permitted(None), true) | (Decision::Denied { .. }, false) => seen[0] += 1,
            (Decision::Denied { operation, .. }, true) if STRICTER.contains(&&*operation) => {
                seen[1] += 1
            }
            (ours, _) => panic!("{ours:?} for {}", shown()),
        }
        // Where the cluster checks whose a scroll is, that is left to it, and nothing else.
        match (decision::decide_with_scrolls(world, &sent, true), is_permitted) {
            (Decision::Permitted(None), false) if is_of_another => seen[2] += 1,
            (Decision::Permitted(None), true) | (Decision::Denied { .. }, false) => {}
            (Decision::Denied { operation, .. }, true)
                if operation != "scroll" && STRICTER.contains(&&*operation) => {}
            (ours, _) => panic!("{ours:?} where scrolls are checked, for {}", shown()),
        }
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

#[test]
#[ignore = "needs a node with the security plugin: make search-conformance"]
fn a_node_answers_about_scrolls_and_points_in_time_as_recorded() {
    let _node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut node = Node::at(&setting("NODE", "http://127.0.0.1:9200"));
    let world = World::with_roles(roles(), false);
    world::create(&mut node);
    world.activate(&mut node);
    let mut recorded = Recorded { node, lines: String::new(), answers: Vec::new() };
    writeln!(recorded.lines, "{}", json!({ "roles": world.roles })).expect("text");
    for opening in OPENING {
        recorded.scroll(opening);
        recorded.point_in_time(opening);
    }
    for asking in OTHERS {
        recorded.ask(asking, false, "GET", "/_search/point_in_time/_all", Value::Null);
        recorded.ask(asking, false, "DELETE", "/_search/point_in_time/_all", Value::Null);
    }
    if env::var("RECORD").is_ok_and(|value| !value.is_empty()) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/contexts.jsonl");
        return std::fs::write(path, &recorded.lines).expect("the records are written");
    }
    let before = include_str!("contexts.jsonl").lines().skip(1).map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["allowed"].as_bool()
    });
    assert_eq!(recorded.answers, before.collect::<Vec<_>>());
}

fn roles() -> Value {
    let on_cluster = json!(["cluster_composite_ops_ro", "indices:data/read/scroll*"]);
    let reading = |index: &str, on_cluster: &Value| {
        json!({
            "cluster_permissions": on_cluster,
            "index_permissions": [{ "index_patterns": [index], "allowed_actions": ["read"] }],
        })
    };
    let all = json!({
        "cluster_permissions": ["*"],
        "index_permissions": [{ "index_patterns": ["*"], "allowed_actions": ["*"] }],
    });
    let mut roles = json!({ "r0": reading("logs-*", &on_cluster), "r1": reading("public", &on_cluster), "r2": all });
    for number in 3..ROLES {
        roles[format!("r{number}")] = reading("logs-*", &json!([]));
    }
    roles
}

/// A node that is asked, and its answers.
struct Recorded {
    node: Node,
    lines: String,
    answers: Vec<Option<bool>>,
}

impl Recorded {
    /// Opens scrolls; then each is continued or closed by another user, or by who opened it. A node
    /// closes one that another user continues.
    fn scroll(&mut self, opening: Asking) {
        for (asking, of_another) in users(opening) {
            for method in ["POST", "DELETE"] {
                let target = "/logs-a/_search?scroll=1m";
                let opened = self.ask(opening, false, "POST", target, json!({ "size": 1 }));
                let Some(id) = opened["_scroll_id"].as_str() else { return };
                let body = match method {
                    "POST" => json!({ "scroll": "1m", "scroll_id": id }),
                    _ => json!({ "scroll_id": [id] }),
                };
                self.ask(asking, of_another, method, "/_search/scroll", body);
            }
        }
    }

    fn point_in_time(&mut self, opening: Asking) {
        let target = "/logs-a/_search/point_in_time?keep_alive=1m";
        let opened = self.ask(opening, false, "POST", target, Value::Null);
        let Some(id) = opened["pit_id"].as_str().map(ToOwned::to_owned) else { return };
        for (asking, of_another) in users(opening) {
            let body = json!({ "pit": { "id": id, "keep_alive": "1m" } });
            self.ask(asking, of_another, "POST", "/_search", body);
        }
        for (asking, of_another) in users(opening) {
            let body = json!({ "pit_id": [id] });
            self.ask(asking, of_another, "DELETE", "/_search/point_in_time", body);
        }
    }

    fn ask(
        &mut self,
        (user, role): Asking,
        of_another: bool,
        method: &str,
        target: &str,
        body: Value,
    ) -> Value {
        let sent = Sent {
            user: user.to_owned(),
            roles: role.to_owned(),
            method: method.to_owned(),
            target: target.to_owned(),
            body: if body.is_null() { String::new() } else { body.to_string() },
            is_dry: false,
            may_create: false,
        };
        let (answer, text) = self.node.answer(&sent, "");
        // One whose scroll is another user's is an error of its own.
        let answer = Answer { allowed: Some(answer.status != 403), found: None, ..answer };
        assert!(matches!(answer.status, 200 | 403), "{} {text}", sent.shown());
        let mut record = sent.record(&answer);
        record["user"] = json!(user);
        record["of_another"] = json!(of_another);
        writeln!(self.lines, "{record}").expect("text");
        self.answers.push(answer.allowed);
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// The users of an open scroll, its owner last, and whether they are others than the owner.
fn users(opening: Asking) -> impl Iterator<Item = (Asking, bool)> {
    OTHERS.into_iter().map(move |other| (other, other.0 != opening.0)).chain([(opening, false)])
}
