//! Password hashes: the algorithms, their limits, comparing a password with a stored hash in
//! constant time, and hashing a new password. The formats of stored hashes are in `format`.

mod format;

use std::num::NonZeroU32;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA512};
use aws_lc_rs::{constant_time, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use zeroize::Zeroizing;

/// The longest password that is hashed, in bytes. The cost of SHA-crypt grows with the password,
/// which the client chooses: 23 ms at 1,400 bytes (November 2026). Nobody types that many, and
/// generated passwords are shorter.
pub(crate) const MAX_PASSWORD: usize = 256;

/// bcrypt ignores the bytes after this many. A longer password is invalid: otherwise two passwords
/// that differ only in those bytes would both be right.
const MAX_BCRYPT_PASSWORD: usize = 72;

/// The most memory of one argon2id hash, in KiB: 1 GiB.
const MAX_MEMORY: u32 = 1 << 20;
/// The most memory that one argon2id hash fills over all passes, in KiB: 4 GiB, which takes some
/// seconds.
const MAX_WORK: u64 = 4 << 20;
/// The most lanes of argon2id. They run one after another here.
const MAX_LANES: u32 = 64;
/// The most rounds of PBKDF2 and SHA-crypt: seconds per hash.
const MAX_ROUNDS: u32 = 10_000_000;

/// An algorithm with its parameters. Two hashes with the same algorithm and parameters take the
/// same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// Argon2id (RFC 9106).
    Argon2id {
        /// Memory in KiB.
        memory: u32,
        /// Passes over the memory.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// bcrypt, version `2b`.
    Bcrypt {
        /// The binary logarithm of the rounds, 4 to 16.
        cost: u32,
    },
    /// PBKDF2 (RFC 8018) with HMAC-SHA-256.
    Pbkdf2Sha256 {
        /// Rounds.
        rounds: NonZeroU32,
    },
    /// PBKDF2 (RFC 8018) with HMAC-SHA-512.
    Pbkdf2Sha512 {
        /// Rounds.
        rounds: NonZeroU32,
    },
    /// SHA-crypt with SHA-256, as crypt(3) defines it.
    Sha256Crypt {
        /// Rounds, 1,000 to 10,000,000.
        rounds: u32,
    },
    /// SHA-crypt with SHA-512, as crypt(3) defines it.
    Sha512Crypt {
        /// Rounds, 1,000 to 10,000,000.
        rounds: u32,
    },
}

/// A parsed hash, ready to compare a password with. It has no `Debug`, so it shows neither salt nor
/// digest.
pub(crate) enum StoredHash {
    /// `{SHA}` and the base64 of one SHA-1 (RFC 2307).
    Sha1([u8; 20]),
    Salted {
        algorithm: HashAlgorithm,
        salt: Box<[u8]>,
        digest: Box<[u8]>,
    },
}

/// A hash that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashError {
    pub(crate) message: &'static str,
    /// How to mend it.
    pub(crate) help: &'static str,
}

/// Why a usable hash should be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weakness {
    /// It is easier to break than it should be.
    Weak(&'static str),
    /// A check takes about a second or longer. This is an estimate from the parameters for one core
    /// of a server (2026): a measurement would make the warning depend on the machine and its load.
    Slow(&'static str),
}

/// Why a password cannot be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashPasswordError {
    /// No user could authenticate with it: HTTP Basic cannot carry it (RFC 7617, 2), or it is
    /// longer than any that is hashed.
    #[error("a password must not be empty, longer than 256 bytes, or have control characters")]
    Unusable,
    /// bcrypt ignores all bytes after the first 72.
    #[error("bcrypt takes at most 72 bytes")]
    TooLongForBcrypt,
    /// The parameters are out of their range.
    #[error("parameters out of range")]
    Parameters,
    /// The system's random number generator failed.
    #[error("the system's random number generator failed")]
    NoRandomness,
}

impl HashError {
    /// The hash is damaged, or its format is not supported.
    const fn unusable(message: &'static str) -> Self {
        let help =
            "make a new one with `rolegate hash-password`, or in a file with `rolegate passwd`";
        Self { message, help }
    }

    /// The hash costs so much that a few requests could stop the process.
    const fn too_costly(message: &'static str) -> Self {
        Self { message, help: "make a new one with less cost" }
    }
}

impl StoredHash {
    /// Parses a hash and rates its parameters.
    ///
    /// # Errors
    /// If the format is not supported, the hash is damaged, or a check would cost seconds or
    /// gigabytes.
    pub(crate) fn parse(text: &str) -> Result<(Self, Option<Weakness>), HashError> {
        let stored = format::parse(text)?;
        let weakness = match &stored {
            Self::Sha1(_) => Some(Weakness::Weak("`{SHA}`, which is fast and without a salt")),
            Self::Salted { algorithm, .. } => algorithm.rate()?,
        };
        Ok((stored, weakness))
    }

