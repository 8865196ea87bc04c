//! The metrics on `/metrics`, in the text format of OpenMetrics 1.0. `docs/operations.md` lists them.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use runtime::clock;
use runtime::conditions::{Condition, Observed, conditions};
use runtime::counters::{CacheLookups, CacheSize};
use runtime::counters::{Distribution, Totals};
use runtime::hashing::HashingTotals;
use runtime::lines::Counts;
use runtime::status::{Facts, KeyFacts, PolicyFacts, Status};
use runtime::{Caches, OtlpCounts, ShadowStats};

pub(crate) mod histograms;
mod process;

/// The media type of the text that [`Metrics::render`] returns.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The sources of all metrics.
pub struct Metrics {
    /// The status of the policy and its keys.
    pub status: Arc<Status>,
    /// How the shadow policy compares, if there is one.
    pub shadow: Option<Arc<ShadowStats>>,
    /// The caches of the active policy.
    pub caches: Caches,
    /// Counters of the decision log.
    pub decisions: Arc<Counts>,
    /// Counters of what is exported over OTLP.
    pub otlp: OtlpCounts,
    /// Counters of the process log, if this project's own code writes it.
    pub logs: Option<Arc<Counts>>,
    /// The counters of what authorizes requests.
    pub authorization: Arc<dyn AuthorizationStats>,
}

/// The counters of what authorizes requests: the gRPC server, or the filter in Envoy.
pub trait AuthorizationStats: Send + Sync {
    /// The counters of the decisions.
    fn decisions(&self) -> Totals;

    /// The counters of password hashing.
    fn hashing(&self) -> HashingTotals;

    /// What has gone wrong since the start that only this one knows of, for the console.
    fn failure_counts(&self) -> Vec<FailureCount> {
        Vec::new()
    }

    /// When the certificate of TLS expires, as time since the Unix epoch; `None` without TLS.
    fn certificate_expiry(&self) -> Option<Duration> {
        None
    }

    /// Writes the metrics that only this one has.
    ///
    /// # Errors
    /// Those of the page.
    fn metrics(&self, page: &mut MetricsPage<'_>) -> fmt::Result;
}

/// Something that has gone wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// What, in the plural: `Failed accepts`.
    pub what: &'static str,
    /// What helps.
    pub hint: &'static str,
    /// How often since the start.
    pub count: u64,
}

impl Metrics {
    /// The page with all current values.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render(self: &Arc<Self>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry)?;
        Ok(rendered)
    }

    /// What is wrong now, the worst first.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let shadow = self.shadow.as_ref().map(|shadow| shadow.status.facts());
        let expiry = self.authorization.certificate_expiry();
        conditions(&Observed {
            facts: &self.status.facts(),
            shadow: shadow.as_ref(),
            decision_lines: &self.decisions,
            certificate: expiry.map(|at| at.saturating_sub(clock::now())),
        })
    }

    /// Latency histograms with narrow buckets, as JSON.
    pub(crate) fn histograms(&self) -> String {
        histograms::histograms(&self.authorization.decisions()).to_string()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage { encoder };
        let facts = self.status.facts();
        checks(&mut page, &self.authorization.decisions())?;
        credential_caches(&mut page, &self.caches)?;
        hashing(&mut page, &self.authorization.hashing())?;
        self.authorization.metrics(&mut page)?;
        page.gauge(
            "rolegate_ready",
            "Whether this process is ready for requests",
            u8::from(self.status.ready().is_ok()),
        )?;
        conditions_now(&mut page, &self.conditions())?;
        policy(&mut page, &facts.policy)?;
        bundle(&mut page, &facts)?;
        keys(&mut page, &facts)?;
        inventory(&mut page, &facts)?;
        if let Some(stats) = &self.shadow {
            shadow(&mut page, stats)?;
        }
        let mut decisions =
            lines(&mut page, "rolegate_decision_log_lines", "Lines of the decision log", &self.decisions)?;
        count(&mut decisions, &[("result", "sampled_out")], self.decisions.left_out())?;
        otlp(&mut page, &self.otlp)?;
        if let Some(logs) = &self.logs {
            lines(&mut page, "rolegate_log_lines", "Lines of the log", logs)?;
        }
        page.info("rolegate_build", "The version of rolegate", &[("version", env!("CARGO_PKG_VERSION"))])?;
        process::process(&mut page)
    }
}

