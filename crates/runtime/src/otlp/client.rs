//! The gRPC client of a collector.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::settings::{OtlpSettings, Traces};
use crate::load_error::LoadError;
use crate::{files, https};

/// The port of OTLP over gRPC, where the endpoint names none.
const PORT: u16 = 4317;
/// Maximum size of a file with certificates, in bytes.
const MAX_FILE: usize = 1 << 20;

/// A connection, and what its requests need.
#[derive(Debug)]
pub(super) struct Collector {
    settings: OtlpSettings,
    origin: Uri,
    grpc: Option<Grpc<Client<HttpsConnector<HttpConnector>, tonic::body::Body>>>,
}

/// Why the collector does not have a batch.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) reason: String,
    pub(super) retry: Retry,
}

/// How often a batch is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Until the collector has it: the collector is away or overloaded.
    Always,
    /// A few times: the collector, or a gateway before it, refuses this request. The credentials may be mended, but it may also be
    /// something in the batch, and the batches after it must not wait for ever.
    FewTimes,
    /// The collector cannot process it.
    Never,
}

/// Checks what the settings name, so that a mistake is found at the start.
///
/// # Errors
/// When they are incomplete, or a file cannot be used.
pub(crate) fn check(settings: &OtlpSettings, exports_log: bool) -> Result<(), LoadError> {
    if settings.endpoint.is_none() {
        let needs = |setting: &str| {
            LoadError::Setting(format!(
                "`{setting}` needs `otlp-endpoint`, the URL of an OpenTelemetry collector, such as `http://127.0.0.1:{PORT}`"
            ))
        };
        return match (settings.traces, exports_log) {
            (Traces::Otlp, _) => Err(needs("traces: otlp")),
            (Traces::Off, true) => Err(needs("decision-log-to: otlp")),
            (Traces::Off, false) => Ok(()),
        };
    }
    let collector = Collector::new(settings).map_err(LoadError::Setting)?;
    let sends_secrets = !collector.metadata().map_err(LoadError::Setting)?.is_empty();
    collector.trusted_ca().map_err(LoadError::Setting)?;
    if sends_secrets && !https::is_allowed(&collector.origin) {
        tracing::warn!(endpoint = %collector.origin, "`otlp-headers` are sent unencrypted: anyone on the way can read them; use an `https:` endpoint");
    }
    Ok(())
}

impl Collector {
    /// # Errors
    /// When the endpoint is not a URL of a collector. The error does not show it: it may have a password.
    pub(super) fn new(settings: &OtlpSettings) -> Result<Self, String> {
        let origin = origin(settings.endpoint.as_deref().unwrap_or_default())
            .ok_or_else(|| format!("`otlp-endpoint` is not the URL of a collector: write one such as `http://127.0.0.1:{PORT}`, without a path and credentials (`otlp-headers` names a file with these)"))?;
        Ok(Self { settings: settings.clone(), origin, grpc: None })
    }

    /// Its URL.
    pub(super) fn origin(&self) -> &Uri {
        &self.origin
    }

    /// Closes the connection. The next request opens another, and reads the certificates again.
    pub(super) fn close(&mut self) {
        self.grpc = None;
    }

