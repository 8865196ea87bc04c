//! What is reported about the search cluster: rates, ratios, goals, and a chart for each request
//! and each who decides.

use load::report::document::{Part, table};
use load::report::svg::{Axis, Chart, DEFAULT_SIZE, Line, Point};
use load::report::units;

use super::{ALL, By, CONNECTIONS, Row, USERS, WHATS, What};
use crate::machine::Facts;
use crate::records::Record;
use crate::spread::Spread;
use crate::verdict::{Limit, Verdict, tabled};

/// The rates of a variant relative to those of another, round by round. A round without a response
/// on one side says nothing about the other.
fn ratios(rows: &[Row], row: &Row, to: By) -> Vec<f64> {
    let other = rows.iter().find(|other| {
        (other.indices, other.user, other.what, other.by) == (row.indices, row.user, row.what, to)
    });
    let Some(other) = other else { return Vec::new() };
    let rounds = row.rounds.iter().zip(&other.rounds);
    rounds
        .filter(|(one, other)| **one > 0.0 && **other > 0.0)
        .map(|(one, other)| one / other)
        .collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for (by, least) in [(By::Module, 0.95), (By::Sidecar, 0.8)] {
        for what in WHATS {
            let of_this = rows.iter().filter(|row| row.by == by && row.what == what);
            let all_ratios = of_this.flat_map(|row| ratios(rows, row, By::Nobody));
            let Some(spread) = Spread::of(all_ratios) else { continue };
            let measured = (spread.median, spread.shown(|ratio| format!("{ratio:.3} ×")));
            let text = format!("{}: {} ÷ no authorization", what.name(), by.name());
            let verdict = Verdict::new("P10", text, Limit::AtLeast(least, " ×"), Some(measured));
            all.push(Verdict { spread: Some(spread), ..verdict });
        }
    }
    all
}

pub(super) fn parts(rows: &[Row], facts: &Facts) -> Vec<Part> {
    let mut all = vec![
        Part::Text(format!(
            "Requests through Envoy, {CONNECTIONS} connections, closed loop; documents or searches per second: medians of rounds, in \
             brackets the lowest and the highest. Ratios are taken within each round, where both had a response. The time is the \
             processor time of Envoy, and of rolegate where it is a process of its own, per request."
        )),
        tabled(&verdicts(rows)),
    ];
    for what in WHATS {
        all.push(Part::Text(what.name()));
        let cells = rows.iter().filter(|row| row.what == what).map(|row| {
            let rate = Spread::of(row.rounds.iter().copied());
            let of = |to| {
                Spread::of(ratios(rows, row, to))
                    .map(|ratio| ratio.shown(|ratio| format!("{ratio:.3}")))
            };
            vec![
                row.indices.to_string(),
                row.user.to_owned(),
                row.by.name().to_owned(),
                rate.map_or_else(String::new, |rate| rate.shown(units::grouped)),
                of(By::Nobody).unwrap_or_default(),
                of(By::Plugin).unwrap_or_default(),
                Spread::of(row.cpu.iter().copied())
                    .map_or_else(String::new, |cpu| cpu.shown(|micros| format!("{micros:.0}"))),
            ]
        });
        let head = [
            "indices",
            "user",
            "who decides",
            "per second",
            "÷ nobody",
            "÷ the plugin",
            "time, µs",
        ];
        all.push(table(&head, cells.collect()));
    }
    let wrong: Vec<String> = rows.iter().filter(|row| row.wrong > 0).map(wrong).collect();
    if !wrong.is_empty() {
        let text = "Some requests had no response, or were denied: do not trust the figures of";
        all.push(Part::Warning(format!("{text} {}.", wrong.join("; "))));
    }
    all.push(Part::Facts(facts.clone()));
    all
}

/// Where requests failed, how many, and why.
fn wrong(row: &Row) -> String {
    let (what, by) = (row.what.name(), row.by.name());
    let errors: Vec<&str> = row.errors.iter().map(String::as_str).collect();
    let why = if errors.is_empty() { "another status" } else { &errors.join(", ") };
    format!("{what}, {} indices, {}, {by}: {} ({why})", row.indices, row.user, row.wrong)
}

