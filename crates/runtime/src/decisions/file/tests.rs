//! The file of the decision log: regular ones, and pipes that others write to as well.

use std::io::Read;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::super::settings::DecisionLog;
use super::*;

fn log(path: &Path, max_size: usize, keep: u16) -> LogFile {
    let settings = DecisionLogSettings {
        file: path.to_owned(),
        max_size: Some(max_size),
        keep,
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    LogFile::open(&settings, Arc::default()).unwrap()
}

#[test]
fn loss_and_its_end_are_logged_once_and_not_too_often() {
    let text = crate::test_log::logged(|| {
        let (file, counts, limit) = ("x.log".into(), Arc::default(), LogLimit::default());
        let mut loss = LossLog { file, counts, is_logged: false, limit };
        for _ in 0..3 {
            for is_full in [true, true, false, false] {
                loss.log_result(&if is_full {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    Ok(())
                });
                assert_eq!(loss.counts.is_failing(), is_full);
            }
        }
    });
    assert_eq!(
        (text.matches("lines are lost").count(), text.matches("is written again").count()),
        (1, 1)
    );
}

#[test]
fn a_file_is_renamed_at_its_size_and_only_some_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = log(&path, 10, 2);
    for line in
        ["one\n", "two\n", "three\n", "four\n", "a line that is longer than the limit\n", "six\n"]
    {
        log.write_all(line.as_bytes()).unwrap();
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("log"), "six\n");
    assert_eq!(read("log.1"), "a line that is longer than the limit\n");
    assert_eq!(read("log.2"), "four\n");
    assert!(!folder.path().join("log.3").exists());
}

#[test]
fn a_file_that_was_renamed_or_removed_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = log(&path, 0, 1);
    log.write_all(b"one\n").unwrap();
    fs::rename(&path, folder.path().join("old")).unwrap();
    log.write_all(b"two\n").unwrap();
    fs::remove_file(&path).unwrap();
    log.write_all(b"three\n").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
}

#[test]
fn a_file_that_ends_within_a_line_is_continued_on_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for (before, after) in [("", "one\n"), ("cu", "cu\none\n"), ("whole\n", "whole\none\n")] {
        fs::write(&path, before).unwrap();
        log(&path, 0, 1).write_all(b"one\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

fn fifo(folder: &Path) -> PathBuf {
    let path = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// As Envoy does with its access log. The pipe is full most of the time.
#[test]
fn no_line_of_another_writer_gets_into_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    // For both, so that opening it does not wait for the other end.
    let mut reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut decisions = log(&path, 0, 1);
    let mut other = OpenOptions::new().append(true).open(&path).unwrap();
    let line = |byte: u8, length: usize| [&vec![byte; length - 1][..], b"\n"].concat();
    let (rounds, batch) = (40, line(b'd', 300).repeat(55));
    let written = rounds * batch.len() + 20 * rounds * 200;
    let mut read = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| (0..rounds).for_each(|_| decisions.write_all(&batch).unwrap()));
        scope.spawn(|| (0..20 * rounds).for_each(|_| other.write_all(&line(b'e', 200)).unwrap()));
        while read.len() < written {
            let mut part = [0; 4096];
            let length = reader.read(&mut part).unwrap();
            read.extend(&part[..length]);
            thread::sleep(Duration::from_millis(1));
        }
    });
    let torn = read.split(|byte| *byte == b'\n').filter(|line| {
        !matches!((line.first(), line.len()), (None, 0) | (Some(b'd'), 299) | (Some(b'e'), 199))
    });
    assert_eq!(torn.count(), 0);
}

/// Otherwise Envoy's main thread would wait, which loads configurations.
#[test]
fn a_fifo_is_opened_only_if_somebody_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let settings = DecisionLogSettings {
        file: path.clone(),
        ..DecisionLogSettings::to_standard_output(DecisionLog::All)
    };
    let (send, opened) = channel();
    thread::spawn(move || send.send(LogFile::open(&settings, Arc::default()).map(drop)));
    let error =
        opened.recv_timeout(Duration::from_secs(60)).expect("it waits for a reader").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`decision-log-file` {}: nobody reads this FIFO", path.display())
    );

    let reading = path.clone();
    let reader = thread::spawn(move || File::open(reading));
    // Waits until the reader is there.
    drop(OpenOptions::new().append(true).open(&path).unwrap());
    let mut reader = reader.join().unwrap().unwrap();
    let mut log = log(&path, 0, 1);
    // More than a pipe holds: it waits for the reader, and nothing is lost.
    let lines = b"a line\n".repeat(30_000);
    let written = lines.len();
    let writing = thread::spawn(move || log.write_all(&lines));
    thread::sleep(Duration::from_millis(50));
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(read.len(), written);
}

/// Such as a terminal, which some systems open only when a line is there.
#[test]
fn what_is_written_to_a_device_may_wait() {
    let file = append(Path::new("/dev/null")).unwrap();
    assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
}

/// The file that is always full.
#[test]
fn a_full_disk_is_an_error_and_no_end() {
    let mut log = log(Path::new("/dev/full"), 0, 1);
    assert!(log.write_all(b"one\n").is_err());
    assert!(log.write_all(b"two\n").is_err());
}

/// As the reader of a FIFO does that removes it when it ends, and makes another one when it starts
/// again.
#[test]
fn a_fifo_that_its_reader_makes_anew_gets_the_next_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let reader = || {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
    };
    let read = |reader: &mut File| {
        let mut bytes = [0; 100];
        let length = reader.read(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let mut first = reader().unwrap();
    let mut decisions = log(&path, 0, 1);
    decisions.write_all(b"one\n").unwrap();
    assert_eq!(read(&mut first), "one\n");
    drop(first);
    let error = decisions.write_all(b"two\n").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    fs::remove_file(&path).unwrap();
    assert!(decisions.write_all(b"three\n").is_err(), "there is none");
    fifo(folder.path());
    assert!(decisions.write_all(b"four\n").is_err(), "nobody reads it");
    let mut second = reader().unwrap();
    decisions.write_all(b"five\n").unwrap();
    // Of the lines before it, parts may have been written.
    assert_eq!(read(&mut second), "\nfive\n");
}
