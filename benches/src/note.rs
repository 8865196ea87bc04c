//! Figures that are not times of criterion's: memory, and checks a second over a socket. One line each, in a file that
//! `benches/run` names; without it (in tests, say) they are not kept.

use std::ffi::OsStr;
use std::io::Write as _;

/// The variable of the environment that names the file.
pub const FILE: &str = "BENCH_NOTES";

/// Adds a figure. Several of one name are several rounds of the same measurement.
///
/// # Errors
/// When the file cannot be written.
pub fn note(name: &str, unit: &str, value: f64) -> std::io::Result<()> {
    std::env::var_os(FILE).map_or(Ok(()), |file| note_in(&file, name, unit, value))
}

fn note_in(file: &OsStr, name: &str, unit: &str, value: f64) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{name},{unit},{value}")
}
