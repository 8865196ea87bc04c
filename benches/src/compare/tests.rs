//! Tests the schedule, and the evaluation of known measurements.

use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use hdrhistogram::Histogram;
use load::{Address, Rate, histogram};
use serde_json::json;

use super::goals::Evidence;
use super::inside::Inside;
use super::record::{Latency, Record, Round};
use super::reload::{Reload, Windows};
use super::scenario::{Endpoint, Role, Scenario, Server};
use super::schedule::{Depth, Schedule};
use crate::verdict::Verdict;

fn peer(text: &str) -> Server {
    text.parse().unwrap()
}

fn depth(seconds: u64) -> Depth {
    let rates = [100.0, 1_000.0].map(Rate::Constant).into_iter().chain([Rate::Max]).collect();
    Depth {
        rates,
        rounds: 5,
        variant_rounds: 3,
        budget: Duration::from_secs(seconds),
        warmup: Duration::from_millis(150),
    }
}

#[test]
fn every_server_is_reached_in_every_way() {
    let servers =
        Server::all(&[peer("opa=127.0.0.1:9191,pid=7"), peer("other=unix:/run/other.sock")]);
    let all = Scenario::all(&servers, true, false);
    assert_eq!(all.len(), 2 + 4 * 4 + 2 * 2);
    let main: Vec<&str> = all
        .iter()
        .filter(|scenario| scenario.main)
        .map(|scenario| scenario.name.as_str())
        .collect();
    let names = [
        "app",
        "Envoy, no ext_authz",
        "+ rolegate, allows everything",
        "+ rolegate, Basic",
        "+ rolegate, JWT",
        "+ baseline",
        "+ opa",
        "+ other",
    ];
    assert_eq!(main, names);
    assert_eq!(Scenario::all(&servers, false, false).len(), names.len());
    let mut distinct: Vec<&String> = all.iter().map(|scenario| &scenario.name).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), all.len(), "two scenarios have one name");
}

#[test]
fn a_peer_is_a_name_and_an_address() {
    let address = Address::Tcp("127.0.0.1".to_owned(), 9191);
    assert_eq!(
        peer("opa=127.0.0.1:9191,pid=7").role,
        Role::Peer { address: address.clone(), process: Some(7), header_map: false }
    );
    let of_maps = peer("opa=127.0.0.1:9191,headers=map");
    assert_eq!(of_maps.role, Role::Peer { address, process: None, header_map: true });
    assert!(!of_maps.takes_raw_headers());
    for wrong in [
        "",
        "opa",
        "=127.0.0.1:1",
        "opa=",
        "opa=nowhere",
        "opa=127.0.0.1:1,pid=x",
        "opa=127.0.0.1:1,headers=all",
    ] {
        assert!(wrong.parse::<Server>().is_err(), "{wrong}");
    }
}

#[test]
fn rounds_are_interleaved_and_fit_into_their_time() {
    let scenarios = Scenario::all(&Server::all(&[]), true, false);
    let schedule = Schedule::new(&scenarios, &depth(600)).unwrap();
    let main = scenarios.iter().filter(|scenario| scenario.main).count();
    assert_eq!(schedule.cells.len(), 3 * (5 * main + 3 * (scenarios.len() - main)));
    assert!(schedule.total() <= Duration::from_secs(600), "{:?}", schedule.total());
    assert!(schedule.total() >= Duration::from_secs(590), "{:?} is left unused", schedule.total());
    let order: Vec<(usize, usize)> =
        schedule.cells.iter().map(|cell| (cell.round, cell.rate)).collect();
    assert!(order.is_sorted(), "a round begins before the one before it has ended");
    let begins = |round| schedule.cells.iter().find(|cell| cell.round == round).unwrap().scenario;
    assert_ne!(begins(0), begins(1), "each round begins with another scenario");
    assert!(schedule.cells.iter().all(|cell| cell.duration == schedule.cells[0].duration));
}

