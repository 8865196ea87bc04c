//! The limits of the caches.

use std::time::Duration;

/// The limits of the caches, in number, memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of verified Basic credentials.
    pub basic_credentials: usize,
    /// Maximum memory of all cached Basic credentials together, in bytes, with the values that are
    /// attached to them. Credentials that are carried over a reload, of 162 bytes each, have
    /// another limit of the same size.
    pub basic_bytes: usize,
    /// How long Basic credentials count as verified, from their verification or their last use. A
    /// use in the first quarter of this time does not renew them: a renewal writes to memory that
    /// all threads read. Setting the clock back to more than a minute before the last renewal ends
    /// them.
    pub basic_ttl: Duration,
    /// Maximum number of verified tokens. Each is kept until it expires.
    pub tokens: usize,
    /// Maximum memory of all cached tokens together, in bytes, with the attached values.
    pub token_bytes: usize,
}

impl Default for Limits {
    /// 65,536 entries and 32 MiB for each cache, and ten minutes for Basic credentials: enough for
    /// the callers of a large site. A caller with a short name takes about half a KiB, so the limit
    /// in bytes is usually reached first.
    fn default() -> Self {
        Self {
            basic_credentials: 1 << 16,
            basic_bytes: 32 << 20,
            basic_ttl: Duration::from_secs(600),
            tokens: 1 << 16,
            token_bytes: 32 << 20,
        }
    }
}
