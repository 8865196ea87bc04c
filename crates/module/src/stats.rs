//! Statistics in Envoy: counters, a histogram and gauges. Envoy has one of each for all filters of the library. Names have
//! no labels, because a label costs ten times as much as the counter (220 ns beside 22 ns, in Envoy 1.40, November 2026).

use std::sync::Arc;
use std::time::Duration;

use authorizer::Reason;
use runtime::ShadowStats;
use runtime::counters::ErrorKind;
use runtime::status::{Facts, Status};

use crate::abi::{Counter, Filter, Gauge, Histogram, MetricError, Setup, Stream};

/// The statistics of a filter.
#[derive(Debug)]
pub(crate) struct Stats {
    allowed: Counter,
    denied: Box<[(&'static str, Counter)]>,
    errors: Box<[(ErrorKind, Counter)]>,
    time: Histogram,
    reloads: Gauge,
    failed_reloads: Gauge,
    failing: Gauge,
    warnings: Gauge,
    issuers_without_keys: Gauge,
    shadow: Box<[(&'static str, Gauge)]>,
    shadow_dropped: Gauge,
}

/// What the gauges show of a policy.
pub(crate) struct Observed {
    pub(crate) status: Arc<Status>,
    /// How its shadow policy compares, if it has one.
    pub(crate) shadow: Option<Arc<ShadowStats>>,
}

/// How often a worker sets the gauges, at most.
pub(crate) const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

impl Stats {
    /// Defines them.
    ///
    /// # Errors
    /// If Envoy does not define one.
    pub(crate) fn define(setup: &mut Setup<'_>) -> Result<Self, MetricError> {
        let mut counter = |name: &str| setup.counter(&format!("rolegate.{name}"), &[]);
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
        let mut gauge = |name: &str| setup.gauge(&format!("rolegate.{name}"), &[]);
        let mut shadow = Vec::new();
        for result in ShadowStats::RESULTS {
            shadow.push((result, gauge(&format!("shadow.{result}"))?));
        }
        Ok(Self {
            shadow: shadow.into(),
            shadow_dropped: gauge("shadow_dropped")?,
            allowed,
            denied: denied.into(),
            errors: errors.into(),
            reloads: gauge("policy_reloads")?,
            failed_reloads: gauge("policy_reloads_failed")?,
            failing: gauge("policy_failing")?,
            warnings: gauge("policy_warnings")?,
            issuers_without_keys: gauge("issuers_without_keys")?,
            time: setup.histogram("rolegate.authorization_ns", &[])?,
        })
    }

    /// Counts a request that was allowed, or denied for this reason.
    pub(crate) fn decided<F: Filter>(
        &self,
        stream: &Stream<'_, F>,
        reason: Option<&'static str>,
        latency: Duration,
    ) {
        let counter = match reason {
            None => Some(self.allowed),
            Some(reason) => self.denied.iter().find(|(name, _)| *name == reason).map(|(_, counter)| *counter),
        };
        if let Some(counter) = counter {
            stream.count(counter, &[], 1);
        }
        stream.record(self.time, &[], u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a request about which no decision could be made.
    pub(crate) fn failed<F: Filter>(&self, stream: &Stream<'_, F>, kind: ErrorKind) {
        if let Some((_, counter)) = self.errors.iter().find(|(each, _)| *each == kind) {
            stream.count(*counter, &[], 1);
        }
    }

    /// Sets the gauges to the sums over all policies in use: a route may have another one than its filter.
    pub(crate) fn set<F: Filter>(&self, stream: &Stream<'_, F>, policies: &[Observed]) {
        let all: Vec<_> = policies.iter().map(|policy| policy.status.facts()).collect();
        let set = |gauge, value: fn(&Facts) -> u64| stream.set_gauge(gauge, &[], all.iter().map(value).sum());
        set(self.reloads, |facts| facts.policy.reloads);
        set(self.failed_reloads, |facts| facts.policy.failures);
        set(self.failing, |facts| u64::from(facts.policy.failing_since.is_some()));
        set(self.warnings, |facts| number(facts.policy.warnings));
        set(self.issuers_without_keys, |facts| number(facts.issuers_without_keys().0.len()));
        let shadows: Vec<_> = policies.iter().filter_map(|policy| policy.shadow.as_deref()).collect();
        if !shadows.is_empty() {
            let results = || shadows.iter().flat_map(|shadow| shadow.results());
            for (result, gauge) in &self.shadow {
                let of_result = results().filter(|(each, _)| each == result);
                stream.set_gauge(*gauge, &[], of_result.map(|(_, count)| count).sum());
            }
            stream.set_gauge(self.shadow_dropped, &[], shadows.iter().map(|shadow| shadow.dropped()).sum());
        }
    }
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
