//! The interface through which callers provide files. This crate does no I/O.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The source of a policy's files.
pub trait Files {
    /// The contents of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError>;

    /// The names of the files in a folder, in any order. The current folder is `.`. In a name that
    /// is not UTF-8, [`char::REPLACEMENT_CHARACTER`] stands for the other bytes; such a file cannot
    /// be read.
    ///
    /// # Errors
    /// If the folder cannot be read.
    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError>;
}

/// The error if a file or a folder cannot be read: a message for people, such as `no such file`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    /// An error with this message: lower case, no full stop. The message about a missing file or
    /// folder begins with `no such`.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Whether there is no such file or folder.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.0.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("no such"))
    }
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The path and the contents of a file that was read.
#[derive(Clone)]
pub struct PolicyFile {
    /// The path.
    pub path: PathBuf,
    /// The contents.
    pub bytes: Arc<[u8]>,
}

/// Omits the bytes, which may be password hashes and keys.
impl std::fmt::Debug for PolicyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PolicyFile").field(&self.path).finish()
    }
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MapFiles(pub BTreeMap<PathBuf, Vec<u8>>);

impl MapFiles {
    /// A single file.
    #[must_use]
    pub fn new(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().and(path, bytes)
    }

    /// Adds a file.
    #[must_use]
    pub fn and(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(PathBuf::from(path), bytes.into());
        self
    }
}

impl Files for MapFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let path = normalized(path);
        let file = self.0.iter().find(|(name, _)| normalized(name) == path);
        file.map(|(_, bytes)| bytes.clone()).ok_or_else(|| FileError::new("no such file"))
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let folder = if folder == Path::new(".") { Path::new("") } else { folder };
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        let names: Vec<String> = inside
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        if names.is_empty() { Err(FileError::new("no such folder")) } else { Ok(names) }
    }
}

/// The path without `.`, and with each `..` after a name resolved, so that two paths of a file
/// compare equal. A `..` at the start of the path is kept.
#[must_use]
pub fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
