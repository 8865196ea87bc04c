//! The last good bundle on disk, for a restart while the server cannot be reached.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use policy::KeyUrl;

use crate::files;

/// Digits of the hash of the URL in the name of the file.
const NAME: usize = 16;

/// The file of one bundle. It holds what the server sent, so it is verified again when it is read.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    file: PathBuf,
}

impl Cache {
    /// The file of the bundle at this URL. Bundles of other URLs in the same folder have other names.
    pub(super) fn of(folder: &Path, url: &KeyUrl) -> Self {
        let hash: String = bundle::sha256(url.with_secrets().as_bytes()).chars().take(NAME).collect();
        Self { folder: folder.to_owned(), file: folder.join(format!("bundle-{hash}.tar.gz")) }
    }

    /// Its path.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// What was stored last; `None` if nothing was.
    ///
    /// # Errors
    /// When the file cannot be read, or it is not even known whether it is there.
    pub(crate) fn read(&self, max_size: usize) -> Result<Option<Vec<u8>>, String> {
        match self.file.try_exists() {
            Ok(true) => files::bytes(&self.file, max_size).map(Some).map_err(|error| error.to_string()),
            Ok(false) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Stores a bundle, in one step: whenever the process or the machine stops, the file has one or the other bundle.
    ///
    /// # Errors
    /// When it cannot be written. The file that was there stays.
    pub(crate) fn store(&self, bytes: &[u8]) -> io::Result<()> {
        if !self.folder.exists() {
            fs::create_dir_all(&self.folder)?;
            // Where a volume was to be mounted, it is lost with the container.
            tracing::info!(folder = %self.folder.display(), "the folder of `bundle-cache` did not exist: created");
        }
        // The bundles of a policy and of its shadow policy may be stored at the same time.
        let new = self.file.with_extension(format!("new-{}", std::process::id()));
        let result = write(&new, bytes).and_then(|()| fs::rename(&new, &self.file));
        if result.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&new);
        }
        result
    }
}

/// A bundle may have password hashes and keys.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing there is the usual first start. All else must be said, because then an older bundle may be accepted.
    #[test]
    fn a_cache_that_cannot_be_read_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |folder: &Path| Cache { folder: folder.to_owned(), file: folder.join("bundle.tar.gz") };
        assert_eq!(cache(folder.path()).read(100), Ok(None));
        assert_eq!(cache(&folder.path().join("missing")).read(100), Ok(None));
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(cache(&file).read(100).is_err(), "the folder is a file");
    }
}
