//! `rolegate diff`: says what a change of a policy grants and revokes.

use super::loaded;
use crate::cli::{DiffArgs, DiffFormat, Format};
use crate::exit::Exit;
use crate::output::Output;

/// Prints what the new policy allows and the old one does not, and vice versa.
pub(crate) fn diff(args: &DiffArgs, output: &mut Output<'_>) -> Exit {
    let of_problems = match args.output {
        DiffFormat::Text | DiffFormat::Markdown => Format::Text,
        DiffFormat::Json => Format::Json,
    };
    let keys = &args.public_keys;
    let loaded = loaded::load(&args.old, keys, of_problems, output)
        .and_then(|old| Ok((old, loaded::load(args.new.path(), keys, of_problems, output)?)));
    let (old, new) = match loaded {
        Ok(both) => both,
        Err(exit) => return exit,
    };
    let diff = match review::diff(&old.loaded.policy, &new.loaded.policy) {
        Ok(diff) => diff,
        Err(error) => {
            output.error(&error.to_string());
            return Exit::Failed;
        }
    };
    match args.output {
        DiffFormat::Text => output.line(&diff.to_string()),
        DiffFormat::Json => output.json(&diff),
        DiffFormat::Markdown => output.text(&diff.markdown()),
    }
    if diff.is_empty() { Exit::Success } else { Exit::Denied }
}
