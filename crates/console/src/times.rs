//! Times as people read them.

use std::time::Duration;

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// A time since the Unix epoch as date and time in UTC. By hand: nothing else in the program needs the formatter of a
/// library, which is large.
pub(crate) fn utc(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds > LAST_SECOND {
        return "unknown".to_owned();
    }
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day since the Unix epoch, in the Gregorian calendar. Years begin in March here, so that the day that
/// a leap year has more is the last one.
const fn date(days: u64) -> (u64, u64, u64) {
    // 400 years have 146,097 days; 719,468 days are from 1 March of the year 0 to the epoch.
    let (era, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day_of_month)
}

/// A short duration of a latency: `840 ns`, `12.5 µs`, `3.1 ms`, `1.2 s`.
pub(crate) fn latency(nanoseconds: u64) -> String {
    let scaled = |per: u64, unit: &str| {
        let tenths = nanoseconds.saturating_mul(10) / per;
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    };
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => scaled(1_000, "µs"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "ms"),
        _ => scaled(1_000_000_000, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(utc(Duration::from_secs(1_700_000_000)), "2023-11-14 22:13:20 UTC");
        assert_eq!(utc(Duration::MAX), "unknown");
        assert_eq!([latency(999), latency(12_540), latency(3_100_000)], ["999 ns", "12.5 µs", "3.1 ms"]);
        assert_eq!(latency(1_250_000_000), "1.2 s");
    }

    /// Each day, as a library writes it.
    #[test]
    fn dates_are_those_of_the_calendar() {
        // The library ends a day earlier.
        for day in 0..LAST_SECOND / 86_400 - 1 {
            let second = day * 86_400 + day % 86_400;
            let time = jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
            let wanted = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
            assert_eq!(utc(Duration::from_secs(second)), wanted);
        }
        assert_eq!(utc(Duration::from_secs(LAST_SECOND)), "9999-12-31 23:59:59 UTC");
        assert_eq!(utc(Duration::from_secs(LAST_SECOND + 1)), "unknown");
    }
}
