//! `{SHA}` and the base64 of one SHA-1 (RFC 2307). It is unsalted and fast, so it is accepted with a warning. The
//! loader of the policy gives that warning, so this module gives none.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Parsed, damaged, same};

pub(super) struct Hash([u8; 20]);

/// Parses what follows `{SHA}`.
pub(super) fn parse(text: &str) -> Parsed<Hash> {
    let digest = STANDARD.decode(text).ok().and_then(|digest| digest.try_into().ok());
    let digest = digest.ok_or(damaged("a `{SHA}` hash that is not 20 bytes in base64"))?;
    Ok((Hash(digest), None))
}

impl Hash {
    pub(super) fn matches(&self, password: &[u8]) -> bool {
        same(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), &self.0)
    }
}
