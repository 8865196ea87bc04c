//! Conditions under which a run counts as failed, for CI: `p99>5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at =
            text.find(['>', '<']).ok_or("write a condition such as `p99>5ms`: it needs a `>` or a `<`")?;
        let (metric, rest) = text.split_at_checked(at).unwrap_or_default();
        let (order, limit) = order(rest);
        let metric = metric_of(metric.trim())?;
        let limit = limit_of(limit.trim(), &metric)?;
        Ok(Self { text: text.to_owned(), metric, order, limit })
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

fn metric_of(text: &str) -> Result<Metric, String> {
    let percentile = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
    if let Some(percentile) = percentile.filter(|percentile| (0.0..=100.0).contains(percentile)) {
        return Ok(Metric::Percentile(percentile));
    }
    match text {
        "median" => Ok(Metric::Percentile(50.0)),
        "min" => Ok(Metric::Percentile(0.0)),
        "max" => Ok(Metric::Percentile(100.0)),
        "mean" => Ok(Metric::Mean),
        "rate" => Ok(Metric::Rate),
        "errors" => Ok(Metric::Errors),
        "unexpected" => Ok(Metric::Unexpected),
        "allowed" => Ok(Metric::Answers(text.to_owned())),
        _ => responses_of(text).ok_or_else(|| {
            format!(
                "`{text}` is not a metric; use one of `p99`, `p99.9`, `mean`, `median`, `min`, `max`, `rate`, `errors`, \
                 `unexpected`, `status 403`, `allowed`, `denied 403`"
            )
        }),
    }
}

/// `status 403` selects the responses with this status, `denied 403` the denials of Check calls with it.
fn responses_of(text: &str) -> Option<Metric> {
    let (word, status) = text.split_once(' ')?;
    let status: u16 = status.trim().parse().ok()?;
    match word {
        "status" => Some(Metric::Status(status)),
        "denied" => Some(Metric::Answers(format!("denied {status}"))),
        _ => None,
    }
}

fn limit_of(text: &str, metric: &Metric) -> Result<Limit, String> {
    if matches!(metric, Metric::Percentile(_) | Metric::Mean) {
        return units::duration(text).map(Limit::Time).map_err(|error| format!("`{text}` is {error}"));
    }
    let (digits, of_all) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let number = digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let number = number.ok_or_else(|| format!("`{text}` is not a number such as `5` or `1%`"))?;
    match (of_all, metric) {
        (true, Metric::Rate) => Err("a rate is compared with a number, such as `rate<990`".to_owned()),
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
