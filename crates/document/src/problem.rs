//! Problems of a policy, with their places.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::tree::Mark;
use crate::warning::Warning;

/// The maximum number of places that [`Problem::places`] adds.
const MAX_PLACES: usize = 8;

/// An error or a warning at a place.
///
/// Displayed as `file:line:column: severity: message`, which editors and CI systems turn into
/// links. Control characters of the input are displayed as their code (`\u{85}`), as they could end
/// the line, or hide it in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the policy can still be used.
    pub severity: Severity,
    /// The place of the problem.
    pub at: Place,
    /// The message: lower case, no full stop, input in backticks. Never contains a secret.
    pub message: String,
    /// How to fix it, such as ``did you mean `guest`?``.
    pub help: Option<String>,
    /// Related places, such as the first definition of a duplicate name.
    pub related: Vec<(Place, String)>,
}

/// Whether a [`Problem`] makes a policy unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy is not used.
    Error,
    /// The policy is used, but somebody should check it.
    Warning(Warning),
}

/// A place in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, by the name given to the loader.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Problem {
    /// An error, which makes the policy unusable.
    #[must_use]
    pub fn error(at: Place, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, at, message)
    }

    /// A warning.
    #[must_use]
    pub fn warning(at: Place, kind: Warning, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning(kind), at, message)
    }

    /// The error about a second definition, which names the place of the first.
    #[must_use]
    pub fn defined_twice(at: Place, name: &str, help: &str, first: Place) -> Self {
        let problem = Self::error(at, format!("{name} is defined twice")).help(help);
        problem.related(first, "the first is here")
    }

    fn new(severity: Severity, at: Place, message: impl Into<String>) -> Self {
        Self { severity, at, message: escape_controls(message), help: None, related: Vec::new() }
    }

    /// The kind of this warning; `None` for an error.
    #[must_use]
    pub const fn kind(&self) -> Option<Warning> {
        match self.severity {
            Severity::Error => None,
            Severity::Warning(kind) => Some(kind),
        }
    }

    /// Whether this is a warning.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        self.kind().is_some()
    }

    /// Adds how to fix the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(escape_controls(help));
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn related(mut self, at: Place, note: impl Into<String>) -> Self {
        self.related.push((at, escape_controls(note)));
        self
    }

    /// Adds further places with the same problem: the first few, and how many more there are.
    #[must_use]
    pub fn places(self, places: impl IntoIterator<Item = (Place, String)>) -> Self {
        let mut places = places.into_iter();
        let mut problem = places
            .by_ref()
            .take(MAX_PLACES)
            .fold(self, |problem, (at, note)| problem.related(at, note));
        if let (count @ 1.., Some((_, note))) = (places.count(), problem.related.last_mut()) {
            note.push_str(&format!(", and {count} more"));
        }
        problem
    }
}

impl Place {
    /// The first character of a file, for problems of a whole file.
    #[must_use]
    pub fn start_of(file: &Path) -> Self {
        Self { file: file.into(), line: 1, column: 1 }
    }

    /// Another place in the same file.
    #[must_use]
    pub fn in_same_file(&self, mark: Mark) -> Self {
        Self { file: self.file.clone(), line: mark.line, column: mark.column }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.at, self.severity, self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n    help: {help}")?;
        }
        for (at, note) in &self.related {
            write!(f, "\n    {at}: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("error"),
            Self::Warning(kind) => write!(f, "warning[{kind}]"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = escape_controls(self.file.display().to_string());
        write!(f, "{file}:{}:{}", self.line, self.column)
    }
}

fn escape_controls(text: impl Into<String>) -> String {
    let text = text.into();
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars().fold(String::new(), |mut escaped, character| {
        if character.is_control() {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_of_the_input_is_displayed() {
        let [at, related] =
            ["a\nb.yaml", "c\u{85}d.yaml"].map(|name| Place::start_of(Path::new(name)));
        let problem = Problem::error(at, "`e\u{1b}f`").help("`g\rh`").related(related, "`i\tj`");
        let shown = "a\\nb.yaml:1:1: error: `e\\u{1b}f`\n    help: `g\\rh`\n    \
                     c\\u{85}d.yaml:1:1: `i\\tj`";
        assert_eq!(problem.to_string(), shown);
    }
}
