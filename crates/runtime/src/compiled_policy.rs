//! Compiles a policy's files and the fetched keys into an authorizer, which answers requests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use authorizer::Authorizer;
use document::{Files, Place, Problem};
use identity::{Authenticator, FetchedKeys, Limits};
use policy::model::{Introspection, Inventory, Keys};
use policy::{KeyUrl, Loaded, Policy};

use crate::files::{Fingerprints, RecordedFiles};
use crate::https::trusted_ca;
use crate::threads::catch;

/// An attempt to load a policy.
#[derive(Debug)]
pub struct Attempt {
    /// The files that were read. If they are unchanged, another attempt has the same result.
    pub fingerprints: Fingerprints,
    /// The compiled policy, or every problem.
    pub result: Result<CompiledPolicy, Vec<Problem>>,
}

/// A compiled policy, ready to answer requests.
#[derive(Debug)]
pub struct CompiledPolicy {
    /// Answers requests.
    pub authorizer: Arc<Authorizer>,
    /// The loaded files, to compile the policy again when keys change.
    pub loaded: Arc<Loaded>,
    /// The warnings about the policy.
    pub warnings: Vec<Problem>,
}

/// Minimum interval of fetches: no setting may flood a server.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The URLs that keys, and the inventory of a search cluster, are fetched from.
pub type KeyUrls = BTreeMap<KeyUrl, KeySource>;

/// How keys, or the inventory, are fetched from a URL, and whose keys they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The interval between two fetches, as set in the policy.
    pub refresh: Duration,
    /// How long the last answer is used, if that is limited. It is limited for the inventory only.
    pub max_age: Option<Duration>,
    /// The issuers of the keys; none for the inventory of a search cluster. Logs and metrics show
    /// URLs without their secrets, so two URLs may look the same there. The issuers tell them
    /// apart.
    pub issuers: Issuers,
}

impl KeySource {
    /// The interval between two fetches: `refresh`, but at most half of `max_age` (and at least
    /// `MIN_INTERVAL`). With a longer interval, keys could become too old between two fetches.
    pub fn interval(&self) -> Duration {
        let max = self.max_age.map_or(Duration::MAX, |max_age| (max_age / 2).max(MIN_INTERVAL));
        self.refresh.min(max)
    }
}

/// Names of issuers, displayed with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuers(pub Vec<Arc<str>>);

impl Issuers {
    /// For a log line, which leaves out a field that is `None`.
    pub(crate) fn log_value(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.to_string())
    }
}

impl fmt::Display for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// The policy file at `path`: the path itself, or `policy.yaml` in it if it is a folder.
#[must_use]
pub fn policy_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("policy.yaml") } else { path.to_owned() }
}

/// Maximum number of times that a policy is read, if its files keep changing meanwhile.
const MAX_READS: usize = 5;

/// Loads and compiles the policy in `file`.
///
/// Kubernetes replaces all files of a folder in one step, which may happen between two reads. The
/// files are then read again. A policy that keeps changing is not activated.
#[must_use]
pub fn load(file: &Path, fetched: &FetchedKeys) -> Attempt {
    let mut attempt = load_once(file, fetched);
    for _ in 1..MAX_READS {
        if attempt.fingerprints.are_current() {
            return attempt;
        }
        attempt = load_once(file, fetched);
    }
    if attempt.result.is_ok() && !attempt.fingerprints.are_current() {
        let text =
            "its files changed while they were read: it is loaded again once they no longer change";
        attempt.result = Err(vec![Problem::error(Place::start_of(file), text)]);
    }
    attempt
}

fn load_once(file: &Path, fetched: &FetchedKeys) -> Attempt {
    let files = RecordedFiles::default();
    let result = load_from(&files, file, fetched);
    Attempt { fingerprints: files.into_fingerprints(), result }
}

/// Loads and compiles the policy in `file`, which can include only files of `files`.
pub fn load_from(
    files: &dyn Files,
    file: &Path,
    fetched: &FetchedKeys,
) -> Result<CompiledPolicy, Vec<Problem>> {
    catch_panic(file, || {
        let loaded = lint::load_with(files, file, |policy| faults(policy, fetched))?;
        let unusable = unusable_trusted_ca(&loaded.policy);
        match CompiledPolicy::compile(Arc::new(loaded), fetched, None) {
            Ok(compiled) if unusable.is_empty() => Ok(compiled),
            Ok(compiled) => Err(sorted([compiled.loaded.warnings.clone(), unusable].concat())),
            Err(problems) => Err(sorted([problems, unusable].concat())),
        }
    })
}

