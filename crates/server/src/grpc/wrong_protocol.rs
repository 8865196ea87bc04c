//! Peers that do not make `Check` calls over gRPC, which is nearly always a mistake in the configuration of a proxy.
//! What they speak is counted, and logged together with the change in Envoy that helps.

use std::fmt;
use std::net::SocketAddr;

use super::notices::Notices;

/// What a peer speaks in place of `Check` calls over gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrongProtocol {
    /// A TLS handshake.
    Tls,
    /// HTTP/1.
    Http1,
    /// Neither TLS nor HTTP.
    Unknown,
    /// A request that is not valid in HTTP/2.
    InvalidHttp2,
    /// HTTP/2, but not gRPC.
    NotGrpc,
    /// gRPC, but a method that is not served.
    UnknownMethod,
    /// A `Check` call whose message is not a `CheckRequest` of an HTTP request.
    NotCheckRequest,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    /// A Unix socket: its other end has no name.
    Unix,
}

/// Counts and logs wrong protocols, for all workers.
#[derive(Debug)]
pub(super) struct WrongProtocols(Notices<WrongProtocol>);

/// Number of bytes at the start of a connection that tell its protocol.
pub(super) const FIRST_BYTES: usize = 3;
/// The most characters of a method's name that are logged.
const NAME: usize = 100;

impl WrongProtocol {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Tls,
        Self::Http1,
        Self::Unknown,
        Self::InvalidHttp2,
        Self::NotGrpc,
        Self::UnknownMethod,
        Self::NotCheckRequest,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Http1 => "http1",
            Self::Unknown => "unknown",
            Self::InvalidHttp2 => "invalid_http2",
            Self::NotGrpc => "not_grpc",
            Self::UnknownMethod => "unknown_method",
            Self::NotCheckRequest => "not_check_request",
        }
    }

    /// What to change in Envoy.
    const fn advice(self) -> &'static str {
        match self {
            Self::Tls => {
                "the peer speaks TLS, and this port does not: start with `--tls-certificate` and `--tls-key`; on loopback, \
                 remove `transport_socket` from the cluster in Envoy; in a mesh, exclude this port from mutual TLS"
            }
            Self::Http1 => {
                "the peer speaks HTTP/1, and gRPC needs HTTP/2: in Envoy, give the cluster `http2_protocol_options`, \
                 and the ext_authz filter `grpc_service` in place of `http_service`; for health and metrics, use the \
                 address of `--admin`"
            }
            Self::Unknown => "the peer speaks neither HTTP/2 nor TLS: is this the right port?",
            Self::InvalidHttp2 => {
                "the peer sends a request that is not valid HTTP/2. gRPC libraries may send the path of a Unix socket as \
                 `:authority`: set the channel's `grpc.default_authority` to `localhost`, in Envoy use `envoy_grpc`"
            }
            Self::NotGrpc => {
                "the peer sends HTTP requests that are not gRPC: in Envoy, give the ext_authz filter `grpc_service` \
                 in place of `http_service`"
            }
            Self::UnknownMethod => {
                "the peer calls a gRPC method that is not served here: in Envoy, set `transport_api_version: V3` in \
                 the ext_authz filter"
            }
            Self::NotCheckRequest => {
                "the message is not a CheckRequest about an HTTP request: in Envoy, use the filter \
                 `envoy.filters.http.ext_authz`, not the network filter `envoy.filters.network.ext_authz`"
            }
        }
    }

    /// What a connection speaks whose HTTP/2 handshake has failed. `None` if nothing has arrived, or HTTP/2.
    ///
    /// A TLS connection begins with a handshake record (RFC 8446, 5.1: type 22, version 3.x), an HTTP/1 connection with
    /// a method in capital letters (RFC 9112, 3).
    pub(super) fn of_first_bytes(first: &[u8]) -> Option<Self> {
        match first {
            // HTTP/2 begins with `PRI` (RFC 9113, 3.4). What failed then is not the choice of the protocol.
            [] | b"PRI" => None,
            [22, 3, ..] => Some(Self::Tls),
            first if first.len() == FIRST_BYTES && first.iter().all(u8::is_ascii_uppercase) => {
                Some(Self::Http1)
            }
            _ => Some(Self::Unknown),
        }
    }
}

impl WrongProtocols {
    pub(super) fn new() -> Self {
        Self(Notices::new(&WrongProtocol::ALL))
    }

    /// Counts it, and logs it unless that was done a short time ago. `method` is what the peer called, if it got that
    /// far.
    pub(super) fn notice(&self, wrong: WrongProtocol, peer: Peer, method: Option<&str>) {
        if !self.0.notice(wrong) {
            return;
        }
        let (protocol, advice) = (wrong.name(), wrong.advice());
        match method {
            Some(method) => {
                let method: String = method.chars().take(NAME).collect();
                tracing::warn!(protocol, %peer, method = %method.escape_debug(), "{advice}");
            }
            None => tracing::warn!(protocol, %peer, "{advice}"),
        }
    }

    /// How often each was seen.
    pub(super) fn counts(&self) -> Vec<(WrongProtocol, u64)> {
        self.0.counts()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let of = WrongProtocol::of_first_bytes;
        assert_eq!(of(&[]), None);
        assert_eq!(of(b"PRI"), None);
        assert_eq!(of(&[22, 3, 1]), Some(WrongProtocol::Tls));
        assert_eq!(of(b"GET"), Some(WrongProtocol::Http1));
        assert_eq!(of(b"PRO"), Some(WrongProtocol::Http1), "PROXY and PROPFIND");
        for unknown in [&b"get"[..], b"G", &[22], &[22, 4, 1], &[0, 0, 0]] {
            assert_eq!(of(unknown), Some(WrongProtocol::Unknown), "{unknown:?}");
        }
    }
}
