//! The files of a policy, each of which is read only once.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::load::{Files, Source};

/// Reads files and caches their contents.
pub(crate) struct Sources<'f> {
    files: &'f dyn Files,
    read: Vec<Source>,
    known: HashMap<PathBuf, Arc<[u8]>>,
}

impl<'f> Sources<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, read: Vec::new(), known: HashMap::new() }
    }

    /// The contents of a file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Arc<[u8]>, String> {
        if let Some(bytes) = self.known.get(path) {
            return Ok(bytes.clone());
        }
        let bytes: Arc<[u8]> = self.files.read(path)?.into();
        self.read.push(Source { path: path.to_owned(), bytes: bytes.clone() });
        self.known.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    /// The names in a folder, sorted.
    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<String>, String> {
        let here = folder.as_os_str().is_empty();
        let mut names = self.files.list(if here { Path::new(".") } else { folder })?;
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn finish(self) -> Vec<Source> {
        self.read
    }
}

/// The path of a file that another file names, relative to that file's folder.
pub(crate) fn beside(file: &Path, name: &str) -> PathBuf {
    let joined = file.parent().unwrap_or_else(|| Path::new("")).join(name);
    joined.components().filter(|part| *part != Component::CurDir).collect()
}

/// A normalised path, to find out whether two paths name the same file.
pub(crate) fn identity(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
