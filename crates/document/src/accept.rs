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

/// What comments can accept.
#[derive(Clone, Copy, Debug)]
pub struct Acceptable<'a> {
    /// What a finding is called, such as `warning`.
    pub noun: &'a str,
    /// The command that reports findings.
    pub command: &'a str,
    /// The names of all kinds of findings.
    pub names: &'a [&'static str],
}

/// What the comments of some files accept.
#[derive(Debug, Default)]
pub struct Accepted {
    /// For each finding, whether a comment accepts it.
    pub findings: Vec<bool>,
    /// Comments that accept nothing: the place, what is wrong, and how to fix it.
    pub wrong: Vec<(Place, String, String)>,
}

/// A comment that accepts a finding.
struct Acceptance {
    at: Place,
    name: &'static str,
    /// The line whose findings it accepts.
    line: u32,
}

/// The warnings that no comment accepts, and warnings about comments that accept nothing, by place. `files` are the
/// files of the policy.
#[must_use]
pub fn unaccepted(files: &[PolicyFile], warnings: Vec<Problem>) -> Vec<Problem> {
    let names: Vec<&'static str> = Warning::ALL.iter().map(|kind| kind.name()).collect();
    let acceptable = Acceptable { noun: "warning", command: "rolegate check", names: &names };
    let texts = files.iter().filter_map(|file| Some((&*file.path, std::str::from_utf8(&file.bytes).ok()?)));
    let found: Vec<(&Place, &'static str)> =
        warnings.iter().map(|warning| (&warning.at, warning.kind().map_or("", Warning::name))).collect();
    let Accepted { findings, wrong } = acceptable.accepted(texts, &found);
    let left = warnings.into_iter().zip(findings).filter(|(_, accepted)| !accepted);
    let wrong = wrong
        .into_iter()
        .map(|(at, message, help)| Problem::warning(at, Warning::Acceptance, message).help(help));
    let mut left: Vec<Problem> = left.map(|(warning, _)| warning).chain(wrong).collect();
    left.sort_by(|one, other| one.at.cmp(&other.at));
    left
}

impl Acceptable<'_> {
    /// Which of these findings, each with its name, the comments in these texts accept.
    ///
    /// A comment accepts one finding. If a line has more findings of a kind than comments that accept them, none is
    /// accepted: a name that is added to a list must not be accepted by the comment about another one.
    pub fn accepted<'t>(
        &self,
        files: impl Iterator<Item = (&'t Path, &'t str)>,
        found: &[(&Place, &'static str)],
    ) -> Accepted {
        let mut wrong = Vec::new();
        let mut acceptances: Vec<Acceptance> = Vec::new();
        for (file, text) in files.filter(|(_, text)| text.contains(MARK)) {
            self.read(file, text, &mut acceptances, &mut wrong);
        }
        // Per line and kind, the comments and the places of the findings.
        let mut lines: BTreeMap<Key, (Vec<Place>, BTreeSet<u32>)> = BTreeMap::new();
        for Acceptance { at, name, line } in acceptances {
            lines.entry((at.file.clone(), line, name)).or_default().0.push(at);
        }
        for finding in found {
            if let Some((_, columns)) = lines.get_mut(&key(finding)) {
                columns.insert(finding.0.column);
            }
        }
        let findings: Vec<bool> = found
            .iter()
            .map(|finding| {
                let line = lines.get(&key(finding));
                line.is_some_and(|(comments, columns)| comments.len() >= columns.len())
            })
            .collect();
        let noun = self.noun;
        for ((_, _, name), (comments, columns)) in lines {
            let all = columns.len();
            let (about, message, help) = if comments.len() < all {
                (
                    comments.get(..1),
                    format!(
                        "there are {all} {noun}s `{name}` here, and each comment accepts one: none is accepted"
                    ),
                    "write a comment for each of them, or put each on a line of its own",
                )
            } else {
                (
                    comments.get(all..),
                    format!("there is no {noun} `{name}` here to accept"),
                    "leave the comment out, or write it on the line of the finding or directly above it",
                )
            };
            for at in about.unwrap_or_default() {
                wrong.push((at.clone(), message.clone(), help.to_owned()));
            }
        }
        Accepted { findings, wrong }
    }

    /// Reads the comments of one file.
    fn read(
        &self,
        file: &Path,
        text: &str,
        acceptances: &mut Vec<Acceptance>,
        wrong: &mut Vec<(Place, String, String)>,
    ) {
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
                match self.acceptance(line.get(start + MARK.len()..).unwrap_or_default()) {
                    Ok(name) => above.push(Acceptance { at, name, line: number }),
                    Err((message, help)) => wrong.push((at, message, help)),
                }
            }
            if !is_comment {
                above.iter_mut().for_each(|acceptance| acceptance.line = number);
                acceptances.append(&mut above);
            }
        }
        acceptances.append(&mut above);
    }

    /// The name of what a comment accepts, or what is wrong with the comment.
    fn acceptance(&self, text: &str) -> Result<&'static str, (String, String)> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let Some(name) = self.names.iter().find(|known| **known == name) else {
            let help = match closest(name, self.names.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("write the name that `{}` prints in brackets", self.command),
            };
            return Err((format!("no {} is called `{name}`", self.noun), help));
        };
        let reason = rest.trim().strip_prefix("because").map(str::trim).unwrap_or_default();
        if reason.is_empty() {
            let help = format!("write `# accept: {name} because …`");
            return Err((format!("a {} is accepted without a reason", self.noun), help));
        }
        Ok(name)
    }
}

/// A line of a file, and a kind of findings.
type Key = (Arc<Path>, u32, &'static str);

fn key((at, name): &(&Place, &'static str)) -> Key {
    (at.file.clone(), at.line, *name)
}
