//! Characters of segments as small numbers.
//!
//! A percent triplet is one character (RFC 3986, 2.1). Where it is one symbol, no piece of a glob is ever found at a place
//! inside a triplet, and nothing has to check for that.

/// A character that stands in some glob; [`OTHER`] is every other one.
pub(crate) type Symbol = u16;

/// A character that stands in no glob.
pub(crate) const OTHER: Symbol = 0;

/// The symbols of the characters of all globs.
pub(crate) struct Symbols {
    /// By a byte that is no `%`.
    bytes: Box<[Symbol; 256]>,
    /// By the byte that a triplet stands for.
    triplets: Box<[Symbol; 256]>,
    count: Symbol,
}

impl Symbols {
    /// How many symbols there are, [`OTHER`] among them.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The symbol of the character that starts here, and its length in bytes: 3 after a `%`, also where the segment ends
    /// before that.
    #[inline]
    pub(crate) fn read(&self, segment: &[u8], at: usize) -> Option<(Symbol, usize)> {
        let byte = *segment.get(at)?;
        if byte == b'%' {
            let symbol = triplet(segment, at).and_then(|byte| self.triplets.get(usize::from(byte)).copied());
            return Some((symbol.unwrap_or(OTHER), 3));
        }
        Some((self.bytes.get(usize::from(byte)).copied().unwrap_or(OTHER), 1))
    }

    /// The symbols of a piece, which get one each where they are new. `None` if it has a `%` that starts no triplet in
    /// upper case, which no canonical piece has.
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

/// The byte that the triplet stands for whose `%` is here.
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
