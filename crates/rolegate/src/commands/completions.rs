//! `rolegate completions`: prints a completion script for a shell.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rolegate", &mut script);
    output.text(&String::from_utf8_lossy(&script));
    Ok(Exit::Success)
}
