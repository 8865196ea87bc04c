//! What it means for an action that a role hides documents or fields.

use crate::action::Action;
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

/// Whether a name that the inventory lacks may be that of an alias, which was made since, of an index that a role hides something of. It
/// may be, whatever the name is. Another alias for the same index shows no more than that one, and another index with the same alias does
/// not either: nothing is shown by that name as long as the inventory lacks it.
pub(crate) fn may_be_of_any(action: Action) -> bool {
    action != ALIASES && action != ROLLOVER
}

/// The action whose result a filter matters for most; `None` if it matters for none.
pub(crate) fn strictest(need: &Need<'_>) -> Option<(Action, Filtering)> {
    // Nothing has that name yet.
    if matches!(need.target, Target::AddedName(_)) {
        return None;
    }
    let of = |action: Action| match filtering(action) {
        Filtering::Possible if need.is_copied => Filtering::Impossible,
        Filtering::Possible if need.shows_hidden_terms => Filtering::PossibleForFields,
        filtering @ (Filtering::NotNeeded
        | Filtering::Possible
        | Filtering::PossibleForFields
        | Filtering::Impossible) => filtering,
    };
    let all = need.actions.iter().map(|action| (*action, of(*action)));
    all.filter(|(_, filtering)| *filtering != Filtering::NotNeeded).max_by_key(|(_, filtering)| *filtering)
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
