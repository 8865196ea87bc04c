//! Why a bundle is not accepted. Errors are logged and printed on terminals, and anyone may have
//! made the bundle, so errors repeat only excerpts of its texts.

use document::excerpt;

use crate::keys::KeyId;

/// Why a bundle is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// It is not a complete bundle, or has something that it may not have.
    #[error("not a valid bundle: {0}")]
    Malformed(String),
    /// It is too large.
    #[error("the bundle has more than {0} bytes unpacked")]
    TooLarge(u64),
    /// It has no signature, although there are trusted keys.
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
    /// A malformed bundle. The caller passes texts of the bundle through [`quote`] or [`excerpt`].
    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::Malformed(text.into())
    }
}

/// The beginning of a name, in quotes.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", excerpt(name))
}
