//! What is wrong with a policy, and where.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One thing that is wrong, or suspicious, at one place.
///
/// Shown as `file:line:column: message`, the form that editors and CI systems turn into links. A control character of the
/// input is shown by its number (`\u{85}`): it could end the line, or hide it from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the policy can be used all the same.
    pub severity: Severity,
    /// Where it is.
    pub at: Place,
    /// What is wrong: lower case, no full stop, the input in backticks. Never contains a secret.
    pub message: String,
    /// What to do about it, such as ``did you mean `guest`?``.
    pub help: Option<String>,
    /// Other places that belong to it, such as the first definition of a name that is defined twice.
    pub related: Vec<(Place, String)>,
}

/// Whether a [`Problem`] keeps a policy from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy is not used.
    Error,
    /// The policy is used; somebody should look.
    Warning,
}

/// A place in a policy file. Lines and columns count from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as it was named to the loader.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Problem {
    /// A problem that keeps the policy from being used.
    #[must_use]
    pub fn error(at: Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            at,
            message: without_controls(message),
            help: None,
            related: Vec::new(),
        }
    }

    /// A problem that somebody should look at.
    #[must_use]
    pub fn warning(at: Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            at,
            message: without_controls(message),
            help: None,
            related: Vec::new(),
        }
    }

    /// The same problem, with what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(without_controls(help));
        self
    }

    /// The same problem, with another place that belongs to it.
    #[must_use]
    pub fn related(mut self, at: Place, note: impl Into<String>) -> Self {
        self.related.push((at, without_controls(note)));
        self
    }
}

impl Place {
    /// The first character of a file: where a problem of the file as a whole is shown.
    #[must_use]
    pub fn start_of(file: &Path) -> Self {
        Self { file: file.into(), line: 1, column: 1 }
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
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

fn without_controls(text: impl Into<String>) -> String {
    let text = text.into();
    if !text.contains(char::is_control) {
        return text;
    }
    let escape = |it: char| if it.is_control() { it.escape_default().to_string() } else { it.to_string() };
    text.chars().map(escape).collect()
}