#[test]
fn a_plan_that_does_not_fit_is_rejected_with_the_time_it_needs() {
    let scenarios = Scenario::all(&Server::all(&[]), true, false);
    let why = Schedule::new(&scenarios, &depth(30)).unwrap_err().to_string();
    assert!(why.contains("198 measurements do not fit into 30 s; they need "), "{why}");
    let few =
        Schedule::new(&scenarios[..2], &Depth { rates: vec![Rate::Max], rounds: 1, ..depth(600) })
            .unwrap();
    assert!(few.total() < Duration::from_secs(25), "nothing is measured for minutes: {few:?}");
}

#[test]
fn the_shipped_plans_fit() {
    for (quick, most) in [(true, 95), (false, 800)] {
        let matches = super::CompareArgs::augment_args(clap::Command::new("compare"))
            .get_matches_from(["compare", "--peer", "opa=127.0.0.1:9191"]);
        let args =
            super::CompareArgs { quick, ..super::CompareArgs::from_arg_matches(&matches).unwrap() };
        let plan = super::Comparison::planned(&args).unwrap();
        assert!(plan.schedule.total() <= Duration::from_secs(most), "{:?}", plan.schedule.total());
    }
}

#[test]
fn what_came_meanwhile_is_the_difference_of_two_readings() {
    let page = |value| Inside::read(&value).unwrap();
    let earlier = page(
        json!({"handler": {"unit": "ns", "buckets": [[1000, 3]]}, "evaluation": {"buckets": []}}),
    );
    let later = page(
        json!({"handler": {"buckets": [[1000, 5], [2000, 1]]}, "evaluation": {"buckets": [[90, 4]]}}),
    );
    let (mut handler, mut evaluation) = (histogram(), histogram());
    later.add_since(&earlier, &mut handler, &mut evaluation);
    let counts = |of: &Histogram<u64>| {
        of.iter_recorded().map(|bucket| bucket.count_at_value()).collect::<Vec<_>>()
    };
    assert_eq!((counts(&handler), counts(&evaluation)), (vec![2, 1], vec![4]));
    assert_eq!(Inside::read(&json!(null)), None);
}

/// A record in which each round is twice as slow as the one before it, but all ratios within a
/// round are the same.
fn record(scenarios: &[Scenario], rates: &[Rate]) -> Record {
    let mut record = Record::default();
    for (index, scenario) in scenarios.iter().enumerate() {
        for (rate, asked) in rates.iter().enumerate() {
            for number in 0..3 {
                let slow = f64::from(1 << number);
                let time =
                    100_000.0 * slow * if scenario.name.contains("baseline") { 3.0 } else { 2.0 };
                let time =
                    if scenario.endpoint == Endpoint::Envoy { 100_000.0 * slow } else { time };
                let latency = Latency { mean: time, p50: time, p90: time, p99: 2.0 * time };
                let achieved =
                    if let Rate::Constant(constant) = asked { *constant } else { 1e9 / time };
                let mut round = Round { number, achieved, latency, ..Round::default() };
                round.parts[2].resident = 20 << 20;
                round.parts[2].cores = 0.3;
                record.entry(index, rate).rounds.push(round);
            }
        }
    }
    record
}

/// A reload at which all latencies of a window are the same.
fn reload(reloading: u64, quiet: [u64; 2]) -> Reload {
    let windows = |values: [u64; 2]| {
        let mut windows = Windows::default();
        for value in values {
            let mut latencies = histogram();
            latencies.record_n(value, 1_000).unwrap();
            windows.add(&latencies);
        }
        windows
    };
    let (quiet, reloading) = (windows(quiet), windows([reloading, reloading]));
    Reload { requests: 10, quiet, reloading, ..Reload::default() }
}

