//! The page of results: the question that each benchmark answers, and the results of this run.

use std::fmt::Write as _;

use crate::chart::{Frame, Line, dots, lines};
use crate::record::{Record, Records};
use crate::verdict::{AXES, Verdict, time};

/// The environment in which the records were measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Processor, cores, memory, operating system.
    pub(crate) machine: String,
    /// The commit, and whether the tree has uncommitted changes.
    pub(crate) commit: String,
    /// The date in UTC.
    pub(crate) date: String,
    /// The compiler.
    pub(crate) compiler: String,
}

/// A benchmark: the names of its records, its question, and its chart.
struct Question {
    /// The name of its chart and its heading.
    name: &'static str,
    asks: &'static str,
    /// The prefixes of its records' names.
    records: &'static [&'static str],
}

const QUESTIONS: [Question; 10] = [
    Question {
        name: "decide",
        asks: "Does a decision cost the same however large the policy is? From a known set of roles and a canonical \
               method, host and path to the answer: `warm` asks 64 questions again and again, `random` any question \
               by any caller, `everything` is large in all four sizes at once. `loop` is what the loop itself costs; \
               nothing is subtracted for it.",
        records: &["decide/"],
    },
    Question {
        name: "hostile",
        asks: "What does the worst path cost that a search finds, for policies whose globs are hard to match, beside a \
               harmless path of the same length (4 KiB, or 60 KiB where it says so)?",
        records: &["hostile/"],
    },
    Question {
        name: "peers",
        asks: "What do others take for the same policy and the same cases, by the number of rules? All give the same \
               answers; how each is used, and what is left out of its time, is said in `benches/README.md`.",
        records: &["peers/"],
    },
    Question {
        name: "compile",
        asks: "What does a policy cost until it is active? `compile` starts from a policy as data, `load` from its \
               text, `reload` swaps keys or the whole under the caches of what was active; with the most memory \
               that is taken at once.",
        records: &["compile/", "load/", "reload/", "memory/"],
    },
    Question {
        name: "identity",
        asks: "What does it cost to know who is calling: with what was verified before, and with a token that is seen \
               for the first time, by algorithm?",
        records: &["identify/"],
    },
    Question {
        name: "paths",
        asks: "What does it cost to read a path in its canonical form, and in every other way in which it may be \
               read?",
        records: &["paths/"],
    },
    Question {
        name: "decode",
        asks: "What does reading a `CheckRequest` cost: ours, which borrows; prost with our own messages; \
               `envoy-types`?",
        records: &["decode/"],
    },
    Question { name: "encode", asks: "And writing a `CheckResponse`?", records: &["encode/"] },
    Question {
        name: "check",
        asks: "What does a whole `Check` cost without a socket: decode, judge, encode?",
        records: &["check/"],
    },
    Question {
        name: "wire",
        asks: "How many checks a second does the server alone answer, on one core, beside tonic that allows everything? \
               Two connections with 32 streams each; rounds are interleaved. `cpu` is the server's processor time of a \
               check, which the client's speed does not limit.",
        records: &["wire/"],
    },
];

/// The charts, by file name.
#[must_use]
pub(crate) fn drawings(records: &Records) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        AXES.iter().filter_map(|axis| Some((format!("decide-{axis}.svg"), decide(records, axis)?))).collect();
    all.extend(peers(records).map(|svg| ("peers.svg".into(), svg)));
    for name in ["compile", "identity", "paths", "decode", "encode", "check"] {
        let asked = QUESTIONS.iter().find(|it| it.name == name);
        let found = asked.map(|it| timed(records, it)).unwrap_or_default();
        let rows: Vec<(&str, &Record)> = found.iter().map(|it| (it.name.as_str(), *it)).collect();
        if !rows.is_empty() {
            all.push((format!("{name}.svg"), dots(name, "ns", &rows)));
        }
    }
    let rates: Vec<(&str, &Record)> =
        records.below("wire/").filter(|it| it.unit == "checks/s").map(|it| (it.name.as_str(), it)).collect();
    if !rates.is_empty() {
        all.push(("wire.svg".into(), dots("checks a second, one core", "checks/s, logarithmic", &rates)));
    }
    all
}

/// The page.
#[must_use]
pub(crate) fn page(
    records: &Records,
    verdicts: &[Verdict],
    drawings: &[(String, String)],
    about: &About,
) -> String {
    let mut page = String::from("# Results\n\nWritten by `make bench`; do not edit.\n\n");
    let About { machine, commit, date, compiler } = about;
    let _ = write!(
        page,
        "* machine: {machine}\n* commit: {commit}\n* date: {date}\n* compiler: {compiler}\n* every record: \
         [records.csv](records.csv)\n\nIn brackets is the spread: the lowest and the highest of the rounds; of \
         `compile` and `peers`, which have one, the 95 % confidence interval of the median.\n\n"
    );
    push_verdicts(&mut page, verdicts);
    for question in &QUESTIONS {
        push_question(&mut page, records, question, drawings);
    }
    page
}

