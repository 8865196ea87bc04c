//! SHA-crypt, as crypt(3) defines it: `$5$rounds=5000$salt$digest` (SHA-256) and `$6$…` (SHA-512).

use base64ct::{Base64ShaCrypt, Encoding as _};
use sha_crypt::Params;
use zeroize::Zeroizing;

use super::{
    Cost, Digest, Parsed, PasswordHash, Stored, Weakness, damaged, decimal, same, too_costly,
};

/// The rounds of a hash that gives none. Fewer are weak.
const DEFAULT_ROUNDS: u32 = 5_000;
/// The most rounds that are accepted: seconds per check.
pub(super) const MAX_ROUNDS: u32 = 10_000_000;

struct Hash {
    digest: Digest,
    params: Params,
    rounds: u32,
    salt: Box<[u8]>,
    expected: Box<[u8]>,
}

/// Parses what follows `$5$` or `$6$`.
pub(super) fn parse(digest: Digest, text: &str) -> Parsed<Stored> {
    let bad = damaged("a SHA-crypt hash that is not `$6$salt$digest` or `$6$rounds=…$salt$digest`");
    let fields: Vec<&str> = text.split('$').collect();
    let (rounds, salt, expected) = match fields.as_slice() {
        [salt, expected] => (Some(DEFAULT_ROUNDS), salt, expected),
        [rounds, salt, expected] => {
            (rounds.strip_prefix("rounds=").and_then(decimal), salt, expected)
        }
        _ => return Err(bad),
    };
    let rounds = rounds.ok_or(bad)?;
    let params =
        Params::new(rounds).map_err(|_| damaged("a SHA-crypt hash of fewer than 1,000 rounds"))?;
    if rounds > MAX_ROUNDS {
        return Err(too_costly("a SHA-crypt hash of more than 10,000,000 rounds: seconds a check"));
    }
    if salt.is_empty()
        || salt.len() > 16
        || !salt.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
    {
        return Err(damaged("a SHA-crypt hash whose salt is not 1 to 16 characters"));
    }
    let expected = Base64ShaCrypt::decode_vec(expected).map_err(|_| bad)?;
    let expected = unshuffle(digest, &expected).ok_or(bad)?;
    let weakness = (rounds < DEFAULT_ROUNDS)
        .then_some(Weakness::Weak("SHA-crypt with fewer than 5,000 rounds"));
    let salt = salt.as_bytes().into();
    Ok((Stored(Box::new(Hash { digest, params, rounds, salt, expected })), weakness))
}

impl PasswordHash for Hash {
    fn cost(&self) -> Cost {
        Cost { algorithm: "SHA-crypt", parameters: [self.digest as u32, self.rounds, 0] }
    }

    fn matches(&self, password: &[u8]) -> bool {
        same(&hash(self.digest, password, &self.salt, self.params), &self.expected)
    }
}

/// The SHA-crypt digest of a password, its bytes in the order of the hash function.
fn hash(digest: Digest, password: &[u8], salt: &[u8], params: Params) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(match digest {
        Digest::Sha256 => sha_crypt::sha256_crypt(password, salt, params).to_vec(),
        Digest::Sha512 => sha_crypt::sha512_crypt(password, salt, params).to_vec(),
    })
}

/// The written form of the SHA-crypt digest of a password with SHA-512.
pub(super) fn write_sha512(password: &[u8], salt: &[u8], params: Params) -> String {
    let hash = hash(Digest::Sha512, password, salt, params);
    let shuffled: Vec<u8> =
        positions(Digest::Sha512).filter_map(|position| hash.get(position).copied()).collect();
    Base64ShaCrypt::encode_string(&shuffled)
}

/// The position in the digest of each byte of the written form. The digest is cut into three
/// columns. Each row takes one byte from each column, in an order that rotates by one from row to
/// row. The bytes that fill no row come last.
fn positions(digest: Digest) -> impl Iterator<Item = usize> {
    let (third, turn, last): (usize, usize, &'static [usize]) = match digest {
        Digest::Sha256 => (10, 21, &[30, 31]),
        Digest::Sha512 => (21, 22, &[63]),
    };
    let rows = (0..third)
        .flat_map(move |row| [2, 1, 0].map(|column| (column * third + row * turn) % (3 * third)));
    rows.chain(last.iter().copied())
}

/// The digest whose written form has these bytes.
fn unshuffle(digest: Digest, written: &[u8]) -> Option<Box<[u8]>> {
    let mut bytes = vec![0; positions(digest).count()];
    if written.len() != bytes.len() {
        return None;
    }
    for (position, byte) in positions(digest).zip(written) {
        *bytes.get_mut(position)? = *byte;
    }
    Some(bytes.into())
}
