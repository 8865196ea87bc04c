//! The alphabet of the automaton: the characters that occur in globs, with small ids.
//!
//! A percent triplet is a single character (RFC 3986, 2.1), so the automaton finds no piece of a
//! glob inside a triplet. Small ids keep the rows of its table short: the globs of a policy have
//! few different characters.

/// A character. Below 2¹⁶: there are 256 raw bytes and as many triplets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct CharId(pub(super) u16);

impl CharId {
    /// Every character that occurs in no glob.
    pub(crate) const OTHER: Self = Self(0);

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The ids of all characters that occur in globs.
pub(crate) struct Alphabet {
    /// By raw byte, except `%`.
    bytes: Box<[CharId; 256]>,
    /// By the decoded byte of a triplet.
    triplets: Box<[CharId; 256]>,
    count: u16,
}

impl Alphabet {
    /// The number of characters, including [`CharId::OTHER`].
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The character at `at`, and its length in bytes: 3 for a `%`, even if the segment ends before
    /// that.
    #[inline]
    pub(crate) fn read(&self, segment: &[u8], at: usize) -> Option<(CharId, usize)> {
        let byte = *segment.get(at)?;
        if byte == b'%' {
            let character =
                triplet(segment, at).and_then(|byte| self.triplets.get(usize::from(byte)).copied());
            return Some((character.unwrap_or(CharId::OTHER), 3));
        }
        Some((self.bytes.get(usize::from(byte)).copied().unwrap_or(CharId::OTHER), 1))
    }

    /// The characters of a piece; new characters are added. `None` if a `%` does not start an
    /// upper-case triplet, which happens in no canonical piece.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Option<Vec<CharId>> {
        let mut characters = Vec::with_capacity(piece.len());
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            let (character, width) = match byte {
                b'%' => (self.triplets.get_mut(usize::from(triplet(piece, at)?))?, 3),
                _ => (self.bytes.get_mut(usize::from(*byte))?, 1),
            };
            if *character == CharId::OTHER {
                *character = CharId(self.count);
                self.count += 1;
            }
            characters.push(*character);
            at += width;
        }
        Some(characters)
    }
}

impl Default for Alphabet {
    fn default() -> Self {
        Self {
            bytes: Box::new([CharId::OTHER; 256]),
            triplets: Box::new([CharId::OTHER; 256]),
            count: 1,
        }
    }
}

/// The byte encoded by the triplet whose `%` is at `at`.
fn triplet(text: &[u8], at: usize) -> Option<u8> {
    Some(digit_at(text, at + 1)? << 4 | digit_at(text, at + 2)?)
}

/// The value of an upper-case hexadecimal digit.
fn digit_at(text: &[u8], at: usize) -> Option<u8> {
    match text.get(at)? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triplet_is_one_character_and_what_no_piece_has_is_other() {
        let mut alphabet = Alphabet::default();
        assert_eq!(alphabet.add(b"a%C3a4").unwrap(), [1, 2, 1, 3].map(CharId));
        assert_eq!(alphabet.add(b"%C3%A9").unwrap(), [2, 4].map(CharId));
        for odd in ["%", "%4", "%zz", "%c3", "a%C"] {
            assert_eq!(alphabet.add(odd.as_bytes()), None, "{odd}");
        }
        let read = |text: &str| alphabet.read(text.as_bytes(), 0);
        assert_eq!(read("a"), Some((CharId(1), 1)));
        assert_eq!(read("%C3a"), Some((CharId(2), 3)));
        assert_eq!(read("C3"), Some((CharId::OTHER, 1)));
        for other in ["%c3", "%", "%4", "%20"] {
            assert_eq!(read(other), Some((CharId::OTHER, 3)), "{other}");
        }
        assert_eq!(read(""), None);
    }
}
