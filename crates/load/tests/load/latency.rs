//! Latencies: what the generator finds is what the server did.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use load::{Answer, Plan, Rate, RunResults, run};

use crate::server::{Act, Server};

/// How often a test may be spoilt by what else the machine does.
const ATTEMPTS: usize = 4;

fn plan(server: &Server) -> Plan {
    Plan::http(&server.url("/")).unwrap()
}

fn at(of: &Histogram<u64>, percent: f64) -> Duration {
    Duration::from_nanos(of.value_at_percentile(percent))
}

/// Measures until the results are right. A wrong figure would be wrong each time.
fn until_right(measure: impl Fn() -> RunResults, is_right: impl Fn(&RunResults) -> bool) {
    let mut spoilt = Vec::new();
    for _ in 0..ATTEMPTS {
        let results = measure();
        if is_right(&results) {
            return;
        }
        spoilt.push(results.generator);
    }
    panic!("{spoilt:?}");
}

/// 90 % after 100 ms, 9 % after 300 ms, 1 % after 1 s.
fn programmed(number: u64) -> Act {
    Act::answer(
        200,
        Duration::from_millis(match number % 100 {
            99 => 1000,
            90..=98 => 300,
            _ => 100,
        }),
    )
}

/// The percentiles of the server's own record, beside those that were measured.
fn compared(results: &RunResults, server: &Server) -> Vec<(f64, Duration, Duration)> {
    let took = server.took();
    // Not at the steps themselves, where one request more or less is another step.
    [250_u16, 500, 750, 850, 920, 950, 980, 995]
        .map(|permille| {
            let rank = (took.len() * usize::from(permille)).div_ceil(1000);
            let percent = f64::from(permille) / 10.0;
            (percent, *took.get(rank - 1).unwrap(), at(&results.uncorrected, percent))
        })
        .to_vec()
}

/// What else the machine does may spoil one percentile or another, and more of them on a busy one.
/// A wrong figure would be wrong each time, so each percentile must be found within the bounds at
/// least once.
#[test]
fn percentiles_are_those_of_the_server() {
    let mut spoilt: BTreeMap<String, (Duration, Duration)> = BTreeMap::new();
    for attempt in 0..6 {
        let server = Server::start(programmed);
        let requests = Some(400);
        let plan =
            Plan { rate: Rate::Max, connections: 40, requests, duration: None, ..plan(&server) };
        let results = run(&plan).unwrap();
        assert_eq!((results.corrected.len(), server.requests()), (400, 400));
        for (percent, did, found) in compared(&results, &server) {
            let name = percent.to_string();
            if found >= did.mul_f64(0.99) && found <= did.mul_f64(1.02) {
                spoilt.remove(&name);
            } else if attempt == 0 || spoilt.contains_key(&name) {
                spoilt.insert(name, (did, found));
            }
        }
        if spoilt.is_empty() {
            return;
        }
    }
    panic!("percentile, server, found: {spoilt:?}");
}

#[test]
fn a_stall_is_in_the_corrected_figure_and_not_in_the_other() {
    let measure = || {
        let stall = Duration::from_millis(400);
        let server = Server::stalling(|_| Act::answer(200, Duration::ZERO), Some((100, stall)));
        let duration = Some(Duration::from_secs(2));
        let plan = Plan { rate: Rate::Constant(200.0), connections: 2, duration, ..plan(&server) };
        run(&plan).unwrap()
    };
    until_right(measure, |results| {
        let corrected = |percent| at(&results.corrected, percent);
        let uncorrected = |percent| at(&results.uncorrected, percent);
        // 80 requests were due in those 400 ms; at most two of them were under way.
        results.corrected.len() == 400
            && corrected(99.0) > Duration::from_millis(340)
            && corrected(90.0) > Duration::from_millis(150)
            && uncorrected(100.0) >= Duration::from_millis(399)
            && uncorrected(99.0) < Duration::from_millis(100)
            && results.generator.queued >= 60
    });
}

#[test]
fn a_rate_is_kept_whatever_the_server_does() {
    let measure = || {
        let server = Server::start(|_| Act::answer(200, Duration::from_millis(50)));
        let (connections, duration) = (40, Some(Duration::from_secs(1)));
        let plan = Plan { rate: Rate::Constant(300.0), connections, duration, ..plan(&server) };
        run(&plan).unwrap()
    };
    until_right(measure, |results| {
        results.corrected.len() == 300
            && results.generator.unsent == 0
            && (250.0..=300.1).contains(&results.generator.achieved)
    });
}

#[test]
fn what_a_server_is_too_slow_for_is_counted() {
    let measure = || {
        let server = Server::start(|_| Act::answer(200, Duration::from_millis(100)));
        let duration = Some(Duration::from_secs(1));
        let plan = Plan { rate: Rate::Constant(100.0), connections: 2, duration, ..plan(&server) };
        let results = run(&plan).unwrap();
        assert_eq!(results.corrected.len() + results.generator.unsent, 100);
        results
    };
    until_right(measure, |results| {
        let generator = &results.generator;
        // On a busy machine one of twenty requests may be late, which is said. The generator is not
        // the limit.
        let is_busy = |why: &str| why.starts_with("the machine was busy");
        // Two slots, ten responses per second each.
        (10..=20).contains(&results.corrected.len())
            && generator.achieved < 21.0
            && generator.limited.as_deref().is_none_or(is_busy)
            && at(&results.corrected, 100.0) > Duration::from_millis(500)
    });
}

#[test]
fn a_ramp_sends_as_many_as_its_area() {
    let server = Server::start(|_| Act::answer(200, Duration::ZERO));
    let (rate, duration) = (Rate::Ramp { from: 0.0, to: 400.0 }, Some(Duration::from_secs(1)));
    let results = run(&Plan { rate, duration, threads: 2, ..plan(&server) }).unwrap();
    assert_eq!(results.corrected.len() + results.generator.unsent, 200);
}

#[test]
fn the_warm_up_is_in_no_figure() {
    let warmup = Duration::from_millis(300);
    let server =
        Server::start(|number| Act::answer(if number < 30 { 500 } else { 200 }, Duration::ZERO));
    // With more connections a late request of the warm-up could arrive after the first that counts.
    let (requests, connections) = (Some(50), 1);
    let rate = Rate::Constant(100.0);
    let plan = Plan { rate, warmup, requests, connections, duration: None, ..plan(&server) };
    let results = run(&plan).unwrap();
    assert_eq!((results.corrected.len(), server.requests()), (50, 80));
    assert_eq!(results.responses.keys().collect::<Vec<_>>(), [&Answer::Status(200)]);
}

#[test]
fn a_count_is_kept_exactly_by_any_number_of_threads() {
    for (rate, threads) in [(Rate::Max, 1), (Rate::Max, 3), (Rate::Constant(2000.0), 3)] {
        let server = Server::start(|_| Act::answer(200, Duration::ZERO));
        let requests = Some(501);
        let plan = Plan { rate, threads, requests, duration: None, ..plan(&server) };
        let results = run(&plan).unwrap();
        assert_eq!((results.requests(), server.requests()), (501, 501), "{rate} by {threads}");
    }
}
