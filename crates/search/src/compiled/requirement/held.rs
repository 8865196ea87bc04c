//! Roles that a caller may have, some of which count only for callers with certain values.

use std::sync::Arc;

use crate::config::{Template, Variables};
use crate::pattern::Pattern;
use crate::resolve::Unknown;

/// A role that a caller may have.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRole {
    /// Its name.
    pub role: Arc<str>,
    /// If it counts for some callers only: for those whose values this pattern matches names with.
    pub matching: Option<Matching>,
    /// It counts only for those who have none of these roles.
    pub without: Vec<Arc<str>>,
}

/// A pattern with values of the caller that must match names.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The pattern.
    pub template: Template,
    /// The names, each with the aliases and data streams that have it.
    pub(super) names: Vec<Row>,
    /// Whether it must match each of them, and not only one.
    pub(super) is_all: bool,
}

/// A name or pattern of a request, with other names by any of which it is permitted too.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) parents: Vec<String>,
    pub(super) is_pattern: bool,
}

impl HeldRole {
    /// A role that always counts.
    pub(super) fn of(role: &Arc<str>) -> Self {
        Self { role: role.clone(), matching: None, without: Vec::new() }
    }

    /// How many names it takes to find out whether it counts for a caller; 1 if it always does.
    #[must_use]
    pub fn size(&self) -> usize {
        1 + self.without.len() + self.matching.as_ref().map_or(0, |matching| matching.names.len())
    }

    /// Whether the role counts for a caller with these values, if it counts beside the other roles of the caller.
    #[must_use]
    pub fn counts_for(&self, variables: &Variables) -> bool {
        self.matching.as_ref().is_none_or(|matching| matching.holds(variables))
    }
}

impl Matching {
    fn holds(&self, variables: &Variables) -> bool {
        // What a role hides counts for more names than it grants.
        let widened = if self.is_all { None } else { self.template.widened(variables) };
        let Some(pattern) = widened.or_else(|| self.template.pattern(variables)) else { return false };
        let covers = |row: &Row| match (row.is_pattern, self.is_all) {
            (true, true) => pattern.covers(&row.name),
            (true, false) => pattern.may_overlap(&row.name),
            (false, _) => pattern.matches(&row.name) || row.parents.iter().any(|name| pattern.matches(name)),
        };
        if self.is_all { self.names.iter().all(covers) } else { self.names.iter().any(covers) }
    }

    /// The names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|row| &*row.name)
    }

    /// The only user name with which the pattern matches, if that is certain.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self.names.as_slice() {
            [row] if !row.is_pattern && row.parents.is_empty() => self.template.user_of(&row.name),
            _ => None,
        }
    }
}

impl Row {
    pub(super) fn of(unknown: Unknown<'_>) -> Self {
        let is_pattern = matches!(unknown, Unknown::Pattern(_));
        Self { name: unknown.text().to_owned(), parents: Vec::new(), is_pattern }
    }

    pub(super) fn may_match(&self, widest: &Pattern) -> bool {
        match self.is_pattern {
            true => widest.may_overlap(&self.name),
            false => std::iter::once(&self.name).chain(&self.parents).any(|name| widest.matches(name)),
        }
    }
}
