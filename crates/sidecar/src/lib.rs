//! The parts of the process `rolegate`: listeners, reload, key fetching, admin, metrics, logs, command line.
//!
//! Read [`cli`] for what the process can be asked to do, `settings` for how it is set up, `serve` for how a server is
//! put together and taken down, `reload` for how a policy becomes active, and [`grpc`] for the life of a request.
//! This is the one crate that does I/O and reads the clock and the environment.

use std::ffi::OsString;
use std::io;

use clap::{CommandFactory, FromArgMatches};

mod address;
mod admin;
pub mod cli;
mod clock;
mod commands;
mod decisions;
mod exit;
mod files;
pub mod grpc;
mod keys;
mod lines;
mod logs;
mod memory;
mod metrics;
mod output;
pub mod panics;
mod priority;
mod reload;
pub mod serve;
mod settings;
mod snapshot;
mod socket;
mod status;
mod units;

pub use address::{Address, AdminAddress};
pub use exit::Exit;
pub use settings::{DecisionLog, LogFormat, LogLevel, OnStale, ServeArgs, Settings, SettingsError};

use cli::{Cli, Command};
use output::Output;

/// Does what the command line says.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    panics::show_only_the_place();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut output = Output::new(&mut out, &mut err);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match parse(&arguments) {
        Ok(cli) => run(cli, &mut output),
        Err(Unparsed::Arguments(error)) => {
            // Also `--help` and `--version` come this way, with the code 0.
            let _ = error.print();
            if error.exit_code() == 0 { Exit::Fine } else { Exit::Arguments }
        }
        Err(Unparsed::Settings(error)) => {
            output.error(&error.to_string());
            Exit::Arguments
        }
    }
}

/// Why a command line, with the environment and the settings file behind it, cannot be followed.
#[derive(Debug)]
pub enum Unparsed {
    /// The arguments or the environment are wrong, or help was asked for.
    Arguments(clap::Error),
    /// The settings file is wrong.
    Settings(SettingsError),
}

/// Reads the command line, with the environment and the settings file behind it.
///
/// # Errors
/// When an argument, a variable or an entry of the settings file is wrong.
pub fn parse(arguments: &[OsString]) -> Result<Cli, Unparsed> {
    let command = settings::with_file(Cli::command(), arguments).map_err(Unparsed::Settings)?;
    let matches = command.try_get_matches_from(arguments).map_err(Unparsed::Arguments)?;
    Cli::from_arg_matches(&matches).map_err(Unparsed::Arguments)
}

fn run(cli: Cli, output: &mut Output<'_>) -> Exit {
    match cli.command {
        Command::Serve(args) => commands::serve(args.settings, output),
        Command::Health(args) => commands::health(&args, output),
        Command::Check(args) => commands::check(&args, output),
        Command::Test(args) => commands::test(&args, output),
        Command::Explain(args) => commands::explain(&args, output),
        Command::WhoCan(args) => commands::who_can(&args, output),
        Command::HashPassword(args) => commands::hash_password(&args, output),
        Command::Completions(args) => commands::completions(&args, output),
    }
}
