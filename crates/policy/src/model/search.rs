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
    /// Those of its files that exist, not yet parsed.
    pub files: Vec<PolicyFile>,
    /// The hosts of the cluster; empty means any.
    pub hosts: Vec<Scope>,
    /// How requests are evaluated that are permitted on some of their indices only; `None`: as in
    /// the cluster's `config.yml`.
    pub evaluation: Option<Evaluation>,
    /// Whether such requests are reduced to the permitted indices; `None`: as in the cluster's
    /// `config.yml`.
    pub do_not_fail_on_forbidden: Option<bool>,
    /// Patterns of system indices, not yet parsed, which only roles with
    /// `system:admin/system_index` may use.
    pub system_indices: Vec<(Arc<str>, Place)>,
    /// How requests are answered that show documents or fields of which a role of the caller hides
    /// some.
    pub document_security: DocumentSecurity,
    /// Whether a role that shows all documents or fields of an index prevails over roles that show
    /// some of them (`plugins.security.dfm_empty_overrides_all`).
    pub dfm_empty_overrides_all: bool,
    /// Whether the cluster checks that a scroll is the caller's own. Otherwise to continue a scroll
    /// needs the right to search all indices.
    pub cluster_checks_scrolls: bool,
    /// How a bulk request is answered of which only some items are permitted.
    pub bulk: Bulk,
    /// The indices, aliases and data streams of the cluster, if they are known.
    pub inventory: Option<Inventory>,
    /// Where it is configured.
    pub at: Place,
}

/// How a request to a search cluster is answered that shows documents or fields of which a role of
/// the caller hides some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DocumentSecurity {
    /// It is denied.
    #[default]
    Deny,
    /// It is forwarded with a request header about the parts to hide.
    Header {
        /// Its name, as that of a [`SetHeader`](super::SetHeader), and none of the policy's
        /// `allow_response`.
        name: Arc<str>,
        /// Where it is configured.
        at: Place,
    },
}

/// How a bulk request to a search cluster is answered of which only some items are permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bulk {
    /// It is denied (`whole`).
    #[default]
    Whole,
    /// Inside Envoy it is forwarded without the other items, whose errors are added to the response
    /// (`per-item`). Over `ext_authz`, where neither can be done, it is denied.
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

/// The source of the names of a cluster's indices, aliases and data streams: its answer to
/// `GET /_resolve/index/*?expand_wildcards=all`.
#[derive(Clone, Debug)]
pub enum Inventory {
    /// In a file, read when the policy is loaded.
    File {
        /// Its path and contents.
        source: PolicyFile,
        /// The place in the policy that names it.
        at: Place,
    },
    /// Asked of the cluster, in the background.
    Url {
        /// Where it is asked.
        url: KeyUrl,
        /// The interval between two requests; 30 s if not set.
        refresh: Duration,
        /// How long the last answer is used while the cluster does not answer; 5 min if not set.
        max_age: Duration,
        /// The place in the policy that names it.
        at: Place,
    },
}
