//! The section `identity.api_keys`: callers with a key of their own in a header.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use document::Place;

/// API keys: a caller sends its key in a header.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    /// The header: a valid field name (RFC 9110, 5.1) in lower case, not `authorization`.
    pub header: Arc<str>,
    /// The keys, with distinct ids.
    pub keys: Vec<ApiKey>,
    /// Prepended to user names.
    pub user_prefix: Arc<str>,
    /// Prepended to group names.
    pub group_prefix: Arc<str>,
    /// Where they are configured.
    pub at: Place,
}

/// An API key, which is `ID_SECRET`. A user may have several keys, and has the same groups with
/// each.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// The id: the part before `_`, which is public. Letters and digits.
    pub id: Arc<str>,
    /// The hash of the whole key.
    pub hash: KeyHash,
    /// The name of its user, without a prefix.
    pub user: Arc<str>,
    /// The groups of its user, without a prefix.
    pub groups: Vec<Arc<str>>,
    /// The first moment at which it is not valid any more, since the Unix epoch; `None` if it does
    /// not expire.
    pub expires: Option<Duration>,
    /// The place of the id.
    pub at: Place,
}

/// The SHA-256 of a whole API key. `Debug` prints dots.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
