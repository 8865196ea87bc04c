//! Conditions under which a run counts as failed, for CI: `p99>5ms`.

use std::fmt;
use std::str::FromStr;

use crate::answer::Answer;
use crate::failed::Failed;
use crate::results::RunResults;
use crate::units;

/// A condition under which a run counts as failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    operator: &'static str,
    /// In nanoseconds, requests or requests per second.
    limit: f64,
    /// Whether the limit is in percent of all requests.
    is_percent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// The corrected latency at this percentile.
    Percentile(f64),
    Mean,
    /// Answered requests per second.
    Rate,
    Errors,
    Unexpected,
    /// Check calls with this answer.
    Answer(Answer),
    /// The responses with this status. A Check call counts as a response with the status that the
    /// client would get.
    Status(u16),
}

/// Longer operators first, because the first that occurs in a text is taken.
const OPERATORS: [&str; 4] = [">=", "<=", ">", "<"];

impl Threshold {
    /// Whether the condition is true, so that the run counts as failed. Without responses, a
    /// latency condition is always true, because nothing proves the latency to be low.
    pub fn is_true(&self, results: &RunResults) -> bool {
        let value = match self.metric {
            Metric::Percentile(_) | Metric::Mean if results.corrected.is_empty() => return true,
            Metric::Percentile(percent) => results.corrected.value_at_percentile(percent) as f64,
            Metric::Mean => results.corrected.mean(),
            Metric::Rate => results.generator.achieved,
            Metric::Errors => results.errors() as f64,
            Metric::Unexpected => results.unexpected as f64,
            Metric::Answer(answer) => results.count(|counted| *counted == answer) as f64,
            Metric::Status(status) => results.count(|answer| answer.status() == status) as f64,
        };
        let unit = if self.is_percent { results.requests() as f64 / 100.0 } else { 1.0 };
        let limit = self.limit * unit;
        match self.operator {
            ">" => value > limit,
            ">=" => value >= limit,
            "<" => value < limit,
            _ => value <= limit,
        }
    }

    /// Whether it counts answers that only Check calls have: `allowed`, `denied 403`.
    pub const fn is_of_check(&self) -> bool {
        matches!(self.metric, Metric::Answer(_))
    }
}

impl FromStr for Threshold {
    type Err = Failed;

    fn from_str(text: &str) -> Result<Self, Failed> {
        let mut parts = OPERATORS.into_iter().filter_map(|operator| {
            let (metric, limit) = text.split_once(operator)?;
            Some((metric, operator, limit))
        });
        let (metric, operator, limit) = parts.next().ok_or_else(|| {
            Failed::plan("write a condition such as `p99>5ms`: it needs a `>` or a `<`")
        })?;
        let metric = parse_metric(metric.trim())?;
        let (limit, is_percent) = parse_limit(limit.trim(), metric)?;
        Ok(Self { text: text.to_owned(), metric, operator, limit, is_percent })
    }
}

fn parse_metric(text: &str) -> Result<Metric, Failed> {
    let metric = match text {
        "median" => Some(Metric::Percentile(50.0)),
        "min" => Some(Metric::Percentile(0.0)),
        "max" => Some(Metric::Percentile(100.0)),
        "mean" => Some(Metric::Mean),
        "rate" => Some(Metric::Rate),
        "errors" => Some(Metric::Errors),
        "unexpected" => Some(Metric::Unexpected),
        "allowed" => Some(Metric::Answer(Answer::Allowed)),
        _ => parse_percentile(text).or_else(|| parse_status(text)),
    };
    metric.ok_or_else(|| {
        Failed::plan(format!(
            "`{text}` is not a metric; use one of `p99`, `p99.9`, `mean`, `median`, `min`, `max`, \
             `rate`, `errors`, `unexpected`, `status 403`, `allowed`, `denied 403`"
        ))
    })
}

fn parse_percentile(text: &str) -> Option<Metric> {
    let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(Metric::Percentile(percent))
}

fn parse_status(text: &str) -> Option<Metric> {
    let (word, status) = text.split_once(' ')?;
    let status: u16 = status.trim().parse().ok()?;
    match word {
        "status" => Some(Metric::Status(status)),
        "denied" => Some(Metric::Answer(Answer::Denied(status))),
        _ => None,
    }
}

/// The limit, and whether it is in percent.
fn parse_limit(text: &str, metric: Metric) -> Result<(f64, bool), Failed> {
    if matches!(metric, Metric::Percentile(_) | Metric::Mean) {
        let time = units::duration(text);
        let time = time.map_err(|error| Failed::plan(format!("`{text}` is {error}")))?;
        return Ok((time.as_secs_f64() * 1e9, false));
    }
    let percentage = text.strip_suffix('%');
    if percentage.is_some() && metric == Metric::Rate {
        return Err(Failed::plan("a rate is compared with a number, such as `rate<990`"));
    }
    let number = percentage.unwrap_or(text).trim().parse();
    match number.ok().filter(|number: &f64| number.is_finite() && *number >= 0.0) {
        Some(number) => Ok((number, percentage.is_some())),
        None => Err(Failed::plan(format!("`{text}` is not a number such as `5` or `1%`"))),
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