/// The charts by file name: the number of indices on the horizontal axis, a line for each user.
/// Those of the same request have the same vertical axis, so that they can be laid beside each
/// other.
pub(super) fn charts(rows: &[Row]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for what in WHATS {
        let of_what = || rows.iter().filter(|row| row.what == what);
        let rates = || of_what().flat_map(|row| row.rounds.iter().copied());
        for by in ALL {
            let line = |(user, _): &(&'static str, usize)| {
                let of_user = of_what().filter(|row| row.by == by && row.user == *user);
                Line { name: user, points: of_user.filter_map(point).collect(), connected: true }
            };
            let lines: Vec<Line<'_>> = USERS.iter().map(line).collect();
            if lines.iter().all(|line| line.points.is_empty()) {
                continue;
            }
            let per_second = if matches!(what, What::Bulk(_)) {
                "documents per second"
            } else {
                "searches per second"
            };
            let sizes = of_what().map(|row| units::float(row.indices as u64));
            let chart = Chart {
                title: &format!("{}: {}", what.name(), by.name()),
                x: Axis::logarithmic("indices", sizes, &units::grouped),
                y: Axis::linear(per_second, rates(), &units::grouped),
                size: DEFAULT_SIZE,
                lines,
            };
            let name = format!("cluster {} {}.svg", what.name(), by.name())
                .replace(' ', "-")
                .replace('%', "percent");
            all.push((name, chart.file()));
        }
    }
    all
}

fn point(row: &Row) -> Option<Point> {
    let (spread, x) = (Spread::of(row.rounds.iter().copied())?, units::float(row.indices as u64));
    let spread_ends = [(x, spread.low), (x, spread.high)];
    Some(Point { at: (x, spread.median), spread: Some(spread_ends), label: String::new() })
}

pub(super) fn records(rows: &[Row]) -> Vec<Record> {
    let records = |row: &Row| {
        let Row { indices, user, what, by, rounds, cpu, .. } = row;
        let name = format!("cluster/{}/{indices} indices/{user}/{}", what.name(), by.name());
        let time = Record::of_rounds(&format!("{name}/time"), "µs", cpu);
        Record::of_rounds(&name, "1/s", rounds).into_iter().chain(time)
    };
    rows.iter().flat_map(records).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn row(by: By, rounds: &[f64]) -> Row {
        Row { rounds: rounds.to_vec(), ..Row::new(10, "one", What::Search, by) }
    }

    #[test]
    fn a_round_without_a_response_has_no_ratio() {
        let rows =
            [row(By::Nobody, &[100.0, 0.0, 200.0, 0.0]), row(By::Module, &[90.0, 50.0, 0.0, 0.0])];
        let [nobody, module] = &rows;
        assert_eq!(ratios(&rows, module, By::Nobody), [0.9]);
        assert_eq!(ratios(&rows, nobody, By::Module), [100.0 / 90.0]);
        assert!(ratios(&rows, module, By::Plugin).is_empty());
        assert!(verdicts(&[row(By::Nobody, &[0.0]), row(By::Module, &[0.0])]).is_empty());
    }

    #[test]
    fn requests_that_failed_are_named() {
        let failed =
            Row { wrong: 3, errors: ["timeout".to_owned()].into(), ..row(By::Sidecar, &[9.0]) };
        assert_eq!(wrong(&failed), "search on one index, 10 indices, one, rolegate: 3 (timeout)");
        assert!(
            wrong(&Row { errors: BTreeSet::new(), ..failed }).ends_with(": 3 (another status)")
        );
    }

    #[test]
    fn there_is_a_chart_for_each_who_decides_with_a_line_for_each_user() {
        let mut rows = vec![row(By::Nobody, &[10.0]), row(By::Sidecar, &[9.0, 8.0])];
        rows.push(Row { indices: 1_000, ..row(By::Sidecar, &[7.0]) });
        let charts = charts(&rows);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cluster-search-on-one-index-no-authorization.svg",
                "cluster-search-on-one-index-rolegate.svg"
            ]
        );
        assert!(charts.iter().all(|(_, svg)| svg.contains("forty") && !svg.contains("NaN")));
    }
}
