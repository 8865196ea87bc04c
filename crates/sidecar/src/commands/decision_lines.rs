//! Reads a decision log line by line. Lines that are not decisions are counted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::logged::LoggedDecision;

/// Maximum bytes of a line: more than the longest has.
const LONGEST: u64 = 1 << 20;
/// The maximum number of lines that are named for one reason.
pub(super) const MAX_NAMED: usize = 8;

/// The lines of a decision log.
pub(super) struct DecisionLines {
    from: Box<dyn BufRead>,
    shown: String,
    number: u64,
    unreadable: u64,
    first_unreadable: Vec<u64>,
}

impl DecisionLines {
    /// Opens a log; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display().to_string();
        let from: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self { from, shown, number: 0, unreadable: 0, first_unreadable: Vec::new() })
    }

    /// The next decision with the number of its line.
    pub(super) fn next_decision(&mut self) -> Option<Result<(u64, LoggedDecision), String>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(error) => return Some(Err(format!("cannot read `{}`: {error}", self.shown))),
            }
            let is_whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
            if !is_whole && let Err(error) = self.from.skip_until(b'\n') {
                return Some(Err(format!("cannot read `{}`: {error}", self.shown)));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(decision) if is_whole => return Some(Ok((self.number, decision))),
                Ok(_) | Err(_) => {
                    self.unreadable += 1;
                    if self.first_unreadable.len() < MAX_NAMED {
                        self.first_unreadable.push(self.number);
                    }
                }
            }
        }
    }

    /// How many lines are not decisions.
    pub(super) const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The numbers of the first of them.
    pub(super) fn first_unreadable(&self) -> &[u64] {
        &self.first_unreadable
    }
}
