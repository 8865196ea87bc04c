//! What becomes of lines that cannot be written, such as on a full disk: the log of the process says so, once, and the
//! first line that can be written again begins on a line of its own.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lines::Counts;

/// How often the log says at most that lines are lost, where writing fails and succeeds by turns.
const INTERVAL: Duration = Duration::from_secs(60);

/// Says in the log of the process when lines are lost, and when they are written again.
pub(super) struct Reported<W> {
    to: W,
    /// The file, for people.
    name: String,
    counts: Arc<Counts>,
    /// Whether the last loss was said. One shortly after another is not.
    is_said: bool,
    last: Option<Instant>,
}

impl<W: Write> Reported<W> {
    pub(super) fn new(to: W, name: String, counts: Arc<Counts>) -> Self {
        Self { to, name, counts, is_said: false, last: None }
    }

    fn failed(&mut self, error: &io::Error) {
        self.counts.set_failing(true);
        if !self.is_said && self.last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            self.is_said = true;
            self.last = Some(Instant::now());
            tracing::warn!(file = %self.name, %error, "the decision log cannot be written: its lines are lost");
        }
    }

    fn succeeded(&mut self) {
        self.counts.set_failing(false);
        if mem::take(&mut self.is_said) {
            tracing::warn!(file = %self.name, "the decision log is written again, without the lines that were lost");
        }
    }
}

impl<W: Write> Write for Reported<W> {
    /// Writes whole lines, all or none.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match self.to.write_all(lines).and_then(|()| self.to.flush()) {
            Ok(()) => {
                self.succeeded();
                Ok(lines.len())
            }
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Begins a line of its own after one of which only a part was written.
pub(super) struct WholeLines<W> {
    to: W,
    torn: bool,
}

impl<W: Write> WholeLines<W> {
    /// `torn`: whether what is there already may end within a line.
    pub(super) const fn new(to: W, torn: bool) -> Self {
        Self { to, torn }
    }
}

impl<W: Write> Write for WholeLines<W> {
    /// Writes whole lines, all or none.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.torn {
            self.to.write_all(b"\n")?;
        }
        self.torn = true;
        self.to.write_all(lines).and_then(|()| self.to.flush())?;
        self.torn = false;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for so many bytes.
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= fits;
            self.written.extend(bytes.iter().take(fits));
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn loss_and_its_end_are_logged_once_and_not_too_often() {
        let text = crate::test_log::logged(|| {
            let mut disk = Disk { written: Vec::new(), room: 0 };
            let mut lines = Reported::new(&mut disk, "x.log".to_owned(), Arc::default());
            for _ in 0..3 {
                for room in [0, 0, 100, 100] {
                    lines.to.room = room;
                    assert_eq!(lines.write_all(b"line\n").is_ok(), room > 0);
                }
            }
        });
        assert_eq!(
            (text.matches("lines are lost").count(), text.matches("is written again").count()),
            (1, 1)
        );
    }

    #[test]
    fn a_line_after_one_that_was_cut_is_whole() {
        let mut disk = Disk { written: Vec::new(), room: 7 };
        let mut lines = WholeLines::new(&mut disk, false);
        lines.write_all(b"one\n").unwrap();
        lines.write_all(b"two and more\n").unwrap_err();
        lines.to.room = 100;
        lines.write_all(b"three\n").unwrap();
        lines.write_all(b"four\n").unwrap();
        assert_eq!(String::from_utf8(disk.written).unwrap(), "one\ntwo\nthree\nfour\n");
    }
}
