//! The effect on an action if a role hides documents or fields.

use std::sync::LazyLock;

use crate::action::Action;
use crate::answer::{Missing, Reason};
use crate::need::{Need, Target};
use crate::pattern::Pattern;

/// The effect of a filter of documents or fields on an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Filtering {
    /// The action shows no document and no field.
    NotNeeded,
    /// The cluster can filter the answer.
    Possible,
    /// The cluster can filter the answer, but only if no document is hidden.
    PossibleForFields,
    /// The action copies documents, reads documents to change them, or gives them another name.
    Impossible,
}

/// What a role hides in every index; the worse part is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HiddenPart {
    /// Fields or their values, but no documents.
    Fields,
    Documents,
}

/// Adds an alias to an index, or removes it.
const ALIASES: Action = Action::new("indices:admin/aliases");

/// Creates an index, and moves the alias or data stream of the request to it.
const ROLLOVER: Action = Action::new("indices:admin/rollover");

/// The effect on actions by name. The first pattern that matches applies.
const FILTERINGS: &[(&str, Filtering)] = &[
    ("indices:data/write/update*", Filtering::Impossible),
    ("indices:data/write/delete/byquery", Filtering::Impossible),
    ("indices:admin/resize", Filtering::Impossible),
    // These actions give indices new names, which the inventory lacks at first.
    ("indices:admin/aliases", Filtering::Impossible),
    ("indices:admin/rollover", Filtering::Impossible),
    // These actions show mappings, and so names of fields.
    ("indices:admin/analyze", Filtering::Possible),
    ("indices:admin/get", Filtering::Possible),
    ("indices:admin/mappings/*", Filtering::Possible),
    ("indices:admin/validate/query", Filtering::Possible),
    // Plain writes, and administration.
    ("indices:data/write/index", Filtering::NotNeeded),
    ("indices:data/write/delete", Filtering::NotNeeded),
    ("indices:data/write/bulk[s]", Filtering::NotNeeded),
    ("indices:admin/*", Filtering::NotNeeded),
    ("indices:monitor/*", Filtering::NotNeeded),
];

/// The effect on each action, by its number.
static BY_ACTION: LazyLock<Box<[Filtering]>> =
    LazyLock::new(|| Action::all().map(|action| filtering_by_name(action.name())).collect());

fn filtering_by_name(name: &str) -> Filtering {
    let mut filterings = FILTERINGS.iter();
    let matching = filterings.find(|(pattern, _)| Pattern::from_wildcards(pattern).matches(name));
    matching.map_or(Filtering::Possible, |(_, filtering)| *filtering)
}

/// Whether an action may show documents under a name that the inventory lacks. In the cluster, the
/// name may be a newer alias of any index. Adding an alias, and a rollover, show no documents.
pub(crate) fn may_show_unknown_name(action: Action) -> bool {
    action != ALIASES && action != ROLLOVER
}

/// The action of a need on which a filter has the strictest effect; `None` if no action needs a
/// filter.
pub(crate) fn strictest_filtering(need: &Need<'_>) -> Option<(Action, Filtering)> {
    // No index or alias has this name yet.
    if matches!(need.target, Target::AliasOrNewIndex(_)) {
        return None;
    }
    let filterings = need.actions.iter().map(|action| {
        let filtering = match BY_ACTION.get(action.number()) {
            Some(Filtering::Possible) | None if need.is_copied => Filtering::Impossible,
            Some(Filtering::Possible) | None if need.shows_hidden_terms => {
                Filtering::PossibleForFields
            }
            filtering => *filtering.unwrap_or(&Filtering::Possible),
        };
        (*action, filtering)
    });
    filterings
        .filter(|(_, filtering)| *filtering != Filtering::NotNeeded)
        .max_by_key(|(_, filtering)| *filtering)
}

/// Why a request is denied to a caller from whom a role hides a part of every index, whatever other
/// roles show.
pub(crate) fn denied_by_hidden(filtering: Filtering, hidden: HiddenPart) -> Option<Reason> {
    match filtering {
        Filtering::Impossible => Some(Reason::CannotFilter),
        Filtering::PossibleForFields if hidden == HiddenPart::Documents => {
            Some(Reason::HiddenTerms)
        }
        Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields => None,
    }
}

/// The missing privilege of a need that is denied to everyone from whom a role hides something,
/// whatever the inventory has; `None` for other needs. Such a need gives names to indices that do
/// not exist yet, or has a pattern that is forwarded. The cluster may expand it to newer indices.
pub(crate) fn missing_if_restricted(need: &Need<'_>) -> Option<Missing> {
    let (action, reason) = match &need.target {
        _ if need.adds_names => (*need.actions.first()?, Reason::CannotFilter),
        Target::Fixed(expression) if expression.has_pattern() => {
            let (action, filtering) =
                strictest_filtering(need).filter(|(action, _)| may_show_unknown_name(*action))?;
            let is_impossible = filtering == Filtering::Impossible;
            (action, if is_impossible { Reason::CannotFilter } else { Reason::NeedsFilter })
        }
        Target::Cluster
        | Target::Name(_)
        | Target::Indices(_)
        | Target::Fixed(_)
        | Target::CreatedIfMissing(_)
        | Target::AliasOrNewIndex(_) => return None,
    };
    Some(Missing { action, name: need.target.text().to_owned(), reason })
}
