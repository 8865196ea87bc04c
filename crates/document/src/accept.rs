//! Findings that a file accepts, each by a comment with a reason: `# accept: NAME because REASON`.
//!
//! The comment stands on the line of the finding, or on the lines directly above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::files::PolicyFile;
use crate::problem::{Place, Problem};
use crate::similar::closest;
use crate::warning::Warning;

const MARK: &str = "# accept:";

/// The findings that comments can accept.
#[derive(Clone, Copy, Debug)]
pub struct Acceptable<'a> {
    /// What a finding is called, such as `warning`.
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
    pub findings: Vec<bool>,
    /// Comments that accept nothing: the place, what is wrong, and how to fix it.
    pub wrong: Vec<(Place, String, String)>,
}

/// A line of a file, and a kind of findings.
type Key = (Arc<Path>, u32, &'static str);

/// The warnings that no comment accepts, and warnings about comments that accept nothing, by place.
/// `files` are the files of the policy.
#[must_use]
pub fn unaccepted(files: &[PolicyFile], warnings: Vec<Problem>) -> Vec<Problem> {
    let names: Vec<&'static str> = Warning::ALL.iter().map(|kind| kind.name()).collect();
    let acceptable = Acceptable { noun: "warning", command: "rolegate check", names: &names };
    let texts =
        files.iter().filter_map(|file| Some((&*file.path, std::str::from_utf8(&file.bytes).ok()?)));
    let found: Vec<(&Place, &'static str)> = warnings
        .iter()
        .map(|warning| (&warning.at, warning.kind().map_or("", Warning::name)))
        .collect();
    let Accepted { findings, wrong } = acceptable.accepted(texts, &found);
    let unaccepted = warnings.into_iter().zip(findings).filter(|(_, accepted)| !accepted);
    let mut problems: Vec<Problem> = unaccepted.map(|(warning, _)| warning).collect();
    problems.extend(
        wrong.into_iter().map(|(at, message, help)| {
            Problem::warning(at, Warning::Acceptance, message).help(help)
        }),
    );
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    problems
}

impl Acceptable<'_> {
    /// Which of these findings, each with its name, the comments in these texts accept.
    ///
    /// A comment accepts one finding. If a line has more findings of a kind than comments that
    /// accept them, none is accepted: a name that is added to a list must not be accepted by the
    /// comment about another.
    pub fn accepted<'t>(
        &self,
        files: impl Iterator<Item = (&'t Path, &'t str)>,
        found: &[(&Place, &'static str)],
    ) -> Accepted {
        let mut wrong = Vec::new();
        // For each line and kind, the places of the comments and the columns of the findings.
        let mut lines: BTreeMap<Key, (Vec<Place>, BTreeSet<u32>)> = BTreeMap::new();
        for (file, text) in files.filter(|(_, text)| text.contains(MARK)) {
            for (at, comment, line) in comments(file, text) {
                match self.accepted_name(comment) {
                    Ok(name) => lines.entry((at.file.clone(), line, name)).or_default().0.push(at),
                    Err((message, help)) => wrong.push((at, message, help)),
                }
            }
        }
        let key = |(at, name): &(&Place, &'static str)| (at.file.clone(), at.line, *name);
        for finding in found {
            if let Some((_, columns)) = lines.get_mut(&key(finding)) {
                columns.insert(finding.0.column);
            }
        }
        let is_accepted = |finding| {
            lines
                .get(&key(finding))
                .is_some_and(|(comments, columns)| comments.len() >= columns.len())
        };
        let findings = found.iter().map(is_accepted).collect();
        let noun = self.noun;
        for ((_, _, name), (comments, columns)) in lines {
            let count = columns.len();
            if comments.len() < count {
                let message = format!(
                    "there are {count} {noun}s `{name}` here, and each comment accepts one: none is accepted"
                );
                let help = "write a comment for each of them, or put each on a line of its own";
                wrong.extend(comments.into_iter().next().map(|at| (at, message, help.to_owned())));
                continue;
            }
            for at in comments.into_iter().skip(count) {
                let message = format!("there is no {noun} `{name}` here to accept");
                let help = "leave the comment out, or write it on the line of the finding or directly above it";
                wrong.push((at, message, help.to_owned()));
            }
        }
        Accepted { findings, wrong }
    }

    /// The name of the kind that a comment accepts, or what is wrong with the comment, and how to
    /// fix it.
    fn accepted_name(&self, comment: &str) -> Result<&'static str, (String, String)> {
        let comment = comment.trim();
        let (name, rest) = comment.split_once(char::is_whitespace).unwrap_or((comment, ""));
        let Some(name) = self.names.iter().find(|known| **known == name) else {
            let help = match closest(name, self.names.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("write the name that `{}` prints in brackets", self.command),
            };
            return Err((format!("no {} is called `{name}`", self.noun), help));
        };
        match rest.trim().strip_prefix("because").map(str::trim) {
            Some(reason) if !reason.is_empty() => Ok(name),
            _ => {
                let help = format!("write `# accept: {name} because …`");
                Err((format!("a {} is accepted without a reason", self.noun), help))
            }
        }
    }
}

/// The comments of a file that accept findings: the place, the text after the mark, and the line
/// whose findings are accepted. That is its own line or, of a line with nothing but a comment, the
/// next that has more.
fn comments<'t>(file: &Path, text: &'t str) -> Vec<(Place, &'t str, u32)> {
    let mut comments: Vec<(Place, &str, u32)> = Vec::new();
    // The comments from this index on are directly above the current line.
    let mut above = 0;
    for (number, line) in (1_u32..).zip(text.lines()) {
        if let Some((before, comment)) = line.split_once(MARK)
            && (before.is_empty() || before.ends_with([' ', '\t']))
        {
            let column =
                u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
            comments.push((Place { file: file.into(), line: number, column }, comment, number));
        }
        if !line.trim_start().starts_with('#') {
            comments.iter_mut().skip(above).for_each(|(.., accepted)| *accepted = number);
            above = comments.len();
        }
    }
    comments
}
