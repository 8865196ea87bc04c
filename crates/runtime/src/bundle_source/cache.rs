//! The last good bundle on disk, for a restart while the server cannot be reached.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use policy::KeyUrl;

use crate::files;

/// The file that is locked while a bundle is replaced. It is never removed: otherwise two processes
/// could lock two files of this name.
const LOCK: &str = ".bundles.lock";

/// The file of a bundle, exactly as the server sent it. It is verified again when it is read.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

impl Cache {
    pub(super) fn new(folder: &Path, url: &KeyUrl) -> Self {
        let hash = bundle::sha256(url.with_secrets().as_bytes());
        let hash: String = hash.chars().take(16).collect();
        Self { folder: folder.to_owned(), file: folder.join(format!("bundle-{hash}.tar.gz")) }
    }

    /// The stored bundle; `None` if there is none.
    pub(crate) fn read(&self, max_size: usize) -> io::Result<Option<Vec<u8>>> {
        if !self.file.try_exists()? {
            return Ok(None);
        }
        files::bytes(&self.file, max_size).map(Some).map_err(io::Error::other)
    }

    /// Stores a bundle atomically, unless `may_replace` is false for the stored bundle. Returns
    /// whether it is stored.
    ///
    /// # Errors
    /// When it cannot be written, or the stored bundle, which may be newer, cannot be read.
    pub(crate) fn store(
        &self,
        bytes: &[u8],
        max_size: usize,
        may_replace: impl FnOnce(&[u8]) -> bool,
    ) -> io::Result<bool> {
        if !self.folder.exists() {
            fs::create_dir_all(&self.folder)?;
            // The log tells that the folder is new: if a volume should have been mounted there, the
            // folder will be lost with the container.
            let folder = self.folder.display();
            tracing::info!(%folder, "the folder of `bundle-cache` did not exist: created");
        }
        // Replicas, or a policy and its shadow policy, may store at the same time.
        let _locked = self.lock()?;
        let existing = self.read(max_size).map_err(|error| {
            io::Error::other(format!(
                "the stored bundle may be newer: {error}. Remove it, or let rolegate read it"
            ))
        })?;
        if existing.is_some_and(|existing| !may_replace(&existing)) {
            return Ok(false);
        }
        // The name is always the same. So processes that are killed here leave one file at most.
        let new = self.file.with_extension("new");
        let _ = fs::remove_file(&new);
        write_new(&new, bytes)
            .and_then(|()| fs::rename(&new, &self.file))
            // The file may be incomplete, as on a full disk.
            .inspect_err(|_| _ = fs::remove_file(&new))?;
        Ok(true)
    }

    /// Waits until no other process, on any machine, stores a bundle in this folder. Dropping the
    /// returned file releases the lock. A suspended process holds the lock for ever, so a caller of
    /// [`Self::store`] must limit the time.
    fn lock(&self) -> io::Result<File> {
        let path = self.folder.join(LOCK);
        let file =
            File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        // Some network file systems have no locks. There, a newer bundle is protected only because
        // the stored bundle is read just before it is replaced.
        if let Err(error) = file.lock() {
            tracing::debug!(%error, "the folder of `bundle-cache` cannot be locked");
        }
        Ok(file)
    }
}

/// Writes a file that only its owner may read: a bundle may have password hashes and keys.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
