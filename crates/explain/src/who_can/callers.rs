//! The callers who may make a request: their roles allow it and do not deny it.
//!
//! A Basic user has fixed groups, so each user is looked up. Only the issuer knows the contents of
//! tokens, but the policy says which roles and groups in a token it uses. Each of them helps,
//! denies, or has no effect on the request. So a token may make the request if it has a helping
//! name for each interpretation of the path, and no denying name.

use std::collections::{BTreeMap, BTreeSet};

use policy::Policy;
use policy::model::{RoleId, SourceId};
use review::{CallerSource, Grants, Source};

use super::matches::{Effects, Matches};
use super::{Attribute, Callers, Condition};

/// The callers who may make the request of `matches`.
pub(super) fn callers(policy: &Policy, matches: &Matches<'_>) -> Vec<Callers> {
    let grants = Grants::new(policy);
    let mut callers = Vec::new();
    let anonymous = matches.effects(None, grants.anyone);
    if !anonymous.denied && anonymous.allowed_on.len() == matches.path_count {
        callers.push(Callers::new(CallerSource::Anonymous, Condition::always()));
    }
    for source in Source::all(&policy.identity) {
        let attributes = source.attributes(policy, &grants).into_iter();
        let attributes = attributes.map(|(attribute, roles)| (attribute.into(), roles)).collect();
        callers.extend(SourceCallers { source, attributes, matches, grants: &grants }.find());
    }
    callers
}

/// Finds the callers of a source who may make a request.
struct SourceCallers<'a> {
    source: Source<'a>,
    /// The roles and groups in its tokens that the policy uses, each with the roles that it gives.
    attributes: Vec<(Attribute, Vec<RoleId>)>,
    matches: &'a Matches<'a>,
    grants: &'a Grants<'a>,
}

impl SourceCallers<'_> {
    fn find(&self) -> Vec<Callers> {
        // Most users share their effects, and so their condition, with other users.
        let mut conditions = BTreeMap::new();
        let general = match self.source.is_open {
            true => self.user_condition(None, &[], &mut conditions),
            false => None,
        };
        let mut except_users = Vec::new();
        let mut users_by_condition: BTreeMap<Condition, Vec<String>> = BTreeMap::new();
        for (user, groups) in self.special_users() {
            let condition = self.user_condition(Some(&user), &groups, &mut conditions);
            if condition == general {
                continue;
            }
            // Every user has at least the roles of unlisted users. So the general condition also
            // applies to this user, unless further attributes deny the request.
            if let Some(general) = &general
                && condition.as_ref().is_none_or(|condition| condition.unless != general.unless)
            {
                except_users.push(user.clone());
            }
            if let Some(condition) = condition {
                users_by_condition.entry(condition).or_default().push(user);
            }
        }
        let source = &self.source.kind;
        let general = general
            .map(|condition| Callers { except_users, ..Callers::new(source.clone(), condition) });
        let by_name = users_by_condition.into_iter().map(|(condition, users)| Callers {
            users: Some(users),
            ..Callers::new(source.clone(), condition)
        });
        general.into_iter().chain(by_name).collect()
    }

    /// The users whose condition may differ from the general condition, with their groups: listed
    /// users, users with grants of their own, and users whose name is in the path.
    fn special_users(&self) -> BTreeMap<String, Vec<String>> {
        let granted = self.grants.by_user.keys().copied();
        let prefix = self.source.user_prefix;
        let unlisted = granted.chain(self.matches.users(self.source.id)).filter(|user| {
            user.strip_prefix(prefix).is_some_and(|name| self.source.may_have_unlisted(name))
        });
        let unlisted = unlisted.map(|user| (user.to_owned(), Vec::new()));
        let listed = self.source.listed.iter();
        let listed = listed.map(|(name, groups)| (format!("{prefix}{name}"), groups.clone()));
        unlisted.chain(listed).collect()
    }

    /// The condition for a user to make the request; `None` if no attribute helps. Without `user`:
    /// the condition for users whom the policy does not mention.
    fn user_condition(
        &self,
        user: Option<&str>,
        groups: &[String],
        conditions: &mut BTreeMap<Effects, Option<Condition>>,
    ) -> Option<Condition> {
        let in_path = user
            .map(|user| (self.source.id, user))
            .filter(|(id, user)| self.matches.has_user(*id, user));
        let effects = self.matches.effects(in_path, self.grants.roles(user, groups));
        if in_path.is_some() {
            return self.condition(in_path, &effects);
        }
        let condition =
            conditions.entry(effects).or_insert_with_key(|effects| self.condition(None, effects));
        condition.clone()
    }

    /// The condition for a caller whose granted roles have these effects.
    fn condition(&self, user: Option<(SourceId, &str)>, granted: &Effects) -> Option<Condition> {
        if granted.denied {
            return None;
        }
        let (mut helping, mut unless) = (Vec::new(), BTreeSet::new());
        for (attribute, roles) in &self.attributes {
            let effects = self.matches.effects(user, roles.iter().copied());
            if effects.denied {
                unless.insert(attribute.clone());
            } else {
                helping.push((attribute, effects.allowed_on));
            }
        }
        let mut needs = BTreeSet::new();
        for path in (0..self.matches.path_count).filter(|path| !granted.allowed_on.contains(path)) {
            let helping = helping.iter().filter(|(_, allowed_on)| allowed_on.contains(&path));
            let attributes: BTreeSet<Attribute> =
                helping.map(|(attribute, _)| (*attribute).clone()).collect();
            if attributes.is_empty() {
                return None;
            }
            needs.insert(attributes);
        }
        Some(Condition::new(&Vec::from_iter(needs), unless))
    }
}
