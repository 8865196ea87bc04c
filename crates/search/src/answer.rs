//! The answer to a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::action::Action;

/// The most names that are listed as missing for each action of a need.
pub const MAX_MISSING: usize = 20;

/// The most names to which a need is reduced. A request with more names could not be sent.
pub(crate) const MAX_REDUCED_NAMES: usize = 1_000;

/// The most filters of a request: more do not fit into a header of 6 KiB, with 17 bytes at least
/// for each. Without a limit, 900 searches on an alias with 10,000 indices took 5 s (November
/// 2026).
pub const MAX_FILTERS: usize = 400;

/// Whether a request is permitted, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The privileges that the request lacks as it is; sorted.
    pub missing: BTreeSet<Missing>,
    /// Filters that the cluster must apply; only some if there are more than [`MAX_FILTERS`].
    pub filters: BTreeSet<Filter>,
}

/// A need that is not permitted.
#[derive(Debug)]
pub(crate) struct Denied;

impl Answer {
    /// Adds these actions as missing on a name, and denies the need unless there are no actions.
    pub(crate) fn deny_if_any<'a>(
        &mut self,
        actions: impl IntoIterator<Item = &'a Action>,
        name: &str,
        reason: Reason,
    ) -> Result<(), Denied> {
        let mut result = Ok(());
        for action in actions {
            self.missing.insert(Missing { action: *action, name: name.to_owned(), reason });
            result = Err(Denied);
        }
        result
    }
}

/// Whether a request is permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Permitted,
    /// Only if these needs are reduced to these names, of which there may be none.
    PermittedInPart(Vec<Part>),
    /// Not at all.
    #[default]
    Denied,
}

/// The permitted part of a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The position of the need among the needs of the request.
    pub need: usize,
    /// The permitted names, sorted.
    pub names: Vec<String>,
}

/// An action that is not permitted, on the cluster or on a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// The action.
    pub action: Action,
    /// The index, alias, data stream or pattern; empty for the cluster.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

/// Why an action is not permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// No role of the subject grants it.
    #[error("not granted")]
    NotGranted,
    /// It is a system index, and no role also grants `system:admin/system_index` on it.
    #[error("a system index")]
    SystemIndex,
    /// Nobody may use this index.
    #[error("the index of the security configuration")]
    SecurityIndex,
    /// A service account does nothing on the cluster and on regular indices.
    #[error("a service account may use system indices only")]
    ServiceAccount,
    /// The cluster would have to filter the answer.
    #[error("a role shows only some documents or fields")]
    NeedsFilter,
    /// The cluster does not filter this action.
    #[error("a role shows only some documents or fields, and the action cannot be filtered")]
    CannotFilter,
    /// rolegate cannot tell which documents or fields the plugin hides.
    #[error("which documents or fields the roles hide is not certain")]
    UncertainFilter,
    /// The filter has a variable without a value.
    #[error("the query of a role has a variable that the caller lacks")]
    MissingVariable,
    /// No role permits the action in the global tenant.
    #[error("the index of Dashboards, and no role grants it in the global tenant")]
    TenantNotGranted,
    /// The answer shows terms of hidden documents, which the cluster does not filter.
    #[error(
        "a role shows only some documents, and `profile` or `min_doc_count: 0` shows terms of \
         others"
    )]
    HiddenTerms,
    /// All indices include the index of the security configuration.
    #[error("nobody may change all indices at once")]
    AllIndices,
    /// Only Dashboards itself uses such an index.
    #[error("an index of Dashboards that is not of the global tenant")]
    OtherTenant,
}

/// The filter of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// The index, alias, data stream or pattern.
    pub name: String,
    /// A document must match any of these queries. Empty if all documents are visible.
    pub queries: BTreeSet<String>,
    /// Visible fields, or hidden fields with `~`. Empty if all are visible.
    pub fields: BTreeSet<Arc<str>>,
    /// Masked fields.
    pub masked_fields: BTreeSet<Arc<str>>,
}
