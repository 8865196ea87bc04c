//! Files whose file system does not answer, and panics. A named pipe without a writer is a file
//! that anybody can make, whose file system does not answer.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use policy::KeyUrl;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tracing::Dispatch;
use tracing::dispatcher::with_default;

use super::{
    BundleOutcome, FetchedBundle, KeyEvent, KeysOutcome, LoadEvent, ReloadThreads, Reloader,
};
use crate::settings::{
    BundleSettings, DecisionLogSettings, KeysNeeded, OnStale, OtlpSettings, PolicySettings,
    PolicySource,
};
use crate::status::{BundleResult, Status};
use crate::threads::panicking_log;

const POLICY: &str = "version: 1\ninclude: [more.yaml]\nidentity:\n  jwt:\n    - issuer: https://issuer.example\n      \
                      audiences: [a]\n      keys: { url: \"https://issuer.example/keys\" }\n";
const KEYS: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const MORE: &str = "roles:\n  anyone:\n    allow:\n      - GET /a\n";

struct Loaded {
    folder: TempDir,
    current: Arc<ArcSwapOption<Authorizer>>,
    status: Arc<Status>,
    policies: ReloadThreads,
}

impl Loaded {
    fn new(on_stale: OnStale) -> Self {
        Self::start(on_stale, |reloader| {
            reloader.current.lock().max_read_time = Duration::from_secs(2);
            reloader.start().unwrap()
        })
    }

    /// With a log that panics once, at a line with this text.
    fn with_panic_at(text: &'static str) -> Self {
        Self::start(OnStale::Keep, |reloader| panics_at(text, reloader))
    }

    fn start(on_stale: OnStale, start: impl FnOnce(Reloader) -> ReloadThreads) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        std::fs::write(folder.path().join("more.yaml"), MORE).unwrap();
        let settings = PolicySettings {
            max_policy_age: Duration::from_secs(1),
            on_stale,
            ..settings(folder.path())
        };
        let (current, status) = (Arc::new(ArcSwapOption::empty()), Arc::new(Status::default()));
        let reloader = Reloader::load_first(&settings, current.clone(), status.clone()).unwrap();
        let policies = start(reloader);
        Self { folder, current, status, policies }
    }

    /// What becomes of fetched keys.
    fn fetched(&self, url: &KeyUrl) -> KeysOutcome {
        let (send, taken) = oneshot::channel();
        self.policies.keys.send(KeyEvent::Keys(url.clone(), KEYS.into(), send)).unwrap();
        taken.blocking_recv().unwrap()
    }

    fn more(&self) -> PathBuf {
        self.folder.path().join("more.yaml")
    }

    /// Replaces a file by a named pipe, and waits until the thread has noticed.
    fn hang(&self) {
        let pipe = self.folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::fs::rename(pipe, self.more()).unwrap();
        self.until("it is noticed", |loaded| {
            let problems = loaded.status.facts().policy.problems;
            problems
                .iter()
                .any(|problem| problem.message.contains("does their file system answer?"))
        });
    }

    /// Puts the file back, and lets those go on that wait for a writer of the pipe.
    fn answer(&self) {
        self.answer_with(MORE);
    }

    fn answer_with(&self, more: &str) {
        let pipe = self.folder.path().join("pipe");
        std::fs::rename(self.more(), &pipe).unwrap();
        std::fs::write(self.more(), more).unwrap();
        drop(OpenOptions::new().read(true).write(true).open(pipe).unwrap());
    }

    /// Whether a policy is active, and its files were read the last time.
    fn is_fresh(&self) -> bool {
        let facts = self.status.facts().policy;
        self.current.load().is_some() && !facts.stale && facts.failing_since.is_none()
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let held = (0..3_000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            holds(self)
        });
        assert!(held, "{what}");
    }
}

/// Starts the threads with a log that panics once, at a line with this text.
fn panics_at(text: &'static str, reloader: Reloader) -> ReloadThreads {
    let (policies, load, take_keys) = reloader.into_threads();
    let log = Dispatch::new(panicking_log::at(text, 1));
    let other = log.clone();
    thread::spawn(move || with_default(&log, load));
    thread::spawn(move || with_default(&other, take_keys));
    policies
}

pub(super) fn settings(folder: &Path) -> PolicySettings {
    PolicySettings {
        policy: PolicySource::Path(folder.to_owned()),
        shadow: None,
        bundle: BundleSettings {
            public_keys: Vec::new(),
            interval: Duration::from_secs(60),
            cache: None,
            ca: None,
            credentials: None,
            max_size: 0,
        },
        poll_interval: Duration::ZERO,
        max_policy_age: Duration::ZERO,
        max_keys_age: Duration::ZERO,
        on_stale: OnStale::Keep,
        keys_wait: Duration::ZERO,
        keys_needed: KeysNeeded::None,
        inventory_needed: false,
        decision_log: DecisionLogSettings::off(),
        otlp: OtlpSettings::off(),
    }
}

#[test]
fn a_file_system_that_does_not_answer_makes_the_policy_stale() {
    let loaded = Loaded::new(OnStale::Unavailable);
    loaded.hang();
    loaded.until("stale", |loaded| loaded.status.facts().policy.stale);
    assert!(loaded.current.load().is_none(), "every check gets an error");
    assert_eq!(loaded.status.facts().policy.failures, 1, "it is reported once");
    loaded.answer();
    loaded.until("active", Loaded::is_fresh);
}

