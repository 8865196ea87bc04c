//! A value over several rounds.

use load::report::units;

/// The median of several values, and their ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// The spread of these values; `None` if there are none. For an even number, the median is the
    /// mean of the middle two.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let upper = values.get(values.len() / 2)?;
        let lower = values.get((values.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(*lower, *upper), low, high })
    }

    /// Applies a function to all three.
    pub(crate) fn map(self, with: impl Fn(f64) -> f64) -> Self {
        Self { median: with(self.median), low: with(self.low), high: with(self.high) }
    }

    /// The median, and in brackets the lowest and the highest.
    pub(crate) fn shown(self, with: impl Fn(f64) -> String) -> String {
        format!("{} ({}–{})", with(self.median), with(self.low), with(self.high))
    }
}

/// A spread of nanoseconds in microseconds, without the unit.
pub(crate) fn micro_spread(of: Option<Spread>) -> String {
    of.map_or_else(dash, |spread| spread.shown(|value| units::microseconds(Some(value))))
}

/// In place of a value that there is not.
pub(crate) fn dash() -> String {
    "–".to_owned()
}

/// The 95 % confidence interval of the median; `None` for fewer than six values. It holds for any
/// distribution, because each value is above or below the median with equal probability (the sign
/// test).
pub(crate) fn median_within(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all = units::float(sorted.len() as u64);
    // The probability that at most this many values are on one side.
    let (mut chance, mut at_most) = (0.5_f64.powf(all), 0.0);
    let mut within = None;
    for (left_out, (low, high)) in sorted.iter().zip(sorted.iter().rev()).enumerate() {
        at_most += chance;
        if at_most > 0.025 {
            break;
        }
        within = Some((*low, *high));
        let left_out = units::float(left_out as u64);
        chance *= (all - left_out) / (left_out + 1.0);
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_middle_and_both_ends() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
    }

    #[test]
    fn a_median_is_as_sure_as_its_rounds_make_it() {
        let values = |many: u32| (1..=many).map(f64::from).collect::<Vec<_>>();
        // From tables of the binomial distribution: the probability of at most this many heads
        // among n coins is at most 2.5 %.
        for (many, within) in [
            (0, None),
            (5, None),
            (6, Some((1.0, 6.0))),
            (9, Some((2.0, 8.0))),
            (10, Some((2.0, 9.0))),
        ] {
            assert_eq!(median_within(&values(many)), within, "{many}");
        }
        assert_eq!(median_within(&values(24)), Some((7.0, 18.0)));
        assert_eq!(median_within(&values(100)), Some((40.0, 61.0)));
        let mut upside_down = values(10);
        upside_down.reverse();
        assert_eq!(median_within(&upside_down), Some((2.0, 9.0)));
    }
}
