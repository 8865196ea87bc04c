//! Sends batches of one signal, until the collector has them or refuses them for good.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::{DecodeError, Message};

use super::Driver;
use super::attributes::attribute;
use super::client::{Collector, Retry, SendError};
use super::settings::OtlpSettings;
use crate::backoff;
use crate::lines::{Batching, Counts, Lines, MAX_BYTES, Writer};

/// Maximum bytes of a batch. Collectors accept messages of 4 MiB.
const MAX_BATCH: usize = 1 << 20;
/// How long the first record of a batch waits for others.
const WAIT: Duration = Duration::from_secs(1);
/// Maximum pause before a batch is sent again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After so many refusals a batch is dropped; with the pauses between them that is about 15 s.
const REFUSALS: u32 = 5;
/// How often a failure is logged while it lasts.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A kind of records, as OTLP has a service for each.
pub(super) trait Signal: fmt::Debug + Send + 'static {
    type Request: Message + Clone + 'static;
    type Response: Message + Default + 'static;

    /// Its name in metrics and logs.
    const NAME: &'static str;
    /// The method of its service.
    const PATH: &'static str;

    /// The request for a batch. Each record was encoded as the only one of its scope; protobuf reads such messages one after
    /// another as one with all records.
    ///
    /// # Errors
    /// Never in practice.
    fn request(batch: &[u8], resource: Resource) -> Result<Self::Request, DecodeError>;

    /// What of a batch was not accepted.
    fn rejected(response: Self::Response) -> Option<Rejected>;
}

/// Records that a collector has received and not accepted.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) records: i64,
    pub(super) reason: String,
}

/// Starts the thread of a signal.
///
/// # Errors
/// When the system cannot create it, or the settings are not valid.
pub(super) fn start<S: Signal>(
    settings: &OtlpSettings,
    driver: Driver,
) -> io::Result<(Lines, Writer, Arc<Counts>)> {
    let counts = Arc::new(Counts::default());
    let mut exporter = Exporter {
        signal: S::NAME,
        driver,
        collector: Collector::new(settings).map_err(io::Error::other)?,
        resource: resource(settings),
        failing: None,
        rejected_logged: None,
        has_given_up: false,
        counts: counts.clone(),
    };
    let batching = Batching { bytes: MAX_BATCH, lines: settings.batch_size.into(), wait: WAIT };
    let export =
        move |batch: &[u8], number: u64, stop: &Receiver<()>| exporter.export::<S>(batch, number, stop);
    let (lines, writer) =
        Lines::start_batches(&format!("otlp-{}", S::NAME), batching, counts.clone(), export)?;
    Ok((lines, writer, counts))
}

/// What sends the records of a signal.
struct Exporter {
    signal: &'static str,
    driver: Driver,
    collector: Collector,
    resource: Resource,
    /// Since when the collector does not take them.
    failing: Option<Failing>,
    /// When records that were not accepted, or a batch that was refused, were logged last.
    rejected_logged: Option<Instant>,
    /// Whether the process stops, and the collector does not take the last records.
    has_given_up: bool,
    counts: Arc<Counts>,
}

struct Failing {
    since: Instant,
    logged: Instant,
    /// How many records had been dropped before.
    dropped_before: u64,
}

impl Exporter {
    /// Sends a batch until the collector has it, or has refused it [`REFUSALS`] times, or it is hopeless, or after a last attempt
    /// once `stop` is closed. Returns how many of its records were accepted.
    fn export<S: Signal>(&mut self, batch: &[u8], number: u64, stop: &Receiver<()>) -> u64 {
        let Ok(request) = S::request(batch, self.resource.clone()) else { return 0 };
        let (mut failures, mut refusals) = (0, 0);
        while !self.has_given_up {
            match self.attempt::<S>(&request) {
                Ok(rejected) => {
                    self.log_success();
                    return number.saturating_sub(self.log_rejected(rejected));
                }
                Err(error) => {
                    self.collector.close();
                    self.log_failure(&error);
                    match error.retry {
                        Retry::Always => {}
                        Retry::FewTimes => {
                            refusals += 1;
                            // The batches after it may be accepted, also while the process stops.
                            if refusals >= REFUSALS || is_stopping(stop, Duration::ZERO) {
                                self.log_refused(number, &error);
                                return 0;
                            }
                        }
                        Retry::Never => return 0,
                    }
                }
            }
            failures += 1;
            let pause = backoff::retry(failures).unwrap_or_default().min(LONGEST_PAUSE);
            self.has_given_up = is_stopping(stop, Duration::ZERO);
            if !self.has_given_up {
                is_stopping(stop, backoff::jittered(pause));
            }
        }
        0
    }

