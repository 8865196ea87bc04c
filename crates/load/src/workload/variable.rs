//! The sources of the values of variables.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use serde::Deserialize;

use crate::report::rfc3339;

/// A variable of a workload.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name, as in `${name}`.
    pub name: String,
    /// The source of its values.
    pub values: Values,
}

/// A source of values, as a workload file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Values {
    /// Consecutive numbers.
    Sequence {
        /// The first number.
        #[serde(default = "one")]
        from: i64,
        /// The difference between two numbers.
        #[serde(default = "one")]
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
    /// A random line of this file. [`Workload::read`](super::Workload::read) reads it.
    File(PathBuf),
    /// A random text of these.
    List(Vec<String>),
}

/// The format of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `2026-01-31T12:00:00Z` (RFC 3339).
    Rfc3339,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
}

impl Values {
    /// The next value; that of a sequence has the index `nth`, from 0.
    pub(super) fn value(&self, nth: i64, random: &mut Rng) -> String {
        match self {
            Self::Sequence { from, step } => from.wrapping_add(step.wrapping_mul(nth)).to_string(),
            Self::Range { min, max } => random.i64(*min..=*max).to_string(),
            Self::Uuid => uuid(random.u128(..)),
            Self::Now(format) => format.write(now()),
            Self::File(_) => String::new(),
            Self::List(list) => random.choice(list.iter()).cloned().unwrap_or_default(),
        }
    }
}

/// The default of some fields.
pub(super) fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// Sets the version 4 and the variant of RFC 9562.
fn uuid(bits: u128) -> String {
    let marked = (bits & !(0xF << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let mut text = format!("{marked:032x}");
    for position in [20, 16, 12, 8] {
        text.insert(position, '-');
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "this crate does I/O: a request may carry the time")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Format {
    fn write(self, at: SystemTime) -> String {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Unix => since.as_secs().to_string(),
            Self::UnixMs => since.as_millis().to_string(),
            Self::Rfc3339 => rfc3339(at).get(..19).unwrap_or_default().to_owned() + "Z",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_is_written_as_asked() {
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        assert_eq!(Format::Rfc3339.write(at), "1970-01-01T00:00:01Z");
        assert_eq!(Format::Unix.write(at), "1");
        assert_eq!(Format::UnixMs.write(at), "1500");
    }

    #[test]
    fn a_uuid_says_which_version_it_is() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn a_range_has_both_its_ends() {
        let mut random = Rng::with_seed(1);
        let range = Values::Range { min: -1, max: 1 };
        let seen: std::collections::BTreeSet<_> =
            (0..100).map(|_| range.value(0, &mut random)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["-1", "0", "1"]);
    }
}
