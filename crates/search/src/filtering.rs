//! What it means for an action that a role hides documents or fields.

use crate::action::Action;
use crate::answer::{Missing, Reason};
use crate::need::{Need, Target};

/// What a filter of documents or fields means for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Filtering {
    /// The action shows no document and no field.
    NotNeeded,
    /// The cluster can filter what it shows.
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

/// Whether an action may show documents by a name that the inventory lacks: of an alias that was made since,
/// for an index of which a role hides something. Adding an alias shows nothing by itself.
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

/// What a filter of documents or fields means for an action. Actions that are not known here need one.
fn filtering(action: Action) -> Filtering {
    let name = action.name();
    if name.starts_with("indices:data/write/update")
        || matches!(name, "indices:data/write/delete/byquery" | "indices:admin/resize")
        // By another name, what is hidden would be shown until the inventory has that name.
        || action == ALIASES
        || action == ROLLOVER
    {
        return Filtering::Impossible;
    }
    let shows_mappings = name.starts_with("indices:admin/mappings/")
        || matches!(name, "indices:admin/get" | "indices:admin/validate/query" | "indices:admin/analyze");
    let is_plain_write = matches!(
        name,
        "indices:data/write/index" | "indices:data/write/delete" | "indices:data/write/bulk[s]"
    );
    let is_administration = name.starts_with("indices:admin/") || name.starts_with("indices:monitor/");
    if is_plain_write || (is_administration && !shows_mappings) {
        Filtering::NotNeeded
    } else {
        Filtering::Possible
    }
}

/// Why a request is denied to a caller of whom a role hides something of every index, whatever other roles
/// show. `hides_documents` says whether it hides documents.
pub(crate) fn denied_by_all(filtering: Filtering, hides_documents: bool) -> Option<Reason> {
    match filtering {
        Filtering::Impossible => Some(Reason::CannotFilter),
        Filtering::PossibleForFields => hides_documents.then_some(Reason::HiddenTerms),
        Filtering::NotNeeded | Filtering::Possible => None,
    }
}

/// Why a need is denied to everyone from whom a role hides something, whatever the inventory has: it gives
/// names to indices that are not made yet, or it has a pattern that cannot be replaced by names, and so
/// stands for indices and aliases that were made since.
pub(crate) fn reaches_new(need: &Need<'_>) -> Option<Missing> {
    let missing = |action, reason| Missing { action, name: need.target.text().to_owned(), reason };
    if need.adds_names {
        return need.actions.first().map(|action| missing(*action, Reason::CannotFilter));
    }
    let Target::Fixed(expression) = &need.target else { return None };
    let (action, filtering) = strictest(need).filter(|(action, _)| may_be_of_any(*action))?;
    let reason = match filtering {
        Filtering::Impossible => Reason::CannotFilter,
        Filtering::NotNeeded | Filtering::Possible | Filtering::PossibleForFields => Reason::NeedsFilter,
    };
    expression.has_pattern().then(|| missing(action, reason))
}
