//! Policies of any size whose answers follow from a formula.

use std::sync::Arc;

use super::random::{name_of, unverified};
use super::{Asked, nowhere};
use crate::model::{Grant, Policy, Role, RoleId, Rule};
use crate::pattern::{Actions, Glob, Pattern, Segment};
use crate::problem::Place;

/// A policy of a size: its resources are shared out evenly among its roles, its roles among its callers.
///
/// There are as many rules as resources or roles, whatever is more. Rule number n allows `GET` on resource n (modulo the
/// resources) to role n (modulo the roles). Of ten resources seven are literal, and one each is matched by `{id}`, by
/// `**` and by a glob. Caller number n has the roles from n times `roles_per_caller` on, every seventh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regular {
    /// How many different resource patterns there are.
    pub resources: usize,
    /// How many roles there are.
    pub roles: usize,
    /// How many users are granted something.
    pub callers: usize,
    /// How many roles each has; not more than `roles`.
    pub roles_per_caller: usize,
}

impl Regular {
    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let place = nowhere();
        let mut roles: Vec<Role> = (0..self.roles).map(|number| role(number, &place)).collect();
        for number in 0..self.rules() {
            if let Some(role) = roles.get_mut(number % self.roles) {
                role.allow.push(rule(number % self.resources, &place));
            }
        }
        Policy { identity: unverified(&place), roles, grants: self.grants(), ..Policy::default() }
    }

    /// How many rules there are.
    #[must_use]
    pub const fn rules(&self) -> usize {
        if self.resources > self.roles { self.resources } else { self.roles }
    }

    /// The user name of a caller.
    #[must_use]
    pub fn user(&self, caller: usize) -> String {
        format!("user-{caller}")
    }

    /// A question for a resource, which some role may use.
    #[must_use]
    pub fn question(&self, resource: usize) -> Asked {
        let more = match resource % 10 {
            7 => "/x-1",
            8 => "/x-2/y",
            9 => "/part-7",
            _ => "",
        };
        let path = format!("/v1/area-{}/item-{resource}{more}", resource / 100);
        Asked { action: "GET".into(), scope: "api.example.com".into(), resource: path }
    }

    /// Whether a caller may use a resource.
    #[must_use]
    pub fn allowed(&self, caller: usize, resource: usize) -> bool {
        let roles = self.roles_of(caller);
        (resource..self.rules()).step_by(self.resources).any(|rule| roles.contains(&(rule % self.roles)))
    }

    /// A resource that a caller may use, of many another one for each `nth`.
    #[must_use]
    pub fn allowed_resource(&self, caller: usize, nth: usize) -> usize {
        let roles = self.roles_of(caller);
        let role = roles.get(nth % roles.len().max(1)).copied().unwrap_or(0);
        let rules_of_role = (self.rules() - role).div_ceil(self.roles);
        (role + nth % rules_of_role * self.roles) % self.resources
    }

    fn roles_of(&self, caller: usize) -> Vec<usize> {
        let count = self.roles_per_caller.min(self.roles);
        // Seven and a number of roles that it divides would give the same few roles again and again.
        let step = if self.roles.is_multiple_of(7) { 1 } else { 7 };
        (0..count).map(|nth| (caller * count + nth * step) % self.roles).collect()
    }

    fn grants(&self) -> Vec<Grant> {
        let mut users: Vec<Vec<Arc<str>>> = vec![Vec::new(); self.roles];
        for caller in 0..self.callers {
            let name: Arc<str> = self.user(caller).into();
            for role in self.roles_of(caller) {
                users.get_mut(role).into_iter().for_each(|users| users.push(Arc::clone(&name)));
            }
        }
        let ids = (0..).map(RoleId);
        ids.zip(users).map(|(role, users)| Grant { role, users, groups: Vec::new() }).collect()
    }
}

fn role(number: usize, place: &Place) -> Role {
    let name = format!("role-{number}").into();
    Role { name, extends: Vec::new(), allow: Vec::new(), deny: Vec::new(), at: place.clone() }
}

fn rule(resource: usize, place: &Place) -> Rule {
    let literal = |text: String| Segment::Literal(text.into());
    let mut segments = vec![
        literal("v1".into()),
        literal(format!("area-{}", resource / 100)),
        literal(format!("item-{resource}")),
    ];
    match resource % 10 {
        7 => segments.push(Segment::One("id".into())),
        9 => segments.push(Segment::Glob(Glob(vec!["part-".into(), "".into()]))),
        _ => {}
    }
    let pattern = Pattern { absolute: true, segments, rest: resource % 10 == 8 };
    let mut rule = Rule {
        name: "".into(),
        actions: Actions::These(vec!["GET".into()]),
        scopes: Vec::new(),
        resources: vec![pattern],
        at: place.clone(),
    };
    rule.name = name_of(&rule);
    rule
}