/// What is wrong, in the words of `/readyz`.
fn conditions_now(page: &mut MetricsPage<'_>, conditions: &[Condition]) -> fmt::Result {
    if conditions.is_empty() {
        return Ok(());
    }
    let help = "Something that is wrong now, and what helps";
    let mut family = page.family("rolegate_condition", help, MetricType::Gauge)?;
    for Condition { name, severity, text, hint, .. } in conditions {
        let labels = [
            ("condition", *name),
            ("severity", severity.name()),
            ("text", text.as_str()),
            ("hint", hint.as_str()),
        ];
        family.encode_family(&labels)?.encode_gauge(&1_i64)?;
    }
    Ok(())
}

/// What is exported over OTLP, if anything is.
fn otlp(page: &mut MetricsPage<'_>, counts: &OtlpCounts) -> fmt::Result {
    let signals = [("traces", &counts.traces), ("logs", &counts.logs)];
    let signals = signals.into_iter().filter_map(|(signal, counts)| Some((signal, counts.as_ref()?)));
    let mut signals = signals.peekable();
    if signals.peek().is_none() {
        return Ok(());
    }
    let mut records = page.family("rolegate_otlp_records", "Records for a collector", MetricType::Counter)?;
    for (signal, counts) in signals {
        count(&mut records, &[("signal", signal), ("result", "exported")], counts.written())?;
        count(&mut records, &[("signal", signal), ("result", "dropped")], counts.dropped())?;
    }
    Ok(())
}

fn checks(page: &mut MetricsPage<'_>, totals: &Totals) -> fmt::Result {
    let mut checks = page.family("rolegate_checks", "Checks that got a decision", MetricType::Counter)?;
    count(&mut checks, &[("decision", "allowed"), ("reason", "")], totals.allowed)?;
    for (reason, number) in &totals.denied {
        count(&mut checks, &[("decision", "denied"), ("reason", reason)], *number)?;
    }
    let errors = totals.errors.iter().map(|(kind, number)| (kind.name(), *number));
    page.counters("rolegate_check_errors", "Checks that got an error", "kind", errors)?;
    let help = "Requests with credentials, by their scheme and whether they are valid";
    let mut credentials = page.family("rolegate_credentials", help, MetricType::Counter)?;
    for (scheme, result, number) in &totals.credentials {
        count(&mut credentials, &[("scheme", scheme), ("result", result)], *number)?;
    }
    let CacheLookups { local, shared, missed } = totals.lookups;
    let help = "Look-ups of verified credentials, in the cache of a worker and then in that of all workers";
    let mut lookups = page.family("rolegate_credential_cache_lookups", help, MetricType::Counter)?;
    for (cache, result, number) in [
        ("worker", "hit", local),
        ("worker", "miss", shared + missed),
        ("shared", "hit", shared),
        ("shared", "miss", missed),
    ] {
        count(&mut lookups, &[("cache", cache), ("result", result)], number)?;
    }
    durations(page, totals)?;
    page.counter("rolegate_tokens_verified", "Tokens verified", totals.tokens_verified)
}