    /// The properties of the hash on which the time of a check depends: the algorithm (`None` is
    /// SHA-1), and for PBKDF2 the length of the digest.
    pub(crate) fn cost(&self) -> (Option<HashAlgorithm>, usize) {
        match self {
            Self::Sha1(_) => (None, 0),
            Self::Salted { algorithm, digest, .. } => {
                let is_pbkdf2 = matches!(
                    algorithm,
                    HashAlgorithm::Pbkdf2Sha256 { .. } | HashAlgorithm::Pbkdf2Sha512 { .. }
                );
                (Some(*algorithm), if is_pbkdf2 { digest.len() } else { 0 })
            }
        }
    }

    /// Whether this is the password that was hashed. Takes milliseconds, the same for a right and a
    /// wrong password of the same length.
    pub(crate) fn matches(&self, password: &[u8]) -> bool {
        match self {
            Self::Sha1(expected) => {
                is_same(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), expected)
            }
            Self::Salted { algorithm, salt, digest } => algorithm
                .hash(password, salt, digest.len())
                .is_some_and(|computed| is_same(&computed, digest)),
        }
    }
}

/// Compares two digests in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

impl Default for HashAlgorithm {
    /// Argon2id with 19 MiB and two passes: the first choice of OWASP's password storage cheat
    /// sheet.
    fn default() -> Self {
        Self::Argon2id { memory: 19_456, passes: 2, lanes: 1 }
    }
}

impl HashAlgorithm {
    /// The algorithm of a stored hash, and whether it is weak or slow; `None` if the hash cannot be
    /// used, or is a SHA-1 hash.
    #[must_use]
    pub fn from_hash(hash: &str) -> Option<(Self, bool)> {
        let (stored, weakness) = StoredHash::parse(hash).ok()?;
        Some((stored.cost().0?, weakness.is_some()))
    }

    /// Rates the parameters. A hash is weak if it costs less than OWASP's password storage cheat
    /// sheet recommends (for SHA-crypt: if it has fewer rounds than crypt(3) takes by default).
    ///
    /// # Errors
    /// If the parameters are out of range, or a check would cost seconds or gigabytes.
    fn rate(self) -> Result<Option<Weakness>, HashError> {
        match self {
            Self::Argon2id { memory, passes, lanes } => rate_argon2id(memory, passes, lanes),
            Self::Bcrypt { cost } => match cost {
                ..4 => Err(HashError::unusable("a bcrypt hash whose cost is below 4")),
                4..10 => Ok(Some(Weakness::Weak("bcrypt with a cost below 10"))),
                10..14 => Ok(None),
                14..17 => Ok(Some(Weakness::Slow("bcrypt with a cost above 13"))),
                17.. => Err(HashError::too_costly(
                    "a bcrypt hash whose cost is above 16: seconds a check",
                )),
            },
            Self::Pbkdf2Sha256 { rounds } => {
                rate_pbkdf2(rounds, 600_000, "PBKDF2-SHA256 with fewer than 600,000 rounds")
            }
            Self::Pbkdf2Sha512 { rounds } => {
                rate_pbkdf2(rounds, 210_000, "PBKDF2-SHA512 with fewer than 210,000 rounds")
            }
            Self::Sha256Crypt { rounds } | Self::Sha512Crypt { rounds } => match rounds {
                ..1_000 => Err(HashError::unusable("a SHA-crypt hash of fewer than 1,000 rounds")),
                1_000..5_000 => Ok(Some(Weakness::Weak("SHA-crypt with fewer than 5,000 rounds"))),
                5_000..=MAX_ROUNDS => Ok(None),
                _ => Err(HashError::too_costly(
                    "a SHA-crypt hash of more than 10,000,000 rounds: seconds a check",
                )),
            },
        }
    }

