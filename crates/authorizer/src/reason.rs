//! Why a request is denied.

use std::fmt;

use identity::CredentialsError;
use policy::canonical::{HostError, PathError};

/// Why a request is denied. The list is closed: each reason has a name and a status, for logs,
/// metrics and answers.
///
/// A failure of the program is not a reason: it gives no verdict, but an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The method is not a token (RFC 9110, 9.1), or has lower-case letters: 400.
    InvalidMethod,
    /// The path is ambiguous or malformed: 400.
    InvalidPath(PathError),
    /// The host is ambiguous or malformed: 400.
    InvalidHost(HostError),
    /// A control byte in the `Authorization` header: 400.
    ControlBytes,
    /// More than one `Authorization` header: 400.
    DuplicateAuthorization,
    /// The `Connection` header names a header that the policy sets or removes: 400.
    ConnectionHeader,
    /// The request exceeds a limit: 400, 413 or 503.
    Limit(Limit),
    /// The caller is anonymous, and the policy does not allow the request without credentials: 401.
    MissingCredentials,
    /// The credentials are invalid: 401.
    InvalidCredentials(CredentialsError),
    /// No rule allows it: 403.
    NotAllowed,
    /// A `deny` rule matches: 403.
    Denied,
    /// What a request to a search cluster needs is not known: 400 if the request is invalid,
    /// otherwise 403.
    Cluster(search::Problem),
    /// The roles of a search cluster do not permit it: 403.
    NotPermitted,
    /// They permit it on some of its indices only: 403.
    PartlyPermitted,
    /// They permit it with parts hidden, and what to hide is too long for a header: 403.
    DocumentSecurityTooLong,
}

/// A limit that a request can exceed.
///
/// A client can cause each of these. So the answer is a denial and not an error of the server: on
/// an error, an Envoy with `failure_mode_allow: true` lets the request through, so a client could
/// get past the policy by causing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The request has more header lines than are read, or more aliases of the policy's headers
    /// than are removed: 400.
    HeaderLines,
    /// The response that allows the request would be larger than is kept in memory, as with long
    /// claims: 400.
    ResponseSize,
    /// The message is larger than the server accepts: 413 (RFC 9110, 15.5.14).
    MessageSize,
    /// The body, which the decision depends on, is larger than is buffered: 413.
    BodySize,
    /// No capacity is left to receive the message or to verify its credentials: 503 (RFC 9110,
    /// 15.6.4).
    Capacity,
    /// The message was not complete, or its credentials were not verified, in time: 503.
    Deadline,
}

/// Where a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its method, path or host is read.
    Request,
    /// Its headers are read: a denial may depend on headers that no log has.
    Headers,
    /// A limit is checked, of the server or of an answer.
    Limit,
    /// Its credentials are verified.
    Credentials,
    /// The rules decide. (An anonymous caller is asked for credentials by a search cluster, too.)
    Rules,
    /// A search cluster decides.
    Cluster,
}

impl Reason {
    /// Where a request is denied for this reason, with which HTTP status, and the reason's name.
    /// This is the only list that sorts the reasons.
    fn properties(self) -> (Stage, u16, &'static str) {
        match self {
            Self::InvalidMethod => (Stage::Request, 400, "invalid_method"),
            Self::InvalidPath(_) => (Stage::Request, 400, "invalid_path"),
            Self::InvalidHost(_) => (Stage::Request, 400, "invalid_host"),
            Self::ControlBytes => (Stage::Headers, 400, "control_bytes"),
            Self::DuplicateAuthorization => (Stage::Headers, 400, "duplicate_authorization"),
            Self::ConnectionHeader => (Stage::Headers, 400, "connection_header"),
            Self::Limit(Limit::HeaderLines) => (Stage::Limit, 400, "too_many_headers"),
            Self::Limit(Limit::ResponseSize) => (Stage::Limit, 400, "response_too_large"),
            Self::Limit(Limit::MessageSize) => (Stage::Limit, 413, "message_too_large"),
            Self::Limit(Limit::BodySize) => (Stage::Limit, 413, "body_too_large"),
            Self::Limit(Limit::Capacity) => (Stage::Limit, 503, "overloaded"),
            Self::Limit(Limit::Deadline) => (Stage::Limit, 503, "deadline_exceeded"),
            Self::InvalidCredentials(error) => (Stage::Credentials, 401, error.name()),
            Self::MissingCredentials => (Stage::Rules, 401, "missing_credentials"),
            Self::NotAllowed => (Stage::Rules, 403, "not_allowed"),
            Self::Denied => (Stage::Rules, 403, "denied"),
            Self::Cluster(search::Problem::UnknownRoute) => {
                (Stage::Cluster, 403, "unknown_operation")
            }
            Self::Cluster(search::Problem::Unsupported(_)) => {
                (Stage::Cluster, 403, "unsupported_operation")
            }
            Self::Cluster(search::Problem::Invalid(_)) => {
                (Stage::Cluster, 400, "invalid_operation")
            }
            Self::Cluster(search::Problem::BodyNeeded) => (Stage::Cluster, 403, "body_needed"),
            Self::NotPermitted => (Stage::Cluster, 403, "not_permitted"),
            Self::PartlyPermitted => (Stage::Cluster, 403, "partly_permitted"),
            Self::DocumentSecurityTooLong => (Stage::Cluster, 403, "document_security_too_long"),
        }
    }

