//! Charts as SVG: points and lines over two axes, each linear or logarithmic, with a legend below.

use hdrhistogram::Histogram;
use maud::{Markup, PreEscaped, html};

use super::document::STYLE;
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
    /// Its quantity.
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
    /// Whether its points are connected. A point with a spread is drawn as a dot in any case.
    pub connected: bool,
}

/// A point of a line.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Its position.
    pub at: (f64, f64),
    /// The ends of its spread, if any.
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
/// The number of styles for lines. Each has its own colour, and most have dashes.
const COLOURS: usize = 8;
/// The default of [`Chart::size`].
pub const DEFAULT_SIZE: (f64, f64) = (76.0, 350.0);

/// The number of steps between the points of a percentile curve, from 0 % to the last percentile.
const POINTS: u32 = 160;
/// The percentiles that are labelled, if reached.
const MARKS: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// Percentile curves: latency over 1/(1−p), both logarithmic, so that the tail gets as much space
/// as the rest. Empty curves are omitted; without curves there is no chart.
pub fn percentiles<'a>(title: &'a str, curves: &[Curve<'a>]) -> Option<Chart<'a>> {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|curve| !curve.of.is_empty()).collect();
    let last = units::float(curves.iter().map(|curve| curve.of.len()).max()?).max(10.0);
    let extremes = curves
        .iter()
        .flat_map(|curve| [curve.of.min().max(1), curve.of.max().max(2)])
        .map(units::float);
    let marks = MARKS.map(|percent| (100.0 / (100.0 - percent), format!("p{percent}")));
    let x = Axis {
        label: "percentile, by 1/(1−p)".to_owned(),
        ends: (1.0, last),
        logarithmic: true,
        ticks: marks.into_iter().filter(|(value, _)| *value <= last * 1.001).collect(),
    };
    let lines = curves.iter().map(|curve| Line {
        name: curve.name,
        points: distribution(curve.of),
        connected: true,
    });
    let lines = lines.collect();
    let y = Axis::logarithmic("", extremes, &units::duration);
    Some(Chart { title, x, y, size: DEFAULT_SIZE, lines })
}

/// The points of a curve, up to the percentile beyond which there is only one value. `distance` is
/// 1/(1−p).
fn distribution(of: &Histogram<u64>) -> Vec<Point> {
    let end = units::float(of.len()).max(1.0).log10();
    let distances =
        (0..=POINTS).map(|number| 10_f64.powf(end * f64::from(number) / f64::from(POINTS)));
    let points = distances.map(|distance| {
        let value = of.value_at_quantile(1.0 - 1.0 / distance);
        Point { at: (distance, units::float(value)), ..Point::default() }
    });
    points.collect()
}

impl Axis {
    /// A logarithmic axis around these values. Each of its ends is 1, 2 or 5 times a power of ten.
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
        // On a long axis, only the powers of ten have labels: more would be too close together.
        let step = if (ends.1 / ends.0).log10() <= 3.2 { 1 } else { 3 };
        let inside = ends.0 * 0.999..=ends.1 * 1.001;
        let marks = marks.into_iter().step_by(step).filter(|mark| inside.contains(mark));
        let ticks = marks.map(|mark| (mark, shown(mark))).collect();
        Self { label: label.to_owned(), ends, logarithmic: true, ticks }
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
        html! { figure { (self.draw(html! {})) } }.into_string() + "\n"
    }

    /// The chart as a file.
    pub fn file(&self) -> String {
        let background = html! {
            style { (PreEscaped(STYLE)) }
            rect y="-28" width="100%" height="100%" fill="var(--paper)" {}
        };
        self.draw(background).into_string() + "\n"
    }

    fn draw(&self, background: Markup) -> Markup {
        let (left, bottom) = (self.size.0, TOP + self.size.1);
        let mut legend = (left, bottom + 62.0);
        let lines = self.lines.iter().enumerate().map(|(number, line)| {
            let class = format!("curve c{}", number % COLOURS);
            if !line.name.is_empty() && legend.0 + ENTRY > WIDTH {
                legend = (left, legend.1 + ROW);
            }
            let (x, y) = legend;
            if !line.name.is_empty() {
                legend.0 += ENTRY;
            }
            html! {
                (self.curve(line, &class))
                @if !line.name.is_empty() {
                    (path(&class, &format!("M{x} {}h24", y - 4.0)))
                    (text((x + 32.0, y), "start", line.name))
                }
            }
        });
        let lines: Vec<Markup> = lines.collect();
        let view_box = format!("0 -28 {WIDTH} {}", legend.1 + ROW + 28.0);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view_box) role="img"
                aria-label=(self.title) {
                (background)
                text x="12" y="-8" { (self.title) }
                (self.grid(left, bottom))
                @for line in lines { (line) }
            }
        }
    }

    /// Grid lines and their labels for both axes.
    fn grid(&self, left: f64, bottom: f64) -> Markup {
        html! {
            @for (value, label) in &self.x.ticks {
                @let x = self.x.place(*value, (left, RIGHT));
                (path("grid", &format!("M{x:.1} {TOP}V{bottom}")))
                (text((x, bottom + 20.0), "middle", label))
            }
            @for (value, label) in &self.y.ticks {
                @let y = self.y.place(*value, (bottom, TOP));
                (path("grid", &format!("M{left} {y:.1}H{RIGHT}")))
                (text((left - 8.0, y + 4.0), "end", label))
            }
            (text((f64::midpoint(left, RIGHT), bottom + 42.0), "middle", &self.x.label))
            (text((left + 6.0, TOP + 12.0), "start", &self.y.label))
        }
    }

    fn curve(&self, line: &Line<'_>, class: &str) -> Markup {
        let steps = line.points.iter().enumerate().map(|(number, point)| {
            let (x, y) = self.place(point.at);
            format!("{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' })
        });
        html! {
            @for point in &line.points {
                @let (x, y) = self.place(point.at);
                @let spread = point.spread.map(|ends| ends.map(|end| self.place(end)));
                @if let Some([low, high]) = spread {
                    @let ends = format!("M{:.1} {:.1}L{:.1} {:.1}", low.0, low.1, high.0, high.1);
                    (path(class, &ends))
                    circle class=(class) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="3" {}
                }
                @let right = spread.map_or(x, |[_, high]| high.0.max(x));
                (text((right + 8.0, y + 4.0), "start", &point.label))
            }
            @if line.connected { (path(class, &steps.collect::<String>())) }
        }
    }

    /// The position of a point on the page.
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let bottom = TOP + self.size.1;
        (self.x.place(x, (self.size.0, RIGHT)), self.y.place(y, (bottom, TOP)))
    }
}

fn path(class: &str, steps: &str) -> Markup {
    html! { path class=(class) d=(steps) {} }
}

fn text((x, y): (f64, f64), anchor: &str, words: &str) -> Markup {
    html! {
        @if !words.is_empty() {
            text x=(format!("{x:.1}")) y=(format!("{y:.1}")) text-anchor=(anchor) { (words) }
        }
    }
}
