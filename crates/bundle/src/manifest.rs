//! The manifest of a bundle, which is signed.

use document::excerpt;
use serde::{Deserialize, Serialize};

use crate::error::{BundleError, quote};
use crate::keys::sha256;

/// The version of the format.
const FORMAT: u32 = 1;
/// The name of the manifest in the archive.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The name of the signature in the archive.
pub(crate) const SIGNATURE: &str = "signature.json";
/// Maximum number of files.
pub(crate) const MAX_FILES: usize = 10_000;
/// Maximum length of a name in bytes: a longer one does not fit in a tar header without extensions.
const MAX_NAME: usize = 255;

/// The list of the files in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// Grows from bundle to bundle.
    pub revision: u64,
    /// The name of the policy among the files.
    pub policy: String,
    /// The files, sorted by name.
    pub files: Vec<FileEntry>,
}

/// A file in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its path relative to the root of the bundle, with `/`.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its contents, in lower-case hex.
    pub sha256: String,
}

impl Manifest {
    pub(crate) fn new(policy: String, revision: u64, files: Vec<FileEntry>) -> Self {
        Self { format: FORMAT, revision, policy, files }
    }

    /// The bytes that are signed.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Parses and checks a manifest.
    ///
    /// # Errors
    /// If it is not a valid manifest.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, BundleError> {
        let manifest = serde_json::from_slice::<Self>(bytes)
            .map_err(|error| excerpt(&error.to_string()))
            .and_then(|manifest| manifest.find_fault().map_or(Ok(manifest), Err));
        manifest.map_err(|fault| BundleError::Malformed(format!("its manifest: {fault}")))
    }

    /// The sum of the sizes of the files, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Why it is not a valid manifest, for people.
    pub(crate) fn find_fault(&self) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!("format {} is unknown", self.format));
        }
        if self.files.len() > MAX_FILES {
            return Some(format!("more than {MAX_FILES} files"));
        }
        let mut previous: Option<&str> = None;
        for FileEntry { name, .. } in &self.files {
            if let Some(fault) = find_name_fault(name) {
                return Some(format!("the name {} {fault}", quote(name)));
            }
            if previous.is_some_and(|previous| previous >= name.as_str()) {
                return Some(format!("the name {} is there twice, or not sorted", quote(name)));
            }
            previous = Some(name);
        }
        let is_listed = self.files.iter().any(|file| file.name == self.policy);
        (!is_listed).then(|| format!("the policy {} is not one of the files", quote(&self.policy)))
    }
}

impl FileEntry {
    pub(crate) fn new(name: &str, bytes: &[u8]) -> Self {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { name: name.to_owned(), size, sha256: sha256(bytes) }
    }
}

/// Why a bundle cannot have a file of this name. Files are only read from memory, so no name can do
/// harm here. But other programs may unpack a bundle, and must not write outside their folder.
fn find_name_fault(name: &str) -> Option<&'static str> {
    if name.len() > MAX_NAME {
        return Some("is longer than 255 bytes");
    }
    if name == MANIFEST || name == SIGNATURE {
        return Some("is reserved");
    }
    if name.contains('\\') || name.contains(char::is_control) {
        return Some("has a backslash or a control character");
    }
    let is_plain = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    (!is_plain).then_some("is not a plain path below the bundle")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_paths() {
        for name in ["policy.yaml", "roles/a.yaml", "a/b/c", "..data/x", "a b", "ü"] {
            assert_eq!(find_name_fault(name), None, "{name}");
        }
        let long = "a".repeat(256);
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "a/../x",
            "./x",
            "a//b",
            "a/",
            "a\\b",
            "a\nb",
            "manifest.json",
            &long,
        ] {
            assert!(find_name_fault(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_manifest_lists_each_file_once_and_the_policy() {
        let entries = |names: &[&str]| names.iter().map(|name| FileEntry::new(name, b"")).collect();
        let fault = |names: &[&str]| Manifest::new("p".into(), 1, entries(names)).find_fault();
        assert_eq!(fault(&["a", "p"]), None);
        assert!(fault(&["p", "a"]).unwrap().contains("sorted"));
        assert!(fault(&["p", "p"]).unwrap().contains("twice"));
        assert!(fault(&["a"]).unwrap().contains("is not one of the files"));
        let unknown = Manifest { format: 2, ..Manifest::new("p".into(), 1, entries(&["p"])) };
        assert!(unknown.find_fault().unwrap().contains("format 2 is unknown"));
    }
}
