//! The metrics on `/metrics`, in the text format of OpenMetrics 1.0. `docs/reference/metrics.md`
//! lists them.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use runtime::clock;
use runtime::conditions::{Condition, Observed, conditions};
use runtime::counters::{CacheLookups, CacheSize, Distribution, Totals};
use runtime::hashing::HashingTotals;
use runtime::lines::Counts;
use runtime::status::{Facts, KeyFacts, PolicyFacts, Status};
use runtime::{Caches, OtlpCounts, ShadowStats};
use serde_json::{Value, json};

mod process;

/// The media type of the text that [`PageSources::render_metrics`] returns.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The sources of the admin pages.
pub struct PageSources {
    /// The status of the policy and its keys.
    pub status: Arc<Status>,
    /// The comparison with the shadow policy, if any.
    pub shadow: Option<Arc<ShadowStats>>,
    /// The caches of the active policy.
    pub caches: Caches,
    /// Counters of the decision log.
    pub decisions: Arc<Counts>,
    /// Counters of the export over OTLP.
    pub otlp: OtlpCounts,
    /// Counters of the process log; `None` inside Envoy, which writes the log itself.
    pub logs: Option<Arc<Counts>>,
    /// The counters of checks: those of the gRPC server, or those of the filter in Envoy.
    pub checks: Arc<dyn AuthorizationStats>,
}

/// The counters of the gRPC server, or of the filter in Envoy.
pub trait AuthorizationStats: Send + Sync {
    /// The counters of the decisions.
    fn decisions(&self) -> Totals;

    /// The counters of password hashing.
    fn hashing(&self) -> HashingTotals;

    /// Failures since the start, for the console.
    fn failure_counts(&self) -> Vec<FailureCount> {
        Vec::new()
    }

    /// When the certificate of TLS expires, as time since the Unix epoch; `None` without TLS.
    fn certificate_expiry(&self) -> Option<Duration> {
        None
    }

    /// Writes further metrics.
    fn write_metrics(&self, _page: &mut MetricsPage<'_>) {}
}

/// A kind of failure, and how often it occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// The failure, in the plural: `Failed accepts`.
    pub what: &'static str,
    /// The remedy.
    pub hint: &'static str,
    /// How often since the start.
    pub count: u64,
}

impl PageSources {
    /// The page of metrics, with all current values.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render_metrics(self: &Arc<Self>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry)?;
        Ok(rendered)
    }

    /// What is wrong now with the process or its surroundings, each as a [`Condition`], the worst
    /// first. Empty if all is well.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let shadow = self.shadow.as_ref().map(|shadow| shadow.status.facts());
        let expiry = self.checks.certificate_expiry();
        conditions(&Observed {
            facts: &self.status.facts(),
            shadow: shadow.as_ref(),
            decision_lines: &self.decisions,
            certificate: expiry.map(|at| at.saturating_sub(clock::now())),
        })
    }

    /// Latency histograms as JSON. Their buckets are narrow, so that a reader can compute any
    /// percentile. All values count from the start. A reader that wants those of an interval
    /// subtracts the buckets of an earlier page. The duration of a check is called `handler`
    /// because existing readers know it by that name.
    pub(crate) fn histograms(&self) -> String {
        let totals = self.checks.decisions();
        let (handler, evaluation) =
            (json_histogram(&totals.check), json_histogram(&totals.evaluation));
        json!({ "handler": handler, "evaluation": evaluation }).to_string()
    }
}

impl fmt::Debug for PageSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSources").finish_non_exhaustive()
    }
}

