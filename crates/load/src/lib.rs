//! The parts of the process `rolegate-load`: a load generator for HTTP and for Check calls, and its reports.
//!
//! A [`Plan`] says what to do, [`run()`] does it, [`Measured`] is what it found out, and reports are made of that alone.
//! The crate is blind to our engine: it can fire at any server.

use std::ffi::OsString;

mod address;
mod exit;
mod measured;
mod plan;
mod run;
mod workload;

pub use address::{Address, Target};
pub use exit::Exit;
pub use measured::{Answers, LONGEST, Measured, Own, Protocol, Rate, histogram};
pub use plan::{Failed, Plan, Progress, Stop, Watch};
pub use run::run;
pub use workload::{Request, Workload};

/// Does what the command line says.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let _ = arguments;
    Exit::Failed
}
