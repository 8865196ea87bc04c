//! A difference as Markdown, for the comment of a pull request.

use crate::conditions::Direction;
use crate::diff::{Change, Diff};

impl Diff {
    /// The difference as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        if self.is_empty() {
            return "No difference: everybody may do the same under both policies.\n".to_owned();
        }
        let mut text = String::new();
        if self.changes.iter().any(|change| change.to_anyone) {
            text += "**Warning: this grants requests to anyone, also without credentials.**\n\n";
        }
        if !self.conditions.is_empty() {
            text += "### Conditions\n\n";
            for condition in &self.conditions {
                text += &format!("* {}\n", cell(&condition.to_string()));
            }
            text += "\n";
        }
        for (direction, heading) in
            [(Direction::Granted, "Granted"), (Direction::Revoked, "Revoked")]
        {
            let changes = self.changes.iter().filter(|change| change.direction == direction);
            let rows: String = changes.map(row).collect();
            if !rows.is_empty() {
                text +=
                    &format!("### {heading}\n\n| requests | callers | because |\n|---|---|---|\n");
                text += &format!("{rows}\n");
            }
        }
        if !self.settings.is_empty() {
            text += "### Settings\n\n";
            for setting in &self.settings {
                text += &format!("* {}\n", escape(&setting.to_string()));
            }
        }
        text
    }
}

fn row(change: &Change) -> String {
    let mark = if change.to_anyone { "**anyone** " } else { "" };
    let requests = code(&change.region.to_string());
    let callers: Vec<String> = change.who.iter().map(|who| cell(&who.to_string())).collect();
    let (callers, cause) = (callers.join("<br>"), cell(&change.because.to_string()));
    let cases = change.cases.as_ref().map(|cases| format!("<br>{}", cell(&cases.to_string())));
    let (note, cases) = (change.in_part_note(), cases.unwrap_or_default());
    format!("| {mark}{requests}{note}{cases} | {callers} | {cause} |\n")
}

/// Text in a cell of a Markdown table, on one line. Only code keeps its markup.
#[must_use]
pub fn cell(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { code(part) } else { escape(part) }).collect()
}

/// Code in a cell: there, only `|` ends it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '*' | '_' | '|' | '[' | '\\' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}
