//! The sample application: a list of people, over HTTP/1.1 and HTTP/2, as cheap as possible. It
//! stores nothing, so its responses stay the same however long it runs. [`serve`] serves any
//! function from a request to a response.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};

use crate::address::Address;
use crate::plan::signalled;
use crate::screen;

/// A response with its body.
pub type Answer = Response<Full<Bytes>>;

/// The response to `GET /people`.
const PEOPLE: &[u8] = b"[{\"id\":\"1\",\"firstname\":\"John\",\"lastname\":\"Doe\"},\
      {\"id\":\"2\",\"firstname\":\"Jane\",\"lastname\":\"Doe\"}]";

/// The maximum length of a request body that is read.
const MAX_BODY: usize = 16 << 20;

/// How long requests in progress may take after shutdown was requested.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves at this address until SIGTERM or Ctrl-C, with this number of threads (0: as many as
/// cores).
pub fn run(address: &Address, threads: usize) -> io::Result<()> {
    runtime(threads)?.block_on(async {
        let Address::Tcp(host, port) = address else {
            return Err(io::Error::other("the sample application listens on a port only"));
        };
        let listener = TcpListener::bind((host.as_str(), *port))
            .await
            .map_err(|error| io::Error::other(format!("cannot listen on `{address}`: {error}")))?;
        screen::text(&format!("listening on {}\n", listener.local_addr()?));
        serve(listener, signalled(), people).await
    })
}

fn runtime(threads: usize) -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match if threads == 0 { cores } else { threads } {
        1 => RuntimeBuilder::new_current_thread().enable_all().build(),
        threads => RuntimeBuilder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

/// Serves `answer`, which gets each request with its whole body, until `end`. Then completes the
/// requests in progress.
pub async fn serve(
    listener: TcpListener,
    end: impl Future<Output = io::Result<()>>,
    answer: impl Fn(&Parts, Bytes) -> Answer + Clone + Send + Sync + 'static,
) -> io::Result<()> {
    let graceful = GracefulShutdown::new();
    tokio::pin!(end);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // Usually a lack of file descriptors, which becomes available again.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
            ended = &mut end => break ended?,
        };
        stream.set_nodelay(true)?;
        let (watcher, answer) = (graceful.watcher(), answer.clone());
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            let service = service_fn(move |request| read(request, answer.clone()));
            // An error here means that the client closed the connection.
            let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
        });
    }
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

async fn read(
    request: Request<Incoming>,
    answer: impl Fn(&Parts, Bytes) -> Answer,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok(answer(&head, Bytes::new()));
    }
    Ok(match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => answer(&head, body.to_bytes()),
        Err(_) => status(StatusCode::BAD_REQUEST),
    })
}

/// The sample application.
pub fn people(head: &Parts, body: Bytes) -> Answer {
    match (&head.method, head.uri.path()) {
        (&Method::GET, "/people") => json(PEOPLE.into()),
        (&Method::HEAD, "/people") => json(Bytes::new()),
        (&Method::POST, "/people") => json(body),
        (_, "/people") => status(StatusCode::METHOD_NOT_ALLOWED),
        (_, "/healthz") => status(StatusCode::OK),
        _ => status(StatusCode::NOT_FOUND),
    }
}

/// A response with this JSON.
pub fn json(body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn status(status: StatusCode) -> Answer {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}