impl Collector for PageSources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage { encoder, result: Ok(()) };
        let facts = self.status.facts();
        checks(&mut page, &self.checks.decisions());
        credential_caches(&mut page, &self.caches);
        hashing(&mut page, &self.checks.hashing());
        self.checks.write_metrics(&mut page);
        let help = "Whether this process is ready for requests";
        page.gauge("rolegate_ready", help, self.status.ready().is_ok().into());
        conditions_now(&mut page, &self.conditions());
        policy(&mut page, &facts.policy);
        bundle(&mut page, &facts);
        keys(&mut page, &facts);
        inventory(&mut page, &facts);
        if let Some(stats) = &self.shadow {
            shadow(&mut page, stats);
        }
        let decisions = &self.decisions;
        page.counters(
            "rolegate_decision_log_lines",
            "Lines of the decision log",
            "result",
            [
                ("written", decisions.written()),
                ("dropped", decisions.dropped()),
                ("sampled_out", decisions.left_out()),
            ],
        );
        otlp(&mut page, &self.otlp);
        if let Some(logs) = &self.logs {
            let lines = [("written", logs.written()), ("dropped", logs.dropped())];
            let help = "Lines of the log on standard error";
            page.counters("rolegate_log_lines", help, "result", lines);
        }
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.info("rolegate_build", "The version of rolegate", &version);
        process::process(&mut page);
        page.result
    }
}

/// Writes the given conditions, in the words of `/readyz`.
fn conditions_now(page: &mut MetricsPage<'_>, conditions: &[Condition]) {
    let series = conditions.iter().map(|Condition { name, severity, text, hint, .. }| {
        ([("condition", *name), ("severity", severity.name()), ("text", text), ("hint", hint)], 1.0)
    });
    let help = "1 for each condition that `/readyz` reports; absent if all is well";
    page.gauges("rolegate_condition", help, series);
}

/// The export over OTLP, if it is on.
fn otlp(page: &mut MetricsPage<'_>, counts: &OtlpCounts) {
    let signals = [("traces", &counts.traces), ("logs", &counts.logs)];
    let series =
        signals.into_iter().filter_map(|(signal, counts)| Some((signal, counts.as_ref()?)));
    let series = series.flat_map(|(signal, counts)| {
        [("exported", counts.written()), ("dropped", counts.dropped())]
            .map(|(result, number)| ([("signal", signal), ("result", result)], number))
    });
    let help = "Spans and log records for a collector";
    page.labelled_counters("rolegate_otlp_records", help, series);
}

fn checks(page: &mut MetricsPage<'_>, totals: &Totals) {
    let denied = totals.denied.iter().map(|(reason, number)| ("denied", *reason, *number));
    let decisions = std::iter::once(("allowed", "", totals.allowed)).chain(denied);
    let series = decisions
        .map(|(decision, reason, number)| ([("decision", decision), ("reason", reason)], number));
    page.labelled_counters("rolegate_checks", "Checks that got a decision", series);
    let errors = totals.errors.iter().map(|(kind, number)| (kind.name(), *number));
    page.counters(
        "rolegate_check_errors",
        "Checks that got a gRPC error; inside Envoy requests that got 503",
        "kind",
        errors,
    );
    let credentials = totals.credentials.iter();
    let series = credentials
        .map(|(scheme, result, number)| ([("scheme", *scheme), ("result", *result)], *number));
    let help = "Requests with credentials, by their scheme and whether they are valid";
    page.labelled_counters("rolegate_credentials", help, series);
    let CacheLookups { local, shared, missed } = totals.lookups;
    let help = "Look-ups of verified credentials, in the cache of a worker and then in that of all \
                workers";
    page.labelled_counters(
        "rolegate_credential_cache_lookups",
        help,
        [
            ([("cache", "worker"), ("result", "hit")], local),
            ([("cache", "worker"), ("result", "miss")], shared + missed),
            ([("cache", "shared"), ("result", "hit")], shared),
            ([("cache", "shared"), ("result", "miss")], missed),
        ],
    );
    // The bounds of the buckets are powers of two, in nanoseconds: 2¹⁰ to 2³⁰ (1.024 µs to 1.07 s)
    // and 2⁶ to 2²⁰ (64 ns to 1.05 ms).
    let help = "From a complete request until its answer is passed to the transport";
    page.histogram("rolegate_check_duration_seconds", help, &totals.check, 10..=30);
    let help = "Time to decide a decoded request (parse, authenticate, evaluate), without waiting \
                for a verification";
    page.histogram("rolegate_evaluation_duration_seconds", help, &totals.evaluation, 6..=20);
    page.counter("rolegate_tokens_verified", "Tokens verified", totals.tokens_verified);
}

