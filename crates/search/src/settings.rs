//! How a cluster evaluates privileges, and which of its indices are special.

use std::sync::LazyLock;

use crate::action::Action;
use crate::answer::Reason;
use crate::config::{Dashboards, EvaluationType, Settings};
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::Unknown;

/// How the privileges of a cluster are evaluated.
#[derive(Clone, Debug)]
pub struct EvaluationSettings {
    /// What happens where only some indices are permitted.
    pub evaluation: EvaluationType,
    /// With [`EvaluationType::Legacy`]: reading requests are reduced to the permitted indices.
    pub do_not_fail_on_forbidden: bool,
    /// With [`EvaluationType::Legacy`]: reading requests without any permitted index have an empty result.
    pub do_not_fail_on_forbidden_empty: bool,
    /// With [`EvaluationType::V4`]: requests with patterns are reduced to the permitted indices.
    pub ignore_unauthorized_indices: bool,
    /// System indices, which need `system:admin/system_index`, beside those that every node has.
    pub system_indices: Vec<Pattern>,
    /// Whether what stands behind applies filters. Otherwise requests that need one are denied.
    pub hands_over_filters: bool,
    /// Whether a role that shows all documents of an index prevails over roles that show some of them; the same for fields
    /// and masks (`plugins.security.dfm_empty_overrides_all`).
    pub empty_overrides_all: bool,
    /// Dashboards, if its tenants count.
    pub dashboards: Option<Dashboards>,
}

/// The index of the security configuration, which nobody may use.
pub(crate) static SECURITY_INDEX: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::exact(".opendistro_security"));

/// The results of tasks: a system index of every node.
static TASKS: LazyLock<Pattern> = LazyLock::new(|| Pattern::prefix(".tasks"));

/// Actions that `do_not_fail_on_forbidden` reduces.
const REDUCIBLE: &[&str] = &[
    "indices:admin/aliases/get",
    "indices:admin/resolve/index",
    "indices:admin/shards/search_shards",
    "indices:monitor/settings/get",
    "indices:monitor/stats",
];

/// Starts of names of such actions.
const REDUCIBLE_PREFIXES: &[&str] = &["indices:data/read/", "indices:admin/mappings/fields/get"];

/// Starts of names of actions that nobody may perform on all indices with `legacy`.
const CHANGING: &[&str] = &[
    "indices:data/write",
    "indices:admin/delete",
    "indices:admin/mapping/delete",
    "indices:admin/mapping/put",
    "indices:admin/freeze",
    "indices:admin/settings/update",
    "indices:admin/close",
];

/// For each action, whether it is one of these.
static CHANGES: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let begins = |name: &str| CHANGING.iter().any(|prefix| name.starts_with(prefix));
    Action::all().map(|action| action.name() == "indices:admin/aliases" || begins(action.name())).collect()
});

impl EvaluationSettings {
    /// The settings of the files. Where they do not say, the evaluation is [`EvaluationType::Legacy`], as in
    /// OpenSearch.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            evaluation: settings.evaluation.unwrap_or(EvaluationType::Legacy),
            do_not_fail_on_forbidden: settings.do_not_fail_on_forbidden,
            do_not_fail_on_forbidden_empty: settings.do_not_fail_on_forbidden_empty,
            ignore_unauthorized_indices: settings.ignore_unauthorized_indices,
            dashboards: settings.dashboards.clone(),
            ..Self::default()
        }
    }

    /// Whether a request for this action can be reduced to the permitted indices.
    pub(crate) fn reduces(&self, action: Action) -> bool {
        let name = action.name();
        REDUCIBLE.contains(&name) || REDUCIBLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether a request can be forwarded with a path that names no index in place of what this need names.
    pub(crate) fn may_find_nothing(&self, need: &Need<'_>) -> bool {
        matches!(need.target, Target::Indices(_)) && need.actions.iter().all(|action| self.reduces(*action))
    }

    /// Whether a need changes all indices at once, or copies them elsewhere: with `legacy` nobody may do that, as the index of the
    /// security configuration may be among them. It is so whatever the cluster contains.
    pub(crate) fn changes_all(&self, need: &Need<'_>) -> bool {
        // What decides most often, and costs least, comes first: this is asked for each request.
        if self.evaluation != EvaluationType::Legacy
            || !(need.is_copied || need.actions.iter().any(|action| changes(*action)))
        {
            return false;
        }
        match &need.target {
            Target::Indices(expression) => expression.is_of_all(),
            // What is not seen may change any index, but is not known to change all.
            Target::Fixed(expression) => expression.is_of_all() && !expression.is_unseen(),
            Target::Cluster | Target::Name(_) | Target::Missing(_) | Target::AddedName(_) => false,
        }
    }

    /// Whether a name that the inventory lacks is a system index or the index of the security configuration,
    /// or a pattern may match one.
    pub(crate) fn special_unknown(&self, unknown: Unknown<'_>) -> Option<Reason> {
        if unknown.may_match(&SECURITY_INDEX) {
            return Some(Reason::SecurityIndex);
        }
        self.all_system_indices().any(|pattern| unknown.may_match(pattern)).then_some(Reason::SystemIndex)
    }

    /// The configured system indices, and those that every node has: with `v4` always, and with `legacy` if it is told of others.
    pub(crate) fn all_system_indices(&self) -> impl Iterator<Item = &Pattern> {
        let are_of_all = match self.evaluation {
            EvaluationType::Legacy => !self.system_indices.is_empty(),
            EvaluationType::V4 => true,
        };
        self.system_indices.iter().chain(are_of_all.then_some(&*TASKS))
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

/// Whether an action changes indices.
fn changes(action: Action) -> bool {
    // Every action has a place; one without would count as a change.
    CHANGES.get(action.number()).copied().unwrap_or(true)
}
