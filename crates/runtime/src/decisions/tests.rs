//! The content of the decision log, and what happens when it is not read.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testbed::pages::{names, table};

use super::settings::DecisionLogSettings;
use super::{Counts, Decisions, Masks};
use crate::lines::{MAX_BYTES, Writer};
use authorizer::RecordedInputs;

use crate::record::{DecisionRecord, DecisionSink};
use crate::settings::{DecisionLog, MaskUsers};
use crate::trace_context::{DecisionTrace, TraceContext};

fn record(allowed: bool, path: &str) -> DecisionRecord<'_> {
    DecisionRecord {
        version: 1,
        time: Duration::from_micros(1_700_000_000_000_001),
        decision: if allowed { "allowed" } else { "denied" },
        reason: (!allowed).then_some("not_allowed"),
        detail: if allowed { "" } else { "`kid` is `zzz`" }.into(),
        rule: if allowed { "guest: GET /people" } else { "" },
        user: "alice".into(),
        method: "GET".into(),
        host: "example.com".into(),
        path: path.into(),
        request_id: "id-1".into(),
        policy: "abc",
        keys: "def",
        duration: Duration::from_micros(7),
        status: (!allowed).then_some(403),
        is_canonical: true,
        ..DecisionRecord::default()
    }
}

/// Offers a record, as if its decision had just been made.
fn offer(decisions: &Decisions, record: &DecisionRecord<'_>) {
    decisions.take(record.reason, record.time, record.trace, || record.clone());
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

fn started(
    settings: &DecisionLogSettings,
    file: impl Write + Send + 'static,
    counts: Arc<Counts>,
) -> (Decisions, Writer) {
    let masks = Arc::new(Masks::new(settings).unwrap());
    let mut decisions = Decisions::new(settings, masks, counts);
    let writer = decisions.write_to(file).unwrap();
    (decisions, writer)
}

fn lines_of(which: DecisionLog, records: &[DecisionRecord<'_>]) -> Vec<serde_json::Value> {
    lines_with(&DecisionLogSettings::to_standard_output(which), records)
}

fn lines_with(
    settings: &DecisionLogSettings,
    records: &[DecisionRecord<'_>],
) -> Vec<serde_json::Value> {
    let memory = Memory::default();
    let (decisions, writer) = started(settings, memory.clone(), Arc::default());
    let wanted = records.iter().filter(|record| decisions.wants(record.reason.is_none()));
    wanted.for_each(|record| offer(&decisions, record));
    drop(decisions);
    writer.finish(Duration::from_secs(60));
    let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_is_one_json_object() {
    let lines =
        lines_of(DecisionLog::All, &[record(true, "/people"), record(false, "/a\"\n\u{1b}b")]);
    assert_eq!(
        lines,
        [
            serde_json::json!({
                "version": 1, "time": 1_700_000_000.000_001, "decision": "allowed", "rule": "guest: GET /people", "user": "alice",
                "method": "GET", "host": "example.com", "path": "/people", "request_id": "id-1", "policy": "abc",
                "keys": "def", "duration_us": 7
            }),
            serde_json::json!({
                "version": 1, "time": 1_700_000_000.000_001, "decision": "denied", "reason": "not_allowed", "detail": "`kid` is `zzz`",
                "user": "alice",
                "method": "GET", "host": "example.com", "path": "/a\"\n\u{1b}b", "request_id": "id-1",
                "policy": "abc", "keys": "def", "duration_us": 7
            }),
        ]
    );
}

#[test]
fn a_line_has_what_it_takes_to_repeat_the_decision() {
    let record = DecisionRecord {
        user: "id:carol".into(),
        issuer: "https://id.example",
        groups: vec!["id:staff"],
        roles: vec!["admin", "x"],
        attempted_user: "eve".into(),
        attempted_issuer: "https://eve.example".into(),
        client: "192.0.2.1".into(),
        x_request_id: "x-1".into(),
        raw_path: "/a/../people".into(),
        ..record(true, "/people")
    };
    let lines = lines_of(DecisionLog::All, &[record]);
    for (name, value) in [
        ("user", serde_json::json!("id:carol")),
        ("issuer", "https://id.example".into()),
        ("groups", serde_json::json!(["id:staff"])),
        ("roles", serde_json::json!(["admin", "x"])),
        ("attempted_user", "eve".into()),
        ("attempted_issuer", "https://eve.example".into()),
        ("client", "192.0.2.1".into()),
        ("x_request_id", "x-1".into()),
        ("path", "/people".into()),
        ("raw_path", "/a/../people".into()),
        ("inexact", serde_json::Value::Null),
    ] {
        assert_eq!(lines[0][name], value, "{name}");
    }
}

fn recorded_inputs() -> Option<Box<RecordedInputs>> {
    let absent = vec!["request.headers['x-level']".to_owned()];
    Some(Box::new(RecordedInputs { absent, ..RecordedInputs::default() }))
}

#[test]
fn the_table_of_fields_is_what_lines_have() {
    let record = DecisionRecord {
        rule: "guest: GET /people",
        issuer: "https://id.example",
        certificate: vec!["dns:api.example.com".to_owned()],
        groups: vec!["staff"],
        roles: vec!["admin"],
        actor: "spiffe:ci".into(),
        attempted_user: "eve".into(),
        attempted_issuer: "https://eve.example".into(),
        client: "192.0.2.1".into(),
        x_request_id: "x-1".into(),
        raw_path: "/a/../people".into(),
        inexact: true,
        actions: vec!["indices:data/read/search"],
        indices: vec!["logs-*"],
        permitted_indices: vec!["logs-a"],
        query: "expand_wildcards=all".into(),
        trace: TraceContext::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
            .map(|context| DecisionTrace { context, is_recorded: false, parent: None }),
        scheme: "bearer",
        via: crate::Via::Http,
        ..record(false, "/people")
    };
    let settings = DecisionLogSettings {
        mask_users: MaskUsers::Hash,
        sample: vec!["denied=0.999999".parse().unwrap()],
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    // What conditions read is not in a masked line.
    let recorded = DecisionRecord { condition_inputs: recorded_inputs(), ..record };
    let lines = [
        lines_with(&settings, &vec![recorded.clone(); 50]).remove(0),
        lines_of(DecisionLog::All, &[recorded]).remove(0),
    ];
    assert!(lines[0]["condition_inputs"].is_null() && lines[0]["masked"] == true);
    assert!(lines[0]["certificate"].is_null() && lines[0]["detail"].is_null());
    let fields = lines.iter().flat_map(|line| line.as_object().unwrap().keys());
    let has: BTreeSet<&str> = fields.map(String::as_str).collect();
    let page = include_str!("../../../../docs/reference/decision-log.md");
    let rows = table(page, "| field |");
    assert_eq!(rows.iter().flat_map(|row| names(row[0])).collect::<BTreeSet<_>>(), has);
}

#[test]
fn long_values_are_cut() {
    let long = "x".repeat(2000);
    let record = DecisionRecord {
        attempted_user: (&*long).into(),
        x_request_id: (&*long).into(),
        detail: long.clone().into(),
        ..record(false, "/")
    };
    let line = lines_of(DecisionLog::All, &[record]).remove(0);
    let length = |name: &str| line[name].as_str().unwrap().len();
    assert_eq!(["attempted_user", "x_request_id", "detail"].map(length), [256, 256, 1024]);
    // The decision does not depend on them.
    assert_eq!(line["inexact"], serde_json::Value::Null);
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
    assert!(lines[0]["path"].as_str().unwrap().len() <= crate::record::MAX_VALUE);
    assert_eq!(lines[0]["inexact"], true);
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
    let settings = DecisionLogSettings::to_standard_output(DecisionLog::All);
    let (decisions, writer) = started(&settings, Stuck(stuck), counts.clone());
    // The longest line possible: each of these bytes becomes six in JSON.
    let hostile = "\u{1}".repeat(2000);
    let hostile = || hostile.as_str().into();
    let record = DecisionRecord {
        user: hostile(),
        attempted_user: hostile(),
        attempted_issuer: hostile(),
        method: hostile(),
        host: hostile(),
        path: hostile(),
        raw_path: hostile(),
        request_id: hostile(),
        x_request_id: hostile(),
        client: hostile(),
        ..record(false, "")
    };
    let offered = 2000;
    for _ in 0..offered {
        offer(&decisions, &record);
        assert!(counts.waiting() <= MAX_BYTES, "{}", counts.waiting());
    }
    // A line of 40 kB in an allocation of 64 KiB.
    let dropped = counts.dropped();
    assert!((offered - 70..offered).contains(&dropped), "{dropped}");
    drop((release, decisions));
    writer.finish(Duration::from_secs(60));
    assert_eq!(counts.written() + counts.dropped(), offered);
    assert_eq!(counts.waiting(), 0);
}

fn masked(paths: &[&str], users: MaskUsers, record: DecisionRecord<'_>) -> serde_json::Value {
    let settings = DecisionLogSettings {
        mask_paths: paths.iter().map(|path| path.parse().unwrap()).collect(),
        mask_users: users,
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    lines_with(&settings, &[record]).remove(0)
}

#[test]
fn segments_of_paths_are_masked() {
    let masks = ["/people/{id}", "/*/letters/{id}/{part}", "/people/{id}/letters/{id}"];
    for (path, expected) in [
        ("/people", "/people"),
        ("/people/", "/people/"),
        ("/people/5", "/people/*"),
        ("/people;v=1/5", "/people;v=1/*"),
        ("/people/5/", "/people/*/"),
        ("/people/5/letters/7", "/people/*/letters/*"),
        ("/people/5/other/7", "/people/*/other/7"),
        ("/a/letters/7/8/9", "/a/letters/*/*/9"),
        ("/a/letters/7", "/a/letters/7"),
        ("/People/5", "/People/5"),
        // As a client may write it to a search cluster, whose path is logged as received.
        ("/p%65ople//5", "/p%65ople//*"),
        ("/people//5/l%65tters/7", "/people//*/l%65tters/*"),
        // Which parsers of URLs read as the host `people`.
        ("//people/5", "*"),
    ] {
        let line = masked(
            &masks,
            MaskUsers::Off,
            DecisionRecord { raw_path: "/raw//5".into(), ..record(true, path) },
        );
        let is_masked = path != expected;
        assert_eq!(line["path"], expected, "{path}");
        assert_eq!(line["masked"] == true, is_masked, "{path}");
        assert_eq!(line["inexact"] == true, is_masked, "{path}");
        assert_eq!(line["raw_path"].is_null(), is_masked, "{path}");
    }
    // Its segments are not known.
    let invalid = DecisionRecord { is_canonical: false, ..record(false, "/people/%2e/5") };
    assert_eq!(masked(&masks, MaskUsers::Off, invalid)["path"], "*");
    for wrong in ["people/{id}", "/people", "/people/x{id}", "/people//{id}", "/**"] {
        assert!(wrong.parse::<crate::settings::PathMask>().is_err(), "{wrong}");
    }
}

/// A path as received, its canonical form, and what is logged of that.
#[test]
fn no_interpretation_of_a_path_shows_a_masked_segment() {
    for (raw_path, path, expected) in [
        ("/people/SECRET/..", "/people", "/people"),
        ("/people/SECRET/../../orders", "/orders", "/orders"),
        ("/x/%2e%2e/people/5/../SECRET/..", "/people", "/people"),
        ("/people;v=1/SECRET/..", "/people", "/people"),
        ("/people/SECRET", "/people/SECRET", "/people/*"),
        ("/%70eople/SECRET", "/people/SECRET", "/people/*"),
        // Only if it is decoded twice.
        ("/%2570eople/SECRET", "/%2570eople/SECRET", "*"),
        // To a search cluster: encoded slashes are within a name.
        ("/a%2Fpeople%2FSECRET", "/a%2Fpeople%2FSECRET", "*"),
        ("/x/../people/SECRET", "/x/../people/SECRET", "*"),
        ("/people/../people/SECRET", "/people/../people/SECRET", "*"),
        ("/people/%2e%2e/people/SECRET", "/people/%2e%2e/people/SECRET", "*"),
    ] {
        let line = masked(
            &["/people/{id}", "/a/people/{id}"],
            MaskUsers::Off,
            DecisionRecord {
                raw_path: if raw_path == path { "" } else { raw_path }.into(),
                query: "index=SECRET".into(),
                ..record(true, path)
            },
        );
        assert_eq!(
            (&line["path"], &line["masked"]),
            (&expected.into(), &true.into()),
            "{raw_path}"
        );
        assert!(!line.to_string().contains("SECRET"), "{line}");
    }
    let other = DecisionRecord { raw_path: "/orders//7".into(), ..record(true, "/orders/7") };
    let line = masked(&["/people/{id}"], MaskUsers::Off, other);
    assert_eq!(
        (&line["raw_path"], &line["masked"]),
        (&"/orders//7".into(), &serde_json::Value::Null)
    );
}

#[test]
fn users_are_hashed_or_dropped() {
    let record = DecisionRecord { attempted_user: "eve".into(), ..record(true, "/") };
    let hashed = masked(&[], MaskUsers::Hash, record.clone());
    let user = hashed["user"].as_str().unwrap();
    assert!(user.len() == 37 && user.starts_with("hmac:"), "{user}");
    assert_ne!(hashed["attempted_user"], hashed["user"]);
    assert!(
        !hashed.to_string().contains("alice") && !hashed.to_string().contains("\"eve\""),
        "{hashed}"
    );
    assert_eq!((&hashed["masked"], &hashed["inexact"]), (&true.into(), &true.into()));
    // Without a key of their own, two processes have different ones.
    assert_ne!(masked(&[], MaskUsers::Hash, record.clone())["user"], hashed["user"]);
    let dropped = masked(&[], MaskUsers::Drop, record);
    assert!(
        dropped["user"].is_null()
            && dropped["attempted_user"].is_null()
            && dropped["masked"] == true
    );
}

#[test]
fn a_key_of_their_own_makes_hashes_comparable() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let settings = DecisionLogSettings {
        mask_users: MaskUsers::Hash,
        mask_key: Some(key.clone()),
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    let start = || Masks::new(&settings);
    assert!(start().unwrap_err().to_string().contains("decision-log-mask-key"));
    std::fs::write(&key, "short\n").unwrap();
    assert!(start().unwrap_err().to_string().contains("at least 16 bytes"));
    std::fs::write(&key, "0123456789abcdef\n").unwrap();
    let user = || lines_with(&settings, &[record(true, "/")]).remove(0)["user"].clone();
    assert_eq!(user(), user());
}

#[test]
fn what_sampling_leaves_out_is_counted() {
    let settings = DecisionLogSettings {
        sample: vec!["allowed=0.1".parse().unwrap()],
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    let counts = Arc::new(Counts::default());
    let (decisions, writer) = started(&settings, io::sink(), counts.clone());
    for _ in 0..1000 {
        offer(&decisions, &record(true, "/"));
        offer(&decisions, &record(false, "/"));
    }
    drop(decisions);
    writer.finish(Duration::from_secs(60));
    assert_eq!(counts.written() + counts.left_out(), 2000);
    assert!((800..980).contains(&counts.left_out()), "{}", counts.left_out());
    assert_eq!(lines_with(&settings, &vec![record(true, "/"); 200])[0]["sampled"], 0.1);
}

/// A mask may cost a hash of the user's name.
#[test]
fn what_is_not_logged_is_not_masked() {
    let masked = |settings: &DecisionLogSettings, offered: usize| {
        let (release, stuck): (Sender<()>, _) = channel();
        let counts = Arc::new(Counts::default());
        let (decisions, writer) = started(settings, Stuck(stuck), counts.clone());
        let long = "a".repeat(1000);
        for _ in 0..offered {
            let (host, client) = (long.as_str().into(), long.as_str().into());
            offer(&decisions, &DecisionRecord { host, client, ..record(true, &long) });
        }
        let used = decisions.masks.used.load(std::sync::atomic::Ordering::Relaxed);
        let not_logged = counts.dropped() + counts.left_out();
        drop((release, decisions));
        writer.finish(Duration::from_secs(60));
        (used, usize::try_from(not_logged).unwrap())
    };
    let all = DecisionLogSettings {
        mask_users: MaskUsers::Hash,
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    let (used, not_logged) = masked(&all, 5_000);
    assert!(
        not_logged > 1_000 && used + not_logged == 5_000,
        "{used} masked, {not_logged} not logged"
    );
    let sampled = DecisionLogSettings { sample: vec!["allowed=0".parse().unwrap()], ..all.clone() };
    assert_eq!(masked(&sampled, 100), (0, 100));
    let denied = DecisionLogSettings { which: DecisionLog::Denied, ..all };
    assert_eq!(masked(&denied, 100), (0, 0));
}
