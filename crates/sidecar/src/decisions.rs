//! The decision log: who asked what, and the answer, as lines of JSON on standard output.
//!
//! A request thread only puts a line into a bounded queue; a thread of its own writes. Where the reader of the log is
//! slower than the requests, lines are dropped and counted, and no request ever waits.
//!
//! A line has no header, no query and no proof in it: [`DecisionRecord`] does not have them.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::grpc::{DecisionRecord, DecisionSink};
use crate::settings::DecisionLog;

/// Lines that may wait to be written: a burst of a second or so, and at most a few MiB.
const QUEUE: usize = 8192;
/// Longer values are cut, so that a client cannot fill the log with one request.
const LONGEST: usize = 1024;

/// The end of the log that request threads hold.
#[derive(Debug)]
pub(crate) struct Decisions {
    which: DecisionLog,
    lines: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

/// What became of the lines.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
}

/// The thread that writes. It ends when the last [`Decisions`] has gone.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Nothing is ever sent: it closes when the thread ends.
    ended: Receiver<()>,
}

impl Decisions {
    /// Starts the log, if there is to be one.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(
        which: DecisionLog,
        to: impl Write + Send + 'static,
        counts: Arc<Counts>,
    ) -> io::Result<Option<(Self, Writer)>> {
        if which == DecisionLog::Off {
            return Ok(None);
        }
        let (lines, queue) = sync_channel(QUEUE);
        let (end, ended) = sync_channel(0);
        let counted = counts.clone();
        thread::Builder::new().name("decisions".to_owned()).spawn(move || {
            write(&queue, io::BufWriter::new(to), &counted);
            drop(end);
        })?;
        Ok(Some((Self { which, lines, counts }, Writer { ended })))
    }
}

impl DecisionSink for Decisions {
    fn offer(&self, record: &DecisionRecord<'_>) {
        if self.which == DecisionLog::Denied && record.allowed {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(&Line::of(record)) else { return self.counts.drop_one() };
        line.push(b'\n');
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send(line) {
            self.counts.drop_one();
        }
    }
}

impl Counts {
    /// Lines written since the start.
    #[must_use]
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines dropped since the start: the queue was full, or they could not be written.
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Writer {
    /// Waits until everything in the queue is written, once the request threads have ended, but not for ever: whoever
    /// reads the log may have stopped reading.
    pub(crate) fn finish(self, limit: Duration) {
        let _ = self.ended.recv_timeout(limit);
    }
}

/// Writes what there is, and flushes once there is nothing more at the moment.
fn write(queue: &Receiver<Vec<u8>>, mut to: impl Write, counts: &Counts) {
    while let Ok(first) = queue.recv() {
        for line in std::iter::once(first).chain(queue.try_iter()) {
            match to.write_all(&line) {
                Ok(()) => _ = counts.written.fetch_add(1, Ordering::Relaxed),
                Err(_) => counts.drop_one(),
            }
        }
        // Whoever read the log may have gone; the next lines are then dropped and counted.
        let _ = to.flush();
    }
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "seconds")]
    time: Duration,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    request_id: &'a str,
    revision: &'a str,
    duration_us: u64,
}

impl<'a> Line<'a> {
    fn of(record: &DecisionRecord<'a>) -> Self {
        Self {
            time: record.time,
            decision: if record.allowed { "allowed" } else { "denied" },
            reason: record.reason,
            rule: record.rule,
            user: record.user.map(cut),
            method: cut(record.method),
            host: cut(record.host),
            path: cut(record.path),
            request_id: cut(record.request_id),
            revision: record.revision,
            duration_us: u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// As a number of seconds since the Unix epoch, to the microsecond.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e6)
}

fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(LONGEST);
    text.split_at_checked(end).map_or(text, |(front, _)| front)
}

#[cfg(test)]
mod tests;