    fn attempt<S: Signal>(&mut self, request: &S::Request) -> Result<Option<Rejected>, SendError> {
        let metadata = self.collector.open()?;
        let send = self.collector.send::<S::Request, S::Response>(S::PATH, request.clone(), metadata);
        self.driver.handle.block_on(send).map(S::rejected)
    }

    /// Logs a failure when it begins, and at intervals while it lasts.
    fn log_failure(&mut self, error: &SendError) {
        let now = Instant::now();
        let dropped_before = self.counts.dropped();
        let is_new = self.failing.is_none();
        let failing = self.failing.get_or_insert(Failing { since: now, logged: now, dropped_before });
        if !is_new && now.duration_since(failing.logged) < LOG_INTERVAL {
            return;
        }
        failing.logged = now;
        let (signal, endpoint, reason) = (self.signal, self.collector.origin(), &error.reason);
        let dropped = self.counts.dropped() - failing.dropped_before;
        let failing_seconds = now.duration_since(failing.since).as_secs();
        if error.retry == Retry::Never {
            tracing::warn!(signal, %endpoint, reason, dropped, failing_seconds, "the collector cannot process the {signal}, which are dropped: check whether a pipeline for them receives OTLP over gRPC at `otlp-endpoint`");
        } else if error.retry == Retry::FewTimes {
            tracing::warn!(signal, %endpoint, reason, dropped, failing_seconds, "the collector refuses the {signal}: check `otlp-headers`; a batch that it refuses five times is dropped");
        } else {
            tracing::warn!(signal, %endpoint, reason, dropped, failing_seconds, "the collector does not take the {signal}: check `otlp-endpoint`, `otlp-ca`, `otlp-headers` and whether it receives OTLP over gRPC; up to {} MiB wait for it, more are dropped", MAX_BYTES >> 20);
        }
    }

    fn log_success(&mut self) {
        if let Some(failing) = self.failing.take() {
            let (signal, endpoint) = (self.signal, self.collector.origin());
            let dropped = self.counts.dropped() - failing.dropped_before;
            let failing_seconds = failing.since.elapsed().as_secs();
            tracing::info!(signal, %endpoint, dropped, failing_seconds, "the collector takes the {signal} again");
        }
    }
}

impl Exporter {
    /// Logs now and then that a collector has not accepted some of the records that it has received. Returns how many.
    fn log_rejected(&mut self, rejected: Option<Rejected>) -> u64 {
        let Some(Rejected { records, reason }) = rejected else { return 0 };
        let records = u64::try_from(records).unwrap_or(0);
        if (records > 0 || !reason.is_empty()) && self.rejected_is_due() {
            let (signal, endpoint) = (self.signal, self.collector.origin());
            let reason = self.collector.shown(&reason);
            tracing::warn!(signal, %endpoint, records, reason, "the collector does not accept some of the {signal}");
        }
        records
    }

    /// Logs now and then that a batch is dropped because the collector refuses it.
    fn log_refused(&mut self, records: u64, error: &SendError) {
        if self.rejected_is_due() {
            let (signal, endpoint, reason) = (self.signal, self.collector.origin(), &error.reason);
            tracing::warn!(signal, %endpoint, records, reason, "the collector refuses a batch of the {signal} again and again: it is dropped, and the next one is sent; check `otlp-headers`, and whether a gateway refuses something in it");
        }
    }

    fn rejected_is_due(&mut self) -> bool {
        let is_due = self.rejected_logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if is_due {
            self.rejected_logged = Some(Instant::now());
        }
        is_due
    }
}

/// Whether the process stops, which ends the wait.
fn is_stopping(stop: &Receiver<()>, wait: Duration) -> bool {
    stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout)
}

/// The scope of all records.
pub(super) fn scope() -> InstrumentationScope {
    let (name, version) = ("rolegate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

/// What all records are about: this process.
fn resource(settings: &OtlpSettings) -> Resource {
    let own = [("service.name", &*settings.service_name), ("service.version", env!("CARGO_PKG_VERSION"))];
    let configured = settings.resource.iter().map(|attribute| (&*attribute.name, &*attribute.value));
    let is_configured = |name: &str| settings.resource.iter().any(|attribute| attribute.name == name);
    let own = own.into_iter().filter(|(name, _)| !is_configured(name));
    let attributes = own.chain(configured);
    let attributes = attributes.map(|(name, value)| attribute(name, Value::StringValue(value.to_owned())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}
