//! Charts as SVG: points and lines over two axes, each linear or logarithmic, with a legend below.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::document::{STYLE, escape};
use super::units;

/// A chart.
#[derive(Debug)]
pub struct Chart<'a> {
    /// The heading.
    pub title: &'a str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The width of the labels of the vertical axis, and the height of the plot.
    pub size: (f64, f64),
    /// The lines, in the order of the legend.
    pub lines: Vec<Line<'a>>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is shown on it.
    pub label: String,
    /// Its ends.
    pub ends: (f64, f64),
    /// Whether it is logarithmic.
    pub logarithmic: bool,
    /// The values with a label, and the labels.
    pub ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Its name in the legend; empty for none.
    pub name: &'a str,
    /// Its points.
    pub points: Vec<Point>,
    /// Whether its points are connected; else each is a dot.
    pub connected: bool,
}

/// A point of a line.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Its position.
    pub at: (f64, f64),
    /// The ends of its spread, if it has one.
    pub spread: Option<[(f64, f64); 2]>,
    /// A text beside it.
    pub label: String,
}

/// A distribution with its name in the legend.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its values, in nanoseconds.
    pub of: &'a Histogram<u64>,
}

const WIDTH: f64 = 900.0;
const RIGHT: f64 = 884.0;
const TOP: f64 = 16.0;
/// The legend: the height of its rows and the width of an entry.
const ROW: f64 = 20.0;
const ENTRY: f64 = 270.0;
/// The number of colours. Each line also has its own dashes.
const COLOURS: usize = 8;
/// The default size of a chart.
pub const DEFAULT_SIZE: (f64, f64) = (76.0, 350.0);

/// The points of a percentile curve between 0 % and the last percentile.
const POINTS: u32 = 160;
/// The percentiles that are labelled, if reached.
const MARKS: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// Percentile curves: latency over 1/(1−p), both logarithmic, so that the tail gets as much space
/// as the rest. Empty curves are omitted; without curves there is no chart.
pub fn percentiles<'a>(title: &'a str, curves: &[Curve<'a>]) -> Option<Chart<'a>> {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|curve| !curve.of.is_empty()).collect();
    let last = units::float(curves.iter().map(|curve| curve.of.len()).max()?).max(10.0);
    let ends = curves
        .iter()
        .flat_map(|curve| [curve.of.min().max(1), curve.of.max().max(2)])
        .map(units::float);
    let marks = MARKS.map(|percent| (100.0 / (100.0 - percent), format!("p{percent}")));
    let x = Axis {
        label: "percentile, by 1/(1−p)".to_owned(),
        ends: (1.0, last),
        logarithmic: true,
        ticks: marks.into_iter().filter(|(distance, _)| *distance <= last * 1.001).collect(),
    };
    let line = |curve: &&Curve<'a>| Line {
        name: curve.name,
        points: distribution(curve.of),
        connected: true,
    };
    let lines = curves.iter().map(line).collect();
    Some(Chart {
        title,
        x,
        y: Axis::logarithmic("", ends, &units::duration),
        size: DEFAULT_SIZE,
        lines,
    })
}

/// The points of a curve, up to the percentile for which there is still one value.
fn distribution(of: &Histogram<u64>) -> Vec<Point> {
    let end = units::float(of.len()).max(1.0).log10();
    let point = |number: u32| {
        let distance = 10_f64.powf(end * f64::from(number) / f64::from(POINTS));
        let value = of.value_at_quantile(1.0 - 1.0 / distance);
        Point { at: (distance, units::float(value)), ..Point::default() }
    };
    (0..=POINTS).map(point).collect()
}

