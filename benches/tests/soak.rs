//! `make soak`, short: rolegate beside Envoy, and inside it. Memory is not judged: that takes
//! longer.

use std::path::Path;
use std::process::Command;

#[test]
fn beside_envoy_no_request_fails_while_both_policies_are_replaced_and_all_is_logged() {
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    assert!(
        program.with_file_name("rolegate").is_file(),
        "run `cargo build --package rolegate --bin rolegate`"
    );
    let mut command = Command::new(program);
    command.args(["soak", "--requests", "6000", "--reloads", "3", "--updates", "10"]);
    let output = command.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    for line in
        ["requests with an answer", "wrong answers", "decisions, in the log", "resident memory"]
    {
        assert!(
            said.lines().any(|said| said.contains(line) && said.trim_end().ends_with("yes")),
            "{line}: {said}"
        );
    }
}

#[test]
fn inside_envoy_no_request_fails_while_policy_and_listener_are_replaced() {
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    let library = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(library.join("librolegate.so").is_file(), "run `cargo build --package module`");
    let mut command = Command::new(program);
    command.args(["soak", "--requests", "6000", "--reloads", "3", "--updates", "10", "--module"]);
    let output = command.arg(library).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("10 updates and 3 reloads"), "{said}");
}
