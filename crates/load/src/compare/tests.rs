//! Tests the schedule, and the evaluation of known measurements.

use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::ask::Inside;
use super::document::{self, Part, table};
use super::pin::{Pin, Pins};
use super::proxy::{self, Asked};
use super::record::{Latency, Record, Round, Spread, median_within};
use super::reload::Reload;
use super::scenario::{Client, Endpoint, Role, Scenario, Server, Transport};
use super::schedule::{Depth, Schedule};
use super::verdict::{Evidence, Verdict};
use crate::{Address, Rate, histogram};

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
    let servers = Server::all(&[peer("opa=127.0.0.1:9191,pid=7"), peer("other=unix:/run/other.sock")]);
    let all = Scenario::all(&servers, true);
    assert_eq!(all.len(), 2 + 4 * 4 + 2 * 2);
    let main: Vec<&str> = all.iter().filter(|it| it.main).map(|it| it.name.as_str()).collect();
    let names = [
        "app",
        "app + Envoy",
        "+ authz NOP",
        "+ authz RBAC (Basic)",
        "+ authz RBAC (JWT)",
        "+ always-allow tonic",
        "+ opa",
        "+ other",
    ];
    assert_eq!(main, names);
    assert_eq!(Scenario::all(&servers, false).len(), names.len());
    let mut distinct: Vec<&String> = all.iter().map(|it| &it.name).collect();
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
    let scenarios = Scenario::all(&Server::all(&[]), true);
    let schedule = Schedule::new(&scenarios, &depth(600)).unwrap();
    let main = scenarios.iter().filter(|it| it.main).count();
    assert_eq!(schedule.cells.len(), 3 * (5 * main + 3 * (scenarios.len() - main)));
    assert!(schedule.total() <= Duration::from_secs(600), "{:?}", schedule.total());
    assert!(schedule.total() >= Duration::from_secs(590), "{:?} is left unused", schedule.total());
    let order: Vec<(usize, usize)> = schedule.cells.iter().map(|it| (it.round, it.rate)).collect();
    assert!(order.is_sorted(), "a round begins before the one before it has ended");
    let begins = |round| schedule.cells.iter().find(|it| it.round == round).unwrap().scenario;
    assert_ne!(begins(0), begins(1), "each round begins with another scenario");
    assert!(schedule.cells.iter().all(|it| it.duration == schedule.cells[0].duration));
}

