//! Timestamps (RFC 3339) in UTC.

use std::time::Duration;

/// Parses a timestamp such as `2026-01-01T00:00:00Z` into the time since the Unix epoch. `None` if it is not one, not
/// in UTC, or before the epoch.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let time = ["Z", "z", "+00:00"].iter().find_map(|zone| time.strip_suffix(zone))?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (clock, fraction) =
        time.split_once('.').map_or((time, None), |(clock, fraction)| (clock, Some(fraction)));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let days = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum::<u64>()
        + (1..month).map(|month| days_in(year, month)).sum::<u64>()
        + (day - 1);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(Duration::new(seconds, fraction.map_or(Some(0), nanoseconds)?))
}

/// Three numbers with these counts of digits.
fn numbers(text: &str, separator: char, lengths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut out = [0; 3];
    for (number, length) in out.iter_mut().zip(lengths) {
        let part = parts.next()?;
        if part.len() != length || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

fn nanoseconds(fraction: &str) -> Option<u32> {
    let digits = fraction.get(..fraction.len().min(9))?;
    if digits.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(parse("1970-01-01T00:00:00Z").unwrap().as_nanos(), 0);
        assert_eq!(parse("2026-01-01T00:00:00Z").unwrap().as_secs(), 1_767_225_600);
        assert_eq!(parse("2024-02-29T23:59:59.25Z").unwrap().as_millis(), 1_709_251_199_250);
        assert_eq!(parse("2000-03-01T00:00:00+00:00").unwrap().as_secs(), 951_868_800);
    }

    #[test]
    fn what_is_not_a_time_in_utc_is_an_error() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00+01:00",
            "2026-1-1T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.xZ",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.é1234567Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
