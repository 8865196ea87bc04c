//! Thresholds on the results of a run.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use hdrhistogram::Histogram;

use super::Threshold;
use crate::answer::Answer;
use crate::plan::Plan;
use crate::results::{GeneratorStats, RunResults, histogram};

fn latencies(count: u64) -> Histogram<u64> {
    let mut latencies = histogram();
    latencies.record_n(1_000_000, count).unwrap();
    latencies
}

/// 99 responses after 1 ms, one after 10 ms, and four errors; ten of the responses have status 403.
fn results() -> RunResults {
    let mut corrected = histogram();
    corrected.record_n(1_000_000, 99).unwrap();
    corrected.record(10_000_000).unwrap();
    RunResults {
        uncorrected: corrected.clone(),
        corrected,
        responses: BTreeMap::from([
            (Answer::Status(200), latencies(90)),
            (Answer::Status(403), latencies(10)),
        ]),
        errors: BTreeMap::from([("timeout".into(), 3), ("connection closed".into(), 1)]),
        unexpected: 10,
        generator: GeneratorStats { achieved: 100.0, ..GeneratorStats::default() },
        ..RunResults::empty(&Plan::http("http://app/").unwrap(), UNIX_EPOCH)
    }
}

#[test]
fn a_threshold_is_true_when_its_metric_is_beyond_it() {
    for text in [
        "p99.9>5ms",
        "max>=10ms",
        "mean>1ms",
        "median<2ms",
        "p50 <= 1.1ms",
        "errors>0",
        "errors>3%",
        "rate<101",
        "unexpected>9",
        "status 403>0",
        "status 403 > 9%",
        "allowed<1",
        "min<1001us",
    ] {
        assert!(text.parse::<Threshold>().unwrap().is_true(&results()), "{text}");
    }
}

#[test]
fn and_not_else() {
    for text in [
        "p99>5ms",
        "max>11ms",
        "mean>2ms",
        "errors>4",
        "errors>4%",
        "rate<100",
        "unexpected>10",
        "status 500>0",
        "denied 403>0",
    ] {
        assert!(!text.parse::<Threshold>().unwrap().is_true(&results()), "{text}");
    }
}

#[test]
fn a_status_is_also_that_of_a_check_call() {
    let mut results = results();
    results.responses =
        BTreeMap::from([(Answer::Allowed, latencies(90)), (Answer::Denied(403), latencies(10))]);
    for text in ["status 403>9", "denied 403>9", "status 200>89", "allowed>89"] {
        assert!(text.parse::<Threshold>().unwrap().is_true(&results), "{text}");
    }
    assert!(!"status 403>10".parse::<Threshold>().unwrap().is_true(&results));
}

#[test]
fn a_run_without_an_answer_is_not_fast() {
    let mut nothing = results();
    nothing.corrected.reset();
    for text in ["p99>5ms", "mean>5ms", "p50<1s"] {
        assert!(text.parse::<Threshold>().unwrap().is_true(&nothing), "{text}");
    }
}

#[test]
fn an_invalid_condition_is_rejected() {
    for text in [
        "",
        "p99",
        "p99>",
        "p99>5",
        "p101>5ms",
        "errors>5ms",
        "speed>1",
        "rate<5%",
        "status x>0",
        "errors>-1",
        ">5",
    ] {
        assert!(text.parse::<Threshold>().is_err(), "{text}");
    }
    let error = "speed>1".parse::<Threshold>().unwrap_err().to_string();
    assert!(error.starts_with("`speed` is not a metric; use one of `p99`, "), "{error}");
}
