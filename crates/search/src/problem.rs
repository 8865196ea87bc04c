//! Why a request is denied before anything is evaluated.

/// Why rolegate cannot tell the needs of a request. The request is then denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    /// No route has this method and path.
    #[error("the cluster has no such method and path")]
    UnknownRoute,
    /// Such a request is always denied, for this reason.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// A node refuses the request, or may read it differently than rolegate.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The needs depend on the body, which was not sent along.
    #[error(
        "its body names indices and was not sent along, or not whole: set `with_request_body` in \
         Envoy's filter, with a `max_request_bytes` above the largest body"
    )]
    BodyNeeded,
}