impl Axis {
    /// A logarithmic axis around these values, from and to one of 1, 2, 5, 10, …
    pub fn logarithmic(
        label: &str,
        values: impl Iterator<Item = f64>,
        shown: &dyn Fn(f64) -> String,
    ) -> Self {
        let (low, high) = values
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low.max(1e-3), high.max(2e-3)) } else { (1.0, 10.0) };
        let decade = 10_f64.powf(low.log10().floor());
        let marks: Vec<f64> = std::iter::successors(Some(decade), |decade| Some(decade * 10.0))
            .take_while(|decade| *decade <= 10.0 * high)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * decade))
            .collect();
        let start = marks.iter().copied().rfind(|mark| *mark <= low).unwrap_or(decade);
        let end = marks.iter().copied().find(|mark| *mark >= high && *mark > start);
        let ends = (start, end.unwrap_or(10.0 * high));
        // Fewer labels where they would be too close together.
        let step = if (ends.1 / ends.0).log10() <= 3.2 { 1 } else { 3 };
        let is_inside = |mark: &f64| *mark >= ends.0 * 0.999 && *mark <= ends.1 * 1.001;
        let ticks =
            marks.into_iter().step_by(step).filter(is_inside).map(|mark| (mark, shown(mark)));
        Self { label: label.to_owned(), ends, logarithmic: true, ticks: ticks.collect() }
    }

    /// A linear axis from 0 to slightly above these values.
    pub fn linear(
        label: &str,
        values: impl Iterator<Item = f64>,
        shown: &dyn Fn(f64) -> String,
    ) -> Self {
        let high = values.fold(1e-3, f64::max) * 1.15;
        let powers = std::iter::successors(Some(1e-3), |power| Some(power * 10.0)).take(18);
        let step = powers
            .flat_map(|power| [power, 2.0 * power, 5.0 * power])
            .find(|step| high / step <= 6.0)
            .unwrap_or(high);
        let marks = std::iter::successors(Some(0.0), |mark| Some(mark + step))
            .take_while(|mark| *mark <= high);
        let ticks = marks.map(|mark| (mark, shown(mark))).collect();
        Self { label: label.to_owned(), ends: (0.0, high), logarithmic: false, ticks }
    }

    /// The position of a value between two positions on the page.
    fn place(&self, value: f64, (start, end): (f64, f64)) -> f64 {
        let (from, to) = self.ends;
        let share = if self.logarithmic {
            (value.max(1e-3) / from).ln() / (to / from).ln()
        } else {
            (value - from) / (to - from)
        };
        start + share * (end - start)
    }
}

impl Chart<'_> {
    /// The chart for a page that has the styles.
    pub fn inline(&self) -> String {
        format!("<figure>\n{}</figure>\n", self.drawn(""))
    }

    /// The chart as a file.
    pub fn file(&self) -> String {
        let ground = "<rect y=\"-28\" width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
        self.drawn(&format!("<style>\n{}</style>\n{ground}\n", STYLE))
    }

    fn drawn(&self, before: &str) -> String {
        let (left, bottom) = (self.size.0, TOP + self.size.1);
        let place =
            |(x, y): (f64, f64)| (self.x.place(x, (left, RIGHT)), self.y.place(y, (bottom, TOP)));
        let mut body = self.grid(left, bottom);
        let mut legend = (left, bottom + 62.0);
        for (number, line) in self.lines.iter().enumerate() {
            let class = format!("class=\"curve c{}\"", number % COLOURS);
            draw(&mut body, line, &class, place);
            if line.name.is_empty() {
                continue;
            }
            if legend.0 + ENTRY > WIDTH {
                legend = (left, legend.1 + ROW);
            }
            let (x, y) = legend;
            let _ = writeln!(body, "<path {class} d=\"M{x} {}h24\"/>", y - 4.0);
            text(&mut body, (x + 32.0, y), "start", line.name);
            legend.0 += ENTRY;
        }
        let (title, height) = (escape(self.title), legend.1 + ROW + 28.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -28 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\">\n{before}<text x=\"12\" y=\"-8\">{title}</text>\n{body}</svg>\n"
        )
    }

    /// Grid lines and their labels for both axes.
    fn grid(&self, left: f64, bottom: f64) -> String {
        let mut body = String::new();
        for (value, label) in &self.x.ticks {
            let x = self.x.place(*value, (left, RIGHT));
            let _ = writeln!(body, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
            text(&mut body, (x, bottom + 20.0), "middle", label);
        }
        for (value, label) in &self.y.ticks {
            let y = self.y.place(*value, (bottom, TOP));
            let _ = writeln!(body, "<path class=\"grid\" d=\"M{left} {y:.1}H{RIGHT}\"/>");
            text(&mut body, (left - 8.0, y + 4.0), "end", label);
        }
        text(&mut body, (f64::midpoint(left, RIGHT), bottom + 42.0), "middle", &self.x.label);
        text(&mut body, (left + 6.0, TOP + 12.0), "start", &self.y.label);
        body
    }
}

fn draw(body: &mut String, line: &Line<'_>, class: &str, place: impl Fn((f64, f64)) -> (f64, f64)) {
    let mut path = String::new();
    for point in &line.points {
        let (x, y) = place(point.at);
        let letter = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{x:.1} {y:.1}");
        let mut right = x;
        if let Some([from, to]) = point.spread.map(|ends| ends.map(&place)) {
            let _ = writeln!(
                body,
                "<path {class} d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
                from.0, from.1, to.0, to.1
            );
            let _ = writeln!(body, "<circle {class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
            right = right.max(to.0);
        }
        text(body, (right + 8.0, y + 4.0), "start", &point.label);
    }
    if line.connected {
        let _ = writeln!(body, "<path {class} d=\"{path}\"/>");
    }
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    if !words.is_empty() {
        let words = escape(words);
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        );
    }
}
