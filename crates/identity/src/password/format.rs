//! The formats of stored hashes:
//!
//! | algorithm | format |
//! |---|---|
//! | SHA-1 (RFC 2307) | `{SHA}` and base64 |
//! | argon2id | a PHC string: `$argon2id$v=19$m=19456,t=2,p=1$salt$digest` |
//! | bcrypt | `$2b$12$` (or `2a`, `2y`) and 53 characters, of which 22 are the salt |
//! | PBKDF2 | a PHC string: `$pbkdf2-sha256$i=600000,l=32$salt$digest` |
//! | PBKDF2 of passlib | `$pbkdf2-sha256$600000$salt$digest`, with `.` in place of `+` |
//! | PBKDF2 of OpenSearch | `$3$2576980377600256$salt$digest` |
//! | SHA-crypt (crypt(3)) | `$5$rounds=5000$salt$digest` (SHA-256) or `$6$…` (SHA-512) |

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet::BCRYPT;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, STANDARD, STANDARD_NO_PAD};
use base64ct::{Base64ShaCrypt, Encoding as _};

use super::{HashAlgorithm, HashError, StoredHash};

pub(super) const ARGON2ID_PARAMETERS: &str =
    "an argon2id hash whose parameters are not `m=…,t=…,p=…`";

/// The base64 of bcrypt. Decoding ignores the unused bits of the last character, as every
/// implementation of bcrypt does: some programs leave them set in the salt.
const BCRYPT_BASE64: GeneralPurpose =
    GeneralPurpose::new(&BCRYPT, NO_PAD.with_decode_allow_trailing_bits(true));

/// The lengths of salts and digests that are accepted in PHC strings, in bytes.
const SALT: RangeInclusive<usize> = 8..=64;
const DIGEST: RangeInclusive<usize> = 16..=64;

/// The rounds of a SHA-crypt hash that does not give them.
const SHA_CRYPT_ROUNDS: u32 = 5_000;

/// Parses a stored hash. This does not check whether its parameters are too weak or too costly.
///
/// # Errors
/// If the format is not supported, or the hash is damaged.
pub(super) fn parse(text: &str) -> Result<StoredHash, HashError> {
    if let Some(digest) = text.strip_prefix("{SHA}") {
        let digest = STANDARD.decode(digest).ok().and_then(|digest| digest.try_into().ok());
        return digest
            .map(StoredHash::Sha1)
            .ok_or(HashError::unusable("a `{SHA}` hash that is not 20 bytes in base64"));
    }
    if is_ldap_hash(text) {
        return Err(HashError::unusable(
            "a hash as LDAP servers store it (`{SSHA}`, `{MD5}`), which is not supported",
        ));
    }
    let Some((id, hash)) = text.strip_prefix('$').and_then(|text| text.split_once('$')) else {
        return Err(HashError::unusable("a password that is not hashed"));
    };
    let fields: Vec<&str> = hash.split('$').collect();
    if let ("1" | "2" | "3" | "4" | "5", [cost, salt, digest]) = (id, fields.as_slice())
        && let Some(cost) = parse_decimal(cost)
    {
        return parse_opensearch(id, cost, salt, digest);
    }
    Err(HashError::unusable(match id {
        "argon2id" => return parse_argon2id(&fields),
        "2a" | "2b" | "2y" => return parse_bcrypt(&fields),
        "pbkdf2-sha256" | "pbkdf2-sha512" => return parse_pbkdf2(id, &fields),
        "5" | "6" => return parse_sha_crypt(id, &fields),
        "apr1" | "1" => "an MD5 hash (`$apr1$`, `$1$`), which is not supported",
        "2" | "2x" => "a bcrypt hash of a faulty version (`$2$`, `$2x$`), which is not supported",
        "argon2i" | "argon2d" => "an argon2 hash that is not argon2id, which is not supported",
        "y" | "gy" | "7" | "scrypt" => "a scrypt or yescrypt hash, which is not supported",
        "pbkdf2" | "pbkdf2-sha1" => "a PBKDF2 hash with SHA-1, which is not supported",
        _ => "a password hash of an unknown format",
    }))
}

/// Whether a text begins with the `{scheme}` of a hash: one of RFC 2307, 5.3, or one that LDAP
/// servers have added since.
fn is_ldap_hash(text: &str) -> bool {
    let scheme = text.strip_prefix('{').and_then(|text| text.split_once('}'));
    let scheme = scheme.map_or("", |(scheme, _)| scheme).to_ascii_uppercase();
    let prefixes = ["SHA", "SSHA", "MD5", "SMD5", "PBKDF2", "ARGON2"];
    scheme == "CRYPT" || prefixes.iter().any(|prefix| scheme.starts_with(prefix))
}