    /// Opens a connection with the next request, unless one is open.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(super) fn open(&mut self) -> Result<MetadataMap, SendError> {
        let fault = |reason| SendError { reason, retry: Retry::Always };
        let metadata = self.metadata().map_err(fault)?;
        if self.grpc.is_none() {
            let ca = self.trusted_ca().map_err(fault)?;
            let client = https::grpc_client(ca.as_deref()).map_err(fault)?;
            self.grpc = Some(Grpc::with_origin(client, self.origin.clone()));
        }
        Ok(metadata)
    }

    /// Sends a request over the connection.
    ///
    /// # Errors
    /// When the collector does not accept it. No error shows a header.
    pub(super) async fn send<Q, A>(
        &mut self,
        path: &'static str,
        message: Q,
        metadata: MetadataMap,
    ) -> Result<A, SendError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let Some(grpc) = &mut self.grpc else {
            return Err(SendError { reason: "not connected".to_owned(), retry: Retry::Always });
        };
        let timeout = self.settings.timeout;
        let mut request = Request::new(message);
        *request.metadata_mut() = metadata;
        request.set_timeout(timeout);
        let call = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::<Q, A>::default()).await
        };
        match tokio::time::timeout(timeout, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                let Self { settings: OtlpSettings { headers, ca, .. }, .. } = self;
                Err(SendError::of(&status, headers.is_some(), ca.is_some()))
            }
            Err(_) => Err(SendError { reason: no_answer(timeout), retry: Retry::Always }),
        }
    }

    /// What of a message of the collector may be logged: nothing if it gets headers, because it may repeat a part of them.
    pub(super) fn shown(&self, message: &str) -> String {
        if self.sends_headers() { String::new() } else { https::shown(message) }
    }

    fn sends_headers(&self) -> bool {
        self.settings.headers.is_some()
    }

    /// The certificate authorities of the collector, as they are now.
    fn trusted_ca(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.settings.ca else { return Ok(None) };
        let pem = files::bytes(path, MAX_FILE).map_err(|error| in_file("otlp-ca", path, &error))?;
        crate::trusted_ca::trusted_ca(&pem).map_err(|error| in_file("otlp-ca", path, &error))?;
        Ok(Some(pem.to_vec()))
    }

    /// The headers of a request, as their file has them now: lines with `name: value`.
    fn metadata(&self) -> Result<MetadataMap, String> {
        let mut metadata = MetadataMap::new();
        let Some(path) = &self.settings.headers else { return Ok(metadata) };
        let text = files::text(path).map_err(|error| in_file("otlp-headers", path, &error))?;
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let (name, value) = header(line).ok_or_else(|| {
                in_file("otlp-headers", path, &format!("line {number} is not a header, `name: value`"))
            })?;
            metadata.append(name, value);
        }
        Ok(metadata)
    }
}

impl SendError {
    /// What an answer means: the specification of OTLP says which may be sent again.
    fn of(status: &Status, sends_headers: bool, trusts_file: bool) -> Self {
        let retry = match status.code() {
            Code::Cancelled | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable => Retry::Always,
            Code::ResourceExhausted if has_retry_info(status) => Retry::Always,
            // An error of the connection is of unknown kind.
            Code::Unknown if std::error::Error::source(status).is_some() => Retry::Always,
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
        let reason = match std::error::Error::source(status) {
            Some(cause) => of_connection(https::reason_of_connection(cause, trusts_file), sends_headers),
            None if sends_headers => format!("it answers {:?}", status.code()),
            None => format!("it answers {:?}: {}", status.code(), https::shown(status.message())),
        };
        Self { reason, retry }
    }
}

/// Whether the collector says that it recovers, so that the request may be sent again.
fn has_retry_info(status: &Status) -> bool {
    const NAME: &[u8] = b"google.rpc.RetryInfo";
    status.details().windows(NAME.len()).any(|name| name == NAME)
}

/// An error of the connection. Its text ends with that of the server, as `(b"...")`, if a GOAWAY frame had one.
fn of_connection(mut reason: String, sends_headers: bool) -> String {
    if sends_headers && let Some(end) = reason.find(" (b\"") {
        reason.truncate(end);
    }
    reason
}

/// The URL without a path, with a port.
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

fn no_answer(timeout: Duration) -> String {
    format!("no answer within `otlp-timeout`, {timeout:?}")
}

fn in_file(setting: &str, path: &Path, error: &impl std::fmt::Display) -> String {
    format!("`{setting}` {}: {error}", path.display())
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
    fn a_message_is_shown_only_to_whom_no_header_is_sent() {
        let of = |sends_headers| {
            SendError::of(&Status::unauthenticated("no: s3cret"), sends_headers, false).reason
        };
        assert_eq!(of(false), "it answers Unauthenticated: no: s3cret");
        assert_eq!(of(true), "it answers Unauthenticated");
        let goaway = "connection error received: not a result of an error (b\"no: s3cret\")".to_owned();
        assert_eq!(of_connection(goaway.clone(), false), goaway);
        assert_eq!(of_connection(goaway, true), "connection error received: not a result of an error");
    }

    #[test]
    fn an_answer_about_the_request_ends_its_retries() {
        let overloaded = |details: &'static [u8]| {
            Status::with_details(Code::ResourceExhausted, "", prost::bytes::Bytes::from_static(details))
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
            assert_eq!(SendError::of(&status, false, false).retry, retry, "{status:?}");
        }
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        for line in ["", "authorization", ": a", "a b: c", "a: \u{1}", "key-bin: AAAA"] {
            assert!(header(line).is_none(), "{line:?}");
        }
    }
}
