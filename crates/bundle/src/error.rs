//! Why a bundle is not accepted. Errors are logged, and printed on terminals, so no text of a
//! bundle, which anyone may have made, is shown as it is.

use crate::keys::KeyId;

/// The most bytes of a text that are shown, but for the last character.
const MAX_TEXT: usize = 200;
/// The most bytes of a name, so that what is wrong with it is not cut off.
const MAX_NAME: usize = 100;

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
        Self::Malformed(escape(text.as_ref(), &['"', '\'', '\\'], MAX_TEXT))
    }
}

/// The beginning of a name, in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", escape(name, &['\''], MAX_NAME))
}

/// The beginning of a text, on one line. Characters are escaped unless they are `plain`.
fn escape(text: &str, plain: &[char], max: usize) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if escaped.len() >= max {
            escaped.push('\u{2026}');
            break;
        }
        if plain.contains(&letter) {
            escaped.push(letter);
        } else {
            escaped.extend(letter.escape_debug());
        }
    }
    escaped
}
