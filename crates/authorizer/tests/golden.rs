//! The golden cases of every policy in `policies/`: by the reference evaluator, by the engine, and by the whole authorizer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "a test reads the policies from the disk")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use authorizer::Authorizer;
use policy::cases::Case;

struct Disk;

impl policy::Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|error| error.to_string())
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
        Ok(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
    }
}

#[test]
fn every_case_of_every_policy_holds() {
    let mut count = 0;
    let mut failures = Vec::new();
    for folder in folders() {
        let authorizer = authorizer(&folder);
        for case in cases(&folder).iter() {
            let outcome = authorizer.run_case(case, now());
            count += 1;
            failures.extend(
                outcome.failures.iter().map(|failure| format!("{}: {}: {failure}", case.at, case.name)),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count >= 40, "only {count} cases");
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let mut folders: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("policy.yaml").is_file());
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn authorizer(folder: &Path) -> Authorizer {
    let loaded =
        policy::load(&Disk, &folder.join("policy.yaml")).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let compiled = Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None);
    compiled.unwrap_or_else(|problems| panic!("{problems:#?}")).0
}

fn cases(folder: &Path) -> Arc<[Case]> {
    let file = folder.join("cases.yaml");
    let text = std::fs::read(&file).unwrap();
    policy::cases::parse(&file, &text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap()
}
