//! `grpc.reflection`, v1 and v1alpha. The peer sends several messages in one call. For each of
//! them, this makes a separate call of tonic's service.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;
use tonic::codegen::Service;
use tonic_reflection::server::Builder;

use super::super::message::GRPC_PREFIX;
use super::super::respond;
use super::{MAX_MESSAGE, send_data};

type Answer = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Call = Box<dyn Fn(Request<Full<Bytes>>) -> Answer + Send + Sync>;

/// `v1` and `v1alpha` have the same messages.
pub(super) struct Reflection {
    v1: Call,
    v1alpha: Call,
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(envoy::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

impl Reflection {
    /// # Errors
    /// When the protobuf descriptors are inconsistent.
    pub(super) fn new() -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self { v1: call(builder().build_v1()?), v1alpha: call(builder().build_v1alpha()?) })
    }

    /// Serves a call until it ends. `None` if the peer sends nothing for `idle_timeout`, does not
    /// read an answer for so long, or has left. Then the stream is reset, because it is dropped.
    pub(super) async fn serve(
        &self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        idle_timeout: Duration,
    ) -> Option<()> {
        let path = request.uri().path().to_owned();
        let call = if path.contains(".v1alpha.") { &self.v1alpha } else { &self.v1 };
        let (mut body, mut received) = (request.into_body(), BytesMut::new());
        let mut stream = respond::begin(&mut respond).ok()?;
        loop {
            while let Some(message) = split_message(&mut received) {
                let request = Request::post(&path).body(Full::new(message)).ok()?;
                let answer = call(request).await.into_body().collect().await.ok()?;
                let trailers = answer.trailers().cloned().unwrap_or_default();
                let sent = timeout(idle_timeout, send_data(&mut stream, answer.to_bytes())).await;
                sent.ok()?.ok()?;
                if trailers.get("grpc-status").is_some_and(|status| status != "0") {
                    return stream.send_trailers(trailers).ok();
                }
            }
            if received.len() > GRPC_PREFIX + MAX_MESSAGE {
                return respond::end(&mut stream).ok();
            }
            match timeout(idle_timeout, body.data()).await.ok()? {
                None => return respond::end(&mut stream).ok(),
                Some(data) => {
                    let data = data.ok()?;
                    received.extend_from_slice(&data);
                    body.flow_control().release_capacity(data.len()).ok()?;
                }
            }
        }
    }
}

/// The first message with its prefix, once it has arrived as a whole.
fn split_message(received: &mut BytesMut) -> Option<Bytes> {
    let (_flag, rest) = received.split_first()?;
    let (length, message) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (message.len() >= length).then(|| received.split_to(GRPC_PREFIX + length).freeze())
}

fn call<S>(service: S) -> Call
where
    S: Service<Request<Full<Bytes>>, Response = Response<tonic::body::Body>, Error = Infallible>,
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
