//! The example policies of the repository with their cases, and copies of them that accept tokens
//! signed by the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Files, Problem};
use policy::Loaded;
use policy::cases::Case;
use policy::model::Keys;

use crate::process::{Failed, repository};
use crate::tokens::Signer;

/// A loaded policy and its golden cases.
#[derive(Debug)]
pub struct Example {
    /// The policy file.
    pub file: PathBuf,
    /// The policy.
    pub loaded: Loaded,
    /// The golden cases.
    pub cases: Arc<[Case]>,
}

impl Example {
    /// The example with this name in `policies/`.
    pub fn named(name: &str) -> Result<Self, Failed> {
        Self::in_folder(&repository().join("policies").join(name))
    }

    /// The policy and the cases in this folder.
    pub fn in_folder(folder: &Path) -> Result<Self, Failed> {
        let file = folder.join("policy.yaml");
        let loaded = policy::load(&Disk, &file).map_err(|problems| failed(&problems))?;
        let cases = folder.join("cases.yaml");
        let text = std::fs::read(&cases)
            .map_err(|error| Failed::io(cases.display().to_string(), &error))?;
        let cases = policy::cases::parse(&cases, &text).map_err(|problems| failed(&problems))?;
        Ok(Self { file, loaded, cases })
    }

    /// Copies the example with this name to `folder`, with the key of `signer` instead of its key
    /// sets.
    pub fn signed_by(name: &str, folder: &Path, signer: &Signer) -> Result<Self, Failed> {
        let from = repository().join("policies").join(name);
        copy(&from, folder).map_err(|error| Failed::io(from.display().to_string(), &error))?;
        let original = Self::in_folder(folder)?;
        for issuer in &original.loaded.policy.identity.jwt {
            if let Keys::File { path, .. } = &issuer.keys {
                std::fs::write(&**path, signer.key_set())
                    .map_err(|error| Failed::io(&**path, &error))?;
            }
        }
        Self::in_folder(folder)
    }
}

/// The names of the examples in `policies/`, sorted.
pub fn names() -> Result<Vec<String>, Failed> {
    let folder = repository().join("policies");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .map_err(|error| Failed::io(folder.display().to_string(), &error))?
        .flatten()
        .filter(|entry| entry.path().join("policy.yaml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Reads files from disk.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        Ok(std::fs::read(path)?)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect())
    }
}

fn failed(problems: &[Problem]) -> Failed {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failed::new("policy", lines.join("\n"))
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
