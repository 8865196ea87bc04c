//! What people ask about a decision: which roles would change it, and which show only a part of an index.

use std::sync::Arc;

use crate::answer::Answer;
use crate::config::IndexPermission;
use crate::need::Need;
use crate::resolve::Unknown;
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

impl Privileges {
    /// The answer to a request of a subject with each other role of the configuration in addition to its own.
    pub fn with_each_role<'p>(
        &'p self,
        subject: &Subject,
        needs: &[Need<'_>],
    ) -> impl Iterator<Item = (&'p Arc<str>, Answer)> {
        self.config.roles.keys().map(move |role| {
            let mut subject = subject.clone();
            subject.roles.push(role.to_string());
            (role, self.decide(&self.caller(&subject), needs))
        })
    }

    /// The permissions of a caller that show only some documents or fields of an index, alias, data stream or pattern.
    #[must_use]
    pub fn restrictions(&self, caller: &Caller, name: &str) -> Vec<Restriction<'_>> {
        let number = self.inventory.as_deref().and_then(|inventory| inventory.number(name));
        let unknown = if name.contains('*') { Unknown::Pattern(name) } else { Unknown::Name(name) };
        let applies = |grant: &&Grant| match number {
            Some(number) => self.applies_to_known(caller, grant, number),
            None => self.applies_to_unknown(caller, grant, unknown),
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
