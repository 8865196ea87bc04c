//! The messages of a Check call: Envoy's description of a request, and the decision.

use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use prost::Message;

use crate::answer::{Answer, Fault};

/// The path of the gRPC method.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The HTTP request that a Check call is about.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    /// Envoy's id of the request.
    pub id: &'a str,
    /// The client's address; if `None`, the message names neither end of the connection.
    pub source: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The path, with its query.
    pub path: &'a str,
    /// The host.
    pub host: &'a str,
    /// The header lines, without the pseudo-headers; Envoy writes names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// The encoding of the headers: separate lines with the values as bytes (`encode_raw_headers`),
    /// or a map of strings (Envoy's default).
    pub raw_headers: bool,
    /// The body.
    pub body: &'a [u8],
}

impl Default for Checked<'_> {
    fn default() -> Self {
        Self {
            id: "17098443014186932019",
            source: Some("127.0.0.1"),
            method: "GET",
            path: "/people",
            host: "localhost",
            headers: &[],
            raw_headers: true,
            body: &[],
        }
    }
}

impl Checked<'_> {
    /// The message, filled in as Envoy does it.
    pub fn message(&self) -> CheckRequest {
        let pseudo = [
            (":authority", self.host),
            (":method", self.method),
            (":path", self.path),
            (":scheme", "http"),
        ];
        let lines = pseudo.iter().chain(self.headers);
        let mut http = HttpRequest {
            id: self.id.to_owned(),
            method: self.method.to_owned(),
            path: self.path.to_owned(),
            host: self.host.to_owned(),
            scheme: "http".to_owned(),
            size: i64::try_from(self.body.len()).unwrap_or(i64::MAX),
            protocol: "HTTP/1.1".to_owned(),
            raw_body: self.body.to_vec(),
            ..HttpRequest::default()
        };
        if self.raw_headers {
            let headers = lines.map(|(name, value)| core::HeaderValue {
                key: (*name).to_owned(),
                raw_value: value.as_bytes().to_vec(),
                ..core::HeaderValue::default()
            });
            http.header_map = Some(core::HeaderMap { headers: headers.collect() });
        } else {
            http.headers =
                lines.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        }
        let attributes = AttributeContext {
            source: self.source.map(|address| peer(address, 51_234)),
            destination: self.source.map(|_| peer("127.0.0.1", 8_000)),
            request: Some(Request { time: None, http: Some(http) }),
            ..AttributeContext::default()
        };
        CheckRequest { attributes: Some(attributes) }
    }

    /// The message in its gRPC frame.
    pub fn framed(&self) -> Bytes {
        framed(&self.message().encode_to_vec())
    }
}

fn peer(address: &str, port: u32) -> Peer {
    let socket = core::SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(port)),
        ..core::SocketAddress::default()
    };
    let address = core::Address { address: Some(core::address::Address::SocketAddress(socket)) };
    Peer { address: Some(address), ..Peer::default() }
}

/// A message in its gRPC frame: a byte for "not compressed", and the length.
pub fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    bytes.put_slice(message);
    bytes.freeze()
}

/// `envoy.service.auth.v3.CheckResponse`, reduced to the decision: decoding headers would slow the
/// generator down.
#[derive(Clone, PartialEq, Message)]
struct Decision {
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

/// The decision, interpreted like by Envoy: a missing status or code 0 means allowed.
pub(crate) fn read(framed: &[u8]) -> Result<Answer, Fault> {
    const WRONG: Fault = Fault::Borrowed("a response that is not a CheckResponse");
    let Some((&[0, a, b, c, d], message)) = framed.split_first_chunk() else { return Err(WRONG) };
    if usize::try_from(u32::from_be_bytes([a, b, c, d])) != Ok(message.len()) {
        return Err(WRONG);
    }
    let response = Decision::decode(message).map_err(|_| WRONG)?;
    if response.status.is_none_or(|status| status.code == 0) {
        return Ok(Answer::Allowed);
    }
    if response.error.is_some() {
        return Err("an error instead of a decision".into());
    }
    let status = response
        .denied
        .and_then(|denied| denied.status)
        .and_then(|status| u16::try_from(status.code).ok());
    // Envoy answers 403 if there is no status.
    Ok(Answer::Denied(status.filter(|code| *code != 0).unwrap_or(403)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_envoy_says() {
        let headers = [("authorization", "Basic eA==")];
        for raw_headers in [true, false] {
            let (path, host) = ("/a?b", "app:80");
            let checked =
                Checked { path, host, headers: &headers, raw_headers, ..Checked::default() };
            let message = CheckRequest::decode(&checked.framed()[5..]).unwrap();
            let http = message.attributes.unwrap().request.unwrap().http.unwrap();
            assert_eq!((&*http.method, &*http.path, &*http.host), ("GET", path, host));
            let raw = http.header_map.unwrap_or_default().headers;
            let raw = raw
                .into_iter()
                .map(|header| (header.key, String::from_utf8(header.raw_value).unwrap()));
            let mut lines: Vec<_> = raw.chain(http.headers).collect();
            lines.sort();
            let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, [":authority", ":method", ":path", ":scheme", "authorization"]);
            assert_eq!(lines[4].1, "Basic eA==");
        }
    }

    #[test]
    fn what_is_no_answer_is_never_an_allow() {
        assert_eq!(read(&[0, 0, 0, 0, 0]), Ok(Answer::Allowed));
        for wrong in [
            &[][..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 0],
            &[0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 1, 0xFF],
            &[0; 6],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        // A status of 7 with nothing else, and one with an error response (field 5).
        assert_eq!(read(&[0, 0, 0, 0, 4, 0x0A, 2, 8, 7]), Ok(Answer::Denied(403)));
        assert!(read(&[0, 0, 0, 0, 6, 0x0A, 2, 8, 7, 0x2A, 0]).is_err());
    }
}
