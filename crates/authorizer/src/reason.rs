//! Why a request is denied.

use identity::CredentialsError;
use policy::canonical::{HostError, PathError};

/// Why a request is denied. Each reason has a name and a status, for logs, metrics and answers.
///
/// A failure of the program is not a reason: it gives no verdict, but an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The method is not a token (RFC 9110, 9.1), or has lower-case letters: 400.
    #[error("the method is not a token in upper case")]
    InvalidMethod,
    /// The path is ambiguous or malformed: 400.
    #[error("{0}")]
    InvalidPath(PathError),
    /// The host is ambiguous or malformed: 400.
    #[error("{0}")]
    InvalidHost(HostError),
    /// 400.
    #[error("a control byte in the `Authorization` header")]
    ControlBytes,
    /// 400.
    #[error("more than one `Authorization` header")]
    DuplicateAuthorization,
    /// 400.
    #[error("more than one API key or token, or both, or one beside an `Authorization` header")]
    SeveralCredentials,
    /// 400.
    #[error("the `x-forwarded-client-cert` header cannot be read")]
    MalformedXfcc,
    /// 400.
    #[error("the cookies beside one that the policy removes are not UTF-8")]
    InvalidCookies,
    /// 400.
    #[error("the `Connection` header names a header that the policy sets or removes")]
    ConnectionHeader,
    /// Only over HTTP forward-auth: 403.
    #[error(
        "it would be allowed with a change that its proxy cannot make over HTTP: another path, a \
         cookie less, or without a header that the client sends and the policy sets for others"
    )]
    UnsupportedChange,
    /// The request exceeds a limit: 400, 413 or 503.
    #[error("{0}")]
    Limit(Limit),
    /// The caller is anonymous, and the policy does not allow the request without credentials: 401.
    #[error("no credentials")]
    MissingCredentials,
    /// The credentials are invalid: 401.
    #[error("{0}")]
    InvalidCredentials(CredentialsError),
    /// 403.
    #[error("no rule allows it")]
    NotAllowed,
    /// A rule would allow it, but a condition of the rule, its role or a grant is not true: 403.
    #[error("a condition is not true")]
    ConditionFailed,
    /// 403.
    #[error("a `deny` rule matches")]
    Denied,
    /// The needs of a request to a search cluster are not known: 400 if the request is invalid,
    /// otherwise 403.
    #[error("{0}")]
    Cluster(search::Problem),
    /// 403.
    #[error("the roles of the search cluster do not permit it")]
    NotPermitted,
    /// 403.
    #[error("the roles of the search cluster permit it on some of its indices only")]
    PartlyPermitted,
    /// The filters of the caller's roles do not fit into a header: 403.
    #[error("the filters of the caller's roles are too long for a header")]
    DocumentSecurityTooLong,
}

/// A limit that a request can exceed.
///
/// A client can exceed each limit on purpose, so the answer is a denial and not an error of the
/// server: on an error, an Envoy with `failure_mode_allow: true` lets the request through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Limit {
    /// The request has more header lines than are read, or more aliases of the policy's headers
    /// than are removed: 400.
    #[error("too many header lines, or too many aliases of the headers to set or remove")]
    HeaderLines,
    /// The response that allows the request would be larger than rolegate keeps in memory. Long
    /// claims can cause this: 400.
    #[error("the headers to set are too large")]
    ResponseSize,
    /// The message is larger than the server accepts: 413 (RFC 9110, 15.5.14).
    #[error("the message is larger than `max-message-size`")]
    MessageSize,
    /// The decision depends on the body, and the body is larger than is buffered: 413.
    #[error("the body is larger than `max-request-body`")]
    BodySize,
    /// No capacity is left to receive the message or to verify its credentials: 503 (RFC 9110,
    /// 15.6.4).
    #[error("the server is overloaded")]
    Capacity,
    /// The issuer of an opaque token did not say in time, or not clearly, whether it is valid: 503.
    #[error("the issuer of the token gives no usable answer")]
    Introspection,
    /// The message was not complete, or its credentials were not verified, in time: 503.
    #[error("the deadline has passed")]
    Deadline,
}

/// Where a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading its method, path or host.
    Request,
    /// Reading its headers. A denial may depend on a header that the decision log does not have.
    Headers,
    /// Checking a limit of the server or of an answer.
    Limit,
    /// Verifying its credentials.
    Credentials,
    /// Evaluating the rules. Also where a search cluster asks an anonymous caller for credentials.
    Rules,
    /// Evaluating the roles of a search cluster.
    Cluster,
}

