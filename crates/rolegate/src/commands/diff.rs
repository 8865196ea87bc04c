//! `rolegate diff`: says what a change of a policy grants and revokes.

use super::policy_files::PolicyFiles;
use crate::cli::{DiffArgs, DiffFormat, Format};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints what the new policy allows and the old policy does not, and vice versa.
pub(crate) fn run(args: &DiffArgs, output: &mut Output) -> Result<Exit, CommandError> {
    if args.output == DiffFormat::Json {
        output.format = Format::Json;
    }
    if args.new.given().is_none() && !args.new.get().exists() {
        return Err(CommandError::policy(
            "NEW is not given, and `./policy.yaml`, its default, does not exist: give both, as in \
             `rolegate diff OLD NEW`",
        ));
    }
    let old = PolicyFiles::open(&args.old, &args.public_keys, output)?.load()?;
    let new = PolicyFiles::open(args.new.get(), &args.public_keys, output)?.load()?;
    let diff =
        review::diff(&old.loaded.policy, &new.loaded.policy).map_err(CommandError::failed)?;
    match args.output {
        DiffFormat::Text | DiffFormat::Json => output.answer(&diff),
        DiffFormat::Markdown => output.text(&diff.markdown()),
    }
    Ok(if diff.is_empty() { Exit::Success } else { Exit::No })
}
