//! The page of results: the question that each benchmark answers, and the results of this run.

use load::report::svg::{Axis, Chart, DEFAULT_SIZE, Line, Point};
use load::report::units;
use testbed::pages::table as table_of;

use super::goals::{AXES, time};
use super::record::Records;
use crate::machine::Facts;
use crate::records::Record;
use crate::verdict::{Verdict, tabled};
use load::report::document::{Part, table};

/// The sections of the page: the heading, which is also the name of the chart, the benchmark, whose
/// question is in `benches/README.md`, and the prefixes of the names of its records.
const SECTIONS: [(&str, &str, &[&str]); 12] = [
    ("decide", "decide", &["decide/"]),
    ("hostile", "hostile", &["hostile/"]),
    ("peers", "peers", &["peers/"]),
    ("compile", "compile", &["compile/", "load/", "reload/", "memory/"]),
    ("identity", "identity", &["identify/"]),
    ("paths", "paths", &["paths/"]),
    ("decode", "codec", &["decode/"]),
    ("encode", "codec", &["encode/"]),
    ("check", "check", &["check/"]),
    ("header", "identity_header", &["header/"]),
    ("search", "search", &["search/"]),
    ("wire", "wire", &["wire/"]),
];

/// The charts, by file name.
pub(crate) fn charts(records: &Records) -> Vec<(String, String)> {
    let mut all: Vec<(String, Option<String>)> =
        AXES.iter().map(|axis| (format!("decide-{axis}.svg"), decide(records, axis))).collect();
    all.push(("peers.svg".to_owned(), peers(records)));
    all.push(("search-one-index.svg".to_owned(), one_index(records)));
    for name in ["compile", "identity", "paths", "decode", "encode", "check", "header"] {
        let section = SECTIONS.iter().filter(|section| section.0 == name);
        let found = section
            .flat_map(|section| below(records, section.2))
            .filter(|record| record.unit == "ns");
        all.push((format!("{name}.svg"), dots(name, &units::duration, found)));
    }
    let rates = records.below("wire/").filter(|record| record.unit == "checks/s");
    all.push(("wire.svg".to_owned(), dots("checks per second, one core", &units::grouped, rates)));
    all.into_iter().filter_map(|(file, chart)| Some((file, chart?))).collect()
}

