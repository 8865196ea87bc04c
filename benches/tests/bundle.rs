//! `measure bundle`, short.

use std::path::Path;
use std::process::Command;

#[test]
fn all_rolegates_follow_a_new_bundle_within_one_interval() {
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    let mut command = Command::new(program);
    command.args(["bundle", "--rolegates", "10", "--interval", "5", "--watched", "1"]);
    let output = command.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("10 answers 200"), "{said}");
}
