//! Settings that are on, lists of names, and what to do about parts that are not in the file.

use document::View;

/// What to do about a part that a control plane has.
pub(crate) const LINT_DUMP: &str = "lint what `/config_dump` of Envoy's admin page prints";
pub(crate) const LINT_ENDPOINTS: &str =
    "lint what `/config_dump?include_eds` of Envoy's admin page prints";

/// The setting at this path, unless it is missing or off. For settings that are unsafe when they
/// are on: a value that cannot be read counts as on.
pub(crate) fn unless_off<'n>(view: &View<'n>, path: &str) -> Option<View<'n>> {
    view.get(path).filter(|value| value.boolean() != Some(false))
}

/// Whether a name is one of these, which are separated by spaces.
pub(crate) fn is_among(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

/// Whether a condition holds for this text, or one below this value.
pub(crate) fn has_text(view: &View<'_>, condition: &dyn Fn(&str) -> bool) -> bool {
    view.any(&|value| value.text().is_some_and(condition))
}
