//! The gRPC client of a collector.

use std::error::Error as _;
use std::str::FromStr as _;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use prost::bytes::Bytes;
use tonic::client::Grpc;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::settings::{OtlpSettings, Signal, TRACES, Traces};
use crate::errors::LoadError;
use crate::{files, https};

/// The port of OTLP over gRPC, where the endpoint names none.
const PORT: u16 = 4317;
/// Maximum size of a file with certificates, in bytes.
const MAX_CA_FILE: usize = 1 << 20;

/// The client of a collector's service for one signal. It connects for the first request, and for
/// the next request after a failure.
#[derive(Debug)]
pub(super) struct Collector {
    settings: OtlpSettings,
    pub(super) origin: Uri,
    method: PathAndQuery,
    grpc: Option<GrpcClient>,
}

type GrpcClient = Grpc<Client<HttpsConnector<HttpConnector>, tonic::body::Body>>;

/// A request to export spans or log records. Both kinds of requests have the same field numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) records: Option<ResourceRecords>,
}

/// `ResourceSpans` or `ResourceLogs`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceRecords {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    /// An encoded `ScopeSpans` or `ScopeLogs`.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) scope_records: Bytes,
}

/// Why the collector did not accept a batch.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct SendError {
    pub(super) reason: String,
    pub(super) retry: Retry,
}

/// How often a batch is sent again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Until the collector accepts the batch: the collector is away or overloaded.
    Always,
    /// A few times: the collector, or a gateway before it, refuses this request. New credentials
    /// may help. But the cause may also be in the batch, and the next batches must not wait for it.
    FewTimes,
    /// The collector cannot process the batch.
    Never,
}

/// Checks the settings and the files that they name, so that a mistake is found at the start.
pub(crate) fn check(settings: &OtlpSettings, exports_log: bool) -> Result<(), LoadError> {
    if settings.endpoint.is_none() {
        let setting = match (settings.traces, exports_log) {
            (Traces::Otlp, _) => "traces: otlp",
            (Traces::Off, true) => "decision-log-to: otlp",
            (Traces::Off, false) => return Ok(()),
        };
        return Err(LoadError::Setting(format!(
            "`{setting}` needs `otlp-endpoint`, the URL of an OpenTelemetry collector, \
             such as `http://127.0.0.1:{PORT}`"
        )));
    }
    let collector = Collector::new(TRACES, settings)?;
    let sends_secrets = !collector.metadata()?.is_empty();
    collector.trusted_ca()?;
    // `is_allowed` accepts `https:`, and plain `http:` to this machine only.
    if sends_secrets && !https::is_allowed(&collector.origin) {
        tracing::warn!(
            endpoint = %collector.origin,
            "`otlp-headers` are sent unencrypted: anyone on the way can read them; use an `https:` \
             endpoint"
        );
    }
    Ok(())
}

impl Collector {
    /// # Errors
    /// When the endpoint is not a URL of a collector. The error does not show the endpoint, which
    /// may have a password.
    pub(super) fn new(signal: Signal, settings: &OtlpSettings) -> Result<Self, LoadError> {
        let origin = origin(settings.endpoint.as_deref().unwrap_or_default()).ok_or_else(|| {
            LoadError::Setting(format!(
                "`otlp-endpoint` is not the URL of a collector: write one such as \
                 `http://127.0.0.1:{PORT}`, without a path and credentials (`otlp-headers` names a \
                 file with these)"
            ))
        })?;
        let method = PathAndQuery::from_static(signal.method);
        Ok(Self { settings: settings.clone(), origin, method, grpc: None })
    }

