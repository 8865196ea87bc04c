//! Bodies that decisions depend on.

use super::*;

/// A request with these parts of a body, the last of which ends it. Returns its last status.
fn buffering<'a>(host: &'a Host<Scripted>, parts: &[&[u8]]) -> (FakeStream<'a, Scripted>, u32) {
    let stream = asking(host, b"buffer");
    assert_eq!(stream.request_headers(false), STOP);
    let (last, rest) = parts.split_last().unwrap();
    for part in rest {
        assert_eq!(stream.request_body(part, false), STOP_AND_BUFFER);
    }
    let status = stream.request_body(last, true);
    (stream, status)
}

#[test]
fn a_body_is_decided_about_as_a_whole() {
    let host = host();
    let whole: [&[&[u8]]; 5] =
        [&[b"allow"], &[b"all", b"ow"], &[b"al", b"", b"low", b""], &[b"", b"allow"], &[b"a"]];
    for parts in whole {
        let body = parts.concat();
        let (stream, status) = buffering(&host, parts);
        if body == b"allow" {
            assert_eq!((status, stream.sent()), (CONTINUE, None));
        } else {
            assert_eq!((status, stream.sent().unwrap().body), (STOP_AND_WATERMARK, body));
        }
        assert_eq!(stream.resumed(), 0, "Envoy goes on by itself");
    }
    for (body, status) in [(&b"allow"[..], CONTINUE), (b"other", STOP)] {
        let stream = asking(&host, b"buffer");
        assert_eq!(
            (stream.request_headers(false), stream.request_body(body, false)),
            (STOP, STOP_AND_BUFFER)
        );
        assert_eq!(stream.request_trailers(), status);
        assert_eq!(stream.sent().map(|sent| sent.body), (status == STOP).then(|| body.to_vec()));
    }
    // One that an earlier filter has buffered is not counted twice.
    let stream = asking(&host, b"buffer");
    assert_eq!(stream.request_headers(false), STOP);
    assert_eq!(stream.request_buffered_body(&[b"al", b"low"], true), CONTINUE);
}

#[test]
fn a_request_may_be_paused_after_its_body() {
    let host = host();
    for ending in [false, true] {
        let (stream, status) = buffering(&host, &[b"pau", b"se"]);
        let stream = if ending { stream.ending_at_once() } else { stream };
        assert_eq!(status, STOP_AND_WATERMARK);
        stream.scheduled(1);
        assert_eq!((stream.resumed(), stream.ended()), (1, ending));
    }
    let (stream, _) = buffering(&host, &[b"pause"]);
    stream.end();
    assert_eq!((stream.schedulers(), host.filter().states.load(Ordering::SeqCst)), (0, 0));
}

#[test]
fn a_body_that_is_not_whole_is_not_passed_on() {
    let host = host();
    // What follows after the end was not decided about.
    let stream = asking(&host, b"buffer");
    assert_eq!(
        (stream.request_headers(true), stream.request_body(b"allow", true)),
        (STOP, STOP_AND_WATERMARK)
    );
    assert_eq!(stream.sent().unwrap().status, 503);
    let (stream, _) = buffering(&host, &[b"panic"]);
    assert_eq!(
        (stream.sent().unwrap().details.as_str(), host.metric("panics")),
        ("rolegate_panic", 1)
    );
    assert_eq!(stream.request_body(b"allow", true), STOP_AND_WATERMARK);
    drop(stream);
    // The client leaves.
    let host = self::host();
    let stream = asking(&host, b"buffer");
    assert_eq!(
        (stream.request_headers(false), stream.request_body(b"allow", false)),
        (STOP, STOP_AND_BUFFER)
    );
    stream.end();
    assert_eq!(stream.request_body(b"", true), STOP_AND_WATERMARK);
    assert_eq!(host.filter().states.load(Ordering::SeqCst), 0);
}

/// Envoy's own limit is never lowered.
#[test]
fn the_buffers_of_a_request_can_be_enlarged() {
    let host = host();
    let (stream, _) = buffering(&host, &[b"other"]);
    assert_eq!(stream.buffer_limit(), 1 << 20);
    let stream = asking(&host, b"buffer").with_buffer_limit(4);
    stream.request_headers(false);
    assert_eq!(stream.buffer_limit(), 8);
    let unlimited = asking(&host, b"buffer").with_buffer_limit(0);
    unlimited.request_headers(false);
    assert_eq!(unlimited.buffer_limit(), 0);
}
