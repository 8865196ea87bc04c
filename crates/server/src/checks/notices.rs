//! Events that the person on call should know about. Each is counted by its kind, and logged with
//! advice. Peers try again and again, so each kind is logged at most once per interval.
//!
//! All workers share these counters. Only failing connections and requests write to them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use authorizer::Limit;
use rustix::io::Errno;
use rustls::{Error, InvalidMessage};

/// Minimum time between two log lines about the same kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Number of bytes at the start of a connection that tell its protocol.
pub(crate) const FIRST_BYTES: usize = 3;
/// Maximum number of characters of a method's name in the log.
const MAX_METHOD: usize = 100;

const NOT_ACCEPTED: &str = "cannot accept a connection; closing an idle one, if there is one";

/// Counts events by kind, and tells which of them to log.
#[derive(Debug)]
pub(crate) struct Notices<K: 'static> {
    kinds: &'static [K],
    counters: Box<[NoticeCounter]>,
    start: Instant,
}

#[derive(Debug, Default)]
struct NoticeCounter {
    count: AtomicU64,
    /// The time until which no event is logged, in milliseconds since the start.
    quiet_until: AtomicU64,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    /// A Unix socket: its other end has no name.
    Unix,
}

/// Defines kinds of events: each with its name in metrics and logs, and the advice in the log.
macro_rules! notice_kinds {
    ($($(#[$type_doc:meta])* pub enum $Kind:ident {
        $($(#[$doc:meta])* $Variant:ident = $name:literal, $advice:expr;)+
    })+) => {$(
        $(#[$type_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Kind {
            $($(#[$doc])* $Variant,)+
        }

        impl $Kind {
            /// All kinds.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// The name in metrics and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)+ }
            }

            const fn advice(self) -> &'static str {
                match self { $(Self::$Variant => $advice,)+ }
            }
        }
    )+};
}

notice_kinds! {
    /// Why a connection was not accepted.
    pub enum AcceptError {
        /// The process or the system has no file descriptor left.
        FileDescriptors = "file_descriptors",
            "cannot accept a connection without a file descriptor; closing an idle one, if there \
             is one: raise the limit of open files (`ulimit -n`), or lower `--max-connections`";
        /// The system has no memory left for the connection.
        Memory = "memory", NOT_ACCEPTED;
        /// The connection failed or was closed before it was accepted. Others are not affected.
        Connection = "connection", NOT_ACCEPTED;
        /// Anything else.
        Other = "other", NOT_ACCEPTED;
    }

    /// The limit that keeps a check from waiting. The check is denied at once with 503.
    ///
    /// It is a denial and not a gRPC error, so that no Envoy lets a request pass because of it, not
    /// even with `failure_mode_allow: true` (S8 in SECURITY.md).
    pub enum Overload {
        /// The number of checks that wait.
        WaitingChecks = "waiting_checks",
            "checks are denied with 503: `--max-waiting-checks` others wait. Does a peer begin \
             messages and not end them, or do clients try credentials? Limit their rate in \
             Envoy, or add instances";
        /// The memory that waiting checks take.
        Memory = "memory",
            "checks are denied with 503: waiting checks use all memory that they may (half of \
             it, if their credentials are being verified). Does a peer begin messages and not \
             end them, or do clients of many networks try credentials in large requests? Limit \
             their rate in Envoy. If Envoy sends large bodies, add instances";
        /// The verifications of a client network.
        ClientNetwork = "client_network",
            "checks are denied with 503: too many of one client network wait until their \
             credentials are verified. Does a client guess passwords? Limit its rate in Envoy. \
             All clients of a proxy in front of Envoy are one network";
        /// The number of passwords that wait to be hashed.
        HashQueue = "hash_queue",
            "checks are denied with 503: more passwords arrive than are hashed. Does a client \
             guess passwords? Limit its rate in Envoy, or raise `--hash-threads` or the number \
             of instances";
        /// The number of tokens that wait to be verified.
        TokenQueue = "token_queue",
            "checks are denied with 503: more new tokens arrive than are verified. Does a client \
             send invalid ones? Limit its rate in Envoy, or add cores or instances";
    }

    /// The protocol that a peer speaks in place of `Check` calls over gRPC: nearly always a mistake
    /// in the configuration of a proxy.
    pub enum WrongProtocol {
        /// A TLS handshake.
        Tls = "tls",
            "the peer speaks TLS, and this port does not: start with `--tls-certificate` and \
             `--tls-key`; on loopback, remove `transport_socket` from the cluster in Envoy; in a \
             mesh, exclude this port from mutual TLS";
        /// HTTP/1.
        Http1 = "http1",
            "the peer speaks HTTP/1, and gRPC needs HTTP/2: in Envoy, give the cluster \
             `http2_protocol_options`, and the ext_authz filter `grpc_service` in place of \
             `http_service`; for health and metrics, use the address of `--admin`";
        /// Neither TLS nor HTTP.
        Unknown = "unknown",
            "the peer speaks neither HTTP/2 nor TLS: is this the right port?";
        /// A request that is not valid in HTTP/2.
        InvalidHttp2 = "invalid_http2",
            "the peer sends a request that is not valid HTTP/2. gRPC libraries may send the path \
             of a Unix socket as `:authority`: set the channel's `grpc.default_authority` to \
             `localhost`, in Envoy use `envoy_grpc`";
        /// HTTP/2, but not gRPC.
        NotGrpc = "not_grpc",
            "the peer sends HTTP requests that are not gRPC: in Envoy, give the ext_authz filter \
             `grpc_service` in place of `http_service`";
        /// gRPC, but a method that is not served.
        UnknownMethod = "unknown_method",
            "the peer calls a gRPC method that is not served here: in Envoy, set \
             `transport_api_version: V3` in the ext_authz filter";
        /// A `Check` call whose message is not a `CheckRequest` of an HTTP request.
        NotCheckRequest = "not_check_request",
            "the message is not a CheckRequest about an HTTP request: in Envoy, use the filter \
             `envoy.filters.http.ext_authz`, not the network filter \
             `envoy.filters.network.ext_authz`";
    }

    /// Why a question over HTTP is not decided.
    pub enum RefusedQuestion {
        /// It comes from an address that may not ask.
        Untrusted = "untrusted",
            "an address that may not ask has asked over HTTP, and got 403: if it is your proxy, add \
             it to `--http-trusted`; if not, keep others away from this port";
        /// It does not tell the request that it is about.
        Headers = "headers",
            "a question over HTTP does not tell its request as `--http-profile` says, and got 400: \
             is this the right profile, and does the proxy set each of its headers?";
        /// It is not valid in HTTP/1.1, or too long.
        InvalidHttp = "invalid_http",
            "the peer sends what is no valid HTTP/1.1 request, or too long a head: does it speak \
             HTTP/2 or TLS?";
    }

    /// Why a TLS handshake failed.
    pub enum TlsFailure {
        /// The peer does not speak TLS.
        NotTls = "not_tls",
            "the peer does not speak TLS, and this port does: in Envoy, give the cluster a \
             `transport_socket`";
        /// The client has no certificate, or an invalid one.
        ClientCertificate = "client_certificate",
            "the client has no certificate of an authority in `--tls-client-ca`: in Envoy, set \
             `tls_certificates` in the cluster's `transport_socket`";
        /// The client's certificate has none of the names that may connect.
        ClientName = "client_name",
            "no name in the client's certificate is listed in `--tls-client-names`";
        /// The connection was open, and the certificate of its client is not accepted any more.
        NoLongerAccepted = "no_longer_accepted",
            "closed an open connection: the client's certificate has expired, or is of no \
             authority in the changed `--tls-client-ca`";
        /// The peer has ended the handshake, for example because it does not trust the certificate
        /// of the server.
        RefusedByClient = "refused_by_client",
            "the client has ended the handshake: does it trust the certificate of \
             `--tls-certificate`, and its name?";
        /// The handshake was not complete in time.
        Timeout = "timeout", "a TLS handshake failed";
        /// Anything else: no common version or cipher, a connection that ended.
        Other = "other", "a TLS handshake failed";
    }
}

impl<K: Copy + PartialEq> Notices<K> {
    /// For events of these kinds.
    pub(crate) fn new(kinds: &'static [K]) -> Self {
        let counters = kinds.iter().map(|_| NoticeCounter::default()).collect();
        Self { kinds, counters, start: Instant::now() }
    }

    /// The count of each kind, also if it is zero.
    pub(crate) fn counts(&self) -> Vec<(K, u64)> {
        let counts = self.counters.iter().map(|counter| counter.count.load(Relaxed));
        self.kinds.iter().copied().zip(counts).collect()
    }

    /// Counts an event. Returns whether to log it: not if an event of its kind was logged a short
    /// time ago.
    fn count(&self, kind: K, now: Duration) -> bool {
        let index = self.kinds.iter().position(|k| *k == kind);
        let Some(counter) = index.and_then(|index| self.counters.get(index)) else { return false };
        counter.count.fetch_add(1, Relaxed);
        let until = counter.quiet_until.load(Relaxed);
        let next = milliseconds(now + LOG_INTERVAL);
        // If several threads get here at once, only one logs.
        let quiet_until = &counter.quiet_until;
        milliseconds(now) >= until
            && quiet_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok()
    }
}

impl Notices<AcceptError> {
    /// Counts a failed accept, and logs it if it is due and concerns more than one connection.
    /// Returns its kind.
    pub(crate) fn report(&self, error: &io::Error) -> AcceptError {
        let kind = AcceptError::from_io(error);
        if self.count(kind, self.start.elapsed()) && kind != AcceptError::Connection {
            tracing::warn!(%error, reason = kind.name(), "{}", kind.advice());
        }
        kind
    }
}

impl Notices<Overload> {
    /// Counts a denied check, and logs it if it is due.
    pub(crate) fn report(&self, overload: Overload) {
        if self.count(overload, self.start.elapsed()) {
            tracing::warn!(limit = overload.name(), "{}", overload.advice());
        }
    }
}

impl Notices<WrongProtocol> {
    /// Counts an event, and logs it if it is due. `method` is the path that the peer called.
    pub(crate) fn report(&self, wrong: WrongProtocol, peer: Peer, method: Option<&str>) {
        if !self.count(wrong, self.start.elapsed()) {
            return;
        }
        let (protocol, advice) = (wrong.name(), wrong.advice());
        match method {
            Some(method) => {
                let method: String = method.chars().take(MAX_METHOD).collect();
                tracing::warn!(protocol, %peer, method = %method.escape_debug(), "{advice}");
            }
            None => tracing::warn!(protocol, %peer, "{advice}"),
        }
    }
}

impl Notices<RefusedQuestion> {
    /// Counts a question that is not decided, and logs it if it is due.
    pub(crate) fn report(&self, refused: RefusedQuestion, peer: Peer, why: &str) {
        if self.count(refused, self.start.elapsed()) {
            let (reason, advice) = (refused.name(), refused.advice());
            tracing::warn!(reason, %peer, error = why, "{advice}");
        }
    }
}

impl Notices<TlsFailure> {
    /// Counts a failed handshake, and logs it if it is due.
    pub(crate) fn report(&self, failure: TlsFailure, peer: Peer, why: &str) {
        if self.count(failure, self.start.elapsed()) {
            let (failure, advice) = (failure.name(), failure.advice());
            tracing::warn!(failure, %peer, error = why, "{advice}");
        }
    }
}

impl AcceptError {
    /// The kind of an error of accept(2), by the section "Error handling" of its manual page.
    fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, InvalidInput,
            NotConnected, TimedOut,
        };
        let errno = Errno::from_io_error(error);
        if errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE) {
            Self::FileDescriptors
        } else if errno == Some(Errno::NOMEM) || errno == Some(Errno::NOBUFS) {
            Self::Memory
        } else if matches!(
            error.kind(),
            ConnectionAborted
                | ConnectionRefused
                | ConnectionReset
                | Interrupted
                | InvalidInput
                | NotConnected
                | TimedOut
        ) {
            Self::Connection
        } else {
            Self::Other
        }
    }
}

