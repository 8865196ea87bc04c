//! A request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use authorizer::{Header, RequestBody};
use identity::Certificate;

/// A request to authorize.
///
/// ```
/// use rolegate_authorizer::Request;
///
/// let request = Request::new("GET", "/people?page=2")
///     .host("api.example.com")
///     .header("authorization", "Bearer eyJhbGciOi…")
///     .client([192, 0, 2, 7].into());
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    method: &'a [u8],
    path: &'a [u8],
    host: &'a [u8],
    headers: Vec<(&'a str, &'a [u8])>,
    client: String,
    peer: String,
    certificate: Option<&'a [String]>,
    body: Option<&'a [u8]>,
    id: &'a [u8],
    time: Option<Duration>,
}

impl<'a> Request<'a> {
    /// A request with this method, and with this path and query as the client sent them, without
    /// host and headers.
    #[must_use]
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method: method.as_bytes(),
            path: path.as_bytes(),
            host: b"",
            headers: Vec::new(),
            client: String::new(),
            peer: String::new(),
            certificate: None,
            body: None,
            id: b"",
            time: None,
        }
    }

    /// The host as the client sent it, in `Host` or `:authority`. Without it, rules for certain
    /// hosts do not match: a policy with such `deny` rules needs it.
    #[must_use]
    pub fn host(mut self, host: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.host = host.as_ref();
        self
    }

    /// Adds a header line. Give all lines of the request, duplicates too: the authorizer finds
    /// credentials in them, and the headers that a client must not send.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.headers.push((name, value.as_ref()));
        self
    }

    /// The address of the client, for conditions. Take it from the connection, or from a header
    /// that a trusted proxy overwrites.
    #[must_use]
    pub fn client(mut self, address: IpAddr) -> Self {
        self.client = address.to_string();
        self
    }

    /// The address at the other end of the connection, for `trusted_proxies` of the policy.
    #[must_use]
    pub fn peer(mut self, address: IpAddr) -> Self {
        self.peer = address.to_string();
        self
    }

    /// The names of the client's certificate, which the application has verified:
    /// `spiffe://example.org/ns/a/sa/b`, or `dns:` before a DNS name.
    #[must_use]
    pub fn certificate(mut self, names: &'a [String]) -> Self {
        self.certificate = Some(names);
        self
    }

    /// The whole body. Only the decisions of a search cluster's roles depend on it.
    #[must_use]
    pub fn body(mut self, body: &'a [u8]) -> Self {
        self.body = Some(body);
        self
    }

    /// The id of the request, for the body of a denial.
    #[must_use]
    pub fn id(mut self, id: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.id = id.as_ref();
        self
    }

    /// The time of the request; by default now. A time before 1970 reads as the end of time, at
    /// which all tokens and API keys have expired.
    #[must_use]
    pub fn time(mut self, time: SystemTime) -> Self {
        self.time = Some(since_epoch(time));
        self
    }

    pub(crate) fn host_bytes(&self) -> &'a [u8] {
        self.host
    }

    #[expect(clippy::disallowed_methods, reason = "the crate reads the clock for its caller")]
    pub(crate) fn time_or_now(&self) -> Duration {
        self.time.unwrap_or_else(|| since_epoch(SystemTime::now()))
    }

    pub(crate) fn lines(&self) -> Vec<Header<'a>> {
        let lines = self.headers.iter();
        lines.map(|(name, value)| Header { name: name.as_bytes(), value }).collect()
    }

    pub(crate) fn inner<'r>(&'r self, lines: &'r [Header<'r>]) -> authorizer::Request<'r> {
        authorizer::Request {
            method: self.method,
            host: self.host,
            path: self.path,
            headers: lines,
            id: self.id,
            client: self.client.as_bytes(),
            peer: self.peer.as_bytes(),
            certificate: self.certificate.map(Certificate::Named),
            body: self.body.map_or(RequestBody::Unavailable, RequestBody::Whole),
            ..authorizer::Request::default()
        }
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX)
}