fn credential_caches(page: &mut MetricsPage<'_>, caches: &Caches) {
    let sizes = caches.credentials();
    let by_scheme: Vec<(&str, &CacheSize)> = ["basic", "bearer"].into_iter().zip(&sizes).collect();
    let help = "Verified credentials in the cache of all workers";
    let entries =
        by_scheme.iter().map(|(scheme, size)| ([("scheme", *scheme)], whole(size.entries)));
    page.gauges("rolegate_credential_cache_entries", help, entries);
    let help = "Memory of the verified credentials in the cache of all workers";
    let bytes = by_scheme.iter().map(|(scheme, size)| ([("scheme", *scheme)], whole(size.bytes)));
    page.gauges("rolegate_credential_cache_bytes", help, bytes);
    let help = "Verified credentials that were evicted to make room for others";
    let evicted = by_scheme.iter().map(|(scheme, size)| (*scheme, size.evicted));
    page.counters("rolegate_credential_cache_evictions", help, "scheme", evicted);
}

fn hashing(page: &mut MetricsPage<'_>, hashing: &HashingTotals) {
    let help = "Passwords that wait to be hashed";
    page.gauge("rolegate_hash_queue_length", help, whole(hashing.queued));
    page.counter("rolegate_hashes", "Passwords hashed", hashing.done);
    let help = "Checks that shared the hash of an equal one";
    page.counter("rolegate_hashes_shared", help, hashing.shared);
    let help =
        "Verifications that left the queue because all of their checks were cancelled or too late";
    page.counter("rolegate_hashes_abandoned", help, hashing.abandoned);
    let help = "Passwords hashed when all of their checks were cancelled or too late";
    page.counter("rolegate_hashes_unawaited", help, hashing.unawaited);
    let help = "Password checks denied because the queue was full";
    page.counter("rolegate_hashes_denied", help, hashing.denied);
}

fn policy(page: &mut MetricsPage<'_>, policy: &PolicyFacts) {
    revision(page, "rolegate_policy", "The active policy and its fetched keys", policy);
    let help = "When the policy became active";
    page.gauge("rolegate_policy_loaded_timestamp_seconds", help, policy.loaded.as_secs_f64());
    page.counters("rolegate_policy_reloads", "Reloads of the policy", "result", reloads(policy));
    let help = "For how long no newer policy could be loaded; 0 if all is well";
    page.gauge("rolegate_policy_failing_seconds", help, failing_seconds(policy));
    let help = "1 if the policy is stale (`max-policy-age`)";
    page.gauge("rolegate_policy_stale", help, policy.stale.into());
    page.gauge("rolegate_policy_warnings", "Warnings of the active policy", whole(policy.warnings));
}

fn revision(page: &mut MetricsPage<'_>, name: &str, help: &str, policy: &PolicyFacts) {
    if let Some(revision) = &policy.revision {
        let keys = revision.keys.as_deref().unwrap_or_default();
        page.info(name, help, &[("policy", &*revision.policy), ("keys", keys)]);
    }
}

