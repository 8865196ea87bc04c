//! Policy bundles: a policy with all its files in one archive, which one server can give to many
//! rolegates.
//!
//! A bundle is a `tar.gz` with, in this order, `manifest.json` (the [`Manifest`]: a revision, and
//! size and SHA-256 of each file), `signature.json` (an Ed25519 signature over the exact bytes of
//! the manifest; optional) and the files. [`build()`] and [`sign`] write one, [`Bundle::open`]
//! reads one: if public keys are given, no content of a file is read before the signature is
//! verified. Nothing is accepted that the manifest does not list, and the files stay in memory, so
//! no name in an archive can reach the file system.
//!
//! This crate does no I/O: bytes are arguments and results.

mod build;
mod error;
mod keys;
mod manifest;
mod open;

pub use build::{BuildError, build, sign};
pub use error::BundleError;
pub use keys::{KeyError, KeyId, KeyPair, PublicKey};
pub use manifest::{Entry, Manifest, sha256};
pub use open::Bundle;
