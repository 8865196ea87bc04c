//! What one thread keeps from request to request.

use identity::{CacheLookups, LocalCache};

use crate::cluster_caller::ClusterCaller;
use crate::request::ParseScratch;
use crate::subject_data::SubjectData;

/// What one thread keeps from request to request: its own cache of callers, and buffers, so that a request that the rules decide, of a
/// caller in this cache, allocates nothing and writes to no memory that threads share. Making an identity header anew allocates, and
/// so does a path of which one segment reaches more than sixteen nodes of the engine's trie. Requests to a search cluster allocate,
/// and use caches that threads share.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The host of a request, to find out whether it is one of the search cluster.
    pub(crate) host: Vec<u8>,
    pub(crate) parse: ParseScratch,
    pub(crate) answer: AnswerScratch,
    pub(crate) callers: LocalCache<SubjectData>,
    pub(crate) cluster_callers: LocalCache<ClusterCaller>,
}

impl Scratch {
    /// How many look-ups since the last call found their credentials in the thread's cache, in that of all threads, or in
    /// neither: of requests that the rules decide, and of requests to a search cluster.
    pub fn take_cache_lookups(&mut self) -> [CacheLookups; 2] {
        [self.callers.take_lookups(), self.cluster_callers.take_lookups()]
    }
}

/// The buffers of an answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerScratch {
    /// The headers of the request to remove because they are aliases of those that the policy sets or removes.
    pub(crate) aliases: Vec<usize>,
    /// The values of `set_headers` that contain the name of the deciding rule, at the indices of their headers.
    pub(crate) with_rule: Vec<String>,
    /// The value of the identity header.
    pub(crate) identity: String,
    pub(crate) body: String,
    /// More about the reason of a denial, for the decision log.
    pub(crate) detail: String,
    /// The path and query with which a request to a search cluster is forwarded, if they are changed; otherwise empty.
    pub(crate) target: String,
    /// What must be filtered in the answer of a search cluster, as the value of a header; empty if nothing.
    pub(crate) document_security: String,
}
