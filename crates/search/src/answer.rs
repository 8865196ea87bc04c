//! The answer to a request.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::action::Action;

/// How many names are listed as missing for each action of a need: the first names in their order.
pub const MAX_MISSING: usize = 20;

/// The most names that a need is reduced to. A request with more could not be sent.
pub const MAX_NAMES: usize = 1_000;

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
    /// Filters that the cluster must apply. More than [`MAX_FILTERS`] may not be all of them.
    pub filters: BTreeSet<Filter>,
}

/// A need that is not permitted.
#[derive(Debug)]
pub(crate) struct Denied;

impl Answer {
    /// Adds that these actions are missing on a name. `Ok` if there are none.
    pub(crate) fn deny<'a>(
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
    /// The number of the need.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No role of the subject grants it.
    NotGranted,
    /// The index is a system index, and no role grants `system:admin/system_index` on it.
    SystemIndex,
    /// It is the index of the security configuration.
    SecurityIndex,
    /// A service account does nothing on the cluster and on regular indices.
    ServiceAccount,
    /// A role shows only some documents or fields, which the cluster would have to filter.
    NeedsFilter,
    /// A role shows only some documents or fields, and the action cannot be filtered.
    CannotFilter,
    /// A role may show only some documents or fields, but which is not certain.
    UncertainFilter,
    /// The query of a role has a variable that the subject lacks.
    MissingVariable,
    /// It is the index of Dashboards, and no role permits the action in the global tenant.
    TenantNotGranted,
    /// A role shows only some documents, and the request shows terms of others.
    HiddenTerms,
    /// It changes all indices at once.
    AllIndices,
    /// It is an index of Dashboards, but not of the global tenant.
    OtherTenant,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGranted => "not granted",
            Self::SystemIndex => "a system index",
            Self::SecurityIndex => "the index of the security configuration",
            Self::ServiceAccount => "a service account may use system indices only",
            Self::NeedsFilter => "a role shows only some documents or fields",
            Self::CannotFilter => {
                "a role shows only some documents or fields, and the action cannot be filtered"
            }
            Self::UncertainFilter => "which documents or fields the roles hide is not certain",
            Self::MissingVariable => "the query of a role has a variable that the caller lacks",
            Self::HiddenTerms => {
                "a role shows only some documents, and `profile` or `min_doc_count: 0` shows terms \
                 of others"
            }
            Self::TenantNotGranted => {
                "the index of Dashboards, and no role grants it in the global tenant"
            }
            Self::AllIndices => "nobody may change all indices at once",
            Self::OtherTenant => "an index of Dashboards that is not of the global tenant",
        })
    }
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
