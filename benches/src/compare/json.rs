//! The report of a comparison as JSON. Durations are in nanoseconds.

use hdrhistogram::Histogram;
use load::report::{PERCENTILES, percentile};
use serde_json::{Map, Value, json};

use super::Comparison;
use super::record::{Entry, Part, Round};

impl Comparison {
    /// All measurements, by round.
    pub(crate) fn json(&self) -> Value {
        let verdicts: Vec<Value> = self
            .evidence()
            .verdicts()
            .into_iter()
            .map(|it| {
                json!({"goal": it.goal, "what": it.what, "measured": it.measured, "limit": it.limit.to_string(), "reached": it.reached})
            })
            .collect();
        json!({
            "environment": self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>(),
            "pinning": self.pins.words(),
            "commands": self.commands,
            "interrupted": self.interrupted,
            "verdicts": verdicts,
            "scenarios": self.scenarios.iter().enumerate().map(|(at, it)| self.scenario(at, &it.name)).collect::<Vec<_>>(),
            "reload": self.reload.as_ref().map(|it| json!({
                "policy": it.size, "requests": it.requests, "failed": it.failed, "unsent": it.unsent, "resident": it.resident,
                "quiet_p999": it.quiet.p999, "reloading_p999": it.reloading.p999, "took": it.took,
            })),
            "ready": self.ready,
        })
    }

    fn scenario(&self, number: usize, name: &str) -> Value {
        let rates = self.schedule.rates.iter().enumerate();
        let rates: Vec<Value> = rates
            .filter_map(|(at, rate)| Some((rate, self.record.at(number, at)?)))
            .map(|(rate, entry)| cell(&rate.to_string(), entry))
            .collect();
        json!({"name": name, "main": self.scenarios.get(number).is_some_and(|it| it.main), "rates": rates})
    }
}

fn cell(rate: &str, of: &Entry) -> Value {
    json!({
        "rate": rate,
        "latency": distribution(&of.latency),
        "handler": distribution(&of.handler),
        "evaluation": distribution(&of.evaluation),
        "rounds": of.rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

fn round(of: &Round) -> Value {
    let [app, envoy, server] = of.parts.map(part);
    json!({
        "round": of.number, "achieved": of.achieved, "mean": of.latency.mean, "p50": of.latency.p50, "p90": of.latency.p90,
        "p99": of.latency.p99, "app": app, "envoy": envoy, "server": server, "generator_cores": of.generator,
        "wrong": of.wrong, "limited": of.limited,
    })
}

fn part(of: Part) -> Value {
    json!({"cores": of.cores, "resident": of.resident})
}

fn distribution(of: &Histogram<u64>) -> Value {
    if of.is_empty() {
        return Value::Null;
    }
    let percentiles: Map<String, Value> =
        PERCENTILES.into_iter().filter_map(|it| Some((it.to_string(), json!(percentile(of, it)?)))).collect();
    json!({"count": of.len(), "mean": of.mean(), "stddev": of.stdev(), "min": of.min(), "percentiles": percentiles})
}
