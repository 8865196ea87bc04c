//! Names of users, groups and roles, as the policy, a header or a token gives them.

use std::sync::Arc;

/// Whether a text can be a name, which goes into log lines, headers and comparisons: not empty, no
/// control characters.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// A name with the prefix of its source.
pub(crate) fn prefixed(prefix: &str, name: &str) -> Arc<str> {
    if prefix.is_empty() { name.into() } else { [prefix, name].concat().into() }
}
