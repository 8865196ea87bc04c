//! Maps the characters of segments to small numbers.
//!
//! A percent triplet is one character (RFC 3986, 2.1). As it is one symbol, no piece of a glob is ever found inside a
//! triplet, and no check for that is needed.

/// A character that occurs in some glob; [`OTHER`] is every other one.
pub(crate) type Symbol = u16;

/// A character that occurs in no glob.
pub(crate) const OTHER: Symbol = 0;

/// The symbols of all characters that occur in globs.
pub(crate) struct Symbols {
    /// Symbols of raw bytes, except `%`.
    bytes: Box<[Symbol; 256]>,
    /// Symbols of triplets, by their decoded byte.
    triplets: Box<[Symbol; 256]>,
    count: Symbol,
}

impl Symbols {
    /// The number of symbols, including [`OTHER`].
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The symbol of the character at `at`, and its length in bytes: 3 for a `%`, even if the segment ends before that.
    #[inline]
    pub(crate) fn read(&self, segment: &[u8], at: usize) -> Option<(Symbol, usize)> {
        let byte = *segment.get(at)?;
        if byte == b'%' {
            let symbol = triplet(segment, at).and_then(|byte| self.triplets.get(usize::from(byte)).copied());
            return Some((symbol.unwrap_or(OTHER), 3));
        }
        Some((self.bytes.get(usize::from(byte)).copied().unwrap_or(OTHER), 1))
    }

    /// The symbols of a piece; new characters are added. `None` if a `%` does not start an upper-case triplet, which
    /// happens in no canonical piece.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Option<Vec<Symbol>> {
        let mut symbols = Vec::with_capacity(piece.len());
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            let (known, width) = match byte {
                b'%' => (self.triplets.get_mut(usize::from(triplet(piece, at)?))?, 3),
                _ => (self.bytes.get_mut(usize::from(*byte))?, 1),
            };
            if *known == OTHER {
                *known = self.count;
                self.count += 1;
            }
            symbols.push(*known);
            at += width;
        }
        Some(symbols)
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self { bytes: Box::new([OTHER; 256]), triplets: Box::new([OTHER; 256]), count: OTHER + 1 }
    }
}

/// The byte encoded by the triplet whose `%` is at `at`.
fn triplet(text: &[u8], at: usize) -> Option<u8> {
    let digit = |distance| match text.get(at + distance)? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    Some(digit(1)? << 4 | digit(2)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triplet_is_one_symbol_and_what_no_piece_has_is_other() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.add(b"a%C3a4").unwrap(), [1, 2, 1, 3]);
        assert_eq!(symbols.add(b"%C3%A9").unwrap(), [2, 4]);
        for odd in ["%", "%4", "%zz", "%c3", "a%C"] {
            assert_eq!(symbols.add(odd.as_bytes()), None, "{odd}");
        }
        let read = |text: &str| symbols.read(text.as_bytes(), 0);
        assert_eq!(read("a"), Some((1, 1)));
        assert_eq!(read("%C3a"), Some((2, 3)));
        assert_eq!(read("C3"), Some((OTHER, 1)));
        for other in ["%c3", "%", "%4", "%20"] {
            assert_eq!(read(other), Some((OTHER, 3)), "{other}");
        }
        assert_eq!(read(""), None);
    }
}
