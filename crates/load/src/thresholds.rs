//! Conditions under which a run counts as failed, for CI: `p99>5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::failed::Failed;
use crate::results::RunResults;
use crate::units;

/// A condition under which a run counts as failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    order: Order,
    limit: Limit,
}

#[derive(Clone, Debug, PartialEq)]
enum Metric {
    /// The corrected latency at this percentile.
    Percentile(f64),
    Mean,
    /// Answered requests per second.
    Rate,
    Errors,
    Unexpected,
    /// The responses of Check calls with this name.
    Answers(String),
    /// The responses with this status; of Check calls, those that the client would get with it.
    Status(u16),
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
    pub fn is_true(&self, results: &RunResults) -> bool {
        let nothing = results.corrected.is_empty();
        let (found, limit) = match (&self.metric, self.limit) {
            (Metric::Percentile(_) | Metric::Mean, _) if nothing => return true,
            (Metric::Percentile(at), limit) => (results.corrected.value_at_percentile(*at) as f64, limit),
            (Metric::Mean, limit) => (results.corrected.mean(), limit),
            (Metric::Rate, limit) => (results.generator.achieved, limit),
            (Metric::Errors, limit) => (results.errors() as f64, limit),
            (Metric::Unexpected, limit) => (results.unexpected as f64, limit),
            (Metric::Answers(name), limit) => (counted(results, &[name]) as f64, limit),
            (Metric::Status(status), limit) => {
                let names = [&*status.to_string(), &*format!("denied {status}")];
                let allowed = if *status == 200 { counted(results, &["allowed"]) } else { 0 };
                ((counted(results, &names) + allowed) as f64, limit)
            }
        };
        let limit = match limit {
            Limit::Time(time) => time.as_secs_f64() * 1e9,
            Limit::Number(number) => number,
            Limit::Percent(percent) => results.requests() as f64 * percent / 100.0,
        };
        match self.order {
            Order::More => found > limit,
            Order::MoreOrSame => found >= limit,
            Order::Less => found < limit,
            Order::LessOrSame => found <= limit,
        }
    }

    /// Whether only Check calls have what this counts: `allowed`, `denied 403`.
    #[must_use]
    pub const fn is_of_check(&self) -> bool {
        matches!(self.metric, Metric::Answers(_))
    }
}

fn counted(results: &RunResults, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| results.responses.get(*name)).map(|responses| responses.count).sum()
}

impl FromStr for Threshold {
    type Err = Failed;

    fn from_str(text: &str) -> Result<Self, Failed> {
        let at = text
            .find(['>', '<'])
            .ok_or_else(|| Failed::plan("write a condition such as `p99>5ms`: it needs a `>` or a `<`"))?;
        let (metric, rest) = text.split_at_checked(at).unwrap_or_default();
        let (order, limit) = parse_order(rest);
        let metric = parse_metric(metric.trim())?;
        let limit = parse_limit(limit.trim(), &metric)?;
        Ok(Self { text: text.to_owned(), metric, order, limit })
    }
}

fn parse_order(text: &str) -> (Order, &str) {
    for (sign, order) in
        [(">=", Order::MoreOrSame), ("<=", Order::LessOrSame), (">", Order::More), ("<", Order::Less)]
    {
        if let Some(rest) = text.strip_prefix(sign) {
            return (order, rest);
        }
    }
    (Order::More, text)
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
        "allowed" => Some(Metric::Answers(text.to_owned())),
        _ => parse_percentile(text).or_else(|| parse_responses(text)),
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

/// `status 403` selects the responses with this status, `denied 403` the denials of Check calls with it.
fn parse_responses(text: &str) -> Option<Metric> {
    let (word, status) = text.split_once(' ')?;
    let status: u16 = status.trim().parse().ok()?;
    match word {
        "status" => Some(Metric::Status(status)),
        "denied" => Some(Metric::Answers(format!("denied {status}"))),
        _ => None,
    }
}

fn parse_limit(text: &str, metric: &Metric) -> Result<Limit, Failed> {
    if matches!(metric, Metric::Percentile(_) | Metric::Mean) {
        let time = units::duration(text);
        return time.map(Limit::Time).map_err(|error| Failed::plan(format!("`{text}` is {error}")));
    }
    let (digits, is_percent) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let number = digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    match (number, is_percent, metric) {
        (None, ..) => Err(Failed::plan(format!("`{text}` is not a number such as `5` or `1%`"))),
        (_, true, Metric::Rate) => Err(Failed::plan("a rate is compared with a number, such as `rate<990`")),
        (Some(number), true, _) => Ok(Limit::Percent(number)),
        (Some(number), false, _) => Ok(Limit::Number(number)),
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
