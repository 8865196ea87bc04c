//! A report as a list of parts, which can be written as text or as HTML.

use std::fmt::Write as _;

use crate::report::page;

/// One part of a report.
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
    /// A picture; only in HTML.
    Picture(String),
}

/// A table with these headings.
#[must_use]
pub fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Part {
    Part::Table(heads.iter().map(|it| (*it).to_owned()).collect(), rows)
}

/// The parts as text.
#[must_use]
pub fn text(title: &str, parts: &[Part]) -> String {
    let mut all = format!("{title}\n{}\n", "=".repeat(title.chars().count()));
    for part in parts {
        match part {
            Part::Heading(it) => all.push_str(&format!("\n{it}\n{}\n", "-".repeat(it.chars().count()))),
            Part::Subheading(it) => all.push_str(&format!("\n{it}\n")),
            Part::Text(it) => all.push_str(&format!("\n{}", wrapped(it, ""))),
            Part::Warning(it) => all.push_str(&format!("\n{}", wrapped(it, "!! "))),
            Part::Facts(facts) => {
                facts.iter().for_each(|(name, it)| all.push_str(&format!("  {name:<26}  {it}\n")))
            }
            Part::Table(heads, rows) => all.push_str(&aligned(heads, rows)),
            Part::Lines(lines) => lines.iter().for_each(|it| all.push_str(&format!("  {it}\n"))),
            Part::Picture(_) => {}
        }
    }
    all
}

/// The parts as HTML.
#[must_use]
pub fn html(title: &str, parts: &[Part]) -> String {
    let mut body = String::new();
    for part in parts {
        // Writing to a string does not fail.
        let _ = match part {
            Part::Heading(it) => writeln!(body, "<h2>{}</h2>", page::escape(it)),
            Part::Subheading(it) => writeln!(body, "<h3>{}</h3>", page::escape(it)),
            Part::Text(it) => writeln!(body, "<p>{}</p>", page::escape(it)),
            Part::Warning(it) => writeln!(body, "<p class=\"warning\">{}</p>", page::escape(it)),
            Part::Table(heads, rows) => {
                let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
                write!(body, "{}", page::table(&heads, rows))
            }
            Part::Facts(facts) => {
                let rows: Vec<Vec<String>> =
                    facts.iter().map(|(name, it)| vec![name.clone(), it.clone()]).collect();
                write!(body, "{}", page::table(&["", ""], &rows))
            }
            Part::Lines(lines) => writeln!(body, "<pre>{}</pre>", page::escape(&lines.join("\n"))),
            Part::Picture(it) => write!(body, "{it}"),
        };
    }
    page::page(title, &body)
}

/// Wraps lines at 100 characters, unless a word is longer, and puts `before` in front of each.
fn wrapped(text: &str, before: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let room = lines
            .last()
            .is_some_and(|it| it.chars().count() + 1 + word.chars().count() <= 100 - before.len());
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if room => line.push_str(&format!(" {word}")),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{before}{line}\n")).collect()
}

/// Columns as wide as their widest cell: names left-aligned, numbers right-aligned.
fn aligned(heads: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|it| it.get(column)).chain(heads.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut all = String::new();
    for row in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ =
                if column == 0 { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        all.push_str(line.trim_end());
        all.push('\n');
    }
    all
}
