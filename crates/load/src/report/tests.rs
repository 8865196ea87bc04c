//! Writes a known run in every format and reads it back.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::svg::{self, Axis, Chart, Curve, Line, Point};
use super::{PERCENTILES, csv, fortio, hgrm, html, percentile, text, units};
use crate::answer::Answer;
use crate::plan::{Plan, Rate};
use crate::results::{GeneratorStats, RunResults, histogram};

/// 10,000 answers after 1 to 10,000 µs, one in a hundred of them with 403, and two lost
/// connections.
fn run() -> RunResults {
    let (mut corrected, mut uncorrected) = (histogram(), histogram());
    let (mut fine, mut denied) = (histogram(), histogram());
    for at in 1..=10_000_u64 {
        corrected.record(at * 1_000).unwrap();
        uncorrected.record(at * 500).unwrap();
        if at % 100 == 0 { &mut denied } else { &mut fine }.record(at * 1_000).unwrap();
    }
    RunResults {
        target: "http://127.0.0.1:1/people?a=<b>&c".to_owned(),
        rate: Rate::Constant(1_000.0),
        started: SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_323_199_250),
        elapsed: Duration::from_secs(10),
        corrected,
        uncorrected,
        responses: BTreeMap::from([(Answer::Status(200), fine), (Answer::Status(403), denied)]),
        errors: BTreeMap::from([("connection closed, by the server".into(), 2)]),
        unexpected: 100,
        bytes_sent: 1_500_000,
        bytes_received: 2_500_000,
        generator: GeneratorStats {
            achieved: 1_000.0,
            late: 3,
            cpu: Duration::from_secs(1),
            threads: 1,
            ..GeneratorStats::default()
        },
        ..RunResults::empty(&Plan::http("http://127.0.0.1:1/").unwrap(), SystemTime::UNIX_EPOCH)
    }
}

/// Equal up to the precision of three significant digits.
fn close(got: f64, wanted: f64) -> bool {
    (got - wanted).abs() <= wanted * 0.001 + 1e-9
}

#[test]
fn the_table_says_what_was_measured() {
    let text = text(&run());
    for line in [
        "HTTP/1.1, 1,000 requests/s requested, 8 connections, 10.0 s",
        "  answers                10,000\n",
        "  errors                      2\n",
        "  mean                  5.00 ms      2.50 ms\n",
        "  p50 (median)          5.00 ms      2.50 ms\n",
        "  p99                   9.90 ms      4.95 ms\n",
        "  p99.999                     –            –\n",
        "  403       100   1.00 %",
        "  connection closed, by the server      2\n",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(!text.contains("!!"), "a warning without a reason:\n{text}");
}

#[test]
fn the_warning_is_loud_and_last() {
    let mut run = run();
    run.generator.limited = Some("asked for 1,000/s, sent 700/s".to_owned());
    let text = text(&run);
    assert!(
        text.ends_with("\n!! Do not trust these figures: asked for 1,000/s, sent 700/s\n"),
        "{text}"
    );
    assert!(html(&run).contains("class=\"warning\""));
}

#[test]
fn an_empty_run_has_no_figures_and_breaks_nothing() {
    let mut run = run();
    (run.corrected, run.uncorrected) = (histogram(), histogram());
    run.responses.clear();
    assert!(text(&run).contains("  mean                        –            –"));
    assert_eq!(fortio(&run, "")["DurationHistogram"]["Count"], 0);
    assert!(hgrm(&run.corrected).contains("Total count    =            0"));
    assert!(!csv(&run).contains("corrected,p50"));
    assert!(html(&run).ends_with("</html>\n"));
}

#[test]
fn fortio_reads_its_own_fields() {
    let run = run();
    let all = fortio(&run, "people");
    assert_eq!(all["RunType"], "HTTP");
    assert_eq!(all["Labels"], "people");
    assert_eq!(all["StartTime"], "2026-02-28T23:59:59.250Z");
    assert_eq!(all["RequestedQPS"], "1000");
    assert_eq!(all["ActualDuration"], 10_000_000_000_u64);
    assert_eq!(
        (&all["RetCodes"]["403"], &all["RetCodes"]["-1"]),
        (&Value::from(100), &Value::from(2))
    );
    assert_eq!(all["ErrorsDurationHistogram"]["Count"], 100);
    let histogram = &all["DurationHistogram"];
    assert!(close(histogram["Avg"].as_f64().unwrap(), 0.005_000_5));
    let percentiles = histogram["Percentiles"].as_array().unwrap();
    let median = percentiles.iter().find(|entry| entry["Percentile"] == 50.0).unwrap();
    assert!(close(median["Value"].as_f64().unwrap(), 0.005));
}

#[test]
fn the_buckets_of_fortio_are_few_ascending_and_complete() {
    let all = fortio(&run(), "");
    let data = all["DurationHistogram"]["Data"].as_array().unwrap();
    assert!((50..500).contains(&data.len()), "{}", data.len());
    let (mut end, mut count) = (0.0, 0);
    for bucket in data {
        let (start, to) = (bucket["Start"].as_f64().unwrap(), bucket["End"].as_f64().unwrap());
        assert!(start >= end && to >= start, "{bucket} after {end}");
        assert!(to <= start * 1.04 || to < 40e-6, "{bucket} is too wide");
        end = to;
        count += bucket["Count"].as_u64().unwrap();
        assert!(close(bucket["Percent"].as_f64().unwrap(), units::float(count) / 100.0));
    }
    assert_eq!(count, 10_000);
}

#[test]
fn hgrm_holds_the_whole_distribution() {
    let run = run();
    let text = hgrm(&run.corrected);
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(|number| number.parse().unwrap()).collect())
        .collect();
    assert!(rows.len() > 40, "{text}");
    for pair in rows.windows(2) {
        assert!(
            pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1] && pair[0][2] <= pair[1][2],
            "{pair:?}"
        );
    }
    let median = rows.iter().find(|row| row[1] >= 0.5).unwrap();
    assert!(close(median[0], 5.0) && close(median[3], 2.0), "{median:?}");
    let last = rows.last().unwrap();
    assert!(close(last[0], 10.0) && last[1..] == [1.0, 10_000.0], "{last:?}");
    assert!(text.contains("SubBuckets     =         2048]"));
}