impl WrongProtocol {
    /// The protocol of a connection whose HTTP/2 handshake has failed. `None` if nothing has
    /// arrived, or if the protocol is HTTP/2.
    ///
    /// A TLS connection begins with a handshake record (RFC 8446, 5.1: type 22, version 3.x), an
    /// HTTP/1 connection with a method in capital letters (RFC 9112, 3).
    pub(crate) fn from_first_bytes(first: &[u8]) -> Option<Self> {
        match first {
            // HTTP/2 begins with `PRI` (RFC 9113, 3.4): the protocol is right.
            [] | b"PRI" => None,
            [22, 3, ..] => Some(Self::Tls),
            first if first.len() == FIRST_BYTES && first.iter().all(u8::is_ascii_uppercase) => {
                Some(Self::Http1)
            }
            _ => Some(Self::Unknown),
        }
    }
}

impl TlsFailure {
    /// Why a handshake ended with this error.
    pub(crate) fn from_handshake(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
            return Self::Other;
        };
        if matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType)) {
            Self::NotTls
        } else if matches!(error, Error::InvalidCertificate(_) | Error::NoCertificatesPresented) {
            Self::ClientCertificate
        } else if matches!(error, Error::AlertReceived(_)) {
            Self::RefusedByClient
        } else {
            Self::Other
        }
    }
}

