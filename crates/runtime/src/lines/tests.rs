//! Lines that are written, dropped and counted, and the end of the thread.

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
    let reading = std::thread::spawn(move || {
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        read
    });
    writer.finish(Duration::from_secs(60));
    let read = reading.join().unwrap();
    assert_eq!((counts.waiting(), counts.unwritten()), (0, 0));
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
    writer.finish(Duration::from_secs(60));
    assert_eq!((counts.written(), counts.dropped(), counts.waiting()), (1, 1, 0));
    assert_eq!(counts.unwritten(), 0);
}

/// While nobody reads, lines that would be dropped are not even formatted; as soon as somebody
/// does, they are again.
#[test]
fn a_line_that_would_be_dropped_need_not_be_formatted() {
    let counts = Arc::new(Counts::default());
    let (mut reader, to) = std::io::pipe().unwrap();
    let (lines, writer) = Lines::start("test", to, counts.clone()).unwrap();
    assert!(!lines.is_full());
    let line = || [&[b'x'; 10_000][..], b"\n"].concat();
    let (mut offered, before) = (0, counts.dropped());
    while !lines.is_full() {
        lines.offer(line());
        offered += 1;
    }
    assert_eq!(counts.dropped(), before);
    counts.count_dropped();
    assert_eq!(counts.dropped(), before + 1);
    let reading =
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()).unwrap());
    while counts.waiting() > 0 {
        std::thread::yield_now();
    }
    assert!(!lines.is_full());
    let before = counts.dropped();
    lines.offer(line());
    assert_eq!(counts.dropped(), before);
    drop(lines);
    writer.finish(Duration::from_secs(60));
    reading.join().unwrap();
    // The one that was not formatted, and the one that was offered last.
    assert_eq!(counts.written() + counts.dropped(), offered + 2);
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
    writer.finish(Duration::from_secs(60));
    assert_eq!((counts.written(), counts.dropped(), counts.waiting()), (1, 100, 0));
}

/// The end does not depend on who still could offer lines: at a limit of an hour, this test would
/// not end.
#[test]
fn lines_are_written_at_the_end_although_more_could_come() {
    let counts = Arc::new(Counts::default());
    let (lines, writer) = Lines::start("test", std::io::sink(), counts.clone()).unwrap();
    for _ in 0..100 {
        lines.offer(b"a line\n".to_vec());
    }
    writer.finish(Duration::from_secs(3600));
    assert_eq!(counts.written(), 100);
    lines.offer(b"too late\n".to_vec());
    assert_eq!((counts.written(), counts.dropped(), counts.waiting()), (100, 1, 0));
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
    writer.finish(Duration::from_secs(60));
    assert_eq!((counts.dropped(), counts.waiting()), (number, 0));
}

/// Whoever ends the process can say how many are lost.
#[test]
fn lines_that_nobody_reads_are_unwritten() {
    let (_unread, mut pipe) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    std::io::Write::write_all(&mut pipe, &[b'x'; 64 << 10]).unwrap();
    let counts = Arc::new(Counts::default());
    let (lines, writer) = Lines::start("test", pipe, counts.clone()).unwrap();
    (0..3).for_each(|_| lines.offer(b"a line\n".to_vec()));
    writer.finish(Duration::from_millis(100));
    assert_eq!((counts.written(), counts.unwritten()), (0, 3));
}