fn reloads(policy: &PolicyFacts) -> [(&'static str, u64); 3] {
    [("ok", policy.reloads), ("failed", policy.failures), ("unchanged", policy.unchanged)]
}

fn failing_seconds(policy: &PolicyFacts) -> f64 {
    policy.failing_since.map_or(0.0, |since| since.elapsed().as_secs_f64())
}

/// The bundle, if the policy is fetched as a bundle.
fn bundle(page: &mut MetricsPage<'_>, facts: &Facts) {
    let Some(bundle) = &facts.bundle else { return };
    if let Some(revision) = bundle.revision {
        let help = "The revision of the active policy bundle";
        page.gauge("rolegate_bundle_revision", help, whole(revision));
    }
    let help = "Fetches of the policy bundle; the results besides `activated`, `unchanged` and \
                `failed` say why it is not accepted";
    page.counters("rolegate_bundle_fetches", help, "result", bundle.results());
    let help = "When the server last had the active policy bundle";
    page.gauge(
        "rolegate_bundle_last_success_timestamp_seconds",
        help,
        bundle.fetched.as_secs_f64(),
    );
    let help = "For how long the server has not had an acceptable policy bundle";
    page.gauge("rolegate_bundle_failing_seconds", help, failing_seconds(&facts.policy));
    let help = "Whether a policy bundle must be signed";
    page.gauge("rolegate_bundle_must_be_signed", help, bundle.must_be_signed.into());
    if let Some(cached) = bundle.cached {
        let help = "Whether the active policy bundle is in the cache";
        page.gauge("rolegate_bundle_cached", help, cached.into());
    }
}

/// The keys of each issuer. The `url` label leaves out the secrets in the URL, so two URLs may look
/// equal. Prometheus rejects a page with duplicate label sets. An issuer is defined only once, so
/// the `issuer` label makes the sets unique. Issuers that share a URL have the same values.
fn keys(page: &mut MetricsPage<'_>, facts: &Facts) {
    let keys: Vec<(String, &str, &KeyFacts)> = facts
        .keys
        .iter()
        .flat_map(|(url, keys)| {
            keys.issuers.0.iter().map(move |issuer| (url.to_string(), &**issuer, keys))
        })
        .collect();
    let by_issuer = |value: fn(&KeyFacts) -> f64| {
        keys.iter()
            .map(move |(url, issuer, keys)| ([("issuer", *issuer), ("url", url)], value(keys)))
    };
    let help = "Whether keys are active";
    page.gauges("rolegate_keys_loaded", help, by_issuer(|keys| keys.loaded.into()));
    let help = "Whether keys are too old";
    page.gauges("rolegate_keys_stale", help, by_issuer(|keys| keys.stale.into()));
    let help = "When keys were fetched last";
    let fetched = by_issuer(|keys| keys.fetched.as_secs_f64());
    page.gauges("rolegate_keys_fetched_timestamp_seconds", help, fetched);
    let series = keys.iter().flat_map(|(url, issuer, keys)| {
        fetches(keys).map(|(result, number)| {
            ([("issuer", *issuer), ("url", url), ("result", result)], number)
        })
    });
    page.labelled_counters("rolegate_keys_fetches", "Fetches of keys", series);
}

fn fetches(keys: &KeyFacts) -> [(&'static str, u64); 3] {
    [("ok", keys.fetches), ("failed", keys.failures), ("rejected", keys.rejected)]
}

/// The inventory of the search cluster, if it is fetched.
fn inventory(page: &mut MetricsPage<'_>, facts: &Facts) {
    let Some(inventory) = &facts.inventory else { return };
    let help = "Whether the inventory of the search cluster is active";
    page.gauge("rolegate_inventory_loaded", help, inventory.loaded.into());
    let help = "When the inventory of the search cluster was fetched last";
    page.gauge(
        "rolegate_inventory_fetched_timestamp_seconds",
        help,
        inventory.fetched.as_secs_f64(),
    );
    let help = "Fetches of the inventory of the search cluster";
    page.counters("rolegate_inventory_fetches", help, "result", fetches(inventory));
}

fn shadow(page: &mut MetricsPage<'_>, stats: &ShadowStats) {
    let facts = stats.status.facts();
    let help = "Requests that the shadow policy decided as well, by how its decision compares";
    page.counters("rolegate_shadow_checks", help, "result", stats.results());
    let help = "Requests not compared because the queue was full";
    page.counter("rolegate_shadow_dropped", help, stats.dropped());
    revision(
        page,
        "rolegate_shadow_policy",
        "The shadow policy and its fetched keys",
        &facts.policy,
    );
    let help = "Reloads of the shadow policy";
    page.counters("rolegate_shadow_policy_reloads", help, "result", reloads(&facts.policy));
    let help = "For how long the files of the shadow policy have not loaded";
    page.gauge("rolegate_shadow_policy_failing_seconds", help, failing_seconds(&facts.policy));
    let help = "Issuers of the shadow policy whose keys are not fetched";
    let without_keys = whole(facts.issuers_without_keys().0.len());
    page.gauge("rolegate_shadow_issuers_without_keys", help, without_keys);
    let Some(bundle) = &facts.bundle else { return };
    if let Some(revision) = bundle.revision {
        let help = "The revision of the shadow policy's bundle";
        page.gauge("rolegate_shadow_bundle_revision", help, whole(revision));
    }
    let help = "Fetches of the shadow policy's bundle";
    page.counters("rolegate_shadow_bundle_fetches", help, "result", bundle.results());
}

fn json_histogram(durations: &Distribution) -> Value {
    let sum = u64::try_from(durations.sum().as_nanos()).unwrap_or(u64::MAX);
    let buckets: Vec<(u64, u64)> = durations.buckets().collect();
    json!({ "unit": "ns", "count": durations.count(), "sum": sum, "buckets": buckets })
}

/// The page being written.
pub struct MetricsPage<'a> {
    encoder: DescriptorEncoder<'a>,
    /// The first error. Writing to a string does not fail.
    result: fmt::Result,
}

/// The labels of a series.
type Labels<'l, const N: usize> = [(&'l str, &'l str); N];

impl MetricsPage<'_> {
    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) {
        if self.result.is_ok() {
            self.result = self.encoder.encode_descriptor(name, help, None, kind).and_then(write);
        }
    }

    /// Writes a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, help, MetricType::Gauge, |mut family| family.encode_gauge(&value));
    }

    /// Writes a counter.
    pub fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) {
        self.family(name, help, MetricType::Counter, |mut family| {
            family.encode_counter::<NoLabelSet, _, u64>(&value, None)
        });
    }

    /// Writes a counter for each value of a label.
    pub fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'l str,
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) {
        let series = values.into_iter().map(|(value, number)| ([(label, value)], number));
        self.labelled_counters(name, help, series);
    }

    /// Writes a counter for each set of labels; without any set, nothing.
    fn labelled_counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_some() {
            self.family(name, help, MetricType::Counter, |mut family| {
                series.try_for_each(|(labels, value)| {
                    let mut series = family.encode_family(&labels)?;
                    series.encode_counter::<NoLabelSet, _, u64>(&value, None)
                })
            });
        }
    }

    /// Writes a gauge for each set of labels; without any set, nothing.
    fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'l, N>, f64)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_some() {
            self.family(name, help, MetricType::Gauge, |mut family| {
                series.try_for_each(|(labels, value)| {
                    family.encode_family(&labels)?.encode_gauge(&value)
                })
            });
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        durations: &Distribution,
        powers: RangeInclusive<u32>,
    ) {
        let buckets = durations.coarse(powers).into_iter().map(|(bound, number)| {
            (bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()), number)
        });
        let buckets: Vec<(f64, u64)> = buckets.collect();
        let (sum, count) = (durations.sum().as_secs_f64(), durations.count());
        self.family(name, help, MetricType::Histogram, |mut family| {
            family.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        });
    }

    fn info<const N: usize>(&mut self, name: &str, help: &str, labels: &Labels<'_, N>) {
        self.family(name, help, MetricType::Info, |mut family| family.encode_info(labels));
    }
}

impl fmt::Debug for MetricsPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsPage").finish_non_exhaustive()
    }
}

/// A number as the value of a gauge: exact up to 2⁵³, far above any value here.
pub(crate) fn whole(number: impl TryInto<u64>) -> f64 {
    number.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests;
