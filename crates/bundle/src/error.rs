//! Why a bundle is not accepted.

use crate::keys::KeyId;
use crate::shown::one_line;

/// Why a bundle is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// It is not a complete bundle, or has something that it may not have.
    #[error("not a valid bundle: {0}")]
    Malformed(String),
    /// It is larger than is allowed.
    #[error("the bundle has more than {0} bytes unpacked")]
    TooLarge(u64),
    /// It has no signature, and must have one.
    #[error("the bundle is not signed")]
    Unsigned,
    /// It is signed by a key that is not trusted.
    #[error("the bundle is signed by the key {0}, which is not trusted")]
    UnknownKey(KeyId),
    /// Its signature is not that of its manifest.
    #[error("the signature of the bundle is wrong")]
    WrongSignature,
}

impl BundleError {
    /// [`Self::Malformed`], with a text that may repeat something of the bundle.
    pub(crate) fn malformed(text: impl AsRef<str>) -> Self {
        Self::Malformed(one_line(text.as_ref()))
    }
}
