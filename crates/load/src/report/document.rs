//! A report as a list of parts, which can be written as text, as HTML or as Markdown. The style and
//! the escaping of HTML are also those of SVG images.

use std::fmt::Write as _;

/// In both colour schemes, neighbouring colours differ even without red or green.
pub(super) const STYLE: &str = include_str!("page.css");

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
    let mut all = format!("{title}\n{}\n", "=".repeat(title.chars().count()));
    for part in parts {
        match part {
            Part::Heading(heading) => {
                all.push_str(&format!("\n{heading}\n{}\n", "-".repeat(heading.chars().count())))
            }
            Part::Subheading(heading) => all.push_str(&format!("\n{heading}\n")),
            Part::Text(text) => all.push_str(&format!("\n{}", wrapped(text, ""))),
            Part::Warning(warning) => all.push_str(&format!("\n{}", wrapped(warning, "!! "))),
            Part::Facts(facts) => facts
                .iter()
                .for_each(|(name, value)| all.push_str(&format!("  {name:<26}  {value}\n"))),
            Part::Table(heads, rows) => all.push_str(&aligned(heads, rows)),
            Part::Lines(lines) => {
                lines.iter().for_each(|line| all.push_str(&format!("  {line}\n")))
            }
            Part::Picture(_) | Part::File(_) => {}
        }
    }
    all
}

/// The parts as a self-contained HTML page: no script, no font, no external link.
pub fn html(title: &str, parts: &[Part]) -> String {
    let mut body = String::new();
    for part in parts {
        // Writing to a string does not fail.
        let _ = match part {
            Part::Heading(heading) => writeln!(body, "<h2>{}</h2>", escape(heading)),
            Part::Subheading(heading) => writeln!(body, "<h3>{}</h3>", escape(heading)),
            Part::Text(text) => writeln!(body, "<p>{}</p>", escape(text)),
            Part::Warning(warning) => {
                writeln!(body, "<p class=\"warning\">{}</p>", escape(warning))
            }
            Part::Table(heads, rows) => write!(body, "{}", cells(heads, rows)),
            Part::Facts(facts) => {
                let rows: Vec<_> =
                    facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
                write!(body, "{}", cells(&[String::new(), String::new()], &rows))
            }
            Part::Lines(lines) => writeln!(body, "<pre>{}</pre>", escape(&lines.join("\n"))),
            Part::Picture(picture) => write!(body, "{picture}"),
            Part::File(_) => Ok(()),
        };
    }
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n\
         </body>\n</html>\n"
    )
}

/// A table. Cells are text, not HTML.
fn cells(heads: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| -> String {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let head = row(heads, "th");
    let body: String = rows.iter().map(|cells| row(cells, "td") + "\n").collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
}

pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// The parts as Markdown.
pub fn markdown(title: &str, parts: &[Part]) -> String {
    let mut all = format!("# {title}\n\n");
    for part in parts {
        match part {
            Part::Heading(heading) => all.push_str(&format!("## {heading}\n\n")),
            Part::Subheading(heading) => all.push_str(&format!("### {heading}\n\n")),
            Part::Text(text) => all.push_str(&format!("{text}\n\n")),
            Part::Warning(warning) => all.push_str(&format!("**{warning}**\n\n")),
            Part::Facts(facts) => {
                facts
                    .iter()
                    .for_each(|(name, value)| all.push_str(&format!("* {name}: {value}\n")));
                all.push('\n');
            }
            Part::Table(heads, rows) => {
                let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
                all.push_str(&format!("{}{}|\n", line(heads), "|---".repeat(heads.len())));
                rows.iter().for_each(|row| all.push_str(&line(row)));
                all.push('\n');
            }
            Part::Lines(lines) => all.push_str(&format!("```\n{}\n```\n\n", lines.join("\n"))),
            Part::File(file) => {
                all.push_str(&format!("![{}]({file})\n\n", file.trim_end_matches(".svg")))
            }
            Part::Picture(_) => {}
        }
    }
    all.truncate(all.trim_end().len());
    all + "\n"
}

/// Wraps lines at 100 characters, unless a word is longer, and puts `before` in front of each.
fn wrapped(text: &str, before: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let room = lines.last().is_some_and(|line| {
            line.chars().count() + 1 + word.chars().count() <= 100 - before.len()
        });
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
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(heads.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut all = String::new();
    for row in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(line, "  {cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        all.push_str(line.trim_end());
        all.push('\n');
    }
    all
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
