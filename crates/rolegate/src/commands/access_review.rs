//! `rolegate access-review`: reads decision logs, and says which parts of a policy were used and
//! who could use them.

use std::path::Path;

use explain::AccessReview;

use super::decision_lines::DecisionLines;
use super::policy_files::PolicyFiles;
use crate::cli::{AccessFormat, AccessReviewArgs, Format};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Reads the logs one after the other, and prints the review.
pub(crate) fn run(args: &AccessReviewArgs, output: &mut Output) -> Result<Exit, CommandError> {
    if args.output == AccessFormat::Json {
        output.format = Format::Json;
    }
    if args.logs.iter().filter(|log| log.as_path() == Path::new("-")).count() > 1 {
        return Err(CommandError::arguments("`-` is given twice: standard input is read once"));
    }
    let compiled = PolicyFiles::open(args.policy(), &args.public_keys, output)?.load()?;
    let revision = &compiled.authorizer.revision().policy;
    let mut review = AccessReview::new(&compiled.loaded.policy, revision, args.since);
    let mut unreadable = 0;
    for log in &args.logs {
        let mut lines = DecisionLines::open(log)?;
        let mut is_empty = true;
        while let Some((_, decision)) = lines.next_decision()? {
            review.add(&decision.access());
            is_empty = false;
        }
        if is_empty {
            let log = log.display();
            return Err(CommandError::arguments(format_args!(
                "`{log}` has no line of a decision log: unpack a packed log first"
            )));
        }
        unreadable += lines.unreadable.count;
    }
    // Without allowed requests every grant would look unused, and somebody would take it away.
    if review.allowed() == 0 {
        return Err(CommandError::arguments(match review.lines() {
            0 => "no line is of the period: give an earlier `--since`",
            _ => "the logs have no allowed request: write them with `--decision-log all`",
        }));
    }
    let report = review.report(unreadable);
    match args.output {
        AccessFormat::Text | AccessFormat::Json => output.answer(&report),
        AccessFormat::Markdown => output.text(&report.markdown()),
        AccessFormat::Csv => {
            report.notes.iter().for_each(|note| output.warning(note));
            output.text(&report.csv());
        }
    }
    Ok(Exit::Success)
}