fn parse_argon2id(fields: &[&str]) -> Result<StoredHash, HashError> {
    let [version, parameters, salt, digest] = fields else {
        return Err(HashError::unusable(
            "an argon2id hash that is not `$argon2id$v=19$m=…,t=…,p=…$salt$digest`",
        ));
    };
    if *version != "v=19" {
        return Err(HashError::unusable("an argon2id hash whose version is not 19"));
    }
    let algorithm =
        parse_argon2id_parameters(parameters).ok_or(HashError::unusable(ARGON2ID_PARAMETERS))?;
    let salt = parse_phc_base64(salt, SALT)
        .ok_or(HashError::unusable("an argon2id hash whose salt is not 8 to 64 bytes in base64"))?;
    let digest = parse_phc_base64(digest, DIGEST).ok_or(HashError::unusable(
        "an argon2id hash whose digest is not 16 to 64 bytes in base64",
    ))?;
    Ok(StoredHash::Salted { algorithm, salt, digest })
}

fn parse_argon2id_parameters(text: &str) -> Option<HashAlgorithm> {
    let (memory, passes_and_lanes) = text.strip_prefix("m=")?.split_once(",t=")?;
    let (passes, lanes) = passes_and_lanes.split_once(",p=")?;
    Some(HashAlgorithm::Argon2id {
        memory: parse_decimal(memory)?,
        passes: parse_decimal(passes)?,
        lanes: parse_decimal(lanes)?,
    })
}

/// `$2a$` and `$2y$` mean the same as `$2b$` for a password of at most 72 bytes without NUL, and no
/// other password is accepted.
fn parse_bcrypt(fields: &[&str]) -> Result<StoredHash, HashError> {
    let malformed =
        HashError::unusable("a bcrypt hash that is not `$2b$`, two digits, `$` and 53 characters");
    let [cost, text] = fields else { return Err(malformed) };
    if cost.len() != 2 || !cost.bytes().all(|byte| byte.is_ascii_digit()) || text.len() != 53 {
        return Err(malformed);
    }
    let cost = cost.parse().map_err(|_| malformed)?;
    let (salt, digest) = text.split_at_checked(22).ok_or(malformed)?;
    let salt = BCRYPT_BASE64.decode(salt).map_err(|_| malformed)?;
    let digest = BCRYPT_BASE64.decode(digest).map_err(|_| malformed)?;
    let algorithm = HashAlgorithm::Bcrypt { cost };
    Ok(StoredHash::Salted { algorithm, salt: salt.into(), digest: digest.into() })
}

fn parse_pbkdf2(id: &str, fields: &[&str]) -> Result<StoredHash, HashError> {
    let malformed =
        HashError::unusable("a PBKDF2 hash that is not `$pbkdf2-sha256$i=…,l=…$salt$digest`");
    let [parameters, salt, digest] = fields else { return Err(malformed) };
    let (rounds, length) = match parameters.strip_prefix("i=") {
        Some(phc) => match phc.split_once(",l=") {
            Some((rounds, length)) => (rounds, Some(parse_decimal(length).ok_or(malformed)?)),
            None => (phc, None),
        },
        None => (*parameters, None),
    };
    let rounds = parse_decimal(rounds).and_then(NonZeroU32::new).ok_or(malformed)?;
    let salt = parse_phc_base64(&salt.replace('.', "+"), SALT)
        .ok_or(HashError::unusable("a PBKDF2 hash whose salt is not 8 to 64 bytes in base64"))?;
    let digest = parse_phc_base64(&digest.replace('.', "+"), DIGEST)
        .ok_or(HashError::unusable("a PBKDF2 hash whose digest is not 16 to 64 bytes in base64"))?;
    if length.is_some_and(|length: usize| length != digest.len()) {
        return Err(HashError::unusable(
            "a PBKDF2 hash whose digest is not as long as its `l` says",
        ));
    }
    let algorithm = match id {
        "pbkdf2-sha256" => HashAlgorithm::Pbkdf2Sha256 { rounds },
        _ => HashAlgorithm::Pbkdf2Sha512 { rounds },
    };
    Ok(StoredHash::Salted { algorithm, salt, digest })
}

/// Parses a hash of OpenSearch's security plugin (`CompressedPBKDF2Function` of password4j), such
/// as `$3$2576980377600256$salt$digest`. The function 3 is SHA-256, and 5 is SHA-512. The upper 32
/// bits of `cost` are the rounds, and the lower 32 are the length of the digest in bits.
fn parse_opensearch(
    function: &str,
    cost: u64,
    salt: &str,
    digest: &str,
) -> Result<StoredHash, HashError> {
    let id = match function {
        "3" => "pbkdf2-sha256",
        "5" => "pbkdf2-sha512",
        _ => {
            return Err(HashError::unusable(
                "a PBKDF2 hash with SHA-1, SHA-224 or SHA-384, which is not supported",
            ));
        }
    };
    let (rounds, bits) = (cost >> 32, cost & u64::from(u32::MAX));
    if bits % 8 != 0 {
        return Err(HashError::unusable("a PBKDF2 hash whose digest is not as long as it says"));
    }
    let parameters = format!("i={rounds},l={}", bits / 8);
    // OpenSearch writes padding, other programs do not.
    parse_pbkdf2(id, &[&parameters, salt.trim_end_matches('='), digest.trim_end_matches('=')])
}

