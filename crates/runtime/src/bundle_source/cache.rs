//! The last good bundle on disk, for a restart while the server cannot be reached.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use policy::KeyUrl;

use crate::files;

const NAME: usize = 16;

/// The file that is locked while a bundle is replaced. It stays: without it, two could lock files
/// of the same name.
const LOCK: &str = ".bundles.lock";

/// The file of one bundle. It holds what the server sent, so it is verified again when it is read.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

impl Cache {
    pub(super) fn new(folder: &Path, url: &KeyUrl) -> Self {
        let hash: String =
            bundle::sha256(url.with_secrets().as_bytes()).chars().take(NAME).collect();
        Self { folder: folder.to_owned(), file: folder.join(format!("bundle-{hash}.tar.gz")) }
    }

    /// What was stored last; `None` if nothing was.
    pub(crate) fn read(&self, max_size: usize) -> io::Result<Option<Vec<u8>>> {
        if !self.file.try_exists()? {
            return Ok(None);
        }
        files::bytes(&self.file, max_size).map(Some).map_err(io::Error::other)
    }

    /// Stores a bundle, in one step: whenever the process or the machine stops, the file has one or
    /// the other bundle. Returns whether it is stored: not if `may_replace` says no about the
    /// bundle that is there. One of more than `max_size` bytes, which would never be used, is
    /// replaced.
    ///
    /// # Errors
    /// When it cannot be written, or the file that is there cannot be read: that may have a newer
    /// bundle. It stays.
    pub(crate) fn store(
        &self,
        bytes: &[u8],
        max_size: usize,
        may_replace: impl FnOnce(&[u8]) -> bool,
    ) -> io::Result<bool> {
        if !self.folder.exists() {
            fs::create_dir_all(&self.folder)?;
            // Where a volume was to be mounted, it is lost with the container.
            tracing::info!(folder = %self.folder.display(), "the folder of `bundle-cache` did not exist: created");
        }
        // Replicas, or a policy and its shadow policy, may store at the same time.
        let _locked = self.lock()?;
        let is_too_large = self
            .file
            .metadata()
            .is_ok_and(|existing| existing.is_file() && existing.len() > max_size as u64);
        let existing = if is_too_large {
            None
        } else {
            self.read(max_size).map_err(|error| unreadable(&error))?
        };
        if existing.is_some_and(|existing| !may_replace(&existing)) {
            return Ok(false);
        }
        // The name is always the same, so that processes that are killed leave one file at most.
        let new = self.file.with_extension("new");
        let _ = fs::remove_file(&new);
        let result = write_new(&new, bytes).and_then(|()| fs::rename(&new, &self.file));
        if result.is_err() {
            // As on a full disk.
            let _ = fs::remove_file(&new);
        }
        result.map(|()| true)
    }

    /// Waits until nobody else stores a bundle in this folder, on any machine. The lock ends with
    /// the file. Who was stopped has it for ever: the caller limits the time.
    fn lock(&self) -> io::Result<File> {
        let path = self.folder.join(LOCK);
        let file =
            File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        // Some network file systems have no locks. What is there is still looked at just before it
        // is replaced.
        if let Err(error) = file.lock() {
            tracing::debug!(%error, "the folder of `bundle-cache` cannot be locked");
        }
        Ok(file)
    }
}

/// Only its owner may read it: a bundle may have password hashes and keys.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn unreadable(error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "the one there may be newer: {error}. Remove it, or let rolegate read it"
    ))
}

#[cfg(test)]
mod tests;
