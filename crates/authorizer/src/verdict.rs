//! The answer to a request, and why.

use std::fmt;

use identity::{CredentialsError, PasswordCheck};
use policy::canonical::{HostError, PathError};

use crate::sanitizer::Changes;

/// What came of a request.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// It is decided.
    Decided(Verdict<'a>),
    /// A password must be hashed first: run it off the request threads, then call
    /// [`Authorizer::resume`](crate::Authorizer::resume).
    Pending(PasswordCheck),
}

/// The answer to a request.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// It may go on, changed like this.
    Allowed(Allowed<'a>),
    /// It may not.
    Denied(Denied<'a>),
}

/// How an allowed request is changed before it goes on.
#[derive(Debug)]
pub struct Allowed<'a> {
    /// The rule that allowed it, as `role: rule`.
    pub rule: &'a str,
    /// Who asked; `None` is an anonymous caller.
    pub user: Option<&'a str>,
    /// The canonical path.
    pub path: &'a [u8],
    pub(crate) changes: Changes<'a>,
}

/// How a denied request is answered.
#[derive(Debug)]
pub struct Denied<'a> {
    /// Why.
    pub reason: Reason,
    /// Headers of the answer: `content-type`, and with 401 a `www-authenticate` for each configured method.
    pub headers: &'a [AnswerHeader],
    /// The body of the answer.
    pub body: &'a str,
    /// The `deny` rule that decided, as `role: rule`, if one did.
    pub rule: Option<&'a str>,
    /// Who asked, where that is known.
    pub user: Option<&'a str>,
    /// The canonical path; empty where the request could not be read.
    pub path: &'a [u8],
}

/// A header of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHeader {
    /// In lower case.
    pub name: &'static str,
    /// Without control characters.
    pub value: Box<str>,
}

/// Why a request is denied. A closed list: the name and the status of each are for logs, metrics and answers.
///
/// That the program itself failed is not among them: it is no verdict, but an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The method is not a token (RFC 9110, 9.1): 400.
    InvalidMethod,
    /// The path is ambiguous or malformed: 400.
    InvalidPath(PathError),
    /// The host is ambiguous or malformed: 400.
    InvalidHost(HostError),
    /// A control byte in the `Authorization`: 400.
    ControlBytes,
    /// More than one `Authorization`: 400.
    DuplicateAuthorization,
    /// The request exceeds a limit and is not evaluated: 400, 413 or 503.
    Limit(Limit),
    /// No credentials, where `anyone` does not suffice: 401.
    MissingCredentials,
    /// Credentials that do not verify: 401.
    InvalidCredentials(CredentialsError),
    /// Nothing allows it: 403.
    NotAllowed,
    /// A `deny` rule says no: 403.
    Denied,
}

/// A limit that a request can exceed before it is evaluated.
///
/// A client can bring each of these about. So the answer is a denial and not an error of the server: an Envoy with
/// `failure_mode_allow: true` lets a request pass on an error, and a client could choose to cause one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// More header lines than are read: 400.
    HeaderLines,
    /// A message larger than the server accepts: 413 (RFC 9110, 15.5.14).
    MessageSize,
    /// No capacity is left to receive the message or to hash its password: 503 (RFC 9110, 15.6.4).
    Capacity,
    /// The message or the hash of its password was not complete in time: 503.
    Deadline,
}

impl<'a> Allowed<'a> {
    /// Headers to overwrite: names in lower case, values not empty and without control characters.
    pub fn set(&self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.changes.set()
    }

    /// Names of headers to remove: those whose value came out empty, those that the policy drops, and the aliases of all
    /// of them that the request carries. None of them is also set. A name may come twice.
    pub fn remove(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.changes.remove()
    }
}

impl Verdict<'_> {
    /// The HTTP status: 200 for an allowed request.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Allowed(_) => 200,
            Self::Denied(denied) => denied.reason.status(),
        }
    }
}

impl Reason {
    /// The HTTP status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidMethod
            | Self::InvalidPath(_)
            | Self::InvalidHost(_)
            | Self::ControlBytes
            | Self::DuplicateAuthorization => 400,
            Self::Limit(limit) => limit.status(),
            Self::MissingCredentials | Self::InvalidCredentials(_) => 401,
            Self::NotAllowed | Self::Denied => 403,
        }
    }

    /// Its name in logs, metrics and answers, such as `invalid_path`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidMethod => "invalid_method",
            Self::InvalidPath(_) => "invalid_path",
            Self::InvalidHost(_) => "invalid_host",
            Self::ControlBytes => "control_bytes",
            Self::DuplicateAuthorization => "duplicate_authorization",
            Self::Limit(limit) => limit.name(),
            Self::MissingCredentials => "missing_credentials",
            Self::InvalidCredentials(refusal) => refusal.name(),
            Self::NotAllowed => "not_allowed",
            Self::Denied => "denied",
        }
    }
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::HeaderLines, Self::MessageSize, Self::Capacity, Self::Deadline];

    fn status(self) -> u16 {
        match self {
            Self::HeaderLines => 400,
            Self::MessageSize => 413,
            Self::Capacity | Self::Deadline => 503,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HeaderLines => "too_many_headers",
            Self::MessageSize => "message_too_large",
            Self::Capacity => "overloaded",
            Self::Deadline => "deadline_exceeded",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeaderLines => "too many header lines",
            Self::MessageSize => "the message is larger than `max-message-size`",
            Self::Capacity => "the server is overloaded",
            Self::Deadline => "the deadline has passed",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidMethod => f.write_str("the method is not a token"),
            Self::InvalidPath(why) => why.fmt(f),
            Self::InvalidHost(why) => why.fmt(f),
            Self::ControlBytes => f.write_str("a control byte in the authorization"),
            Self::DuplicateAuthorization => f.write_str("more than one authorization"),
            Self::Limit(limit) => limit.fmt(f),
            Self::MissingCredentials => f.write_str("no credentials"),
            Self::InvalidCredentials(why) => why.fmt(f),
            Self::NotAllowed => f.write_str("nothing allows it"),
            Self::Denied => f.write_str("a rule denies it"),
        }
    }
}
