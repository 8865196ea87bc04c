//! The effect on an action if a role hides documents or fields.

use std::sync::LazyLock;

use crate::action::Action;
use crate::action_set::ActionSet;
use crate::answer::{Missing, Reason};
use crate::need::{Need, Target};

/// The effect of a filter of documents or fields on an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Filtering {
    /// The action shows no document and no field.
    NotNeeded,
    /// The cluster can filter the answer.
    Possible,
    /// The same, but only if no document is hidden.
    PossibleForFields,
    /// It copies documents, reads them to change them, or gives them another name.
    Impossible,
}

/// Adds an alias to an index, or takes one away.
const ALIASES: Action = Action::of("indices:admin/aliases");

/// Makes an index, and gives it the alias or data stream that it is asked for.
const ROLLOVER: Action = Action::of("indices:admin/rollover");

/// Actions that cannot be filtered. The inventory lacks new names (aliases, rollover) at first.
static IMPOSSIBLE: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:data/write/update*",
        "indices:data/write/delete/byquery",
        "indices:admin/aliases",
        "indices:admin/resize",
        "indices:admin/rollover",
    ])
});

/// Actions of administration that show mappings, and so names of fields.
static SHOWS_MAPPINGS: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:admin/analyze",
        "indices:admin/get",
        "indices:admin/mappings/*",
        "indices:admin/validate/query",
    ])
});

/// Plain writes, and actions of administration.
static NOT_NEEDED: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:data/write/index",
        "indices:data/write/delete",
        "indices:data/write/bulk[s]",
        "indices:admin/*",
        "indices:monitor/*",
    ])
});

/// Whether an action may show documents by a name that the inventory lacks: it may be a newer alias
/// of an index of which a role hides something. Adding an alias shows nothing by itself.
pub(crate) fn may_be_of_any(action: Action) -> bool {
    action != ALIASES && action != ROLLOVER
}

/// The action whose result a filter matters for most; `None` if it matters for none.
pub(crate) fn strictest(need: &Need<'_>) -> Option<(Action, Filtering)> {
    // Nothing has that name yet.
    if matches!(need.target, Target::AddedName(_)) {
        return None;
    }
    let filterings = need.actions.iter().map(|action| {
        let filtering = filtering(*action);
        let is_possible = filtering == Filtering::Possible;
        if is_possible && need.is_copied {
            (*action, Filtering::Impossible)
        } else if is_possible && need.shows_hidden_terms {
            (*action, Filtering::PossibleForFields)
        } else {
            (*action, filtering)
        }
    });
    filterings
        .filter(|(_, filtering)| *filtering != Filtering::NotNeeded)
        .max_by_key(|(_, filtering)| *filtering)
}

/// The effect of a filter of documents or fields on an action. Unlisted actions need one.
fn filtering(action: Action) -> Filtering {
    if IMPOSSIBLE.contains(action) {
        Filtering::Impossible
    } else if NOT_NEEDED.contains(action) && !SHOWS_MAPPINGS.contains(action) {
        Filtering::NotNeeded
    } else {
        Filtering::Possible
    }
}

/// Why a request is denied to a caller from whom a role hides something of every index, whatever
/// other roles show. `hides_documents` if the role hides documents.
pub(crate) fn denied_by_all(filtering: Filtering, hides_documents: bool) -> Option<Reason> {
    match filtering {
        Filtering::Impossible => Some(Reason::CannotFilter),
        Filtering::PossibleForFields => hides_documents.then_some(Reason::HiddenTerms),
        Filtering::NotNeeded | Filtering::Possible => None,
    }
}

/// Why a need is denied to everyone from whom a role hides something, whatever the inventory has.
/// It gives names to indices that are not made yet, or has a pattern that cannot be replaced by
/// names, and so stands for indices and aliases that were made since.
pub(crate) fn reaches_new(need: &Need<'_>) -> Option<Missing> {
    let missing = |action, reason| Missing { action, name: need.target.text().to_owned(), reason };
    if need.adds_names {
        return need.actions.first().map(|action| missing(*action, Reason::CannotFilter));
    }
    let Target::Fixed(expression) = &need.target else { return None };
    let (action, filtering) = strictest(need).filter(|(action, _)| may_be_of_any(*action))?;
    let reason = match filtering {
        Filtering::Impossible => Reason::CannotFilter,
        Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields => {
            Reason::NeedsFilter
        }
    };
    expression.has_pattern().then(|| missing(action, reason))
}
