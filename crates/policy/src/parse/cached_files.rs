//! The files of a policy, each of which is read only once.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Files, Mark, PolicyFile, Reader, Text};

/// The help for a file that is missing.
const RELATIVE: &str = "paths are relative to the folder of the file that names them";

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

    /// The file that a text names; `None` if an error was reported.
    pub(crate) fn read_named(
        &mut self,
        reader: &mut Reader,
        name: &Text<'_>,
    ) -> Option<PolicyFile> {
        self.read_named_or_help(reader, name, RELATIVE)
    }

    /// Like [`Self::read_named`], with this help if the file is missing.
    pub(crate) fn read_named_or_help(
        &mut self,
        reader: &mut Reader,
        name: &Text<'_>,
        help: &str,
    ) -> Option<PolicyFile> {
        if !is_file_name(reader, name) {
            return None;
        }
        let path = relative_to(reader.file(), name.text);
        self.read_path_or_help(reader, name.at, path, help)
    }

    /// The file at this path. If it cannot be read, reports an error at `at` and returns `None`.
    pub(crate) fn read_path(
        &mut self,
        reader: &mut Reader,
        at: Mark,
        path: PathBuf,
    ) -> Option<PolicyFile> {
        self.read_path_or_help(reader, at, path, RELATIVE)
    }

    fn read_path_or_help(
        &mut self,
        reader: &mut Reader,
        at: Mark,
        path: PathBuf,
        help: &str,
    ) -> Option<PolicyFile> {
        match self.read(&path) {
            Ok(bytes) => Some(PolicyFile { path, bytes }),
            Err(error) => {
                report_unreadable(reader, at, (&path, &error), help);
                None
            }
        }
    }

    /// The sorted names of the files in a folder. If it cannot be read, reports an error at `at`
    /// and returns `None`.
    pub(crate) fn list(&self, reader: &mut Reader, at: Mark, folder: &Path) -> Option<Vec<String>> {
        let is_current = folder.as_os_str().is_empty();
        match self.files.list(if is_current { Path::new(".") } else { folder }) {
            Ok(mut names) => {
                names.sort_unstable();
                Some(names)
            }
            Err(error) => {
                report_unreadable(reader, at, (folder, &error), RELATIVE);
                None
            }
        }
    }
}

/// The path of a file that `file` names, relative to the folder of `file`.
pub(crate) fn relative_to(file: &Path, name: &str) -> PathBuf {
    let joined = file.parent().unwrap_or_else(|| Path::new("")).join(name);
    joined.components().filter(|part| *part != Component::CurDir).collect()
}

/// Whether this is a file name and not a URL. Reports a URL, with a message that does not show it,
/// because a URL may contain a secret.
pub(crate) fn is_file_name(reader: &mut Reader, name: &Text<'_>) -> bool {
    let is_url = name.text.contains("://");
    if is_url {
        let help = "name a file; keys at a URL are `keys: { url: … }`";
        reader.error_help(name.at, "a URL where a file is expected", help);
    }
    !is_url
}

fn report_unreadable(
    reader: &mut Reader,
    at: Mark,
    (path, error): (&Path, &FileError),
    help_if_missing: &str,
) {
    let message = format!("cannot read `{}`: {error}", path.display());
    if error.is_missing() {
        reader.error_help(at, message, help_if_missing);
    } else {
        reader.error(at, message);
    }
}
