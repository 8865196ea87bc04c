//! Replaces a file in one step, because a server may read it at any time.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use tempfile::NamedTempFile;

/// The new contents of a file, under a temporary name beside it.
pub(super) struct NewFile {
    file: NamedTempFile,
    /// Why the new file does not have the owner and the group of the old file.
    pub(super) owner_problem: Option<String>,
}

impl NewFile {
    /// Writes the contents that will replace the file `path`. They may be secret. So only their
    /// owner can read them, unless there is an old file: its mode, owner and group are kept.
    pub(super) fn write(path: &Path, contents: &[u8]) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".rolegate-").tempfile_in(folder)?;
        file.write_all(contents)?;
        let mut owner_problem = None;
        if let Ok(old) = fs::metadata(path) {
            let new = file.as_file();
            // Only root can set the owner. The owner can set a group that they are in.
            let result = fchown(new, Some(old.uid()), Some(old.gid()))
                .or_else(|_| fchown(new, None, Some(old.gid())));
            let current = new.metadata()?;
            // Another group must not get the permissions of the old group.
            let mut mode = old.mode() & 0o777;
            if current.gid() != old.gid() {
                mode &= !0o070;
            }
            if (current.uid(), current.gid()) != (old.uid(), old.gid()) {
                let reason = result.err().map(|error| format!(": {error}")).unwrap_or_default();
                let (uid, gid) = (old.uid(), old.gid());
                owner_problem =
                    Some(format!("it cannot keep its owner {uid} and its group {gid}{reason}"));
            }
            new.set_permissions(Permissions::from_mode(mode))?;
        }
        file.as_file().sync_all()?;
        Ok(Self { file, owner_problem })
    }

    /// Renames the temporary file to `path`, which it replaces.
    pub(super) fn rename(self, path: &Path) -> io::Result<()> {
        self.file.persist(path)?;
        Ok(())
    }
}