fn credential_caches(page: &mut MetricsPage<'_>, caches: &Caches) -> fmt::Result {
    let sizes = caches.credentials();
    let mut gauges = |name, help, value: fn(&CacheSize) -> usize| {
        let mut family = page.family(name, help, MetricType::Gauge)?;
        ["basic", "bearer"].into_iter().zip(&sizes).try_for_each(|(scheme, size)| {
            let value = whole(value(size)).value();
            family.encode_family(&[("scheme", scheme)])?.encode_gauge(&value)
        })
    };
    let help = "Verified credentials in the cache of all workers";
    gauges("rolegate_credential_cache_entries", help, |size| size.entries)?;
    let help = "Memory that they take";
    gauges("rolegate_credential_cache_bytes", help, |size| size.bytes)?;
    let help = "Verified credentials that were evicted to make room for others";
    let evicted = ["basic", "bearer"].into_iter().zip(sizes.map(|size| size.evicted));
    page.counters("rolegate_credential_cache_evictions", help, "scheme", evicted)
}

fn hashing(page: &mut MetricsPage<'_>, hashing: &HashingTotals) -> fmt::Result {
    page.gauge("rolegate_hash_queue_length", "Passwords that wait to be hashed", hashing.queued)?;
    page.counter("rolegate_hashes", "Passwords hashed", hashing.done)?;
    page.counter("rolegate_hashes_shared", "Checks that shared the hash of an equal one", hashing.shared)?;
    page.counter(
        "rolegate_hashes_abandoned",
        "Verifications that left the queue because all of their checks were cancelled or too late",
        hashing.abandoned,
    )?;
    page.counter(
        "rolegate_hashes_unawaited",
        "Passwords hashed when all of their checks were cancelled or too late",
        hashing.unawaited,
    )?;
    page.counter(
        "rolegate_hashes_denied",
        "Password checks denied because the queue was full",
        hashing.denied,
    )
}

/// The histograms: checks in buckets from 1.024 µs to 1.07 s, evaluations in buckets from 64 ns to 1.05 ms.
fn durations(page: &mut MetricsPage<'_>, totals: &Totals) -> fmt::Result {
    let help = "From a complete request until its answer is passed to the transport";
    page.histogram("rolegate_check_duration_seconds", help, &totals.check, 10..=30)?;
    let help = "Time to decide a decoded request (parse, authenticate, evaluate), without waiting for a verification";
    page.histogram("rolegate_evaluation_duration_seconds", help, &totals.evaluation, 6..=20)
}

fn policy(page: &mut MetricsPage<'_>, policy: &PolicyFacts) -> fmt::Result {
    if let Some(revision) = &policy.revision {
        let keys = revision.keys.as_deref().unwrap_or_default();
        let labels = [("policy", &*revision.policy), ("keys", keys)];
        page.info("rolegate_policy", "The active policy and its fetched keys", &labels)?;
    }
    let loaded = policy.loaded.as_secs_f64();
    page.gauge("rolegate_policy_loaded_timestamp_seconds", "When the policy became active", loaded)?;
    reloads(page, "rolegate_policy_reloads", "Reloads of the policy", policy)?;
    let help = "For how long no newer policy could be loaded; 0 if all is well";
    page.gauge("rolegate_policy_failing_seconds", help, failing_seconds(policy))?;
    page.gauge(
        "rolegate_policy_stale",
        "1 if the policy counts as stale (max-policy-age)",
        u8::from(policy.stale),
    )?;
    page.gauge("rolegate_policy_warnings", "Warnings of the active policy", whole(policy.warnings))
}

fn reloads(page: &mut MetricsPage<'_>, name: &str, help: &str, policy: &PolicyFacts) -> fmt::Result {
    let results = [("ok", policy.reloads), ("failed", policy.failures), ("unchanged", policy.unchanged)];
    page.counters(name, help, "result", results.into_iter())
}

