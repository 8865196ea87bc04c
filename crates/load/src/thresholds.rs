//! Conditions under which a run counts as failed, for CI: `p99>5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::measured::Measured;
use crate::units;

/// A condition under which a run counts as failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    order: Order,
    limit: Limit,
}

#[derive(Clone, Debug, PartialEq)]
enum Figure {
    /// The corrected latency at this percentile.
    Percentile(f64),
    Mean,
    /// Answered requests per second.
    Rate,
    Errors,
    Unexpected,
    /// The responses with this name.
    Answers(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    More,
    MoreOrSame,
    Less,
    LessOrSame,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Time(Duration),
    Number(f64),
    /// In percent of all requests.
    Percent(f64),
}

impl Threshold {
    /// Whether the run fails this condition. A latency condition also fails without responses, because nothing proves
    /// the latency to be low.
    #[must_use]
    pub fn holds(&self, measured: &Measured) -> bool {
        let nothing = measured.corrected.is_empty();
        let (found, limit) = match (&self.figure, self.limit) {
            (Figure::Percentile(_) | Figure::Mean, _) if nothing => return true,
            (Figure::Percentile(at), limit) => (measured.corrected.value_at_percentile(*at) as f64, limit),
            (Figure::Mean, limit) => (measured.corrected.mean(), limit),
            (Figure::Rate, limit) => (measured.own.achieved, limit),
            (Figure::Errors, limit) => (measured.errors() as f64, limit),
            (Figure::Unexpected, limit) => (measured.unexpected as f64, limit),
            (Figure::Answers(name), limit) => {
                (measured.answers.get(name).map_or(0, |answers| answers.count) as f64, limit)
            }
        };
        let limit = match limit {
            Limit::Time(time) => time.as_secs_f64() * 1e9,
            Limit::Number(number) => number,
            Limit::Percent(percent) => measured.requests() as f64 * percent / 100.0,
        };
        self.order.is(found, limit)
    }
}

impl Order {
    fn is(self, found: f64, limit: f64) -> bool {
        match self {
            Self::More => found > limit,
            Self::MoreOrSame => found >= limit,
            Self::Less => found < limit,
            Self::LessOrSame => found <= limit,
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at =
            text.find(['>', '<']).ok_or("write a condition such as `p99>5ms`: it needs a `>` or a `<`")?;
        let (figure, rest) = text.split_at_checked(at).unwrap_or_default();
        let (order, limit) = order(rest);
        let figure = figure_of(figure.trim())?;
        let limit = limit_of(limit.trim(), &figure)?;
        Ok(Self { text: text.to_owned(), figure, order, limit })
    }
}

fn order(text: &str) -> (Order, &str) {
    for (sign, order) in
        [(">=", Order::MoreOrSame), ("<=", Order::LessOrSame), (">", Order::More), ("<", Order::Less)]
    {
        if let Some(rest) = text.strip_prefix(sign) {
            return (order, rest);
        }
    }
    (Order::More, text)
}

fn figure_of(text: &str) -> Result<Figure, String> {
    let percentile = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
    if let Some(percentile) = percentile.filter(|percentile| (0.0..=100.0).contains(percentile)) {
        return Ok(Figure::Percentile(percentile));
    }
    match text {
        "median" => Ok(Figure::Percentile(50.0)),
        "min" => Ok(Figure::Percentile(0.0)),
        "max" => Ok(Figure::Percentile(100.0)),
        "mean" => Ok(Figure::Mean),
        "rate" => Ok(Figure::Rate),
        "errors" => Ok(Figure::Errors),
        "unexpected" => Ok(Figure::Unexpected),
        "allowed" => Ok(Figure::Answers(text.to_owned())),
        _ => answers_of(text).ok_or_else(|| {
            format!(
                "`{text}` is no figure of a run; there are `p99`, `p99.9`, `mean`, `median`, `min`, `max`, `rate`, \
                 `errors`, `unexpected`, `status 403`, `allowed`, `denied 403`"
            )
        }),
    }
}

/// `status 403` selects the responses `403`, `denied 403` those of Check calls.
fn answers_of(text: &str) -> Option<Figure> {
    let (word, status) = text.split_once(' ')?;
    let status: u16 = status.trim().parse().ok()?;
    match word {
        "status" => Some(Figure::Answers(status.to_string())),
        "denied" => Some(Figure::Answers(format!("denied {status}"))),
        _ => None,
    }
}

fn limit_of(text: &str, figure: &Figure) -> Result<Limit, String> {
    if matches!(figure, Figure::Percentile(_) | Figure::Mean) {
        return units::duration(text).map(Limit::Time).map_err(|error| format!("`{text}` is {error}"));
    }
    let (digits, of_all) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let number = digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let number = number.ok_or_else(|| format!("`{text}` is not a number, as `5` or `1%`"))?;
    match (of_all, figure) {
        (true, Figure::Rate) => Err("a rate is compared with a number, as `rate<990`".to_owned()),
        (true, _) => Ok(Limit::Percent(number)),
        (false, _) => Ok(Limit::Number(number)),
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
