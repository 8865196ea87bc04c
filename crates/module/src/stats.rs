//! Statistics in Envoy: counters, a histogram and gauges, which all filters of the library share.
//! They have no labels: with two labels, counting takes Envoy 220 ns instead of 22 (Envoy 1.40,
//! November 2026).

use std::sync::Arc;
use std::time::Duration;

use authorizer::Reason;
use runtime::ShadowStats;
use runtime::counters::{CacheSize, ErrorKind};
use runtime::status::Facts;

use crate::abi::{Counter, Filter, Gauge, Histogram, MetricError, Setup, Stream};
use crate::shared_policy::SharedPolicy;

/// The statistics of a filter.
#[derive(Debug)]
pub(crate) struct Stats {
    allowed: Counter,
    denied: Box<[(&'static str, Counter)]>,
    errors: Box<[(ErrorKind, Counter)]>,
    time: Histogram,
    /// The gauges of [`FACTS`].
    facts: Box<[Gauge]>,
    /// The gauges of [`COUNTS`].
    counts: Box<[Gauge]>,
    policy_loaded: Gauge,
    keys_fetched: Gauge,
    hash_queue: Gauge,
    /// The gauges of [`ShadowStats::RESULTS`].
    shadow: Box<[Gauge]>,
    shadow_dropped: Gauge,
}

/// A gauge, and how its value is read.
type NamedGauge<T> = (&'static str, fn(&T) -> u64);

/// Gauges that show a sum over the facts of all policies.
const FACTS: [NamedGauge<Facts>; 5] = [
    ("policy_reloads", |facts| facts.policy.reloads),
    ("policy_reloads_failed", |facts| facts.policy.failures),
    ("policy_failing", |facts| u64::from(facts.policy.failing_since.is_some())),
    ("policy_warnings", |facts| number(facts.policy.warnings)),
    ("issuers_without_keys", |facts| number(facts.issuers_without_keys().0.len())),
];

/// Gauges that show a sum over all policies, and can be read without waiting.
const COUNTS: [NamedGauge<SharedPolicy>; 5] = [
    ("credential_cache_entries", |policy| number(cached(policy).entries)),
    ("credential_cache_bytes", |policy| number(cached(policy).bytes)),
    ("credential_cache_evictions", |policy| cached(policy).evicted),
    ("decision_log_written", |policy| policy.lines.written()),
    ("decision_log_dropped", |policy| policy.lines.dropped()),
];

/// How often a worker sets the gauges, at most.
pub(crate) const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

impl Stats {
    /// Defines the metrics.
    ///
    /// # Errors
    /// If Envoy does not define a metric.
    pub(crate) fn define(setup: &mut Setup<'_>) -> Result<Self, MetricError> {
        let mut counter = |name: &str| setup.counter(&format!("rolegate.{name}"));
        let mut denied = Vec::new();
        for reason in Reason::all().map(Reason::name) {
            if !denied.iter().any(|(name, _)| *name == reason) {
                denied.push((reason, counter(&format!("denied.{reason}"))?));
            }
        }
        let mut errors = Vec::new();
        for kind in ErrorKind::ALL {
            errors.push((kind, counter(&format!("error.{}", kind.name()))?));
        }
        let allowed = counter("allowed")?;
        let mut gauge = |name: &str| setup.gauge(&format!("rolegate.{name}"));
        Ok(Self {
            allowed,
            denied: denied.into(),
            errors: errors.into(),
            facts: FACTS.iter().map(|(name, _)| gauge(name)).collect::<Result<_, _>>()?,
            counts: COUNTS.iter().map(|(name, _)| gauge(name)).collect::<Result<_, _>>()?,
            policy_loaded: gauge("policy_loaded_timestamp_seconds")?,
            keys_fetched: gauge("keys_fetched_timestamp_seconds")?,
            hash_queue: gauge("hash_queue_length")?,
            shadow: ShadowStats::RESULTS
                .iter()
                .map(|result| gauge(&format!("shadow.{result}")))
                .collect::<Result<_, _>>()?,
            shadow_dropped: gauge("shadow_dropped")?,
            time: setup.histogram("rolegate.authorization_ns")?,
        })
    }

    /// Counts a request that was allowed (`None`) or denied for this reason, and records how long
    /// the decision took.
    pub(crate) fn decided<F: Filter>(
        &self,
        stream: &Stream<'_, F>,
        reason: Option<&'static str>,
        latency: Duration,
    ) {
        let counter = match reason {
            None => Some(self.allowed),
            Some(reason) => {
                self.denied.iter().find(|(name, _)| *name == reason).map(|(_, counter)| *counter)
            }
        };
        if let Some(counter) = counter {
            stream.count(counter, 1);
        }
        stream.record(self.time, u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a request about which no decision could be made.
    pub(crate) fn failed<F: Filter>(&self, stream: &Stream<'_, F>, kind: ErrorKind) {
        if let Some((_, counter)) = self.errors.iter().find(|(each, _)| *each == kind) {
            stream.count(*counter, 1);
        }
    }

    /// Sets the gauges from all policies in use, because a route may have another policy than its
    /// filter. A number is the sum over the policies, a time the earliest of theirs.
    ///
    /// If another thread uses the facts or the hash queue of a policy, their gauges stay as they
    /// are: that thread may have a lower priority, and this worker must not wait for it. Returns
    /// whether all gauges are set.
    #[must_use]
    pub(crate) fn set_gauges<F: Filter>(
        &self,
        stream: &Stream<'_, F>,
        policies: &[Arc<SharedPolicy>],
    ) -> bool {
        for (gauge, (_, count)) in self.counts.iter().zip(COUNTS) {
            stream.set_gauge(*gauge, policies.iter().map(|policy| count(policy)).sum());
        }
        let shadows: Vec<_> =
            policies.iter().filter_map(|policy| policy.shadow.as_deref()).collect();
        if !shadows.is_empty() {
            for (index, gauge) in self.shadow.iter().enumerate() {
                let counts = shadows.iter().filter_map(|shadow| shadow.results().nth(index));
                stream.set_gauge(*gauge, counts.map(|(_, count)| count).sum());
            }
            stream.set_gauge(
                self.shadow_dropped,
                shadows.iter().map(|shadow| shadow.dropped()).sum(),
            );
        }
        let queued: Option<u64> =
            policies.iter().map(|policy| Some(policy.hashing.try_totals()?.queued)).sum();
        if let Some(queued) = queued {
            stream.set_gauge(self.hash_queue, queued);
        }
        let facts =
            policies.iter().map(|policy| policy.status.try_facts()).collect::<Option<Vec<_>>>();
        if let Some(facts) = &facts {
            self.set_facts(stream, facts);
        }
        queued.is_some() && facts.is_some()
    }

    fn set_facts<F: Filter>(&self, stream: &Stream<'_, F>, facts: &[Facts]) {
        for (gauge, (_, value)) in self.facts.iter().zip(FACTS) {
            stream.set_gauge(*gauge, facts.iter().map(value).sum());
        }
        let loaded = facts.iter().map(|facts| facts.policy.loaded).min();
        stream.set_gauge(self.policy_loaded, loaded.unwrap_or_default().as_secs());
        let fetched =
            facts.iter().flat_map(|facts| facts.keys.values()).map(|keys| keys.fetched).min();
        stream.set_gauge(self.keys_fetched, fetched.unwrap_or_default().as_secs());
    }
}

/// The size of the caches of verified credentials, Basic and tokens together.
fn cached(policy: &SharedPolicy) -> CacheSize {
    let [mut size, tokens] = policy.caches.credentials();
    size += tokens;
    size
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::fake::Host;
    use crate::filter::Authorization;

    #[test]
    fn the_table_of_statistics_is_what_is_defined() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, "version: 1\nroles: {}\n").unwrap();
        let config = format!(r#"{{"policy": "{}", "decision-log": "off"}}"#, policy.display());
        let host = Host::<Authorization>::load(b"rolegate", config.as_bytes()).unwrap();
        let kinds = |name: &str| match name.split_once('.') {
            Some(("denied", _)) => "denied.REASON".to_owned(),
            Some(("error", _)) => "error.KIND".to_owned(),
            Some(("shadow", _)) => "shadow.RESULT".to_owned(),
            _ => name.to_owned(),
        };
        let names = host.metric_names();
        let defined: BTreeSet<_> =
            names.iter().map(|name| kinds(name.strip_prefix("rolegate.").unwrap())).collect();
        let rows = testbed::pages::table(
            include_str!("../../../deploy/module/README.md"),
            "| name | kind |",
        );
        let listed =
            rows.iter().flat_map(|row| testbed::pages::names(row[0])).map(str::to_owned).collect();
        assert_eq!(defined, listed);
    }
}
