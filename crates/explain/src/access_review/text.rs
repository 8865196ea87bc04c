//! A review as text for people.

use std::fmt::{Display, Formatter, Result};

use super::{AccessReport, AccessRow, Kind, LogSummary, Status, UnknownRule, UsageCounts};
use crate::one_line::{OneLine, write_lines};

impl Display for AccessReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "period:  {}\nlines:   {}", self.log.period(), self.log)?;
        write!(f, "\npolicy:  {}", self.policy)?;
        write_lines(f, "note:    ", &self.notes)?;
        for (heading, rows) in [("not used:", &self.unused), ("used:", &self.used)] {
            if !rows.is_empty() {
                write!(f, "\n\n{heading}")?;
            }
            for row in rows {
                write_lines(f, "  ", [row])?;
                if row.who.is_empty() {
                    f.write_str("\n      nobody")?;
                }
                write_lines(f, "      ", &row.who)?;
            }
        }
        for (heading, rows) in [
            ("rules that the policy does not have:", &self.not_in_policy),
            ("roles in tokens on the search cluster:", &self.cluster_roles),
        ] {
            if !rows.is_empty() {
                write!(f, "\n\n{heading}")?;
            }
            write_lines(f, "  ", rows)?;
        }
        Ok(())
    }
}

impl LogSummary {
    /// The first and the last time.
    pub(super) fn period(&self) -> String {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ => "not known: no line has a time".to_owned(),
        }
    }
}

impl Display for LogSummary {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { lines, allowed, before, unreadable, .. } = self;
        write!(f, "{lines}, of which {allowed} allow a request")?;
        for (count, label) in [(before, "before the period"), (unreadable, "that are no decisions")]
        {
            if *count > 0 {
                write!(f, "; not counted: {count} {label}")?;
            }
        }
        Ok(())
    }
}

impl AccessRow {
    /// The grant or the rule, without its place.
    pub(super) fn what(&self) -> String {
        let Self { kind, role, name, .. } = self;
        match kind {
            Kind::Grant => format!("`{role}` to {}", quoted(name)),
            Kind::Rule => format!("`{role}: {name}`"),
        }
    }

    pub(super) const fn kind_text(&self) -> &'static str {
        match self.kind {
            Kind::Grant => "grant",
            Kind::Rule => "rule",
        }
    }
}

/// ``user `ann` ``; other grantees as they are.
fn quoted(grantee: &str) -> String {
    match grantee.split_once(' ') {
        Some((kind @ ("user" | "group"), name)) => format!("the {kind} `{name}`"),
        _ => grantee.to_owned(),
    }
}

impl Display for AccessRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} ({})", self.kind_text(), self.what(), self.at)?;
        match self.status {
            Status::Unused => Ok(()),
            Status::Used => write!(f, ": {}", self.usage),
            Status::NotInSample | Status::NotSeenMasked => write!(f, ": {}", self.status.text()),
        }
    }
}

impl Display for UnknownRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "`{}`: {}", self.name, self.usage)
    }
}

impl Display for UsageCounts {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let times = if self.uses == 1 { "time" } else { "times" };
        let callers = if self.callers == 1 { "caller" } else { "callers" };
        write!(f, "{} {times} by {} {callers}", self.uses_text(), self.callers_text())?;
        self.last_used.as_ref().map_or(Ok(()), |last| write!(f, ", last {}", OneLine(last)))
    }
}

impl UsageCounts {
    pub(super) fn uses_text(&self) -> String {
        let about = if self.is_estimated { "about " } else { "" };
        format!("{about}{}", self.uses)
    }

    pub(super) fn callers_text(&self) -> String {
        let more = if self.has_more_callers { " or more" } else { "" };
        format!("{}{more}", self.callers)
    }
}
