//! How a cluster evaluates privileges, and which of its indices are special.

use std::sync::{Arc, LazyLock};

use crate::action::Action;
use crate::action_set::ActionSet;
use crate::expression::Expression;
use crate::need::{Need, Target};
use crate::pattern::Pattern;

/// How the privileges of a cluster are evaluated.
#[derive(Clone, Debug)]
pub struct EvaluationSettings {
    /// How the cluster evaluates requests that are permitted on some of their indices only.
    pub evaluation: EvaluationType,
    /// With [`EvaluationType::Legacy`]: reading requests are reduced to the permitted indices.
    pub do_not_fail_on_forbidden: bool,
    /// With [`EvaluationType::Legacy`]: if no index is permitted, the result of a reading request
    /// is empty.
    pub do_not_fail_on_forbidden_empty: bool,
    /// With [`EvaluationType::V4`]: requests with patterns are reduced to the permitted indices.
    pub ignore_unauthorized_indices: bool,
    /// Further system indices, which need `system:admin/system_index`.
    pub system_indices: Vec<Pattern>,
    /// Whether the cluster applies filters. Otherwise requests that need a filter are denied.
    pub hands_over_filters: bool,
    /// Whether a role that shows all documents of an index prevails over roles that show some of
    /// them; the same for fields and masks (`plugins.security.dfm_empty_overrides_all`).
    pub empty_overrides_all: bool,
    /// Dashboards, if multitenancy is on.
    pub dashboards: Option<Dashboards>,
}

/// Dashboards, as `config.yml` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboards {
    /// Its index, or an alias of it (`kibana.index`).
    pub index: Arc<str>,
    /// The user of Dashboards (`kibana.server_username`), who needs no privilege on tenants.
    pub server: Arc<str>,
}

impl Default for Dashboards {
    fn default() -> Self {
        Self { index: ".kibana".into(), server: "kibanaserver".into() }
    }
}

/// How the cluster evaluates a request that is permitted on some of its indices only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationType {
    /// As OpenSearch does until version 3.6, and later unless configured.
    Legacy,
    /// The evaluation of privileges that OpenSearch calls `v4`.
    V4,
}

/// The index of the security configuration, which nobody may use.
pub(crate) static SECURITY_INDEX: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::from_wildcards(".opendistro_security"));

/// The results of tasks: a system index of every node.
static TASKS: LazyLock<Pattern> = LazyLock::new(|| Pattern::from_wildcards(".tasks*"));

/// Actions that `do_not_fail_on_forbidden` reduces.
static REDUCIBLE: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:data/read/*",
        "indices:admin/aliases/get",
        "indices:admin/mappings/fields/get*",
        "indices:admin/resolve/index",
        "indices:admin/shards/search_shards",
        "indices:monitor/settings/get",
        "indices:monitor/stats",
    ])
});

/// Actions that nobody may perform on all indices with `legacy`.
static CHANGING: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:data/write*",
        "indices:admin/aliases",
        "indices:admin/close*",
        "indices:admin/delete*",
        "indices:admin/freeze*",
        "indices:admin/mapping/delete*",
        "indices:admin/mapping/put*",
        "indices:admin/settings/update*",
    ])
});

impl EvaluationSettings {
    /// Whether a request for this action can be reduced to the permitted indices.
    pub(crate) fn reduces(&self, action: Action) -> bool {
        REDUCIBLE.contains(action)
    }

    /// Whether a request can be forwarded with an expression that matches no index in place of the
    /// expression of this need.
    pub(crate) fn may_find_nothing(&self, need: &Need<'_>) -> bool {
        matches!(need.target, Target::Indices(_))
            && need.actions.iter().all(|action| self.reduces(*action))
    }

    /// Whether a need changes or copies all indices at once. For `legacy` nobody may do that: the
    /// index of the security configuration may be among them.
    pub(crate) fn changes_all(&self, need: &Need<'_>) -> bool {
        if self.evaluation != EvaluationType::Legacy
            || !(need.is_copied || need.actions.iter().any(|action| CHANGING.contains(*action)))
        {
            return false;
        }
        // A change that rolegate does not see may be about any index, but need not be about all.
        let is_unseen = matches!(&need.target, Target::Fixed(expression) if expression.is_unseen());
        !is_unseen && need.target.expression().is_some_and(Expression::is_all)
    }

    /// The system indices. With `legacy`, `.tasks*` is among them only if others are configured.
    pub(crate) fn all_system_indices(&self) -> impl Iterator<Item = &Pattern> {
        let has_tasks = self.evaluation == EvaluationType::V4 || !self.system_indices.is_empty();
        self.system_indices.iter().chain(has_tasks.then_some(&*TASKS))
    }
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            evaluation: EvaluationType::V4,
            do_not_fail_on_forbidden: false,
            do_not_fail_on_forbidden_empty: false,
            ignore_unauthorized_indices: true,
            system_indices: Vec::new(),
            hands_over_filters: false,
            empty_overrides_all: false,
            dashboards: Some(Dashboards::default()),
        }
    }
}
