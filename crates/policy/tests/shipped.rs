//! The policies that are shipped load without a complaint, and so do their cases.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the shipped policies are files")]

use std::fs;
use std::path::{Path, PathBuf};

use document::{FileError, Files, Warning};
use lint::load;
use policy::cases;

struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        Ok(fs::read(path)?)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let entries = fs::read_dir(folder)?;
        Ok(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
    }
}

fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> =
        folders.filter(|path| path.join("policy.yaml").exists()).collect();
    folders.sort();
    folders
}

#[test]
fn every_shipped_policy_loads_without_a_warning() {
    assert!(!shipped().is_empty());
    for folder in shipped() {
        let loaded = load(&Disk, &folder.join("policy.yaml"));
        let problems = loaded.map_or_else(
            |errors| errors,
            |loaded| document::unaccepted(&loaded.files, loaded.warnings),
        );
        // Warnings about hashes and keys, which some comments accept, are not found here.
        let problems =
            problems.iter().filter(|problem| problem.kind() != Some(Warning::Acceptance));
        let lines: Vec<String> = problems.map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}:\n{}", folder.display(), lines.join("\n"));
    }
}

#[test]
fn every_shipped_case_is_read() {
    for folder in shipped() {
        let file = folder.join("cases.yaml");
        let cases = cases::parse(&file, &fs::read(&file).unwrap());
        let lines = cases.err().unwrap_or_default();
        assert!(
            lines.is_empty(),
            "{}",
            lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        );
    }
}
