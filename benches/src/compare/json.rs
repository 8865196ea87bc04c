//! The report of a comparison as JSON. Durations are in nanoseconds.

use hdrhistogram::Histogram;
use load::report::{PERCENTILES, percentile};
use serde_json::{Map, Value, json};

use super::Comparison;
use super::fortio::Beside;
use super::record::{Entry, Part, Round};

impl Comparison {
    /// All measurements, by round.
    pub(crate) fn json(&self) -> Value {
        let verdicts: Vec<Value> = self
            .evidence()
            .verdicts()
            .into_iter()
            .map(|verdict| {
                json!({"goal": verdict.goal, "what": verdict.what, "measured": verdict.measured, "limit": verdict.limit.to_string(), "reached": verdict.reached})
            })
            .collect();
        json!({
            "environment": self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>(),
            "pinning": self.pins.words(),
            "commands": self.commands,
            "interrupted": self.interrupted,
            "verdicts": verdicts,
            "scenarios": self.scenarios.iter().enumerate().map(|(at, scenario)| self.scenario(at, &scenario.name)).collect::<Vec<_>>(),
            "fortio": self.fortio.iter().map(Beside::json).collect::<Vec<_>>(),
            "reload": self.reload.as_ref().map(|reload| json!({
                "policy": reload.size, "requests": reload.requests, "failed": reload.failed, "unsent": reload.unsent, "resident": reload.resident,
                "quiet_p999": reload.quiet.p999, "reloading_p999": reload.reloading.p999, "took": reload.took,
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
        json!({"name": name, "main": self.scenarios.get(number).is_some_and(|scenario| scenario.main), "rates": rates})
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
    let percentiles: Map<String, Value> = PERCENTILES
        .into_iter()
        .filter_map(|percent| Some((percent.to_string(), json!(percentile(of, percent)?))))
        .collect();
    json!({"count": of.len(), "mean": of.mean(), "stddev": of.stdev(), "min": of.min(), "percentiles": percentiles})
}
