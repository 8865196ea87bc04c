//! Workload files: what reaches the server is what the file says.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use load::{Plan, Rate, Workload, run};

use crate::server::{Act, Seen, Server};

fn shipped(name: &str) -> Workload {
    Workload::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads").join(name)).unwrap()
}

fn sent(workload: Workload, requests: u64, seed: u64) -> Vec<Seen> {
    let server = Server::start(|_| Act::answer(200, Duration::ZERO));
    let plan = Plan::http(&server.url("/")).unwrap();
    let plan = Plan { rate: Rate::Max, connections: 1, requests: Some(requests), duration: None, ..plan };
    let results = run(&Plan { workload, seed, ..plan }).unwrap();
    assert_eq!((results.requests(), results.errors()), (requests, 0), "{results:?}");
    server.seen()
}

fn path(seen: &Seen) -> &str {
    seen.head.split(' ').nth(1).unwrap()
}

#[test]
fn a_mix_keeps_its_weights_and_fills_in_its_variables() {
    let all = sent(shipped("people.toml"), 1000, 1);
    let posts = all.iter().filter(|request| request.head.starts_with("POST ")).count();
    assert!((60..140).contains(&posts), "{posts}");
    let gets: Vec<&str> = all.iter().filter(|request| request.head.starts_with("GET ")).map(path).collect();
    let different: BTreeSet<&str> = gets.iter().copied().collect();
    assert!(different.len() == gets.len(), "a sequence repeats itself");
    assert!(gets.iter().all(|path| path.starts_with("/people?page=") && path.contains("&name=")), "{gets:?}");
    assert!(all.iter().all(|request| request.head.contains("\r\nauthorization: Basic ")));
    let body: serde_json::Value =
        serde_json::from_slice(&all.iter().find(|request| !request.body.is_empty()).unwrap().body).unwrap();
    assert_eq!(body["id"].as_str().unwrap().len(), 36);
    assert!((18..=99).contains(&body["age"].as_i64().unwrap()), "{body}");
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let of = |seed| -> Vec<String> {
        let mut workload = shipped("people.toml");
        // The time differs from run to run.
        workload.variables.retain(|variable| variable.name != "now");
        workload.requests.iter_mut().for_each(|request| request.body.clear());
        sent(workload, 50, seed)
            .into_iter()
            .map(|request| request.head.split_once("host").unwrap().0.to_owned())
            .collect()
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

#[test]
fn a_bulk_body_has_its_lines_and_is_compressed() {
    let all = sent(shipped("bulk.toml"), 3, 1);
    let mut numbers = BTreeSet::new();
    for seen in &all {
        assert!(seen.head.contains("\r\ncontent-encoding: gzip\r\n"), "{}", seen.head);
        let mut text = String::new();
        flate2::read::GzDecoder::new(seen.body.as_slice()).read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1000);
        for document in lines.iter().skip(1).step_by(2) {
            let document: serde_json::Value = serde_json::from_str(document).unwrap();
            numbers.insert(document["number"].as_i64().unwrap());
        }
    }
    assert_eq!(numbers, (1..=1500).collect());
}
