//! The lines of standard input, one at a time.

use std::io::{self, BufRead, BufReader, Read, StdinLock};

/// Maximum size of a line in bytes, its end included: endless input must not take all memory.
pub(super) const MAX_LINE: usize = 1 << 20;
/// Bytes that are read and written at a time.
pub(super) const BUFFER: usize = 64 << 10;

/// Lines, and the current line.
pub(super) struct Lines<'a> {
    source: BufReader<StdinLock<'a>>,
    line: Vec<u8>,
    is_whole: bool,
    /// The number of the current line; zero before the first.
    pub(super) number: u64,
}

/// A line without its end.
pub(super) enum Line<'a> {
    /// None is read yet.
    None,
    Whole(&'a [u8]),
    /// Longer than [`MAX_LINE`].
    TooLong,
}

impl<'a> Lines<'a> {
    pub(super) fn new(source: StdinLock<'a>) -> Self {
        let source = BufReader::with_capacity(BUFFER, source);
        Self { source, line: Vec::new(), is_whole: true, number: 0 }
    }

    /// Reads the next line. Returns whether there is a next line.
    pub(super) fn read_next(&mut self) -> io::Result<bool> {
        self.line.clear();
        let size = (&mut self.source).take(MAX_LINE as u64).read_until(b'\n', &mut self.line)?;
        if size == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.is_whole = self.line.ends_with(b"\n") || size < MAX_LINE;
        if !self.is_whole {
            self.source.skip_until(b'\n')?;
        }
        Ok(true)
    }

    pub(super) fn current(&self) -> Line<'_> {
        match (self.number, self.is_whole) {
            (0, _) => Line::None,
            (_, true) => Line::Whole(self.line.trim_ascii()),
            (_, false) => Line::TooLong,
        }
    }

    /// Whether the next line has not arrived as a whole, so that reading it may wait.
    pub(super) fn may_wait(&self) -> bool {
        !self.source.buffer().contains(&b'\n')
    }
}
