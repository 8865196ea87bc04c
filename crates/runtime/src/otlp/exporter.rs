//! Sends the batches of a signal, until the collector has them or refuses them for good.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::ScopeLogs;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::collector::{Collector, ExportRequest, ResourceRecords, Retry, SendError};
use super::records::attribute;
use super::settings::{OtlpSettings, Signal};
use crate::backoff;
use crate::lines::{Batching, Counts, Lines, LogLimit, MAX_BYTES, Writer};

/// Maximum bytes of a batch. Collectors accept messages of 4 MiB.
const MAX_BATCH: usize = 1 << 20;
/// How long the first record of a batch waits for more.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Maximum pause before a batch is sent again.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Refusals after which a batch is dropped; with the pauses between them that is about 15 s.
const MAX_REFUSALS: u32 = 5;

/// The tokio runtime that drives the connections. It ends when its last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    handle: Handle,
    _running: Arc<oneshot::Sender<()>>,
}

impl Driver {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
            // A DNS lookup may still run: do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _running: Arc::new(running) })
    }
}

/// Starts the thread that exports a signal. A line of its [`Lines`] is an encoded scope with one
/// record.
pub(super) fn start(
    signal: Signal,
    settings: &OtlpSettings,
    driver: Driver,
) -> io::Result<(Lines, Writer)> {
    let counts = Arc::new(Counts::default());
    let mut exporter = Exporter {
        signal,
        driver,
        collector: Collector::new(signal, settings).map_err(io::Error::other)?,
        resource: resource(settings),
        failure: None,
        rejections: LogLimit::default(),
        has_given_up: false,
        counts: counts.clone(),
    };
    let batching = Batching { bytes: MAX_BATCH, lines: settings.batch_size.into(), wait: MAX_WAIT };
    let name = format!("otlp-{}", signal.name);
    Lines::start_batches(&name, batching, counts, move |batch, records, stop| {
        exporter.export(batch, records, stop)
    })
}

struct Exporter {
    signal: Signal,
    driver: Driver,
    collector: Collector,
    resource: Resource,
    failure: Option<Failure>,
    rejections: LogLimit,
    /// Whether the process is stopping and the collector is away: nothing more is sent.
    has_given_up: bool,
    counts: Arc<Counts>,
}

struct Failure {
    limit: LogLimit,
    /// How many records had been dropped before this failure.
    dropped_before: u64,
}

impl Exporter {
    /// Sends a batch until the collector accepts it, has refused it [`MAX_REFUSALS`] times or
    /// cannot process it. Once `stop` is closed, makes a last attempt. Returns how many of its
    /// records were accepted.
    fn export(&mut self, batch: &[u8], records: u64, stop: &Receiver<()>) -> u64 {
        let request = self.request(batch);
        let (mut failures, mut refusals) = (0, 0);
        while !self.has_given_up {
            let error = match self.driver.handle.block_on(self.collector.send(request.clone())) {
                Ok(rejection) => {
                    self.log_success();
                    let rejected = u64::try_from(rejection.rejected_log_records).unwrap_or(0);
                    if rejected > 0 || !rejection.error_message.is_empty() {
                        self.log_rejection(rejected, &rejection.error_message);
                    }
                    return records.saturating_sub(rejected);
                }
                Err(error) => error,
            };
            self.log_failure(&error);
            let is_stopping = stops_within(stop, Duration::ZERO);
            refusals += u32::from(error.retry == Retry::FewTimes);
            match error.retry {
                Retry::Always => self.has_given_up = is_stopping,
                Retry::FewTimes if refusals < MAX_REFUSALS && !is_stopping => {}
                // Only this batch is dropped: the collector may accept the next ones, even while
                // the process stops.
                Retry::FewTimes | Retry::Never => return 0,
            }
            if !self.has_given_up {
                failures += 1;
                let pause = backoff::pause_after(failures).min(MAX_PAUSE);
                stops_within(stop, backoff::jittered(pause));
            }
        }
        0
    }

    /// The request for a batch. The batch is a sequence of encoded scopes with one record each.
    /// Protobuf merges concatenated messages, so the collector reads one scope with all records.
    fn request(&self, batch: &[u8]) -> ExportRequest {
        let (name, version) = ("rolegate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let scope = InstrumentationScope { name, version, ..InstrumentationScope::default() };
        // This is right for spans, too: `scope` has the same field number in `ScopeSpans`.
        let mut records = ScopeLogs { scope: Some(scope), ..ScopeLogs::default() }.encode_to_vec();
        records.extend_from_slice(batch);
        let resource = Some(self.resource.clone());
        ExportRequest { records: Some(ResourceRecords { resource, scope_records: records.into() }) }
    }

    /// Logs a failure when it begins, and at intervals while it lasts.
    fn log_failure(&mut self, error: &SendError) {
        let dropped = self.counts.dropped();
        let failure = self
            .failure
            .get_or_insert_with(|| Failure { limit: LogLimit::default(), dropped_before: dropped });
        if !failure.limit.admit() {
            return;
        }
        let dropped = dropped.saturating_sub(failure.dropped_before);
        let (signal, endpoint) = (self.signal.name, &self.collector.origin);
        let advice = match error.retry {
            Retry::Always => format!(
                "does not take the {signal}: check `otlp-endpoint`, `otlp-ca`, `otlp-headers` and \
                 whether it receives OTLP over gRPC; up to {} MiB wait for it, more are dropped",
                MAX_BYTES >> 20
            ),
            Retry::FewTimes => format!(
                "refuses the {signal}: check `otlp-headers`, and whether a gateway refuses \
                 something in them; a batch that is refused {MAX_REFUSALS} times is dropped"
            ),
            Retry::Never => format!(
                "cannot process the {signal}, which are dropped: check whether a pipeline for them \
                 receives OTLP over gRPC at `otlp-endpoint`"
            ),
        };
        tracing::warn!(signal, %endpoint, reason = error.reason, dropped, "the collector {advice}");
    }

    fn log_success(&mut self) {
        let Some(failure) = self.failure.take() else { return };
        let (signal, endpoint) = (self.signal.name, &self.collector.origin);
        let dropped = self.counts.dropped().saturating_sub(failure.dropped_before);
        tracing::info!(signal, %endpoint, dropped, "the collector takes the {signal} again");
    }

    /// Logs at intervals that the collector rejects some of the records that it has received.
    fn log_rejection(&mut self, records: u64, message: &str) {
        if !self.rejections.admit() {
            return;
        }
        let (signal, endpoint) = (self.signal.name, &self.collector.origin);
        let reason = self.collector.loggable(message);
        tracing::warn!(
            signal, %endpoint, records, reason,
            "the collector does not accept some of the {signal}"
        );
    }
}

/// Waits for this time, or until the process stops. Returns whether the process stops.
fn stops_within(stop: &Receiver<()>, wait: Duration) -> bool {
    stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout)
}

/// The resource of all records: this process.
fn resource(settings: &OtlpSettings) -> Resource {
    let mut values: BTreeMap<&str, &str> = BTreeMap::from([
        ("service.name", &*settings.service_name),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    values.extend(settings.resource.iter().map(|attribute| (&*attribute.name, &*attribute.value)));
    let attributes =
        values.iter().map(|(name, value)| attribute(name, Value::StringValue((*value).to_owned())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}
