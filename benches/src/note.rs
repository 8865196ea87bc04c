//! Measurements that criterion does not make: memory, and checks per second over a socket. One line
//! each, in a file that `benches/run` names; without it (in tests, for example) they are discarded.

use std::io::Write as _;

/// The environment variable with the file's name.
pub const FILE: &str = "BENCH_NOTES";

/// Adds a measurement. Several with one name are rounds of the same measurement.
///
/// # Errors
/// If the name has a comma, or the file cannot be written.
pub fn note(name: &str, unit: &str, value: f64) -> std::io::Result<()> {
    if name.contains(',') {
        return Err(std::io::Error::other(format!(
            "the name of a measurement has a comma: `{name}`"
        )));
    }
    let Some(file) = std::env::var_os(FILE) else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{name},{unit},{value}")
}
