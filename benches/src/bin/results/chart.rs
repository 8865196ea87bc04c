//! Line charts and dot plots as SVG, in which each value has its spread.

use std::fmt::Write as _;

use crate::record::Record;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// Its label.
    pub(crate) label: &'a str,
    /// Its points, in order; the record gives the height and the spread.
    pub(crate) points: Vec<(f64, &'a Record)>,
}

/// The labels and scale of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// The heading.
    pub(crate) title: &'a str,
    /// The label of the x axis.
    pub(crate) x: &'a str,
    /// The label of the y axis.
    pub(crate) y: &'a str,
    /// Whether the y axis is logarithmic; else it starts at 0.
    pub(crate) logarithmic: bool,
    /// The goal, drawn as a dashed line.
    pub(crate) goal: Option<f64>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
/// The width for names in a dot plot.
const NAMES: f64 = 300.0;
const ROW: f64 = 22.0;
/// Colours that are distinguishable with colour vision deficiencies too (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Maps values between two ends to positions in a drawing.
#[derive(Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    start: f64,
    end: f64,
}

/// Lines over a logarithmic x axis.
#[must_use]
pub(crate) fn lines(frame: Frame<'_>, lines: &[Line<'_>]) -> String {
    let x = x_scale(lines);
    let y = y_scale(frame, lines);
    let mut svg = opening(WIDTH, HEIGHT, frame.title);
    grid(&mut svg, x, y);
    names_of_axes(&mut svg, frame);
    if let Some(goal) = frame.goal {
        let at = y.place(goal);
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {at:.1}H{:.1}" stroke="#999" stroke-dasharray="6 4"/>"##,
            WIDTH - RIGHT
        );
        text(&mut svg, WIDTH - RIGHT + 8.0, at + 4.0, "start", "goal");
    }
    for (number, line) in lines.iter().enumerate() {
        draw(&mut svg, x, y, line, COLOURS.get(number % COLOURS.len()).copied().unwrap_or("#000"));
    }
    label_ends(&mut svg, y, lines);
    svg.push_str("</svg>\n");
    svg
}

