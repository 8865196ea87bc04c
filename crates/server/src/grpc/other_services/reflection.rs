//! `grpc.reflection`, v1 and v1alpha, served by tonic through an adapter between `h2` and `http-body`.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Request, Response, Uri};
use http_body::Body as _;
use tonic::codegen::Service;
use tonic_reflection::server::Builder;

use super::send_data;
use super::upload::{Upload, upload};

type Answer = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Call = Box<dyn Fn(Request<Upload>) -> Answer + Send + Sync>;

/// `v1` and `v1alpha` have the same messages.
pub(super) struct Reflection {
    v1: Call,
    v1alpha: Call,
}

impl Reflection {
    /// # Errors
    /// When the protobuf descriptors are inconsistent.
    pub(super) fn new(max_message: usize) -> Result<Self, tonic_reflection::server::Error> {
        let describe = || {
            Builder::configure()
                .register_encoded_file_descriptor_set(envoy::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        Ok(Self {
            v1: call(describe().build_v1()?.max_decoding_message_size(max_message)),
            v1alpha: call(describe().build_v1alpha()?.max_decoding_message_size(max_message)),
        })
    }

    /// Serves a call until it ends. It is reset if the peer sends nothing for `idle_timeout`, or does not read the
    /// answer.
    pub(super) async fn serve(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        idle_timeout: Duration,
    ) {
        let call = if request.uri().path().contains(".v1alpha.") { &self.v1alpha } else { &self.v1 };
        // Only the path, in a copy: the head keeps alive all headers of the call, which may be 128 KiB, and no encoding of
        // messages is accepted anyway.
        let Ok(path) = Uri::try_from(request.uri().path()) else { return };
        let (upload, pump) = upload(request.into_body());
        let mut request = Request::new(upload);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path;
        let answer = call(request);
        let pump = async {
            if pump.run(idle_timeout).await.is_ok() {
                // The peer has sent everything; the answer gets as much time as a message of the peer.
                tokio::time::sleep(idle_timeout).await;
            }
        };
        tokio::select! {
            _ = async { send(answer.await, respond).await } => {}
            // Dropping the call resets its stream.
            () = pump => {}
        }
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

/// Sends an answer as fast as the peer opens its flow-control window.
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
