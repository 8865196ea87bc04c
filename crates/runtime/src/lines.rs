//! Writes lines from a background thread, so that a slow reader never blocks the caller.
//!
//! Lines that do not fit into the queue are dropped and counted. The queue is bounded in bytes, not
//! in lines: 8,192 lines of maximum length took 261 MiB.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

use crate::threads::{Priority, spawn};

mod pieces;

pub use pieces::InPieces;

/// Maximum bytes of all lines in the queue: a burst of about a second.
pub const MAX_BYTES: usize = 4 << 20;
/// Bytes of a line's slot in the queue, and of the allocator's rounding.
const OVERHEAD: usize = 64;
/// Bytes after which lines are written: a system call for each line would cost more than the line.
const BATCH: usize = 16 << 10;
/// A line of the decision log is shorter than this. While the queue has less room, lines are
/// dropped before they are formatted.
const MAX_LINE: usize = 64 << 10;
/// How often the thread checks the queue while a batch waits for more lines.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum time between two log lines about the same failure.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Slots of the queue, of 24 bytes each. A line of 300 bytes may have an allocation of 512 bytes,
/// so [`MAX_BYTES`] are used up before the slots.
const SLOTS: usize = 8192;

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub struct Lines {
    queue: SyncSender<Vec<u8>>,
    pub(crate) counts: Arc<Counts>,
}

/// Counters of lines written and dropped.
#[derive(Debug, Default)]
pub struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    left_out: AtomicU64,
    /// Lines that are in the queue or being written.
    unwritten: AtomicU64,
    /// Bytes that the lines in the queue take.
    waiting: AtomicUsize,
    /// Whether the last lines could not be written.
    failing: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    /// Bytes after which a batch is written. Its last line may exceed them.
    pub(crate) bytes: usize,
    pub(crate) lines: u64,
    /// How long the first line of a batch waits for others.
    pub(crate) wait: Duration,
}

/// The thread that writes, until [`Writer::finish`].
#[derive(Debug)]
pub struct Writer {
    /// An empty line in the queue ends the thread, even while a [`Lines`] exists.
    queue: SyncSender<Vec<u8>>,
    /// Dropped when the process stops. A batch that could not be written, and waits for another
    /// attempt, is then tried at once.
    stop: Option<Sender<()>>,
    /// Nothing is ever sent: the channel closes when the thread ends.
    ended: Receiver<()>,
}

/// Limits how often something is logged: once per minute.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    last: Option<Instant>,
}

impl LogLimit {
    /// Whether to log now; if so, records the time.
    pub(crate) fn admit(&mut self) -> bool {
        let is_admitted = self.last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if is_admitted {
            self.last = Some(Instant::now());
        }
        is_admitted
    }
}

impl Lines {
    /// Starts the thread.
    pub fn start(
        name: &str,
        mut to: impl Write + Send + 'static,
        counts: Arc<Counts>,
    ) -> io::Result<(Self, Writer)> {
        let batching = Batching { bytes: BATCH, lines: u64::MAX, wait: Duration::ZERO };
        Self::start_batches(name, batching, counts, move |batch, number, _| {
            // If the reader has gone, writing fails and the lines count as dropped.
            let result = to.write_all(batch).and_then(|()| to.flush());
            if result.is_ok() { number } else { 0 }
        })
    }

    /// Starts the thread with a function that gets the bytes of some lines, their number, and a
    /// channel that is closed when the process stops. It returns how many lines are written; the
    /// others count as dropped.
    pub(crate) fn start_batches(
        name: &str,
        batching: Batching,
        counts: Arc<Counts>,
        mut write: impl FnMut(&[u8], u64, &Receiver<()>) -> u64 + Send + 'static,
    ) -> io::Result<(Self, Writer)> {
        let (queue, lines) = sync_channel(SLOTS);
        let (end, ended) = sync_channel(0);
        let (stop, stopped) = channel();
        let counted = counts.clone();
        spawn(name, Priority::Normal, move || {
            write_batches(&lines, batching, &counted, |batch, number| {
                write(batch, number, &stopped)
            });
            // From here on lines are dropped, not queued.
            drop(lines);
            drop(end);
        })?;
        Ok((Self { queue: queue.clone(), counts }, Writer { queue, stop: Some(stop), ended }))
    }

