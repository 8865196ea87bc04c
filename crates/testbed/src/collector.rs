//! An OpenTelemetry collector that keeps the spans and log records it receives over OTLP (gRPC).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

use crate::process::Failed;

/// A running collector, on a thread of its own. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    receiver: Receiver,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How a collector answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// It accepts everything.
    #[default]
    Ok,
    /// It answers that it has rejected one log record of each request. It accepts all spans.
    AllButOne,
    /// It never answers.
    Never,
    /// It answers with this error. The message of the error repeats the `authorization` header.
    Error(Code),
    /// It answers with such an error if the request has this text, and accepts other requests.
    ErrorIf(Code, &'static str),
}

/// How a collector is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where it listens; by default on a port that the system chooses.
    pub address: Option<SocketAddr>,
    /// How it answers.
    pub answers: Answers,
    /// Its certificate and private key, in PEM.
    pub tls: Option<(String, String)>,
}

#[derive(Clone, Debug, Default)]
struct Receiver {
    records: Arc<Mutex<Records>>,
    answers: Answers,
}

#[derive(Debug, Default)]
struct Records {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    resources: Vec<Vec<KeyValue>>,
    requests: usize,
    /// The headers and the encoded message of each request.
    bytes: Vec<u8>,
}

impl Collector {
    /// Starts it.
    pub fn start(options: Options) -> Result<Self, Failed> {
        let address = options.address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
        let mut server = Server::builder();
        if let Some((certificate, key)) = options.tls {
            let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
            server = server.tls_config(tls).map_err(|error| failed(&error))?;
        }
        let receiver = Receiver { records: Arc::default(), answers: options.answers };
        let server = server
            .add_service(TraceServiceServer::new(receiver.clone()))
            .add_service(LogsServiceServer::new(receiver.clone()));
        // The collector has a runtime of its own, not that of the test that starts it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let listener = std::net::TcpListener::bind(address).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    _ = server.serve_with_incoming(TcpIncoming::from(listener)) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { address, receiver, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.receiver.lock().spans.clone()
    }

    /// The log records so far.
    pub fn logs(&self) -> Vec<LogRecord> {
        self.receiver.lock().logs.clone()
    }

    /// The attributes of the resource of each batch so far. A request may have several batches.
    pub fn resources(&self) -> Vec<Vec<KeyValue>> {
        self.receiver.lock().resources.clone()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.receiver.lock().requests
    }

    /// Whether any message or header so far has this text.
    pub fn has(&self, text: &str) -> bool {
        contains(&self.receiver.lock().bytes, text)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends an empty export of spans with this metadata to the collector at this address. It is a gRPC
/// call like those of the libraries that applications use.
pub async fn export(to: SocketAddr, metadata: &[(&'static str, &str)]) -> Result<(), Status> {
    let endpoint = Endpoint::from_shared(format!("http://{to}")).map_err(unusable)?;
    let channel = endpoint.connect().await.map_err(unusable)?;
    let mut request = Request::new(ExportTraceServiceRequest::default());
    for (name, value) in metadata {
        request.metadata_mut().append(*name, value.parse().map_err(unusable)?);
    }
    TraceServiceClient::new(channel).export(request).await.map(drop)
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Status {
    Status::from_error(error.into())
}

fn failed(error: &dyn std::fmt::Display) -> Failed {
    Failed::new("collector", error.to_string())
}

/// The value of an attribute, as text.
pub fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

impl Receiver {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the headers and the message of a request.
    async fn receive<M: Message>(&self, request: Request<M>) -> Result<M, Status> {
        let headers = request.metadata().as_ref();
        let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
        let error = format!("not with {}", authorization.unwrap_or("nothing"));
        let lines = headers.iter().flat_map(|(name, value)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat()
        });
        let mut bytes: Vec<u8> = lines.collect();
        let message = request.into_inner();
        let encoded = message.encode_to_vec();
        let is_rejected =
            matches!(self.answers, Answers::ErrorIf(_, text) if contains(&encoded, text));
        bytes.extend(encoded);
        {
            let mut records = self.lock();
            records.requests += 1;
            records.bytes.extend(bytes);
        }
        match self.answers {
            Answers::ErrorIf(code, _) if is_rejected => Err(Status::new(code, error)),
            Answers::Ok | Answers::AllButOne | Answers::ErrorIf(..) => Ok(message),
            Answers::Never => std::future::pending().await,
            Answers::Error(code) => Err(Status::new(code, error)),
        }
    }
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = self.receive(request).await?;
        let mut records = self.lock();
        for batch in request.resource_spans {
            records.resources.push(batch.resource.unwrap_or_default().attributes);
            records.spans.extend(batch.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let request = self.receive(request).await?;
        let mut records = self.lock();
        for batch in request.resource_logs {
            records.resources.push(batch.resource.unwrap_or_default().attributes);
            records.logs.extend(batch.scope_logs.into_iter().flat_map(|scope| scope.log_records));
        }
        let rejected =
            ExportLogsPartialSuccess { rejected_log_records: 1, error_message: "too old".into() };
        let partial_success = (self.answers == Answers::AllButOne).then_some(rejected);
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}
