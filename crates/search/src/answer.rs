//! The answer to a request, and the settings of the cluster that it depends on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::action::Action;
use crate::config::{Dashboards, EvaluationType, IndexPermission, Variables};
use crate::expression::Part as NamePart;
use crate::filtering::{Filtering, may_be_of_any, strictest};
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::Unknown;

/// Whether a request is permitted, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// What is missing for the request as it is; sorted.
    pub missing: BTreeSet<Missing>,
    /// Filters that the cluster must apply, if the request is permitted. More than [`MAX_FILTERS`] are not all.
    pub filters: BTreeSet<Filter>,
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

/// What remains of a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the need.
    pub need: usize,
    /// The permitted names, sorted.
    pub names: Vec<String>,
}

/// An action that is not permitted, with the name of the index if it is about one.
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
    /// The index is protected, and the subject has none of the roles for that.
    ProtectedIndex,
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
            Self::ProtectedIndex => "a protected index",
            Self::ServiceAccount => "a service account may use system indices only",
            Self::NeedsFilter => "a role shows only some documents or fields",
            Self::CannotFilter => {
                "a role shows only some documents or fields, and the action cannot be filtered"
            }
            Self::UncertainFilter => "which documents or fields the roles hide is not certain",
            Self::MissingVariable => "the query of a role has a variable that the caller lacks",
            Self::HiddenTerms => {
                "a role shows only some documents, and `profile` or `min_doc_count: 0` shows terms of others"
            }
            Self::TenantNotGranted => "the index of Dashboards, and no role grants it in the global tenant",
            Self::AllIndices => "nobody may change all indices at once",
            Self::OtherTenant => "an index of Dashboards that is not of the global tenant",
        })
    }
}

/// What the cluster must filter in one index.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// The index, alias, data stream or pattern.
    pub name: String,
    /// Queries, one of which a document must match. None if all documents are visible.
    pub queries: BTreeSet<String>,
    /// Visible fields, and with `~` those that are not. None if all are visible.
    pub fields: BTreeSet<Arc<str>>,
    /// Masked fields.
    pub masked_fields: BTreeSet<Arc<str>>,
}

/// What the permissions of a caller hide in one index.
#[derive(Debug, Default)]
pub(crate) struct Restrictions {
    filter: Filter,
    /// A query has a variable that the subject lacks.
    is_missing: bool,
    /// Whether a permission hides no document, no field, and masks none.
    shows_all: [bool; 3],
    /// Whether a permission may hide documents or fields, or mask fields, or two of one role do so differently: the plugin then joins
    /// them, or uses the last, depending on their patterns.
    is_uncertain: [bool; 3],
    /// The role whose permission was added last, and what its permissions certainly restrict.
    last: Option<(usize, [Option<Restricted>; 3])>,
}

/// What a permission shows of one kind: the text of its query, or its fields.
type Restricted = Vec<Arc<str>>;

impl Restrictions {
    /// Adds a permission of a role that may be for the index, or certainly is. Those of one role must follow each other.
    pub(crate) fn add(
        &mut self,
        role: usize,
        permission: &IndexPermission,
        variables: &Variables,
        is_certain: bool,
    ) {
        let query = permission.document_query.iter().map(|query| query.text().into()).collect();
        let restricted = [query, permission.fields.clone(), permission.masked_fields.clone()];
        let (_, before) = match &mut self.last {
            Some(last) if last.0 == role => last,
            last => last.insert((role, [const { None }; 3])),
        };
        for ((restricted, before), is_uncertain) in
            restricted.into_iter().zip(before).zip(&mut self.is_uncertain)
        {
            if !restricted.is_empty() {
                *is_uncertain |= !is_certain || before.as_ref().is_some_and(|before| *before != restricted);
                *before = Some(restricted);
            }
        }
        match permission.document_query.as_ref().map(|query| query.query(variables)) {
            None => {}
            Some(Some(query)) => drop(self.filter.queries.insert(query)),
            Some(None) => self.is_missing = true,
        }
        if is_certain {
            let [documents, fields, masks] = &mut self.shows_all;
            *documents |= permission.document_query.is_none();
            *fields |= permission.fields.is_empty();
            *masks |= permission.masked_fields.is_empty();
        }
        self.filter.fields.extend(permission.fields.iter().cloned());
        self.filter.masked_fields.extend(permission.masked_fields.iter().cloned());
    }

