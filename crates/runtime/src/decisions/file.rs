//! The file that decisions are appended to, or the pipe, device or standard stream in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::settings::DecisionLogSettings;
use crate::lines::{Counts, InPieces, LogLimit};

/// Mode of a new file: its lines name users and their requests. An existing file keeps its mode.
const MODE: u32 = 0o640;

/// Takes batches of whole lines.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    /// `None` for standard output and error, which are never opened again.
    path: Option<PathBuf>,
    /// Size in bytes at which a file is renamed; 0 means never.
    max_size: u64,
    /// How many renamed files are kept.
    keep: u16,
    /// Whether the file may end within a line, as after a full disk.
    is_torn: bool,
    /// Whether the process has logged that the file cannot be renamed.
    has_warned: bool,
    loss: LossLog,
}

/// Says in the log of the process when lines begin to be lost, and when writing succeeds again.
#[derive(Debug)]
struct LossLog {
    file: PathBuf,
    counts: Arc<Counts>,
    /// Whether the current loss was logged.
    is_logged: bool,
    /// Limits the log lines about a file that fails and succeeds in turn.
    limit: LogLimit,
}

impl LogFile {
    /// Opens the file of the settings. Standard output and error are used as they are: under
    /// systemd they are sockets, which cannot be opened by their names.
    pub(super) fn open(settings: &DecisionLogSettings, counts: Arc<Counts>) -> io::Result<Self> {
        let path = &settings.file;
        let file = match path.to_str() {
            Some("/dev/stdout") => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Some("/dev/stderr") => io::stderr().as_fd().try_clone_to_owned().map(File::from),
            Some(_) | None => append(path),
        };
        let file = file.map_err(|error| {
            // A missing file would have been created, so this error means a missing folder.
            let has_no_folder = error.kind() == io::ErrorKind::NotFound;
            let why = if has_no_folder { "its folder must exist: " } else { "" };
            io::Error::other(format!("`decision-log-file` {}: {why}{error}", path.display()))
        })?;
        let is_regular = file.metadata()?.is_file();
        Ok(Self {
            file,
            path: (!settings.is_standard_stream()).then(|| path.clone()),
            max_size: settings.max_size.map_or(0, |size| u64::try_from(size).unwrap_or(u64::MAX)),
            keep: settings.keep.max(1),
            is_torn: is_regular && ends_within_a_line(path),
            has_warned: false,
            loss: LossLog {
                file: path.clone(),
                counts,
                is_logged: false,
                limit: LogLimit::default(),
            },
        })
    }

    fn append_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some(path) = self.path.clone() {
            self.follow(&path)?;
            self.rotate(&path, lines.len() as u64)?;
        }
        let was_torn = mem::replace(&mut self.is_torn, true);
        let mut pieces = InPieces::new(&self.file);
        if was_torn {
            pieces.write_all(b"\n")?;
        }
        pieces.write_all(lines)?;
        self.is_torn = false;
        Ok(())
    }

    /// Opens the path again if it names another file now, as after `logrotate`, or another FIFO, as
    /// after a restart of its reader.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let open = self.file.metadata()?;
        let must_open = match fs::metadata(path) {
            Ok(current) => {
                (current.dev(), current.ino()) != (open.dev(), open.ino())
                    && (open.is_file() || current.file_type().is_fifo())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => open.is_file(),
            Err(error) => return Err(error),
        };
        if must_open {
            self.file = append(path)?;
            if open.is_file() {
                self.is_torn = ends_within_a_line(path);
            }
        }
        Ok(())
    }

    /// If `added` bytes would make the file too large, renames it to `….1`, `….1` to `….2` and so
    /// on, and begins a new file. If renaming fails, the same file grows.
    fn rotate(&mut self, path: &Path, added: u64) -> io::Result<()> {
        let file = self.file.metadata()?;
        let is_too_large = self.max_size > 0 && file.len().saturating_add(added) > self.max_size;
        if !is_too_large || file.len() == 0 || !file.is_file() {
            return Ok(());
        }
        for number in (1..self.keep).rev() {
            // Fails for a number that does not exist yet.
            let _ = fs::rename(numbered(path, number), numbered(path, number + 1));
        }
        match fs::rename(path, numbered(path, 1)) {
            Ok(()) => {
                self.has_warned = false;
                self.file = append(path)?;
                self.is_torn = false;
            }
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                let file = path.display();
                tracing::warn!(%file, %error, "the decision log cannot be renamed, and grows");
            }
            Err(_) => {}
        }
        Ok(())
    }
}

impl Write for LogFile {
    /// Writes whole lines, or fails. The first line after a failure begins on a line of its own.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let result = self.append_lines(lines);
        self.loss.log_result(&result);
        result.map(|()| lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LossLog {
    fn log_result(&mut self, result: &io::Result<()>) {
        self.counts.set_failing(result.is_err());
        let file = self.file.display();
        match result {
            Ok(()) if mem::take(&mut self.is_logged) => {
                tracing::warn!(
                    %file,
                    "the decision log is written again, without the lines that were lost"
                );
            }
            Err(error) if !self.is_logged && self.limit.admit() => {
                self.is_logged = true;
                tracing::warn!(
                    %file, %error,
                    "the decision log cannot be written: its lines are lost"
                );
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn numbered(path: &Path, number: u16) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{number}"));
    name.into()
}

/// Whether a file ends within a line, as after a full disk. False if it cannot be read.
fn ends_within_a_line(path: &Path) -> bool {
    let mut byte = [b'\n'];
    let Ok(file) = File::open(path) else { return false };
    let last = file.metadata().ok().and_then(|metadata| metadata.len().checked_sub(1));
    last.is_some_and(|last| file.read_exact_at(&mut byte, last).is_ok() && byte != *b"\n")
}

/// Opens a file without waiting. Otherwise, opening a FIFO that nobody reads would block the
/// calling thread: at the start inside Envoy, that is its main thread. Writing may block, but only
/// the thread that writes.
fn append(path: &Path) -> io::Result<File> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(nonblock).open(path);
    let file = file.map_err(|error| {
        // Opening a socket gives the same error.
        let is_unread = error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
            && fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        if is_unread { io::Error::new(error.kind(), "nobody reads this FIFO") } else { error }
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the file is what is tested")]
mod tests;
