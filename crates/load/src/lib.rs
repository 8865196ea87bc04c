//! The library of `rolegate-load`: a load generator for HTTP and for Check calls, and its reports.
//!
//! A [`Plan`] has the requests, their target and their rate; [`run()`] sends them and returns
//! [`RunResults`], from which all reports are made. This crate depends on no other crate of this
//! workspace and can test any HTTP or ext_authz server.

use std::ffi::OsString;

use clap::Parser;

mod address;
mod answer;
pub mod app;
pub mod check_message;
mod cli;
mod commands;
mod failed;
mod find;
mod plan;
mod render;
pub mod report;
mod results;
mod run;
mod screen;
mod thresholds;
pub mod units;
mod workload;

pub use address::{Address, Target};
pub use answer::{Answer, Fault};
pub use failed::{Exit, Failed};
pub use plan::{Plan, Progress, Protocol, Rate, Stop, Watch, signalled};
pub use results::{GeneratorStats, MAX_LATENCY, RunResults, histogram};
pub use run::run;
pub use thresholds::Threshold;
pub use workload::{Format, Request, Values, Variable, Workload};

use cli::{Cli, Command};

/// Runs the command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command {
            Command::Http(args) => commands::http(&args),
            Command::Check(args) => commands::check(&args),
            Command::App(args) => match app::run(&args.address, args.threads) {
                Ok(()) => Exit::Success,
                Err(error) => {
                    screen::error(&error.to_string());
                    Exit::Failed
                }
            },
        },
        Err(error) => {
            // `--help` and `--version` also come here, with code 0.
            let _ = error.print();
            if error.exit_code() == 0 { Exit::Success } else { Exit::Arguments }
        }
    }
}
