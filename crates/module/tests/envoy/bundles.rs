//! A policy that the library fetches as a bundle.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bundle::KeyPair;
use testbed::Stack;
use testbed::client::{Connection, Version};
use tokio::time::sleep;

use super::admin_pages::{metric, metrics};
use super::bundle_server::{Answer, BundleServer};
use super::{PATIENT, start, with};

/// A bundle with a policy that opens `/always` and this path to all.
fn unsigned(path: &str, revision: u64) -> Vec<u8> {
    let policy =
        format!("version: 1\nroles: {{ anyone: {{ allow: [GET /always, GET {path}] }} }}\n");
    let files = [("policy.yaml".to_owned(), policy.into_bytes())].into();
    bundle::build("policy.yaml", revision, &files).unwrap()
}

fn signed(key: &KeyPair, path: &str, revision: u64) -> Answer {
    Answer::File(bundle::sign(&unsigned(path, revision), key, 1 << 20).unwrap())
}

async fn status(stack: &Stack, path: &str) -> u16 {
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    connection.send("GET", path, "localhost", &[], b"").await.unwrap().status
}

/// Waits until a request for this path is allowed.
async fn wait_until_allowed(stack: &Stack, path: &str) {
    let end = Instant::now() + PATIENT;
    while status(stack, path).await != 200 {
        assert!(Instant::now() < end, "{path}: {}", stack.envoy.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until this result was counted once more, and the log says this.
async fn wait_for(stack: &Stack, admin: &Path, result: &str, logged: &str) {
    let name = format!(r#"rolegate_bundle_fetches_total{{result="{result}"}}"#);
    let counted = || metric(&metrics(admin).unwrap(), &name);
    let (before, end) = (counted(), Instant::now() + PATIENT);
    while counted() == before || !stack.envoy.log().contains(logged) {
        assert!(Instant::now() < end, "{result}: {}", stack.envoy.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Requests all the while: each is allowed.
async fn send_until(ended: Arc<AtomicBool>, mut connection: Connection) -> u64 {
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        let answer = connection.send("GET", "/always", "localhost", &[], b"").await.unwrap();
        assert_eq!(answer.status, 200, "request {sent}");
        sent += 1;
        sleep(Duration::from_millis(1)).await;
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_followed_and_what_is_not_acceptable_leaves_the_last_good_policy_active() {
    let (folder, key) = (tempfile::tempdir().unwrap(), KeyPair::generate().unwrap());
    let (admin, cache): (PathBuf, PathBuf) =
        (folder.path().join("admin"), folder.path().join("cache"));
    let public = folder.path().join("key.pub");
    std::fs::write(&public, key.public_key().to_pem()).unwrap();
    let files = BundleServer::start(signed(&key, "/a", 1));
    let lines = [
        format!("bundle-public-key: {}", public.display()),
        "bundle-interval: 1s".to_owned(),
        format!("bundle-cache: {}", cache.display()),
        format!("admin: unix:{}", admin.display()),
    ];
    let lines = lines.map(|line| &*line.leak());
    let stack = start(Path::new(&files.url()), &with(&lines)).await;
    assert_eq!((status(&stack, "/a").await, status(&stack, "/b").await), (200, 401));
    let ended = Arc::new(AtomicBool::new(false));
    let connection = stack.connect(Version::Http1).await.unwrap();
    let requests = tokio::spawn(send_until(ended.clone(), connection));

    files.answer(signed(&key, "/b", 2));
    wait_until_allowed(&stack, "/b").await;
    assert_eq!(status(&stack, "/a").await, 401);

    let Answer::File(mut truncated) = signed(&key, "/c", 3) else { panic!("a file") };
    truncated.truncate(truncated.len() - 20);
    for (sent, result, logged) in [
        (signed(&KeyPair::generate().unwrap(), "/c", 3), "unknown_key", "is not trusted"),
        (Answer::Untagged(unsigned("/c", 3)), "unsigned", "the bundle is not signed"),
        (Answer::File(truncated), "malformed", "truncated"),
        (signed(&key, "/c", 1), "old_revision", "revision 1 is older than 2"),
        (signed(&key, "nonsense", 3), "does_not_compile", "its policy does not compile"),
        (Answer::Away, "failed", "policy bundle not fetched"),
    ] {
        files.answer(sent);
        wait_for(&stack, &admin, result, logged).await;
        assert_eq!(
            (status(&stack, "/b").await, status(&stack, "/c").await),
            (200, 401),
            "{result}"
        );
    }

    // A restart without the server has the cached one.
    let restarted = start(Path::new(&files.url()), &with(&lines[..3])).await;
    assert_eq!((status(&restarted, "/b").await, status(&restarted, "/a").await), (200, 401));

    files.answer(signed(&key, "/c", 4));
    wait_until_allowed(&stack, "/c").await;
    ended.store(true, Ordering::Relaxed);
    assert!(requests.await.unwrap() > 100);
}

/// Envoy starts without a policy, and then each request gets an error until the first bundle
/// arrives.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_first_bundle_nothing_is_allowed() {
    let (key, files) = (KeyPair::generate().unwrap(), BundleServer::start(Answer::Away));
    let stack =
        start(Path::new(&files.url()), &with(&["bundle-interval: 1s", "keys-wait: 100ms"])).await;
    assert_eq!(status(&stack, "/always").await, 503, "{}", stack.envoy.log());
    files.answer(signed(&key, "/a", 1));
    wait_until_allowed(&stack, "/a").await;
}