/// The bundle, if the policy is fetched as one.
fn bundle(page: &mut MetricsPage<'_>, facts: &Facts) -> fmt::Result {
    let Some(bundle) = &facts.bundle else { return Ok(()) };
    if let Some(revision) = bundle.revision {
        page.gauge("rolegate_bundle_revision", "The revision of the active policy bundle", revision)?;
    }
    let help = "Fetches of the policy bundle";
    page.counters("rolegate_bundle_fetches", help, "result", bundle.results())?;
    let help = "When the server last had the active policy bundle";
    page.gauge("rolegate_bundle_last_success_timestamp_seconds", help, bundle.fetched.as_secs_f64())?;
    let help = "For how long the server has not had an acceptable policy bundle";
    page.gauge("rolegate_bundle_failing_seconds", help, failing_seconds(&facts.policy))?;
    let help = "Whether a policy bundle must be signed";
    page.gauge("rolegate_bundle_must_be_signed", help, u8::from(bundle.must_be_signed))?;
    match bundle.cached {
        Some(cached) => {
            let help = "Whether the active policy bundle is in the cache";
            page.gauge("rolegate_bundle_cached", help, u8::from(cached))
        }
        None => Ok(()),
    }
}

fn failing_seconds(policy: &PolicyFacts) -> f64 {
    policy.failing_since.map_or(0.0, |since| since.elapsed().as_secs_f64())
}

fn keys(page: &mut MetricsPage<'_>, facts: &Facts) -> fmt::Result {
    if facts.keys.is_empty() {
        return Ok(());
    }
    let mut gauges = |name, help, value: fn(&KeyFacts) -> f64| -> fmt::Result {
        let mut family = page.family(name, help, MetricType::Gauge)?;
        for (url, issuer, keys) in issuers_keys(facts) {
            family.encode_family(&[("issuer", issuer), ("url", &url)])?.encode_gauge(&value(keys))?;
        }
        Ok(())
    };
    gauges("rolegate_keys_loaded", "Whether keys are active", |keys| f64::from(u8::from(keys.loaded)))?;
    gauges("rolegate_keys_stale", "Whether keys are too old", |keys| f64::from(u8::from(keys.stale)))?;
    let help = "When keys were fetched last";
    gauges("rolegate_keys_fetched_timestamp_seconds", help, |keys| keys.fetched.as_secs_f64())?;
    let mut fetches = page.family("rolegate_keys_fetches", "Fetches of keys", MetricType::Counter)?;
    for (url, issuer, keys) in issuers_keys(facts) {
        for (result, number) in [("ok", keys.fetches), ("failed", keys.failures), ("rejected", keys.rejected)]
        {
            count(&mut fetches, &[("issuer", issuer), ("url", &url), ("result", result)], number)?;
        }
    }
    Ok(())
}

/// The inventory of the search cluster, if it is fetched.
fn inventory(page: &mut MetricsPage<'_>, facts: &Facts) -> fmt::Result {
    let Some(inventory) = &facts.inventory else { return Ok(()) };
    let help = "Whether the inventory of the search cluster is active";
    page.gauge("rolegate_inventory_loaded", help, f64::from(u8::from(inventory.loaded)))?;
    let help = "When the inventory of the search cluster was fetched last";
    page.gauge("rolegate_inventory_fetched_timestamp_seconds", help, inventory.fetched.as_secs_f64())?;
    let help = "Fetches of the inventory of the search cluster";
    let mut fetches = page.family("rolegate_inventory_fetches", help, MetricType::Counter)?;
    let numbers =
        [("ok", inventory.fetches), ("failed", inventory.failures), ("rejected", inventory.rejected)];
    for (result, number) in numbers {
        count(&mut fetches, &[("result", result)], number)?;
    }
    Ok(())
}

