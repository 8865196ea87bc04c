//! The file of the decision log: it is renamed at a size, and opened again after something else has renamed it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::loss::{Reported, WholeLines};
use super::settings::DecisionLogSettings;
use crate::lines::{Counts, InPieces};

/// Opens what decisions are written to. Standard output and error are used as they are: under systemd they are sockets,
/// which cannot be opened by their names.
///
/// # Errors
/// When the file cannot be opened.
pub(super) fn open(settings: &DecisionLogSettings, counts: Arc<Counts>) -> io::Result<Box<dyn Write + Send>> {
    let name = settings.file.display().to_string();
    Ok(Box::new(Reported::new(open_unreported(settings)?, name, counts)))
}

fn open_unreported(settings: &DecisionLogSettings) -> io::Result<Box<dyn Write + Send>> {
    let path = &settings.file;
    Ok(match path.to_str() {
        Some("/dev/stdout") => Box::new(WholeLines::new(InPieces::new(io::stdout()), false)),
        Some("/dev/stderr") => Box::new(WholeLines::new(InPieces::new(io::stderr()), false)),
        Some(_) | None => {
            let named = |error: io::Error| {
                // A file that does not exist would have been created.
                let is_homeless = error.kind() == io::ErrorKind::NotFound;
                let why = if is_homeless { "its folder must exist: " } else { "" };
                io::Error::other(format!("`decision-log-file` {}: {why}{error}", path.display()))
            };
            let file = append(path).map_err(named)?;
            let is_regular = file.metadata().map_err(named)?.is_file();
            if !is_regular {
                let pipe = Pipe { path: path.clone(), file };
                return Ok(Box::new(WholeLines::new(InPieces::new(pipe), false)));
            }
            let max_size = settings.max_size.map_or(0, |size| u64::try_from(size).unwrap_or(u64::MAX));
            let (path, torn) = (path.clone(), ends_within_a_line(path));
            Box::new(LogFile { path, file, max_size, keep: settings.keep.max(1), torn, warned: false })
        }
    })
}

/// A regular file that lines are appended to.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    /// 0 means no limit.
    max_size: u64,
    keep: u16,
    /// Whether the file may end within a line.
    torn: bool,
    /// Whether a failed rename was logged.
    warned: bool,
}

/// A FIFO, or a device.
#[derive(Debug)]
struct Pipe {
    path: PathBuf,
    file: File,
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Write for Pipe {
    /// Nothing was written where the reader has gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.follow().unwrap_or(false) => {
                self.file.write(bytes)
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Pipe {
    /// Opens the path again if its reader has made another FIFO there. Returns whether it has.
    fn follow(&mut self) -> io::Result<bool> {
        let (own, there) = (self.file.metadata()?, fs::metadata(&self.path)?);
        let is_new = there.file_type().is_fifo() && !is_same(&there, &own);
        if is_new {
            self.file = append(&self.path)?;
        }
        Ok(is_new)
    }
}

impl Write for LogFile {
    /// Writes whole lines, all or none. If the disk is full, the next line begins on a line of its own.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let size = self.follow()?;
        if self.max_size > 0 && size > 0 && size.saturating_add(lines.len() as u64) > self.max_size {
            self.rotate()?;
        }
        if self.torn {
            self.file.write_all(b"\n")?;
        }
        self.torn = true;
        self.file.write_all(lines)?;
        self.torn = false;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogFile {
    /// Opens the path again if it is another file now, such as after `logrotate`. Returns the size of the file. One system
    /// call for each batch of lines.
    fn follow(&mut self) -> io::Result<u64> {
        let own = self.file.metadata()?;
        let is_same = match fs::metadata(&self.path) {
            Ok(there) => is_same(&there, &own),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if is_same {
            return Ok(own.len());
        }
        self.file = append(&self.path)?;
        self.torn = ends_within_a_line(&self.path);
        Ok(self.file.metadata()?.len())
    }

    /// Renames the file to `….1`, that to `….2` and so on, and begins a new one. If that fails, lines go on being written to
    /// the same file.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.keep).rev() {
            // The first ones do not exist yet.
            let _ = fs::rename(self.numbered(number), self.numbered(number + 1));
        }
        match fs::rename(&self.path, self.numbered(1)) {
            Ok(()) => {
                self.warned = false;
                self.file = append(&self.path)?;
                self.torn = false;
            }
            Err(error) if !self.warned => {
                self.warned = true;
                tracing::warn!(file = %self.path.display(), %error, "the decision log cannot be renamed, and grows");
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn numbered(&self, number: u16) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Who may read a new file: its lines have users and what they asked for. A file that is there keeps its mode.
const MODE: u32 = 0o640;

/// Whether a file ends within a line: another process has filled the disk. If it cannot be read, it counts as whole.
fn ends_within_a_line(path: &Path) -> bool {
    let last = || {
        let file = File::open(path)?;
        let mut byte = [b'\n'];
        if let Some(last) = file.metadata()?.len().checked_sub(1) {
            file.read_exact_at(&mut byte, last)?;
        }
        io::Result::Ok(byte)
    };
    last().is_ok_and(|byte| byte != *b"\n")
}

/// Opens a file without waiting: opening a FIFO that nobody reads would otherwise block, and with it Envoy's main thread, until
/// somebody does. Writing to it may block, on the thread that writes.
fn append(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(at_once).open(path);
    let file = file.map_err(|error| {
        // A socket gives the same error.
        let is_unread = error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
            && fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
        if is_unread { io::Error::new(error.kind(), "nobody reads this FIFO") } else { error }
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the file is what is tested")]
mod tests;
