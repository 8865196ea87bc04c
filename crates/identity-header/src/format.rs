//! The binary form of an identity header, before base64url. Numbers are big-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version: 1 |
//! | 4 | id of the key: the first bytes of its SHA-256 hash |
//! | 8 | expiry: the first second since 1970 at which the header is no longer valid |
//! | 1, 1, 1 | numbers of roles, groups and claims |
//! | 2 each | lengths of the strings |
//! | variable | the strings, in UTF-8 |
//! | 16 | MAC of all bytes before it: the first half of their HMAC-SHA256 |
//!
//! The strings are, in this order: audience, revision, user, each role, each group, and of each
//! claim its name and value. All lengths are before all strings, so that a reader checks the UTF-8
//! of all strings at once.

/// Maximum length in bytes, with the MAC.
pub const MAX_LEN: usize = 4096;

/// Length of the MAC, in bytes.
pub const MAC_LEN: usize = 16;

/// The id of a key: the first four bytes of its SHA-256 hash. It tells which of several keys a
/// header was made with. It does not help to guess a key that is random.
pub type KeyId = [u8; 4];

const VERSION: u8 = 1;

/// Length of the fields before the lengths of the strings.
const FIXED_LEN: usize = 16;

/// The number of strings that each identity has: audience, revision, user.
const ALWAYS: usize = 3;

/// The identity to write to a header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims<'a> {
    /// The service that the header is meant for.
    pub audience: &'a str,
    /// The revision of the policy that decided.
    pub revision: &'a str,
    /// The name of the caller, with the prefix of its source.
    pub user: &'a str,
    /// The names of the caller's roles.
    pub roles: &'a [&'a str],
    /// The names of the caller's groups.
    pub groups: &'a [&'a str],
    /// Further claims: names and values.
    pub claims: &'a [(&'a str, &'a str)],
    /// The first second since 1970 at which it is no longer valid.
    pub expires: u64,
}

/// The identity in a header, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'b> {
    /// The service that the header is meant for.
    pub audience: &'b str,
    /// The revision of the policy that decided.
    pub revision: &'b str,
    /// The name of the caller, with the prefix of its source.
    pub user: &'b str,
    /// The names of the caller's roles.
    pub roles: Strings<'b>,
    /// The names of the caller's groups.
    pub groups: Strings<'b>,
    /// Further claims: names and values.
    pub claims: Pairs<'b>,
    /// The first second since 1970 at which it is no longer valid.
    pub expires: u64,
}

/// An identity that does not fit into [`MAX_LEN`], or has more than 255 roles, groups or claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the identity does not fit into {MAX_LEN} bytes, or has more than 255 roles, groups or claims"
)]
pub struct TooLarge;

/// Writes all but the MAC to `out`, which is cleared first.
///
/// # Errors
/// [`TooLarge`].
pub fn write(claims: &Claims<'_>, key: KeyId, out: &mut Vec<u8>) -> Result<(), TooLarge> {
    out.clear();
    out.push(VERSION);
    out.extend_from_slice(&key);
    out.extend_from_slice(&claims.expires.to_be_bytes());
    for count in [claims.roles.len(), claims.groups.len(), claims.claims.len()] {
        out.push(u8::try_from(count).map_err(|_| TooLarge)?);
    }
    let pairs = claims.claims.iter().flat_map(|(name, value)| [*name, *value]);
    let strings = [claims.audience, claims.revision, claims.user].into_iter();
    let strings = strings
        .chain(claims.roles.iter().copied())
        .chain(claims.groups.iter().copied())
        .chain(pairs);
    let mut total = 0;
    for text in strings.clone() {
        let len = u16::try_from(text.len()).map_err(|_| TooLarge)?;
        total += text.len();
        out.extend_from_slice(&len.to_be_bytes());
    }
    if out.len() + total + MAC_LEN > MAX_LEN {
        return Err(TooLarge);
    }
    for text in strings {
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// The id of the key in a message, which is a header decoded from base64url. `None` if the message
/// has another version or is too short.
#[must_use]
pub fn key_id(message: &[u8]) -> Option<KeyId> {
    let (version, fields) = message.split_first()?;
    if *version == VERSION { fields.first_chunk().copied() } else { None }
}

/// Reads a message whose MAC was cut off; `None` if it is malformed. Nothing is verified: use
/// [`Verifier`](crate::Verifier).
#[must_use]
pub fn read(message: &[u8]) -> Option<Identity<'_>> {
    let (fixed, variable) = message.split_first_chunk::<FIXED_LEN>()?;
    let [VERSION, _, _, _, _, e0, e1, e2, e3, e4, e5, e6, e7, roles, groups, claims] = *fixed
    else {
        return None;
    };
    let (roles, groups, claims) = (usize::from(roles), usize::from(groups), usize::from(claims));
    let (lens, text) = variable.split_at_checked(2 * (ALWAYS + roles + groups + 2 * claims))?;
    let mut strings = Strings { lens, text: str::from_utf8(text).ok()? };
    let total: usize = strings.lens().sum();
    if total != text.len() {
        return None;
    }
    Some(Identity {
        expires: u64::from_be_bytes([e0, e1, e2, e3, e4, e5, e6, e7]),
        audience: strings.next()?,
        revision: strings.next()?,
        user: strings.next()?,
        roles: strings.take_strings(roles)?,
        groups: strings.take_strings(groups)?,
        claims: Pairs(strings.take_strings(2 * claims)?),
    })
}

/// A list of strings in an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strings<'b> {
    /// Two bytes for each string.
    lens: &'b [u8],
    /// The strings, without anything between them.
    text: &'b str,
}

impl<'b> Strings<'b> {
    fn lens(&self) -> impl Iterator<Item = usize> + use<'b> {
        self.lens.chunks_exact(2).map(|len| match *len {
            [high, low] => usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        })
    }

    /// Splits off the next `count` strings. `None` if there are fewer, or if a length ends a string
    /// in the middle of a UTF-8 character.
    fn take_strings(&mut self, count: usize) -> Option<Self> {
        let (lens, next_lens) = self.lens.split_at_checked(2 * count)?;
        let mut next_text = self.text;
        for len in (Strings { lens, text: "" }).lens() {
            next_text = next_text.split_at_checked(len)?.1;
        }
        let text = self.text.get(..self.text.len() - next_text.len())?;
        *self = Self { lens: next_lens, text: next_text };
        Some(Self { lens, text })
    }
}

impl<'b> Iterator for Strings<'b> {
    type Item = &'b str;

    fn next(&mut self) -> Option<&'b str> {
        let (len, lens) = self.lens.split_first_chunk()?;
        let (first, text) = self.text.split_at_checked(u16::from_be_bytes(*len).into())?;
        *self = Self { lens, text };
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.lens.len() / 2, Some(self.lens.len() / 2))
    }
}

impl ExactSizeIterator for Strings<'_> {}

/// The further claims of an identity: names and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'b>(Strings<'b>);

impl<'b> Pairs<'b> {
    /// The value of the claim with this name.
    #[must_use]
    pub fn get(mut self, name: &str) -> Option<&'b str> {
        self.find(|(claim, _)| *claim == name).map(|(_, value)| value)
    }
}

impl<'b> Iterator for Pairs<'b> {
    type Item = (&'b str, &'b str);

    fn next(&mut self) -> Option<(&'b str, &'b str)> {
        Some((self.0.next()?, self.0.next()?))
    }
}
