//! Names of users, groups and roles, as a source gives them.

use std::sync::Arc;

/// Whether a name may stand in a log line, a header and a comparison: not empty, no control characters.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// A name with its source's prefix.
pub(crate) fn prefixed(prefix: &str, name: &str) -> Arc<str> {
    if prefix.is_empty() { name.into() } else { [prefix, name].concat().into() }
}
