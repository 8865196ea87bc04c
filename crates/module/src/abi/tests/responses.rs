//! Bodies that are replaced, of requests and of responses.

use super::*;

type Lines<'a> = &'a [(&'a [u8], &'a [u8])];

const OK: Lines<'_> = &[(b":status", b"200"), (b"content-length", b"0"), (b"x-a", b"1")];

/// A request whose response is awaited.
fn awaiting(host: &Host<Scripted>) -> FakeStream<'_, Scripted> {
    let stream = asking(host, b"await");
    assert_eq!(stream.request_headers(true), CONTINUE);
    stream
}

/// The status that the client gets, the names of the other headers, and the body.
fn received(stream: &FakeStream<'_, Scripted>) -> (String, Vec<String>, String) {
    let (headers, body) = (stream.answer_headers(), stream.answer());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let is_status = |name: &[u8]| name == b":status";
    let status = headers.iter().find(|(name, _)| is_status(name)).map(|(_, value)| text(value));
    let others =
        headers.iter().filter(|(name, _)| !is_status(name)).map(|(name, _)| text(name)).collect();
    (status.unwrap(), others, text(&body))
}

fn expected(status: &str, others: &[&str], body: &str) -> (String, Vec<String>, String) {
    (status.to_owned(), others.iter().map(ToString::to_string).collect(), body.to_owned())
}

#[test]
fn the_body_of_a_request_is_replaced() {
    let host = host();
    for (body, forwarded) in [("replace", "another"), ("empty", "")] {
        let (first, rest) = body.as_bytes().split_at(3);
        // At once, in two parts, with trailers, and buffered by an earlier filter.
        let stream = asking(&host, b"buffer");
        stream.request_headers(false);
        assert_eq!(stream.request_body(body.as_bytes(), true), CONTINUE);
        assert_eq!(stream.forwarded(), forwarded.as_bytes());
        let stream = asking(&host, b"buffer");
        stream.request_headers(false);
        assert_eq!(stream.request_body(first, false), STOP_AND_BUFFER);
        assert_eq!(stream.request_body(rest, true), CONTINUE);
        assert_eq!(stream.forwarded(), forwarded.as_bytes());
        let stream = asking(&host, b"buffer");
        stream.request_headers(false);
        assert_eq!(stream.request_body(body.as_bytes(), false), STOP_AND_BUFFER);
        assert_eq!(stream.request_trailers(), CONTINUE);
        assert_eq!(stream.forwarded(), forwarded.as_bytes());
        let stream = asking(&host, b"buffer");
        stream.request_headers(false);
        assert_eq!(stream.request_buffered_body(&[first, rest], true), CONTINUE);
        assert_eq!(stream.forwarded(), forwarded.as_bytes());
    }
}

#[test]
fn the_body_of_a_response_is_replaced() {
    let host = host();
    let stream = awaiting(&host);
    assert_eq!(stream.response_headers(OK, false), STOP);
    assert_eq!(stream.buffer_limit(), 2_000_000);
    assert_eq!(stream.response_body(b"one", false), STOP_AND_BUFFER);
    assert_eq!(stream.answer(), b"", "nothing goes on before its end");
    assert_eq!(stream.response_body(b"two", true), CONTINUE);
    assert_eq!(received(&stream), expected("200", &["x-a", "content-length"], "[onetwo]"));
    assert!(stream.answer_headers().contains(&(b"content-length".to_vec(), b"8".to_vec())));
    // At once.
    let stream = awaiting(&host);
    assert_eq!(stream.response_headers(OK, false), STOP);
    assert_eq!(stream.response_body(b"one", true), CONTINUE);
    assert_eq!(received(&stream), expected("200", &["x-a", "content-length"], "[one]"));
    // With another status of success, and with what was said about another body.
    let stream = awaiting(&host);
    let accepted: Lines<'_> = &[(b":status", b"202"), (b"etag", b"\"1\"")];
    assert_eq!(stream.response_headers(accepted, false), STOP);
    assert_eq!(stream.response_body(b"one", true), CONTINUE);
    assert_eq!(received(&stream), expected("202", &["content-length"], "[one]"));
    // Ended by trailers.
    let stream = awaiting(&host);
    assert_eq!(stream.response_headers(OK, false), STOP);
    assert_eq!(stream.response_body(b"one", false), STOP_AND_BUFFER);
    assert_eq!(stream.response_trailers(), CONTINUE);
    assert_eq!(received(&stream), expected("200", &["x-a"], "[one]"));
}

