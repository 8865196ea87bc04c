//! Charts of the last fifteen minutes: checks per second by outcome, and their p99. Each has its
//! own picture and scale, so that a few denials are visible beside many allowed requests, and no
//! colour has a meaning.

use std::fmt::Write as _;
use std::time::Instant;

use maud::{Markup, html};
use runtime::clock;

use super::table;
use crate::history::{FIFTEEN_MINUTES, Point};
use crate::times::{latency, tenths, utc};

/// The height of a picture. Its width is a unit per second.
const HEIGHT: u64 = 40;

type Value = fn(&Point) -> Option<u64>;
type Format = fn(u64) -> String;

const CHARTS: [(&str, Value, Format); 4] = [
    ("allowed per second", |point| per_second(point, point.allowed), thousandths),
    ("denied per second", |point| per_second(point, point.denied), thousandths),
    ("errors per second", |point| per_second(point, point.errors), thousandths),
    ("p99 of the whole check", |point| point.p99, latency),
];

pub(super) fn charts(points: &[Point], now: Instant) -> Markup {
    let end = clock::now();
    html! {
        p.hint {
            "The last 15 minutes, " (utc(end.saturating_sub(FIFTEEN_MINUTES))) " to " (utc(end))
            ". Each chart has a scale of its own."
        }
        (table("The last 15 minutes", Some("charts"), ["chart", "", "latest", "highest"], &html! {
            tbody {
                @for (name, value, format) in &CHARTS { (row(name, *value, *format, points, now)) }
            }
        }))
    }
}

fn row(name: &str, value: Value, format: Format, points: &[Point], now: Instant) -> Markup {
    let highest = points.iter().filter_map(value).max();
    let path = bars(points, value, highest.unwrap_or_default(), now);
    let [latest, highest] = [points.last().and_then(value), highest]
        .map(|value| value.map_or_else(|| "–".to_owned(), format));
    html! {
        tr {
            th scope="row" { (name) }
            td {
                svg viewBox={ "0 0 " (FIFTEEN_MINUTES.as_secs()) " " (HEIGHT) } role="img"
                    preserveAspectRatio="none" aria-label={ (name) ", at most " (highest) } {
                    path d=(path) {}
                }
            }
            td { (latest) }
            td { (highest) }
        }
    }
}

/// The path of a bar for each point with a value above 0: the highest bar has the whole height, and
/// the lowest is still visible.
fn bars(points: &[Point], value: Value, highest: u64, now: Instant) -> String {
    let mut path = String::new();
    for point in points {
        let Some(value) = value(point).filter(|value| *value > 0) else { continue };
        let height = (value.saturating_mul(HEIGHT) / highest.max(1)).clamp(1, HEIGHT);
        let [start, end] = [point.start, point.end].map(|at| {
            let age = now.saturating_duration_since(at).as_secs();
            FIFTEEN_MINUTES.as_secs().saturating_sub(age)
        });
        let top = HEIGHT - height;
        // Writing to a string does not fail.
        let _ = write!(path, "M{start} {HEIGHT}V{top}H{end}V{HEIGHT}Z");
    }
    path
}

/// In thousandths.
fn per_second(point: &Point, count: u64) -> Option<u64> {
    let length = point.end.saturating_duration_since(point.start);
    let milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    count.saturating_mul(1_000_000).checked_div(milliseconds)
}

/// `12.3`, `0.07`.
fn thousandths(value: u64) -> String {
    match value {
        0 => "0".to_owned(),
        1..10 => "< 0.01".to_owned(),
        10..1000 => format!("0.{:02}", value / 10),
        _ => tenths(value / 100),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    const POINT: Duration = Duration::from_secs(15);

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest() {
        let now = Instant::now() + FIFTEEN_MINUTES;
        let point = |age: u64, denied: u64| {
            let end = now - Duration::from_secs(age);
            Point { start: end - POINT, end, allowed: 0, denied, errors: 0, p99: None }
        };
        let points = [point(600, 1500), point(585, 0), point(15, 1), point(0, 750)];
        let [_, (_, denied, format), _, (_, p99, _)] = CHARTS;
        let highest = points.iter().filter_map(denied).max().unwrap();
        assert_eq!(format(highest), "100.0");
        assert_eq!(
            bars(&points, denied, highest, now),
            "M285 40V0H300V40ZM870 40V39H885V40ZM885 40V20H900V40Z"
        );
        assert_eq!(bars(&points, p99, 0, now), "");
        let drawn = charts(&points, now).into_string();
        assert!(drawn.contains("aria-label=\"denied per second, at most 100.0\""), "{drawn}");
        assert!(drawn.contains("<td>50.0</td><td>100.0</td>"), "{drawn}");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!(
            [0, 9, 70, 999, 1_000, 12_345].map(thousandths),
            ["0", "< 0.01", "0.07", "0.99", "1.0", "12.3"]
        );
    }
}
