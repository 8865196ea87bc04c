//! SHA-crypt, as crypt(3) defines it: `$5$rounds=5000$salt$digest` (SHA-256) and `$6$…` (SHA-512).

use sha_crypt::Params;
use zeroize::Zeroizing;

use super::{Parsed, Weakness, damaged, decimal, same, too_costly};

/// The characters of a digest, in the order of their values from 0 to 63.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The rounds of a hash that gives none. Fewer are weak.
const DEFAULT_ROUNDS: u32 = 5_000;
/// The most rounds that are accepted: seconds per check.
pub(super) const MAX_ROUNDS: u32 = 10_000_000;

/// The hash function inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    Sha256,
    Sha512,
}

pub(super) struct Hash {
    digest: Digest,
    params: Params,
    rounds: u32,
    salt: Box<[u8]>,
    expected: Box<[u8]>,
}

/// Parses what follows `$5$` or `$6$`.
pub(super) fn parse(digest: Digest, text: &str) -> Parsed<Hash> {
    let bad = damaged("a SHA-crypt hash that is not `$6$salt$digest` or `$6$rounds=…$salt$digest`");
    let fields: Vec<&str> = text.split('$').collect();
    let (rounds, salt, expected) = match fields.as_slice() {
        [salt, expected] => (Some(DEFAULT_ROUNDS), salt, expected),
        [rounds, salt, expected] => (rounds.strip_prefix("rounds=").and_then(decimal), salt, expected),
        _ => return Err(bad),
    };
    let rounds = rounds.ok_or(bad)?;
    let params = Params::new(rounds).map_err(|_| damaged("a SHA-crypt hash of fewer than 1,000 rounds"))?;
    if rounds > MAX_ROUNDS {
        return Err(too_costly("a SHA-crypt hash of more than 10,000,000 rounds: seconds a check"));
    }
    if salt.is_empty() || salt.len() > 16 || !salt.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
    {
        return Err(damaged("a SHA-crypt hash whose salt is not 1 to 16 characters"));
    }
    let expected = digest.unshuffle(&crypt64(expected).ok_or(bad)?).ok_or(bad)?;
    let weakness =
        (rounds < DEFAULT_ROUNDS).then_some(Weakness::Weak("SHA-crypt with fewer than 5,000 rounds"));
    Ok((Hash { digest, params, rounds, salt: salt.as_bytes().into(), expected }, weakness))
}

impl Hash {
    /// The parameters that the time of a check depends on.
    pub(super) fn cost(&self) -> [u32; 3] {
        [self.digest.bits(), self.rounds, 0]
    }

    pub(super) fn matches(&self, password: &[u8]) -> bool {
        same(&self.digest.of(password, &self.salt, self.params), &self.expected)
    }
}

impl Digest {
    const fn bits(self) -> u32 {
        match self {
            Self::Sha256 => 256,
            Self::Sha512 => 512,
        }
    }

    /// The SHA-crypt digest of a password, its bytes in the order of the hash function.
    pub(super) fn of(self, password: &[u8], salt: &[u8], params: Params) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Sha256 => sha_crypt::sha256_crypt(password, salt, params).to_vec(),
            Self::Sha512 => sha_crypt::sha512_crypt(password, salt, params).to_vec(),
        })
    }

    /// The position in the digest of each byte of the written form. The digest is cut into three columns. Each row
    /// takes one byte from each column, in an order that rotates by one from row to row. The bytes that fill no row
    /// come last.
    fn positions(self) -> impl Iterator<Item = usize> {
        let (third, turn, rest): (usize, usize, &'static [usize]) = match self {
            Self::Sha256 => (10, 21, &[30, 31]),
            Self::Sha512 => (21, 22, &[63]),
        };
        let position = move |row: usize, column: usize| (column * third + row * turn) % (3 * third);
        let rows = (0..third).flat_map(move |row| [position(row, 2), position(row, 1), position(row, 0)]);
        rows.chain(rest.iter().copied())
    }

    /// The digest whose written form has these bytes.
    fn unshuffle(self, written: &[u8]) -> Option<Box<[u8]>> {
        let mut bytes = vec![0; self.positions().count()];
        if written.len() != bytes.len() {
            return None;
        }
        for (position, byte) in self.positions().zip(written) {
            *bytes.get_mut(position)? = *byte;
        }
        Some(bytes.into())
    }

    /// The written form of a digest.
    pub(super) fn write(self, hash: &[u8]) -> String {
        let shuffled: Vec<u8> = self.positions().filter_map(|position| hash.get(position).copied()).collect();
        shuffled.chunks(3).flat_map(characters).collect()
    }
}

/// Decodes six bits per character, the least significant first; `None` if a bit is left over.
fn crypt64(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(4).try_fold(Vec::new(), |mut bytes, chunk| {
        let mut group = 0_u32;
        for character in chunk.iter().rev() {
            group = group << 6 | u32::try_from(ALPHABET.iter().position(|known| known == character)?).ok()?;
        }
        let (whole, left) =
            group.to_le_bytes().split_at_checked(chunk.len() - 1).map(|(a, b)| (a.to_vec(), b.to_vec()))?;
        bytes.extend(whole);
        left.iter().all(|byte| *byte == 0).then_some(bytes)
    })
}

/// Encodes up to three bytes.
fn characters(chunk: &[u8]) -> impl Iterator<Item = char> + use<> {
    let group = chunk.iter().rev().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
    (0..=chunk.len()).filter_map(move |position| {
        let index = usize::try_from(group >> (6 * position) & 63).ok()?;
        ALPHABET.get(index).copied().map(char::from)
    })
}
