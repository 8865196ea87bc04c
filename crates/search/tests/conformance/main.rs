//! The same answers as the security plugin gives: requests that were sent to a real node, and its answers.
//!
//! `recorded.jsonl` is replayed by every test run. `make search-conformance NODE=http://127.0.0.1:9200` generates roles and
//! requests, sends them to a node with the plugin, and compares; with `RECORD=1` it writes the file anew. The node must
//! take users and backend roles from the headers `x-proxy-user` and `x-proxy-roles`, and `admins` must have `all_access`.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "it compares with a server that the environment names")]

mod decision;
mod node;
mod requests;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write;

use decision::{Decision, STRICTER};
use node::{Answer, Node};
use requests::Sent;
use serde_json::{Value, json};
use world::World;

/// How many of the first generated requests are recorded.
const RECORDED: usize = 600;
/// Requests for each set of roles.
const PER_WORLD: usize = 200;

/// How answers compare.
#[derive(Default)]
struct Tally {
    same: usize,
    /// The node failed for another reason than privileges.
    undecided: usize,
    stricter: BTreeMap<(String, String), (usize, String)>,
    over_granted: Vec<String>,
}

impl Tally {
    fn add(&mut self, sent: &Sent, node: &Answer, ours: &Decision) {
        let shown = || format!("{} {} {} by {}", sent.method, sent.target, sent.body, sent.roles);
        match (node.allowed, ours) {
            (None, _) => self.undecided += 1,
            (Some(false), Decision::Denied { .. }) => self.same += 1,
            (Some(false), Decision::Permitted(_)) => self.over_granted.push(shown()),
            (Some(true), Decision::Permitted(None)) => self.same += 1,
            (Some(true), Decision::Permitted(Some(only))) => {
                let only: BTreeSet<_> =
                    only.iter().filter(|index| world::has_documents(index)).cloned().collect();
                let found =
                    node.found.as_ref().map(|found| found.iter().filter(|index| world::has_documents(index)));
                match found.map(|found| found.cloned().collect::<BTreeSet<_>>()) {
                    Some(found) if !only.is_subset(&found) => {
                        self.over_granted.push(format!("{}: {only:?} instead of {found:?}", shown()));
                    }
                    Some(found) if only != found => {
                        let why = format!("{only:?} instead of {found:?}");
                        self.stricter.entry(("reduced".to_owned(), why)).or_insert_with(|| (0, shown())).0 +=
                            1;
                    }
                    _ => self.same += 1,
                }
            }
            (Some(true), Decision::Denied { operation, why }) => {
                let key = (operation.clone(), why.clone());
                self.stricter.entry(key).or_insert_with(|| (0, shown())).0 += 1;
            }
        }
    }

    /// What is wrong: over-grants, and denials that no line of the table explains.
    fn problems(&self) -> String {
        let mut problems = String::new();
        for request in self.over_granted.iter().take(40) {
            writeln!(problems, "over-granted: {request}").expect("text");
        }
        for ((operation, why), (count, example)) in &self.stricter {
            if !STRICTER.iter().any(|(op, reason, _)| (*op == "*" || op == operation) && why.contains(reason))
            {
                writeln!(problems, "stricter {count} times: {operation}: {why}: {example}").expect("text");
            }
        }
        problems
    }
}

#[test]
fn recorded_answers_are_ours() {
    let mut tally = Tally::default();
    let mut world = None;
    for line in include_str!("recorded.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line.get("roles").is_some_and(Value::is_object) {
            world = Some(World::of(line["roles"].clone(), line["reduces"] == true));
        } else {
            let sent = Sent::of_record(&line);
            let ours = decision::of(world.as_ref().expect("roles come first"), &sent);
            tally.add(&sent, &Sent::recorded_answer(&line), &ours);
        }
    }
    assert!(tally.same >= RECORDED / 2, "{} same, {} undecided", tally.same, tally.undecided);
    let problems = tally.problems();
    assert!(problems.is_empty(), "{problems}");
}

#[test]
#[ignore = "needs a node with the security plugin: make search-conformance"]
fn a_node_gives_the_same_answers() {
    let setting = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let count: usize = setting("REQUESTS", "20000").parse().expect("REQUESTS is a number");
    let seed: u64 = setting("SEED", "1").parse().expect("SEED is a number");
    let mut node = Node::at(&setting("NODE", "http://127.0.0.1:9200"));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    let mut records = String::new();
    world::create(&mut node);
    for number in 0..count.div_ceil(PER_WORLD) {
        let world = World::generate(&mut random);
        world.activate(&mut node);
        if number * PER_WORLD < RECORDED {
            writeln!(records, "{}", json!({ "roles": world.roles, "reduces": world.reduces })).expect("text");
        }
        for request in 0..PER_WORLD {
            let sent = requests::generate(&mut random);
            let answer = node.decide(&sent);
            let ours = decision::of(&world, &sent);
            tally.add(&sent, &answer, &ours);
            if sent.may_create && answer.status < 300 {
                world::remove_new(&mut node);
            }
            if number * PER_WORLD + request < RECORDED {
                writeln!(records, "{}", sent.record(&answer)).expect("text");
            }
        }
    }
    let stricter: usize = tally.stricter.values().map(|(count, _)| count).sum();
    println!(
        "{count} requests: {} same, {stricter} stricter, {} undecided, {} over-granted",
        tally.same,
        tally.undecided,
        tally.over_granted.len()
    );
    for ((operation, why), (count, _)) in &tally.stricter {
        println!("{count:6} stricter: {operation}: {why}");
    }
    if env::var("RECORD").is_ok_and(|value| !value.is_empty()) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/recorded.jsonl");
        std::fs::write(path, records).expect("the records are written");
    }
    let problems = tally.problems();
    assert!(problems.is_empty(), "{problems}");
}