fn verdicts(of: impl Fn(&Verdict) -> bool) -> Vec<Verdict> {
    let servers = Server::all(&[peer("opa=127.0.0.1:1")]);
    let scenarios = Scenario::all(&servers, true, false);
    let rates = [Rate::Constant(1_000.0), Rate::Constant(5_000.0), Rate::Max];
    let record = record(&scenarios, &rates);
    let reload = reload(1_000, [1_000, 1_000]);
    let evidence = Evidence {
        scenarios: &scenarios,
        servers: &servers,
        rates: &rates,
        record: &record,
        ready: &[8e6],
        reload: Some(&reload),
    };
    evidence.verdicts().into_iter().filter(of).collect()
}

#[test]
fn ratios_are_taken_within_a_round() {
    let p2 = verdicts(|verdict| verdict.goal == "P2");
    assert_eq!(p2.len(), 2, "{p2:?}");
    assert_eq!(
        (p2[0].measured.as_deref(), p2[0].reached),
        (Some("1.500 × (1.500–1.500)"), Some(true))
    );
    assert_eq!((p2[1].limit.to_string().as_str(), p2[1].reached), ("≥ 2.8 ×", Some(false)));
    let p3 = verdicts(|verdict| verdict.goal == "P3");
    assert_eq!(p3.len(), 4, "{p3:?}");
    assert!(
        p3[0].measured.as_deref().unwrap().starts_with("0.500 × ") && p3[0].reached == Some(true),
        "{p3:?}"
    );
    assert!(
        p3[1].measured.as_deref().unwrap().starts_with("1.000 × ") && p3[1].reached == Some(false),
        "{p3:?}"
    );
}

#[test]
fn a_round_in_which_the_other_adds_nothing_counts_against_rolegate() {
    let servers = Server::all(&[]);
    let scenarios = Scenario::all(&servers, true, false);
    let rates = [Rate::Constant(1_000.0)];
    let mut record = record(&scenarios, &rates);
    for (number, scenario) in
        scenarios.iter().enumerate().filter(|(_, scenario)| scenario.name.contains("baseline"))
    {
        for round in record.entry(number, 0).rounds.iter_mut().take(2) {
            round.latency = Latency { mean: 1.0, p50: 1.0, p90: 1.0, p99: 1.0 };
        }
        assert!(scenario.endpoint != Endpoint::Envoy);
    }
    let evidence = Evidence {
        scenarios: &scenarios,
        servers: &servers,
        rates: &rates,
        record: &record,
        ready: &[],
        reload: None,
    };
    let p3: Vec<_> =
        evidence.verdicts().into_iter().filter(|verdict| verdict.goal == "P3").collect();
    assert!(p3.len() == 2 && p3.iter().all(|verdict| verdict.reached == Some(false)), "{p3:?}");
    assert_eq!(p3[0].measured.as_deref(), Some("inf × (0.500–inf)"));
}

#[test]
fn a_goal_that_is_missed_is_said_to_be() {
    let p7 = verdicts(|verdict| verdict.goal == "P7");
    assert_eq!(
        p7.iter().map(|verdict| verdict.reached).collect::<Vec<_>>(),
        [Some(true), Some(false), Some(true)],
        "{p7:?}"
    );
}

#[test]
fn a_reload_is_compared_with_all_windows_beside_it() {
    let reached = |reload: Reload| {
        reload.verdicts().iter().map(|verdict| verdict.reached).collect::<Vec<_>>()
    };
    assert_eq!(reached(reload(1_500, [1_000, 1_000])), [Some(true), Some(true)]);
    assert_eq!(reached(reload(2_500, [1_000, 1_000])), [Some(true), Some(false)]);
    let failed = Reload { failed: 1, ..reload(1_500, [1_000, 1_000]) };
    assert_eq!(reached(failed), [Some(false), Some(false)]);
    assert_eq!(
        reached(reload(1_500, [1_000, 9_000])),
        [Some(true), None],
        "the machine was too noisy"
    );
}
