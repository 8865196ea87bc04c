//! Percentile curves as SVG: latency over 1/(1−p), both logarithmic, so that the tail gets as much space as the rest.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use hdrhistogram::Histogram;

use super::{page, units};

/// One line of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve<'a> {
    /// Its name in the legend.
    pub(crate) name: &'a str,
    /// Its values.
    pub(crate) of: &'a Histogram<u64>,
}

/// The size of a chart, and the position of the curves in it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 884.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 366.0;

/// The points of a curve between 0 % and the last percentile.
const POINTS: u32 = 160;

/// The percentiles that are labelled, if reached.
const MARKS: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// The legend of a standalone chart: the height of its rows and the width of an entry.
const ROW: f64 = 20.0;
const ENTRY: f64 = 270.0;

/// The same chart as a separate file that includes its title and legend; empty without curves.
#[must_use]
pub(crate) fn file(title: &str, curves: &[Curve<'_>]) -> String {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|it| !it.of.is_empty()).collect();
    let Some(scale) = Scale::of(&curves) else { return String::new() };
    let (title, style) = (page::escape(title), page::STYLE);
    let mut text = String::new();
    let mut legend = Legend::below(HEIGHT + 8.0);
    for (number, curve) in curves.iter().enumerate() {
        let colour = number % COLOURS;
        let _ = writeln!(text, "<path class=\"curve c{colour}\" d=\"{}\"/>", scale.path(curve.of));
        let (x, y) = legend.place();
        let _ = writeln!(text, "<path class=\"curve c{colour}\" d=\"M{x} {}h24\"/>", y - 4.0);
        let _ = writeln!(text, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 32.0, page::escape(curve.name));
    }
    let (grid, height) = (scale.grid(), legend.end());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -28 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>\n{style}</style>\n<rect y=\"-28\" width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>\n\
         <text x=\"{LEFT}\" y=\"-8\">{title}</text>\n{grid}{text}</svg>\n",
        height + 28.0
    )
}

/// The positions of legend entries, in columns.
struct Legend {
    x: f64,
    y: f64,
}

impl Legend {
    const fn below(y: f64) -> Self {
        Self { x: LEFT, y }
    }

    fn place(&mut self) -> (f64, f64) {
        if self.x + ENTRY > WIDTH {
            (self.x, self.y) = (LEFT, self.y + ROW);
        }
        let place = (self.x, self.y);
        self.x += ENTRY;
        place
    }

    fn end(&self) -> f64 {
        self.y + ROW
    }
}

/// A chart with these curves and a legend below it. Empty curves are omitted.
#[must_use]
pub(crate) fn curves(title: &str, curves: &[Curve<'_>]) -> String {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|it| !it.of.is_empty()).collect();
    let Some(scale) = Scale::of(&curves) else { return String::new() };
    let mut text = format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        page::escape(title)
    );
    text.push_str(&scale.grid());
    for (number, curve) in curves.iter().enumerate() {
        let _ =
            writeln!(text, "<path class=\"curve c{}\" d=\"{}\"/>", number % COLOURS, scale.path(curve.of));
    }
    text.push_str("</svg>\n<figcaption>");
    let _ = write!(text, "<strong>{}</strong> ", page::escape(title));
    for (number, curve) in curves.iter().enumerate() {
        let _ = write!(
            text,
            "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"curve c{}\" \
             d=\"M0 4H24\"/></svg>{}</span> ",
            number % COLOURS,
            page::escape(curve.name)
        );
    }
    text.push_str("</figcaption>\n</figure>\n");
    text
}

/// The number of colours on the page. Each line also has its own dashes.
const COLOURS: usize = 8;

/// Maps values to positions in the chart.
struct Scale {
    /// The largest 1/(1−p) in the chart.
    last: f64,
    /// The values at the bottom and the top, in nanoseconds.
    values: RangeInclusive<f64>,
}

impl Scale {
    /// A scale for all these curves; `None` without curves.
    fn of(curves: &[&Curve<'_>]) -> Option<Self> {
        let most = curves.iter().map(|it| it.of.len()).max()?;
        let low = curves.iter().map(|it| it.of.min().max(1)).min()?;
        let high = curves.iter().map(|it| it.of.max().max(2)).max()?;
        let (low, high) = (nice_below(units::float(low)), nice_above(units::float(high)));
        Some(Self { last: units::float(most).max(10.0), values: low..=high })
    }

    fn x(&self, distance: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * distance.max(1.0).log10() / self.last.log10()
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = (self.values.start().log10(), self.values.end().log10());
        BOTTOM - (BOTTOM - TOP) * (value.max(1.0).log10() - low) / (high - low)
    }

    /// The curve, up to the percentile for which there is still one request.
    fn path(&self, of: &Histogram<u64>) -> String {
        let end = units::float(of.len()).max(1.0).log10();
        let mut text = String::new();
        for point in 0..=POINTS {
            let distance = 10_f64.powf(end * f64::from(point) / f64::from(POINTS));
            let value = of.value_at_quantile(1.0 - 1.0 / distance);
            let letter = if point == 0 { 'M' } else { 'L' };
            let _ = write!(text, "{letter}{:.1} {:.1}", self.x(distance), self.y(units::float(value)));
        }
        text
    }

    /// Grid lines and their labels for both axes.
    fn grid(&self) -> String {
        let mut text = String::new();
        for percent in MARKS {
            let distance = 100.0 / (100.0 - percent);
            if distance > self.last * 1.001 {
                continue;
            }
            let x = self.x(distance);
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{percent} %</text>",
                BOTTOM + 20.0
            );
        }
        for value in self.marks() {
            let y = self.y(value);
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                units::duration(value)
            );
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        let _ = writeln!(
            text,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">percentile, by 1/(1−p)</text>",
            BOTTOM + 42.0
        );
        text
    }

    /// 1, 2, 5, 10, … between the ends; fewer if they would be too close together.
    fn marks(&self) -> Vec<f64> {
        let decades = (self.values.end() / self.values.start()).log10();
        let steps: &[f64] = if decades <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut marks = Vec::new();
        let mut decade = 1.0;
        while decade <= *self.values.end() {
            marks.extend(steps.iter().map(|it| it * decade).filter(|it| self.values.contains(it)));
            decade *= 10.0;
        }
        marks
    }
}

/// The next of 1, 2, 5, 10, … at or above a value.
fn nice_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|it| it * decade).find(|it| *it >= value).unwrap_or(10.0 * decade)
}

/// The next of 1, 2, 5, 10, … at or below a value.
fn nice_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|it| it * decade).find(|it| *it <= value).unwrap_or(decade)
}
