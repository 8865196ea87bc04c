//! A shadow policy that is fetched as a bundle.

use crate::bundle_server::{Answer as Sent, BundleServer};
use crate::bundles::{Publisher, each_at_once, start, unacceptable, wait_for_more};
use crate::client::{Answer, Envoy};
use crate::process::{PolicyFolder, Server, open_to_all};

fn compared(result: &str) -> String {
    format!(r#"rolegate_shadow_checks_total{{result="{result}"}}"#)
}

/// Whatever the server of the candidate sends: its last good version is kept, no answer changes, a
/// metric and a log line say why; and the next good bundle is activated.
#[tokio::test]
async fn what_is_not_acceptable_leaves_the_last_good_candidate() {
    let publisher = Publisher::new();
    let good = publisher.signed("/a", 10);
    let next = publisher.signed("/b", 11);
    let (active, key) = (PolicyFolder::new(&open_to_all("/a")), publisher.arg("key.pub"));
    let start = |files: &BundleServer| {
        let own =
            ["--shadow", &files.url(), "--bundle-public-key", &key, "--bundle-interval", "1s"];
        let server = Server::start(&active.arg(), &own);
        server.wait_for_log_line(&["policy bundle active", r#""span":{"name":"shadow"}"#]);
        server
    };
    each_at_once(unacceptable(&publisher, &next), async |(sent, counted, logged)| {
        let files = BundleServer::start(Sent::File(good.clone()));
        let server = start(&files);
        let mut envoy = Envoy::connect(server.address()).await;
        files.answer(sent);
        wait_for_more(
            &server,
            &format!(r#"rolegate_shadow_bundle_fetches_total{{result="{counted}"}}"#),
        );
        server.wait_for_log_line(&[logged, r#""span":{"name":"shadow"}"#]);
        let same = server.metric(&compared("same")).unwrap();
        assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200), "{counted}");
        server.wait_for_metric(&compared("same"), same + 1.0);
        assert_eq!(server.page("/readyz").0, 200);
        assert!(
            server.metric("rolegate_shadow_policy_failing_seconds").unwrap() > 0.0,
            "{counted}"
        );
        assert_eq!(server.metric("rolegate_shadow_bundle_revision"), Some(10.0));
        files.answer(Sent::File(good.clone()));
        server.wait_for_metric("rolegate_shadow_policy_failing_seconds", 0.0);
    });
    let files = BundleServer::start(Sent::File(good.clone()));
    let server = start(&files);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(server.metric("rolegate_bundle_revision"), None, "the active policy is no bundle");
    files.answer(Sent::File(next));
    server.wait_for_metric("rolegate_shadow_bundle_revision", 11.0);
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(401));
    server.wait_for_metric(&compared("would_allow"), 1.0);
}

/// A server of the candidate that is away at the start delays nothing, and requests are not
/// compared until it answers.
#[tokio::test]
async fn the_server_of_the_candidate_may_be_away_at_the_start() {
    let publisher = Publisher::new();
    let files = BundleServer::start(Sent::Away);
    let (active, key) = (PolicyFolder::new(&open_to_all("/a")), publisher.arg("key.pub"));
    let own = ["--shadow", &files.url(), "--bundle-public-key", &key, "--bundle-interval", "1s"];
    let server = Server::start(&active.arg(), &own);
    server.wait_for_log_line(&["policy bundle not fetched", r#""span":{"name":"shadow"}"#]);
    assert_eq!(server.page("/readyz").0, 200);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    server.wait_for_metric(&compared("not_compared"), 1.0);
    files.answer(Sent::File(publisher.signed("/b", 1)));
    server.wait_for_metric("rolegate_shadow_bundle_revision", 1.0);
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    server.wait_for_metric(&compared("would_deny"), 1.0);
}

/// Both policies in one cache: a restart without the servers has each where it was.
#[tokio::test]
async fn both_policies_are_cached_in_one_folder() {
    let publisher = Publisher::new();
    let active = BundleServer::start(Sent::File(publisher.signed("/a", 1)));
    let candidate = BundleServer::start(Sent::File(publisher.signed("/b", 1)));
    let shadow = ["--shadow", &candidate.url()];
    let server = start(&active, &publisher, &shadow);
    server.wait_for_metric("rolegate_shadow_bundle_revision", 1.0);
    drop(server);
    assert_eq!(publisher.cached().len(), 2);
    active.answer(Sent::Away);
    candidate.answer(Sent::Away);
    let server = start(&active, &publisher, &shadow);
    assert_eq!(server.metric("rolegate_shadow_bundle_revision"), Some(1.0));
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(401));
    server.wait_for_metric(&compared("would_deny"), 1.0);
    server.wait_for_metric(&compared("would_allow"), 1.0);
}