    /// Puts a line into the queue, or drops it. Never blocks.
    pub fn offer(&self, line: Vec<u8>) {
        if line.is_empty() {
            return;
        }
        let size = size(&line);
        self.counts.unwritten.fetch_add(1, Ordering::Relaxed);
        let before = self.counts.waiting.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > MAX_BYTES || self.queue.try_send(line).is_err() {
            self.counts.waiting.fetch_sub(size, Ordering::Relaxed);
            self.counts.unwritten.fetch_sub(1, Ordering::Relaxed);
            self.counts.count_dropped();
        }
    }

    /// Whether the queue may have no room for another line. Ask before formatting a line, which
    /// costs more than the decision.
    pub(crate) fn is_full(&self) -> bool {
        self.counts.waiting.load(Ordering::Relaxed) > MAX_BYTES - MAX_LINE
    }
}

impl Counts {
    /// Lines written since the start.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines dropped since the start: the queue was full, or writing failed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the last lines could not be written, as on a full disk.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Lines that sampling has left out since the start.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Counts a line that sampling leaves out.
    pub fn count_left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a dropped line, also one that was never formatted.
    pub fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines that wait to be written, or are being written. When the process ends, these are lost.
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Bytes of the lines in the queue, and of lines that are being offered and may be dropped.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Tells the thread that the process stops, without waiting.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits until the queue is written, or for `limit`: the reader may have stopped.
    pub fn finish(mut self, limit: Duration) {
        let end = Instant::now() + limit;
        self.stop();
        while let Err(TrySendError::Full(_)) = self.queue.try_send(Vec::new())
            && Instant::now() < end
        {
            thread::sleep(PAUSE);
        }
        let _ = self.ended.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Bytes that a line takes: its allocation, which may be twice its length.
fn size(line: &Vec<u8>) -> usize {
    line.capacity().saturating_add(OVERHEAD)
}

/// Writes queued lines in batches. A line counts as written when it has left the process.
fn write_batches(
    lines: &Receiver<Vec<u8>>,
    batching: Batching,
    counts: &Counts,
    mut write: impl FnMut(&[u8], u64) -> u64,
) {
    let (mut batch, mut is_last) = (Vec::new(), false);
    while !is_last && let Ok(first) = lines.recv() {
        let (mut number, mut next) = (0, Some(first));
        let end = (!batching.wait.is_zero()).then(|| Instant::now() + batching.wait);
        while let Some(line) = next.take() {
            is_last = line.is_empty();
            if is_last {
                break;
            }
            batch.extend_from_slice(&line);
            number += 1;
            counts.waiting.fetch_sub(size(&line), Ordering::Relaxed);
            if batch.len() < batching.bytes && number < batching.lines {
                next = next_line(lines, end);
            }
        }
        if number == 0 {
            break;
        }
        let written = write(&batch, number).min(number);
        counts.written.fetch_add(written, Ordering::Relaxed);
        counts.dropped.fetch_add(number - written, Ordering::Relaxed);
        counts.unwritten.fetch_sub(number, Ordering::Relaxed);
        batch.clear();
    }
    for line in lines.try_iter().filter(|line| !line.is_empty()) {
        counts.waiting.fetch_sub(size(&line), Ordering::Relaxed);
        counts.unwritten.fetch_sub(1, Ordering::Relaxed);
        counts.count_dropped();
    }
}

/// The next line, if one is in the queue now or arrives before `end`. This sleeps and looks again,
/// instead of waiting for a line: to wake a waiting thread would cost the sender a system call.
fn next_line(lines: &Receiver<Vec<u8>>, end: Option<Instant>) -> Option<Vec<u8>> {
    loop {
        match lines.try_recv() {
            Ok(line) => return Some(line),
            Err(TryRecvError::Empty) if end.is_some_and(|end| Instant::now() < end) => {
                thread::sleep(PAUSE)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
