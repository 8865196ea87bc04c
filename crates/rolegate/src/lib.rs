//! The program `rolegate`: its command line, its settings, its log, and how it starts and stops.
//!
//! Where to start: [`cli`] lists the commands, `settings` has the settings, and `serve` starts and
//! stops the [`server`]. The crate [`runtime`] keeps the policy active and current.

#![deny(clippy::wildcard_enum_match_arm)]

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

pub mod cli;
mod commands;
mod error;
mod logs;
mod output;
mod serve;
mod settings;

pub use error::Exit;
pub use settings::{Settings, SettingsError};

use cli::{Cli, Command};
use error::CommandError;
use output::Output;

/// Makes this process use only pages of the usual size.
///
/// mimalloc asks for transparent huge pages, of 2 MiB each. A server with a small policy touches
/// only a few KiB in each of many pages. With huge pages 17 MiB were resident, and without them
/// 2.6 MiB. Requests took as long as before (November 2026, x86-64, `policies/people`). This is
/// called first, because pages that were touched before stay huge. If the system refuses, the
/// program only uses more memory.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Runs the command that `arguments` name, and returns the exit code.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    use_small_pages();
    // The message of a panic may have a secret in it, so only its place is shown.
    runtime::threads::show_only_the_place();
    let mut output = Output::default();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match parse(&arguments) {
        Ok(cli) => run(cli, &mut output).unwrap_or_else(|error| output.failure(&error)),
        Err(Unparsed::Arguments(error)) => {
            // clap returns `--help` and `--version` as errors too, with exit code 0.
            let _ = error.print();
            if error.exit_code() == 0 { Exit::Success } else { Exit::Arguments }
        }
        Err(Unparsed::Settings(error)) => {
            output.error(error);
            Exit::Arguments
        }
    }
}

/// Why the command line, the environment or the settings file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Unparsed {
    /// An argument or the value of an environment variable is not valid, or the arguments ask for
    /// help or the version.
    Arguments(#[from] clap::Error),
    /// The settings file cannot be read or is not valid, or the environment has a variable that
    /// looks like a setting and is none.
    Settings(#[from] SettingsError),
}

/// The definition of the command line, with the environment variables of the settings.
#[must_use]
pub fn command() -> clap::Command {
    settings::with_environment(Cli::command())
}

/// Parses the command line. A setting that it does not have comes from the environment, then from
/// the settings file, then from the defaults.
///
/// # Errors
/// When an argument, an environment variable or an entry of the settings file is not valid.
pub fn parse(arguments: &[OsString]) -> Result<Cli, Unparsed> {
    let command = settings::with_file(command(), arguments)?;
    let matches = command.clone().try_get_matches_from(arguments);
    let matches = matches.map_err(|error| settings::with_variable(error, command, arguments))?;
    cli::check_given_once(&matches)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let Command::Serve(args) = &mut cli.command {
        args.use_argument();
    }
    Ok(cli)
}

fn run(cli: Cli, output: &mut Output) -> Result<Exit, CommandError> {
    match cli.command {
        Command::Serve(args) => serve::run(args.settings),
        Command::Health(args) => commands::health::run(&args, output),
        Command::Check(args) => commands::check::run(&args, output),
        Command::Test(args) => commands::test::run(&args, output),
        Command::Explain(args) => commands::explain::run(&args, output),
        Command::Decide(args) => commands::decide::run(&args, output),
        Command::WhatCan(args) => commands::what_can::run(&args, output),
        Command::WhoCan(args) => commands::who_can::run(&args, output),
        Command::Diff(args) => commands::diff::run(&args, output),
        Command::Replay(args) => commands::replay::run(&args, output),
        Command::AccessReview(args) => commands::access_review::run(&args, output),
        Command::Suggest(args) => commands::suggest::run(&args, output),
        Command::Import(args) => commands::import::run(&args, output),
        Command::LintEnvoy(args) => commands::lint_envoy::run(&args, output),
        Command::LintProxy(args) => commands::lint_proxy::run(&args, output),
        Command::Bundle(args) => commands::bundle::run(&args, output),
        Command::Schema(args) => commands::schema::run(&args, output),
        Command::HashPassword(args) => commands::hash_password::run(&args, output),
        Command::Passwd(args) => commands::passwd::run(&args, output),
        Command::NewApiKey(args) => commands::new_api_key::run(&args, output),
        Command::Completions(args) => commands::completions::run(&args, output),
    }
}
