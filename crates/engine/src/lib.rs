//! The same meaning as `policy`'s reference evaluator, fast: an index whose decisions cost the same however large the
//! policy. It knows nothing of HTTP: an action, a scope and a resource are bytes.
//!
//! Read in this order: [`Engine`] here, `compile` (from a policy to the index), then the parts in the order in which a
//! decision meets them: `callers` (a caller to its roles), `roles` (sets of roles), `scopes` (a scope to the tries that
//! it enters), `trie` (a resource to the rows of the patterns that match it) with `segments` (where they end) and
//! `literals` and `globs` (its edges), `rows` (an action and a set of roles to the rule that decides). `names` gives numbers to byte
//! strings, `word` compares short ones at once, and `table` holds what is numbered.

mod actions;
mod callers;
mod compile;
mod globs;
mod literals;
mod names;
mod roles;
mod rows;
mod scopes;
mod segments;
mod table;
mod trie;
mod word;
mod work;

pub use roles::RoleSet;

use policy::Policy;
use policy::model::{Effect, RoleId, RuleId};

use crate::actions::Actions;
use crate::callers::Callers;
use crate::rows::{RowId, Rows, Search};
use crate::scopes::Scopes;
use crate::trie::{Trie, Walk};

/// A policy compiled into an index. It never changes.
#[derive(Debug)]
pub struct Engine {
    callers: Callers,
    actions: Actions,
    scopes: Scopes,
    trie: Trie,
    rows: Rows,
}

/// What is asked, in canonical form.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// For HTTP the method.
    pub action: &'a [u8],
    /// For HTTP the host.
    pub scope: &'a [u8],
    /// For HTTP the path.
    pub resource: &'a [u8],
}

/// The answer, with the rule that gave it: of several the one with the lowest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, by this rule.
    Allowed(RuleId),
    /// No, by this `deny` rule.
    Denied(RuleId),
    /// No, as nothing allows it.
    NotAllowed,
}

/// A rule that matches a question, whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The rule.
    pub rule: RuleId,
    /// The role it belongs to. Roles that extend this one have the rule too.
    pub role: RoleId,
    /// Whether it stands under `allow` or `deny`.
    pub effect: Effect,
}

impl Engine {
    /// Compiles a policy.
    ///
    /// # Panics
    /// On a policy with more than 2³² names, patterns or roles. Nothing is then decided by it.
    #[must_use]
    pub fn compile(policy: &Policy) -> Self {
        compile::compile(policy)
    }

    /// The roles of an anonymous caller.
    #[must_use]
    pub fn anonymous(&self) -> &RoleSet {
        self.callers.anonymous()
    }

    /// The roles of a caller with a verified proof. Allocates only for a combination that the policy itself does not
    /// make: neither a user's, nor a group's, nor a role's own.
    pub fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        self.callers.roles_of(user, groups, roles)
    }

    /// The names of the roles in a set, in the order of the policy.
    pub fn names<'e>(&'e self, roles: &RoleSet) -> impl Iterator<Item = &'e str> {
        self.callers.names(roles)
    }

    /// Decides one question. `owner` is the caller's user name, as it is, if it has one. `roles` comes from this engine:
    /// another one's sets number other roles.
    #[must_use]
    pub fn decide(&self, roles: &RoleSet, owner: Option<&[u8]>, question: Question<'_>) -> Decision {
        let mut search = Search::new(roles, self.actions.find(question.action));
        self.visit(owner, &question, |row| self.rows.search(row, &mut search));
        search.decision()
    }

    /// Decides whether all of these are allowed: the first that is not decides; if all are, the first rule that allowed
    /// is named. Nothing asked is nothing allowed.
    #[must_use]
    pub fn decide_all(&self, roles: &RoleSet, owner: Option<&[u8]>, questions: &[Question<'_>]) -> Decision {
        let mut answer = Decision::NotAllowed;
        for (number, question) in questions.iter().enumerate() {
            match self.decide(roles, owner, *question) {
                allowed @ Decision::Allowed(_) if number == 0 => answer = allowed,
                Decision::Allowed(_) => {}
                refused @ (Decision::Denied(_) | Decision::NotAllowed) => return refused,
            }
        }
        answer
    }

    /// Every rule that matches a question, whatever roles the caller has, in order. For explanations: it allocates.
    #[must_use]
    pub fn matching(&self, owner: Option<&[u8]>, question: Question<'_>) -> Vec<Match> {
        let action = self.actions.find(question.action);
        let mut found = Vec::new();
        self.visit(owner, &question, |row| found.extend(self.rows.matching(row, action)));
        found.sort_unstable_by_key(|it: &Match| it.rule);
        found.dedup();
        found
    }

    /// Visits the row of each pattern that matches.
    fn visit(&self, owner: Option<&[u8]>, question: &Question<'_>, mut visit: impl FnMut(RowId)) {
        let Some(mut walk) = Walk::new(question.resource, owner) else { return };
        self.scopes.roots(question.scope, |roots| walk.start(roots));
        self.trie.walk(&mut walk, &mut visit);
    }
}
