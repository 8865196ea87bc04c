//! Rolegates that keep their bundles in the same folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bundle::KeyPair;
use tempfile::TempDir;

use super::*;
use crate::reload::tests::settings;
use crate::settings::{BundleSettings, PolicySettings, PolicySource};
use crate::status::Status;

/// A folder with the public key of those who publish, and the cache.
struct Shared {
    folder: TempDir,
    key: KeyPair,
}

struct Rolegate {
    loader: BundleLoader,
    status: Arc<Status>,
}

impl Shared {
    fn new() -> Self {
        let (folder, key) = (tempfile::tempdir().unwrap(), KeyPair::generate().unwrap());
        let this = Self { folder, key };
        this.trust(&[&this.key]);
        this
    }

    /// All rolegates trust these keys, two at most, from now on.
    fn trust(&self, keys: &[&KeyPair]) {
        for (name, key) in ["a.pub", "b.pub"].iter().zip(keys.iter().cycle()) {
            fs::write(self.folder.path().join(name), key.public_key().to_pem()).unwrap();
        }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// The file in the cache.
    fn cached(&self) -> PathBuf {
        let url = "http://127.0.0.1:1/bundle".into();
        let settings = BundleSettings { cache: Some(self.cache()), ..BundleSettings::default() };
        let source = BundleSource::new(&url, &settings).unwrap();
        source.cache.as_ref().unwrap().file.clone()
    }

    /// The revision of the bundle in the cache.
    fn cached_revision(&self) -> u64 {
        let bytes = crate::files::contents(&self.cached()).unwrap();
        Bundle::open(&bytes, &[], 1 << 20).unwrap().manifest.revision
    }

    fn rolegate(&self) -> Rolegate {
        let public_keys = ["a.pub", "b.pub"].map(|name| self.folder.path().join(name)).to_vec();
        let bundle =
            BundleSettings { public_keys, cache: Some(self.cache()), ..BundleSettings::default() };
        let settings = PolicySettings {
            policy: PolicySource::Bundle("http://127.0.0.1:1/bundle".into()),
            bundle,
            ..settings(self.folder.path())
        };
        let status = Arc::new(Status::default());
        let source =
            BundleSource::new(&"http://127.0.0.1:1/bundle".into(), &settings.bundle).unwrap();
        let file = PathBuf::from("http://127.0.0.1:1/bundle");
        let current = SharedPolicy::new(file, &settings, Arc::default(), status.clone());
        Rolegate { loader: BundleLoader::new(current, source), status }
    }

    /// A signed bundle that opens this path to all.
    fn signed(&self, path: &str, revision: u64) -> Vec<u8> {
        bundle::sign(&unsigned(path, revision), &self.key, 1 << 20).unwrap()
    }
}

impl Rolegate {
    fn take(&mut self, bundle: &[u8]) -> BundleOutcome {
        self.loader.take(&FetchedBundle::Bundle(bundle.into()))
    }

    fn facts(&self) -> BundleFacts {
        self.status.facts().bundle.unwrap()
    }

