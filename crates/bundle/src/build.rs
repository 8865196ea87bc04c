//! Writes bundles. The same files, revision and key give the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use crate::error::BundleError;
use crate::keys::KeyPair;
use crate::manifest::{FileEntry, MANIFEST, Manifest, SIGNATURE};
use crate::open::Bundle;

/// Why a bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The files cannot be in a bundle.
    #[error("{0}")]
    Files(String),
    /// The bundle to be signed cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// An archive cannot be written, for example because a name is too long.
    #[error("cannot write the archive: {0}")]
    Archive(#[from] io::Error),
}

/// Builds a bundle without a signature. `files` has the contents by name, and `policy` is the name
/// of the policy among them.
///
/// # Errors
/// If a name cannot be in a bundle, or there are too many files.
pub fn build(
    policy: &str,
    revision: u64,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<u8>, BuildError> {
    let entries = files.iter().map(|(name, bytes)| FileEntry::new(name, bytes)).collect();
    let manifest = Manifest::new(policy.to_owned(), revision, entries);
    if let Some(fault) = manifest.find_fault() {
        return Err(BuildError::Files(fault));
    }
    let manifest = manifest.to_bytes().map_err(io::Error::from)?;
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    Ok(archive([(MANIFEST, manifest.as_slice())].into_iter().chain(files))?)
}

/// Signs a bundle. A signature that it already has is replaced.
///
/// # Errors
/// If it is not a valid bundle whose files together have at most `max_size` bytes.
pub fn sign(bundle: &[u8], key: &KeyPair, max_size: u64) -> Result<Vec<u8>, BuildError> {
    let Bundle { manifest, manifest_bytes, files, .. } = Bundle::open(bundle, &[], max_size)?;
    let signature = serde_json::to_vec(&key.sign(&manifest_bytes)).map_err(io::Error::from)?;
    let head = [(MANIFEST, manifest_bytes.as_slice()), (SIGNATURE, signature.as_slice())];
    let files = manifest.files.iter().filter_map(|file| {
        let bytes = files.0.get(std::path::Path::new(&file.name))?;
        Some((file.name.as_str(), bytes.as_slice()))
    });
    Ok(archive(head.into_iter().chain(files))?)
}

fn archive<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> io::Result<Vec<u8>> {
    // Operating system 255 is "unknown": the bytes do not depend on where the bundle is built.
    let gzip =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (name, bytes) in files {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_size(bytes.len() as u64);
        header.set_mtime(0);
        header.set_cksum();
        archive.append(&header, bytes)?;
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}
