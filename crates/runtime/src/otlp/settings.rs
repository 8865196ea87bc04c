//! Which collector is exported to, and how.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::share::Share;
use crate::units;

/// The settings of OTLP.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "OTLP")]
pub struct OtlpSettings {
    /// Whether a span of each decision in a sampled trace is sent to a collector.
    ///
    /// The trace is that of the `traceparent` (W3C Trace Context) of Envoy's call, else that of the
    /// request.
    #[arg(long, value_enum, default_value_t = Traces::Off)]
    pub traces: Traces,

    /// Share of the requests without a `traceparent` that begin a trace, from 0 to 1.
    ///
    /// For a request with a `traceparent`, only its sampled flag counts.
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub trace_ratio: Share,

    /// URL of a collector for OTLP over gRPC, such as `https://otel.example.com:4317`.
    ///
    /// Without a port it is 4317. `OTEL_EXPORTER_OTLP_ENDPOINT` and the like are not read.
    #[arg(
        id = "otlp-endpoint",
        long = "otlp-endpoint",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub endpoint: Option<String>,

    /// File with the certificate authorities (PEM) that alone are trusted for the collector.
    ///
    /// By default those of the system are trusted.
    #[arg(id = "otlp-ca", long = "otlp-ca", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// File with headers for the collector, such as its credentials.
    ///
    /// It has a line `NAME: VALUE` for each header, and is read again for each batch.
    #[arg(id = "otlp-headers", long = "otlp-headers", value_name = "FILE")]
    pub headers: Option<PathBuf>,

    /// Maximum time that the collector may take to answer.
    #[arg(id = "otlp-timeout", long = "otlp-timeout", value_name = "TIME", default_value = "10s", value_parser = units::positive_duration)]
    pub timeout: Duration,

    /// Maximum number of records that are sent at once, at least 1.
    ///
    /// The first record waits for others for a second.
    #[arg(id = "otlp-batch-size", long = "otlp-batch-size", value_name = "N", default_value = "512", value_parser = units::positive_count)]
    pub batch_size: u16,

    /// The `service.name` of records and spans.
    #[arg(
        id = "otlp-service-name", long = "otlp-service-name",
        value_name = "NAME",
        default_value = "rolegate",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub service_name: String,

    /// Further attributes of the resource, such as `deployment.environment.name=production`.
    #[arg(
        id = "otlp-resource",
        long = "otlp-resource",
        value_name = "NAME=VALUE",
        value_delimiter = ','
    )]
    pub resource: Vec<ResourceAttribute>,
}

/// Whether spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Traces {
    /// No.
    Off,
    /// Over OTLP.
    Otlp,
}

/// A kind of records, as OTLP has a service for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    /// Its name in metrics and logs.
    pub(super) name: &'static str,
    pub(super) method: &'static str,
}

pub(super) const TRACES: Signal = Signal {
    name: "traces",
    method: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
};
pub(super) const LOGS: Signal =
    Signal { name: "logs", method: "/opentelemetry.proto.collector.logs.v1.LogsService/Export" };

/// An attribute of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttribute {
    pub(super) name: String,
    pub(super) value: String,
}

/// Why a text is no [`ResourceAttribute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an attribute: write one such as `deployment.environment.name=production`")]
pub struct ResourceAttributeError;

impl OtlpSettings {
    /// Nothing is exported.
    #[must_use]
    pub fn off() -> Self {
        Self {
            traces: Traces::Off,
            trace_ratio: Share::NONE,
            endpoint: None,
            ca: None,
            headers: None,
            timeout: Duration::from_secs(10),
            batch_size: 512,
            service_name: "rolegate".to_owned(),
            resource: Vec::new(),
        }
    }
}

impl FromStr for ResourceAttribute {
    type Err = ResourceAttributeError;

    fn from_str(text: &str) -> Result<Self, ResourceAttributeError> {
        match text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            Some(_) | None => Err(ResourceAttributeError),
        }
    }
}
