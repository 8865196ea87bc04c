//! Writes lines to standard output or error from a background thread, so that a slow reader never blocks the caller.
//!
//! A caller puts a line into a queue, and a separate thread writes it. If the reader is too slow, lines are dropped
//! and counted. The queue is bounded in bytes: bounded only in lines, 8,192 of them at maximum length took 261 MiB.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum bytes of all lines in the queue: a burst of about a second.
pub const MAX_BYTES: usize = 4 << 20;
/// Bytes that a line takes in addition to its text: its slot in the queue, and the rounding of the allocator.
const OVERHEAD: usize = 64;
/// Bytes after which lines are written, so a write has at most these and one more line: a system call for each line
/// would cost more than the line.
const BATCH: usize = 16 << 10;
/// Slots of the queue, allocated at the start (24 bytes each, with a stamp of 8). At the usual length of a line, 300
/// bytes in an allocation of 512, they hold as many lines as [`MAX_BYTES`] allows.
const SLOTS: usize = 8192;

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub struct Lines {
    queue: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

/// Counters of lines written and dropped.
#[derive(Debug, Default)]
pub struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    left_out: AtomicU64,
    /// Bytes that the lines in the queue take.
    waiting: AtomicUsize,
}

/// The thread that writes. It ends when the last [`Lines`] is dropped.
#[derive(Debug)]
pub struct Writer {
    /// Nothing is ever sent: the channel closes when the thread ends.
    ended: Receiver<()>,
}

impl Lines {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start(
        name: &str,
        to: impl Write + Send + 'static,
        counts: Arc<Counts>,
    ) -> io::Result<(Self, Writer)> {
        let (queue, lines) = sync_channel(SLOTS);
        let (end, ended) = sync_channel(0);
        let counted = counts.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            write(&lines, to, &counted);
            drop(end);
        })?;
        Ok((Self { queue, counts }, Writer { ended }))
    }

    /// Puts a line into the queue, or drops it. Never blocks.
    pub fn offer(&self, line: Vec<u8>) {
        let size = size(&line);
        let before = self.counts.waiting.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > MAX_BYTES || self.queue.try_send(line).is_err() {
            self.counts.waiting.fetch_sub(size, Ordering::Relaxed);
            self.counts.drop_one();
        }
    }
}

impl Counts {
    /// Lines written since the start.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines dropped since the start: the queue was full, or writing failed. Many lines are written at once; if that
    /// fails half-way, all of them count as dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Lines that sampling has left out since the start.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Counts a line that sampling leaves out.
    pub fn leave_out_one(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a line that could not even be formatted as dropped.
    pub fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that queued lines take now. While lines are offered, this includes lines that are about to be dropped.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Waits until everything in the queue is written, after all [`Lines`] are dropped. Waits at most `limit`: the
    /// reader may have stopped reading.
    pub fn finish(self, limit: Duration) {
        let _ = self.ended.recv_timeout(limit);
    }
}

/// Bytes that a line takes: its allocation, not its length, which may be half of that.
fn size(line: &Vec<u8>) -> usize {
    line.capacity().saturating_add(OVERHEAD)
}

/// Writes queued lines, about [`BATCH`] bytes at once. A line counts as written when it has left the process.
fn write(lines: &Receiver<Vec<u8>>, mut to: impl Write, counts: &Counts) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(first) = lines.recv() {
        let (mut number, mut next) = (0, Some(first));
        while let Some(line) = next {
            batch.extend_from_slice(&line);
            number += 1;
            let size = size(&line);
            drop(line);
            counts.waiting.fetch_sub(size, Ordering::Relaxed);
            next = if batch.len() < BATCH { lines.try_recv().ok() } else { None };
        }
        // If the reader has gone, writing fails and the lines count as dropped.
        let result = to.write_all(&batch).and_then(|()| to.flush());
        let count = if result.is_ok() { &counts.written } else { &counts.dropped };
        count.fetch_add(number, Ordering::Relaxed);
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Counts, Lines, MAX_BYTES, SLOTS};

    /// Writes to a pipe, as standard output is in a container. It is read only at the end.
    #[test]
    fn unread_lines_stay_within_the_limit() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let counts = Arc::new(Counts::default());
        let (lines, writer) = Lines::start("test", pipe, counts.clone()).unwrap();
        let threads = 4;
        let each = 4 * SLOTS;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for number in 0..each {
                        // Lines of many sizes, most with capacity that is not used.
                        let mut line = Vec::with_capacity(16 << (number % 12));
                        line.extend_from_slice(b"a line\n");
                        lines.offer(line);
                    }
                });
            }
        });
        assert!(counts.waiting() <= MAX_BYTES, "{}", counts.waiting());
        assert!(counts.dropped() > 0);
        drop(lines);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        writer.finish(Duration::from_secs(10));
        assert_eq!(counts.waiting(), 0);
        let came = u64::try_from(read.lines().count()).unwrap();
        assert_eq!(came, counts.written());
        assert_eq!(counts.written() + counts.dropped(), u64::try_from(threads * each).unwrap());
    }

    #[test]
    fn a_line_larger_than_the_queue_is_dropped() {
        let counts = Arc::new(Counts::default());
        let (lines, writer) = Lines::start("test", std::io::sink(), counts.clone()).unwrap();
        lines.offer(vec![b'x'; MAX_BYTES]);
        lines.offer(b"small\n".to_vec());
        drop(lines);
        writer.finish(Duration::from_secs(10));
        assert_eq!((counts.written(), counts.dropped(), counts.waiting()), (1, 1, 0));
    }

    /// A reader takes one line and goes: no other line counts as written.
    #[test]
    fn lines_count_as_written_only_after_the_write() {
        struct OneWrite(bool);
        impl std::io::Write for OneWrite {
            fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(std::io::ErrorKind::BrokenPipe.into());
                }
                Ok(line.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let counts = Arc::new(Counts::default());
        let (lines, writer) = Lines::start("test", OneWrite(false), counts.clone()).unwrap();
        lines.offer(b"first\n".to_vec());
        while counts.written() == 0 {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            lines.offer(b"later\n".to_vec());
        }
        drop(lines);
        writer.finish(Duration::from_secs(10));
        assert_eq!((counts.written(), counts.dropped(), counts.waiting()), (1, 100, 0));
    }

    /// The reader has gone, as in `rolegate serve | head`.
    #[test]
    fn lines_that_cannot_be_written_are_dropped() {
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let counts = Arc::new(Counts::default());
        let (lines, writer) = Lines::start("test", pipe, counts.clone()).unwrap();
        let number = 100;
        for _ in 0..number {
            lines.offer(vec![b'x'; 10_000]);
        }
        drop(lines);
        writer.finish(Duration::from_secs(10));
        assert_eq!((counts.dropped(), counts.waiting()), (number, 0));
    }
}