/// One row for each record, on a logarithmic axis, with its value beside it.
#[must_use]
pub(crate) fn dots(title: &str, unit: &str, rows: &[(&str, &Record)]) -> String {
    let height = TOP + ROW * count(rows.len()) + BOTTOM;
    let all = rows.iter().flat_map(|(_, record)| [record.low, record.high]);
    let x = Scale { start: NAMES, end: WIDTH - 90.0, ..Scale::around(all, true) };
    let mut svg = opening(WIDTH, height, title);
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = writeln!(svg, r##"<path d="M{at:.1} {TOP}V{:.1}" stroke="#ddd"/>"##, height - BOTTOM);
        text(&mut svg, at, height - BOTTOM + 18.0, "middle", &figure(tick, unit));
    }
    let axis = if unit == "ns" { "time (median, logarithmic)" } else { unit };
    text(&mut svg, (NAMES + WIDTH - 90.0) / 2.0, height - 12.0, "middle", axis);
    for (number, (label, record)) in rows.iter().enumerate() {
        let at = TOP + ROW * (count(number) + 0.5);
        let colour = COLOURS.first().copied().unwrap_or("#000");
        let (low, middle, high) = (x.place(record.low), x.place(record.median), x.place(record.high));
        text(&mut svg, NAMES - 10.0, at + 4.0, "end", label);
        let _ =
            writeln!(svg, r#"<path d="M{low:.1} {at:.1}H{high:.1}" stroke="{colour}" stroke-width="2"/>"#);
        let _ = writeln!(svg, r#"<circle cx="{middle:.1}" cy="{at:.1}" r="4" fill="{colour}"/>"#);
        text(&mut svg, high + 10.0, at + 4.0, "start", &figure(record.median, unit));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A value with its unit if that is a time, else without.
fn figure(value: f64, unit: &str) -> String {
    match value {
        it if unit != "ns" => short(it),
        it if it >= 1e9 => format!("{} s", short(it / 1e9)),
        it if it >= 1e6 => format!("{} ms", short(it / 1e6)),
        it if it >= 1e3 => format!("{} µs", short(it / 1e3)),
        it => format!("{} ns", short(it)),
    }
}

/// A value with three digits, such as `1.23 k`.
#[must_use]
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value {
        it if it >= 1e9 => (it / 1e9, "\u{202f}G"),
        it if it >= 1e6 => (it / 1e6, "\u{202f}M"),
        it if it >= 1e3 => (it / 1e3, "\u{202f}k"),
        it => (it, ""),
    };
    let digits = match value {
        it if it >= 100.0 || it.fract() == 0.0 => 0,
        it if it >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

impl Scale {
    /// From slightly below the smallest value to slightly above the largest; a linear scale starts at 0.
    fn around(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (least, most) =
            values.fold((f64::MAX, f64::MIN), |(least, most), it| (least.min(it), most.max(it)));
        let (least, most) = if least <= most { (least, most) } else { (1.0, 1.0) };
        let (from, to) = if logarithmic { (least.max(1e-3) / 1.5, most * 1.5) } else { (0.0, most * 1.15) };
        Self { from, to, logarithmic, start: 0.0, end: 1.0 }
    }

    fn place(self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(1e-3) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share * (self.end - self.start)
    }

    /// Powers of ten on a logarithmic scale (with halves and fifths on a short one), else about five round values.
    fn ticks(self) -> Vec<f64> {
        let powers = std::iter::successors(Some(1e-3), |it| Some(it * 10.0)).take(18);
        let inside = |it: &f64| *it >= self.from && *it <= self.to;
        if !self.logarithmic {
            let steps = powers.flat_map(|it| [it, 2.0 * it, 5.0 * it]);
            let step = steps.into_iter().find(|it| self.to / it <= 6.0).unwrap_or(self.to);
            return std::iter::successors(Some(0.0), |it| Some(it + step)).take_while(inside).collect();
        }
        let steps: &[f64] = if self.to / self.from > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        powers.flat_map(|it| steps.iter().map(move |step| it * step)).filter(inside).collect()
    }
}

fn x_scale(lines: &[Line<'_>]) -> Scale {
    let all = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    Scale { start: LEFT, end: WIDTH - RIGHT, ..Scale::around(all, true) }
}

fn y_scale(frame: Frame<'_>, lines: &[Line<'_>]) -> Scale {
    let points = lines.iter().flat_map(|line| &line.points);
    let all = points.flat_map(|(_, record)| [record.low, record.high]).chain(frame.goal);
    Scale { start: HEIGHT - BOTTOM, end: TOP, ..Scale::around(all, frame.logarithmic) }
}

fn opening(width: f64, height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let _ =
        writeln!(svg, r#"<text x="12" y="22" font-size="14" font-weight="bold">{}</text>"#, escaped(title));
    svg
}

fn grid(svg: &mut String, x: Scale, y: Scale) {
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = writeln!(svg, r##"<path d="M{at:.1} {TOP}V{:.1}" stroke="#eee"/>"##, HEIGHT - BOTTOM);
        text(svg, at, HEIGHT - BOTTOM + 16.0, "middle", &short(tick));
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = writeln!(svg, r##"<path d="M{LEFT} {at:.1}H{:.1}" stroke="#ddd"/>"##, WIDTH - RIGHT);
        text(svg, LEFT - 6.0, at + 4.0, "end", &short(tick));
    }
}

fn names_of_axes(svg: &mut String, frame: Frame<'_>) {
    text(svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", frame.x);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let _ = writeln!(
        svg,
        r#"<text x="16" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 16 {middle:.1})">{}</text>"#,
        escaped(frame.y)
    );
}

fn draw(svg: &mut String, x: Scale, y: Scale, line: &Line<'_>, colour: &str) {
    let mut path = String::new();
    for (number, (at, record)) in line.points.iter().enumerate() {
        let (at, middle) = (x.place(*at), y.place(record.median));
        let _ = write!(path, "{}{at:.1} {middle:.1}", if number == 0 { "M" } else { "L" });
        let _ = writeln!(
            svg,
            r#"<path d="M{at:.1} {:.1}V{:.1}" stroke="{colour}"/><circle cx="{at:.1}" cy="{middle:.1}" r="3" fill="{colour}"/>"#,
            y.place(record.low),
            y.place(record.high)
        );
    }
    let _ = writeln!(svg, r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>"#);
}

/// The label of each line beside its last point, without overlaps.
fn label_ends(svg: &mut String, y: Scale, lines: &[Line<'_>]) {
    let mut ends: Vec<(f64, &str, usize)> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        ends.extend(line.points.last().map(|(_, record)| (y.place(record.median), line.label, number)));
    }
    ends.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut lowest = TOP - 14.0;
    for (at, label, number) in ends {
        lowest = at.max(lowest + 14.0);
        let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("#000");
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" fill="{colour}">{}</text>"#,
            WIDTH - RIGHT + 8.0,
            lowest + 4.0,
            escaped(label)
        );
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escaped(words));
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A small count as a float.
fn count(things: usize) -> f64 {
    f64::from(u16::try_from(things).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Spread;

    fn record(median: f64) -> Record {
        let (low, high) = (median * 0.9, median * 1.1);
        let (name, unit) = ("x".into(), "ns".into());
        Record { name, unit, median, low, high, mean: median, samples: 5, spread: Spread::Range }
    }

    #[test]
    fn a_chart_has_each_point_and_each_name() {
        let records = [record(100.0), record(120.0)];
        let points: Vec<_> = [1.0, 1000.0].into_iter().zip(&records).collect();
        let frame = Frame { title: "a < b", x: "rules", y: "ns", logarithmic: false, goal: Some(130.0) };
        let svg = lines(frame, &[Line { label: "ours", points }]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains(">ours<") && svg.contains("a &lt; b") && svg.contains(">goal<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let svg = dots("dots", "ns", &[("one", &records[0]), ("two", &records[1])]);
        assert!(svg.matches("<circle").count() == 2 && svg.contains(">two<"));
    }

    #[test]
    fn a_chart_without_points_is_still_one() {
        let frame = Frame { title: "none", x: "x", y: "y", logarithmic: true, goal: None };
        let svg = lines(frame, &[Line { label: "ours", points: Vec::new() }]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.5, 7.0, 99.94, 123.4, 5_000.0, 1_234_567.0].map(short);
        assert_eq!(shown, ["0.50", "7", "99.9", "123", "5\u{202f}k", "1.23\u{202f}M"]);
    }
}
