//! The requests of a run: a single request or a weighted mix.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

pub(crate) mod file;
pub(crate) mod template;
pub(crate) mod variable;

pub use variable::{Format, Values, Variable};

/// A weighted mix of requests.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The requests, at least one.
    pub requests: Vec<Request>,
    /// The variables for `${name}` in the requests.
    pub variables: Vec<Variable>,
}

/// A request of a mix. Its texts may contain variables: `${name}`.
#[derive(Clone)]
pub struct Request {
    /// Its weight relative to the other requests.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The host; if `None`, that of the target.
    pub host: Option<String>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: String,
    /// How often the body is repeated, each time with new values for its variables: the lines of a
    /// bulk body.
    pub repeat: u32,
    /// Whether the body is sent compressed, with `content-encoding: gzip`.
    pub gzip: bool,
    /// The expected statuses; if empty, any below 400. An allowed Check call counts as 200.
    pub expect: Vec<u16>,
}

impl Workload {
    /// A workload of a single request.
    pub fn single(request: Request) -> Self {
        Self { requests: vec![request], variables: Vec::new() }
    }
}

impl Request {
    /// `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self {
            weight: 1,
            method: "GET".to_owned(),
            path: path.to_owned(),
            host: None,
            headers: Vec::new(),
            body: String::new(),
            repeat: 1,
            gzip: false,
            expect: Vec::new(),
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds the credentials `user:password` as HTTP Basic (RFC 7617).
    pub fn basic(self, credentials: &str) -> Self {
        self.header("authorization", &format!("Basic {}", BASE64_STANDARD.encode(credentials)))
    }

    /// Adds a bearer token (RFC 6750).
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }
}

impl fmt::Debug for Request {
    /// Omits the headers and the body, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
