//! The table of attacks.

use std::time::Duration;

use load::report::units;

use super::honest::Window;
use crate::records::Record;
use crate::spread::Spread;
use load::report::document::{Part, table};

/// The results of one attack.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Resident memory in bytes: before, maximum, and after.
    pub(crate) memory: [u64; 3],
    pub(crate) rounds: Vec<Round>,
    /// Whether the server process ended by itself.
    pub(crate) ended: bool,
}

/// The results of one round.
pub(crate) struct Round {
    pub(crate) usual: Window,
    /// Resident memory in bytes before the attack.
    pub(crate) before: u64,
    pub(crate) beside: Window,
    /// The time from the end of the attack; `None` if the server did not recover in time.
    pub(crate) recovery: Option<Duration>,
    /// How far the attacker came.
    pub(crate) note: String,
}

const COLUMNS: [&str; 9] = [
    "attack",
    "MiB before / at most / after",
    "p50 µs without / during",
    "p99 µs without / during",
    "p99 ratio",
    "errors",
    "wrong",
    "recovery s",
    "attack progress (last round)",
];

impl Row {
    fn cells(&self) -> Vec<String> {
        let memory = self.memory.map(mib).join(" / ");
        let pair = |of: fn(&Window) -> f64| {
            let (usual, beside) =
                (self.spread(|round| of(&round.usual)), self.spread(|round| of(&round.beside)));
            format!("{:.0} / {:.0}", usual.median, beside.median)
        };
        let ratio = self.ratio();
        let ratio = format!("{:.1} ({:.1} to {:.1})", ratio.median, ratio.low, ratio.high);
        let sum = |of: fn(&Window) -> u64| {
            self.rounds.iter().map(|round| of(&round.beside)).sum::<u64>().to_string()
        };
        let slowest = self.rounds.iter().map(|round| round.recovery.unwrap_or(Duration::MAX)).max();
        let recovery = slowest.filter(|slowest| *slowest < Duration::MAX);
        let recovery = recovery.map_or("not seen".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
        let note = self.rounds.last().map_or("", |round| round.note.as_str());
        let ended = if self.ended { "THE SERVER ENDED; " } else { "" };
        vec![
            self.name.to_owned(),
            memory,
            pair(|window| window.p50),
            pair(|window| window.p99),
            ratio,
            sum(|window| window.errors),
            sum(|window| window.wrong),
            recovery,
            format!("{ended}{note}"),
        ]
    }

    /// The ratio of the p99 as a record.
    pub(crate) fn record(&self) -> Option<Record> {
        let ratios: Vec<f64> = self.rounds.iter().map(|round| round.beside.p99 / round.usual.p99).collect();
        Record::of_rounds(&format!("attack/{}/p99 ratio", self.name), "ratio", &ratios)
    }

    fn ratio(&self) -> Spread {
        self.spread(|round| round.beside.p99 / round.usual.p99)
    }

    /// There is at least one round.
    fn spread(&self, of: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(of)).unwrap()
    }
}

/// The table.
pub(crate) fn tabled(rows: &[Row]) -> Part {
    table(&COLUMNS, rows.iter().map(Row::cells).collect())
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1}", units::float(bytes) / 1_048_576.0)
}
