//! Whether a goal of `benches/README.md` was reached.

use std::fmt;

use crate::spread::{Spread, median_within};
use load::report::document::{Part, table};

/// One goal with its measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Its id in the table of goals.
    pub(crate) goal: &'static str,
    /// What was measured.
    pub(crate) what: String,
    pub(crate) limit: Limit,
    /// The measurement with its spread; `None` if this run did not make it.
    pub(crate) measured: Option<String>,
    /// The measured value over the rounds, if there were several.
    pub(crate) spread: Option<Spread>,
    /// Whether it was reached; `None` if that cannot be said.
    pub(crate) reached: Option<bool>,
}

/// The required value, with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtLeast(f64, &'static str),
    AtMost(f64, &'static str),
}

impl Limit {
    /// The unit, without the space before it.
    pub(crate) fn unit(self) -> &'static str {
        let (Self::AtLeast(_, unit) | Self::AtMost(_, unit)) = self;
        if unit == " ×" { "ratio" } else { unit.trim() }
    }

    fn allows(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least, _) => value >= least,
            Self::AtMost(most, _) => value <= most,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least, unit) => write!(f, "≥ {least}{unit}"),
            Self::AtMost(most, unit) => write!(f, "≤ {most}{unit}"),
        }
    }
}

impl Verdict {
    /// The verdict on this value, which is shown so; without one, nothing is said.
    pub(crate) fn new(
        goal: &'static str,
        what: impl Into<String>,
        limit: Limit,
        measured: Option<(f64, String)>,
    ) -> Self {
        let reached = measured.as_ref().map(|(value, _)| limit.allows(*value));
        Self {
            goal,
            what: what.into(),
            limit,
            measured: measured.map(|(_, shown)| shown),
            spread: None,
            reached,
        }
    }

    /// The verdict on the median of these ratios, shown with its 95 % confidence interval and the
    /// lowest and the highest; `None` without any.
    pub(crate) fn of_ratios(
        goal: &'static str,
        what: String,
        ratios: &[f64],
        limit: Limit,
    ) -> Option<Self> {
        let sure = median_within(ratios).map(|(low, high)| format!(" [{low:.3}–{high:.3}]"));
        let spread = Spread::of(ratios.iter().copied())?;
        let Spread { median, low, high } = spread;
        let measured = format!("{median:.3} ×{} ({low:.3}–{high:.3})", sure.unwrap_or_default());
        Some(Self {
            spread: Some(spread),
            ..Self::new(goal, what, limit, Some((median, measured)))
        })
    }

    /// The result in words.
    pub(crate) fn words(&self) -> &'static str {
        match self.reached {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => "–",
        }
    }
}

/// The verdicts as a table.
pub(crate) fn tabled(verdicts: &[Verdict]) -> Part {
    let row = |verdict: &Verdict| {
        let measured = verdict.measured.as_deref().unwrap_or("not measured in this run");
        vec![
            format!("{} {}", verdict.goal, verdict.what),
            measured.to_owned(),
            verdict.limit.to_string(),
            verdict.words().to_owned(),
        ]
    };
    table(&["goal", "measured", "asked for", "verdict"], verdicts.iter().map(row).collect())
}