impl CompiledPolicy {
    /// Compiles a loaded policy with these keys. Reads no file. `previous` is the active
    /// authorizer, if its verified credentials and its unchanged parts are to be used again.
    pub fn compile(
        loaded: Arc<Loaded>,
        fetched: &FetchedKeys,
        previous: Option<&Authorizer>,
    ) -> Result<Self, Vec<Problem>> {
        match Authorizer::compile(loaded.clone(), fetched, previous) {
            Ok((authorizer, warnings)) => {
                let warnings = [loaded.warnings.clone(), warnings].concat();
                let warnings = document::unaccepted(&loaded.files, warnings);
                Ok(Self { authorizer: Arc::new(authorizer), loaded, warnings })
            }
            Err(problems) => Err(sorted([loaded.warnings.clone(), problems].concat())),
        }
    }

    /// Takes over the verified credentials of `previous`. Must be called before this policy is
    /// active.
    pub fn carry_over(&mut self, previous: &Authorizer) {
        match Arc::get_mut(&mut self.authorizer) {
            Some(authorizer) => authorizer.carry_over(previous),
            // A bug. All credentials are then verified again, which is slow but correct.
            None => tracing::error!("a compiled policy is shared before it is active"),
        }
    }

    /// The URLs of the policy's keys and of its search cluster's inventory.
    pub fn key_urls(&self) -> KeyUrls {
        let mut urls = KeyUrls::new();
        for issuer in &self.loaded.policy.identity.jwt {
            if let Keys::Url { url, refresh, .. } = &issuer.keys {
                let source = urls.entry(url.clone()).or_insert_with(|| KeySource {
                    refresh: *refresh,
                    max_age: None,
                    issuers: Issuers::default(),
                });
                source.refresh = source.refresh.min(*refresh);
                source.issuers.0.push(issuer.issuer.clone());
            }
        }
        let search = self.loaded.policy.search.as_ref();
        if let Some(Inventory::Url { url, refresh, max_age, .. }) =
            search.and_then(|search| search.inventory.as_ref())
        {
            let (refresh, max_age, issuers) = (*refresh, Some(*max_age), Issuers::default());
            urls.insert(url.clone(), KeySource { refresh, max_age, issuers });
        }
        urls
    }
}

/// Turns a panic in `load` into a problem, so that a bug fails only this attempt.
pub fn catch_panic<T>(
    file: &Path,
    load: impl FnOnce() -> Result<T, Vec<Problem>>,
) -> Result<T, Vec<Problem>> {
    catch("loading this policy", load).unwrap_or_else(|panicked| {
        Err(vec![Problem::error(Place::start_of(file), panicked.to_string())])
    })
}

/// The problems of password hashes, keys and `ca_file`s, to be reported along with other errors.
fn faults(policy: &Policy, fetched: &FetchedKeys) -> Vec<Problem> {
    let (Ok((_, problems)) | Err(problems)) =
        Authenticator::<()>::compile(&policy.identity, fetched, Limits::default());
    [problems, unusable_trusted_ca(policy)].concat()
}

