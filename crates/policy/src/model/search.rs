//! The section `search`: a cluster whose own role files decide about requests to its hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::key_url::KeyUrl;
use crate::pattern::Scope;
use document::{Place, PolicyFile};

/// A search cluster (OpenSearch), whose own role files decide about requests to its hosts.
#[derive(Clone, Debug)]
pub struct Search {
    /// The folder of its files, resolved against the policy's folder.
    pub folder: PathBuf,
    /// The existing files of the cluster, not yet parsed.
    pub files: Vec<PolicyFile>,
    /// The hosts of the cluster; empty means any.
    pub hosts: Vec<Scope>,
    /// How the cluster evaluates requests that are permitted on only some of their indices. If
    /// `None`, the cluster's `config.yml` decides.
    pub evaluation: Option<Evaluation>,
    /// Whether requests that are permitted on only some of their indices are reduced to these. If
    /// `None`, the cluster's `config.yml` decides.
    pub do_not_fail_on_forbidden: Option<bool>,
    /// The patterns of system indices, not yet parsed. Only roles with `system:admin/system_index`
    /// may use these indices.
    pub system_indices: Vec<(Arc<str>, Place)>,
    /// How a request is handled that would show documents or fields which a role of the caller
    /// hides.
    pub document_security: DocumentSecurity,
    /// Whether a role that shows all documents or fields of an index prevails over roles that hide
    /// some (`plugins.security.dfm_empty_overrides_all`).
    pub dfm_empty_overrides_all: bool,
    /// Whether the cluster checks that a scroll belongs to the caller. If not, only callers who may
    /// search all indices may continue a scroll.
    pub cluster_checks_scrolls: bool,
    /// How a bulk request is handled if only some of its items are permitted.
    pub bulk: Bulk,
    /// The indices, aliases and data streams of the cluster, if they are known.
    pub inventory: Option<Inventory>,
    /// Where it is configured.
    pub at: Place,
}

/// How a request to a search cluster is handled that would show documents or fields which a role of
/// the caller hides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DocumentSecurity {
    /// It is denied.
    #[default]
    Deny,
    /// It is forwarded with a request header about the parts to hide.
    Header {
        /// The name of the header, valid as for [`SetHeader`](super::SetHeader), and not in
        /// `allow_response`.
        name: Arc<str>,
        /// Where it is configured.
        at: Place,
    },
}

/// How a bulk request to a search cluster is handled if only some of its items are permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bulk {
    /// It is denied (`whole`).
    #[default]
    Whole,
    /// Inside Envoy it is forwarded without the denied items, and their errors are added to the
    /// response (`per-item`). With `ext_authz` it is denied, because `ext_authz` can change neither
    /// the body of the request nor the response.
    PerItem,
}

/// How a search cluster evaluates privileges (`privileges_evaluation_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// `legacy`.
    Legacy,
    /// `v4`.
    V4,
}

/// Where the names of a cluster's indices, aliases and data streams are read: in the cluster's
/// answer to `GET /_resolve/index/*?expand_wildcards=all`.
#[derive(Clone, Debug)]
pub enum Inventory {
    /// In a file, read when the policy is loaded.
    File {
        /// Its path and contents.
        source: PolicyFile,
        /// The place in the policy that names it.
        at: Place,
    },
    /// Requested from the cluster, in the background.
    Url {
        /// The URL of the inventory.
        url: KeyUrl,
        /// The interval between two requests; 30 s if not set.
        refresh: Duration,
        /// How long the last answer is used while the cluster does not answer; 5 min if not set.
        max_age: Duration,
        /// The place in the policy that names it.
        at: Place,
    },
}
