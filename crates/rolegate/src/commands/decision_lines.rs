//! Reads a decision log line by line. Lines that are not decisions are counted.

use std::fmt;
use std::io::{self, BufRead, Cursor, Read};
use std::path::Path;

use serde::Serialize;

use super::input;
use super::logged::LoggedDecision;
use crate::error::CommandError;

/// Maximum size of a line, in bytes: no decision has a longer line.
const MAX_LINE: u64 = 1 << 20;
/// Maximum number of line numbers in [`LineNumbers`].
const MAX_LISTED: usize = 8;

/// The lines of a decision log.
pub(super) struct DecisionLines {
    source: Box<dyn BufRead>,
    path: String,
    number: u64,
    /// The size in bytes of the line that was read last.
    pub(super) line_size: usize,
    /// The lines that are not decisions.
    pub(super) unreadable: LineNumbers,
}

/// How many lines, and the numbers of the first of them.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct LineNumbers {
    pub(super) count: u64,
    pub(super) first_lines: Vec<u64>,
}

impl LineNumbers {
    pub(super) fn add(&mut self, line: u64) {
        self.count += 1;
        if self.first_lines.len() < MAX_LISTED {
            self.first_lines.push(line);
        }
    }
}

impl fmt::Display for LineNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.first_lines.iter().map(ToString::to_string).collect();
        let more = if self.count > lines.len() as u64 { ", …" } else { "" };
        write!(f, "line {}{more}", lines.join(", "))
    }
}

/// The file that `explain --decision` names: a single line, or a log of several lines.
pub(super) enum DecisionFile {
    Line(Box<LoggedDecision>),
    Log(DecisionLines),
}

impl DecisionFile {
    /// Reads the beginning of a file; `-` is standard input. Fails if the only line is no decision.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let mut lines = DecisionLines::open(path)?;
        let mut start = Vec::new();
        let read = lines.source.by_ref().take(MAX_LINE).read_to_end(&mut start);
        read.map_err(|error| cannot_read(&lines.path, &error))?;
        let mut non_empty = start
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        let path = &lines.path;
        let problem = match (non_empty.next(), non_empty.next()) {
            (None, _) => format!("`{path}` is empty: give a line of the decision log, or more"),
            (Some(_), Some(_)) => {
                lines.source = Box::new(Cursor::new(start).chain(lines.source));
                return Ok(Self::Log(lines));
            }
            (Some(line), None) if !line.starts_with(b"{") => format!(
                "`{path}` is not a line of rolegate's decision log, which is a JSON object: is it \
                 a line of Envoy's access log?"
            ),
            (Some(line), None) => match serde_json::from_slice(line) {
                Ok(decision) => return Ok(Self::Line(Box::new(decision))),
                Err(error) => format!("`{path}` is not a line of rolegate's decision log: {error}"),
            },
        };
        Err(CommandError::Arguments(problem))
    }
}

impl DecisionLines {
    /// Opens a log; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let name = path.display().to_string();
        let source = input::open(path).map_err(|error| cannot_read(&name, &error))?;
        Ok(Self { source, path: name, number: 0, line_size: 0, unreadable: LineNumbers::default() })
    }

    /// The next decision with the number of its line; `None` at the end of the log.
    pub(super) fn next_decision(&mut self) -> Result<Option<(u64, LoggedDecision)>, CommandError> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = self.source.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| cannot_read(&self.path, &error))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let is_whole = line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE;
            if !is_whole {
                self.source.skip_until(b'\n').map_err(|error| cannot_read(&self.path, &error))?;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.line_size = line.len();
            match serde_json::from_slice(&line) {
                Ok(decision) if is_whole => return Ok(Some((self.number, decision))),
                Ok(_) | Err(_) => self.unreadable.add(self.number),
            }
        }
    }
}

fn cannot_read(path: &str, error: &io::Error) -> CommandError {
    CommandError::arguments(format_args!("cannot read `{path}`: {error}"))
}