fn push_verdicts(page: &mut String, verdicts: &[Verdict]) {
    page.push_str("## What was to be reached\n\n| | goal | measured | |\n|---|---|---|---|\n");
    for verdict in verdicts {
        let measured = verdict.measured.as_deref().unwrap_or("not measured in this run");
        let met = verdict.met.map_or("–", |met| if met { "met" } else { "**not met**" });
        let _ = writeln!(page, "| {} | {} | {measured} | {met} |", verdict.goal, verdict.wanted);
    }
    page.push_str(
        "\nP1 counts in checks a second, so a machine whose other core cannot ask fast enough shows less than the server \
         can. P2, P3, P7 and the reload under load of P6 are measured by `make load`: [load/report.txt](load/report.txt); P5 is \
         held by tests. [CONTRIBUTING.md](../../CONTRIBUTING.md#performance-goals) has all goals.\n\n",
    );
}

fn push_question(page: &mut String, records: &Records, question: &Question, drawings: &[(String, String)]) {
    let found: Vec<&Record> = of_question(records, question).collect();
    if found.is_empty() {
        return;
    }
    let _ = write!(page, "## {}\n\n{}\n\n", question.name, question.asks);
    for (file, _) in drawings {
        let stem = file.trim_end_matches(".svg");
        if stem == question.name || stem.strip_prefix(question.name).is_some_and(|it| it.starts_with('-')) {
            let _ = write!(page, "![{stem}]({file})\n\n");
        }
    }
    if question.name == "peers" {
        push_peers(page, records);
    }
    page.push_str("| | median |\n|---|---|\n");
    for record in found {
        let _ = writeln!(page, "| {} | {} |", record.name, time(record));
    }
    page.push('\n');
}

/// How many times faster rolegate is than its peers, by number of rules.
fn push_peers(page: &mut String, records: &Records) {
    let ours = records.curve("peers/rolegate");
    let numbers: Vec<String> = ours.iter().map(|(rules, _)| format!("{rules} rules")).collect();
    let _ = writeln!(page, "| times our median | {} |", numbers.join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(numbers.len()));
    for peer in names(records, "peers/").into_iter().filter(|it| *it != "rolegate") {
        let theirs = records.curve(&format!("peers/{peer}"));
        let ratio = |rules: f64, ours: &Record| {
            let found = theirs.iter().find(|(it, _)| *it == rules);
            found.map_or("–".into(), |(_, it)| format!("{:.1}", it.median / ours.median))
        };
        let ratios: Vec<String> = ours.iter().map(|(rules, ours)| ratio(*rules, ours)).collect();
        let _ = writeln!(page, "| {peer} | {} |", ratios.join(" | "));
    }
    page.push('\n');
}

fn of_question<'a>(records: &'a Records, question: &'a Question) -> impl Iterator<Item = &'a Record> {
    question.records.iter().flat_map(|start| records.below(start))
}

/// The records that are times.
fn timed<'a>(records: &'a Records, question: &'a Question) -> Vec<&'a Record> {
    of_question(records, question).filter(|it| it.unit == "ns").collect()
}

fn decide(records: &Records, axis: &str) -> Option<String> {
    let of = |kind: &str| records.curve(&format!("decide/{axis}/{kind}"));
    let both = [Line { label: "random", points: of("random") }, Line { label: "warm", points: of("warm") }];
    let title = format!("one decision, by {}", axis.replace('-', " "));
    let frame = Frame { title: &title, x: axis, y: "ns (median)", logarithmic: false, goal: Some(100.0) };
    both.iter().any(|it| !it.points.is_empty()).then(|| lines(frame, &both))
}

fn peers(records: &Records) -> Option<String> {
    let all: Vec<Line<'_>> = names(records, "peers/")
        .into_iter()
        .map(|label| Line { label, points: records.curve(&format!("peers/{label}")) })
        .collect();
    let frame = Frame {
        title: "one decision, by rules, beside others",
        x: "rules",
        y: "ns (median), logarithmic",
        logarithmic: true,
        goal: None,
    };
    (!all.is_empty()).then(|| lines(frame, &all))
}

/// The distinct names between `start` and the next slash.
fn names<'a>(records: &'a Records, start: &'a str) -> Vec<&'a str> {
    let rest = records.below(start).filter_map(|it| it.name.strip_prefix(start));
    let mut names: Vec<&str> = rest.filter_map(|it| it.split('/').next()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Spread;
    use crate::verdict::verdicts;

    #[test]
    fn a_page_has_each_record_and_each_drawing() {
        let mut records = Records::default();
        let named = [
            "decide/roles/warm/1",
            "decide/roles/warm/10",
            "peers/rolegate/10",
            "peers/casbin/10",
            "encode/ours/allowed",
        ];
        for name in named {
            let (name, unit) = (name.to_owned(), "ns".to_owned());
            let (median, low, high, mean) = (90.0, 80.0, 95.0, 91.0);
            records.insert(Record {
                name,
                unit,
                median,
                low,
                high,
                mean,
                samples: 10,
                spread: Spread::Confidence,
            });
        }
        let drawn = drawings(&records);
        let files: Vec<&str> = drawn.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["decide-roles.svg", "peers.svg", "encode.svg"]);
        let about = About { commit: "abc".into(), ..About::default() };
        let page = page(&records, &verdicts(&records), &drawn, &about);
        for name in named {
            assert!(page.contains(&format!("| {name} | 90.00 ns [80.00–95.00] |")), "{name}: {page}");
        }
        assert!(files.iter().all(|file| page.contains(&format!("({file})"))));
        assert!(
            page.contains("| casbin | 1.0 |") && page.contains("commit: abc") && !page.contains("## wire")
        );
    }
}
