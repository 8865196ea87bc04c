//! Date math in names of indices: `<logs-{now/d-1d{uuuu.MM.dd}}>`.

use jiff::civil::{DateTime, Weekday};
use jiff::{SignedDuration, Span, Timestamp, tz};

use crate::problem::Problem;

const UNSUPPORTED: Problem = Problem::Unsupported("date math of this form");
const CHANGING: Problem =
    Problem::Unsupported("date math that stands for another index some seconds earlier or later");

/// How far the clock of a node, when a request arrives there, may be from ours at its decision.
const MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// The name that an expression stands for now, if it is the same a little earlier and later.
///
/// The names at both ends of that time are enough: whatever is rounded or formatted to minutes or
/// more changes at most once in a minute, and seconds are not the same ten seconds later.
pub(crate) fn resolve_around(expression: &str, now: Timestamp) -> Result<String, Problem> {
    let at =
        |time: Result<Timestamp, jiff::Error>| resolve(expression, time.map_err(|_| UNSUPPORTED)?);
    let name = at(now.checked_sub(MARGIN))?;
    if name == at(now.checked_add(MARGIN))? { Ok(name) } else { Err(CHANGING) }
}

/// The name that an expression in angle brackets stands for at this moment.
///
/// Supported are sums and roundings of `now`, formats of numbers (`uuuu`, `yyyy`, `MM`, `dd`, `HH`,
/// `mm`, `ss`), and time zones that are offsets such as `+01:00`. The rest is refused.
pub(crate) fn resolve(expression: &str, now: Timestamp) -> Result<String, Problem> {
    let mut rest =
        expression.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).ok_or(UNSUPPORTED)?;
    if rest.is_empty() || rest.contains('\\') {
        return Err(UNSUPPORTED);
    }
    let mut name = String::with_capacity(expression.len());
    while let Some((before, after)) = rest.split_once('{') {
        name.push_str(plain(before)?);
        let (math, format, zone, after) =
            match after.find(['{', '}']).and_then(|at| after.split_at_checked(at)) {
                Some((math, tail)) if tail.starts_with('{') => {
                    let (inner, tail) = tail
                        .strip_prefix('{')
                        .and_then(|tail| tail.split_once("}}"))
                        .ok_or(UNSUPPORTED)?;
                    let (format, zone) = inner
                        .split_once('|')
                        .map_or((inner, None), |(format, zone)| (format, Some(zone)));
                    (math, format, zone, tail)
                }
                Some((math, tail)) => {
                    (math, "uuuu.MM.dd", None, tail.strip_prefix('}').ok_or(UNSUPPORTED)?)
                }
                None => return Err(UNSUPPORTED),
            };
        push_formatted(&mut name, evaluate(math, local(now, zone)?)?, format)?;
        rest = after;
    }
    name.push_str(plain(rest)?);
    Ok(name)
}

/// Text outside of braces.
fn plain(text: &str) -> Result<&str, Problem> {
    if text.contains('}') { Err(UNSUPPORTED) } else { Ok(text) }
}

/// The local time in a zone that is an offset such as `-08:00`.
fn local(now: Timestamp, zone: Option<&str>) -> Result<DateTime, Problem> {
    let seconds = match zone {
        None | Some("Z" | "UTC") => 0,
        Some(zone) => {
            let (sign, digits) = zone.split_at_checked(1).ok_or(UNSUPPORTED)?;
            let (hours, minutes) = digits.split_once(':').ok_or(UNSUPPORTED)?;
            let number = |text: &str, most: i32| {
                let is_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse::<i32>()
                    .ok()
                    .filter(|number| is_digits && *number <= most)
                    .ok_or(UNSUPPORTED)
            };
            let seconds: i32 = number(hours, 18)? * 3600 + number(minutes, 59)? * 60;
            match sign {
                "+" => seconds,
                "-" => -seconds,
                _ => return Err(UNSUPPORTED),
            }
        }
    };
    Ok(tz::Offset::from_seconds(seconds).map_err(|_| UNSUPPORTED)?.to_datetime(now))
}

