//! Values of a configuration: what is on, and what a value has somewhere in it.

use document::View;

/// What to do about a part that a control plane has.
pub(crate) const LINT_DUMP: &str = "lint what `/config_dump` of Envoy's admin page prints";
pub(crate) const LINT_ENDPOINTS: &str = "lint what `/config_dump?include_eds` of Envoy's admin page prints";

/// The setting under this key, unless it is missing or off. For settings that are unsafe when they are on: what cannot
/// be read counts as on.
pub(crate) fn unless_off<'n>(view: &View<'n>, key: &str) -> Option<View<'n>> {
    view.get(key).filter(|value| value.boolean() != Some(false))
}

/// Whether a name is one of these, which are separated by spaces.
pub(crate) fn is_among(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

/// The values of a mapping, or the items of a list.
pub(crate) fn inner<'n>(view: &View<'n>) -> Vec<View<'n>> {
    view.entries().into_iter().map(|(_, value)| value).chain(view.items()).collect()
}

/// Whether this value, or one below it, is so.
pub(crate) fn has(view: &View<'_>, is_it: &dyn Fn(&View<'_>) -> bool) -> bool {
    is_it(view) || inner(view).iter().any(|value| has(value, is_it))
}

/// Whether this value, or one below it, is such a text.
pub(crate) fn has_text(view: &View<'_>, is_it: &dyn Fn(&str) -> bool) -> bool {
    has(view, &|view| view.text().is_some_and(is_it))
}