/// The errors in `ca_file`s. With such a `ca_file`, no request to its URL could succeed.
fn unusable_trusted_ca(policy: &Policy) -> Vec<Problem> {
    let issuers = policy.identity.jwt.iter().filter_map(|issuer| match &issuer.keys {
        Keys::Url { url, at, .. } | Keys::Introspection(Introspection { url, at, .. }) => {
            Some((url, at))
        }
        Keys::File { .. } => None,
    });
    let inventory = policy.search.iter().filter_map(|search| match search.inventory.as_ref()? {
        Inventory::Url { url, at, .. } => Some((url, at)),
        Inventory::File { .. } => None,
    });
    let problems = issuers.chain(inventory).filter_map(|(url, at)| {
        let error = trusted_ca(url.trusted_ca()?).err()?;
        Some(Problem::error(at.clone(), format!("the `ca_file` of `{url}`: {error}")))
    });
    problems.collect()
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    problems
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use document::MapFiles;
    use identity::FetchedKeys;

    use super::{load, load_from};

    /// Replaces the files of a folder as Kubernetes does, again and again, while they are read
    /// again and again.
    #[test]
    fn files_of_two_versions_are_never_activated_together() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        publish(folder, 0);
        for name in ["policy.yaml", "htpasswd"] {
            symlink(format!("..data/{name}"), folder.join(name)).unwrap();
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for number in 1.. {
                    std::thread::sleep(Duration::from_millis(2));
                    publish(folder, number);
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
            let versions: Vec<_> =
                (0..300).filter_map(|_| versions(&folder.join("policy.yaml"))).collect();
            done.store(true, Ordering::SeqCst);
            assert!(versions.iter().all(|(policy, users)| policy == users), "{versions:?}");
            assert!(versions.first() != versions.last(), "nothing was swapped");
        });
    }

    /// The file may have a rule that denies.
    #[test]
    fn a_file_whose_name_is_not_utf8_is_not_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, "version: 1\ninclude: [\"*.yaml\"]\n").unwrap();
        std::fs::write(folder.path().join("more.yaml"), "roles: {}\n").unwrap();
        let (file, other) = (OsStr::from_bytes(b"caf\xe9.yaml"), OsStr::from_bytes(b"caf\xe9.txt"));
        std::fs::write(folder.path().join(other), "").unwrap();
        assert!(load(&policy, &FetchedKeys::new()).result.is_ok());
        for text in ["", "grants: {}\n"] {
            std::fs::write(folder.path().join(file), text).unwrap();
            // A file whose name is what is shown for the other.
            std::fs::write(folder.path().join("caf\u{fffd}.yaml"), "grants: {}\n").unwrap();
            let problems = load(&policy, &FetchedKeys::new()).result.unwrap_err();
            assert!(
                problems.iter().any(|problem| problem.message.contains("is not UTF-8")),
                "{problems:?}"
            );
        }
    }

    /// They are reported together, and with the other errors of the policy.
    #[test]
    fn each_ca_file_that_cannot_be_used_is_a_problem_of_the_policy() {
        const POLICY: &str = "version: 1
identity:
  jwt:
    - issuer: https://a.example
      audiences: [a]
      keys: { url: 'https://a.example/keys', ca_file: ca.pem }
    - issuer: https://b.example
      audiences: [b]
      introspection: { url: 'https://b.example/ask', credentials_file: client, ca_file: ca.pem }
search:
  folder: cluster
  hosts: [c.example]
  inventory: { url: 'https://c.example:9200', ca_file: ca.pem }
";
        const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
        for more in ["", "roles: { reader: { extends: [missing] } }\n"] {
            let files = MapFiles::new("policy.yaml", format!("{POLICY}{more}"))
                .and("ca.pem", PEM)
                .and("client", "client:secret\n")
                .and("cluster/roles.yml", "_meta: { type: roles, config_version: 2 }\nr: {}\n");
            let result = load_from(&files, Path::new("policy.yaml"), &FetchedKeys::new());
            let problems = result.unwrap_err();
            let mut errors: Vec<&str> = problems
                .iter()
                .filter(|problem| !problem.is_warning())
                .map(|problem| problem.message.split(" cannot be used").next().unwrap())
                .collect();
            let of_policy = errors.split_off(3);
            assert_eq!(
                errors,
                [
                    "the `ca_file` of `https://a.example/keys`: certificate 1",
                    "the `ca_file` of `https://b.example/ask`: certificate 1",
                    "the `ca_file` of `https://c.example:9200/_resolve/index/*`: certificate 1",
                ]
            );
            assert_eq!(of_policy.len(), more.lines().count(), "{of_policy:?}");
        }
    }

    fn publish(folder: &Path, number: u32) {
        let version = folder.join(format!("..{number}"));
        std::fs::create_dir(&version).unwrap();
        let policy = format!(
            "version: 1\nidentity:\n  basic: {{ realm: r{number}, users_file: htpasswd }}\n"
        );
        std::fs::write(version.join("policy.yaml"), policy).unwrap();
        let users = format!("u{number}:{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
        std::fs::write(version.join("htpasswd"), users).unwrap();
        symlink(version.file_name().unwrap(), folder.join("..new")).unwrap();
        std::fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    }

    /// The version of the policy, and that of the users loaded with it; `None` if the files kept
    /// changing.
    fn versions(file: &Path) -> Option<(String, String)> {
        let compiled = load(file, &FetchedKeys::new()).result.ok()?;
        let basic = compiled.loaded.policy.identity.basic.as_ref().unwrap();
        Some((basic.realm.replace('r', ""), basic.users[0].name.replace('u', "")))
    }
}
