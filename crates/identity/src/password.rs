//! Stored password hashes: parses each format, and compares a password with a hash in constant
//! time.
//!
//! [`Stored`] is parsed once, when the policy is loaded. Each format has its own module, `{SHA}`
//! aside.

mod algorithm;
mod argon2id;
mod bcrypt;
mod pbkdf2;
mod sha_crypt;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

pub use algorithm::{HashAlgorithm, HashPasswordError, hash_password};

/// The longest password that is hashed, in bytes. The cost of SHA-crypt grows with the password,
/// which the client chooses: 23 ms at 1,400 bytes (November 2026). Nobody types that many, and
/// generated passwords are shorter.
pub(crate) const MAX_PASSWORD: usize = 256;

/// The parameters that the time of a check depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cost {
    algorithm: &'static str,
    parameters: [u32; 3],
}

/// A parsed hash, ready to compare a password with. It has no `Debug`, so it shows neither salt nor
/// digest.
pub(crate) struct Stored(Box<dyn PasswordHash>);

/// A hash of one format. It does the same work for every password of the same length.
trait PasswordHash: Send + Sync {
    /// Two hashes of the same cost take the same time for the same password.
    fn cost(&self) -> Cost;

    /// Whether this is the password that was hashed. Takes milliseconds, the same for a right and a
    /// wrong password.
    fn matches(&self, password: &[u8]) -> bool;
}

/// `{SHA}` and the base64 of one SHA-1 (RFC 2307). It is unsalted and fast, so the loader of the
/// policy warns of it.
struct Sha1([u8; 20]);

/// The hash function inside PBKDF2 and SHA-crypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digest {
    Sha256 = 256,
    Sha512 = 512,
}

/// A hash that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashError {
    /// What is wrong.
    pub(crate) message: &'static str,
    /// What to do about it.
    pub(crate) help: &'static str,
}

/// Why a hash that can be used should be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weakness {
    /// It is easier to break than it should be.
    Weak(&'static str),
    /// A check takes about a second or longer. This is an estimate from the parameters for one core
    /// of a server (2026): a measurement would make the warning depend on the machine and its load.
    Slow(&'static str),
}

/// A parsed hash with its weakness, if it has one.
type Parsed<T> = Result<(T, Option<Weakness>), HashError>;

const HASH_AGAIN: &str =
    "make a new one with `rolegate hash-password`, or in a file with `rolegate passwd`";

impl Stored {
    /// Parses a stored hash.
    ///
    /// # Errors
    /// If the format is not supported, the hash is damaged, or a check would cost seconds or
    /// gigabytes.
    pub(crate) fn parse(text: &str) -> Parsed<Self> {
        if let Some(digest) = text.strip_prefix("{SHA}") {
            let digest = STANDARD.decode(digest).ok().and_then(|digest| digest.try_into().ok());
            let digest = digest.ok_or(damaged("a `{SHA}` hash that is not 20 bytes in base64"))?;
            let weakness = Weakness::Weak("`{SHA}`, which is fast and without a salt");
            return Ok((Self(Box::new(Sha1(digest))), Some(weakness)));
        }
        if is_of_ldap(text) {
            let message =
                "a hash as LDAP servers store it (`{SSHA}`, `{MD5}`), which is not supported";
            return Err(HashError { message, help: HASH_AGAIN });
        }
        let Some((id, rest)) = text.strip_prefix('$').and_then(|text| text.split_once('$')) else {
            return Err(HashError { message: "a password that is not hashed", help: HASH_AGAIN });
        };
        if let "1" | "2" | "3" | "4" | "5" = id
            && let Some(parsed) = pbkdf2::parse_opensearch(id, rest)
        {
            return parsed;
        }
        match id {
            "argon2id" => argon2id::parse(rest),
            "2a" | "2b" | "2y" => bcrypt::parse(rest),
            "pbkdf2-sha256" => pbkdf2::parse(Digest::Sha256, rest),
            "pbkdf2-sha512" => pbkdf2::parse(Digest::Sha512, rest),
            "5" => sha_crypt::parse(Digest::Sha256, rest),
            "6" => sha_crypt::parse(Digest::Sha512, rest),
            _ => Err(unsupported(id)),
        }
    }

    /// See [`PasswordHash::cost`].
    pub(crate) fn cost(&self) -> Cost {
        self.0.cost()
    }

    /// See [`PasswordHash::matches`].
    pub(crate) fn matches(&self, password: &[u8]) -> bool {
        self.0.matches(password)
    }
}

impl PasswordHash for Sha1 {
    fn cost(&self) -> Cost {
        Cost { algorithm: "SHA-1", parameters: [0; 3] }
    }

    fn matches(&self, password: &[u8]) -> bool {
        same(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), &self.0)
    }
}

/// Whether this begins with a scheme of RFC 2307, 5.3, or of LDAP servers since, that hashes.
fn is_of_ldap(text: &str) -> bool {
    let scheme =
        text.strip_prefix('{').and_then(|text| text.split_once('}')).map(|(scheme, _)| scheme);
    let scheme = scheme.unwrap_or_default().to_ascii_uppercase();
    scheme == "CRYPT"
        || ["SHA", "SSHA", "MD5", "SMD5", "PBKDF2", "ARGON2"]
            .iter()
            .any(|prefix| scheme.starts_with(prefix))
}

fn unsupported(id: &str) -> HashError {
    let message = match id {
        "apr1" | "1" => "an MD5 hash (`$apr1$`, `$1$`), which is not supported",
        "2" | "2x" => "a bcrypt hash of a faulty version (`$2$`, `$2x$`), which is not supported",
        "argon2i" | "argon2d" => "an argon2 hash that is not argon2id, which is not supported",
        "y" | "gy" | "7" | "scrypt" => "a scrypt or yescrypt hash, which is not supported",
        "pbkdf2" | "pbkdf2-sha1" => "a PBKDF2 hash with SHA-1, which is not supported",
        _ => "a password hash of an unknown format",
    };
    HashError { message, help: HASH_AGAIN }
}

/// The error for a damaged hash of a known format.
const fn damaged(message: &'static str) -> HashError {
    HashError { message, help: HASH_AGAIN }
}

/// The error for a hash that costs so much that a few requests could stop the process.
const fn too_costly(message: &'static str) -> HashError {
    HashError { message, help: "make a new one with less cost" }
}

/// Decodes base64 as PHC strings use it: the standard alphabet, without padding.
fn phc_base64(text: &str) -> Option<Box<[u8]>> {
    STANDARD_NO_PAD.decode(text).ok().map(Vec::into_boxed_slice)
}

/// Parses a decimal number as PHC strings use it: digits only, no leading zero.
fn decimal(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    if canonical { text.parse().ok() } else { None }
}

/// Whether two digests are equal, compared in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests;
