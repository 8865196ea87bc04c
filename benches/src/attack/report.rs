//! The table of attacks.

use std::time::Duration;

use load::report::units;

use super::honest::{Newcomers, Window};
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
    /// New connections during the attack.
    pub(crate) newcomers: Newcomers,
    /// The time from the end of the attack; `None` if the server did not recover in time.
    pub(crate) recovery: Option<Duration>,
    /// How far the attacker came.
    pub(crate) note: String,
}

/// The name of the first row: the same windows without an attack, which shows by how much the
/// machine itself varies.
pub(crate) const CONTROL: &str = "no attack";
/// By how much the memory may grow, in bytes.
const MAX_GROWTH: u64 = 64 << 20;
/// The most that the p99 during an attack may be, as a multiple of that without.
const MAX_RATIO: f64 = 5.0;
/// How long the recovery may take: a second, to a tenth, as the table has it. Windows begin every
/// half second, and a little later each.
const MAX_RECOVERY: Duration = Duration::from_millis(1049);

const COLUMNS: [&str; 11] = [
    "attack",
    "MiB before / at most / after",
    "p50 µs without / during",
    "p99 µs without / during",
    "p99 ratio",
    "errors",
    "wrong",
    "new connections: slowest ms, failed",
    "recovery s",
    "bounds",
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
        let recovery =
            recovery.map_or("not seen".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
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
            self.newcomers(),
            recovery,
            self.bounds(),
            format!("{ended}{note}"),
        ]
    }

    /// The ratio of the p99, the recovery and the growth of the memory as records. A recovery that
    /// was not seen is left out.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        let ratios = self.rounds.iter().map(|round| round.beside.p99 / round.usual.p99).collect();
        let recovery = |round: &Round| Some(round.recovery?.as_secs_f64());
        let recoveries = self.rounds.iter().filter_map(recovery).collect();
        let growth = vec![units::float(self.growth()) / MIB];
        let all: [(_, _, Vec<f64>); 3] = [
            ("p99 ratio", "ratio", ratios),
            ("recovery", "s", recoveries),
            ("memory growth", "MiB", growth),
        ];
        all.into_iter().filter_map(|(what, unit, values)| {
            Record::of_rounds(&format!("attack/{}/{what}", self.name), unit, &values)
        })
    }

    /// The slowest of all rounds, and the failed ones together.
    fn newcomers(&self) -> String {
        let all = || self.rounds.iter().map(|round| round.newcomers);
        let slowest = all().map(|new| new.slowest).max().unwrap_or_default();
        let failed: u64 = all().map(|new| new.failed).sum();
        format!("{:.0}, {failed}", slowest.as_secs_f64() * 1e3)
    }

    /// By how much the memory grew, in bytes.
    fn growth(&self) -> u64 {
        let [before, most, _] = self.memory;
        most.saturating_sub(before)
    }

    /// The bounds that were missed.
    fn missed(&self) -> Vec<&'static str> {
        let wrong = |round: &Round| round.beside.wrong > 0;
        let slow = |round: &Round| round.recovery.is_none_or(|time| time > MAX_RECOVERY);
        let bounds = [
            ("it ended", self.ended),
            ("memory", self.growth() > MAX_GROWTH),
            ("p99", self.ratio().median > MAX_RATIO),
            ("recovery", self.rounds.iter().any(slow)),
            ("wrong answers", self.rounds.iter().any(wrong)),
        ];
        bounds.into_iter().filter(|(_, missed)| *missed).map(|(name, _)| name).collect()
    }

    fn bounds(&self) -> String {
        let missed = self.missed();
        if missed.is_empty() { "met".to_owned() } else { format!("MISSED: {}", missed.join(", ")) }
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

/// Which attacks met all bounds, and which did not.
pub(crate) fn summary(rows: &[Row]) -> Part {
    let attacks = || rows.iter().filter(|row| row.name != CONTROL);
    let missed: Vec<String> = attacks()
        .filter(|row| !row.missed().is_empty())
        .map(|row| format!("{} ({})", row.name, row.missed().join(", ")))
        .collect();
    let met = attacks().count() - missed.len();
    let misses =
        if missed.is_empty() { String::new() } else { format!(" Missed: {}.", missed.join("; ")) };
    Part::Text(format!(
        "Bounds: the process goes on, its memory grows by at most 64 MiB, the p99 is at most 5 × that without the attack (the \
         median of the rounds), recovered within 1 s (each round), and no wrong answer. {met} of {} attacks met all.{misses}",
        attacks().count()
    ))
}

const MIB: f64 = 1_048_576.0;

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1}", units::float(bytes) / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(p99: f64, recovery: Option<u64>) -> Round {
        let window = |p99| Window { p50: 1.0, p99, errors: 0, wrong: 0 };
        let recovery = recovery.map(Duration::from_millis);
        Round {
            usual: window(1.0),
            before: 0,
            beside: window(p99),
            newcomers: Newcomers::default(),
            recovery,
            note: String::new(),
        }
    }

    fn row(growth: u64, rounds: Vec<Round>) -> Row {
        Row { name: "flood", memory: [10, 10 + growth, 10], rounds, ended: false }
    }

    #[test]
    fn a_missed_bound_is_named() {
        let good = || round(5.0, Some(1000));
        assert_eq!(row(MAX_GROWTH, vec![good()]).bounds(), "met");
        // One slow round does not miss the median, but one late recovery is late.
        assert_eq!(row(0, vec![good(), good(), round(99.0, Some(500))]).bounds(), "met");
        let bad = row(MAX_GROWTH + 1, vec![round(5.1, None)]);
        assert_eq!(bad.bounds(), "MISSED: memory, p99, recovery");
        let Part::Text(text) = summary(&[bad, row(0, vec![good()])]) else { panic!("a text") };
        assert!(
            text.ends_with("1 of 2 attacks met all. Missed: flood (memory, p99, recovery)."),
            "{text}"
        );
    }

    #[test]
    fn the_control_is_no_attack() {
        let control = Row { name: CONTROL, ..row(0, vec![round(9.0, None)]) };
        let Part::Text(text) = summary(&[control, row(0, vec![round(1.0, Some(0))])]) else {
            panic!("a text")
        };
        assert!(text.ends_with("1 of 1 attacks met all."), "{text}");
    }

    #[test]
    fn each_figure_is_a_record() {
        let names: Vec<_> =
            row(1 << 20, vec![round(2.0, Some(500))]).records().map(|record| record.name).collect();
        assert_eq!(
            names,
            ["p99 ratio", "recovery", "memory growth"].map(|what| format!("attack/flood/{what}"))
        );
        assert_eq!(row(0, vec![round(2.0, None)]).records().count(), 2);
    }
}
