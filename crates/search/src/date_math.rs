//! Date math in names of indices: `<logs-{now/d-1d{uuuu.MM.dd}}>`.

use jiff::civil::{DateTime, Weekday};
use jiff::{SignedDuration, Span, Timestamp, tz};

use crate::problem::Problem;

pub(crate) const UNSUPPORTED: Problem = Problem::Unsupported("date math of this form");
const CHANGING: Problem =
    Problem::Unsupported("date math that stands for another index some seconds earlier or later");

/// The most by which two times may differ: the time by rolegate's clock when it decides, and the
/// time by a node's clock when the node receives the request.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(5);

/// Whether a name is date math.
pub(crate) fn is_date_math(name: &str) -> bool {
    name.starts_with('<') && name.ends_with('>')
}

/// The name that an expression stands for now, if it is the same from [`MAX_SKEW`] earlier to
/// [`MAX_SKEW`] later.
///
/// Comparing the start and the end of this span, ten seconds apart, suffices. A name that is
/// rounded or formatted to minutes or more changes at most once per minute. A name with seconds is
/// another one ten seconds later.
pub(crate) fn resolve_around(expression: &str, now: Timestamp) -> Result<String, Problem> {
    let (Ok(earlier), Ok(later)) = (now.checked_sub(MAX_SKEW), now.checked_add(MAX_SKEW)) else {
        return Err(UNSUPPORTED);
    };
    let name = resolve(expression, earlier)?;
    if name == resolve(expression, later)? { Ok(name) } else { Err(CHANGING) }
}

/// The name that an expression in angle brackets stands for at this moment.
///
/// Supported are sums and roundings of `now`, formats of numbers (`uuuu`, `yyyy`, `MM`, `dd`, `HH`,
/// `mm`, `ss`), and time zones that are offsets such as `+01:00`.
pub(crate) fn resolve(expression: &str, now: Timestamp) -> Result<String, Problem> {
    let mut text =
        expression.strip_prefix('<').and_then(|text| text.strip_suffix('>')).ok_or(UNSUPPORTED)?;
    if text.is_empty() || text.contains('\\') {
        return Err(UNSUPPORTED);
    }
    let mut name = String::with_capacity(expression.len());
    while let Some((literal, braced)) = text.split_once('{') {
        name.push_str(check_literal(literal)?);
        let end = braced.find(['{', '}']).ok_or(UNSUPPORTED)?;
        let (math, tail) = braced.split_at_checked(end).ok_or(UNSUPPORTED)?;
        let (format, after) = match tail.strip_prefix('{') {
            Some(tail) => tail.split_once("}}").ok_or(UNSUPPORTED)?,
            None => ("uuuu.MM.dd", tail.strip_prefix('}').ok_or(UNSUPPORTED)?),
        };
        let (format, zone) = format.split_once('|').unwrap_or((format, "Z"));
        push_formatted(&mut name, evaluate(math, local_time(now, zone)?)?, format)?;
        text = after;
    }
    name.push_str(check_literal(text)?);
    Ok(name)
}

/// Returns a text that stands outside of braces. A `}` in it is an error.
fn check_literal(text: &str) -> Result<&str, Problem> {
    if text.contains('}') { Err(UNSUPPORTED) } else { Ok(text) }
}