/// `now`, followed by sums such as `-1d` and roundings such as `/M`, from left to right.
fn evaluate(math: &str, now: DateTime) -> Result<DateTime, Problem> {
    let mut rest = math.strip_prefix("now").ok_or(UNSUPPORTED)?;
    let mut time = now;
    while !rest.is_empty() {
        let (operator, after) = rest.split_at_checked(1).ok_or(UNSUPPORTED)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (count, after) = after.split_at_checked(digits).ok_or(UNSUPPORTED)?;
        let (unit, after) = after.split_at_checked(1).ok_or(UNSUPPORTED)?;
        rest = after;
        time = match operator {
            "/" if count.is_empty() => rounded(time, unit)?,
            "+" | "-" => {
                let count: i64 =
                    if count.is_empty() { 1 } else { count.parse().map_err(|_| UNSUPPORTED)? };
                let count = if operator == "-" { -count } else { count };
                let span = Span::new();
                let span = match unit {
                    "y" => span.try_years(count),
                    "M" => span.try_months(count),
                    "w" => span.try_weeks(count),
                    "d" => span.try_days(count),
                    "h" | "H" => span.try_hours(count),
                    "m" => span.try_minutes(count),
                    "s" => span.try_seconds(count),
                    _ => return Err(UNSUPPORTED),
                };
                time.checked_add(span.map_err(|_| UNSUPPORTED)?).map_err(|_| UNSUPPORTED)?
            }
            _ => return Err(UNSUPPORTED),
        };
    }
    Ok(time)
}

/// The start of the unit that a time is in.
fn rounded(time: DateTime, unit: &str) -> Result<DateTime, Problem> {
    let day = time.date();
    let minutes = if unit == "m" || unit == "s" { time.minute() } else { 0 };
    let seconds = if unit == "s" { time.second() } else { 0 };
    Ok(match unit {
        "y" => day.first_of_year().at(0, 0, 0, 0),
        "M" => day.first_of_month().at(0, 0, 0, 0),
        "w" => {
            let since_monday = day.weekday().since(Weekday::Monday);
            day.checked_sub(Span::new().days(since_monday)).map_err(|_| UNSUPPORTED)?.at(0, 0, 0, 0)
        }
        "d" => day.at(0, 0, 0, 0),
        "h" | "H" | "m" | "s" => day.at(time.hour(), minutes, seconds, 0),
        _ => return Err(UNSUPPORTED),
    })
}

fn push_formatted(name: &mut String, time: DateTime, format: &str) -> Result<(), Problem> {
    let mut rest = format;
    if rest.is_empty() || !(0..=9999).contains(&time.year()) {
        return Err(UNSUPPORTED);
    }
    while let Some(letter) = rest.chars().next() {
        let count = rest.chars().take_while(|other| *other == letter).count();
        let (field, after) = rest.split_at_checked(count * letter.len_utf8()).ok_or(UNSUPPORTED)?;
        rest = after;
        let number = match field {
            "uuuu" | "yyyy" => time.year(),
            "MM" => time.month().into(),
            "dd" => time.day().into(),
            "HH" => time.hour().into(),
            "mm" => time.minute().into(),
            "ss" => time.second().into(),
            _ if matches!(letter, '.' | '-' | '_') => {
                name.push_str(field);
                continue;
            }
            _ => return Err(UNSUPPORTED),
        };
        name.push_str(&format!("{number:0count$}"));
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
        for expression in [
            "<>",
            "<a",
            "<a{>",
            "<a}>",
            "<a{now>",
            "<a{then}>",
            "<a{now{}}>",
            "<a{now{EEE}}>",
            "<a{now{uuuu|Europe/Paris}}>",
            "<a\\{>",
            "<a{now+1x}>",
            "<a{now/2d}>",
            "<a{now{uuuu}>",
            "<a{now+99999999999y}>",
            "<a{now{uuuu|+99:00}}>",
        ] {
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
