//! Errors: they are counted, named, and in no histogram.

use std::time::Duration;

use load::{Answer, Failed, Plan, Rate, Stop, run};

use crate::server::{Act, Server};

fn plan(server: &Server, requests: u64) -> Plan {
    let plan = Plan::http(&server.url("/")).unwrap();
    Plan { rate: Rate::Max, requests: Some(requests), duration: None, ..plan }
}

#[test]
fn a_closed_connection_is_an_error_and_the_next_request_has_a_new_one() {
    let server = Server::start(|number| Act {
        delay: Duration::ZERO,
        status: (number % 10 != 9).then_some(200),
    });
    let results = run(&plan(&server, 200)).unwrap();
    assert_eq!(results.errors.get("connection closed"), Some(&20), "{results:?}");
    assert_eq!(
        (results.corrected.len(), results.responses[&Answer::Status(200)].len()),
        (180, 180)
    );
}

#[test]
fn answers_are_counted_by_status_and_the_wrong_ones_apart() {
    let server = Server::start(|number| {
        Act::answer([200, 302, 403, 500][usize::try_from(number % 4).unwrap()], Duration::ZERO)
    });
    let mut plan = plan(&server, 100);
    let results = run(&plan).unwrap();
    assert!(results.responses.values().all(|latencies| latencies.len() == 25), "{results:?}");
    assert_eq!((results.unexpected, results.errors()), (50, 0));

    plan.workload.requests[0].expect = vec![403, 200, 302];
    assert_eq!(run(&plan).unwrap().unexpected, 25);
}

#[test]
fn an_answer_that_does_not_come_is_a_timeout() {
    let server = Server::start(|number| {
        Act::answer(200, Duration::from_millis(if number == 3 { 1500 } else { 0 }))
    });
    let timeout = Duration::from_millis(500);
    let results = run(&Plan { timeout, connections: 1, ..plan(&server, 10) }).unwrap();
    assert_eq!(results.errors.get("timeout"), Some(&1), "{results:?}");
    assert_eq!(results.corrected.len(), 9);
    assert!(results.corrected.max() < 500_000_000);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // Bound, so that no other test gets it.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let plan = Plan::http(&format!("http://127.0.0.1:{port}/people")).unwrap();
    let Err(Failed::Unreachable { target, reason }) = run(&plan) else { panic!("it was reached") };
    assert!(target.contains(&port.to_string()) && reason.contains("refused"), "{target} {reason}");
}

#[test]
fn a_server_that_comes_late_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.sock");
    let address = format!("unix:{}", path.display());
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        crate::checks::server(&path)
    });
    let wait = Duration::from_secs(20);
    let plan = Plan { wait, requests: Some(10), duration: None, ..Plan::check(&address).unwrap() };
    let results = run(&plan).unwrap();
    assert_eq!(results.responses[&Answer::Allowed].len(), 10);
    drop(late.join().unwrap());
}

#[test]
fn a_run_that_is_stopped_has_the_results_so_far() {
    let server = Server::start(|_| Act::answer(200, Duration::ZERO));
    let stop = Stop::default();
    let ending = stop.clone();
    let ender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        ending.stop();
    });
    let (rate, duration) = (Rate::Constant(100.0), Some(Duration::from_secs(60)));
    let results = run(&Plan { rate, duration, requests: None, stop, ..plan(&server, 1) }).unwrap();
    ender.join().unwrap();
    assert!(results.interrupted && !results.corrected.is_empty(), "{results:?}");
    assert!(results.elapsed < Duration::from_secs(60), "{results:?}");
}

#[test]
fn invalid_plans_are_rejected() {
    let plan = Plan::http("http://127.0.0.1:9/").unwrap();
    let second = Some(Duration::from_secs(1));
    for wrong in [
        Plan { rate: Rate::Constant(0.0), ..plan.clone() },
        Plan { rate: Rate::Constant(f64::NAN), ..plan.clone() },
        Plan { rate: Rate::Ramp { from: 0.0, to: 0.0 }, duration: second, ..plan.clone() },
        Plan {
            rate: Rate::Ramp { from: 1.0, to: 2.0 },
            duration: None,
            requests: Some(1),
            ..plan.clone()
        },
        Plan { duration: None, requests: None, ..plan.clone() },
        Plan { connections: 0, ..plan.clone() },
        Plan { streams: 0, ..plan.clone() },
        Plan { threads: 9, connections: 8, ..plan.clone() },
    ] {
        assert!(matches!(run(&wrong), Err(Failed::Plan(_))));
    }
}
