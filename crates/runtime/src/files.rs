//! Reads files and folders. Of those that a policy is read from, records fingerprints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use document::{FileError, Files};

/// The file system. Records a fingerprint of every result, failures included.
#[derive(Debug, Default)]
pub struct RecordedFiles {
    fingerprints: Mutex<BTreeMap<ReadPath, u64>>,
}

/// The paths that were read, with fingerprints of the results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprints(BTreeMap<ReadPath, u64>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadPath {
    File(PathBuf),
    Folder(PathBuf),
}

impl Files for RecordedFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let result = contents(path);
        let hash = result.as_deref().map(fingerprint_bytes);
        self.record(ReadPath::File(path.to_owned()), fingerprint(&hash));
        result
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
        let result = list(folder);
        self.record(ReadPath::Folder(folder.to_owned()), fingerprint(&result));
        result
    }
}

impl RecordedFiles {
    /// The fingerprints of all results so far.
    pub fn into_fingerprints(self) -> Fingerprints {
        Fingerprints(self.fingerprints.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, path: ReadPath, fingerprint: u64) {
        let mut fingerprints = self.fingerprints.lock().unwrap_or_else(PoisonError::into_inner);
        fingerprints.insert(path, fingerprint);
    }
}

impl Fingerprints {
    /// Whether reading all paths again would give the same results.
    pub fn are_current(&self) -> bool {
        self.0.iter().all(|(path, recorded)| *recorded == path.fingerprint_now())
    }

    /// The files and folders whose fingerprints differ from those in `before`. A folder is left out
    /// if a changed file in it is listed: the file says more.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<PathBuf> {
        let paths = self.0.keys().chain(before.0.keys());
        let changed: BTreeSet<&ReadPath> =
            paths.filter(|path| self.0.get(path) != before.0.get(path)).collect();
        let mut paths = Vec::new();
        let mut parents = BTreeSet::new();
        // `ReadPath` orders files before folders.
        for path in changed {
            match path {
                ReadPath::File(path) => {
                    parents.extend(path.parent());
                    paths.push(path.clone());
                }
                ReadPath::Folder(path) if parents.contains(&**path) => {}
                ReadPath::Folder(path) => paths.push(path.clone()),
            }
        }
        paths
    }

    /// The folders to watch, each once. The folders that the paths name come first: they are known
    /// even while a file is missing. Then come the folders to which symbolic links lead.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let mut real_folders = Vec::new();
        for path in self.0.keys() {
            match path {
                ReadPath::Folder(folder) => folders.push(folder.clone()),
                ReadPath::File(file) => {
                    folders.push(parent(file));
                    real_folders.extend(file.canonicalize().map(|file| parent(&file)));
                }
            }
        }
        folders.append(&mut real_folders);
        let mut distinct = BTreeSet::new();
        folders.retain(|folder| distinct.insert(folder.clone()));
        folders
    }
}

impl ReadPath {
    fn fingerprint_now(&self) -> u64 {
        match self {
            Self::File(path) => {
                fingerprint(&hash_file(path).map_err(|error| reason(path, &error, MAX_FILE)))
            }
            Self::Folder(path) => fingerprint(&list(path)),
        }
    }
}

/// The text of a file.
pub fn text(path: &Path) -> Result<String, FileError> {
    String::from_utf8(contents(path)?).map_err(|_| FileError::new("not UTF-8"))
}

/// The contents of a file.
pub fn contents(path: &Path) -> Result<Vec<u8>, FileError> {
    bytes(path, MAX_FILE)
}

/// The contents of a file of at most `max` bytes.
pub fn bytes(path: &Path, max: usize) -> Result<Vec<u8>, FileError> {
    read_at_most(path, max).map_err(|error| reason(path, &error, max))
}

/// The folder of a file; `.` if its path has none.
fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// How many bytes are read at a time. Many kernels do not preempt a system call: reading 17 MB at
/// once keeps the processor for four milliseconds, and requests wait for it.
const PART: usize = 64 << 10;
/// Maximum size of a file, in bytes. 100,000 rules are 17 MB; a million users are 100 MB. A file
/// without an end, such as `/dev/zero`, must not take all memory.
const MAX_FILE: usize = 256 << 20;
/// Maximum number of names that are read from a folder.
const MAX_NAMES: usize = 100_000;

fn read_at_most(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    // The size of a pipe and the like is zero.
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(size.min(max))?;
    while next_part(&mut file, &mut bytes)? > 0 {
        if bytes.len() > max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    Ok(bytes)
}

/// The fingerprint of a file's content, computed without holding all of it in memory.
fn hash_file(path: &Path) -> io::Result<u64> {
    let (mut file, mut part, mut hasher) = (File::open(path)?, Vec::new(), DefaultHasher::new());
    let mut size = 0;
    while next_part(&mut file, &mut part)? > 0 {
        size += part.len();
        if size > MAX_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        part.hash(&mut hasher);
        part.clear();
    }
    Ok(hasher.finish())
}

/// Appends the next [`PART`] bytes of a file, or its remaining bytes. Returns how many.
fn next_part(file: &mut File, bytes: &mut Vec<u8>) -> io::Result<usize> {
    file.take(PART as u64).read_to_end(bytes)
}

/// The names in a folder, sorted, so that an unchanged folder has the same fingerprint.
fn list(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = |error: io::Error| reason(folder, &error, MAX_FILE);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        if names.len() > MAX_NAMES {
            return Err(FileError::new(format!("it has more than {MAX_NAMES} names")));
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "`ErrorKind` is not exhaustive, and this is only a text"
)]
fn reason(path: &Path, error: &io::Error, max: usize) -> FileError {
    FileError::new(match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("permission denied{}", permission_details(path).unwrap_or_default())
        }
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::FileTooLarge => match max >> 20 {
            0 => format!("it is larger than {} KiB", max >> 10),
            mebibytes => format!("it is larger than {mebibytes} MiB"),
        },
        _ => error.to_string(),
    })
}

/// Explains a denied permission: tells the user of this process, and the owner and mode of the
/// file. If the metadata of the file cannot be read, tells those of the nearest folder above it
/// whose metadata can be.
fn permission_details(path: &Path) -> Option<String> {
    let (at, metadata) = path.ancestors().find_map(|at| Some((at, at.metadata().ok()?)))?;
    let kind = if metadata.is_dir() { "the folder" } else { "the file" };
    let name = if at == path { String::new() } else { format!(" `{}`", at.display()) };
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let (owner, owner_group, mode) = (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777);
    Some(format!(
        ": this process runs as user {user} and group {group}; {kind}{name} belongs to user \
         {owner} and group {owner_group}, with mode {mode:04o}"
    ))
}

/// The fingerprint that [`hash_file`] returns for a file with these bytes.
fn fingerprint_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.chunks(PART).for_each(|part| part.hash(&mut hasher));
    hasher.finish()
}

/// 64 bits suffice: only a person who may write these files could make two versions collide, and
/// they control the policy anyway.
fn fingerprint<T: Hash>(result: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    result.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
