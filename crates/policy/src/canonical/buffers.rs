//! Reusable buffers for the interpretations of a path, so that a thread that handles many paths
//! does not allocate.

/// The intermediate and final texts of the interpretations of a path. A thread reuses them for
/// each path. They stay unallocated while all paths are canonical, and never hold more than 1 MiB.
#[derive(Debug, Default)]
pub struct Buffers {
    /// All texts that the path may become, including intermediate texts.
    pub(super) candidates: Texts,
    /// The text being processed (`current`), the result of a step (`result`), and scratch space
    /// (`scratch`).
    pub(super) current: Vec<u8>,
    pub(super) result: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    /// The results, as in [`PathInterpretations`](super::PathInterpretations).
    pub(super) all: Texts,
    pub(super) deny_only: Texts,
}

/// Texts, stored in a single buffer.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// An empty list.
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

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of texts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The total length of all texts, in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Copies the text with this index to `text`.
    pub(super) fn copy(&self, index: usize, text: &mut Vec<u8>) {
        text.clear();
        text.extend_from_slice(self.iter().nth(index).unwrap_or_default());
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Appends a text unless it is in the list already.
    pub(super) fn push_new(&mut self, text: &[u8]) {
        if !self.iter().any(|existing| existing == text) {
            self.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Buffers;

    fn held(buffers: &Buffers) -> usize {
        let Buffers { candidates, current, result, scratch, all, deny_only } = buffers;
        let texts = [candidates, all, deny_only]
            .map(|texts| texts.bytes.capacity() + texts.ends.capacity() * size_of::<usize>());
        let bytes = [current, result, scratch].map(Vec::capacity);
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
                most = most.max(held(&buffers));
            }
        }
        assert!((100 << 10..1 << 20).contains(&most), "{most}");
        for _ in 0..10 {
            let _ = super::super::path(b"GET", &b"/a;%40".repeat(100_000), &mut buffers);
        }
        assert_eq!(held(&buffers), most, "a path that is too long is not copied");
    }
}
