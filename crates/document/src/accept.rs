//! Findings that a file accepts, each by a comment with a reason: `# accept: NAME because REASON`.
//!
//! The comment stands on the line of the finding, or on the lines directly above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::files::PolicyFile;
use crate::problem::{Place, Problem};
use crate::similar::closest;
use crate::tree::Mark;
use crate::warning::Warning;

const PREFIX: &str = "# accept:";

/// The kinds of findings that comments can accept.
#[derive(Clone, Copy, Debug)]
pub struct FindingKinds<'a> {
    /// The noun for a finding, such as `warning`.
    pub noun: &'a str,
    /// The command that reports findings.
    pub command: &'a str,
    /// The names of all kinds of findings.
    pub names: &'a [&'static str],
}

/// The findings that the comments of some files accept.
#[derive(Debug, Default)]
pub struct Accepted {
    /// For each finding, whether a comment accepts it.
    pub is_accepted: Vec<bool>,
    /// Comments that accept nothing: the place, the message and the help.
    pub wrong_comments: Vec<(Place, String, String)>,
}

/// The warnings that no comment accepts, and warnings about comments that accept nothing, by place.
/// `files` are the files of the policy.
#[must_use]
pub fn unaccepted(files: &[PolicyFile], warnings: Vec<Problem>) -> Vec<Problem> {
    let names: Vec<&'static str> = Warning::ALL.iter().map(|kind| kind.name()).collect();
    let kinds = FindingKinds { noun: "warning", command: "rolegate check", names: &names };
    let texts =
        files.iter().filter_map(|file| Some((&*file.path, std::str::from_utf8(&file.bytes).ok()?)));
    let findings: Vec<(&Place, &'static str, &str)> = warnings
        .iter()
        .map(|warning| (&warning.at, warning.kind().map_or("", Warning::name), &*warning.message))
        .collect();
    let Accepted { is_accepted, wrong_comments } = kinds.accepted(texts, &findings);
    let unaccepted = warnings.into_iter().zip(is_accepted).filter(|(_, accepted)| !accepted);
    let about_comments = wrong_comments
        .into_iter()
        .map(|(at, message, help)| Problem::warning(at, Warning::Acceptance, message).help(help));
    let mut problems: Vec<Problem> =
        unaccepted.map(|(warning, _)| warning).chain(about_comments).collect();
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    problems
}

/// The findings of one kind on one line, by column and message, and the comments that accept them.
#[derive(Default)]
struct KindOnLine<'f> {
    comments: Vec<Place>,
    findings: BTreeSet<(u32, &'f str)>,
}

impl FindingKinds<'_> {
    /// Which of these findings, each with its name and its message, are accepted by the comments in
    /// these texts.
    ///
    /// A comment accepts one finding. If a line has more findings of a kind than comments for this
    /// kind, none is accepted: if a second entry is added to a list on one line, the comment about
    /// the first must not accept it.
    pub fn accepted<'t>(
        &self,
        files: impl Iterator<Item = (&'t Path, &'t str)>,
        findings: &[(&Place, &'static str, &str)],
    ) -> Accepted {
        let mut wrong_comments = Vec::new();
        let mut lines: BTreeMap<(Arc<Path>, u32, &str), KindOnLine<'_>> = BTreeMap::new();
        for (file, text) in files.filter(|(_, text)| text.contains(PREFIX)) {
            for (at, comment, line) in comments(file, text) {
                match self.accepted_name(comment) {
                    Ok(name) => {
                        let key = (at.file.clone(), line, name);
                        lines.entry(key).or_default().comments.push(at);
                    }
                    Err((message, help)) => wrong_comments.push((at, message, help)),
                }
            }
        }
        for (at, name, message) in findings {
            if let Some(line) = lines.get_mut(&(at.file.clone(), at.line, *name)) {
                line.findings.insert((at.column, *message));
            }
        }
        let is_accepted = findings.iter().map(|(at, name, _)| {
            lines
                .get(&(at.file.clone(), at.line, *name))
                .is_some_and(|line| line.comments.len() >= line.findings.len())
        });
        let is_accepted = is_accepted.collect();
        let noun = self.noun;
        for ((_, _, name), KindOnLine { comments, findings }) in lines {
            let count = findings.len();
            if comments.len() < count {
                let message = format!(
                    "there are {count} {noun}s `{name}` here, and each comment accepts one: none \
                     is accepted"
                );
                let help = "write a comment for each of them, or put each on a line of its own";
                wrong_comments
                    .extend(comments.into_iter().next().map(|at| (at, message, help.to_owned())));
                continue;
            }
            for at in comments.into_iter().skip(count) {
                let message = format!("there is no {noun} `{name}` here to accept");
                let help = "leave the comment out, or write it on the line of the finding or \
                            directly above it";
                wrong_comments.push((at, message, help.to_owned()));
            }
        }
        Accepted { is_accepted, wrong_comments }
    }

    /// The name of the kind that a comment accepts; the message and the help if it accepts none.
    fn accepted_name(&self, comment: &str) -> Result<&'static str, (String, String)> {
        let comment = comment.trim();
        let (name, reason) = comment.split_once(char::is_whitespace).unwrap_or((comment, ""));
        let Some(name) = self.names.iter().find(|kind| **kind == name) else {
            let help = match closest(name, self.names.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("write the name that `{}` prints in brackets", self.command),
            };
            return Err((format!("no {} is called `{name}`", self.noun), help));
        };
        match reason.trim().strip_prefix("because").map(str::trim) {
            Some(reason) if !reason.is_empty() => Ok(name),
            _ => {
                let help = format!("write `# accept: {name} because …`");
                Err((format!("this comment gives no reason to accept the {}", self.noun), help))
            }
        }
    }
}

/// The comments of a file that accept findings. Each is its place, the text after [`PREFIX`], and
/// the number of the line whose findings it accepts. That is the line of the comment. If the line
/// has nothing but the comment, it is the next line that is not a comment. A blank line is no
/// comment, and has no findings.
fn comments<'t>(file: &Path, text: &'t str) -> Vec<(Place, &'t str, u32)> {
    let mut comments: Vec<(Place, &str, u32)> = Vec::new();
    // The comments from this index on are directly above the current line.
    let mut above = 0;
    for (number, line) in (1_u32..).zip(text.lines()) {
        if let Some((before, comment)) = line.split_once(PREFIX)
            && (before.is_empty() || before.ends_with([' ', '\t']))
        {
            let at = Mark { line: number, column: 1 }.right(before.chars().count());
            comments.push((Place::start_of(file).in_same_file(at), comment, number));
        }
        if !line.trim_start().starts_with('#') {
            comments.iter_mut().skip(above).for_each(|(.., target_line)| *target_line = number);
            above = comments.len();
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two weaknesses of passwords are both reported at `basic`.
    #[test]
    fn a_comment_about_one_message_accepts_no_second_one_at_the_same_place() {
        let path: Arc<Path> = Path::new("policy.yaml").into();
        let at = Place { file: path.clone(), line: 2, column: 1 };
        let kinds =
            FindingKinds { noun: "warning", command: "rolegate check", names: &["weak-hash"] };
        let text = "# accept: weak-hash because it is a test\nbasic: {}\n";
        let accepted = |messages: &[&str]| {
            let findings: Vec<_> =
                messages.iter().map(|message| (&at, "weak-hash", *message)).collect();
            kinds.accepted([(&*path, text)].into_iter(), &findings).is_accepted
        };
        assert_eq!(accepted(&["bcrypt"]), [true]);
        assert_eq!(accepted(&["bcrypt", "{SHA}"]), [false, false]);
    }
}
