//! Warnings that the policy accepts, each by a comment with a reason: `# accept: NAME because REASON`.
//!
//! The comment stands on the line of the warning, or on the lines directly above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::files::PolicyFile;
use crate::problem::{Place, Problem};
use crate::similar::closest;
use crate::warning::Warning;

const MARK: &str = "# accept:";

/// A comment that accepts a warning.
struct Acceptance {
    at: Place,
    kind: Warning,
    /// The line whose warnings it accepts.
    line: u32,
}

/// The warnings that no comment accepts, and warnings about comments that accept nothing. `files` are the files of the
/// policy.
///
/// A comment accepts one warning. If a line has more warnings of a kind than comments that accept them, none is accepted:
/// a name that is added to a list must not be accepted by the comment about another one.
#[must_use]
pub fn unaccepted(files: &[PolicyFile], warnings: Vec<Problem>) -> Vec<Problem> {
    let mut left = Vec::new();
    let mut acceptances: Vec<Acceptance> = Vec::new();
    for file in files {
        if let Ok(text) = std::str::from_utf8(&file.bytes)
            && text.contains(MARK)
        {
            read(&file.path, text, &mut acceptances, &mut left);
        }
    }
    // Per line and kind, the comments and the places of the warnings.
    let mut lines: BTreeMap<Key, (Vec<Place>, BTreeSet<u32>)> = BTreeMap::new();
    for Acceptance { at, kind, line } in acceptances {
        lines.entry((at.file.clone(), line, kind)).or_default().0.push(at);
    }
    for warning in &warnings {
        if let Some((_, columns)) = key(warning).and_then(|key| lines.get_mut(&key)) {
            columns.insert(warning.at.column);
        }
    }
    left.extend(warnings.into_iter().filter(|warning| {
        let line = key(warning).and_then(|key| lines.get(&key));
        line.is_none_or(|(comments, columns)| comments.len() < columns.len())
    }));
    for ((.., kind), (comments, columns)) in lines {
        let all = columns.len();
        let (about, message, help) = if comments.len() < all {
            (
                comments.get(..1),
                format!(
                    "there are {all} warnings `{kind}` here, and each comment accepts one: none is accepted"
                ),
                "write a comment for each of them, or put each on a line of its own",
            )
        } else {
            (
                comments.get(all..),
                format!("there is no warning `{kind}` here to accept"),
                "leave the comment out, or put it on the line above the one of the warning",
            )
        };
        for at in about.unwrap_or_default() {
            left.push(Problem::warning(at.clone(), Warning::Acceptance, message.as_str()).help(help));
        }
    }
    left
}

/// A line of a file, and a kind of warnings.
type Key = (Arc<Path>, u32, Warning);

fn key(warning: &Problem) -> Option<Key> {
    Some((warning.at.file.clone(), warning.at.line, warning.kind()?))
}

/// Reads the comments of one file.
fn read(file: &Path, text: &str, acceptances: &mut Vec<Acceptance>, problems: &mut Vec<Problem>) {
    let mut above: Vec<Acceptance> = Vec::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        let is_comment = line.trim_start().starts_with('#');
        let found = line.find(MARK).filter(|start| {
            let before = line.get(..*start).unwrap_or_default();
            before.is_empty() || before.ends_with([' ', '\t'])
        });
        if let Some(start) = found {
            let column = line.get(..start).unwrap_or_default().chars().count() + 1;
            let column = u32::try_from(column).unwrap_or(u32::MAX);
            let at = Place { file: file.into(), line: number, column };
            match acceptance(line.get(start + MARK.len()..).unwrap_or_default()) {
                Ok(kind) => above.push(Acceptance { at, kind, line: number }),
                Err((message, help)) => {
                    problems.push(Problem::warning(at, Warning::Acceptance, message).help(help));
                }
            }
        }
        if !is_comment {
            above.iter_mut().for_each(|acceptance| acceptance.line = number);
            acceptances.append(&mut above);
        }
    }
    acceptances.append(&mut above);
}

/// The warning that a comment accepts, or what is wrong with the comment.
fn acceptance(text: &str) -> Result<Warning, (String, String)> {
    let text = text.trim();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let Some(kind) = Warning::ALL.iter().find(|kind| kind.name() == name) else {
        let help = match closest(name, Warning::ALL.iter().map(|kind| kind.name())) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "write the name that `rolegate check` prints in brackets after `warning`".to_owned(),
        };
        return Err((format!("no warning is called `{name}`"), help));
    };
    let reason = rest.trim().strip_prefix("because").map(str::trim).unwrap_or_default();
    if reason.is_empty() {
        let help = format!("write `# accept: {name} because …`");
        return Err(("a warning is accepted without a reason".to_owned(), help));
    }
    Ok(*kind)
}
