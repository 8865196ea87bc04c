//! Parses durations, rates and headers on the command line. No error repeats the text, which may be
//! a secret.

use std::time::Duration;

use crate::failed::Failed;
use crate::plan::Rate;

/// A duration: a number and `us`, `ms`, `s`, `m` or `h`; or `0`.
pub fn duration(text: &str) -> Result<Duration, Failed> {
    let wrong =
        || Failed::plan("not a duration: write one such as `250us`, `1.5ms`, `30s` or `5m`");
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).ok_or_else(wrong)?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    // A year is longer than any run, and still within the range of the clock.
    let whole = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
    if whole > Duration::from_secs(365 * 86_400) { Err(wrong()) } else { Ok(whole) }
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
    let bound = |text: &str| if text == "0" { Ok(0.0) } else { number(text) };
    Ok(Rate::Ramp { from: bound(from)?, to: bound(to)? })
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
        for text in ["", "5", "ms", "-1s", "1 s", "1e3s", "9999999999h", "."] {
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
