//! A report as a list of parts, which can be written as text, as HTML or as Markdown.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// In both colour schemes, neighbouring colours differ even without red or green.
pub(super) const STYLE: &str = include_str!("page.css");

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The heading of a section.
    Heading(String),
    /// The heading of a subsection.
    Subheading(String),
    /// A paragraph.
    Text(String),
    /// A conspicuous paragraph.
    Warning(String),
    /// A table: its headings and its rows. The first column contains names.
    Table(Vec<String>, Vec<Vec<String>>),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// Preformatted lines.
    Lines(Vec<String>),
    /// A picture as SVG; only in HTML.
    Picture(String),
    /// A picture in a file; only in Markdown.
    File(String),
}

/// A table with these headings.
pub fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Part {
    Part::Table(heads.iter().map(|head| (*head).to_owned()).collect(), rows)
}

/// The parts as text.
pub fn text(title: &str, parts: &[Part]) -> String {
    let mut text = underlined(title, "=");
    for part in parts {
        text += &match part {
            Part::Heading(heading) => format!("\n{}", underlined(heading, "-")),
            Part::Subheading(heading) => format!("\n{heading}\n"),
            Part::Text(text) => format!("\n{}", wrapped(text, "")),
            Part::Warning(warning) => format!("\n{}", wrapped(warning, "!! ")),
            Part::Facts(facts) => {
                facts.iter().map(|(name, value)| format!("  {name:<26}  {value}\n")).collect()
            }
            Part::Table(heads, rows) => aligned(heads, rows),
            Part::Lines(lines) => lines.iter().map(|line| format!("  {line}\n")).collect(),
            Part::Picture(_) | Part::File(_) => String::new(),
        };
    }
    text
}

fn underlined(heading: &str, line: &str) -> String {
    format!("{heading}\n{}\n", line.repeat(heading.chars().count()))
}

/// The parts as a self-contained HTML page: no script, no font, no external link.
pub fn html(title: &str, parts: &[Part]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } @for part in parts { (element(part)) } } }
        }
    };
    page.into_string() + "\n"
}

fn element(part: &Part) -> Markup {
    html! {
        @match part {
            Part::Heading(heading) => h2 { (heading) },
            Part::Subheading(heading) => h3 { (heading) },
            Part::Text(text) => p { (text) },
            Part::Warning(warning) => p.warning { (warning) },
            Part::Table(heads, rows) => div.wide { table {
                thead { tr { @for head in heads { th { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            } },
            Part::Facts(facts) => div.wide { table { tbody {
                @for (name, value) in facts { tr { td { (name) } td { (value) } } }
            } } },
            Part::Lines(lines) => pre { (lines.join("\n")) },
            Part::Picture(picture) => (PreEscaped(picture)),
            Part::File(_) => {},
        }
    }
}

/// The parts as Markdown.
pub fn markdown(title: &str, parts: &[Part]) -> String {
    let mut text = format!("# {title}\n\n");
    for part in parts {
        text += &match part {
            Part::Heading(heading) => format!("## {heading}\n\n"),
            Part::Subheading(heading) => format!("### {heading}\n\n"),
            Part::Text(text) => format!("{text}\n\n"),
            Part::Warning(warning) => format!("**{warning}**\n\n"),
            Part::Facts(facts) => {
                let lines = facts.iter().map(|(name, value)| format!("* {name}: {value}\n"));
                lines.collect::<String>() + "\n"
            }
            Part::Table(heads, rows) => {
                let rows: String = rows.iter().map(|row| markdown_row(row)).collect();
                format!("{}{}|\n{rows}\n", markdown_row(heads), "|---".repeat(heads.len()))
            }
            Part::Lines(lines) => format!("```\n{}\n```\n\n", lines.join("\n")),
            Part::File(file) => format!("![{}]({file})\n\n", file.trim_end_matches(".svg")),
            Part::Picture(_) => String::new(),
        };
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn markdown_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Wraps lines at 100 characters, unless a word is longer, and puts `prefix` in front of each.
fn wrapped(text: &str, prefix: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if prefix.len() + line.chars().count() + 1 + word.chars().count() <= 100 => {
                line.push_str(&format!(" {word}"));
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{prefix}{line}\n")).collect()
}

/// Columns as wide as their widest cell: names left-aligned, numbers right-aligned.
fn aligned(heads: &[String], rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; heads.len()];
    let lines = std::iter::once(heads).chain(rows.iter().map(Vec::as_slice));
    for line in lines.clone() {
        for (cell, width) in line.iter().zip(&mut widths) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for cells in lines {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            line += &match column {
                0 => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_text_and_a_page() {
        let parts = [
            Part::Heading("Goals".to_owned()),
            Part::Warning("a < b".to_owned()),
            table(&["scenario", "µs"], vec![vec!["app".to_owned(), "1,234.5".to_owned()]]),
        ];
        let text = text("Title", &parts);
        assert!(
            text.contains("\nGoals\n-----\n\n!! a < b\n  scenario       µs\n  app       1,234.5\n"),
            "{text}"
        );
        let page = html("Title", &parts);
        assert!(
            page.contains("<p class=\"warning\">a &lt; b</p>") && page.contains("<td>1,234.5</td>"),
            "{page}"
        );
        let markdown = markdown("Title", &parts);
        assert!(
            markdown.ends_with("| scenario | µs |\n|---|---|\n| app | 1,234.5 |\n"),
            "{markdown}"
        );
    }
}