    /// Sends a request. Returns how many of its records are rejected, and why. The answer about
    /// spans has the same field numbers as the answer about log records, so it is read as the
    /// latter.
    ///
    /// # Errors
    /// When the collector does not accept the request, or a file cannot be used. No error shows a
    /// header.
    pub(super) async fn send(
        &mut self,
        request: ExportRequest,
    ) -> Result<ExportLogsPartialSuccess, SendError> {
        let timeout = self.settings.timeout;
        let mut request = Request::new(request);
        *request.metadata_mut() = self.metadata()?;
        let mut grpc = match self.grpc.take() {
            Some(grpc) => grpc,
            None => self.connect()?,
        };
        let call = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let codec = ProstCodec::<ExportRequest, ExportLogsServiceResponse>::default();
            grpc.unary(request, self.method.clone(), codec).await
        };
        let answer = tokio::time::timeout(timeout, call).await.map_err(|_| SendError {
            reason: format!("no answer within `otlp-timeout`, {timeout:?}"),
            retry: Retry::Always,
        })?;
        let (sends_headers, trusts_file) = (self.sends_headers(), self.settings.ca.is_some());
        let answer =
            answer.map_err(|status| SendError::from_status(&status, sends_headers, trusts_file))?;
        self.grpc = Some(grpc);
        Ok(answer.into_inner().partial_success.unwrap_or_default())
    }

    /// The collector's message, for the log. Empty if headers are sent to the collector: the
    /// message may repeat them.
    pub(super) fn loggable(&self, message: &str) -> String {
        if self.sends_headers() { String::new() } else { document::excerpt(message) }
    }

    fn sends_headers(&self) -> bool {
        self.settings.headers.is_some()
    }

    fn connect(&self) -> Result<GrpcClient, LoadError> {
        let ca = self.trusted_ca()?;
        let client = https::grpc_client(ca.as_deref()).map_err(LoadError::Setting)?;
        Ok(Grpc::with_origin(client, self.origin.clone()))
    }

    /// The certificate authorities of the collector, read from their file now.
    fn trusted_ca(&self) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(path) = &self.settings.ca else { return Ok(None) };
        let pem = files::bytes(path, MAX_CA_FILE)
            .map_err(|error| LoadError::in_file("otlp-ca", path, error))?;
        https::trusted_ca(&pem).map_err(|error| LoadError::in_file("otlp-ca", path, error))?;
        Ok(Some(pem))
    }

    /// The headers of a request, read from their file now: lines with `name: value`.
    fn metadata(&self) -> Result<MetadataMap, LoadError> {
        let mut metadata = MetadataMap::new();
        let Some(path) = &self.settings.headers else { return Ok(metadata) };
        let text =
            files::text(path).map_err(|error| LoadError::in_file("otlp-headers", path, error))?;
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let (name, value) = header(line).ok_or_else(|| {
                let error = format!("line {number} is not a header, `name: value`");
                LoadError::in_file("otlp-headers", path, error)
            })?;
            metadata.append(name, value);
        }
        Ok(metadata)
    }
}

/// The batch is sent again: the file that cannot be used may be corrected while the process runs.
impl From<LoadError> for SendError {
    fn from(error: LoadError) -> Self {
        Self { reason: error.to_string(), retry: Retry::Always }
    }
}

impl SendError {
    /// Turns the status of a failed call into an error. The specification of OTLP says after which
    /// codes a request may be sent again. If `sends_headers`, the reason leaves out the collector's
    /// texts, which may repeat a header. `trusts_file` says whether `otlp-ca` names a file.
    fn from_status(status: &Status, sends_headers: bool, trusts_file: bool) -> Self {
        let retry = match status.code() {
            Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable => {
                Retry::Always
            }
            Code::ResourceExhausted if has_retry_info(status) => Retry::Always,
            // An error of the connection.
            Code::Unknown if status.source().is_some() => Retry::Always,
            Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::OutOfRange
            | Code::DataLoss => Retry::FewTimes,
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Unimplemented
            | Code::Internal => Retry::Never,
        };
        let reason = match status.source() {
            Some(cause) => without_goaway(https::reason(cause, trusts_file), sends_headers),
            None if sends_headers => format!("it answers {:?}", status.code()),
            None => {
                format!("it answers {:?}: {}", status.code(), document::excerpt(status.message()))
            }
        };
        Self { reason, retry }
    }
}

