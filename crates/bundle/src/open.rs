//! Reads bundles, which may come from anyone.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::PathBuf;

use document::MapFiles;
use flate2::bufread::GzDecoder;
use tar::{Archive, Entries, EntryType};

use crate::error::BundleError;
use crate::keys::{KeyId, PublicKey};
use crate::manifest::{Entry, MANIFEST, Manifest, SIGNATURE, sha256};
use crate::shown::quoted;
use crate::signature::Signature;

/// Maximum size of the manifest, in bytes: room for 10,000 files with long names.
const MAX_MANIFEST: u64 = 4 << 20;
/// Maximum size of the signature, in bytes.
const MAX_SIGNATURE: u64 = 1 << 10;
/// The size of a tar block.
const BLOCK: u64 = 512;
/// Bytes of zeros after the last file: two blocks end an archive, and some programs fill up to twenty.
const MAX_END: u64 = 22 * BLOCK;

/// A bundle that was read: all files are there and as the manifest says, and the signature is verified if public keys
/// were given.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The key that has signed it, as the bundle says. Verified only if public keys were given.
    pub signed_by: Option<KeyId>,
    /// The files by name.
    pub files: MapFiles,
    /// What is signed.
    pub(crate) manifest_bytes: Vec<u8>,
}

impl Bundle {
    /// Reads a bundle whose files have at most `max_size` bytes. If there are `trusted` keys, one of them must have signed
    /// it; nothing but manifest and signature is read before that is verified.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn open(bytes: &[u8], trusted: &[PublicKey], max_size: u64) -> Result<Self, BundleError> {
        let left = Cell::new(MAX_MANIFEST + MAX_SIGNATURE + 6 * BLOCK);
        let mut archive = Archive::new(Bounded { inner: GzDecoder::new(bytes), left: &left });
        let mut reader = Reader { entries: archive.entries().map_err(malformed)?.raw(true) };
        let manifest_bytes = reader.file(MANIFEST, MAX_MANIFEST)?;
        let manifest = Manifest::read(&manifest_bytes).map_err(BundleError::malformed)?;
        let mut next = reader.next()?;
        let mut signature: Option<Signature> = None;
        if let Some(entry) = next.as_mut().filter(|entry| entry.name == SIGNATURE) {
            let bytes = entry.read(MAX_SIGNATURE)?;
            let read = Signature::read(&bytes);
            signature = Some(read.ok_or_else(|| BundleError::malformed("its signature cannot be read"))?);
            next = reader.next()?;
        }
        match &signature {
            Some(signature) if !trusted.is_empty() => signature.verify(&manifest_bytes, trusted)?,
            None if !trusted.is_empty() => return Err(BundleError::Unsigned),
            Some(_) | None => {}
        }
        if manifest.size() > max_size {
            return Err(BundleError::TooLarge(max_size));
        }
        let room = |file: &Entry| file.size.saturating_add(2 * BLOCK);
        left.set(
            manifest.files.iter().fold(left.get() + MAX_END, |sum, file| sum.saturating_add(room(file))),
        );
        let mut files = MapFiles::default();
        for file in &manifest.files {
            let entry = next.as_mut().filter(|entry| entry.name == file.name);
            let entry = entry.ok_or_else(|| missing(&file.name))?;
            let bytes = entry.read(file.size)?;
            if u64::try_from(bytes.len()) != Ok(file.size) || sha256(&bytes) != file.sha256 {
                return Err(BundleError::malformed(format!(
                    "{} is not as the manifest says",
                    quoted(&file.name)
                )));
            }
            files.0.insert(PathBuf::from(&file.name), bytes);
            next = reader.next()?;
        }
        if let Some(entry) = next {
            return Err(BundleError::malformed(format!("{} is not in the manifest", quoted(&entry.name))));
        }
        end(archive.into_inner())?;
        Ok(Self { manifest, signed_by: signature.map(|signature| signature.key()), files, manifest_bytes })
    }

    /// The SHA-256 of the manifest, in hex: equal for bundles with the same revision and files.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&self.manifest_bytes)
    }
}

/// After the last file there are only zeros, and nothing after the compressed archive.
fn end(mut archive: Bounded<'_, GzDecoder<&[u8]>>) -> Result<(), BundleError> {
    let mut rest = Vec::new();
    // Reads to the end, where the checksum is verified.
    archive.read_to_end(&mut rest).map_err(malformed)?;
    if rest.iter().any(|byte| *byte != 0) || !archive.inner.into_inner().is_empty() {
        return Err(BundleError::malformed("something follows its last file"));
    }
    Ok(())
}

/// The entries of the archive, as its headers have them: an extension such as a long name is an entry of another type.
struct Reader<'a, R: Read> {
    entries: Entries<'a, R>,
}

struct Unread<'a, R: Read> {
    name: String,
    entry: tar::Entry<'a, R>,
}

impl<'a, R: Read> Reader<'a, R> {
    fn next(&mut self) -> Result<Option<Unread<'a, R>>, BundleError> {
        let Some(entry) = self.entries.next().transpose().map_err(malformed)? else { return Ok(None) };
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let name = name.map_err(|_| BundleError::malformed("a name is not UTF-8"))?;
        let kind = entry.header().entry_type();
        if kind != EntryType::Regular {
            return Err(BundleError::malformed(format!(
                "{} is not a plain file but {kind:?}",
                quoted(&name)
            )));
        }
        Ok(Some(Unread { name, entry }))
    }

    fn file(&mut self, name: &str, max: u64) -> Result<Vec<u8>, BundleError> {
        let entry = self.next()?.filter(|entry| entry.name == name);
        entry.ok_or_else(|| missing(name))?.read(max)
    }
}

impl<R: Read> Unread<'_, R> {
    fn read(&mut self, max: u64) -> Result<Vec<u8>, BundleError> {
        if self.entry.header().size().map_err(malformed)? > max {
            return Err(BundleError::malformed(format!("{} is larger than it may be", quoted(&self.name))));
        }
        let mut bytes = Vec::new();
        self.entry.read_to_end(&mut bytes).map_err(malformed)?;
        Ok(bytes)
    }
}

/// A reader that gives at most `left` bytes: a small archive may be large unpacked.
struct Bounded<'l, R> {
    inner: R,
    left: &'l Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| io::Error::other("it is larger than its manifest says"))?);
        Ok(read)
    }
}

fn missing(name: &str) -> BundleError {
    BundleError::malformed(format!("{} is not where it must be", quoted(name)))
}

fn malformed(error: io::Error) -> BundleError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return BundleError::malformed("it is truncated");
    }
    BundleError::malformed(error.to_string())
}
