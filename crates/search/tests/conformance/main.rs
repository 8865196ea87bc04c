//! The same answers as the security plugin gives: requests that were sent to a real node, and its
//! answers.
//!
//! `recorded.jsonl` is replayed by every test run. `make search-conformance
//! NODE=http://127.0.0.1:9200` generates roles, mappings, indices, aliases and requests, sends them
//! to a node with the plugin, and compares; with `RECORD=1` it writes the files anew. The node must
//! take users and backend roles from the headers `x-proxy-user` and `x-proxy-roles`, and `admins`
//! must have `all_access`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "it compares with a server that the environment names"
)]

mod contents;
mod contexts;
mod decision;
#[expect(dead_code, reason = "the sidecar's tests use all of it")]
mod node;
#[expect(dead_code, reason = "the sidecar's tests use all of it")]
mod requests;
mod tally;
#[expect(dead_code, reason = "the sidecar's tests use all of it")]
mod world;

use std::env;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use node::Node;
use requests::Sent;
use serde_json::Value;
use tally::Tally;
use world::World;

/// How many of the first generated requests are recorded.
const RECORDED: usize = 1_200;
/// Requests for each set of roles.
const PER_WORLD: usize = 200;

/// Held by tests that change the node.
static NODE: Mutex<()> = Mutex::new(());

fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

#[test]
fn recorded_answers_are_ours() {
    let mut tally = Tally::default();
    let mut world = None;
    for line in include_str!("recorded.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line.get("roles").is_some_and(Value::is_object) {
            world = Some(World::from_record(&line));
        } else {
            let sent = Sent::from_record(&line);
            let ours = decision::decide(world.as_ref().expect("roles come first"), &sent);
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
    let _node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let count: usize = setting("REQUESTS", "20000").parse().expect("REQUESTS is a number");
    let seed: u64 = setting("SEED", "1").parse().expect("SEED is a number");
    let mut node = Node::at(&setting("NODE", "http://127.0.0.1:9200"));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    let mut records = String::new();
    world::create(&mut node);
    for number in 0..count.div_ceil(PER_WORLD) {
        let world = World::generate(&mut random);
        world.fill(&mut node);
        world.activate(&mut node);
        if number * PER_WORLD < RECORDED {
            writeln!(records, "{}", world.record()).expect("text");
        }
        for request in 0..PER_WORLD {
            let sent = requests::generate(&mut random);
            let answer = node.decide(&sent);
            let ours = decision::decide(&world, &sent);
            tally.add(&sent, &answer, &ours);
            if sent.may_create && answer.status < 300 {
                world.remove_new(&mut node);
            }
            if number * PER_WORLD + request < RECORDED {
                writeln!(records, "{}", sent.record(&answer)).expect("text");
            }
        }
    }
    tally.print(count);
    if env::var("RECORD").is_ok_and(|value| !value.is_empty()) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/recorded.jsonl");
        std::fs::write(path, records).expect("the records are written");
    }
    let problems = tally.problems();
    assert!(problems.is_empty(), "{problems}");
}
