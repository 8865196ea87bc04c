//! The tables of `docs/operations.md` against the program: settings, reasons and exit codes. The
//! tables of metrics, of the decision log and of gRPC errors are compared beside their code.

use std::collections::BTreeMap;

use authorizer::Reason;
use testbed::pages::{names, table};

use crate::process::run;

const PAGE: &str = include_str!("../../../../docs/operations.md");

#[test]
fn the_table_of_settings_is_what_serve_takes() {
    let command = program::command();
    let serve = command.find_subcommand("serve").unwrap();
    let default = |argument: &clap::Arg| match argument.is_required_set() {
        true => "required".to_owned(),
        false => {
            let values = argument.get_default_values().iter().map(|value| value.to_str().unwrap());
            values.collect::<Vec<_>>().join(",")
        }
    };
    let settings =
        serve.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument)));
    let settings = settings.filter(|(name, _)| !["config", "help"].contains(name));
    let taken: BTreeMap<String, String> =
        settings.map(|(name, argument)| (name.to_owned(), default(argument))).collect();
    let rows = table(PAGE, "| setting | default |");
    let documented =
        rows.iter().flat_map(|row| names(row[0]).map(|name| (name, row[1].trim_matches('`'))));
    let documented: BTreeMap<String, String> =
        documented.map(|(name, default)| (name.to_owned(), default.to_owned())).collect();
    assert_eq!(documented, taken);
}

#[test]
fn the_table_of_reasons_is_what_a_denial_can_have() {
    let reasons: BTreeMap<&str, String> =
        Reason::all().map(|reason| (reason.name(), reason.status().to_string())).collect();
    let rows = table(PAGE, "| reason | status |");
    let documented: BTreeMap<&str, String> =
        rows.iter().map(|row| (row[0].trim_matches('`'), row[1].to_owned())).collect();
    assert_eq!(documented, reasons);
    // And each status is in the table of responses.
    let rows = table(PAGE, "| status | when |");
    for (reason, status) in &reasons {
        assert!(rows.iter().any(|row| row[0] == status), "{status} of {reason}");
    }
}

#[test]
fn the_table_of_exit_codes_is_that_of_the_help() {
    let (_, help, _) = run(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    let codes: Vec<&str> = listed
        .filter_map(|line| line.strip_prefix("  ")?.split_once("  "))
        .map(|(code, _)| code)
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()) && !code.is_empty())
        .collect();
    let rows = table(PAGE, "| code | meaning |");
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), codes);
}
