//! Input of commands: files, and standard input, which the path `-` names.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum size of a configuration or a body, in bytes: more than Envoy buffers for an
/// authorization request.
const MAX_SIZE: u64 = 64 << 20;
/// Maximum size of a line with a secret, in bytes: endless input must not take all memory.
const MAX_LINE: u64 = 64 << 10;

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}

/// Reads a file, or standard input for `-`. Larger input is an error: the bytes after the limit
/// could be a rule that denies.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_SIZE >> 20)));
    }
    Ok(bytes)
}

/// Reads the first line of standard input, without its line ending.
pub(super) fn read_line() -> io::Result<String> {
    let mut line = String::new();
    let size = io::stdin().lock().take(MAX_LINE).read_line(&mut line)?;
    if u64::try_from(size).is_ok_and(|size| size >= MAX_LINE) {
        return Err(io::Error::other("the line is longer than 64 KiB"));
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}
