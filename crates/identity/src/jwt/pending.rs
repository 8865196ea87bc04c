//! A token to verify: what is needed to do so later or on another thread, and the result.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::issuer::{self, Issuer, VerifiedToken};
use super::token::Token;
use crate::memory::allocated;
use crate::{CredentialsError, UnixTime};

/// A token to parse and verify.
///
/// Verifying a token takes microseconds (HS512) to hundreds of microseconds (ES512), and the whole check of a caller
/// whose credentials are cached about one microsecond (November 2026; `make bench BENCH=identity`, `BENCH=check`). If
/// tokens were verified as they arrive, a flood of wrong signatures would delay all other requests of the thread.
pub(crate) struct PendingToken {
    token: Zeroizing<Box<[u8]>>,
    issuers: Arc<[Issuer]>,
    now: UnixTime,
    /// The cache key of the token.
    hash: u128,
}

/// The result of a [`PendingToken`].
#[derive(Clone)]
pub(crate) struct TokenResult {
    pub(crate) result: Result<Arc<VerifiedToken>, CredentialsError>,
    /// The issuers by whose keys and settings it was verified. Under others it does not count.
    pub(crate) issuers: Arc<[Issuer]>,
    /// The cache key of the token.
    pub(crate) hash: u128,
}

impl PendingToken {
    /// `hash` is the cache key of the token.
    pub(crate) fn new(token: &[u8], issuers: &Arc<[Issuer]>, now: UnixTime, hash: u128) -> Self {
        Self { token: Zeroizing::new(token.into()), issuers: Arc::clone(issuers), now, hash }
    }

    pub(crate) fn heap_size(&self) -> usize {
        allocated(self.token.len())
    }

    pub(crate) fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) fn run(self) -> TokenResult {
        let Self { token, issuers, now, hash } = self;
        let verify =
            |token: Token<'_>| issuer::find_issuer(&issuers, token.payload.get("iss"))?.verify(token, now);
        let result = Token::parse(&token).and_then(verify).map(Arc::new);
        TokenResult { result, issuers, hash }
    }
}
