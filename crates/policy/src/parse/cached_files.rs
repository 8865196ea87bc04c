//! The files of a policy, each of which is read only once.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Files, Mark, PolicyFile, Reader, Text};

pub(crate) struct CachedFiles<'f> {
    files: &'f dyn Files,
    read: Vec<PolicyFile>,
    by_path: HashMap<PathBuf, Arc<[u8]>>,
}

impl<'f> CachedFiles<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, read: Vec::new(), by_path: HashMap::new() }
    }

    pub(crate) fn read(&mut self, path: &Path) -> Result<Arc<[u8]>, FileError> {
        if let Some(bytes) = self.by_path.get(path) {
            return Ok(bytes.clone());
        }
        let bytes: Arc<[u8]> = self.files.read(path)?.into();
        self.read.push(PolicyFile { path: path.to_owned(), bytes: bytes.clone() });
        self.by_path.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    pub(crate) fn into_read(self) -> Vec<PolicyFile> {
        self.read
    }

    /// The file that a text names, with its contents; `None` if that was reported as an error.
    pub(crate) fn read_named(
        &mut self,
        reader: &mut Reader,
        name: &Text<'_>,
    ) -> Option<PolicyFile> {
        if !is_file_name(reader, name) {
            return None;
        }
        self.read_beside(reader, name.at, beside(reader.file(), name.text))
    }

    /// The file at this path, which is named at this place.
    pub(crate) fn read_beside(
        &mut self,
        reader: &mut Reader,
        at: Mark,
        path: PathBuf,
    ) -> Option<PolicyFile> {
        match self.read(&path) {
            Ok(bytes) => Some(PolicyFile { path, bytes }),
            Err(error) => {
                report_unreadable(reader, at, &path, &error);
                None
            }
        }
    }

    /// The names in a folder that is named at this place, sorted.
    pub(crate) fn list(&self, reader: &mut Reader, at: Mark, folder: &Path) -> Option<Vec<String>> {
        let is_current = folder.as_os_str().is_empty();
        match self.files.list(if is_current { Path::new(".") } else { folder }) {
            Ok(mut names) => {
                names.sort_unstable();
                Some(names)
            }
            Err(error) => {
                report_unreadable(reader, at, folder, &error);
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

fn report_unreadable(reader: &mut Reader, at: Mark, path: &Path, error: &FileError) {
    let message = format!("cannot read `{}`: {error}", path.display());
    if error.is_missing() {
        let help = "paths are relative to the folder of the file that names them";
        reader.error_help(at, message, help);
    } else {
        reader.error(at, message);
    }
}