/// Whether the error has a `RetryInfo`: the collector will recover, and the request may be sent
/// again.
fn has_retry_info(status: &Status) -> bool {
    const NAME: &[u8] = b"google.rpc.RetryInfo";
    status.details().windows(NAME.len()).any(|name| name == NAME)
}

/// Cuts the text of a GOAWAY frame, which may repeat a header, from an error of the connection. The
/// text is at the end, as `(b"...")`.
fn without_goaway(mut reason: String, sends_headers: bool) -> String {
    if sends_headers && let Some(end) = reason.find(" (b\"") {
        reason.truncate(end);
    }
    reason
}

/// The endpoint with its port. `None` if it is not an `http:` or `https:` URL, or if it has a path,
/// a query or credentials.
fn origin(endpoint: &str) -> Option<Uri> {
    let uri = Uri::from_str(endpoint).ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let is_plain = ["http", "https"].contains(&scheme)
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
        && !authority.as_str().contains('@');
    let port = authority.port_u16().unwrap_or(PORT);
    let origin = format!("{scheme}://{}:{port}", authority.host());
    is_plain.then(|| Uri::from_str(&origin).ok())?
}

fn header(line: &str) -> Option<(AsciiMetadataKey, AsciiMetadataValue)> {
    let (name, value) = line.split_once(':')?;
    let name = AsciiMetadataKey::from_bytes(name.trim().to_lowercase().as_bytes()).ok()?;
    let mut value = AsciiMetadataValue::try_from(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_without_path_and_credentials() {
        let origin = |text: &str| origin(text).map(|uri| uri.to_string());
        assert_eq!(origin("http://127.0.0.1:1"), Some("http://127.0.0.1:1/".to_owned()));
        assert_eq!(origin("https://otel.example/"), Some("https://otel.example:4317/".to_owned()));
        assert_eq!(origin("http://[::1]"), Some("http://[::1]:4317/".to_owned()));
        for text in [
            "",
            "otel:4317",
            "grpc://otel:4317",
            "http://otel:4317/v1/traces",
            "http://user:pw@otel:4317",
            "http://otel:4317?a=b",
            "unix:/otel",
        ] {
            assert_eq!(origin(text), None, "{text}");
        }
    }

    #[test]
    fn a_message_is_shown_only_if_no_header_is_sent() {
        let reason = |sends_headers| {
            SendError::from_status(&Status::unauthenticated("no: s3cret"), sends_headers, false)
                .reason
        };
        assert_eq!(reason(false), "it answers Unauthenticated: no: s3cret");
        assert_eq!(reason(true), "it answers Unauthenticated");
        let goaway =
            "connection error received: not a result of an error (b\"no: s3cret\")".to_owned();
        assert_eq!(without_goaway(goaway.clone(), false), goaway);
        assert_eq!(
            without_goaway(goaway, true),
            "connection error received: not a result of an error"
        );
    }

    #[test]
    fn an_answer_about_the_request_ends_its_retries() {
        let overloaded = |details: &'static [u8]| {
            Status::with_details(
                Code::ResourceExhausted,
                "",
                prost::bytes::Bytes::from_static(details),
            )
        };
        for (status, retry) in [
            (Status::unavailable(""), Retry::Always),
            (Status::deadline_exceeded(""), Retry::Always),
            (Status::from_error("reset".into()), Retry::Always),
            (overloaded(b"type.googleapis.com/google.rpc.RetryInfo"), Retry::Always),
            (overloaded(b""), Retry::FewTimes),
            (Status::permission_denied(""), Retry::FewTimes),
            (Status::unauthenticated(""), Retry::FewTimes),
            (Status::out_of_range(""), Retry::FewTimes),
            (Status::data_loss(""), Retry::FewTimes),
            (Status::unimplemented(""), Retry::Never),
            (Status::unknown(""), Retry::Never),
        ] {
            assert_eq!(SendError::from_status(&status, false, false).retry, retry, "{status:?}");
        }
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        for line in ["", "authorization", ": a", "a b: c", "a: \u{1}", "key-bin: AAAA"] {
            assert!(header(line).is_none(), "{line:?}");
        }
    }
}
