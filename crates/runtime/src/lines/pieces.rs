//! Writes lines to a pipe that others write to as well, so that no line is torn apart.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};

/// Maximum bytes that a pipe takes as a whole (`PIPE_BUF` of Linux).
const UNDIVIDED: usize = 4096;

/// Writes whole lines, in pieces that the pipe does not divide. Envoy writes its access log to the
/// same pipe as the module its decision log. A write of more than `PIPE_BUF` bytes is divided where
/// the pipe is full, and a line of Envoy may come between the parts.
#[derive(Debug)]
pub struct InPieces<W> {
    to: W,
    max: usize,
}

impl<W: Write + AsFd> InPieces<W> {
    /// A file on a disk takes lines of any length at once.
    pub fn new(to: W) -> Self {
        let is_file = fstat(&to).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        Self { to, max: if is_file { usize::MAX } else { UNDIVIDED } }
    }
}

impl<W: Write> Write for InPieces<W> {
    /// Writes all lines, or fails.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut unwritten = lines;
        while !unwritten.is_empty() {
            let (piece, after) = first_piece(unwritten, self.max);
            self.to.write_all(piece)?;
            unwritten = after;
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Splits off the first lines: as many as fit into `max` bytes, or one line if it alone is longer.
fn first_piece(lines: &[u8], max: usize) -> (&[u8], &[u8]) {
    let Some((fits, _)) = lines.split_at_checked(max) else { return (lines, &[]) };
    let is_end = |byte: &u8| *byte == b'\n';
    let end = fits.iter().rposition(is_end).or_else(|| lines.iter().position(is_end));
    end.and_then(|end| lines.split_at_checked(end + 1)).unwrap_or((lines, &[]))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::pipe;

    use super::*;

    /// The lengths of the writes.
    #[derive(Default)]
    struct Lengths(Vec<usize>);

    impl Write for Lengths {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(bytes.last(), Some(&b'\n'));
            self.0.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lengths of the writes of lines of these lengths.
    fn lengths(lines: &[usize], max: usize) -> Vec<usize> {
        let text: Vec<u8> =
            lines.iter().flat_map(|length| [&vec![b'x'; length - 1][..], b"\n"].concat()).collect();
        let mut pieces = InPieces { to: Lengths::default(), max };
        pieces.write_all(&text).unwrap();
        pieces.to.0
    }

    #[test]
    fn lines_are_written_in_pieces_of_whole_lines() {
        for (lines, pieces) in [
            (&[][..], &[][..]),
            (&[100], &[100]),
            (&[4096], &[4096]),
            (&[4000, 96, 1, 4095], &[4096, 4096]),
            (&[4000, 97, 1], &[4000, 98]),
            (&[9000, 300, 300], &[9000, 600]),
            (&[300, 5000, 300], &[300, 5000, 300]),
        ] {
            assert_eq!(lengths(lines, UNDIVIDED), pieces, "{lines:?}");
        }
        assert_eq!(lengths(&[300; 50], usize::MAX), [15_000]);
    }

    #[test]
    fn only_a_file_on_a_disk_takes_any_length() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(InPieces::new(file).max, usize::MAX);
        assert_eq!(InPieces::new(pipe().unwrap().1).max, UNDIVIDED);
        assert_eq!(InPieces::new(File::open("/dev/null").unwrap()).max, UNDIVIDED);
    }
}
