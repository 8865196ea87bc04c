//! The library of `rolegate-load`: a load generator for HTTP and for Check calls, and its reports.
//!
//! A [`Plan`] says what to do, [`run()`] does it, [`Measured`] has the results, and reports are made only from these.
//! The crate does not depend on our engine and can test any server.

use std::ffi::OsString;

use clap::Parser;

mod address;
pub mod app;
pub mod baseline;
mod check_message;
pub mod cli;
pub mod compare;
mod exit;
mod find;
mod firing;
mod measured;
mod plan;
mod render;
pub mod report;
mod run;
pub mod scale;
mod screen;
mod secrets;
mod servers;
mod thresholds;
mod units;
mod workload;

pub use address::{Address, Target};
pub use exit::Exit;
pub use find::{Found, Step, find_max};
pub use measured::{Answers, LONGEST, Measured, Own, Protocol, Rate, histogram};
pub use plan::{Failed, Plan, Progress, Stop, Watch};
pub use run::run;
pub use secrets::shown;
pub use thresholds::Threshold;
pub use workload::{Format, Request, Values, Variable, Workload};

use cli::{Cli, Command};

/// Runs the command line.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => command(cli.command),
        Err(error) => {
            // `--help` and `--version` also come here, with code 0.
            let _ = error.print();
            if error.exit_code() == 0 { Exit::Fine } else { Exit::Arguments }
        }
    }
}

fn command(command: Command) -> Exit {
    match command {
        Command::Http(args) => firing::http(&args),
        Command::Check(args) => firing::check(&args),
        Command::Compare(args) => compare::command(&args),
        Command::Scale(args) => scale::command(&args),
        Command::App(args) => served(servers::app(&args.address, args.threads)),
        Command::Baseline(args) => served(servers::baseline(&args.address, args.threads)),
    }
}

fn served(ended: Result<(), String>) -> Exit {
    match ended {
        Ok(()) => Exit::Fine,
        Err(error) => {
            screen::error(&error);
            Exit::Failed
        }
    }
}
