//! The settings of OTLP: spans, and where they and the decision log are sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use runtime::settings::{OtlpSettings, ResourceAttribute, Share};
use runtime::units;

/// The settings of OTLP.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct OtlpArgs {
    /// Whether a span of each decision in a trace that is sampled is sent to `otlp-endpoint`. The trace is that of the
    /// `traceparent` (W3C Trace Context) of Envoy's call, else of the request.
    #[arg(long, env = "ROLEGATE_TRACES", value_enum, default_value_t = Traces::Off)]
    pub traces: Traces,

    /// Share of the requests without a `traceparent` that begin a trace, from 0 to 1. For a request that has one, only its
    /// sampled flag counts.
    #[arg(long, env = "ROLEGATE_TRACE_RATIO", value_name = "SHARE", default_value = "0")]
    pub trace_ratio: Share,

    /// URL of an OpenTelemetry collector that receives OTLP over gRPC, such as `http://127.0.0.1:4317` or
    /// `https://otel.example.com:4317`.
    #[arg(long, env = "ROLEGATE_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// File with certificate authorities (PEM): only a collector with a certificate of one of these is trusted; by default those of the
    /// system.
    #[arg(long, env = "ROLEGATE_OTLP_CA", value_name = "FILE")]
    pub otlp_ca: Option<PathBuf>,

    /// File with headers that are sent to the collector, such as its credentials: a line `NAME: VALUE` for each. It is read again for
    /// each batch.
    #[arg(long, env = "ROLEGATE_OTLP_HEADERS", value_name = "FILE")]
    pub otlp_headers: Option<PathBuf>,

    /// Maximum time that the collector may take to answer.
    #[arg(long, env = "ROLEGATE_OTLP_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = units::positive_duration)]
    pub otlp_timeout: Duration,

    /// Maximum number of records that are sent at once, at least 1. The first of them waits for others for a second.
    #[arg(long, env = "ROLEGATE_OTLP_BATCH_SIZE", value_name = "N", default_value = "512", value_parser = units::positive_count)]
    pub otlp_batch_size: u16,

    /// The `service.name` of what is sent.
    #[arg(
        long,
        env = "ROLEGATE_OTLP_SERVICE_NAME",
        value_name = "NAME",
        default_value = "rolegate",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub otlp_service_name: String,

    /// Another attribute of the resource, such as `deployment.environment.name=production`. Repeat the flag or separate
    /// them by commas.
    #[arg(long, env = "ROLEGATE_OTLP_RESOURCE", value_name = "NAME=VALUE", value_delimiter = ',')]
    pub otlp_resource: Vec<ResourceAttribute>,
}

/// Whether spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Traces {
    /// No.
    Off,
    /// Over OTLP.
    Otlp,
}

impl OtlpArgs {
    pub(super) fn settings(&self) -> OtlpSettings {
        OtlpSettings {
            traces: match self.traces {
                Traces::Off => false,
                Traces::Otlp => true,
            },
            trace_ratio: self.trace_ratio,
            endpoint: self.otlp_endpoint.clone(),
            ca: self.otlp_ca.clone(),
            headers: self.otlp_headers.clone(),
            timeout: self.otlp_timeout,
            batch_size: self.otlp_batch_size,
            service_name: self.otlp_service_name.clone(),
            resource: self.otlp_resource.clone(),
        }
    }
}
