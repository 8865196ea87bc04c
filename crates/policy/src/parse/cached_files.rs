//! The files of a policy, each of which is read only once.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Files, Mark, PolicyFile, Reader, Text};

/// Reads files and caches their contents.
pub(crate) struct CachedFiles<'f> {
    files: &'f dyn Files,
    read: Vec<PolicyFile>,
    known: HashMap<PathBuf, Arc<[u8]>>,
}

impl<'f> CachedFiles<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, read: Vec::new(), known: HashMap::new() }
    }

    /// The contents of a file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Arc<[u8]>, FileError> {
        if let Some(bytes) = self.known.get(path) {
            return Ok(bytes.clone());
        }
        let bytes: Arc<[u8]> = self.files.read(path)?.into();
        self.read.push(PolicyFile { path: path.to_owned(), bytes: bytes.clone() });
        self.known.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    /// The names in a folder, sorted.
    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let here = folder.as_os_str().is_empty();
        let mut names = self.files.list(if here { Path::new(".") } else { folder })?;
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn finish(self) -> Vec<PolicyFile> {
        self.read
    }

    /// The file that a value of `file` names, with its contents; `None` if that was reported as an error.
    pub(crate) fn read_named(
        &mut self,
        reader: &mut Reader,
        file: &Path,
        name: &Text<'_>,
    ) -> Option<PolicyFile> {
        if !is_file_name(reader, name) {
            return None;
        }
        let path = beside(file, name.text);
        match self.read(&path) {
            Ok(bytes) => Some(PolicyFile { path, bytes }),
            Err(error) => {
                unreadable(reader, name.at, &path, &error);
                None
            }
        }
    }
}

/// The path of a file that another file names, relative to that file's folder.
pub(crate) fn beside(file: &Path, name: &str) -> PathBuf {
    let joined = file.parent().unwrap_or_else(|| Path::new("")).join(name);
    joined.components().filter(|part| *part != Component::CurDir).collect()
}

/// Whether a file name is not a URL by mistake. A URL may contain a secret, so it is never shown.
pub(crate) fn is_file_name(reader: &mut Reader, name: &Text<'_>) -> bool {
    let is_url = name.text.contains("://");
    if is_url {
        let help = "name a file; keys at a URL are `keys: { url: … }`";
        reader.error_help(name.at, "a URL where a file is expected", help);
    }
    !is_url
}

/// Reports a file that cannot be read.
pub(crate) fn unreadable(reader: &mut Reader, at: Mark, path: &Path, error: &FileError) {
    let message = format!("cannot read `{}`: {error}", path.display());
    if error.is_missing() {
        reader.error_help(at, message, "paths are relative to the folder of the file that names them");
    } else {
        reader.error(at, message);
    }
}