/// The local time in a zone that is an offset such as `-08:00`.
fn local_time(now: Timestamp, zone: &str) -> Result<DateTime, Problem> {
    let seconds = match zone.as_bytes() {
        b"Z" | b"UTC" => 0,
        [sign @ (b'+' | b'-'), hour_tens, hour_ones, b':', minute_tens, minute_ones] => {
            let hours = two_digits(*hour_tens, *hour_ones, 18)?;
            let seconds = hours * 3600 + two_digits(*minute_tens, *minute_ones, 59)? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return Err(UNSUPPORTED),
    };
    Ok(tz::Offset::from_seconds(seconds).map_err(|_| UNSUPPORTED)?.to_datetime(now))
}

/// A number of two digits, up to `max`.
fn two_digits(tens: u8, ones: u8, max: i32) -> Result<i32, Problem> {
    let number = i32::from(tens) * 10 + i32::from(ones) - 11 * i32::from(b'0');
    let is_number = tens.is_ascii_digit() && ones.is_ascii_digit() && number <= max;
    is_number.then_some(number).ok_or(UNSUPPORTED)
}

/// The time that `math` stands for: `now`, followed by sums such as `-1d` and roundings such as
/// `/M`. They apply from left to right.
fn evaluate(math: &str, now: DateTime) -> Result<DateTime, Problem> {
    let mut terms = math.strip_prefix("now").ok_or(UNSUPPORTED)?;
    let mut time = now;
    while !terms.is_empty() {
        let (operator, after) = terms.split_at_checked(1).ok_or(UNSUPPORTED)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (count, after) = after.split_at_checked(digits).ok_or(UNSUPPORTED)?;
        let (unit, after) = after.split_at_checked(1).ok_or(UNSUPPORTED)?;
        terms = after;
        time = match operator {
            "/" if count.is_empty() => round(time, unit)?,
            "+" | "-" => {
                let count = if count.is_empty() { "1" } else { count };
                let count: i64 = format!("{operator}{count}").parse().map_err(|_| UNSUPPORTED)?;
                let span = match unit {
                    "y" => Span::new().try_years(count),
                    "M" => Span::new().try_months(count),
                    "w" => Span::new().try_weeks(count),
                    "d" => Span::new().try_days(count),
                    "h" | "H" => Span::new().try_hours(count),
                    "m" => Span::new().try_minutes(count),
                    "s" => Span::new().try_seconds(count),
                    _ => return Err(UNSUPPORTED),
                };
                span.and_then(|span| time.checked_add(span)).map_err(|_| UNSUPPORTED)?
            }
            _ => return Err(UNSUPPORTED),
        };
    }
    Ok(time)
}

/// The start of the year, month, … that a time is in.
fn round(time: DateTime, unit: &str) -> Result<DateTime, Problem> {
    let day = time.date();
    Ok(match unit {
        "y" => day.first_of_year().into(),
        "M" => day.first_of_month().into(),
        "w" => {
            let since_monday = day.weekday().since(Weekday::Monday);
            day.checked_sub(Span::new().days(since_monday)).map_err(|_| UNSUPPORTED)?.into()
        }
        "d" => day.into(),
        "h" | "H" => day.at(time.hour(), 0, 0, 0),
        "m" => day.at(time.hour(), time.minute(), 0, 0),
        "s" => day.at(time.hour(), time.minute(), time.second(), 0),
        _ => return Err(UNSUPPORTED),
    })
}

fn push_formatted(name: &mut String, time: DateTime, format: &str) -> Result<(), Problem> {
    if format.is_empty() || !(0..=9999).contains(&time.year()) {
        return Err(UNSUPPORTED);
    }
    // Runs of the same letter are fields.
    for field in format.as_bytes().chunk_by(|letter, next| letter == next) {
        let number = match field {
            b"uuuu" | b"yyyy" => time.year(),
            b"MM" => time.month().into(),
            b"dd" => time.day().into(),
            b"HH" => time.hour().into(),
            b"mm" => time.minute().into(),
            b"ss" => time.second().into(),
            [b'.' | b'-' | b'_', ..] => {
                name.extend(field.iter().map(|byte| char::from(*byte)));
                continue;
            }
            _ => return Err(UNSUPPORTED),
        };
        let width = field.len();
        name.push_str(&format!("{number:0width$}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_math_names_an_index() {
        // A Saturday.
        let now: Timestamp = "2024-03-30T23:15:42Z".parse().expect("a time");
        for (expression, wanted) in [
            ("<logs>", "logs"),
            ("<logs-{now}>", "logs-2024.03.30"),
            ("<logs-{now/d}>", "logs-2024.03.30"),
            ("<logs-{now/M}>", "logs-2024.03.01"),
            ("<logs-{now/w}>", "logs-2024.03.25"),
            ("<logs-{now/y}-x>", "logs-2024.01.01-x"),
            ("<logs-{now/d-1d}>", "logs-2024.03.29"),
            ("<logs-{now-1M/M{uuuu.MM}}>", "logs-2024.02"),
            ("<logs-{now{yyyy-MM-dd-HH-mm-ss}}>", "logs-2024-03-30-23-15-42"),
            ("<logs-{now/h{HH-mm}}>", "logs-23-00"),
            ("<logs-{now/d{uuuu.MM.dd|+12:00}}>", "logs-2024.03.31"),
            ("<logs-{now/d{uuuu.MM.dd|-08:00}}>", "logs-2024.03.30"),
            ("<{now{uuuu}}-{now{MM}}>", "2024-03"),
        ] {
            assert_eq!(resolve(expression, now).as_deref(), Ok(wanted), "{expression}");
        }
        let invalid = "<> <a <a{> <a}> <a{now> <a{then}> <a{now{}}> <a{now{EEE}}> \
                       <a{now{uuuu|Europe/Paris}}> <a\\{> <a{now+1x}> <a{now/2d}> <a{now{uuuu}> \
                       <a{now+99999999999y}> <a{now{uuuu|+99:00}}>";
        for expression in invalid.split(' ') {
            assert!(resolve(expression, now).is_err(), "{expression}");
        }
    }

    #[test]
    fn a_name_that_is_about_to_change_is_refused() {
        let at = |time: &str, expression: &str| {
            let now: Timestamp = format!("2024-03-30T{time}Z").parse().expect("a time");
            resolve_around(expression, now)
        };
        for (time, expression, wanted) in [
            ("12:00:00", "<logs-{now/d}>", "logs-2024.03.30"),
            ("23:59:54", "<logs-{now/d}>", "logs-2024.03.30"),
            ("00:00:05", "<logs-{now/d}>", "logs-2024.03.30"),
            ("12:00:30", "<logs-{now/m{HH-mm-ss}}>", "logs-12-00-00"),
            ("23:59:59", "<logs>", "logs"),
            ("23:59:59", "<logs-{now/M}>", "logs-2024.03.01"),
        ] {
            assert_eq!(at(time, expression).as_deref(), Ok(wanted), "{time} {expression}");
        }
        for (time, expression) in [
            ("23:59:56", "<logs-{now/d}>"),
            ("00:00:04", "<logs-{now/d}>"),
            ("12:00:00", "<logs-{now+12h}>"),
            ("12:00:00", "<logs-{now/d{uuuu.MM.dd|+12:00}}>"),
            ("12:01:02", "<logs-{now{HH-mm}}>"),
            ("12:00:30", "<logs-{now{ss}}>"),
            ("12:00:30", "<logs-{now/s{ss}}>"),
        ] {
            assert_eq!(at(time, expression), Err(CHANGING), "{time} {expression}");
        }
    }
}
