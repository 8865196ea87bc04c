//! An OpenTelemetry collector that keeps what it receives over OTLP (gRPC).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
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
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

use crate::process::Failed;

/// A running collector, on a thread of its own. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Received,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How a collector answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// It accepts everything.
    #[default]
    Ok,
    /// It accepts all but one of the records of each request.
    AllButOne,
    /// Never.
    Never,
    /// With this error, which repeats the `authorization` header.
    Error(Code),
    /// With such an error to each request that has this text.
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
struct Received(Arc<Mutex<Everything>>, Answers);

#[derive(Debug, Default)]
struct Everything {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    resources: Vec<Vec<KeyValue>>,
    requests: usize,
    /// All messages and headers.
    bytes: Vec<u8>,
}

impl Collector {
    /// Starts it.
    pub fn start(options: Options) -> Result<Self, Failed> {
        let failed = |error: &dyn std::fmt::Display| Failed::new("collector", error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let address = options.address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
        // Not bound by the runtime: the test that starts it may have one of its own.
        let listener = std::net::TcpListener::bind(address).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let received = Received(Arc::default(), options.answers);
        let mut server = Server::builder();
        if let Some((certificate, key)) = options.tls {
            let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
            server = server.tls_config(tls).map_err(|error| failed(&error))?;
        }
        let server = server
            .add_service(TraceServiceServer::new(received.clone()))
            .add_service(LogsServiceServer::new(received.clone()));
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
        Ok(Self { address, received, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.received.with(|all| all.spans.clone())
    }

    /// The log records so far.
    pub fn logs(&self) -> Vec<LogRecord> {
        self.received.with(|all| all.logs.clone())
    }

    /// The resource of each request so far.
    pub fn resources(&self) -> Vec<Vec<KeyValue>> {
        self.received.with(|all| all.resources.clone())
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.received.with(|all| all.requests)
    }

    /// Whether any message or header so far has this text.
    pub fn has(&self, text: &str) -> bool {
        self.received.with(|all| contains(&all.bytes, text))
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

impl Received {
    fn with<R>(&self, see: impl FnOnce(&mut Everything) -> R) -> R {
        see(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps what every request has.
    async fn receive<M: Message>(&self, request: Request<M>) -> Result<M, Status> {
        let authorization =
            request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let message = format!("not with {}", authorization.unwrap_or("nothing"));
        let headers = request.metadata().as_ref().iter();
        let headers: Vec<u8> = headers
            .flat_map(|(name, value)| {
                [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat()
            })
            .collect();
        let request = request.into_inner();
        let encoded = request.encode_to_vec();
        let answers = match self.1 {
            Answers::ErrorIf(code, text) if contains(&encoded, text) => Answers::Error(code),
            answers => answers,
        };
        self.with(|all| {
            all.requests += 1;
            all.bytes.extend(headers);
            all.bytes.extend(encoded);
        });
        match answers {
            Answers::Ok | Answers::AllButOne | Answers::ErrorIf(..) => Ok(request),
            Answers::Never => std::future::pending().await,
            Answers::Error(code) => Err(Status::new(code, message)),
        }
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = self.receive(request).await?;
        self.with(|all| {
            for of_resource in request.resource_spans {
                all.resources.push(of_resource.resource.unwrap_or_default().attributes);
                all.spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        });
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Received {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let request = self.receive(request).await?;
        self.with(|all| {
            for of_resource in request.resource_logs {
                all.resources.push(of_resource.resource.unwrap_or_default().attributes);
                all.logs
                    .extend(of_resource.scope_logs.into_iter().flat_map(|scope| scope.log_records));
            }
        });
        let rejected =
            ExportLogsPartialSuccess { rejected_log_records: 1, error_message: "too old".into() };
        let partial_success = (self.1 == Answers::AllButOne).then_some(rejected);
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}
