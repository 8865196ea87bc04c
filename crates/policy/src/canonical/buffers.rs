//! Where the readings of a path are written, so that a thread that reads many allocates nothing for them.

/// Buffers that one thread uses again for each path. One that has read only canonical paths holds nothing; no path makes
/// it hold a MiB.
#[derive(Debug, Default)]
pub struct Buffers(Option<Box<Space>>);

impl Buffers {
    /// What it holds, as the path before has left it.
    pub(super) fn space(&mut self) -> &mut Space {
        self.0.get_or_insert_default()
    }
}

/// What is written on the way from a path to its readings.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The path with its triplets as they should be.
    pub(super) written: Vec<u8>,
    /// The same, decoded once more.
    pub(super) inner: Vec<u8>,
    /// Both of these, with and without their parameters.
    pub(super) ways: Texts,
    /// The reading that is being made, and what else that takes.
    pub(super) text: Vec<u8>,
    pub(super) other: Vec<u8>,
    /// The readings.
    pub(super) all: Texts,
    pub(super) deny_only: Texts,
}

/// Texts, one after another in one buffer.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// No texts at all.
pub(super) static NONE: Texts = Texts { bytes: Vec::new(), ends: Vec::new() };

impl Texts {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }

    pub(super) fn has(&self, text: &[u8]) -> bool {
        self.iter().any(|known| known == text)
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Adds a text that is not among them yet.
    pub(super) fn add(&mut self, text: &[u8]) {
        if !self.has(text) {
            self.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffers, Space};

    fn held(space: &Space) -> usize {
        let Space { written, inner, ways, text, other, all, deny_only } = space;
        let texts =
            [ways, all, deny_only].map(|it| it.bytes.capacity() + it.ends.capacity() * size_of::<usize>());
        let bytes = [written, inner, text, other].map(Vec::capacity);
        texts.iter().chain(&bytes).sum()
    }

    #[test]
    fn no_path_makes_them_large() {
        let mut buffers = Buffers::default();
        let mut most = 0;
        for piece in
            ["/a;b", "//a%40", "/a/..", "/%2541;b%253Bc%3Bd%40//e", "/%2540a%3Bb;c%40//", "/a%252Cb;c%3B"]
        {
            let path = piece.repeat(8192 / piece.len());
            super::super::path(b"GET", path.as_bytes(), &mut buffers).unwrap();
            most = most.max(held(buffers.space()));
        }
        assert!((100 << 10..1 << 20).contains(&most), "{most}");
        for _ in 0..10 {
            let _ = super::super::path(b"GET", &b"/;%40".repeat(100_000), &mut buffers);
        }
        assert_eq!(held(buffers.space()), most, "what is refused for its length is not copied");
    }
}
