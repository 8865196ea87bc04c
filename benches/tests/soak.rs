//! `make soak`, short.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::process::Command;

/// Memory is not judged: that takes longer.
#[test]
fn no_request_fails_while_policy_and_listener_are_replaced() {
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    let library = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(library.join("librolegate.so").is_file(), "run `cargo build --package module`");
    let mut command = Command::new(program);
    command.args(["soak", "--requests", "6000", "--reloads", "3", "--updates", "10", "--module"]);
    let output = command.arg(library).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("10 updates and 3 reloads"), "{said}");
}
