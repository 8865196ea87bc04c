//! The table of attacks, as text and as Markdown.

use std::time::Duration;

use crate::honest::Window;

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

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
    "p50 µs usual / beside",
    "p99 µs usual / beside",
    "p99 ratio",
    "errors",
    "wrong",
    "recovery s",
    "how far it came (last round)",
];

impl Row {
    fn cells(&self) -> [String; 9] {
        let memory = self.memory.map(mib).join(" / ");
        let pair = |of: fn(&Window) -> f64| {
            let (usual, beside) =
                (self.sorted(|round| of(&round.usual)), self.sorted(|round| of(&round.beside)));
            format!("{:.0} / {:.0}", median(&usual), median(&beside))
        };
        let ratios = self.sorted(|round| round.beside.p99 / round.usual.p99);
        let ratio = format!("{:.1} ({:.1} to {:.1})", median(&ratios), ratios[0], ratios[ratios.len() - 1]);
        let sum = |of: fn(&Window) -> u64| {
            self.rounds.iter().map(|round| of(&round.beside)).sum::<u64>().to_string()
        };
        let slowest = self.rounds.iter().map(|round| round.recovery.unwrap_or(Duration::MAX)).max();
        let recovery = slowest.filter(|slowest| *slowest < Duration::MAX);
        let recovery = recovery.map_or("not seen".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
        let note = self.rounds.last().map_or("", |round| round.note.as_str());
        let ended = if self.ended { "THE SERVER ENDED; " } else { "" };
        [
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

    fn sorted(&self, of: impl Fn(&Round) -> f64) -> Vec<f64> {
        let mut all: Vec<f64> = self.rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// The table as text with aligned columns.
pub(crate) fn text(rows: &[Row]) -> String {
    let lines: Vec<[String; 9]> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let padded = |line: &[String; 9]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(padded).collect()
}

/// The table as Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&COLUMNS.map(str::to_owned)) + &format!("{}|\n", "|---".repeat(COLUMNS.len()));
    head + &rows.iter().map(|row| line(&row.cells())).collect::<String>()
}

/// The median of sorted values, of which there is at least one.
fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}
