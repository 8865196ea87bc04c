//! Policy bundles: a policy with all its files in an archive, which a server can give to many
//! rolegates.
//!
//! A bundle is a `tar.gz` with, in this order, `manifest.json` (the [`Manifest`]: a revision, and
//! size and SHA-256 of each file), `signature.json` (an Ed25519 signature over the exact bytes of
//! the manifest; optional) and the files. [`build()`] and [`sign`] write bundles. [`Bundle::open`]
//! reads them. If its caller gives it public keys, it verifies the signature before it reads any
//! file. It accepts only files that the manifest lists, and keeps them in memory, so no name in an
//! archive can reach the file system.
//!
//! This crate does no I/O: bytes are arguments and results.

mod build;
mod error;
mod keys;
mod manifest;
mod open;

pub use build::{BuildError, build, sign};
pub use error::BundleError;
pub use keys::{KeyError, KeyId, KeyPair, PublicKey, sha256};
pub use manifest::{FileEntry, Manifest};
pub use open::Bundle;
