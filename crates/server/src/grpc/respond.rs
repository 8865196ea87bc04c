//! Writes gRPC answers to an HTTP/2 stream, as the specification "gRPC over HTTP2" says in its
//! section Responses.
//!
//! Sending fails only if the peer has reset the stream.

use authorizer::Limit;
use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use runtime::counters::ErrorKind;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const OK: HeaderValue = HeaderValue::from_static("0");

// The codes of gRPC for `grpc-status`.
const CANCELLED: &str = "1";
const INVALID_ARGUMENT: &str = "3";
const DEADLINE_EXCEEDED: &str = "4";
const NOT_FOUND: &str = "5";
const RESOURCE_EXHAUSTED: &str = "8";
const UNIMPLEMENTED: &str = "12";
const INTERNAL: &str = "13";
const UNAVAILABLE: &str = "14";

/// Maximum payload of a DATA frame of an answer below [`MIN_WHOLE`]. `h2` copies frames of up to
/// this size into one write, together with the other answers of the connection's turn. It sends
/// each larger frame in two or three writes of its own. An answer with a long user name or path is
/// larger, so it is split. When it was not split, a peer that asked for many such answers cost a
/// worker 30 % of its time (November 2026).
const MAX_FRAME: usize = 1023;
/// A message of at least this length is not split into frames of [`MAX_FRAME`]: its frames are as
/// large as the peer permits. For so many bytes, two or three writes per frame are few. Many small
/// frames would cost memory: each frame that waits for the peer takes some hundred bytes.
const MIN_WHOLE: usize = 8 << 10;

/// Sends a message, which includes its gRPC prefix, and the status OK.
pub(super) fn message(respond: &mut SendResponse<Bytes>, message: Bytes) -> Result<(), h2::Error> {
    let mut stream = begin(respond)?;
    let mut unsent = message;
    // Sends without waiting for the flow-control window: `h2` buffers what the window does not
    // permit yet. The authorizer limits the size of an answer, so the buffer stays small. And so
    // all answers of a turn leave together.
    if unsent.len() < MIN_WHOLE {
        while unsent.len() > MAX_FRAME {
            stream.send_data(unsent.split_to(MAX_FRAME), false)?;
        }
    }
    stream.send_data(unsent, false)?;
    end(&mut stream)
}

/// Begins an answer of several messages.
pub(super) fn begin(respond: &mut SendResponse<Bytes>) -> Result<SendStream<Bytes>, h2::Error> {
    respond.send_response(grpc_response(), false)
}

/// Ends an answer with the status OK.
pub(super) fn end(stream: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    // Without a capacity, the map would allocate room for eight headers at the first insert.
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, OK);
    stream.send_trailers(trailers)
}

/// A message with its five-byte gRPC prefix: a zero byte (not compressed), then the length.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

/// Sends a gRPC error instead of a message.
pub(super) fn error(respond: &mut SendResponse<Bytes>, kind: ErrorKind) -> Result<(), h2::Error> {
    let mut response = error_response(status(kind));
    if kind == ErrorKind::Compressed {
        response.headers_mut().insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    respond.send_response(response, true).map(drop)
}

/// Answers a call that exceeds a limit with a gRPC error. Only for calls other than `Check`: a
/// check is denied instead.
pub(super) fn limit(respond: &mut SendResponse<Bytes>, limit: Limit) -> Result<(), h2::Error> {
    let status = match limit {
        Limit::Deadline => (DEADLINE_EXCEEDED, "deadline exceeded"),
        Limit::MessageSize => (RESOURCE_EXHAUSTED, "the message is too large"),
        Limit::Capacity
        | Limit::HeaderLines
        | Limit::ResponseSize
        | Limit::BodySize
        | Limit::Introspection => (RESOURCE_EXHAUSTED, "resource limit exceeded"),
    };
    respond.send_response(error_response(status), true).map(drop)
}

/// Answers a call of an unknown method.
pub(super) fn unimplemented(respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    respond.send_response(error_response((UNIMPLEMENTED, "unknown method")), true).map(drop)
}

/// Answers a health check of an unknown service.
pub(super) fn not_found(respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    respond.send_response(error_response((NOT_FOUND, "unknown service")), true).map(drop)
}

/// Sends an HTTP status without a body, to a peer that does not speak gRPC.
pub(super) fn plain(
    respond: &mut SendResponse<Bytes>,
    status: StatusCode,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    respond.send_response(response, true).map(drop)
}

fn error_response((code, message): (&'static str, &'static str)) -> Response<()> {
    let mut response = grpc_response();
    response.headers_mut().insert(GRPC_STATUS, HeaderValue::from_static(code));
    response.headers_mut().insert(GRPC_MESSAGE, HeaderValue::from_static(message));
    response
}

fn grpc_response() -> Response<()> {
    let mut response = Response::new(());
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(CONTENT_TYPE, GRPC);
    *response.headers_mut() = headers;
    response
}

/// The gRPC status of each error. No error has the status `0` (OK), which would allow the request.
const fn status(kind: ErrorKind) -> (&'static str, &'static str) {
    match kind {
        ErrorKind::Cancelled => (CANCELLED, "cancelled"),
        ErrorKind::Malformed => (INVALID_ARGUMENT, "not a CheckRequest of an HTTP request"),
        ErrorKind::Compressed => (UNIMPLEMENTED, "compression is not supported"),
        ErrorKind::Framing => (INTERNAL, "not exactly one message"),
        ErrorKind::Unanswerable => (INTERNAL, "the answer cannot be written"),
        ErrorKind::Internal => (INTERNAL, "internal error"),
        ErrorKind::NotReady => (UNAVAILABLE, "no active policy"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testbed::pages::table;

    use super::*;

    #[test]
    fn no_error_is_ok() {
        for kind in ErrorKind::ALL {
            assert!((1..=16).contains(&status(kind).0.parse::<u8>().unwrap()), "{}", kind.name());
        }
    }

    #[test]
    fn the_table_of_errors_is_what_a_check_can_get() {
        let page = include_str!("../../../../docs/operations.md");
        let rows = table(page, "| kind | gRPC status |");
        let listed: BTreeSet<(&str, &str)> =
            rows.iter().map(|row| (row[0].trim_matches('`'), row[1])).collect();
        assert_eq!(
            listed,
            ErrorKind::ALL.map(|kind| (kind.name(), status(kind).0)).into_iter().collect()
        );
    }
}
