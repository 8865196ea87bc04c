//! The sources of the values of variables.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::dice::Dice;

/// A variable of a workload.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name, as in `${name}`.
    pub name: String,
    /// The source of its values.
    pub values: Values,
}

/// A source of values.
#[derive(Clone, Debug)]
pub enum Values {
    /// Consecutive numbers.
    Sequence {
        /// The first number.
        from: i64,
        /// The difference between two numbers.
        step: i64,
    },
    /// A random number of a range.
    Range {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// A random UUID (RFC 9562, version 4).
    Uuid,
    /// The current time.
    Now(Format),
    /// A random one of these texts.
    Lines(Arc<[String]>),
}

/// The format of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `2026-01-31T12:00:00Z` (RFC 3339).
    Rfc3339,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
}

impl Values {
    /// The next value. For a sequence, this is its first number: its position is kept elsewhere, because the threads
    /// share it.
    pub(super) fn value(&self, dice: &mut Dice) -> String {
        match self {
            Self::Sequence { from, .. } => from.to_string(),
            Self::Range { min, max } => {
                let width = max.abs_diff(*min).saturating_add(1);
                min.wrapping_add_unsigned(dice.below(width)).to_string()
            }
            Self::Uuid => uuid(dice.next(), dice.next()),
            Self::Now(format) => format.write(now()),
            Self::Lines(lines) => {
                let at = usize::try_from(dice.below(lines.len() as u64)).unwrap_or_default();
                lines.get(at).cloned().unwrap_or_default()
            }
        }
    }
}

fn uuid(high: u64, low: u64) -> String {
    let bits = (u128::from(high) << 64) | u128::from(low);
    let marked = (bits & !(0xF << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let part = |from: u32, digits: u32| (marked >> from) & ((1 << (4 * digits)) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    )
}

#[expect(clippy::disallowed_methods, reason = "this crate does I/O: a request may carry the time")]
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis())
}

impl Format {
    fn write(self, milliseconds: u128) -> String {
        let seconds = milliseconds / 1000;
        match self {
            Self::Unix => seconds.to_string(),
            Self::UnixMs => milliseconds.to_string(),
            Self::Rfc3339 => {
                let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or_default());
                let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
            }
        }
    }
}

/// The date this many days after 1970-01-01. Years are counted from March, so that a leap day comes last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_written_as_asked() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(Format::Rfc3339.write(seconds * 1000 + 999), text);
        }
        assert_eq!(Format::Unix.write(1500), "1");
        assert_eq!(Format::UnixMs.write(1500), "1500");
    }

    #[test]
    fn a_uuid_says_which_version_it_is() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn a_range_has_both_its_ends() {
        let mut dice = Dice::new(1);
        let range = Values::Range { min: -1, max: 1 };
        let seen: std::collections::BTreeSet<_> = (0..100).map(|_| range.value(&mut dice)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["-1", "0", "1"]);
    }
}
