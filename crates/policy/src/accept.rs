//! Warnings that the policy accepts, each by a comment with a reason: `# accept: NAME because REASON`.
//!
//! The comment stands on the line of the warning, or on the lines directly above it.

use std::path::Path;

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
    used: bool,
}

/// The warnings that no comment accepts, and warnings about comments that accept nothing. `files` are the files of the
/// policy.
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
    if acceptances.is_empty() {
        left.splice(0..0, warnings);
        return left;
    }
    for warning in warnings {
        let mut accepted = false;
        for acceptance in &mut acceptances {
            if acceptance.accepts(&warning) {
                (acceptance.used, accepted) = (true, true);
            }
        }
        if !accepted {
            left.push(warning);
        }
    }
    for acceptance in acceptances.into_iter().filter(|acceptance| !acceptance.used) {
        let message = format!("there is no warning `{}` here to accept", acceptance.kind);
        let help = "leave the comment out, or put it on the line above the one of the warning";
        left.push(Problem::warning(acceptance.at, Warning::Acceptance, message).help(help));
    }
    left
}

impl Acceptance {
    fn accepts(&self, problem: &Problem) -> bool {
        problem.kind() == Some(self.kind) && problem.at.line == self.line && problem.at.file == self.at.file
    }
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
                Ok(kind) => above.push(Acceptance { at, kind, line: number, used: false }),
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