impl Reason {
    /// The stage, the HTTP status and the name of this reason.
    fn properties(self) -> (Stage, u16, &'static str) {
        match self {
            Self::InvalidMethod => (Stage::Request, 400, "invalid_method"),
            Self::InvalidPath(_) => (Stage::Request, 400, "invalid_path"),
            Self::InvalidHost(_) => (Stage::Request, 400, "invalid_host"),
            Self::ControlBytes => (Stage::Headers, 400, "control_bytes"),
            Self::DuplicateAuthorization => (Stage::Headers, 400, "duplicate_authorization"),
            Self::SeveralCredentials => (Stage::Headers, 400, "several_credentials"),
            Self::MalformedXfcc => (Stage::Headers, 400, "malformed_xfcc"),
            Self::InvalidCookies => (Stage::Headers, 400, "invalid_cookies"),
            Self::ConnectionHeader => (Stage::Headers, 400, "connection_header"),
            Self::UnsupportedChange => (Stage::Headers, 403, "unsupported_change"),
            Self::Limit(limit) => match limit {
                Limit::HeaderLines => (Stage::Limit, 400, "too_many_headers"),
                Limit::ResponseSize => (Stage::Limit, 400, "response_too_large"),
                Limit::MessageSize => (Stage::Limit, 413, "message_too_large"),
                Limit::BodySize => (Stage::Limit, 413, "body_too_large"),
                Limit::Capacity => (Stage::Limit, 503, "overloaded"),
                Limit::Introspection => (Stage::Limit, 503, "introspection_failed"),
                Limit::Deadline => (Stage::Limit, 503, "deadline_exceeded"),
            },
            Self::InvalidCredentials(error) => (Stage::Credentials, 401, error.name()),
            Self::MissingCredentials => (Stage::Rules, 401, "missing_credentials"),
            Self::NotAllowed => (Stage::Rules, 403, "not_allowed"),
            Self::ConditionFailed => (Stage::Rules, 403, "condition_failed"),
            Self::Denied => (Stage::Rules, 403, "denied"),
            Self::Cluster(problem) => match problem {
                search::Problem::UnknownRoute => (Stage::Cluster, 403, "unknown_operation"),
                search::Problem::Unsupported(_) => (Stage::Cluster, 403, "unsupported_operation"),
                search::Problem::Invalid(_) => (Stage::Cluster, 400, "invalid_operation"),
                search::Problem::BodyNeeded => (Stage::Cluster, 403, "body_needed"),
            },
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

    /// The status for a gRPC client, as `grpc-status` has it (gRPC, "Status codes and their use in
    /// gRPC"). Envoy and gRPC would derive INTERNAL from 400 and UNKNOWN from 413, which clients
    /// take for faults of the server.
    #[must_use]
    pub fn grpc_status(self) -> &'static str {
        match self.status() {
            401 => "16",
            403 => "7",
            413 => "8",
            503 => "14",
            _ => "3",
        }
    }

    /// Why the credentials are invalid, if they are.
    #[must_use]
    pub fn credentials_error(self) -> Option<CredentialsError> {
        if let Self::InvalidCredentials(error) = self { Some(error) } else { None }
    }

    /// A reason for each name.
    pub fn all() -> impl Iterator<Item = Self> {
        let before_credentials = [
            Self::InvalidMethod,
            Self::InvalidPath(PathError::Empty),
            Self::InvalidHost(HostError),
            Self::ControlBytes,
            Self::DuplicateAuthorization,
            Self::SeveralCredentials,
            Self::MalformedXfcc,
            Self::InvalidCookies,
            Self::ConnectionHeader,
            Self::UnsupportedChange,
        ];
        let after_credentials = [
            Self::MissingCredentials,
            Self::NotAllowed,
            Self::ConditionFailed,
            Self::Denied,
            Self::NotPermitted,
            Self::PartlyPermitted,
            Self::DocumentSecurityTooLong,
            Self::Cluster(search::Problem::UnknownRoute),
            Self::Cluster(search::Problem::Unsupported("")),
            Self::Cluster(search::Problem::Invalid("")),
            Self::Cluster(search::Problem::BodyNeeded),
        ];
        before_credentials
            .into_iter()
            .chain(Limit::ALL.map(Self::Limit))
            .chain(CredentialsError::ALL.map(Self::InvalidCredentials))
            .chain(after_credentials)
    }
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::HeaderLines,
        Self::ResponseSize,
        Self::MessageSize,
        Self::BodySize,
        Self::Capacity,
        Self::Deadline,
        Self::Introspection,
    ];
}
