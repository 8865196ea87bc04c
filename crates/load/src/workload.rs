//! What to ask: one request or a weighted mix.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

pub(crate) mod dice;
mod file;
pub(crate) mod template;
pub(crate) mod variable;

pub use variable::{Format, Values, Variable};

/// A weighted mix of requests.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The requests, at least one.
    pub requests: Vec<Request>,
    /// What `${name}` in them stands for.
    pub variables: Vec<Variable>,
}

/// One request of a mix. Its texts may hold variables, as `${name}`.
#[derive(Clone)]
pub struct Request {
    /// How often it comes, beside the weights of the others.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The host that it names, if not that of the target.
    pub host: Option<String>,
    /// Further header lines.
    pub headers: Vec<(String, String)>,
    /// The body; empty is none.
    pub body: String,
    /// How often the body is repeated, each time with new values of its variables: lines of a bulk body.
    pub repeat: u32,
    /// Whether the body is sent compressed, with `content-encoding: gzip`.
    pub gzip: bool,
    /// The statuses that are expected; none given is any below 400. A Check call that is allowed counts as 200.
    pub expect: Vec<u16>,
}

impl Workload {
    /// Always the same request.
    #[must_use]
    pub fn of(request: Request) -> Self {
        Self { requests: vec![request], variables: Vec::new() }
    }
}

impl Request {
    /// `GET` of a path.
    #[must_use]
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

    /// With one more header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a user and a password, `user:password`, as HTTP Basic sends them (RFC 7617).
    #[must_use]
    pub fn basic(self, credentials: &str) -> Self {
        self.header("authorization", &format!("Basic {}", BASE64_STANDARD.encode(credentials)))
    }

    /// With a token (RFC 6750).
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }
}

impl fmt::Debug for Request {
    /// Without the headers and the body, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