fn parse_sha_crypt(id: &str, fields: &[&str]) -> Result<StoredHash, HashError> {
    let malformed = HashError::unusable(
        "a SHA-crypt hash that is not `$6$salt$digest` or `$6$rounds=…$salt$digest`",
    );
    let (rounds, salt, digest) = match fields {
        [salt, digest] => (Some(SHA_CRYPT_ROUNDS), salt, digest),
        [rounds, salt, digest] => {
            (rounds.strip_prefix("rounds=").and_then(parse_decimal), salt, digest)
        }
        _ => return Err(malformed),
    };
    let rounds = rounds.ok_or(malformed)?;
    let is_salt = (1..=16).contains(&salt.len())
        && salt.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if !is_salt {
        return Err(HashError::unusable("a SHA-crypt hash whose salt is not 1 to 16 characters"));
    }
    let written = Base64ShaCrypt::decode_vec(digest).map_err(|_| malformed)?;
    let (algorithm, length) = match id {
        "5" => (HashAlgorithm::Sha256Crypt { rounds }, 32),
        _ => (HashAlgorithm::Sha512Crypt { rounds }, 64),
    };
    if written.len() != length {
        return Err(malformed);
    }
    let mut digest = vec![0; length];
    for (position, byte) in sha_crypt_order(length).zip(written) {
        *digest.get_mut(position).ok_or(malformed)? = byte;
    }
    Ok(StoredHash::Salted { algorithm, salt: salt.as_bytes().into(), digest: digest.into() })
}

/// The position in the digest of each byte of the written form. The digest is cut into three
/// columns, one after the other, of `rows` bytes each. Row by row, the written form has one byte of
/// each column. The order of the columns rotates from row to row: by two columns for 32 bytes, by
/// one for 64. The bytes that fill no row come last.
fn sha_crypt_order(length: usize) -> impl Iterator<Item = usize> {
    let rows = length / 3;
    let turn = if length == 32 { 21 } else { 22 };
    (0..rows)
        .flat_map(move |row| [2, 1, 0].map(|column| (column * rows + row * turn) % (3 * rows)))
        .chain(3 * rows..length)
}

/// The text of a hash.
pub(super) fn write(algorithm: HashAlgorithm, salt: &[u8], digest: &[u8]) -> String {
    let phc = format!("{}${}", STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(digest));
    let length = digest.len();
    match algorithm {
        HashAlgorithm::Argon2id { memory, passes, lanes } => {
            format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${phc}")
        }
        HashAlgorithm::Bcrypt { cost } => {
            let (salt, digest) = (BCRYPT_BASE64.encode(salt), BCRYPT_BASE64.encode(digest));
            format!("$2b${cost:02}${salt}{digest}")
        }
        HashAlgorithm::Pbkdf2Sha256 { rounds } => {
            format!("$pbkdf2-sha256$i={rounds},l={length}${phc}")
        }
        HashAlgorithm::Pbkdf2Sha512 { rounds } => {
            format!("$pbkdf2-sha512$i={rounds},l={length}${phc}")
        }
        HashAlgorithm::Sha256Crypt { rounds } => write_sha_crypt(5, rounds, salt, digest),
        HashAlgorithm::Sha512Crypt { rounds } => write_sha_crypt(6, rounds, salt, digest),
    }
}

fn write_sha_crypt(id: u8, rounds: u32, salt: &[u8], digest: &[u8]) -> String {
    let shuffled: Vec<u8> = sha_crypt_order(digest.len())
        .filter_map(|position| digest.get(position).copied())
        .collect();
    let (salt, digest) = (String::from_utf8_lossy(salt), Base64ShaCrypt::encode_string(&shuffled));
    format!("${id}$rounds={rounds}${salt}${digest}")
}

/// Decodes base64 as PHC strings use it: the standard alphabet, without padding.
fn parse_phc_base64(text: &str, lengths: RangeInclusive<usize>) -> Option<Box<[u8]>> {
    let bytes = STANDARD_NO_PAD.decode(text).ok()?;
    lengths.contains(&bytes.len()).then(|| bytes.into())
}

/// Parses a decimal number as PHC strings use it: digits only, no leading zero.
fn parse_decimal<T: FromStr>(text: &str) -> Option<T> {
    let has_digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = has_digits_only && (text == "0" || !text.starts_with('0'));
    if is_canonical { text.parse().ok() } else { None }
}