    /// The digest of a password, which takes milliseconds. `None` if the algorithm does not take
    /// such a password, salt or parameters.
    fn hash(self, password: &[u8], salt: &[u8], length: usize) -> Option<Zeroizing<Vec<u8>>> {
        let mut digest = Zeroizing::new(vec![0; length]);
        match self {
            Self::Argon2id { memory, passes, lanes } => {
                let params = Params::new(memory, passes, lanes, None).ok()?;
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(password, salt, &mut digest)
                    .ok()?;
            }
            Self::Bcrypt { cost } => {
                let terminated = password.iter().copied().chain([0]).take(MAX_BCRYPT_PASSWORD);
                let terminated: Zeroizing<Vec<u8>> = Zeroizing::new(terminated.collect());
                let computed =
                    Zeroizing::new(bcrypt::bcrypt(cost, salt.try_into().ok()?, &terminated));
                digest.copy_from_slice(computed.get(..length)?);
                // Checked last: a password that is too long costs as much as any other.
                return (password.len() <= MAX_BCRYPT_PASSWORD).then_some(digest);
            }
            Self::Pbkdf2Sha256 { rounds } => {
                pbkdf2::derive(PBKDF2_HMAC_SHA256, rounds, salt, password, &mut digest);
            }
            Self::Pbkdf2Sha512 { rounds } => {
                pbkdf2::derive(PBKDF2_HMAC_SHA512, rounds, salt, password, &mut digest);
            }
            Self::Sha256Crypt { rounds } => {
                let params = sha_crypt::Params::new(rounds).ok()?;
                digest = Zeroizing::new(sha_crypt::sha256_crypt(password, salt, params).into());
            }
            Self::Sha512Crypt { rounds } => {
                let params = sha_crypt::Params::new(rounds).ok()?;
                digest = Zeroizing::new(sha_crypt::sha512_crypt(password, salt, params).into());
            }
        }
        Some(digest)
    }
}

fn rate_argon2id(memory: u32, passes: u32, lanes: u32) -> Result<Option<Weakness>, HashError> {
    let work = u64::from(memory).saturating_mul(u64::from(passes));
    if memory > MAX_MEMORY || work > MAX_WORK || lanes > MAX_LANES {
        return Err(HashError::too_costly(
            "an argon2id hash that costs more than 1 GiB, 4 GiB over all passes, or 64 lanes",
        ));
    }
    if Params::new(memory, passes, lanes, None).is_err() {
        return Err(HashError::unusable(format::ARGON2ID_PARAMETERS));
    }
    // The least memory and the least work among the equivalent choices of OWASP.
    let is_weak = memory < 7_168 || work < 35_840;
    Ok(if is_weak {
        Some(Weakness::Weak("argon2id with less than 7 MiB, or less work than `m=7168,t=5,p=1`"))
    } else if work > 1 << 20 {
        Some(Weakness::Slow("argon2id over more than 1 GiB in all passes"))
    } else {
        None
    })
}

fn rate_pbkdf2(
    rounds: NonZeroU32,
    recommended: u32,
    weak: &'static str,
) -> Result<Option<Weakness>, HashError> {
    let rounds = rounds.get();
    if rounds > MAX_ROUNDS {
        let reason = "a PBKDF2 hash of more than 10,000,000 rounds: seconds a check";
        return Err(HashError::too_costly(reason));
    }
    Ok(if rounds < recommended {
        Some(Weakness::Weak(weak))
    } else if rounds > 3_000_000 {
        Some(Weakness::Slow("PBKDF2 with more than 3,000,000 rounds"))
    } else {
        None
    })
}

/// Hashes a password with a new random salt. The result is the `password` of a user in a policy.
///
/// # Errors
/// If no user could authenticate with the password, a policy would reject the parameters, or the
/// system's random number generator fails.
pub fn hash_password(
    password: &str,
    algorithm: HashAlgorithm,
) -> Result<String, HashPasswordError> {
    if password.is_empty()
        || password.len() > MAX_PASSWORD
        || password.chars().any(char::is_control)
    {
        return Err(HashPasswordError::Unusable);
    }
    algorithm.rate().map_err(|_| HashPasswordError::Parameters)?;
    let mut salt = vec![0; 16];
    rand::fill(&mut salt).map_err(|_| HashPasswordError::NoRandomness)?;
    let length = match algorithm {
        HashAlgorithm::Bcrypt { .. } if password.len() > MAX_BCRYPT_PASSWORD => {
            return Err(HashPasswordError::TooLongForBcrypt);
        }
        HashAlgorithm::Bcrypt { .. } => 23,
        HashAlgorithm::Argon2id { .. }
        | HashAlgorithm::Pbkdf2Sha256 { .. }
        | HashAlgorithm::Pbkdf2Sha512 { .. } => 32,
        HashAlgorithm::Sha256Crypt { .. } | HashAlgorithm::Sha512Crypt { .. } => {
            // Its salt is text, of at most 16 characters.
            salt = STANDARD_NO_PAD.encode(salt).replace('+', ".").into_bytes();
            salt.truncate(16);
            if matches!(algorithm, HashAlgorithm::Sha256Crypt { .. }) { 32 } else { 64 }
        }
    };
    let digest = algorithm.hash(password.as_bytes(), &salt, length);
    let digest = digest.ok_or(HashPasswordError::Parameters)?;
    Ok(format::write(algorithm, &salt, &digest))
}

#[cfg(test)]
mod tests;
