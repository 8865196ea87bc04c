//! The content of the decision log, and what happens when it is not read.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use authorizer::Revision;

use super::{Counts, Decisions};
use crate::grpc::{DecisionRecord, DecisionSink};
use crate::lines::MAX_BYTES;
use crate::settings::DecisionLog;

static REVISION: LazyLock<Revision> =
    LazyLock::new(|| Revision { policy: "abc".into(), keys: Some("def".into()) });

fn record(allowed: bool, path: &str) -> DecisionRecord<'_> {
    DecisionRecord {
        time: Duration::from_micros(1_700_000_000_000_001),
        request_id: "id-1",
        method: "GET",
        host: "example.com",
        path,
        user: Some("alice"),
        allowed,
        reason: (!allowed).then_some("not_allowed"),
        rule: allowed.then_some("guest: GET /people"),
        revision: &REVISION,
        duration: Duration::from_micros(7),
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines_of(which: DecisionLog, records: &[DecisionRecord<'_>]) -> Vec<serde_json::Value> {
    let memory = Memory::default();
    let started = Decisions::start(which, memory.clone(), Arc::new(Counts::default())).unwrap();
    let Some((decisions, writer)) = started else { return Vec::new() };
    let wanted = records.iter().filter(|record| decisions.wants(record.allowed));
    wanted.for_each(|record| decisions.offer(record));
    drop(decisions);
    writer.finish(Duration::from_secs(10));
    let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_is_one_json_object() {
    let lines = lines_of(DecisionLog::All, &[record(true, "/people"), record(false, "/a\"\n\u{1b}b")]);
    assert_eq!(
        lines,
        [
            serde_json::json!({
                "time": 1_700_000_000.000_001, "decision": "allowed", "rule": "guest: GET /people", "user": "alice",
                "method": "GET", "host": "example.com", "path": "/people", "request_id": "id-1", "policy": "abc",
                "keys": "def", "duration_us": 7
            }),
            serde_json::json!({
                "time": 1_700_000_000.000_001, "decision": "denied", "reason": "not_allowed", "user": "alice",
                "method": "GET", "host": "example.com", "path": "/a\"\n\u{1b}b", "request_id": "id-1",
                "policy": "abc", "keys": "def", "duration_us": 7
            }),
        ]
    );
}

#[test]
fn only_what_is_asked_for_is_logged() {
    let records = [record(true, "/1"), record(false, "/2")];
    assert_eq!(lines_of(DecisionLog::Off, &records).len(), 0);
    assert_eq!(lines_of(DecisionLog::Denied, &records).len(), 1);
    assert_eq!(lines_of(DecisionLog::All, &records).len(), 2);
}

#[test]
fn a_long_path_is_cut() {
    let path = "/ä".repeat(5000);
    let lines = lines_of(DecisionLog::All, &[record(true, &path)]);
    assert!(lines[0]["path"].as_str().unwrap().len() <= super::LONGEST);
}

/// A reader that reads nothing until it is released.
struct Stuck(Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_reader_costs_lines_and_no_time() {
    let (release, stuck): (Sender<()>, _) = channel();
    let counts = Arc::new(Counts::default());
    let (decisions, writer) =
        Decisions::start(DecisionLog::All, Stuck(stuck), counts.clone()).unwrap().unwrap();
    // The longest line possible: each of these bytes becomes six in JSON.
    let hostile = "\u{1}".repeat(2000);
    let record = DecisionRecord {
        method: &hostile,
        host: &hostile,
        request_id: &hostile,
        user: Some(&hostile),
        ..record(false, &hostile)
    };
    let offered = 2000;
    for _ in 0..offered {
        decisions.offer(&record);
        assert!(counts.waiting() <= MAX_BYTES, "{}", counts.waiting());
    }
    // A line of 30 kB in an allocation of 32 KiB.
    let dropped = counts.dropped();
    assert!((offered - 140..offered).contains(&dropped), "{dropped}");
    drop((release, decisions));
    writer.finish(Duration::from_secs(10));
    assert_eq!(counts.written() + counts.dropped(), offered);
    assert_eq!(counts.waiting(), 0);
}
