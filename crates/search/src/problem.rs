//! Why a request is denied before anything is evaluated.

use std::fmt;

/// Why the needs of a request are not certain. The request is then denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// No route has this method and path.
    UnknownRoute,
    /// Such a request is always denied, for this reason.
    Unsupported(&'static str),
    /// A node refuses the request, or two readers may read it differently.
    Invalid(&'static str),
    /// The needs depend on the body, which is not there.
    BodyNeeded,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownRoute => f.write_str("the cluster has no such method and path"),
            Problem::Unsupported(why) => write!(f, "not supported: {why}"),
            Problem::Invalid(why) => write!(f, "invalid: {why}"),
            Problem::BodyNeeded => f.write_str(
                "its body names indices and was not sent along, or not whole: set \
                 `with_request_body` in Envoy's filter, with a `max_request_bytes` above the \
                 largest body",
            ),
        }
    }
}

impl std::error::Error for Problem {}