/// The page.
pub(crate) fn parts(
    records: &Records,
    verdicts: &[Verdict],
    charts: &[(String, String)],
    facts: &Facts,
) -> Vec<Part> {
    let mut all = vec![
        Part::Text(
            "Written by `make bench`; do not edit. [records.csv](records.csv) has the records of every run, and \
             [benches/README.md](../README.md) says what is measured."
                .into(),
        ),
        Part::Facts(facts.clone()),
        Part::Text(
            "In brackets is the spread: the lowest and the highest of the rounds; for `hostile`, `compile` and `peers`, which \
             have one round, and for `wire` with 20 rounds and more, the 95 % confidence interval of the median. Where a cost must \
             stay the same for policies of all sizes, the fastest rounds are compared. Differences under 5 % are within noise."
                .into(),
        ),
        Part::Heading("Goals".into()),
        tabled(verdicts),
        Part::Text(
            "P1 is measured in checks per second: if the core of the client is too slow, it shows less than the server can do. \
             P2, P3, P7 and the reloads of P6 are measured by `make load`: [load/report.txt](load/report.txt); P5 is held by \
             tests. [benches/README.md](../README.md#goals-and-figures) has all goals."
                .into(),
        ),
    ];
    let questions = table_of(include_str!("../../README.md"), "| benchmark | question |");
    for (name, benchmark, prefixes) in SECTIONS {
        let found: Vec<&Record> = below(records, prefixes).collect();
        if found.is_empty() {
            continue;
        }
        all.push(Part::Heading(name.into()));
        let question =
            questions.iter().find(|row| row.first() == Some(&&*format!("`{benchmark}`")));
        all.extend(question.and_then(|row| Some(Part::Text((*row.get(1)?).into()))));
        let belongs = |file: &str| {
            let rest = file.trim_end_matches(".svg").strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        all.extend(
            charts
                .iter()
                .filter(|(file, _)| belongs(file))
                .map(|(file, _)| Part::File(file.clone())),
        );
        if name == "peers" {
            all.push(ratios(records));
        }
        let rows = found.iter().map(|record| vec![record.name.clone(), time(record)]).collect();
        all.push(table(&["", "median"], rows));
    }
    all
}

/// How many times faster rolegate is than its peers, by number of rules.
fn ratios(records: &Records) -> Part {
    let ours = records.curve("peers/rolegate");
    let heads: Vec<String> = ours.iter().map(|(rules, _)| format!("{rules} rules")).collect();
    let heads: Vec<&str> =
        std::iter::once("÷ rolegate").chain(heads.iter().map(String::as_str)).collect();
    let row = |peer: &str| {
        let theirs = records.curve(&format!("peers/{peer}"));
        let ratio = |(rules, ours): &(f64, &Record)| {
            let found = theirs.iter().find(|(size, _)| size == rules);
            found.map_or("–".into(), |(_, record)| {
                format!("{:.1}", record.spread.median / ours.spread.median)
            })
        };
        std::iter::once(peer.to_owned()).chain(ours.iter().map(ratio)).collect()
    };
    table(
        &heads,
        names(records, "peers/").into_iter().filter(|name| *name != "rolegate").map(row).collect(),
    )
}

fn below<'a>(records: &'a Records, prefixes: &'a [&str]) -> impl Iterator<Item = &'a Record> {
    prefixes.iter().flat_map(|start| records.below(start))
}

fn decide(records: &Records, axis: &str) -> Option<String> {
    let title = format!("one decision, by {}", axis.replace('-', " "));
    let of = |kind: &'static str| (kind, records.curve(&format!("decide/{axis}/{kind}")));
    lines(&title, axis, &[of("random"), of("warm")], Some(100.0))
}

/// A line for each user, as the figures of the security plugin are drawn.
fn one_index(records: &Records) -> Option<String> {
    let users = ["all_access", "1 role", "20 roles", "40 roles"];
    let curves = users.map(|user| (user, records.curve(&format!("search/one-index/{user}"))));
    lines("one decision on one index of a search cluster", "indices", &curves, Some(200.0))
}

fn peers(records: &Records) -> Option<String> {
    let names = names(records, "peers/").into_iter();
    let all: Vec<_> = names.map(|name| (name, records.curve(&format!("peers/{name}")))).collect();
    lines("one decision, by rules, beside other engines", "rules", &all, None)
}

/// A line for each curve of times, and one for their goal; without a goal, the times are on a
/// logarithmic axis. `None` without points.
fn lines(
    title: &str,
    x: &str,
    curves: &[(&str, Vec<(f64, &Record)>)],
    goal: Option<f64>,
) -> Option<String> {
    let all = || curves.iter().flat_map(|(_, points)| points);
    all().next()?;
    let times = all().flat_map(|(_, record)| [record.spread.low, record.spread.high]).chain(goal);
    let (label, shown) = ("median and spread", &units::duration);
    let axis = if goal.is_some() {
        Axis::linear(label, times, shown)
    } else {
        Axis::logarithmic(label, times, shown)
    };
    let point = |(x, record): &(f64, &Record)| Point {
        at: (*x, record.spread.median),
        spread: Some([(*x, record.spread.low), (*x, record.spread.high)]),
        label: String::new(),
    };
    let x = Axis::logarithmic(x, all().map(|(x, _)| *x), &units::grouped);
    let line = |name, points| Line { name, points, connected: true };
    let measured =
        curves.iter().map(|(name, points)| line(*name, points.iter().map(point).collect()));
    let ends =
        |goal| [x.ends.0, x.ends.1].map(|x| Point { at: (x, goal), ..Point::default() }).to_vec();
    let lines = measured.chain(goal.map(|goal| line("goal", ends(goal)))).collect();
    Some(Chart { title, x, y: axis, size: DEFAULT_SIZE, lines }.file())
}

/// A row for each record, with its value beside it; `None` without records.
fn dots<'a>(
    title: &str,
    shown: &dyn Fn(f64) -> String,
    records: impl Iterator<Item = &'a Record>,
) -> Option<String> {
    let records: Vec<&Record> = records.collect();
    let count = units::float(records.len() as u64);
    let values = records.iter().flat_map(|record| [record.spread.low, record.spread.high]);
    let mut x = Axis::logarithmic("median and spread; logarithmic", values, shown);
    // Room for the value beside the last point.
    x.ends.1 *= (x.ends.1 / x.ends.0).powf(0.15);
    let rows = || (0..).map(|number| count - units::float(number) - 0.5).zip(&records);
    let ticks = rows().map(|(row, record)| (row, record.name.clone())).collect();
    let y = Axis { label: String::new(), ends: (0.0, count), logarithmic: false, ticks };
    let point = |(row, record): (f64, &&Record)| Point {
        at: (record.spread.median, row),
        spread: Some([(record.spread.low, row), (record.spread.high, row)]),
        label: shown(record.spread.median),
    };
    let line = Line { name: "", points: rows().map(point).collect(), connected: false };
    (!records.is_empty())
        .then(|| Chart { title, x, y, size: (300.0, 22.0 * count), lines: vec![line] }.file())
}

/// The distinct names between `start` and the next slash.
fn names<'a>(records: &'a Records, start: &'a str) -> Vec<&'a str> {
    let rest = records.below(start).filter_map(|record| record.name.strip_prefix(start));
    let mut names: Vec<&str> = rest.filter_map(|rest| rest.split('/').next()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::goals::verdicts;
    use load::report::document::markdown;

    #[test]
    fn a_page_has_each_record_and_each_chart() {
        let mut records = Records::default();
        let named = [
            "decide/roles/warm/1",
            "decide/roles/warm/10",
            "peers/rolegate/10",
            "peers/casbin/10",
            "search/one-index/20 roles/10",
            "search/one-index/20 roles/100",
            "encode/rolegate/allowed",
        ];
        for name in named {
            records.insert(Record::of_rounds(name, "ns", &[80.0, 90.0, 95.0]).unwrap());
        }
        let charts = charts(&records);
        let files: Vec<&str> = charts.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["decide-roles.svg", "peers.svg", "search-one-index.svg", "encode.svg"]);
        assert!(charts.iter().all(|(_, svg)| svg.contains("<circle") && !svg.contains("NaN")));
        let facts = vec![("commit".to_owned(), "abc".to_owned())];
        let page = markdown("Results", &parts(&records, &verdicts(&records), &charts, &facts));
        for name in named {
            assert!(
                page.contains(&format!("| {name} | 90.00 ns [80.00–95.00] |")),
                "{name}: {page}"
            );
        }
        assert!(files.iter().all(|file| page.contains(&format!("({file})"))));
        let (_, encode) = page.split_once("\n## encode\n\n").unwrap();
        assert!(encode.lines().next().unwrap().contains("`CheckRequest`"), "{page}");
        assert!(
            page.contains("| casbin | 1.0 |")
                && page.contains("commit: abc")
                && !page.contains("## wire")
        );
    }
}