#[test]
fn csv_is_read_back() {
    let text = csv(&run());
    let value = |series: &str, figure: &str| {
        let start = format!("{series},{figure},");
        text.split("\r\n").find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    assert_eq!(value("run", "rate").as_deref(), Some("1000/s"));
    assert!(close(value("corrected", "p99").unwrap().parse().unwrap(), 9_900_000.0));
    assert!(close(value("uncorrected", "p99").unwrap().parse().unwrap(), 4_950_000.0));
    assert_eq!(value("answer 403", "count").as_deref(), Some("100"));
    assert_eq!(
        value("corrected", "p99.999"),
        None,
        "10,000 requests say nothing of one in 100,000"
    );
    assert!(text.contains("error,\"connection closed, by the server\",2\r\n"));
}

#[test]
fn the_page_needs_nothing_beside_itself() {
    let page = html(&run());
    assert!(page.contains("http://127.0.0.1:1/people?a=&lt;b&gt;&amp;c"));
    assert_eq!(
        page.matches("<path class=\"curve").count(),
        4,
        "two curves, each also in the legend"
    );
    for mark in ["<script", "<link", "src=", "href=", "@import", "url(", "NaN", "inf"] {
        assert!(!page.contains(mark), "the page contains `{mark}`");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    for tag in ["table", "tr", "td", "th", "svg", "figure", "div", "main", "text"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}> is not closed");
    }
}

#[test]
fn a_percentile_needs_requests_beyond_it() {
    let run = run();
    for percent in PERCENTILES {
        let known = percentile(&run.corrected, percent).is_some();
        assert_eq!(known, percent != 99.999, "{percent}");
    }
    assert_eq!(percentile(&histogram(), 50.0), None);
}

#[test]
fn numbers_are_for_people() {
    let durations = [
        (0.0, "0 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (213_000.0, "213 µs"),
        (9_996_000.0, "10.0 ms"),
    ];
    for (value, text) in durations {
        assert_eq!(units::duration(value), text);
    }
    assert_eq!(units::count(1_234_567), "1,234,567");
    assert_eq!(units::count(123), "123");
    assert_eq!(units::bytes(3_250_586), "3.10 MiB");
    assert_eq!(units::microseconds(Some(1_234.0)), "1.2");
    assert_eq!(units::microseconds(Some(1_234_567_000.0)), "1,234,567");
    assert_eq!(units::microseconds(None), "–");
}

#[test]
fn a_picture_that_stands_alone_has_its_legend_and_needs_nothing() {
    let run = run();
    let curves = ["one", "a < b", "three", "four"].map(|name| Curve { name, of: &run.corrected });
    let picture = svg::percentiles("Latency & more", &curves).unwrap().file();
    assert!(
        picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")
            && picture.ends_with("</svg>\n")
    );
    assert!(
        picture.contains(">Latency &amp; more</text>") && picture.contains(">a &lt; b</text>"),
        "{picture}"
    );
    assert_eq!(picture.matches("<path class=\"curve c3\"").count(), 2, "a curve and its key");
    assert!(!picture.contains("href") && !picture.contains("url("));
    assert!(svg::percentiles("Nothing", &[Curve { name: "empty", of: &histogram() }]).is_none());
}

#[test]
fn a_chart_has_each_point_with_its_spread() {
    let point = |x, y| Point {
        at: (x, y),
        spread: Some([(x, y * 0.9), (x, y * 1.1)]),
        label: String::new(),
    };
    let shown = |value: f64| value.to_string();
    let (x, y) = ([1.0, 1_000.0], [100.0, 120.0]);
    let chart = Chart {
        title: "a < b",
        x: Axis::logarithmic("rules", x.into_iter(), &shown),
        y: Axis::linear("ns", y.into_iter(), &shown),
        size: svg::DEFAULT_SIZE,
        lines: vec![Line {
            name: "ours",
            points: vec![point(1.0, 100.0), point(1_000.0, 120.0)],
            connected: true,
        }],
    };
    let svg = chart.file();
    assert_eq!(svg.matches("<circle").count(), 2);
    assert!(svg.contains(">ours<") && svg.contains("a &lt; b") && svg.contains(">rules<"));
    let empty = Axis::logarithmic("", [].into_iter(), &shown);
    let one = Axis::logarithmic("", [10.0].into_iter(), &shown);
    let lines = vec![Line { name: "one", points: vec![point(10.0, 10.0)], connected: false }];
    let svg = svg + &Chart { x: one, y: empty, lines, ..chart }.inline();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}
