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
        assert_eq!(
            [latency(999), latency(12_540), latency(3_100_000)],
            ["999 ns", "12.5 µs", "3.1 ms"]
        );
        assert_eq!(latency(1_250_000_000), "1.2 s");
    }
}