fn shadow(page: &mut MetricsPage<'_>, stats: &ShadowStats) -> fmt::Result {
    let facts = stats.status.facts();
    let help = "Requests that the shadow policy decided as well, by how its decision compares";
    page.counters("rolegate_shadow_checks", help, "result", stats.results())?;
    let help = "Requests not compared because the queue was full";
    page.counter("rolegate_shadow_dropped", help, stats.dropped())?;
    if let Some(revision) = &facts.policy.revision {
        let keys = revision.keys.as_deref().unwrap_or_default();
        let labels = [("policy", &*revision.policy), ("keys", keys)];
        page.info("rolegate_shadow_policy", "The shadow policy and its fetched keys", &labels)?;
    }
    reloads(page, "rolegate_shadow_policy_reloads", "Reloads of the shadow policy", &facts.policy)?;
    let help = "For how long the files of the shadow policy have not loaded";
    page.gauge("rolegate_shadow_policy_failing_seconds", help, failing_seconds(&facts.policy))?;
    let help = "Issuers of the shadow policy whose keys are not fetched";
    page.gauge("rolegate_shadow_issuers_without_keys", help, whole(facts.issuers_without_keys().0.len()))?;
    let Some(bundle) = &facts.bundle else { return Ok(()) };
    if let Some(revision) = bundle.revision {
        page.gauge(
            "rolegate_shadow_bundle_revision",
            "The revision of the shadow policy's bundle",
            revision,
        )?;
    }
    let help = "Fetches of the shadow policy's bundle";
    page.counters("rolegate_shadow_bundle_fetches", help, "result", bundle.results())
}

/// The keys of each issuer, with their URL without its secrets. Two URLs may look the same without their secrets, and
/// Prometheus rejects a page with duplicate label sets. An issuer is defined only once, so the `issuer` label keeps
/// them apart. Issuers that share a URL have the same values.
fn issuers_keys(facts: &Facts) -> impl Iterator<Item = (String, &str, &KeyFacts)> {
    facts
        .keys
        .iter()
        .flat_map(|(url, keys)| keys.issuers.0.iter().map(move |issuer| (url.to_string(), &**issuer, keys)))
}

fn lines<'s>(
    page: &'s mut MetricsPage<'_>,
    name: &'s str,
    help: &str,
    counts: &Counts,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    let mut lines = page.family(name, help, MetricType::Counter)?;
    count(&mut lines, &[("result", "written")], counts.written())?;
    count(&mut lines, &[("result", "dropped")], counts.dropped())?;
    Ok(lines)
}

/// The page being written.
pub struct MetricsPage<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl MetricsPage<'_> {
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, None, kind)
    }

    /// Writes a gauge.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Gauge) -> fmt::Result {
        self.family(name, help, MetricType::Gauge)?.encode_gauge(&value.value())
    }

    /// Writes a counter.
    ///
    /// # Errors
    /// Never in practice.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.family(name, help, MetricType::Counter)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Writes a counter for each value of a label.
    ///
    /// # Errors
    /// Never in practice.
    pub fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, MetricType::Counter)?;
        values.into_iter().try_for_each(|(value, number)| count(&mut family, &[(label, value)], number))
    }

    fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.family(name, help, MetricType::Counter)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        durations: &Distribution,
        powers: RangeInclusive<u32>,
    ) -> fmt::Result {
        let seconds = |bound: Option<Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
        let coarse = durations.coarse(powers).into_iter();
        let buckets: Vec<(f64, u64)> = coarse.map(|(bound, number)| (seconds(bound), number)).collect();
        let (sum, count) = (durations.sum().as_secs_f64(), durations.count());
        let mut family = self.family(name, help, MetricType::Histogram)?;
        family.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn info<const N: usize>(&mut self, name: &str, help: &str, labels: &[(&str, &str); N]) -> fmt::Result
    where
        for<'l> [(&'l str, &'l str); N]: EncodeLabelSet,
    {
        self.family(name, help, MetricType::Info)?.encode_info(labels)
    }
}

fn count<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    value: u64,
) -> fmt::Result
where
    for<'a> [(&'a str, &'a str); N]: EncodeLabelSet,
{
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

impl fmt::Debug for MetricsPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsPage").finish_non_exhaustive()
    }
}

/// A value that a gauge can have.
pub trait Gauge {
    /// As the page has it.
    fn value(self) -> f64;
}

impl Gauge for f64 {
    fn value(self) -> f64 {
        self
    }
}

impl Gauge for u8 {
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Gauge for u64 {
    /// Exact up to 2⁵³, far above any value shown.
    fn value(self) -> f64 {
        self as f64
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
