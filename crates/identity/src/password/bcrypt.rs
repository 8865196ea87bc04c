//! bcrypt: `$2b$12$` and 53 characters, of which 22 are the salt. `$2a$` and `$2y$` mean the same
//! for a password of at most 72 bytes without NUL, and no other password is accepted.

use base64::Engine as _;
use base64::alphabet::BCRYPT;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use zeroize::Zeroizing;

use super::{Cost, Parsed, PasswordHash, Stored, Weakness, damaged, same, too_costly};

/// bcrypt ignores what follows this many bytes. A longer password is invalid: otherwise two
/// passwords that differ only in what follows would both be right.
pub(super) const MAX_PASSWORD: usize = 72;
/// The highest cost that is accepted: seconds per check.
pub(super) const MAX_COST: u32 = 16;
/// The lowest cost that bcrypt has.
pub(super) const MIN_COST: u32 = 4;
/// The lowest cost that OWASP's password storage cheat sheet recommends.
const RECOMMENDED_COST: u32 = 10;
/// The lowest cost with which a check takes about a second.
const SLOW_COST: u32 = 14;

/// Trailing bits are ignored, as every implementation does: some programs leave them set in the
/// salt.
pub(super) const ALPHABET: GeneralPurpose =
    GeneralPurpose::new(&BCRYPT, NO_PAD.with_decode_allow_trailing_bits(true));

struct Hash {
    cost: u32,
    salt: [u8; 16],
    digest: [u8; 23],
}

/// Parses what follows `$2b$`.
pub(super) fn parse(text: &str) -> Parsed<Stored> {
    let bad = damaged("a bcrypt hash that is not `$2b$`, two digits, `$` and 53 characters");
    let (cost, rest) = text.split_once('$').ok_or(bad)?;
    if cost.len() != 2 || !cost.bytes().all(|byte| byte.is_ascii_digit()) || rest.len() != 53 {
        return Err(bad);
    }
    let cost: u32 = cost.parse().map_err(|_| bad)?;
    let (salt, digest) = rest.split_at_checked(22).ok_or(bad)?;
    let salt = decode(salt).ok_or(bad)?;
    let digest = decode(digest).ok_or(bad)?;
    match cost {
        ..MIN_COST => Err(damaged("a bcrypt hash whose cost is below 4")),
        MIN_COST..=MAX_COST => Ok((Stored(Box::new(Hash { cost, salt, digest })), weakness(cost))),
        _ => Err(too_costly("a bcrypt hash whose cost is above 16: seconds a check")),
    }
}

fn weakness(cost: u32) -> Option<Weakness> {
    match cost {
        ..RECOMMENDED_COST => Some(Weakness::Weak("bcrypt with a cost below 10")),
        SLOW_COST.. => Some(Weakness::Slow("bcrypt with a cost above 13")),
        _ => None,
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    ALPHABET.decode(text).ok()?.try_into().ok()
}

impl PasswordHash for Hash {
    fn cost(&self) -> Cost {
        Cost { algorithm: "bcrypt", parameters: [self.cost, 0, 0] }
    }

    /// A password that is too long costs as much as any other.
    fn matches(&self, password: &[u8]) -> bool {
        let digest = Zeroizing::new(digest(self.cost, self.salt, password));
        let fits = password.len() <= MAX_PASSWORD;
        fits & digest.get(..23).is_some_and(|digest| same(digest, &self.digest))
    }
}

/// The bcrypt digest of a password with a NUL after it, cut at 72 bytes.
pub(super) fn digest(cost: u32, salt: [u8; 16], password: &[u8]) -> [u8; 24] {
    let ended = password.iter().copied().chain([0]).take(MAX_PASSWORD);
    let ended: Zeroizing<Vec<u8>> = Zeroizing::new(ended.collect());
    bcrypt::bcrypt(cost, salt, &ended)
}