#[test]
fn a_response_that_another_filter_has_buffered_is_read_once() {
    let host = host();
    for pieces in [&[&b"onetwo"[..]][..], &[b"one", b"two"]] {
        let stream = awaiting(&host);
        assert_eq!(stream.response_headers(OK, false), STOP);
        assert_eq!(stream.response_buffered_body(pieces, true), CONTINUE);
        assert_eq!(received(&stream), expected("200", &["x-a", "content-length"], "[onetwo]"));
    }
}

/// Envoy answers with 500, and ends the stream within the hook, if more is buffered than its limit.
#[test]
fn a_body_may_become_larger_than_the_buffers() {
    let host = host();
    for end_of_stream in [true, false] {
        let stream = awaiting(&host);
        assert_eq!(stream.response_headers(OK, false), STOP);
        if end_of_stream {
            assert_eq!(stream.response_body(b"grow", true), CONTINUE);
        } else {
            assert_eq!(stream.response_body(b"grow", false), STOP_AND_BUFFER);
            assert_eq!(stream.response_trailers(), CONTINUE);
        }
        assert_eq!((stream.sent(), stream.answer().len()), (None, 3_000_000));
    }
}

#[test]
fn a_response_that_is_not_awaited_goes_on_as_it_is() {
    let host = host();
    let stream = asking(&host, b"allow");
    assert_eq!(stream.request_headers(true), CONTINUE);
    assert_eq!(stream.response_headers(OK, false), CONTINUE);
    assert_eq!(stream.response_body(b"one", false), CONTINUE);
    assert_eq!(stream.response_body(b"two", true), CONTINUE);
    assert_eq!(received(&stream), expected("200", &["content-length", "x-a"], "onetwo"));
    // Nor does one that is an error.
    let stream = awaiting(&host);
    let error: Lines<'_> = &[(b":status", b"429"), (b"content-length", b"3")];
    assert_eq!(stream.response_headers(error, false), CONTINUE);
    assert_eq!(stream.response_body(b"one", true), CONTINUE);
    assert_eq!(received(&stream), expected("429", &["content-length"], "one"));
}

#[test]
fn a_response_that_cannot_be_changed_is_not_passed_on() {
    let host = host();
    let compressed: Lines<'_> = &[
        (b":status", b"200"),
        (b"content-type", b"text/plain"),
        (b"content-encoding", b"gzip"),
        (b"etag", b"\"1\""),
        (b"x-a", b"1"),
    ];
    for (body, sent, others) in [
        ("fail", "failed", &["x-a", "content-type", "content-length"][..]),
        ("panic", "", &["x-a", "content-length"]),
    ] {
        let stream = awaiting(&host);
        assert_eq!(stream.response_headers(compressed, false), STOP);
        assert_eq!(stream.response_body(body.as_bytes(), true), CONTINUE);
        assert_eq!(received(&stream), expected("502", others, sent), "{body}");
        let kind = stream.answer_headers().into_iter().find(|(name, _)| name == b"content-type");
        assert!(kind.is_none_or(|(_, kind)| kind == b"application/json"), "{body}");
    }
    assert!(!logged().concat().contains("a secret"));
    // It has no body.
    let stream = awaiting(&host);
    assert_eq!(stream.response_headers(compressed, true), CONTINUE);
    assert_eq!(received(&stream), expected("502", &["x-a"], ""));
    let stream = awaiting(&host);
    assert_eq!(stream.response_headers(compressed, false), STOP);
    assert_eq!(stream.response_trailers(), CONTINUE);
    assert_eq!(received(&stream), expected("502", &["x-a"], ""));
}

/// No panic leaves a hook, wherever it happens: here there is no room for the headers.
#[test]
fn a_panic_before_the_body_is_contained() {
    let host = host();
    let stream = awaiting(&host);
    stream.claim_headers(usize::MAX);
    assert_eq!(stream.response_headers(OK, false), CONTINUE);
    assert_eq!(stream.response_body(b"one", true), CONTINUE);
    stream.claim_headers(3);
    assert_eq!(received(&stream), expected("502", &["content-length", "x-a"], "one"));
}

#[test]
fn a_stream_may_end_while_its_response_is_awaited() {
    let host = host();
    let stream = awaiting(&host);
    stream.end();
    assert_eq!(stream.response_headers(OK, false), CONTINUE);
    let stream = awaiting(&host);
    stream.response_headers(OK, false);
    stream.response_body(b"one", false);
    stream.end();
    assert_eq!(stream.response_body(b"two", true), CONTINUE);
    assert_eq!(stream.schedulers(), 0);
}