impl From<Overload> for Limit {
    fn from(_: Overload) -> Self {
        Self::Capacity
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

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_per_interval_and_always_counted() {
        let notices = Notices::new(&['a', 'b']);
        let at = |kind, seconds| notices.count(kind, Duration::from_secs(seconds));
        assert_eq!([at('a', 0), at('a', 1), at('b', 1), at('a', 9)], [true, false, true, false]);
        assert_eq!([at('a', 10), at('b', 10), at('a', 11)], [true, false, false]);
        assert_eq!(notices.counts(), [('a', 5), ('b', 2)]);
    }

    #[test]
    fn accept_errors_have_kinds() {
        for (errno, kind) in [
            (Errno::MFILE, AcceptError::FileDescriptors),
            (Errno::NFILE, AcceptError::FileDescriptors),
            (Errno::NOBUFS, AcceptError::Memory),
            (Errno::CONNABORTED, AcceptError::Connection),
            (Errno::PERM, AcceptError::Other),
        ] {
            assert_eq!(AcceptError::from_io(&io::Error::from(errno)), kind, "{errno:?}");
        }
    }

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let parse = WrongProtocol::from_first_bytes;
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(b"PRI"), None);
        assert_eq!(parse(&[22, 3, 1]), Some(WrongProtocol::Tls));
        assert_eq!(parse(b"GET"), Some(WrongProtocol::Http1));
        assert_eq!(parse(b"PRO"), Some(WrongProtocol::Http1), "PROXY and PROPFIND");
        for unknown in [&b"get"[..], b"G", &[22], &[22, 4, 1], &[0, 0, 0]] {
            assert_eq!(parse(unknown), Some(WrongProtocol::Unknown), "{unknown:?}");
        }
    }
}
