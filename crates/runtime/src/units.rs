//! Durations, sizes and file modes, as written in settings.

use std::time::Duration;

/// Why a text is not the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum UnitError {
    #[error("not a duration: write one such as `500ms`, `30s`, `5m`, `1h` or `2d`")]
    Duration,
    #[error("not a size: write one such as `65536`, `64KiB` or `4MiB`")]
    Size,
    #[error("not a number: write a whole one from 0 to 65535")]
    Count,
    #[error("not a number above zero: write a whole one from 1 to 65535")]
    PositiveCount,
    #[error(
        "less than 1 KiB, and every request would be denied: is the unit missing, as in `4MiB`?"
    )]
    TooSmall,
    #[error("not a mode: write one such as `0660`; the owner must be able to write")]
    Mode,
}

/// Parses a duration: a whole number and `ms`, `s`, `m`, `h` or `d`. `0` needs no unit.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| UnitError::Duration)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 0,
        _ => return Err(UnitError::Duration),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or(UnitError::Duration)
}

/// Parses a duration above zero.
pub fn positive_duration(text: &str) -> Result<Duration, UnitError> {
    duration(text).and_then(|duration| {
        if duration.is_zero() { Err(UnitError::Duration) } else { Ok(duration) }
    })
}

/// Parses a size in bytes: a whole number above zero, alone or with `B`, `KiB` or `MiB`.
pub fn size(text: &str) -> Result<usize, UnitError> {
    let (number, unit) = split(text);
    let number: usize = number.parse().map_err(|_| UnitError::Size)?;
    let bytes = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(UnitError::Size),
    };
    number.checked_mul(bytes).filter(|size| *size > 0).ok_or(UnitError::Size)
}

/// Parses a whole number of at most 65535.
pub fn count(text: &str) -> Result<u16, UnitError> {
    text.parse().map_err(|_| UnitError::Count)
}

/// Parses a whole number from 1 to 65535.
pub fn positive_count(text: &str) -> Result<u16, UnitError> {
    text.parse().ok().filter(|count| *count > 0).ok_or(UnitError::PositiveCount)
}

/// Parses the maximum size of a message: a size of at least 1 KiB, which the headers of a request
/// need.
pub fn message_size(text: &str) -> Result<usize, UnitError> {
    let size = size(text)?;
    if size < 1 << 10 { Err(UnitError::TooSmall) } else { Ok(size) }
}

/// Parses the permissions of a file, in octal digits. The owner must be able to write.
pub fn mode(text: &str) -> Result<u32, UnitError> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && mode & 0o200 != 0)
        .ok_or(UnitError::Mode)
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{UnitError, count, duration, message_size, mode, positive_count, size};

    #[test]
    fn reads_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(size("4MiB"), Ok(4 << 20));
        assert_eq!(size("17"), Ok(17));
        assert_eq!(count("65535"), Ok(65535));
        assert_eq!(mode("0660"), Ok(0o660));
    }

    #[test]
    fn rejects_invalid_values() {
        for text in
            ["", "5", "5 m", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "0", "1GB", "MiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["", "abc", "-1", "1.5", "65536"] {
            assert!(count(text).is_err(), "{text}");
        }
        for text in ["", "9", "0400", "01000"] {
            assert!(mode(text).is_err(), "{text}");
        }
        assert_eq!(positive_count("0"), Err(UnitError::PositiveCount));
        assert_eq!(positive_count("65536"), Err(UnitError::PositiveCount));
        assert_eq!(positive_count("1"), Ok(1));
        assert_eq!(message_size("4"), Err(UnitError::TooSmall));
        assert_eq!(message_size("1KiB"), Ok(1024));
    }
}
