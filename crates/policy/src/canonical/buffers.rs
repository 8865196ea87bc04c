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
    /// All that the path may become, unfinished texts among them.
    pub(super) ways: Texts,
    /// The text that is looked at, what is made of it, and what else that takes.
    pub(super) way: Vec<u8>,
    pub(super) made: Vec<u8>,
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

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes they are together.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Writes one of them to `text`.
    pub(super) fn copy(&self, number: usize, text: &mut Vec<u8>) {
        text.clear();
        text.extend_from_slice(self.iter().nth(number).unwrap_or_default());
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Adds a text that is not among them yet.
    pub(super) fn add(&mut self, text: &[u8]) {
        if !self.iter().any(|known| known == text) {
            self.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffers, Space};

    fn held(space: &Space) -> usize {
        let Space { ways, way, made, other, all, deny_only } = space;
        let texts =
            [ways, all, deny_only].map(|it| it.bytes.capacity() + it.ends.capacity() * size_of::<usize>());
        let bytes = [way, made, other].map(Vec::capacity);
        texts.iter().chain(&bytes).sum()
    }

    #[test]
    fn no_path_makes_them_large() {
        let mut buffers = Buffers::default();
        let mut most = 0;
        for (start, piece) in [
            ("", "/a;b"),
            ("", "/a//%40"),
            ("", "/a/.."),
            ("", "/%2541;b%253Bc%3Bd%40//e"),
            ("", "/%2540a%3Bb;c%40//"),
            ("", "/a%252Cb;c%3B"),
            ("", "/a%3Fb/./c%40"),
            ("/a%2523b%3Bc;d%253Fe/f%23g%3Fh", "/%40"),
            ("/a%2523b%3Bc;d%253Fe/f%23g%3Fh", "/a/x/..//%40"),
        ] {
            for length in (1..=32).map(|times| times * 256) {
                let path = format!("{start}{}", piece.repeat((length - start.len()) / piece.len()));
                let _ = super::super::path(b"GET", path.as_bytes(), &mut buffers);
                most = most.max(held(buffers.space()));
            }
        }
        assert!((100 << 10..1 << 20).contains(&most), "{most}");
        for _ in 0..10 {
            let _ = super::super::path(b"GET", &b"/a;%40".repeat(100_000), &mut buffers);
        }
        assert_eq!(held(buffers.space()), most, "what is refused for its length is not copied");
    }
}
