//! Policies of any size whose decisions follow from a formula.

use std::sync::Arc;

use crate::random::{name_of, unverified};
use crate::{OwnedAccessRequest, nowhere};
use document::Place;
use policy::model::{Grant, Policy, Role, RoleId, Rule};
use policy::pattern::{Actions, Glob, Pattern, Segment};

/// The size of a policy. Its resources are distributed evenly among its roles, and its roles among
/// its callers.
///
/// There are as many rules as resources or as roles, whichever is more. Rule n allows `GET` on
/// resource n (modulo the number of resources) to role n (modulo the number of roles). Seven of ten
/// resources are literal; the others are matched by `{id}`, by `**` and by a glob. Caller n has
/// `roles_per_caller` roles. The first is role n times `roles_per_caller`, and each further role is
/// seven after the role before it (modulo the number of roles).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regular {
    /// The number of different resource patterns.
    pub resources: usize,
    /// The number of roles.
    pub roles: usize,
    /// The number of users with grants.
    pub callers: usize,
    /// The number of roles of each caller; at most `roles`.
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
        Policy {
            identity: unverified(&place),
            roles: roles.into(),
            grants: self.grants(),
            ..Policy::default()
        }
    }

    /// The number of rules.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.resources.max(self.roles)
    }

    /// The user name of a caller.
    #[must_use]
    pub fn user(&self, caller: usize) -> String {
        format!("user-{caller}")
    }

    /// A request for a resource, which is allowed to some role.
    #[must_use]
    pub fn request(&self, resource: usize) -> OwnedAccessRequest {
        let more = match resource % 10 {
            7 => "/x-1",
            8 => "/x-2/y",
            9 => "/part-7",
            _ => "",
        };
        let path = format!("/v1/area-{}/item-{resource}{more}", resource / 100);
        OwnedAccessRequest { action: "GET".into(), scope: "api.example.com".into(), resource: path }
    }

    /// Whether a caller is allowed to use a resource.
    #[must_use]
    pub fn allowed(&self, caller: usize, resource: usize) -> bool {
        let roles = self.roles_of(caller);
        (resource..self.rules())
            .step_by(self.resources)
            .any(|rule| roles.contains(&(rule % self.roles)))
    }

    /// A resource that a caller is allowed to use. `nth` counts through the caller's roles and, at
    /// the same time, through the rules of the role. Some resources may have no `nth`.
    #[must_use]
    pub fn allowed_resource(&self, caller: usize, nth: usize) -> usize {
        let roles = self.roles_of(caller);
        let role = roles.get(nth % roles.len().max(1)).copied().unwrap_or(0);
        let rules_of_role = (self.rules() - role).div_ceil(self.roles);
        (role + nth % rules_of_role * self.roles) % self.resources
    }

    fn roles_of(&self, caller: usize) -> Vec<usize> {
        let count = self.roles_per_caller.min(self.roles);
        // If seven divides the number of roles, steps of seven would give the same few roles again
        // and again.
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
        let grants = ids.zip(users).map(|(role, users)| Grant {
            role,
            users,
            groups: Vec::new(),
            when: None,
            at: nowhere(),
        });
        grants.collect()
    }
}

fn role(number: usize, place: &Place) -> Role {
    let name = format!("role-{number}").into();
    Role {
        name,
        extends: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        when: None,
        at: place.clone(),
    }
}

fn rule(resource: usize, place: &Place) -> Rule {
    let literals = ["v1".into(), format!("area-{}", resource / 100), format!("item-{resource}")];
    let mut segments: Vec<_> = literals.map(|text| Segment::Literal(text.into())).into();
    match resource % 10 {
        7 => segments.push(Segment::Any("id".into())),
        9 => segments.push(Segment::Glob(Glob(vec!["part-".into(), "".into()]))),
        _ => {}
    }
    let pattern = Pattern { absolute: true, segments, open_ended: resource % 10 == 8 };
    let mut rule = Rule {
        name: "".into(),
        actions: Actions::These(vec!["GET".into()]),
        scopes: Vec::new(),
        resources: vec![pattern],
        when: None,
        at: place.clone(),
    };
    rule.name = name_of(&rule);
    rule
}
