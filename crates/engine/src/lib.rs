//! The production evaluator: an index that gives the same decisions as the reference evaluator in `policy`, at a cost
//! that does not grow with the policy. It knows nothing of HTTP: actions, scopes and resources are bytes.
//!
//! Read in this order: [`Engine`] here, `compile` (policy → index), then the parts in the order in which a decision
//! uses them: `callers` (subject → roles), `roles` (sets of roles), `scopes` (scope → tries), `trie` (resource → rows
//! of the matching patterns) with `segments` (splits the resource) and with `literals` and `globs` (the trie's edges),
//! and `rows` (action and roles → the deciding rule). `interner` gives ids to byte strings, `prefix` compares short
//! byte strings as integers, and `cost` counts steps in tests.

#![deny(clippy::wildcard_enum_match_arm)]

mod actions;
mod callers;
mod compile;
mod cost;
mod globs;
mod ids;
mod interner;
mod literals;
mod prefix;
mod roles;
mod rows;
mod scopes;
mod segments;
mod trie;

pub use policy::{Decision, Question};
pub use roles::RoleSet;

use policy::Policy;

use crate::actions::Actions;
use crate::callers::Callers;
use crate::rows::{Rows, Search};
use crate::scopes::Scopes;
use crate::trie::{Trie, Walk};

/// A policy compiled into an index. Immutable.
#[derive(Debug)]
pub struct Engine {
    callers: Callers,
    actions: Actions,
    scopes: Scopes,
    trie: Trie,
    rows: Rows,
}

impl Engine {
    /// Compiles a policy.
    ///
    /// # Panics
    /// If the policy has more than 2³² names, patterns or roles. No engine exists then, so nothing is allowed by
    /// mistake.
    #[must_use]
    pub fn compile(policy: &Policy) -> Self {
        compile::compile(policy)
    }

    /// The roles of an anonymous request.
    #[must_use]
    pub fn anonymous(&self) -> &RoleSet {
        self.callers.anonymous()
    }

    /// The roles of a subject with verified credentials. Allocates only if the set is not one that the policy itself
    /// implies: that of a user, of a group, or of a single role.
    pub fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        self.callers.roles_of(user, groups, roles)
    }

    /// The names of the roles in a set, in policy order.
    pub fn names<'e>(&'e self, roles: &RoleSet) -> impl Iterator<Item = &'e str> {
        self.callers.names(roles)
    }

    /// Evaluates one question, without allocating for all but hostile resources.
    ///
    /// Compilation has done what can be done without the request: roles are closed under `extends`, and each end of a
    /// pattern has a row of the rules there. What is left is one walk over the resource and one search in each row that
    /// it meets, so the cost follows from the shape of the resource, not from the number of rules.
    ///
    /// Every row is searched, also after a rule that allows: a later row may have a `deny` rule, and of several rules
    /// that decide alike the lowest is named.
    ///
    /// `owner` is the subject's user name, not percent-encoded, if there is one. `roles` must
    /// come from this engine: role ids differ between engines.
    #[must_use]
    pub fn decide(&self, roles: &RoleSet, owner: Option<&[u8]>, question: Question<'_>) -> Decision {
        let mut search = Search::new(roles, self.actions.find(question.action));
        if let Some(mut walk) = Walk::new(question.resource, owner) {
            self.scopes.roots(question.scope, |roots| walk.start(roots));
            self.trie.walk(&mut walk, &mut |row| self.rows.search(row, &mut search));
        }
        search.decision()
    }
}
