//! What is left of a policy that was never used, or that is used no longer.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Authorization, Test, alone, decided, get};
use crate::fake::{self, Host};

/// How many threads of this process keep policies current.
fn policy_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        let name: PathBuf = task.unwrap().path().join("comm");
        // The thread may have ended.
        runtime::files::text(&name).ok()
    });
    names.filter(|name| matches!(name.trim(), "policy" | "policy-load" | "shadow")).count()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The threads that keep one policy current: `policy` and `policy-load`.
const THREADS_OF_A_POLICY: usize = 2;

/// An address in use is found after the policy's threads have started.
#[test]
fn a_rejected_configuration_leaves_no_thread() {
    if !alone("filter::tests::lifetime::a_rejected_configuration_leaves_no_thread") {
        return;
    }
    let (test, other) = (Test::new(), Test::new());
    let admin = format!(r#", "admin": "unix:{}/admin""#, test.folder.path().display());
    let _host = test.host(&admin);
    wait_until("the threads of the policy have started", || {
        policy_threads() == THREADS_OF_A_POLICY
    });
    let shadow = format!(r#"{admin}, "shadow": "{}""#, test.folder.path().display());
    for config in [other.config(&admin), other.config(&shadow)] {
        for _ in 0..10 {
            assert!(Host::<Authorization>::load(b"rolegate", &config).is_none());
        }
    }
    wait_until("the threads of rejected configurations are left", || {
        policy_threads() == THREADS_OF_A_POLICY
    });
}

/// Worker threads keep what they have of it until they get another request.
#[test]
fn a_policy_that_is_used_no_longer_is_freed_without_a_request() {
    let test = Test::new();
    let host = test.host("");
    assert_eq!(decided(&get(&host, "/open", &[])), 200);
    let snapshot =
        Arc::downgrade(&host.filter().policy.as_ref().unwrap().active.snapshot().unwrap());
    assert!(snapshot.strong_count() > 0);
    drop(host);
    wait_until("the snapshot is left", || snapshot.strong_count() == 0);
}

/// A filter that turns an answer into another request, as `custom_response` does, may begin it
/// before the answer is sent.
#[test]
fn a_stream_that_begins_while_an_answer_is_sent_is_decided() {
    let test = Test::new();
    let host = Rc::new(test.host(""));
    let (again, inner) = (Rc::clone(&host), Rc::new(Cell::new(0)));
    let noted = Rc::clone(&inner);
    fake::on_answer(move || noted.set(decided(&get(&again, "/open", &[]))));
    let outer = get(&host, "/elsewhere", &[]);
    assert_eq!(decided(&outer), 401);
    assert_eq!(inner.get(), 200);
    assert_eq!(decided(&get(&host, "/open", &[])), 200);
}

/// `envoy --mode validate` may run beside an Envoy with the same configuration, whose addresses and
/// files are in use.
#[test]
fn validation_starts_nothing() {
    if !alone("filter::tests::lifetime::validation_starts_nothing") {
        return;
    }
    let test = Test::new();
    let admin = test.folder.path().join("admin");
    let config = test.config(&format!(r#", "admin": "unix:{}""#, admin.display()));
    let both =
        || (Host::<Authorization>::load(b"", &config), Host::<Authorization>::route(b"", &config));
    let (host, route) = fake::validating(both);
    let (host, route) = (host.unwrap(), route.unwrap());
    assert_eq!((policy_threads(), admin.exists()), (0, false));
    assert!(!test.folder.path().join("decisions").exists());
    // Nothing is served then. If something were, it would be denied.
    assert_eq!(decided(&get(&host, "/open", &[])), 503);
    assert_eq!(decided(&get(&host, "/open", &[]).with_route(&route)), 503);
    std::fs::write(test.folder.path().join("policy.yaml"), "version: 2\n").unwrap();
    let (host, route) = fake::validating(both);
    assert!(host.is_none() && route.is_none());
    assert!(fake::logged().iter().any(|line| line.contains("policy.yaml:1:")));
}
