//! Files whose file system does not answer. A named pipe without a writer is one that anybody can make.

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

use super::background::Background;
use super::{Event, Policies, Reloader, TakenKeys};
use crate::settings::{
    BundleSettings, DecisionLogSettings, KeysNeeded, OnStale, OtlpSettings, PolicySettings, PolicySource,
};
use crate::status::Status;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(2);
const STUCK: Duration = Duration::from_secs(6);
const POLICY: &str = "version: 1\ninclude: [more.yaml]\nidentity:\n  jwt:\n    - issuer: https://issuer.example\n      \
                      audiences: [a]\n      keys: { url: \"https://issuer.example/keys\" }\n";
const MORE: &str = "roles:\n  anyone:\n    allow:\n      - GET /a\n";

struct Loaded {
    folder: TempDir,
    current: Arc<ArcSwapOption<Authorizer>>,
    status: Arc<Status>,
    policies: Policies,
}

impl Loaded {
    fn new(on_stale: OnStale) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        std::fs::write(folder.path().join("more.yaml"), MORE).unwrap();
        let settings =
            PolicySettings { max_policy_age: Duration::from_secs(1), on_stale, ..settings(folder.path()) };
        let (current, status) = (Arc::new(ArcSwapOption::empty()), Arc::new(Status::default()));
        let reloader = Reloader::first(&settings, current.clone(), status.clone()).unwrap();
        let policies = reloader.start_with(Background::with(SHORT, LONG, STUCK).unwrap()).unwrap();
        Self { folder, current, status, policies }
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
            problems.iter().any(|problem| problem.message.contains("does their file system answer?"))
        });
    }

    /// Puts the file back, and lets those go on that wait for a writer of the pipe.
    fn answer(&self) {
        let pipe = self.folder.path().join("pipe");
        std::fs::rename(self.more(), &pipe).unwrap();
        std::fs::write(self.more(), MORE).unwrap();
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

fn settings(folder: &Path) -> PolicySettings {
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

/// Whoever waits for a writer of a pipe that has been removed waits for ever.
#[test]
fn a_file_that_is_back_is_read_although_a_thread_never_comes_back() {
    let loaded = Loaded::new(OnStale::Unavailable);
    loaded.hang();
    std::fs::remove_file(loaded.more()).unwrap();
    std::fs::write(loaded.more(), MORE.replace("/a", "/b")).unwrap();
    loaded.until("active", |loaded| loaded.is_fresh() && loaded.status.facts().policy.reloads == 1);
}

#[test]
fn fetched_keys_are_taken_while_a_file_system_does_not_answer() {
    let loaded = Loaded::new(OnStale::Keep);
    loaded.hang();
    let url = KeyUrl::from("https://issuer.example/keys");
    let keys: Arc<[u8]> = Arc::from(&br#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#[..]);
    let (send, taken) = oneshot::channel();
    loaded.policies.events().send(Event::Keys(url.clone(), keys, send)).unwrap();
    assert_eq!(taken.blocking_recv(), Ok(TakenKeys::Changed));
    let active = loaded.current.load_full().unwrap();
    assert_eq!(active.kids(&url).into_iter().collect::<Vec<_>>(), ["one"]);
    loaded.answer();
    loaded.until("loaded again", |loaded| loaded.status.facts().policy.failing_since.is_none());
}
