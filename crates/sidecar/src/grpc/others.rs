//! Everything that is not `Check`: health and reflection, by tonic, over an adapter between `h2` and `http-body`.

mod body;
mod health;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use http_body::Body as _;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tonic::codegen::Service;
use tonic_health::pb::health_server::HealthServer;

use super::check::CheckService;
use super::message::Held;
use super::respond;
use super::server::Phase;
use body::Upload;
use health::Health;

type Answer = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Call = Box<dyn Fn(Request<Upload>) -> Answer + Send + Sync>;

/// The services by the beginning of their paths.
#[derive(Clone)]
pub(super) struct Others {
    services: Arc<[(&'static str, Call)]>,
}

impl Others {
    /// # Errors
    /// When the descriptors do not fit together.
    pub(super) fn new(
        service: CheckService,
        phase: watch::Receiver<Phase>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(envoy::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let services = [
            ("/grpc.health.v1.Health/", call(HealthServer::new(Health::new(service, phase)))),
            ("/grpc.reflection.v1.ServerReflection/", call(reflection().build_v1()?)),
            ("/grpc.reflection.v1alpha.ServerReflection/", call(reflection().build_v1alpha()?)),
        ];
        Ok(Self { services: services.into() })
    }

    /// Takes on a stream, which holds a part of the budget to its end.
    pub(super) fn take(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>, held: Held) {
        let path = request.uri().path();
        let Some((_, call)) = self.services.iter().find(|(start, _)| path.starts_with(start)) else {
            // A failed send means that the caller has left.
            let _ = respond::unimplemented(&mut respond);
            return;
        };
        let answer = call(request.map(Upload::new));
        spawn_local(async move {
            let _held = held;
            tokio::select! {
                answer = answer => drop(send(answer, respond).await),
                _ = poll_fn(|cx| respond.poll_reset(cx)) => {}
            }
        });
    }
}

fn call<S>(service: S) -> Call
where
    S: Service<Request<Upload>, Response = Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    Box::new(move |request| {
        let answer = service.clone().call(request);
        Box::pin(async move {
            match answer.await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    })
}

/// Sends an answer as fast as the other end takes it.
async fn send(
    answer: Response<tonic::body::Body>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let (head, mut body) = answer.into_parts();
    let mut stream = respond.send_response(Response::from_parts(head, ()), body.is_end_stream())?;
    if body.is_end_stream() {
        return Ok(());
    }
    loop {
        let frame = tokio::select! {
            frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)) => frame,
            reset = poll_fn(|cx| stream.poll_reset(cx)) => return reset.map(drop),
        };
        match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
            Some(Ok(Ok(data))) => send_data(&mut stream, data).await?,
            Some(Ok(Err(rest))) => {
                if let Ok(trailers) = rest.into_trailers() {
                    return stream.send_trailers(trailers);
                }
            }
            Some(Err(_)) => {
                stream.send_reset(h2::Reason::INTERNAL_ERROR);
                return Ok(());
            }
            None => return stream.send_data(Bytes::new(), true),
        }
    }
}

async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(capacity) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Ok(()) };
        let part = data.split_to(capacity?.min(data.len()));
        stream.send_data(part, false)?;
    }
    Ok(())
}
