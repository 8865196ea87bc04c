//! `make attack` as it is called, with an attack of each kind against a real rolegate: short, but
//! whole.
#![expect(clippy::disallowed_methods, reason = "the reports are files")]

use std::path::Path;
use std::process::Command;

/// No result is compared with a goal here: the machine of a test is busy, and may leave the
/// attacker, which has idle priority, next to no time.
#[test]
fn every_kind_of_attack_reports_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [
        "rapid reset",
        "admin",
        "one address",
        "broken CheckRequests",
        "may wait",
        "TLS handshakes",
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    let rolegate = program.with_file_name("rolegate");
    assert!(
        rolegate.is_file(),
        "no rolegate beside it: run `cargo build --package rolegate --bin rolegate`"
    );
    let mut command = Command::new(program);
    command.args(["attack", "--rounds", "1", "--seconds", "0.3", "--recovery", "0.5", "--out"]);
    command.arg(folder.path()).args(kinds.iter().flat_map(|kind| ["--only", kind]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (text, markdown, records) = (read("report.txt"), read("attack.md"), read("records.csv"));
    for kind in kinds {
        assert!(text.lines().any(|line| line.contains(kind)), "{kind}: {text}");
        let row =
            markdown.lines().find(|line| line.starts_with('|') && line.contains(kind)).unwrap();
        assert_eq!(row.matches('|').count(), 12, "{row}");
        assert!(row.contains("| met |") || row.contains("| MISSED: "), "{row}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" of 6 attacks met all."), "{text}");
    for kind in ["p99 ratio", "memory growth"] {
        assert_eq!(records.matches(kind).count(), 6, "{records}");
    }
    assert!(!text.contains("THE SERVER ENDED") && !text.contains("THE ATTACKER FAILED"), "{text}");
    assert!(!text.contains(" 0 handshakes"), "{text}");
}
