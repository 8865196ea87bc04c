//! The reader of policy bundles.

use std::io::Write;
use std::path::Component;

use bundle::{Bundle, PublicKey};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Maximum size of the files in a bundle.
const MAX_SIZE: u64 = 1 << 16;
/// A public key whose private key nobody has kept.
const KEY: &[u8] =
    b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

/// `SECURITY.md`, S35: a bundle has exactly the files that its manifest lists, below itself and
/// within its limits; and none is accepted by a key that has not signed it. The data are the
/// archive, compressed (as gzip begins) or not.
pub fn bundle(data: &[u8]) {
    let compressed;
    let bytes = if data.starts_with(&[0x1F, 0x8B]) {
        data
    } else {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
        // Writing to memory does not fail.
        let _ = gzip.write_all(data);
        compressed = gzip.finish().unwrap_or_default();
        &compressed
    };
    if let Ok(key) = PublicKey::from_pem(KEY) {
        assert!(
            Bundle::open(bytes, &[key], MAX_SIZE).is_err(),
            "accepted without the key that signs"
        );
    }
    let Ok(bundle) = Bundle::open(bytes, &[], MAX_SIZE) else { return };
    let files = &bundle.files.0;
    assert!(files.values().map(Vec::len).sum::<usize>() as u64 <= MAX_SIZE, "too large");
    assert_eq!(files.len(), bundle.manifest.files.len(), "a file is not listed");
    for (name, bytes) in files {
        assert!(
            name.components().all(|part| matches!(part, Component::Normal(_))),
            "not below the bundle"
        );
        let listed =
            bundle.manifest.files.iter().find(|file| std::path::Path::new(&file.name) == name);
        assert!(
            listed.is_some_and(|file| file.sha256 == ::bundle::sha256(bytes)),
            "other contents"
        );
    }
}
