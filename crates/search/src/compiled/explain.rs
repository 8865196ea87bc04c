//! What people ask about a decision: by which permission it holds, which roles would change it, and which show only a part
//! of an index.

use std::sync::Arc;

use crate::action::Action;
use crate::answer::Answer;
use crate::config::{IndexPattern, IndexPermission};
use crate::inventory::Kind;
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::{Unknown, counts, resolve};
use crate::subject::Subject;

use super::{Caller, Grant, Privileges};

/// A permission that shows only some documents or fields of an index.
#[derive(Clone, Copy, Debug)]
pub struct Restriction<'p> {
    /// The role.
    pub role: &'p Arc<str>,
    /// The permission.
    pub permission: &'p IndexPermission,
}

/// A permission that grants an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantingPermission<'p> {
    /// The role.
    pub role: &'p str,
    /// The pattern of the role, with its variables; `None` on the cluster.
    pub pattern: Option<&'p str>,
    /// The alias or data stream that the pattern matches, if it does not match the index itself.
    pub through: Option<&'p str>,
}

impl Privileges {
    /// Whether a need counts: some do only with [`EvaluationType::V4`](crate::config::EvaluationType::V4).
    #[must_use]
    pub fn counts(&self, need: &Need<'_>) -> bool {
        counts(self.settings.evaluation, need)
    }

    /// The names that a target stands for, as far as that is known: the indices of an alias (with `legacy`), what a pattern
    /// matches. None for the cluster.
    #[must_use]
    pub fn names_of<'t>(&'t self, target: &'t Target<'_>) -> Vec<&'t str> {
        let resolved = resolve(self.inventory.as_deref(), self.settings.evaluation, target);
        let Some(names) = resolved else { return Vec::new() };
        let known: Vec<&str> = names.known.iter().map(|number| self.name(number)).collect();
        known.into_iter().chain(names.unknown.into_iter().map(Unknown::text)).collect()
    }

    /// By what an action is granted to a caller on one of [these names](Self::names_of), or on the cluster: the first
    /// permission that is found, and one that matches the name itself before one that matches an alias or data stream of it.
    #[must_use]
    pub fn granting_permission(
        &self,
        caller: &Caller,
        action: Action,
        name: Option<&str>,
    ) -> Option<GrantingPermission<'_>> {
        let ids = caller.roles.ids().iter().map(|id| *id as usize);
        let Some(name) = name else {
            let names: Vec<&Arc<str>> = self.config.roles.keys().collect();
            let has = |id: &usize| self.roles.get(*id).is_some_and(|role| role.cluster.contains(action));
            let role = ids.clone().find(has).and_then(|id| names.get(id).copied())?;
            return Some(GrantingPermission { role, pattern: None, through: None });
        };
        let grants = || ids.clone().filter_map(|id| self.roles.get(id)).flat_map(|role| &role.grants);
        let matching = |name: &str| {
            let mut of_action = grants().filter(|grant| grant.actions.contains(action));
            of_action.find_map(|grant| {
                let mut patterns = self.permission(grant)?.patterns.iter();
                let pattern = patterns.find(|pattern| matches(pattern, caller, name))?;
                Some(GrantingPermission {
                    role: &grant.permission.0,
                    pattern: Some(text(pattern)),
                    through: None,
                })
            })
        };
        let through = || {
            let inventory = self.inventory.as_deref()?;
            let number = inventory
                .number(name)
                .filter(|number| inventory.kind(*number).is_some_and(Kind::is_index))?;
            let parents = inventory.related(number).iter().map(|parent| inventory.name(*parent));
            parents.into_iter().find_map(|parent| {
                matching(parent).map(|granting| GrantingPermission { through: Some(parent), ..granting })
            })
        };
        matching(name).or_else(through)
    }

    /// The answer to a request of a subject with each other role of the configuration in addition to its own.
    pub fn with_each_role<'p>(
        &'p self,
        subject: &Subject,
        needs: &[Need<'_>],
    ) -> impl Iterator<Item = (&'p Arc<str>, Answer)> {
        self.config.roles.keys().map(move |role| {
            let mut subject = subject.clone();
            subject.roles.push(role.to_string());
            (role, self.decide(&self.uncached_caller(&subject), needs))
        })
    }

    /// The permissions of a caller that show only some documents or fields of an index, alias, data stream or pattern.
    #[must_use]
    pub fn restrictions(&self, caller: &Caller, name: &str) -> Vec<Restriction<'_>> {
        let number = self.inventory.as_deref().and_then(|inventory| inventory.number(name));
        let unknown = if name.contains('*') { Unknown::Pattern(name) } else { Unknown::Name(name) };
        let applies = |grant: &&Grant| match number {
            Some(number) => self.applies_to_known(caller, grant, number),
            // It may be the name of an alias that was made since, for an index with any name.
            None => matches!(unknown, Unknown::Name(_)) || self.matches_unknown(caller, grant, unknown),
        };
        let ids = caller.roles.ids().iter().filter_map(|id| self.roles.get(*id as usize));
        let grants = ids.flat_map(|role| &role.grants).filter(|grant| grant.is_restricted()).filter(applies);
        grants
            .filter_map(|grant| {
                Some(Restriction { role: &grant.permission.0, permission: self.permission(grant)? })
            })
            .collect()
    }
}

/// Whether a pattern of a role matches a name, or covers a pattern of a request.
fn matches(pattern: &IndexPattern, caller: &Caller, name: &str) -> bool {
    let of =
        |pattern: &Pattern| if name.contains('*') { pattern.covers(name) } else { pattern.matches(name) };
    match pattern {
        IndexPattern::Static(pattern) => of(pattern),
        IndexPattern::Template(template) => template.pattern(&caller.variables).as_ref().is_some_and(of),
    }
}

fn text(pattern: &IndexPattern) -> &str {
    match pattern {
        IndexPattern::Static(pattern) => pattern.text(),
        IndexPattern::Template(template) => template.text(),
    }
}
