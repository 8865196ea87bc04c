//! Reading a `CheckRequest` and writing a `CheckResponse`: rolegate and `envoy-types`.
//!
//! Each reading gives the path, and looks at each header line once: that is what an authorizer does
//! at the least.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails ends")]

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use benches::message::{self, ALICE, SHAPES};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use envoy::Encoder;
use envoy_types::pb::envoy::config::core::v3 as config;
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::google;
use prost::Message;
use testbed::tokens::Signer;

/// What is seen of a message: the length of its path, its header lines, and the bytes of their
/// names and values.
type Seen = (usize, usize, usize);
/// Writes an answer, one that allows or one that denies.
type Write = fn(bool) -> Vec<u8>;

fn decode(criterion: &mut Criterion) {
    let bearer = Signer::default().bearer("ES256", 1_800_000_000);
    let messages = [
        ("560 B", message::small(ALICE)),
        ("1.7 KB", message::large(ALICE)),
        ("1.5 KB token", message::small(&bearer)),
    ];
    for (size, lines) in messages {
        for (shape, raw_headers) in SHAPES {
            let message = message::encoded(&lines, raw_headers, "/people");
            let expected = with_envoy_types(&message);
            assert_eq!((expected.0, expected.1), (7, lines.len() + 4), "with the pseudo-headers");
            let mut group = criterion.benchmark_group(format!("decode/{size}, {shape}"));
            let mut add = |who: &str, read: fn(&[u8]) -> Seen| {
                group.bench_function(BenchmarkId::from_parameter(who), |bencher| {
                    bencher.iter(|| assert_eq!(read(black_box(&message)), expected));
                });
            };
            add("rolegate", rolegate);
            add("envoy-types", with_envoy_types);
            group.finish();
        }
    }
}

fn rolegate(message: &[u8]) -> Seen {
    let (mut lines, mut bytes) = (0, 0);
    let read = envoy::CheckRequest::decode(message, |line| {
        lines += 1;
        bytes += line.name.len() + line.value.len();
    });
    (read.unwrap().path.len(), lines, bytes)
}

fn with_envoy_types(message: &[u8]) -> Seen {
    let read = auth::CheckRequest::decode(message).unwrap();
    let http = read.attributes.unwrap().request.unwrap().http.unwrap();
    let list = http
        .header_map
        .iter()
        .flat_map(|map| &map.headers)
        .map(|header| header.key.len() + header.raw_value.len());
    seen(&http.path, http.headers.iter().map(|(name, value)| name.len() + value.len()).chain(list))
}

fn seen(path: &str, lines: impl Iterator<Item = usize>) -> Seen {
    let (count, bytes) = lines.fold((0, 0), |(count, bytes), line| (count + 1, bytes + line));
    (path.len(), count, bytes)
}

/// What a response sets: if it allows, headers and one to remove; if it denies, headers and a body.
const SET: [(&str, &str); 2] = [("x-user", "alice"), ("x-roles", "guest,reader")];
const REMOVE: &str = "x-secret";
const ANSWERED: [(&str, &str); 1] = [("content-type", "application/json")];
const BODY: &str = r#"{"error":"forbidden","request_id":"9412377110432157732"}"#;

fn encode(criterion: &mut Criterion) {
    let writers: [(&str, Write); 2] =
        [("rolegate", rolegate_answer), ("envoy-types", envoy_types_answer)];
    for (what, allowed) in [("allowed", true), ("denied", false)] {
        let expected =
            auth::CheckResponse::decode(&*without_prefix(rolegate_answer(allowed))).unwrap();
        let mut group = criterion.benchmark_group(format!("encode/{what}"));
        for (who, write) in writers {
            assert_eq!(
                auth::CheckResponse::decode(&*without_prefix(write(allowed))).unwrap(),
                expected,
                "{who}"
            );
            let length = write(allowed).len();
            group.bench_function(BenchmarkId::from_parameter(who), |bencher| {
                bencher.iter(|| assert_eq!(write(black_box(allowed)).len(), length));
            });
        }
        group.finish();
    }
}

fn without_prefix(body: Vec<u8>) -> Vec<u8> {
    body.into_iter().skip(5).collect()
}

fn rolegate_answer(allowed: bool) -> Vec<u8> {
    thread_local!(static ENCODER: RefCell<Encoder> = RefCell::default());
    let answer = ENCODER.with_borrow_mut(|encoder| {
        if allowed {
            encoder.allowed(black_box(SET).into_iter(), black_box([REMOVE]).into_iter())
        } else {
            encoder.denied(403, black_box(ANSWERED).into_iter(), black_box(BODY))
        }
    });
    answer.unwrap()
}

fn envoy_types_answer(allowed: bool) -> Vec<u8> {
    #[expect(
        deprecated,
        reason = "versions of Envoy that do not read `append_action` need `append`"
    )]
    let option = |(name, value): (&str, &str)| config::HeaderValueOption {
        header: Some(config::HeaderValue {
            key: name.into(),
            value: value.into(),
            ..Default::default()
        }),
        append: Some(google::protobuf::BoolValue { value: false }),
        append_action: 2,
        ..Default::default()
    };
    let (code, response) = if allowed {
        let ok = auth::OkHttpResponse {
            headers: black_box(SET).map(option).into(),
            headers_to_remove: vec![black_box(REMOVE).into()],
            ..Default::default()
        };
        (0, auth::check_response::HttpResponse::OkResponse(ok))
    } else {
        let denied = auth::DeniedHttpResponse {
            status: Some(envoy_types::pb::envoy::r#type::v3::HttpStatus { code: 403 }),
            headers: black_box(ANSWERED).map(option).into(),
            body: black_box(BODY).into(),
        };
        (7, auth::check_response::HttpResponse::DeniedResponse(denied))
    };
    let status = google::rpc::Status { code, ..Default::default() };
    let response = auth::CheckResponse {
        status: Some(status),
        http_response: Some(response),
        ..Default::default()
    };
    load::check_message::framed(&response.encode_to_vec()).into()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = decode, encode
}
criterion_main!(benches);
