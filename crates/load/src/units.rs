//! Parses durations, rates and headers on the command line. No error repeats the text, which may be
//! a secret.

use std::time::Duration;

use jiff::SignedDuration;

use crate::failed::Failed;
use crate::plan::Rate;

/// The maximum of a duration: longer than any run, and still within the range of the clock.
const MAX_DURATION: Duration = Duration::from_secs(365 * 86_400);

/// A duration: numbers with `us`, `ms`, `s`, `m` or `h`; or `0`.
pub fn duration(text: &str) -> Result<Duration, Failed> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = text.parse::<SignedDuration>().and_then(Duration::try_from).ok();
    duration.filter(|duration| *duration <= MAX_DURATION).ok_or_else(|| {
        Failed::plan("not a duration: write one such as `250us`, `1.5ms`, `30s` or `5m`")
    })
}

/// A rate: requests per second, or `max`.
pub fn rate(text: &str) -> Result<Rate, Failed> {
    if text == "max" { Ok(Rate::Max) } else { number(text).map(Rate::Constant) }
}

/// A ramp: two rates, such as `100..5000`.
pub(crate) fn ramp(text: &str) -> Result<Rate, Failed> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| Failed::plan("not a ramp: write one such as `100..5000`"))?;
    Ok(Rate::Ramp { from: bound(from)?, to: bound(to)? })
}

fn bound(text: &str) -> Result<f64, Failed> {
    if text == "0" { Ok(0.0) } else { number(text) }
}

fn number(text: &str) -> Result<f64, Failed> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e7).ok_or_else(|| {
        Failed::plan("not a rate: write requests per second, such as `1000`, or `max`")
    })
}

pub(crate) fn header(text: &str) -> Result<(String, String), Failed> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| Failed::plan("not a header line: write one such as `accept: text/html`"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        for (text, duration_) in
            [("0", 0), ("250us", 250), ("1.5ms", 1500), ("2s", 2_000_000), ("1m", 60_000_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_micros(duration_)), "{text}");
        }
        for text in ["", "5", "ms", "-1s", "1e3s", "9999999999h", "."] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reads_rates() {
        assert_eq!(rate("0.5"), Ok(Rate::Constant(0.5)));
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(ramp("0..50"), Ok(Rate::Ramp { from: 0.0, to: 50.0 }));
        for text in ["0", "-1", "inf", "nan", "", "1e9"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(ramp("5").is_err() && ramp("..5").is_err());
    }
}