    fn refused_as_old(&self) -> u64 {
        self.facts().results[BundleResult::OldRevision as usize]
    }
}

fn unsigned(path: &str, revision: u64) -> Vec<u8> {
    let policy = format!("version: 1\nroles: {{ anyone: {{ allow: [GET {path}] }} }}\n");
    let files: BTreeMap<_, _> = [("policy.yaml".to_owned(), policy.into_bytes())].into();
    bundle::build("policy.yaml", revision, &files).unwrap()
}

/// The server is away for one of two rolegates, gives the other one the new bundle, and then the
/// first one the old bundle.
#[test]
fn a_bundle_older_than_what_another_rolegate_has_cached_is_not_accepted() {
    let shared = Shared::new();
    let (mut one, mut other) = (shared.rolegate(), shared.rolegate());
    assert_eq!(other.take(&shared.signed("/new", 6)), BundleOutcome::Active);
    drop(other);
    assert_eq!(one.take(&shared.signed("/old", 5)), BundleOutcome::NotAccepted);
    // It had no policy, so it uses the cached one.
    assert_eq!((one.refused_as_old(), one.facts().revision), (1, Some(6)));
    assert_eq!(shared.cached_revision(), 6);
    // Nor is another one of the same revision, nor the old one after the cache was removed.
    assert_eq!(one.take(&shared.signed("/another", 6)), BundleOutcome::NotAccepted);
    fs::remove_dir_all(shared.cache()).unwrap();
    assert_eq!(one.take(&shared.signed("/old again", 5)), BundleOutcome::NotAccepted);
    assert_eq!(one.refused_as_old(), 3);
    assert_eq!(one.take(&shared.signed("/new", 6)), BundleOutcome::Active);
    assert_eq!(shared.rolegate().facts().revision, Some(6));
}

/// The server is away for one of two rolegates, which started before the other one had cached
/// anything.
#[test]
fn without_a_policy_what_another_rolegate_caches_is_used() {
    let shared = Shared::new();
    let (mut one, mut other) = (shared.rolegate(), shared.rolegate());
    assert_eq!(one.loader.take(&FetchedBundle::Failed), BundleOutcome::NotAccepted);
    assert_eq!(one.facts().revision, None);
    assert_eq!(other.take(&shared.signed("/new", 6)), BundleOutcome::Active);
    assert_eq!(one.loader.take(&FetchedBundle::Failed), BundleOutcome::NotAccepted);
    assert_eq!(one.facts().revision, Some(6));
    assert!(one.loader.current.lock().good.is_some(), "it decides by it");
}

/// A bundle that could not be stored is stored at a later fetch. By then another rolegate may have
/// stored a newer one.
#[test]
fn a_bundle_that_is_stored_late_replaces_no_newer_one() {
    for (path, revision) in [("/new", 6), ("/another", 5)] {
        let shared = Shared::new();
        let (mut one, mut other) = (shared.rolegate(), shared.rolegate());
        fs::write(shared.cache(), "in the way of the folder").unwrap();
        let old = shared.signed("/old", 5);
        assert_eq!(one.take(&old), BundleOutcome::Active);
        assert_eq!(one.facts().cached, Some(false));
        fs::remove_file(shared.cache()).unwrap();
        let new = shared.signed(path, revision);
        assert_eq!(other.take(&new), BundleOutcome::Active);
        assert_eq!(one.take(&old), BundleOutcome::Active, "it is the active one");
        assert_eq!(one.facts().cached, Some(false));
        assert_eq!(crate::files::contents(&shared.cached()).unwrap(), new);
        // The next one is stored.
        assert_eq!(one.take(&shared.signed("/next", 7)), BundleOutcome::Active);
        assert_eq!((one.facts().cached, shared.cached_revision()), (Some(true), 7));
    }
}

/// Who can only damage the cache cannot stop new bundles.
#[test]
fn what_is_not_acceptable_in_the_cache_stops_no_bundle() {
    let shared = Shared::new();
    let others = bundle::sign(&unsigned("/x", 9), &KeyPair::generate().unwrap(), 1 << 20).unwrap();
    for (revision, cached) in
        [(1, &b"nonsense"[..]), (2, b""), (3, &unsigned("/x", 9)), (4, &others)]
    {
        fs::create_dir_all(shared.cache()).unwrap();
        fs::write(shared.cached(), cached).unwrap();
        let mut rolegate = shared.rolegate();
        assert_eq!(rolegate.take(&shared.signed("/a", revision)), BundleOutcome::Active);
        assert_eq!((rolegate.facts().cached, shared.cached_revision()), (Some(true), revision));
    }
}

/// Whether it is newer is not known then.
#[test]
fn a_cached_bundle_that_cannot_be_read_stops_no_bundle_and_is_not_replaced() {
    let shared = Shared::new();
    let mut rolegate = shared.rolegate();
    fs::create_dir_all(shared.cache()).unwrap();
    symlink(shared.cached(), shared.cached()).unwrap();
    assert_eq!(rolegate.take(&shared.signed("/a", 1)), BundleOutcome::Active);
    assert_eq!(rolegate.facts().cached, Some(false));
    fs::remove_file(shared.cached()).unwrap();
    assert_eq!(rolegate.take(&shared.signed("/a", 1)), BundleOutcome::Active);
    assert_eq!((rolegate.facts().cached, shared.cached_revision()), (Some(true), 1));
}

/// A named pipe without a writer stands for a file system that does not answer.
#[test]
fn a_cache_that_does_not_answer_stops_no_bundle() {
    let shared = Shared::new();
    let mut rolegate = shared.rolegate();
    rolegate.loader.max_cache_time = Duration::from_millis(200);
    fs::create_dir_all(shared.cache()).unwrap();
    assert!(Command::new("mkfifo").arg(shared.cached()).status().unwrap().success());
    assert_eq!(rolegate.take(&shared.signed("/a", 1)), BundleOutcome::Active);
    assert_eq!((rolegate.facts().cached, rolegate.facts().revision), (Some(false), Some(1)));
}

/// Otherwise a restart would find a bundle that only a key has signed which is trusted no more.
#[test]
fn the_same_bundle_signed_by_another_key_replaces_the_cached_one() {
    let shared = Shared::new();
    let next = KeyPair::generate().unwrap();
    let signed = shared.signed("/a", 1);
    let mut rolegate = shared.rolegate();
    assert_eq!(rolegate.take(&signed), BundleOutcome::Active);
    shared.trust(&[&shared.key, &next]);
    assert_eq!(
        rolegate.take(&bundle::sign(&signed, &next, 1 << 20).unwrap()),
        BundleOutcome::Active
    );
    shared.trust(&[&next]);
    assert_eq!(shared.rolegate().facts().revision, Some(1));
}
