//! Reads bundles, which may come from anyone.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::PathBuf;

use document::{MapFiles, excerpt};
use flate2::bufread::GzDecoder;
use tar::{Archive, Entries, EntryType};

use crate::error::{BundleError, quote};
use crate::keys::{KeyId, PublicKey, Signature, sha256};
use crate::manifest::{MANIFEST, Manifest, SIGNATURE};

/// Maximum size of the manifest, in bytes: room for 10,000 files with long names.
const MAX_MANIFEST: u64 = 4 << 20;
/// Maximum size of the signature, in bytes.
const MAX_SIGNATURE: u64 = 1 << 10;
/// The size of a tar block.
const BLOCK: u64 = 512;
/// The maximum size of a file's header and padding: a block each.
const OVERHEAD: u64 = 2 * BLOCK;
/// The maximum number of zero bytes after the last file. Two blocks of zeros end an archive. Some
/// programs then add more, up to a multiple of twenty blocks.
const MAX_END: u64 = 22 * BLOCK;

/// A bundle whose files are complete and as the manifest says. The signature is verified if there
/// were public keys.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The key that has signed it, as the bundle says. Verified only if there were public keys.
    pub signed_by: Option<KeyId>,
    /// The files by name.
    pub files: MapFiles,
    /// The signed bytes.
    pub(crate) manifest_bytes: Vec<u8>,
}

impl Bundle {
    /// Reads a bundle whose files together have at most `max_size` bytes. If there are `trusted`
    /// keys, one of them must have signed it. The signature is verified before any file is read.
    ///
    /// # Errors
    /// If the bundle is not accepted.
    pub fn open(bytes: &[u8], trusted: &[PublicKey], max_size: u64) -> Result<Self, BundleError> {
        // Until the manifest is verified, only it, the signature and the header of the first file
        // may be unpacked.
        let remaining = Cell::new(MAX_MANIFEST + MAX_SIGNATURE + 3 * OVERHEAD);
        let mut archive =
            Archive::new(Bounded { inner: GzDecoder::new(bytes), remaining: &remaining });
        let mut entries = archive.entries().map_err(read_error)?.raw(true);
        let manifest_bytes = read_file(next_file(&mut entries)?, MANIFEST, MAX_MANIFEST)?;
        let manifest = Manifest::read(&manifest_bytes)?;
        let mut next = next_file(&mut entries)?;
        let mut signature = None;
        if next.as_ref().is_some_and(|file| file.name == SIGNATURE) {
            let bytes = read_file(next, SIGNATURE, MAX_SIGNATURE)?;
            let parsed = Signature::read(&bytes);
            signature =
                Some(parsed.ok_or_else(|| BundleError::malformed("its signature cannot be read"))?);
            next = next_file(&mut entries)?;
        }
        match &signature {
            Some(signature) if !trusted.is_empty() => {
                let key = trusted.iter().find(|key| key.id() == signature.key);
                let key = key.ok_or_else(|| BundleError::UnknownKey(signature.key.clone()))?;
                if !signature.is_valid(&manifest_bytes, key) {
                    return Err(BundleError::WrongSignature);
                }
            }
            None if !trusted.is_empty() => return Err(BundleError::Unsigned),
            Some(_) | None => {}
        }
        if manifest.size() > max_size {
            return Err(BundleError::TooLarge(max_size));
        }
        for file in &manifest.files {
            remaining.set(remaining.get().saturating_add(file.size).saturating_add(OVERHEAD));
        }
        remaining.set(remaining.get().saturating_add(MAX_END));
        let mut files = MapFiles::default();
        for file in &manifest.files {
            let bytes = read_file(next, &file.name, file.size)?;
            if u64::try_from(bytes.len()) != Ok(file.size) || sha256(&bytes) != file.sha256 {
                let name = quote(&file.name);
                return Err(BundleError::malformed(format!("{name} is not as the manifest says")));
            }
            files.0.insert(PathBuf::from(&file.name), bytes);
            next = next_file(&mut entries)?;
        }
        if let Some(file) = next {
            let name = quote(&file.name);
            return Err(BundleError::malformed(format!("{name} is not in the manifest")));
        }
        check_end(archive.into_inner())?;
        Ok(Self {
            manifest,
            signed_by: signature.map(|signature| signature.key),
            files,
            manifest_bytes,
        })
    }

    /// The SHA-256 of the manifest, in hex: equal for bundles with the same revision and files.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&self.manifest_bytes)
    }
}

/// Checks that only zeros follow the last file, and that nothing follows the compressed archive.
fn check_end(mut archive: Bounded<'_, GzDecoder<&[u8]>>) -> Result<(), BundleError> {
    let mut padding = Vec::new();
    // gzip verifies the checksum at the end.
    archive.read_to_end(&mut padding).map_err(read_error)?;
    if padding.iter().any(|byte| *byte != 0) || !archive.inner.into_inner().is_empty() {
        return Err(BundleError::malformed("something follows its last file"));
    }
    Ok(())
}

/// An entry of the archive whose contents are not read yet.
struct ArchivedFile<'a, R: Read> {
    name: String,
    entry: tar::Entry<'a, R>,
}

/// The next file of the archive. Other entries, such as the extension for long names, are errors.
fn next_file<'a, R: Read>(
    entries: &mut Entries<'a, R>,
) -> Result<Option<ArchivedFile<'a, R>>, BundleError> {
    let Some(entry) = entries.next().transpose().map_err(read_error)? else { return Ok(None) };
    let name = String::from_utf8(entry.path_bytes().into_owned())
        .map_err(|_| BundleError::malformed("a name is not UTF-8"))?;
    let kind = entry.header().entry_type();
    if kind != EntryType::Regular {
        let name = quote(&name);
        return Err(BundleError::malformed(format!("{name} is not a plain file but {kind:?}")));
    }
    Ok(Some(ArchivedFile { name, entry }))
}

/// Reads the contents of a file, which must have this name and at most `max` bytes.
fn read_file<R: Read>(
    file: Option<ArchivedFile<'_, R>>,
    name: &str,
    max: u64,
) -> Result<Vec<u8>, BundleError> {
    let Some(mut file) = file.filter(|file| file.name == name) else {
        return Err(BundleError::malformed(format!("{} is not where it must be", quote(name))));
    };
    if file.entry.header().size().map_err(read_error)? > max {
        return Err(BundleError::malformed(format!("{} is larger than it may be", quote(name))));
    }
    let mut bytes = Vec::new();
    file.entry.read_to_end(&mut bytes).map_err(read_error)?;
    Ok(bytes)
}

/// A reader of at most `remaining` bytes: a small archive may be large unpacked.
struct Bounded<'l, R> {
    inner: R,
    remaining: &'l Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let Some(remaining) = self.remaining.get().checked_sub(read as u64) else {
            return Err(io::Error::other("it is larger than its manifest says"));
        };
        self.remaining.set(remaining);
        Ok(read)
    }
}

fn read_error(error: io::Error) -> BundleError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return BundleError::malformed("it is truncated");
    }
    BundleError::malformed(excerpt(&error.to_string()))
}
