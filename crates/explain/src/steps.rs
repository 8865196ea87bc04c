//! How many names, roles, patterns and users of a search cluster are looked at for a question, at most.

/// For one page.
pub(crate) const FOR_A_PAGE: usize = 2_000_000;

/// For a command, whose reader may wait longer.
pub(crate) const FOR_A_COMMAND: usize = 100 * FOR_A_PAGE;
