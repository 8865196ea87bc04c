//! The messages of a Check call, as far as a client needs them: what Envoy sends about a request, and the decision.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::run::{Answer, Fault};

/// `envoy.service.auth.v3.CheckRequest`, filled in like by Envoy with `encode_raw_headers`.
#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    source: Option<Peer>,
    #[prost(message, optional, tag = "2")]
    destination: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    request: Option<Request>,
}

#[derive(Clone, PartialEq, Message)]
struct Peer {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port_value: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRequest {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(string, tag = "4")]
    path: String,
    #[prost(string, tag = "5")]
    host: String,
    #[prost(string, tag = "6")]
    scheme: String,
    #[prost(int64, tag = "9")]
    size: i64,
    #[prost(string, tag = "10")]
    protocol: String,
    #[prost(bytes = "bytes", tag = "12")]
    raw_body: Bytes,
    #[prost(message, optional, tag = "13")]
    header_map: Option<HeaderMap>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "bytes", tag = "3")]
    raw_value: Bytes,
}

/// `envoy.service.auth.v3.CheckResponse`, reduced to the decision.
#[derive(Clone, PartialEq, Message)]
struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    denied: Option<Denied>,
    #[prost(message, optional, tag = "5")]
    error: Option<Denied>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Denied {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
}

/// The HTTP request that the Check call is about.
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) host: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: Bytes,
}

/// The message of a call, with its gRPC prefix.
pub(crate) fn write(subject: &Subject<'_>) -> Bytes {
    let pseudo = [
        (":authority", subject.host),
        (":method", subject.method),
        (":path", subject.path),
        (":scheme", "http"),
    ];
    let lines =
        pseudo.into_iter().chain(subject.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let headers = lines
        .map(|(name, value)| HeaderValue {
            key: name.to_ascii_lowercase(),
            raw_value: Bytes::copy_from_slice(value.as_bytes()),
        })
        .collect();
    let http = HttpRequest {
        id: "17098443014186932019".to_owned(),
        method: subject.method.to_owned(),
        path: subject.path.to_owned(),
        host: subject.host.to_owned(),
        scheme: "http".to_owned(),
        size: i64::try_from(subject.body.len()).unwrap_or(i64::MAX),
        protocol: "HTTP/1.1".to_owned(),
        raw_body: subject.body.clone(),
        header_map: Some(HeaderMap { headers }),
    };
    framed(&CheckRequest {
        attributes: Some(AttributeContext {
            source: Some(peer(51234)),
            destination: Some(peer(8000)),
            request: Some(Request { http: Some(http) }),
        }),
    })
}

fn peer(port: u32) -> Peer {
    let socket = SocketAddress { address: "127.0.0.1".to_owned(), port_value: port };
    Peer { address: Some(Address { socket_address: Some(socket) }) }
}

/// With the gRPC prefix: a byte for "not compressed", and the length.
fn framed(message: &CheckRequest) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(length + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// The decision, interpreted like by Envoy: a missing status or code 0 means allowed.
pub(crate) fn read(framed: &[u8]) -> Result<Answer, Fault> {
    let wrong = || Fault::Borrowed("an answer that is no CheckResponse");
    let (prefix, message) = framed.split_at_checked(5).ok_or_else(wrong)?;
    let length = prefix.iter().skip(1).fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    if prefix.first() != Some(&0) || length != message.len() {
        return Err(wrong());
    }
    let response = CheckResponse::decode(message).map_err(|_| wrong())?;
    if response.status.is_none_or(|it| it.code == 0) {
        return Ok(Answer::Allowed);
    }
    if response.error.is_some() {
        return Err("an error instead of a decision".into());
    }
    let status = response.denied.and_then(|it| it.status).and_then(|it| u16::try_from(it.code).ok());
    // Envoy answers 403 if there is no status.
    Ok(Answer::Denied(status.filter(|it| *it != 0).unwrap_or(403)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_envoy_says() {
        let headers = [("Authorization".to_owned(), "Basic eA==".to_owned())];
        let body = Bytes::from_static(b"{}");
        let call = write(&Subject { method: "POST", path: "/a?b", host: "app:80", headers: &headers, body });
        let mut lines = Vec::new();
        let request = envoy::CheckRequest::decode(&call[5..], |it| {
            lines.push((String::from_utf8_lossy(it.name).into_owned(), it.value.to_vec()));
        })
        .unwrap();
        assert_eq!(
            (request.method, request.path, request.host),
            (&b"POST"[..], &b"/a?b"[..], &b"app:80"[..])
        );
        let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [":authority", ":method", ":path", ":scheme", "authorization"]);
        assert_eq!(lines[4].1, b"Basic eA==");
    }

    #[test]
    fn what_is_no_answer_is_never_an_allow() {
        assert_eq!(read(&[0, 0, 0, 0, 0]), Ok(Answer::Allowed));
        for wrong in
            [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 1], &[0, 0, 0, 0, 1, 0xFF], &[0; 6]]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        // A status of 7 with nothing else, and one with an error response (field 5).
        assert_eq!(read(&[0, 0, 0, 0, 4, 0x0A, 2, 8, 7]), Ok(Answer::Denied(403)));
        assert!(read(&[0, 0, 0, 0, 6, 0x0A, 2, 8, 7, 0x2A, 0]).is_err());
    }
}
