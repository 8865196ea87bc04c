//! `rolegate lint-envoy`: finds causes why rolegate would be unsafe, broken or slow in a
//! configuration of Envoy.

use super::findings;
use super::import::read;
use crate::cli::LintEnvoyArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints every finding, then a summary.
pub(crate) fn run(args: &LintEnvoyArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let found = envoy_lint::lint(&args.file, &read(&args.file)?, &args.accept)?;
    Ok(findings::print(&args.file, &found, args.strict, output))
}
