//! The lane that lost: the same verdicts by the same authorizer, on hyper's HTTP/2 server with hand-made gRPC framing.
//! One thread. Known callers only: there are no threads that hash, so a password is hashed where it is asked. It prints
//! where it listens.
//!
//! `check_on_hyper 127.0.0.1:0 policies/people/policy.yaml`
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot start has nothing to say"
)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use authorizer::{Authorizer, Header, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One message, then the trailers.
struct Answer(Option<Bytes>, bool);

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(message) = self.0.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::replace(&mut self.1, true) {
            return Poll::Ready(None);
        }
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

fn judge(authorizer: &Authorizer, scratch: &mut Scratch, message: &[u8]) -> Option<Vec<u8>> {
    let mut headers = Vec::with_capacity(32);
    let read =
        CheckRequest::decode(message, |line| headers.push(Header { name: line.name, value: line.value }));
    let read = read.ok()?;
    let request =
        Request { method: read.method, host: read.host, path: read.path, headers: &headers, id: read.id };
    encode(&authorizer.check_inline(&request, scratch, now()))
}

#[expect(clippy::disallowed_methods, reason = "the server is where the clock is read")]
fn now() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

fn encode(verdict: &Verdict<'_>) -> Option<Vec<u8>> {
    match verdict {
        Verdict::Allowed(allowed) => envoy::Encoder::default().allowed(allowed.set(), allowed.remove()).ok(),
        Verdict::Denied(denied) => {
            let headers = denied.headers.iter().map(|header| (header.name, &*header.value));
            envoy::Encoder::default().denied(denied.reason.status(), headers, denied.body).ok()
        }
    }
}

async fn answer(
    request: http::Request<Incoming>,
    authorizer: Arc<Authorizer>,
    scratch: Rc<RefCell<Scratch>>,
) -> Result<Response<Answer>, Infallible> {
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let message = body.get(5..).expect("a message");
    let answer = judge(&authorizer, &mut scratch.borrow_mut(), message).expect("a verdict");
    let mut response = Response::new(Answer(Some(answer.into()), false));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

#[derive(Clone)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move { drop(task.await) });
    }
}

fn authorizer(path: &Path) -> Authorizer {
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads its policy from where it is")]
    let policy = std::fs::read(path).expect("a policy");
    let loaded = policy::load(&policy::MapFiles::of("policy.yaml", policy), Path::new("policy.yaml"));
    Authorizer::compile(loaded.expect("a policy").into(), &Default::default(), None).expect("a policy").0
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("an address");
    let authorizer = Arc::new(authorizer(Path::new(&arguments.next().expect("a policy"))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.expect("a runtime").block_on(async move {
        let listener = tokio::net::TcpListener::bind(address).await.expect("a listener");
        println!("listening on {}", listener.local_addr().expect("an address"));
        let scratch = Rc::new(RefCell::new(Scratch::default()));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let (authorizer, scratch) = (Arc::clone(&authorizer), Rc::clone(&scratch));
            let service = hyper::service::service_fn(move |request| {
                answer(request, Arc::clone(&authorizer), Rc::clone(&scratch))
            });
            let connection = hyper::server::conn::http2::Builder::new(Local)
                .max_concurrent_streams(1024)
                .serve_connection(TokioIo::new(stream), service);
            tokio::task::spawn_local(async move { drop(connection.await) });
        }
    });
}
