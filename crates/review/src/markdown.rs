//! A difference as Markdown, for the comment of a pull request.

use std::fmt::{self, Write};

use crate::conditions::Direction;
use crate::diff::Diff;

impl Diff {
    /// The difference as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` never fails.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, text: &mut String) -> fmt::Result {
        if self.is_empty() {
            return writeln!(text, "No difference: everybody may do the same under both policies.");
        }
        if self.changes.iter().any(|change| change.to_anyone) {
            writeln!(
                text,
                "**Warning: this grants requests to anyone, also without credentials.**\n"
            )?;
        }
        for (direction, head) in [(Direction::Granted, "Granted"), (Direction::Revoked, "Revoked")]
        {
            let mut changes =
                self.changes.iter().filter(|change| change.direction == direction).peekable();
            if changes.peek().is_none() {
                continue;
            }
            writeln!(text, "### {head}\n\n| requests | callers | because |\n|---|---|---|")?;
            for change in changes {
                let who: Vec<String> =
                    change.who.iter().map(|who| cell(&who.to_string())).collect();
                let mark = if change.to_anyone { "**anyone** " } else { "" };
                let requests = code(&change.region.to_string());
                let part = match (change.region.in_part, direction) {
                    (false, _) => "",
                    (true, Direction::Granted) => " (some of it was allowed before)",
                    (true, Direction::Revoked) => " (some of it was not allowed before)",
                };
                writeln!(
                    text,
                    "| {mark}{requests}{part} | {} | {} |",
                    who.join("<br>"),
                    cell(&change.because.to_string())
                )?;
            }
            writeln!(text)?;
        }
        if !self.settings.is_empty() {
            writeln!(text, "### Settings\n")?;
            for setting in &self.settings {
                writeln!(text, "* {}", escaped(&setting.to_string()))?;
            }
        }
        Ok(())
    }
}

/// Text in a cell of a table: nothing in it is markup but code.
fn cell(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part =
        |(index, part): (usize, &str)| if index % 2 == 1 { code(part) } else { escaped(part) };
    parts.map(part).collect()
}

/// Code in a cell: there, only `|` ends it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '*' | '_' | '|' | '[' | '\\' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}
