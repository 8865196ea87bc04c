//! The files of the policy that a command uses: on disk, or in a bundle on disk.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bundle::{Bundle, PublicKey};
use document::{FileError, Files, MapFiles, Place, Problem};
use identity::FetchedKeys;
use runtime::compiled_policy::{self, CompiledPolicy};
use runtime::files;
use runtime::settings::PolicySource;

use crate::cli::{PolicyOptions, PublicKeys};
use crate::error::CommandError;
use crate::output::Output;

/// Maximum size of a bundle, in bytes. Both its compressed and its unpacked size are limited. A
/// server has its own limit.
pub(super) const MAX_SIZE: usize = 1 << 30;
/// Maximum size of a file with a key, in bytes.
pub(super) const MAX_KEY: usize = 64 << 10;
/// The first bytes of a gzip file (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The files of a policy.
pub(super) enum PolicyFiles {
    /// On disk. The path is that of the policy's file.
    OnDisk(PathBuf),
    /// In a bundle. The name of each file begins with the path of the bundle, for messages.
    InBundle { bundle: PathBuf, policy: PathBuf, files: MapFiles },
}

impl PolicyOptions {
    /// Opens the files of the policy, and sets the format of the output.
    pub(super) fn open(&self, output: &mut Output) -> Result<PolicyFiles, CommandError> {
        output.format = self.output;
        PolicyFiles::open(self.path.get(), &self.public_keys, output)
    }

    /// Loads and compiles the policy, and sets the format of the output.
    pub(super) fn load(&self, output: &mut Output) -> Result<CompiledPolicy, CommandError> {
        Ok(self.open(output)?.load()?)
    }
}

impl PolicyFiles {
    /// Opens the policy at this path: a file, a folder or a bundle. If there are `keys`, one
    /// of them must have signed the bundle. Otherwise a note on standard error says that only its
    /// hashes were verified.
    pub(super) fn open(
        path: &Path,
        keys: &PublicKeys,
        output: &Output,
    ) -> Result<Self, CommandError> {
        if let Some(PolicySource::Bundle(url)) = path.to_str().and_then(|text| text.parse().ok())
            && !path.exists()
        {
            return Err(CommandError::arguments(format_args!(
                "`{url}`: only `serve` fetches a bundle: download it, and name the file"
            )));
        }
        if !is_bundle(path) {
            // For a folder the keys have no effect.
            if !keys.public_key.is_empty() && path.is_file() {
                return Err(CommandError::arguments(format_args!(
                    "`--public-key` is only for bundles, and `{}` is not a bundle",
                    path.display()
                )));
            }
            return Ok(Self::OnDisk(compiled_policy::policy_file(path)));
        }
        let trusted = read_keys(&keys.public_key)?;
        let bytes = files::bytes(path, MAX_SIZE).map_err(|error| problem(path, error))?;
        let bundle = Bundle::open(&bytes, &trusted, MAX_SIZE as u64)
            .map_err(|error| problem(path, error))?;
        if trusted.is_empty() {
            output.error(format_args!(
                "{}: revision {}, only its hashes are verified: `--public-key` verifies who has \
                 signed it",
                path.display(),
                bundle.manifest.revision
            ));
        }
        let policy = path.join(&bundle.manifest.policy);
        let files =
            bundle.files.0.into_iter().map(|(name, bytes)| (path.join(name), bytes)).collect();
        Ok(Self::InBundle { bundle: path.to_owned(), policy, files: MapFiles(files) })
    }

    /// Loads and compiles the policy, or returns every problem.
    pub(super) fn load(&self) -> Result<CompiledPolicy, Vec<Problem>> {
        match self {
            Self::OnDisk(file) => compiled_policy::load(file, &FetchedKeys::new()).result,
            Self::InBundle { policy, files, .. } => {
                compiled_policy::load_from(files, policy, &FetchedKeys::new())
            }
        }
    }

    /// The file of the policy, or the bundle.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::OnDisk(file) => file,
            Self::InBundle { bundle, .. } => bundle,
        }
    }

    /// The test cases beside the policy: where they are, and their text.
    pub(super) fn cases(&self) -> (PathBuf, Result<String, FileError>) {
        let file = match self {
            Self::OnDisk(policy) | Self::InBundle { policy, .. } => {
                policy.with_file_name("cases.yaml")
            }
        };
        let text = match self {
            Self::OnDisk(_) => files::text(&file),
            Self::InBundle { files, .. } => files.read(&file).and_then(|bytes| {
                String::from_utf8(bytes).map_err(|error| FileError::new(error.to_string()))
            }),
        };
        (file, text)
    }
}

fn problem(path: &Path, error: impl Display) -> CommandError {
    vec![Problem::error(Place::start_of(path), error.to_string())].into()
}

/// The public keys in these files.
pub(super) fn read_keys(files: &[PathBuf]) -> Result<Vec<PublicKey>, CommandError> {
    files.iter().map(|path| read_key(path)).collect()
}

fn read_key(path: &Path) -> Result<PublicKey, CommandError> {
    let pem = files::bytes(path, MAX_KEY).map_err(|error| CommandError::failed_at(path, error))?;
    PublicKey::from_pem(&pem)
        .map_err(|error| CommandError::arguments(format_args!("{}: {error}", path.display())))
}

/// Whether this is a bundle, by its first bytes. Only a regular file is read: a pipe can be read
/// only once.
pub(super) fn is_bundle(path: &Path) -> bool {
    let mut start = [0; GZIP.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == GZIP
}
