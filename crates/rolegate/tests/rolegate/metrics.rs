//! What is counted about credentials and their caches, in a running process.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use testbed::tokens::{AUDIENCE, ISSUER, Signer, now};

use crate::client::{Answer, Envoy, basic};
use crate::process::{PolicyFolder, Server, wait_until};

const ALGORITHM: &str = "ES256";

/// A policy with alice, whose password is `password`, and an issuer with this key.
fn policy(signer: &Signer) -> PolicyFolder {
    let folder = PolicyFolder::new(&format!(
        "version: 1\nidentity:\n  basic: {{ users: {{ alice: {{ password: \"{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" }} }} }}\n  \
         jwt: [{{ issuer: \"{ISSUER}\", audiences: [{AUDIENCE}], keys: {{ file: keys.json }}, claims: {{ user: sub }} }}]\n\
         roles: {{ authenticated: {{ allow: [\"GET /\"] }}, anyone: {{ allow: [\"GET /open\"] }} }}\n"
    ));
    folder.write("keys.json", &json!({ "keys": [signer.jwk(ALGORITHM)] }).to_string());
    folder
}

fn credentials(server: &Server, scheme: &str, result: &str) -> Option<f64> {
    server.metric(&format!("rolegate_credentials_total{{scheme=\"{scheme}\",result=\"{result}\"}}"))
}

/// Hits and misses of the cache of the worker, then of that of all workers.
fn lookups(server: &Server) -> [f64; 4] {
    [("worker", "hit"), ("worker", "miss"), ("shared", "hit"), ("shared", "miss")].map(
        |(cache, result)| {
            let labels = format!("{{cache=\"{cache}\",result=\"{result}\"}}");
            server.metric(&format!("rolegate_credential_cache_lookups_total{labels}")).unwrap()
        },
    )
}

/// These lookups, and as many misses of the shared cache. An entry that a worker has had for over a
/// second is found in the shared cache, so on a busy machine more are.
fn assert_lookups(server: &Server, lookups_made: f64, shared_misses: f64, least_shared_hits: f64) {
    let [worker_hits, worker_misses, shared_hits, misses] = lookups(server);
    let counted = [worker_hits, worker_misses, shared_hits, misses];
    assert_eq!(worker_hits + worker_misses, lookups_made, "{counted:?}");
    assert_eq!((shared_hits + misses, misses), (worker_misses, shared_misses), "{counted:?}");
    assert!(shared_hits >= least_shared_hits, "{counted:?}");
}

fn entries(server: &Server, scheme: &str) -> f64 {
    let metric = |name| {
        server.metric(&format!("rolegate_credential_cache_{name}{{scheme=\"{scheme}\"}}")).unwrap()
    };
    let (entries, bytes) = (metric("entries"), metric("bytes"));
    assert!(
        bytes >= 100.0 * entries && bytes <= 10_000.0 * entries,
        "{entries} entries, {bytes} bytes"
    );
    assert_eq!(metric("evictions_total"), 0.0);
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_counted_by_scheme_and_result_and_by_where_they_are_cached() {
    let (signer, stranger) = (Signer::default(), Signer::default());
    let folder = policy(&signer);
    let mut server = Server::start(
        &folder.arg(),
        &["--threads", "1", "--decision-log", "off", "--drain-delay", "1h"],
    );
    let mut envoy = Envoy::connect(server.address()).await;
    let alice = basic("alice:password");
    let token = signer.bearer(ALGORITHM, now());
    let mut send = async |authorization: &str, status| {
        let answer = envoy.check("GET", "/", &[("authorization", authorization)]).await;
        assert_eq!(answer, Answer::Http(status), "{authorization}");
    };
    assert_eq!((credentials(&server, "basic", "valid"), lookups(&server)), (Some(0.0), [0.0; 4]));

    // Verified, found by the worker, found in the shared cache after a second.
    for (pause, lookups_made, shared_hits) in [(0, 1.0, 0.0), (0, 2.0, 0.0), (1100, 3.0, 1.0)] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        send(&alice, 200).await;
        assert_lookups(&server, lookups_made, 1.0, shared_hits);
    }
    assert_eq!(
        (credentials(&server, "basic", "valid"), entries(&server, "basic")),
        (Some(3.0), 1.0)
    );
    send(&basic("alice:wrong"), 401).await;
    send(&basic("eve:password"), 401).await;
    assert_eq!(credentials(&server, "basic", "bad_password"), Some(2.0));

    for _ in 0..4 {
        send(&token, 200).await;
    }
    send(&stranger.bearer(ALGORITHM, now()), 401).await;
    send("Bearer nonsense", 401).await;
    send("Digest a=b", 401).await;
    for (scheme, result, wanted) in [
        ("bearer", "valid", 4.0),
        ("bearer", "bad_signature", 1.0),
        ("bearer", "malformed_token", 1.0),
        ("other", "unsupported_scheme", 1.0),
    ] {
        assert_eq!(credentials(&server, scheme, result), Some(wanted), "{scheme} {result}");
    }
    assert_eq!(entries(&server, "bearer"), 1.0, "what is not valid is not cached");
    // Two wrong passwords and three tokens were verified, of which one is valid. An unknown scheme
    // is not looked up.
    assert_lookups(&server, 11.0, 6.0, 1.0);
    let anonymous = envoy.check("GET", "/open", &[]).await;
    assert_eq!(anonymous, Answer::Http(200));
    assert_lookups(&server, 11.0, 6.0, 1.0);
    assert!(lookups(&server)[0] > 0.0, "the worker finds some");

    // A reload keeps the counters. The credentials of alice are carried over, and tokens are
    // verified again.
    folder.write(
        "keys.json",
        &json!({ "keys": [signer.jwk(ALGORITHM), signer.jwk("EdDSA")] }).to_string(),
    );
    server.wait_for_metric("rolegate_policy_reloads_total{result=\"ok\"}", 1.0);
    assert_eq!(entries(&server, "bearer"), 0.0);
    assert_eq!(envoy.check("GET", "/", &[("authorization", &alice)]).await, Answer::Http(200));
    assert_eq!(envoy.check("GET", "/", &[("authorization", &token)]).await, Answer::Http(200));
    assert_lookups(&server, 13.0, 7.0, 2.0);

    // They are still there, and right, while the process drains.
    let _in_flight = envoy.begin().await;
    wait_until(|| server.metric("rolegate_checks_waiting") == Some(1.0), || server.log());
    server.signal(Signal::TERM);
    wait_until(|| server.metric("rolegate_ready") == Some(0.0), || server.log());
    assert_eq!(envoy.check("GET", "/", &[("authorization", &alice)]).await, Answer::Http(200));
    assert_eq!(credentials(&server, "basic", "valid"), Some(5.0));
    assert_lookups(&server, 14.0, 7.0, 2.0);
    // A signal within 100 ms of the first is taken for the same.
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.signal(Signal::TERM);
    server.ended();
}