    /// Where a request is denied for this reason.
    #[must_use]
    pub fn stage(self) -> Stage {
        self.properties().0
    }

    /// The HTTP status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        self.properties().1
    }

    /// The name in logs, metrics and answers, such as `invalid_path`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.properties().2
    }

    /// Why the credentials are invalid, if they are.
    #[must_use]
    pub fn credentials_error(self) -> Option<CredentialsError> {
        if let Self::InvalidCredentials(error) = self { Some(error) } else { None }
    }

    /// A reason of each name.
    pub fn all() -> impl Iterator<Item = Self> {
        let invalid = [
            Self::InvalidMethod,
            Self::InvalidPath(PathError::Empty),
            Self::InvalidHost(HostError),
            Self::ControlBytes,
            Self::DuplicateAuthorization,
            Self::ConnectionHeader,
        ];
        let refused = [
            Self::MissingCredentials,
            Self::NotAllowed,
            Self::Denied,
            Self::NotPermitted,
            Self::PartlyPermitted,
            Self::DocumentSecurityTooLong,
            Self::Cluster(search::Problem::UnknownRoute),
            Self::Cluster(search::Problem::Unsupported("")),
            Self::Cluster(search::Problem::Invalid("")),
            Self::Cluster(search::Problem::BodyNeeded),
        ];
        let limits = Limit::ALL.map(Self::Limit);
        let credentials = CredentialsError::ALL.map(Self::InvalidCredentials);
        invalid.into_iter().chain(limits).chain(credentials).chain(refused)
    }
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 6] = [
        Self::HeaderLines,
        Self::ResponseSize,
        Self::MessageSize,
        Self::BodySize,
        Self::Capacity,
        Self::Deadline,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidMethod => f.write_str("the method is not a token in upper case"),
            Self::InvalidPath(why) => why.fmt(f),
            Self::InvalidHost(why) => why.fmt(f),
            Self::ControlBytes => f.write_str("a control byte in the `Authorization` header"),
            Self::DuplicateAuthorization => f.write_str("more than one `Authorization` header"),
            Self::ConnectionHeader => f.write_str(
                "the `Connection` header names a header that the policy sets or removes",
            ),
            Self::Limit(limit) => f.write_str(match limit {
                Limit::HeaderLines => {
                    "too many header lines, or too many aliases of the headers to set or remove"
                }
                Limit::ResponseSize => "the headers to set are too large",
                Limit::MessageSize => "the message is larger than `max-message-size`",
                Limit::BodySize => "the body is larger than `max-request-body`",
                Limit::Capacity => "the server is overloaded",
                Limit::Deadline => "the deadline has passed",
            }),
            Self::MissingCredentials => f.write_str("no credentials"),
            Self::InvalidCredentials(why) => why.fmt(f),
            Self::NotAllowed => f.write_str("no rule allows it"),
            Self::Denied => f.write_str("a `deny` rule matches"),
            Self::Cluster(why) => why.fmt(f),
            Self::NotPermitted => f.write_str("the roles of the search cluster do not permit it"),
            Self::PartlyPermitted => {
                f.write_str("the roles of the search cluster permit it on some of its indices only")
            }
            Self::DocumentSecurityTooLong => {
                f.write_str("what the roles of the cluster hide is too long for a header")
            }
        }
    }
}