/// A load that takes too long is not in vain.
#[test]
fn a_late_load_is_activated() {
    let loaded = Loaded::new(OnStale::Keep);
    loaded.hang();
    let url = KeyUrl::from("https://issuer.example/keys");
    assert_eq!(loaded.fetched(&url), KeysOutcome::Changed);
    loaded.answer_with(&MORE.replace("/a", "/b"));
    loaded.until("active", |loaded| loaded.is_fresh() && loaded.status.facts().policy.reloads == 1);
    let active = loaded.current.load_full().unwrap();
    assert_eq!(
        active.rules().authenticator().kids(&url).into_iter().collect::<Vec<_>>(),
        ["one"],
        "with the keys of now"
    );
}

#[test]
fn a_load_that_ends_after_the_policy_activates_nothing() {
    let loaded = Loaded::new(OnStale::Keep);
    loaded.hang();
    loaded.policies.keys.send(KeyEvent::Stop).unwrap();
    loaded.until("given up", |loaded| loaded.current.load().is_none());
    loaded.answer_with(&MORE.replace("/a", "/b"));
    loaded.until("read", |loaded| !loaded.status.facts().policy.hangs);
    thread::sleep(Duration::from_millis(100));
    assert!(loaded.current.load().is_none());
}

#[test]
fn fetched_keys_are_taken_while_a_file_system_does_not_answer() {
    let loaded = Loaded::new(OnStale::Keep);
    loaded.hang();
    let url = KeyUrl::from("https://issuer.example/keys");
    assert_eq!(loaded.fetched(&url), KeysOutcome::Changed);
    let active = loaded.current.load_full().unwrap();
    assert_eq!(active.rules().authenticator().kids(&url).into_iter().collect::<Vec<_>>(), ["one"]);
    loaded.answer();
    loaded.until("loaded again", |loaded| loaded.status.facts().policy.failing_since.is_none());
}

#[test]
fn a_policy_is_loaded_again_after_a_panic() {
    let loaded = Loaded::with_panic_at("policy reloaded");
    std::fs::write(loaded.more(), MORE.replace("/a", "/b")).unwrap();
    loaded.until("reported", |loaded| loaded.status.facts().policy.failures == 1);
    loaded.until("active", |loaded| loaded.is_fresh() && loaded.status.facts().policy.reloads == 2);
}

#[test]
fn keys_whose_use_panics_are_taken_the_next_time() {
    let loaded = Loaded::with_panic_at("policy active with other keys");
    let url = KeyUrl::from("https://issuer.example/keys");
    let (send, outcome) = oneshot::channel();
    loaded.policies.keys.send(KeyEvent::Keys(url.clone(), KEYS.into(), send)).unwrap();
    assert!(outcome.blocking_recv().is_err(), "it panics");
    assert_ne!(loaded.fetched(&url), KeysOutcome::Unusable);
    assert_eq!(loaded.status.url_facts(&url).unwrap().fetches, 1);
    let active = loaded.current.load_full().unwrap();
    assert!(active.rules().authenticator().kids(&url).contains("one"));
}

/// The load still runs: the other thread has panicked.
#[test]
fn a_panic_while_fetched_keys_are_taken_ends_no_hang() {
    let loaded = Loaded::start(OnStale::Keep, |reloader| {
        reloader.current.lock().max_read_time = Duration::from_secs(2);
        panics_at("policy active with other keys", reloader)
    });
    loaded.hang();
    let (send, outcome) = oneshot::channel();
    let url = KeyUrl::from("https://issuer.example/keys");
    loaded.policies.keys.send(KeyEvent::Keys(url, KEYS.into(), send)).unwrap();
    assert!(outcome.blocking_recv().is_err(), "it panics");
    loaded.until("reported", |loaded| loaded.status.facts().policy.failures == 2);
    assert!(loaded.status.facts().policy.hangs);
    loaded.answer();
    loaded.until("active", Loaded::is_fresh);
    assert!(!loaded.status.facts().policy.hangs);
}

#[test]
fn a_bundle_whose_use_panics_is_not_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let policy = PolicySource::Bundle("http://127.0.0.1:1/bundle".into());
    let settings = PolicySettings { policy, ..settings(folder.path()) };
    let status = Arc::new(Status::default());
    let reloader = Reloader::load_first(&settings, Arc::default(), status.clone()).unwrap();
    let policies = panics_at("policy bundle not accepted", reloader);
    let take = || {
        let (send, outcome) = oneshot::channel();
        let bundle = FetchedBundle::Bundle(b"no bundle"[..].into());
        policies.loads.send(LoadEvent::Bundle(bundle, send)).unwrap();
        outcome.blocking_recv()
    };
    assert!(take().is_err(), "it panics");
    assert_eq!(take(), Ok(BundleOutcome::NotAccepted));
    let facts = status.facts();
    assert_eq!(facts.bundle.unwrap().results[BundleResult::Malformed as usize], 1);
    assert_eq!(facts.policy.failures, 1);
}
