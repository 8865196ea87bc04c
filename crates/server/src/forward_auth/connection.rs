//! An HTTP/1.1 connection over which a proxy asks questions: each asks to check one request.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::asker::Asker;
use super::{ForwardAuth, exchange};
use crate::checks::age::Age;
use crate::checks::context::WorkerContext;
use crate::checks::notices::{Peer, RefusedQuestion};
use crate::checks::registry::{Mode, RegisteredConnection};

/// Maximum time until the head of the next question has arrived. Proxies close an unused connection
/// earlier (Caddy after 2 minutes, Go 90 seconds, nginx 60). So no proxy sends a question just when
/// the server closes the connection. A slow sender occupies only its connection, which is closed
/// when it is idle and others need its place.
const HEAD_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum bytes of the head of a question: as much as over gRPC.
const MAX_HEAD: usize = 128 << 10;
/// The same for a peer that is not trusted: the least that `hyper` permits.
const MAX_STRANGERS_HEAD: usize = 8 << 10;

/// Serves a connection until it ends.
pub(crate) async fn serve<I: AsyncRead + AsyncWrite + Unpin>(
    context: Rc<WorkerContext>,
    forward_auth: Arc<ForwardAuth>,
    registered: RegisteredConnection,
    io: I,
    peer: Peer,
    mut age: Age,
) {
    let is_trusted = forward_auth.trusts(peer);
    let asker = Rc::new(Asker { context, forward_auth, registered, peer, is_trusted });
    let service = service_fn(|question| exchange::answer(Rc::clone(&asker), question));
    let (timeout, max_head) = if is_trusted {
        (HEAD_TIMEOUT, MAX_HEAD)
    } else {
        (asker.context.shared.options.request_timeout, MAX_STRANGERS_HEAD)
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_buf_size(max_head)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let mut draining = false;
    let result = poll_fn(|cx| {
        match asker.registered.mode(cx) {
            Mode::Close => return Poll::Ready(Ok(())),
            Mode::Drain | Mode::Serve if draining => {}
            // A graceful shutdown would not end it: `hyper` would still wait for a first question.
            Mode::Drain if !asker.registered.had_request() => return Poll::Ready(Ok(())),
            Mode::Serve if !age.is_over(cx) => {}
            Mode::Drain | Mode::Serve => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
        }
        connection.as_mut().poll(cx)
    })
    .await;
    if let Err(error) = result
        && error.is_parse()
    {
        let refused = &asker.context.shared.refused_questions;
        refused.report(RefusedQuestion::InvalidHttp, peer, &error.to_string());
    }
}
