//! Reads a decision log line by line. Lines that are not decisions are counted. Or one line of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
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
    /// The bytes of the last line.
    size: usize,
}

/// What `explain --decision` is given.
pub(super) enum OneOrMore {
    One(Box<LoggedDecision>),
    More(DecisionLines),
}

impl OneOrMore {
    /// Reads the beginning of a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read or is empty, or its only line is not a decision.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let DecisionLines { mut from, shown, .. } = DecisionLines::open(path)?;
        let mut start = Vec::new();
        let read = from.by_ref().take(LONGEST).read_to_end(&mut start);
        read.map_err(|error| format!("cannot read `{shown}`: {error}"))?;
        let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut lines = lines.by_ref().filter(|line| !line.is_empty());
        match (lines.next(), lines.next()) {
            (None, _) => Err(format!("`{shown}` is empty: give a line of the decision log, or more")),
            (Some(_), Some(_)) => {
                Ok(Self::More(DecisionLines::new(Box::new(Cursor::new(start).chain(from)), shown)))
            }
            (Some(line), None) if !line.starts_with(b"{") => Err(format!(
                "`{shown}` is not a line of rolegate's decision log, which is a JSON object: is it one of Envoy's access log?"
            )),
            (Some(line), None) => serde_json::from_slice(line)
                .map(|decision| Self::One(Box::new(decision)))
                .map_err(|error| format!("`{shown}` is not a line of rolegate's decision log: {error}")),
        }
    }
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
        Ok(Self::new(from, shown))
    }

    fn new(from: Box<dyn BufRead>, shown: String) -> Self {
        Self { from, shown, number: 0, unreadable: 0, first_unreadable: Vec::new(), size: 0 }
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
            self.size = line.len();
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

    /// The bytes of the line that was read last.
    pub(super) const fn size(&self) -> usize {
        self.size
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
