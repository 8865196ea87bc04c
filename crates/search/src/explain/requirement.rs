//! The roles that a caller must have for a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::{Template, Variables};
use crate::pattern::Pattern;
use crate::resolve::Unknown;

/// The roles that a caller must have for a request to be permitted as it is, without a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirement {
    /// The caller needs a role of each list.
    pub required: Vec<Vec<HeldRole>>,
    /// The caller must have none of these roles, because the cluster would have to filter.
    pub forbidden: Vec<HeldRole>,
}

/// A role that a caller may have.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRole {
    /// The name of the role.
    pub role: Arc<str>,
    /// If set, the role applies only to some callers: a template, filled in with the values of the
    /// caller, must match names.
    pub template_match: Option<TemplateMatch>,
    /// The role applies only to callers who have none of these roles.
    pub without: Vec<Arc<str>>,
}

/// A pattern that must match names. It has values of the caller in it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateMatch {
    /// The pattern.
    pub template: Template,
    /// The names, each with its aliases and data streams.
    pub(super) names: Vec<NameWithParents>,
    pub(super) must_match: MustMatch,
}

/// The names that a pattern must match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MustMatch {
    /// All names. A required role must grant an action on each of them.
    All,
    /// At least one name. A forbidden role that matches a name hides something of it.
    Any,
}

/// A name or pattern of a request. A grant on a parent suffices, too.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NameWithParents {
    pub(super) name: String,
    /// The aliases and data streams of an index.
    pub(super) parents: Vec<String>,
    pub(super) is_pattern: bool,
}

impl Requirement {
    /// One condition, which no role meets.
    pub(super) fn met_by_nobody() -> Self {
        Self { required: vec![Vec::new()], forbidden: Vec::new() }
    }

    /// Whether a caller with these roles and values meets the requirement.
    #[must_use]
    pub fn is_met_by(&self, roles: &BTreeSet<Arc<str>>, variables: &Variables) -> bool {
        self.required.iter().all(|any| any.iter().any(|role| role.is_met_by(roles, variables)))
            && !self.forbidden.iter().any(|role| role.is_met_by(roles, variables))
    }

    /// About the number of steps that [`Self::is_met_by`] takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let roles = self.required.iter().flatten().chain(&self.forbidden);
        self.required.len() + roles.map(HeldRole::size).sum::<usize>()
    }

    /// The same requirement, split into requirements whose roles have no `without`. A caller who
    /// meets one of them meets this requirement.
    #[must_use]
    pub fn alternatives(&self) -> Vec<Requirement> {
        if self.required.iter().flatten().all(|role| role.without.is_empty()) {
            return vec![self.clone()];
        }
        // Only the role `kibana_user` has a `without`. So two requirements suffice. In the
        // first, this role does not count. In the second, it counts, and the roles in its `without`
        // are forbidden.
        let mut first = self.clone();
        first.required.iter_mut().for_each(|any| any.retain(|role| role.without.is_empty()));
        let mut second = self.clone();
        let without =
            second.required.iter_mut().flatten().flat_map(|role| std::mem::take(&mut role.without));
        for role in without.collect::<Vec<_>>() {
            second.forbid(HeldRole::unconditional(&role));
        }
        vec![first, second]
    }

    /// Adds a role that a caller must not have.
    pub(super) fn forbid(&mut self, role: HeldRole) {
        if !self.forbidden.contains(&role) {
            self.forbidden.push(role);
        }
    }
}

impl HeldRole {
    /// A role that applies to every caller who has it.
    pub(super) fn unconditional(role: &Arc<str>) -> Self {
        Self { role: role.clone(), template_match: None, without: Vec::new() }
    }

    /// Whether a caller with these roles and values has the role, and the role applies.
    fn is_met_by(&self, roles: &BTreeSet<Arc<str>>, variables: &Variables) -> bool {
        roles.contains(&self.role)
            && self.applies_to(variables)
            && !self.without.iter().any(|role| roles.contains(role))
    }

    /// About the number of steps to check that a caller has the role, and that it applies.
    #[must_use]
    pub fn size(&self) -> usize {
        1 + self.without.len()
            + self.template_match.as_ref().map_or(0, |template_match| template_match.names.len())
    }

    /// Whether the role applies to a caller with these values, regardless of `without`.
    #[must_use]
    pub fn applies_to(&self, variables: &Variables) -> bool {
        self.template_match.as_ref().is_none_or(|template_match| template_match.holds(variables))
    }
}

impl TemplateMatch {
    fn holds(&self, variables: &Variables) -> bool {
        let granting = self.template.pattern(variables);
        match self.must_match {
            MustMatch::All => granting.is_some_and(|pattern| {
                self.names.iter().all(|name| match name.is_pattern {
                    true => pattern.covers(&name.name),
                    false => name.may_match(&pattern),
                })
            }),
            MustMatch::Any => self
                .template
                .hiding_pattern(variables)
                .or(granting)
                .is_some_and(|pattern| self.names.iter().any(|name| name.may_match(&pattern))),
        }
    }

    /// The names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &*name.name)
    }

    /// The only user name with which the pattern matches, if that is known and the pattern must
    /// match a single name.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self.names.as_slice() {
            [NameWithParents { name, parents, is_pattern: false }] if parents.is_empty() => {
                self.template.user_of(name)
            }
            _ => None,
        }
    }
}

impl NameWithParents {
    pub(super) fn new(unknown: Unknown<'_>) -> Self {
        let is_pattern = matches!(unknown, Unknown::Pattern(_));
        Self { name: unknown.text().to_owned(), parents: Vec::new(), is_pattern }
    }

    /// Whether `pattern` matches the name or a parent. If `self` is itself a pattern: whether some
    /// name may match both patterns.
    pub(super) fn may_match(&self, pattern: &Pattern) -> bool {
        if self.is_pattern {
            return pattern.may_overlap(&self.name);
        }
        pattern.matches(&self.name) || self.parents.iter().any(|parent| pattern.matches(parent))
    }
}
