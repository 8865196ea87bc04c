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
    let plan =
        Plan { rate: Rate::Max, connections: 1, requests: Some(requests), duration: None, ..plan };
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
    let gets: Vec<&str> =
        all.iter().filter(|request| request.head.starts_with("GET ")).map(path).collect();
    let different: BTreeSet<&str> = gets.iter().copied().collect();
    assert!(different.len() == gets.len(), "a sequence repeats itself");
    assert!(
        gets.iter().all(|path| path.starts_with("/people?page=") && path.contains("&name=")),
        "{gets:?}"
    );
    assert!(all.iter().all(|request| request.head.contains("\r\nauthorization: Basic ")));
    let body: serde_json::Value =
        serde_json::from_slice(&all.iter().find(|request| !request.body.is_empty()).unwrap().body)
            .unwrap();
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

/// The lines of a bulk body: those that name an index, and the documents.
fn bulk_lines(seen: &Seen) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let text = std::str::from_utf8(&seen.body).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.partition(|line| line.pointer("/index/_index").is_some_and(serde_json::Value::is_string))
}

#[test]
fn a_search_cluster_gets_searches_and_bulk_requests_of_10() {
    let all = sent(shipped("search.toml"), 400, 1);
    let of =
        |wanted: fn(&str) -> bool| all.iter().filter(|seen| wanted(path(seen))).collect::<Vec<_>>();
    let on_one = of(|path| path == "/logs-2026-10/_search" || path == "/logs-2026-11/_search");
    let (on_a_pattern, bulk) = (of(|path| path == "/logs-*/_search"), of(|path| path == "/_bulk"));
    assert_eq!(on_one.len() + on_a_pattern.len() + bulk.len(), all.len());
    for (count, least, most) in
        [(on_one.len(), 200, 280), (on_a_pattern.len(), 80, 160), (bulk.len(), 15, 75)]
    {
        assert!((least..most).contains(&count), "{count}");
    }
    for seen in bulk {
        assert!(!seen.head.contains("content-encoding"), "{}", seen.head);
        let (actions, documents) = bulk_lines(seen);
        assert_eq!((actions.len(), documents.len()), (10, 10));
    }
}

#[test]
fn a_search_cluster_gets_bulk_requests_of_1000_documents_of_200_bytes() {
    for seen in sent(shipped("search-bulk.toml"), 2, 1) {
        let (actions, documents) = bulk_lines(&seen);
        assert_eq!((actions.len(), documents.len()), (1000, 1000));
        for document in documents {
            let length = document.to_string().len();
            assert!((180..220).contains(&length), "{length}");
        }
    }
}
