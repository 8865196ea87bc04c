//! PBKDF2 (RFC 8018) in a PHC string, `$pbkdf2-sha256$i=600000,l=32$salt$digest`, or as passlib
//! writes it, `$pbkdf2-sha256$600000$salt$digest` with `.` in place of `+`, or as OpenSearch's
//! security plugin writes it (`CompressedPBKDF2Function` of password4j):
//! `$3$2576980377600256$salt$digest`. There 3 is SHA-256 and 5 is SHA-512, and the number has the
//! rounds in its upper 32 bits and the length of the digest, in bits, in its lower ones.

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA512};

use super::{
    Cost, Digest, Parsed, PasswordHash, Stored, Weakness, damaged, decimal, phc_base64, too_costly,
};

/// The most rounds that are accepted: seconds per check.
pub(super) const MAX_ROUNDS: u32 = 10_000_000;

/// The rounds from which a check takes about a second.
const SLOW_ROUNDS: u32 = 3_000_000;

struct Hash {
    digest: Digest,
    rounds: NonZeroU32,
    salt: Box<[u8]>,
    key: Box<[u8]>,
}

/// Parses what follows `$pbkdf2-sha256$` or `$pbkdf2-sha512$`.
pub(super) fn parse(digest: Digest, text: &str) -> Parsed<Stored> {
    let bad = damaged("a PBKDF2 hash that is not `$pbkdf2-sha256$i=…,l=…$salt$digest`");
    let fields: Vec<&str> = text.split('$').collect();
    let [costs, salt, key] = fields.as_slice() else { return Err(bad) };
    let (rounds, length) = costs_of(costs).ok_or(bad)?;
    let rounds = NonZeroU32::new(rounds).ok_or(bad)?;
    let salt = bytes(salt).filter(|salt| (8..=64).contains(&salt.len()));
    let salt = salt.ok_or(damaged("a PBKDF2 hash whose salt is not 8 to 64 bytes in base64"))?;
    let key = bytes(key).filter(|key| (16..=64).contains(&key.len()));
    let key = key.ok_or(damaged("a PBKDF2 hash whose digest is not 16 to 64 bytes in base64"))?;
    if length.is_some_and(|length| length != key.len()) {
        return Err(damaged("a PBKDF2 hash whose digest is not as long as its `l` says"));
    }
    if rounds.get() > MAX_ROUNDS {
        return Err(too_costly("a PBKDF2 hash of more than 10,000,000 rounds: seconds a check"));
    }
    Ok((Stored(Box::new(Hash { digest, rounds, salt, key })), weakness(digest, rounds)))
}

/// Parses what follows the number of the hash function in a hash of OpenSearch. What has other
/// fields is none.
pub(super) fn parse_opensearch(code: &str, text: &str) -> Option<Parsed<Stored>> {
    let fields: Vec<&str> = text.split('$').collect();
    let [costs, salt, key] = fields.as_slice() else { return None };
    let costs =
        costs.bytes().all(|byte| byte.is_ascii_digit()).then(|| costs.parse::<u64>())?.ok()?;
    let digest = match code {
        "3" => Digest::Sha256,
        "5" => Digest::Sha512,
        _ => {
            return Some(Err(damaged(
                "a PBKDF2 hash with SHA-1, SHA-224 or SHA-384, which is not supported",
            )));
        }
    };
    let (rounds, bits) = (costs >> 32, costs & u64::from(u32::MAX));
    // OpenSearch writes padding, others do not.
    let (salt, key) = (salt.trim_end_matches('='), key.trim_end_matches('='));
    if bits % 8 != 0 {
        return Some(Err(damaged("a PBKDF2 hash whose digest is not as long as it says")));
    }
    Some(parse(digest, &format!("i={rounds},l={}${salt}${key}", bits / 8)))
}

/// The rounds, and the length of the digest if the text gives it.
fn costs_of(text: &str) -> Option<(u32, Option<usize>)> {
    let Some(rest) = text.strip_prefix("i=") else { return Some((decimal(text)?, None)) };
    match rest.split_once(",l=") {
        Some((rounds, length)) => {
            Some((decimal(rounds)?, Some(usize::try_from(decimal(length)?).ok()?)))
        }
        None => Some((decimal(rest)?, None)),
    }
}

fn bytes(text: &str) -> Option<Box<[u8]>> {
    phc_base64(&text.replace('.', "+"))
}

fn weakness(digest: Digest, rounds: NonZeroU32) -> Option<Weakness> {
    let (recommended, weakness) = match digest {
        Digest::Sha256 => (600_000, "PBKDF2-SHA256 with fewer than 600,000 rounds"),
        Digest::Sha512 => (210_000, "PBKDF2-SHA512 with fewer than 210,000 rounds"),
    };
    match rounds.get() {
        rounds if rounds < recommended => Some(Weakness::Weak(weakness)),
        rounds if rounds > SLOW_ROUNDS => {
            Some(Weakness::Slow("PBKDF2 with more than 3,000,000 rounds"))
        }
        _ => None,
    }
}

impl PasswordHash for Hash {
    fn cost(&self) -> Cost {
        // At most 64 bytes.
        let key = u32::try_from(self.key.len()).unwrap_or(u32::MAX);
        Cost { algorithm: "PBKDF2", parameters: [self.digest as u32, self.rounds.get(), key] }
    }

    fn matches(&self, password: &[u8]) -> bool {
        pbkdf2::verify(algorithm(self.digest), self.rounds, &self.salt, password, &self.key).is_ok()
    }
}

pub(super) fn algorithm(digest: Digest) -> pbkdf2::Algorithm {
    match digest {
        Digest::Sha256 => PBKDF2_HMAC_SHA256,
        Digest::Sha512 => PBKDF2_HMAC_SHA512,
    }
}
