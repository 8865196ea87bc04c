//! Edits a file of credentials that a server may read at any time: one command after the other, and
//! each replaces the file in one step.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::new_file::NewFile;
use crate::error::CommandError;
use crate::output::Output;

/// A file that no other command edits.
pub(super) struct EditedFile {
    /// Not a symbolic link: a link stays, and its target is replaced.
    pub(super) path: PathBuf,
    /// Locks the folder. A lock of the file itself would end when the file is replaced.
    _folder: File,
}

impl EditedFile {
    /// Locks the file, which is created if it is missing.
    pub(super) fn lock(file: &Path, output: &Output) -> Result<Self, CommandError> {
        if is_missing(file)? {
            create(file, output).map_err(|error| CommandError::failed_at(file, error))?;
        }
        let path = fs::canonicalize(file).map_err(|error| cannot_replace(file, &error))?;
        let folder = lock_folder(&path).map_err(|error| cannot_replace(file, &error))?;
        Ok(Self { path, _folder: folder })
    }

    /// The contents.
    pub(super) fn contents(&self) -> Result<Vec<u8>, CommandError> {
        contents(&self.path)
    }

    /// Replaces the contents of the file. Its owner, group and mode stay: a server may run as its
    /// owner.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<(), CommandError> {
        let replaced = NewFile::write(&self.path, bytes).and_then(|new| match &new.owner_problem {
            Some(lost) => Err(io::Error::other(format!("run it as the owner of the file: {lost}"))),
            None => new.rename(&self.path),
        });
        replaced.map_err(|error| cannot_replace(&self.path, &error))
    }
}

/// Whether a file is missing. Fails if its folder is missing, too.
pub(super) fn is_missing(file: &Path) -> Result<bool, CommandError> {
    let is_missing = !file.exists() && !file.is_symlink();
    if is_missing && !folder_of(file).is_dir() {
        return Err(CommandError::failed(format_args!(
            "cannot create `{}`: its folder does not exist",
            file.display()
        )));
    }
    Ok(is_missing)
}

/// The contents of a file.
pub(super) fn contents(file: &Path) -> Result<Vec<u8>, CommandError> {
    runtime::files::contents(file).map_err(|error| {
        CommandError::failed(format_args!("cannot read `{}`: {error}", file.display()))
    })
}

/// The bytes with another line at the end. It has the line ending of the first line.
pub(super) fn with_line(bytes: &[u8], line: &str) -> Vec<u8> {
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next();
    let ending = first.map_or("\n", line_ending);
    let mut bytes = bytes.to_vec();
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.extend_from_slice(ending.as_bytes());
    }
    bytes.extend_from_slice(format!("{line}{ending}").as_bytes());
    bytes
}

pub(super) fn line_ending(line: &[u8]) -> &'static str {
    if line.ends_with(b"\r\n") { "\r\n" } else { "\n" }
}

fn cannot_replace(file: &Path, error: &io::Error) -> CommandError {
    let file = file.display();
    CommandError::failed(format_args!("cannot replace `{file}`, which is unchanged: {error}"))
}

/// Creates an empty file that only its owner can read, unless it was created meanwhile.
fn create(file: &Path, output: &Output) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => output.error(format_args!("created `{}`", file.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock_folder(file: &Path) -> io::Result<File> {
    let folder = File::open(file.parent().unwrap_or(Path::new("/")))?;
    folder.lock()?;
    Ok(folder)
}
