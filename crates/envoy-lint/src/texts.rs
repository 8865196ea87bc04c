//! Texts in a value.

use document::View;

/// Whether this value, or one below it, is such a text.
pub(crate) fn has_text(view: &View<'_>, is_it: &dyn Fn(&str) -> bool) -> bool {
    view.text().is_some_and(is_it)
        || view.entries().iter().any(|(_, value)| has_text(value, is_it))
        || view.items().iter().any(|item| has_text(item, is_it))
}
