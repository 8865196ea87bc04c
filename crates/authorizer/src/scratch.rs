//! Buffers that a thread keeps from request to request.

/// The buffers of an answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerScratch {
    pub(crate) changes: ChangeScratch,
    pub(crate) forward: ForwardScratch,
    pub(crate) denial: DenialScratch,
}

/// The buffers of the changes to an allowed request.
#[derive(Debug, Default)]
pub(crate) struct ChangeScratch {
    /// The headers of the request to remove because they are aliases of those that the policy sets
    /// or removes.
    pub(crate) aliases: Vec<usize>,
    /// The values of `set_headers` that contain the name of the deciding rule, at the indices of
    /// their headers.
    pub(crate) with_rule: Vec<String>,
    /// The value of the identity header.
    pub(crate) identity: String,
    /// The cookies without those that the policy removes.
    pub(crate) cookies: Vec<u8>,
}

/// The buffers of a request that is forwarded to a search cluster.
#[derive(Debug, Default)]
pub(crate) struct ForwardScratch {
    /// Its path and query, if they are changed; otherwise empty.
    pub(crate) target: String,
    /// The filters for the answer, as the value of a header; empty if there are none.
    pub(crate) document_security: String,
}

/// The buffers of the answer to a denied request.
#[derive(Debug, Default)]
pub(crate) struct DenialScratch {
    pub(crate) body: String,
    /// More about the reason, for the decision log.
    pub(crate) detail: String,
}