    /// What must be filtered in the index with this name; `None` if nothing. It is known if the inventory
    /// has it: another may be a pattern, or that of an alias.
    ///
    /// # Errors
    /// Why the request must be denied.
    pub(crate) fn filter(
        mut self,
        name: &str,
        settings: &EvaluationSettings,
        filtering: Filtering,
        is_known: bool,
    ) -> Result<Option<Filter>, Reason> {
        let filter = &mut self.filter;
        if settings.empty_overrides_all {
            let [documents, fields, masks] = self.shows_all;
            for (is_uncertain, shows_all) in self.is_uncertain.iter_mut().zip(self.shows_all) {
                *is_uncertain &= !shows_all;
            }
            if documents {
                filter.queries.clear();
                self.is_missing = false;
            }
            if fields {
                filter.fields.clear();
            }
            if masks {
                filter.masked_fields.clear();
            }
        }
        // Where fields are hidden, those that are shown do not count.
        if filter.fields.iter().any(|field| field.starts_with('~')) {
            filter.fields.retain(|field| field.starts_with('~'));
        }
        let Filter { queries, fields, masked_fields, .. } = &*filter;
        let is_uncertain = self.is_uncertain.contains(&true);
        if !self.is_missing && queries.is_empty() && fields.is_empty() && masked_fields.is_empty() {
            return Ok(None);
        }
        match filtering {
            Filtering::Impossible => Err(Reason::CannotFilter),
            Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields if self.is_missing => {
                Err(Reason::MissingVariable)
            }
            Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields
                if !settings.hands_over_filters || !is_known =>
            {
                Err(Reason::NeedsFilter)
            }
            Filtering::PossibleForFields if !queries.is_empty() => Err(Reason::HiddenTerms),
            Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields if is_uncertain => {
                Err(Reason::UncertainFilter)
            }
            Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields => {
                name.clone_into(&mut self.filter.name);
                Ok(Some(self.filter))
            }
        }
    }
}

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
    /// The index of the security configuration, which nobody may use.
    pub security_index: Pattern,
    /// System indices, which need `system:admin/system_index`, beside those that every node has.
    pub system_indices: Vec<Pattern>,
    /// Indices that only subjects with one of these roles may change.
    pub protected_indices: Vec<Pattern>,
    /// Roles that may change protected indices.
    pub protected_roles: Vec<Pattern>,
    /// Whether what stands behind applies filters. Otherwise requests that need one are denied.
    pub hands_over_filters: bool,
    /// Whether a role that shows all documents of an index prevails over roles that show some of them; the same for fields
    /// and masks (`plugins.security.dfm_empty_overrides_all`).
    pub empty_overrides_all: bool,
    /// Dashboards, if its tenants count.
    pub dashboards: Option<Dashboards>,
}

/// The results of tasks.
static TASKS: LazyLock<Pattern> = LazyLock::new(|| Pattern::prefix(".tasks"));

/// How many names are listed as missing for each action of a need: the first ones by name.
pub const MAX_MISSING: usize = 20;

/// How many names a need is reduced to at most. A request with more could not be sent.
pub const MAX_NAMES: usize = 1_000;

/// How many filters are worked out. If there are more, they are not all, and the request must be denied: what says so many to the
/// cluster does not fit into a header of 6 KiB, with 17 bytes at least for each. Without a limit, 900 searches on an alias with 10,000
/// indices took 5 s (November 2026).
pub const MAX_FILTERS: usize = 400;

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

/// Starts of names of actions that change protected indices.
const CHANGING: &[&str] = &[
    "indices:data/write",
    "indices:admin/delete",
    "indices:admin/mapping/delete",
    "indices:admin/mapping/put",
    "indices:admin/freeze",
    "indices:admin/settings/update",
    "indices:admin/close",
];

/// For each action, whether it is one of these, so that names are compared once.
static CHANGES: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let begins = |name: &str| CHANGING.iter().any(|prefix| name.starts_with(prefix));
    Action::all().map(|action| action.name() == "indices:admin/aliases" || begins(action.name())).collect()
});

impl EvaluationSettings {
    /// The settings of the files. Where they do not say, the evaluation is [`EvaluationType::Legacy`], as in
    /// OpenSearch.
    #[must_use]
    pub fn of(settings: &crate::config::Settings) -> Self {
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
        if unknown.may_match(&self.security_index) {
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

    /// Whether a name that the inventory lacks is protected from changes, or a pattern may match such a name.
    pub(crate) fn is_protected_unknown(&self, unknown: Unknown<'_>) -> bool {
        self.protected_indices.iter().any(|pattern| unknown.may_match(pattern))
    }

    /// Whether one of these roles may change protected indices.
    pub(crate) fn may_change_protected<'r>(&self, mut roles: impl Iterator<Item = &'r str>) -> bool {
        roles.any(|role| self.protected_roles.iter().any(|pattern| pattern.matches(role)))
    }
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            evaluation: EvaluationType::V4,
            do_not_fail_on_forbidden: false,
            do_not_fail_on_forbidden_empty: false,
            ignore_unauthorized_indices: true,
            security_index: Pattern::exact(".opendistro_security"),
            system_indices: Vec::new(),
            protected_indices: Vec::new(),
            protected_roles: Vec::new(),
            hands_over_filters: false,
            empty_overrides_all: false,
            dashboards: Some(Dashboards::default()),
        }
    }
}

/// Whether an action changes what protection of indices is about. The plugin has the same list for changes of all indices.
pub(crate) fn changes(action: Action) -> bool {
    // Every action has a place; one without would count as a change.
    CHANGES.get(action.number()).copied().unwrap_or(true)
}

/// Why a request with this meaning of filters is denied to whom a permission on every index hides something, whatever other permissions
/// show: `hides_documents` says whether it hides documents.
pub(crate) fn denied_by_all(filtering: Filtering, hides_documents: bool) -> Option<Reason> {
    match filtering {
        Filtering::Impossible => Some(Reason::CannotFilter),
        Filtering::PossibleForFields => hides_documents.then_some(Reason::HiddenTerms),
        Filtering::NotNeeded | Filtering::Possible => None,
    }
}

/// Why a need is denied to whoever may not see all of some index, whatever the inventory has: it gives names to indices that are not made
/// yet, or has a pattern that cannot be replaced by names, which stands for indices and aliases that were made since.
pub(crate) fn reaches_new(need: &Need<'_>) -> Option<Missing> {
    let missing = |action, reason| Missing { action, name: need.target.text().to_owned(), reason };
    if need.adds_names {
        return need.actions.first().map(|action| missing(*action, Reason::CannotFilter));
    }
    let Target::Fixed(expression) = &need.target else { return None };
    let (action, filtering) = strictest(need).filter(|(action, _)| may_be_of_any(*action))?;
    let has_pattern = expression.parts().any(|part| matches!(part, NamePart::Pattern(_)));
    let reason = match filtering {
        Filtering::Impossible => Reason::CannotFilter,
        Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields => Reason::NeedsFilter,
    };
    has_pattern.then(|| missing(action, reason))
}
