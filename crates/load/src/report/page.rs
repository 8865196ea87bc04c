//! Self-contained HTML pages: no script, no font, no external link.

use std::fmt::Write as _;

use super::markup::{STYLE, escape};
use super::svg::{self, Curve};
use super::{text, units};
use crate::results::{Rate, RunResults};

/// The results of a run as a page with percentile curves.
#[must_use]
pub fn html(of: &RunResults) -> String {
    let mut body = summary(of);
    if let Some(why) = &of.generator.limited {
        body.push_str(&limited(why));
    }
    let both =
        [Curve { name: "corrected", of: &of.corrected }, Curve { name: "uncorrected", of: &of.uncorrected }];
    // In a closed loop, both are the same.
    let curves = if of.rate == Rate::Max { both.get(..1).unwrap_or(&both) } else { &both };
    body.push_str(&svg::percentiles("Latency", curves).map(|chart| chart.inline()).unwrap_or_default());
    body.push_str(&latency(of));
    body.push_str(&responses(of));
    body.push_str(&errors(of));
    page(&format!("Load on {}", of.target), &body)
}

/// A complete page with this body.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n\
         </body>\n</html>\n"
    )
}

/// A table. Cells are text, not HTML; all cells of a row except the first are numbers.
#[must_use]
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = "<div class=\"wide\"><table>\n<thead><tr>".to_owned();
    for head in heads {
        let _ = write!(text, "<th>{}</th>", escape(head));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", escape(cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// The warning that the generator or the machine was the limit.
#[must_use]
pub(crate) fn limited(why: &str) -> String {
    format!(
        "<p class=\"warning\"><strong>Do not trust these figures:</strong> \
         {}</p>\n",
        escape(why)
    )
}

fn summary(of: &RunResults) -> String {
    let cores = of.generator.cpu.as_secs_f64() / of.elapsed.as_secs_f64().max(1e-9);
    let rows = [
        ("protocol", of.protocol.to_string()),
        ("requested rate", of.rate.to_string()),
        ("requests/s answered", format!("{:.1}", of.generator.achieved)),
        ("connections", format!("{}, {} concurrent requests each", of.connections, of.streams)),
        ("measured for", units::span(of.elapsed)),
        ("answers", units::count(of.corrected.len())),
        ("errors", units::count(of.errors())),
        ("unexpected answers", units::count(of.unexpected)),
        ("sent, received", format!("{}, {}", units::bytes(of.bytes_sent), units::bytes(of.bytes_received))),
        ("cores of the generator", format!("{cores:.2}")),
        ("sent late by itself", units::count(of.generator.late)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(&["run", ""], &rows)
}

fn latency(of: &RunResults) -> String {
    let rows: Vec<Vec<String>> = text::rows(&of.corrected, &of.uncorrected)
        .into_iter()
        .map(|(name, corrected, uncorrected)| vec![name, corrected, uncorrected])
        .collect();
    table(&["latency", "corrected", "uncorrected"], &rows)
}

fn responses(of: &RunResults) -> String {
    let rows: Vec<Vec<String>> = of
        .responses
        .iter()
        .map(|(name, responses)| {
            let at = |percent| units::known(super::percentile(&responses.corrected, percent));
            vec![name.clone(), units::count(responses.count), at(50.0), at(99.0), at(99.9)]
        })
        .collect();
    table(&["answer", "count", "p50", "p99", "p99.9"], &rows)
}

fn errors(of: &RunResults) -> String {
    if of.errors.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        of.errors.iter().map(|(what, count)| vec![what.clone(), units::count(*count)]).collect();
    table(&["error (in no figure above)", "count"], &rows)
}
