//! Booleans of settings, as Envoy reads them.

use document::View;

/// The setting under this key, unless it is missing or off. For settings that are unsafe when they are on: what cannot
/// be read counts as on.
pub(crate) fn unless_off<'n>(view: &View<'n>, key: &str) -> Option<View<'n>> {
    view.get(key).filter(|value| value.boolean() != Some(false))
}
