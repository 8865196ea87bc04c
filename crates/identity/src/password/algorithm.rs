//! Hashes new passwords, as `rolegate hash-password` does.

use std::num::NonZeroU32;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::{Cost, Digest, MAX_PASSWORD, bcrypt, pbkdf2, sha_crypt};

/// An algorithm with its parameters, to hash a new password with.
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
    /// SHA-crypt with SHA-512, as crypt(3) defines it.
    Sha512Crypt {
        /// Rounds, 1,000 to 10,000,000.
        rounds: u32,
    },
}

/// Why a password cannot be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashPasswordError {
    /// No user could authenticate with it: HTTP Basic cannot carry it (RFC 7617, 2), or it is
    /// longer than any that is hashed.
    #[error("a password must not be empty, longer than 256 bytes, or have control characters")]
    Unusable,
    /// bcrypt ignores what follows 72 bytes.
    #[error("bcrypt takes at most 72 bytes")]
    TooLongForBcrypt,
    /// The parameters are out of their range.
    #[error("parameters out of range")]
    Parameters,
    /// The system's random number generator failed.
    #[error("the system's random number generator failed")]
    NoRandomness,
}

impl Default for HashAlgorithm {
    /// Argon2id with 19 MiB and two passes: the first choice of OWASP's password storage cheat
    /// sheet.
    fn default() -> Self {
        Self::Argon2id { memory: 19_456, passes: 2, lanes: 1 }
    }
}

impl HashAlgorithm {
    /// The algorithm and the parameters of a stored hash, and whether it is weak; `None` if no new
    /// password can be hashed so.
    #[must_use]
    pub fn from_hash(hash: &str) -> Option<(Self, bool)> {
        let (stored, weakness) = super::Stored::parse(hash).ok()?;
        let Cost { algorithm, parameters } = stored.cost();
        let algorithm = match (algorithm, parameters) {
            ("argon2id", [memory, passes, lanes]) => Some(Self::Argon2id { memory, passes, lanes }),
            ("bcrypt", [cost, ..]) => Some(Self::Bcrypt { cost }),
            ("PBKDF2", [256, rounds, _]) => {
                Some(Self::Pbkdf2Sha256 { rounds: rounds.try_into().ok()? })
            }
            ("PBKDF2", [512, rounds, _]) => {
                Some(Self::Pbkdf2Sha512 { rounds: rounds.try_into().ok()? })
            }
            ("SHA-crypt", [512, rounds, _]) => Some(Self::Sha512Crypt { rounds }),
            _ => None,
        }?;
        Some((algorithm, weakness.is_some()))
    }
}

/// Hashes a password with a new random salt. The result is what a policy has as the `password` of a
/// user.
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
    let hash = match algorithm {
        HashAlgorithm::Argon2id { memory, passes, lanes } => {
            argon2id(password, memory, passes, lanes)
        }
        HashAlgorithm::Bcrypt { cost } => bcrypt(password, cost),
        HashAlgorithm::Pbkdf2Sha256 { rounds } => pbkdf2(password, Digest::Sha256, rounds),
        HashAlgorithm::Pbkdf2Sha512 { rounds } => pbkdf2(password, Digest::Sha512, rounds),
        HashAlgorithm::Sha512Crypt { rounds } => sha_crypt(password, rounds),
    }?;
    super::Stored::parse(&hash).map_err(|_| HashPasswordError::Parameters)?;
    Ok(hash)
}

fn argon2id(
    password: &str,
    memory: u32,
    passes: u32,
    lanes: u32,
) -> Result<String, HashPasswordError> {
    super::argon2id::check_cost(memory, passes, lanes)
        .map_err(|_| HashPasswordError::Parameters)?;
    let params =
        Params::new(memory, passes, lanes, None).map_err(|_| HashPasswordError::Parameters)?;
    let (salt, mut digest) = (salt()?, [0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.as_bytes(), &salt, &mut digest)
        .map_err(|_| HashPasswordError::Parameters)?;
    let (salt, digest) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(digest));
    Ok(format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${digest}"))
}

fn bcrypt(password: &str, cost: u32) -> Result<String, HashPasswordError> {
    if password.len() > bcrypt::MAX_PASSWORD {
        return Err(HashPasswordError::TooLongForBcrypt);
    }
    if !(bcrypt::MIN_COST..=bcrypt::MAX_COST).contains(&cost) {
        return Err(HashPasswordError::Parameters);
    }
    let salt = salt()?;
    let [digest @ .., _] = bcrypt::digest(cost, salt, password.as_bytes());
    Ok(format!(
        "$2b${cost:02}${}{}",
        bcrypt::ALPHABET.encode(salt),
        bcrypt::ALPHABET.encode(digest)
    ))
}

fn pbkdf2(password: &str, digest: Digest, rounds: NonZeroU32) -> Result<String, HashPasswordError> {
    if rounds.get() > pbkdf2::MAX_ROUNDS {
        return Err(HashPasswordError::Parameters);
    }
    let (salt, mut key) = (salt()?, [0; 32]);
    aws_lc_rs::pbkdf2::derive(
        pbkdf2::algorithm(digest),
        rounds,
        &salt,
        password.as_bytes(),
        &mut key,
    );
    let name = match digest {
        Digest::Sha256 => "pbkdf2-sha256",
        Digest::Sha512 => "pbkdf2-sha512",
    };
    Ok(format!(
        "${name}$i={rounds},l=32${}${}",
        STANDARD_NO_PAD.encode(salt),
        STANDARD_NO_PAD.encode(key)
    ))
}

fn sha_crypt(password: &str, rounds: u32) -> Result<String, HashPasswordError> {
    if rounds > sha_crypt::MAX_ROUNDS {
        return Err(HashPasswordError::Parameters);
    }
    let params = ::sha_crypt::Params::new(rounds).map_err(|_| HashPasswordError::Parameters)?;
    let salt = STANDARD_NO_PAD.encode(salt()?).replace('+', ".");
    let salt: String = salt.chars().take(16).collect();
    let hash = sha_crypt::write_sha512(password.as_bytes(), salt.as_bytes(), params);
    Ok(format!("$6$rounds={rounds}${salt}${hash}"))
}

fn salt() -> Result<[u8; 16], HashPasswordError> {
    let mut salt = [0; 16];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| HashPasswordError::NoRandomness)?;
    Ok(salt)
}
