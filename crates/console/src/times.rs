//! Times as people read them.

use std::time::Duration;

use jiff::Timestamp;

/// A time since the Unix epoch as date and time in UTC.
pub(crate) fn utc(time: Duration) -> String {
    let time =
        i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(
        || "unknown".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// A latency: `840 ns`, `12.5 µs`, `3.1 ms`, `1.2 s`.
pub(crate) fn latency(nanoseconds: u64) -> String {
    let (scale, unit) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {unit}", tenths(nanoseconds.saturating_mul(10) / scale))
}

/// A number with one decimal place, such as `12.5`, from its tenths.
pub(crate) fn tenths(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(utc(Duration::from_secs(1_700_000_000)), "2023-11-14 22:13:20 UTC");
        assert_eq!(utc(Duration::MAX), "unknown");
        assert_eq!(
            [latency(999), latency(12_540), latency(3_100_000)],
            ["999 ns", "12.5 µs", "3.1 ms"]
        );
        assert_eq!(latency(1_250_000_000), "1.2 s");
    }
}