#[test]
fn stolen_time_is_a_part_of_all_time() {
    let at = |text: &str| super::procfs::Ticks::read(text);
    let before = at("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
    let after = at("cpu  150 0 70 900 10 0 5 65 9 0\ncpu0 1 1 1 1 1 1 1 1\n");
    assert!((after.stolen_since(before) - 15.0).abs() < 1e-9);
    assert_eq!(at("").stolen_since(at("")).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn what_does_not_fit_is_refused_with_the_time_it_needs() {
    let scenarios = Scenario::all(&Server::all(&[]), true);
    let why = Schedule::new(&scenarios, &depth(30)).unwrap_err();
    assert!(why.starts_with("198 measurements do not fit into 30 s; they need "), "{why}");
    let few =
        Schedule::new(&scenarios[..2], &Depth { rates: vec![Rate::Max], rounds: 1, ..depth(600) }).unwrap();
    assert!(few.total() < Duration::from_secs(25), "nothing is measured for minutes: {few:?}");
}

#[test]
fn the_shipped_plans_fit() {
    for (quick, most) in [(true, 95), (false, 800)] {
        let args = super::CompareArgs {
            out: std::path::PathBuf::new(),
            quick,
            peers: vec![peer("opa=127.0.0.1:9191")],
            budget: None,
            rounds: None,
            rates: Vec::new(),
            no_variants: false,
            no_reload: false,
            pin: Pin::Cores,
        };
        let plan = super::Comparison::planned(&args).unwrap();
        assert!(plan.schedule.total() <= Duration::from_secs(most), "{:?}", plan.schedule.total());
    }
}

#[test]
fn cores_are_shared_out_alike() {
    assert_eq!(Pins::of(Pin::None, &[0, 1]), Pins { pod: None, outside: None });
    assert_eq!(Pins::of(Pin::Cores, &[3]), Pins { pod: None, outside: None });
    assert_eq!(Pins::of(Pin::Cores, &[0, 1]), Pins { pod: Some(vec![0]), outside: Some(vec![1]) });
    let eight: Vec<usize> = (0..8).collect();
    assert_eq!(Pins::of(Pin::Cores, &eight).pod, Some(vec![0, 1]));
}

#[test]
fn envoy_is_told_what_ships() {
    let servers = Server::all(&[]);
    let scenarios = Scenario::all(&servers, true);
    let app: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    let config = proxy::config(&scenarios, app, &|endpoint| match endpoint {
        Endpoint::Check { transport: Transport::Tcp, .. } => {
            Some(Asked { address: Address::Tcp("127.0.0.1".into(), 9191), raw_headers: true })
        }
        Endpoint::Check { .. } => {
            Some(Asked { address: Address::Unix("/run/r.sock".into()), raw_headers: true })
        }
        _ => None,
    });
    let text = config.to_string();
    let asking = scenarios.iter().filter(|it| it.server().is_some()).count();
    assert_eq!(text.matches("\"failure_mode_allow\":false").count(), asking);
    assert_eq!(text.matches("\"encode_raw_headers\":true").count(), asking);
    let by = |client| {
        let of = |it: &&Scenario| matches!(it.endpoint, Endpoint::Check { client: its, .. } if its == client);
        scenarios.iter().filter(of).count()
    };
    assert_eq!(text.matches("\"envoy_grpc\"").count(), by(Client::Envoy));
    assert_eq!(text.matches("\"target_uri\":\"unix:/run/r.sock\"").count(), by(Client::Google) / 2);
    let listeners = config["static_resources"]["listeners"].as_array().unwrap();
    assert_eq!(listeners.len(), scenarios.len() - 1, "the application alone has none");
}

#[test]
fn a_spread_is_the_middle_and_both_ends() {
    assert_eq!(Spread::of(vec![]), None);
    assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
    assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
}

#[test]
fn a_median_is_as_sure_as_its_rounds_make_it() {
    let figures = |many: u32| (1..=many).map(f64::from).collect::<Vec<_>>();
    // From tables of the binomial distribution: the probability of at most this many heads among n coins is at most 2.5
    // %.
    for (many, within) in
        [(0, None), (5, None), (6, Some((1.0, 6.0))), (9, Some((2.0, 8.0))), (10, Some((2.0, 9.0)))]
    {
        assert_eq!(median_within(&figures(many)), within, "{many}");
    }
    assert_eq!(median_within(&figures(24)), Some((7.0, 18.0)));
    assert_eq!(median_within(&figures(100)), Some((40.0, 61.0)));
    let mut upside_down = figures(10);
    upside_down.reverse();
    assert_eq!(median_within(&upside_down), Some((2.0, 9.0)));
}

#[test]
fn what_came_meanwhile_is_the_difference_of_two_readings() {
    let page = |text: &str| Inside::read(text).unwrap();
    let earlier = page(
        r#"{"handler":{"unit":"ns","count":3,"sum":9,"buckets":[[1000,3]]},"evaluation":{"buckets":[]}}"#,
    );
    let later = page(
        "1a\r\n{\"handler\":{\"buckets\":[[1000,5],[2000,1]]},\"evaluation\":{\"buckets\":[[90,4]]}}\r\n0\r\n",
    );
    let (mut handler, mut evaluation) = (histogram(), histogram());
    later.add_since(&earlier, &mut handler, &mut evaluation);
    let counts = |of: &Histogram<u64>| of.iter_recorded().map(|it| it.count_at_value()).collect::<Vec<_>>();
    assert_eq!((counts(&handler), counts(&evaluation)), (vec![2, 1], vec![4]));
    assert_eq!(Inside::read("404 not found"), None);
}

/// A record in which each round is twice as slow as the one before it, but all ratios within a round are the same.
fn record(scenarios: &[Scenario], rates: &[Rate]) -> Record {
    let mut record = Record::default();
    for (scenario, it) in scenarios.iter().enumerate() {
        for (rate, asked) in rates.iter().enumerate() {
            for number in 0..3 {
                let slow = f64::from(1 << number);
                let time = 100_000.0 * slow * if it.name.contains("tonic") { 3.0 } else { 2.0 };
                let time = if it.endpoint == Endpoint::Envoy { 100_000.0 * slow } else { time };
                let latency = Latency { mean: time, p50: time, p90: time, p99: 2.0 * time };
                let achieved = if let Rate::Constant(it) = asked { *it } else { 1e9 / time };
                let mut round = Round { number, achieved, latency, ..Round::default() };
                round.parts[2].resident = 20 << 20;
                round.parts[2].cores = 0.3;
                record.entry(scenario, rate).rounds.push(round);
            }
        }
    }
    record
}

fn verdicts(of: impl Fn(&Verdict) -> bool) -> Vec<Verdict> {
    let servers = Server::all(&[peer("opa=127.0.0.1:1")]);
    let scenarios = Scenario::all(&servers, true);
    let rates = [Rate::Constant(1_000.0), Rate::Constant(5_000.0), Rate::Max];
    let record = record(&scenarios, &rates);
    let reload =
        Reload { failed: 1, requests: 10, quiet: vec![1.0], reloading: vec![1.5], ..Reload::default() };
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
    let p2 = verdicts(|it| it.goal == "P2");
    assert_eq!(p2.len(), 2, "{p2:?}");
    assert_eq!((p2[0].measured.as_str(), p2[0].holds), ("1.500 × (1.500–1.500)", true));
    assert_eq!((p2[1].limit.as_str(), p2[1].holds), ("≥ 2.8 ×", false));
    let p3 = verdicts(|it| it.goal == "P3");
    assert_eq!(p3.len(), 4, "{p3:?}");
    assert!(p3[0].measured.starts_with("0.500 × ") && p3[0].holds, "{p3:?}");
    assert!(p3[1].measured.starts_with("1.000 × ") && !p3[1].holds, "{p3:?}");
}

#[test]
fn a_round_in_which_the_other_adds_nothing_counts_against_us() {
    let servers = Server::all(&[]);
    let scenarios = Scenario::all(&servers, true);
    let rates = [Rate::Constant(1_000.0)];
    let mut record = record(&scenarios, &rates);
    for (number, scenario) in scenarios.iter().enumerate().filter(|(_, it)| it.name.contains("tonic")) {
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
    let p3: Vec<_> = evidence.verdicts().into_iter().filter(|it| it.goal == "P3").collect();
    assert!(p3.len() == 2 && p3.iter().all(|it| !it.holds), "{p3:?}");
    assert_eq!(p3[0].measured, "inf × (0.500–inf)");
}

#[test]
fn a_goal_that_is_missed_is_said_to_be() {
    let p7 = verdicts(|it| it.goal == "P7");
    assert_eq!(p7.iter().map(|it| it.holds).collect::<Vec<_>>(), [true, false, true], "{p7:?}");
    let p6 = verdicts(|it| it.goal == "P6");
    assert_eq!(p6.iter().map(|it| it.holds).collect::<Vec<_>>(), [false, true], "{p6:?}");
}

#[test]
fn a_document_is_text_and_a_page() {
    let parts = [
        Part::Heading("Goals".to_owned()),
        Part::Warning("a < b".to_owned()),
        table(&["scenario", "µs"], vec![vec!["app".to_owned(), "1,234.5".to_owned()]]),
    ];
    let text = document::text("Title", &parts);
    assert!(
        text.contains("\nGoals\n-----\n\n!! a < b\n  scenario       µs\n  app       1,234.5\n"),
        "{text}"
    );
    let page = document::html("Title", &parts);
    assert!(
        page.contains("<p class=\"warning\">a &lt; b</p>") && page.contains("<td>1,234.5</td>"),
        "{page}"
    );
}
