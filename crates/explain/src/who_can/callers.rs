//! The callers who may make a request: their roles allow it and do not deny it.
//!
//! A Basic user has fixed groups, so each user is looked up. Only the issuer knows the contents of
//! tokens, but the policy says which roles and groups in a token it uses. Each of them helps,
//! denies, or has no effect on the request. So a token may make the request if it has a helping
//! name for each interpretation of the path, and no denying name.
//!
//! What is known of a caller decides conditions. So a Basic user has no claims, and those of a
//! token may have any value.

use std::collections::{BTreeMap, BTreeSet};

use condition::{CallerClaims, CallerInputs, VariableKind};
use identity::UnixTime;
use policy::Policy;
use policy::model::SourceId;
use policy::reference;
use review::{CallerSource, Grants, Source};

use super::matches::{Effects, Matches};
use super::{Attribute, Callers, Condition};
use crate::utc;
use crate::ways::{Given, GivenRole, Ways, reads_roles};

/// The callers who may make the request of `matches`, at this time if it is known.
pub(super) fn callers(
    policy: &Policy,
    matches: &Matches<'_>,
    time: Option<UnixTime>,
) -> Vec<Callers> {
    let grants = Grants::new(policy);
    let mut callers = Vec::new();
    let roles = reference::certain_roles(policy, &reference::Caller::default());
    let nobody = CallerInputs { roles, ..CallerInputs::default() };
    let known = Given { caller: Some(&nobody), ..Given::default() };
    let anonymous = matches.effects(None, grants.anyone.map(|role| (role, None)), &known);
    let condition = condition(&anonymous, &[], matches.path_count);
    let anonymous = condition.map(|condition| Callers::new(CallerSource::Anonymous, condition));
    callers.extend(anonymous.into_iter().flat_map(Callers::by_condition));
    for source in Source::all(&policy.identity) {
        let finder = SourceCallers {
            policy,
            attributes: Vec::new(),
            source: source.at(time),
            matches,
            grants: &grants,
            reads_roles: reads_roles(policy),
        };
        callers.extend(finder.with_attributes().find().into_iter().flat_map(Callers::by_condition));
    }
    callers
}

/// Finds the callers of a source who may make a request.
struct SourceCallers<'a> {
    policy: &'a Policy,
    source: Source<'a>,
    /// The roles and groups in its tokens that the policy uses, each with its effects.
    attributes: Vec<(Attribute, Vec<GivenRole<'a>>)>,
    matches: &'a Matches<'a>,
    grants: &'a Grants<'a>,
    /// Whether a condition reads `roles`.
    reads_roles: bool,
}

impl<'a> SourceCallers<'a> {
    /// With the attributes of its tokens.
    fn with_attributes(self) -> Self {
        let attributes = self.source.attributes(self.policy, self.grants).into_iter();
        let attributes = attributes.map(|(attribute, roles)| (attribute.into(), roles));
        let attributes = attributes.collect();
        Self { attributes, ..self }
    }

    #[expect(clippy::mutable_key_type, reason = "conditions compare by their texts")]
    fn find(&self) -> Vec<Callers> {
        // Most users share their effects, and so their condition, with other users.
        let mut conditions = BTreeMap::new();
        let general = match self.source.is_open {
            true => self.user_condition(None, &[], &mut conditions),
            false => None,
        };
        let mut except_users = Vec::new();
        let mut users_by_condition: BTreeMap<(Condition, Option<UnixTime>), Vec<String>> =
            BTreeMap::new();
        for (user, groups) in self.special_users() {
            let condition = self.user_condition(Some(&user), &groups, &mut conditions);
            if condition == general {
                continue;
            }
            // Groups of this user may deny the request, or make the condition of a role false.
            if let Some(general) = &general
                && condition.as_ref().is_none_or(|condition| !condition.is_met_by_all(general))
            {
                except_users.push(user.clone());
            }
            if let Some(condition) = condition {
                let key = (condition, self.source.expiry(&user));
                users_by_condition.entry(key).or_default().push(user);
            }
        }
        let source = &self.source.kind;
        let general = general
            .map(|condition| Callers { except_users, ..Callers::new(source.clone(), condition) });
        let by_name = users_by_condition.into_iter().map(|((condition, expiry), users)| Callers {
            users: Some(users),
            until: expiry.map(utc),
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
    #[expect(clippy::mutable_key_type, reason = "conditions compare by their texts")]
    fn user_condition(
        &self,
        user: Option<&str>,
        groups: &[String],
        conditions: &mut BTreeMap<Effects, Option<Condition>>,
    ) -> Option<Condition> {
        let in_path = user
            .map(|user| (self.source.id, user))
            .filter(|(id, user)| self.matches.has_user(*id, user));
        let effects = self.granted(in_path, user, groups);
        if in_path.is_some() {
            return self.condition(in_path, &effects);
        }
        let condition =
            conditions.entry(effects).or_insert_with_key(|effects| self.condition(None, effects));
        condition.clone()
    }

    /// The effects of the roles that the policy grants to this user; for `None`, to a user whom it
    /// does not mention.
    fn granted(
        &self,
        in_path: Option<(SourceId, &str)>,
        user: Option<&str>,
        groups: &[String],
    ) -> Effects {
        let roles = self.grants.roles(user, groups);
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        // The groups of a certificate depend on all of its names.
        let has_token = self.source.issuer.is_some() || self.source.certificates.is_some();
        // Without a name: a user whom no grant names.
        let name = Some(user.unwrap_or_default());
        let caller = reference::Caller {
            user: name,
            groups: groups.clone(),
            ..reference::Caller::default()
        };
        let roles_known = match self.reads_roles && !has_token {
            true => reference::certain_roles(self.policy, &caller),
            false => Vec::new(),
        };
        let caller = CallerInputs { roles: roles_known, groups, ..self.known_caller(name) };
        let mut unknown = Vec::new();
        unknown.extend(user.is_none().then_some(VariableKind::User));
        unknown.extend(has_token.then_some(VariableKind::Names));
        let known = Given { caller: Some(&caller), unknown: &unknown, ..Given::default() };
        self.matches.effects(in_path, roles, &known)
    }

    /// What is known of a caller of this source.
    fn known_caller<'n>(&'n self, user: Option<&'n str>) -> CallerInputs<'n> {
        let (issuer, scheme, claims) = match &self.source.kind {
            CallerSource::Token { issuer } => {
                (Some(&**issuer), Some("bearer"), CallerClaims::Unknown)
            }
            CallerSource::ApiKey => (None, Some("api_key"), CallerClaims::None),
            CallerSource::Certificate => (None, Some("certificate"), CallerClaims::None),
            CallerSource::Basic => (None, Some("basic"), CallerClaims::None),
            CallerSource::Anonymous => (None, None, CallerClaims::None),
        };
        CallerInputs { user, issuer, scheme, claims, ..CallerInputs::default() }
    }

    /// The condition for a caller whose granted roles have these effects.
    fn condition(&self, user: Option<(SourceId, &str)>, granted: &Effects) -> Option<Condition> {
        let caller = self.known_caller(user.map(|(_, user)| user));
        let unknown = [VariableKind::Names, VariableKind::User];
        let unknown = if user.is_some() { &unknown[..1] } else { &unknown };
        let known = Given { caller: Some(&caller), unknown, ..Given::default() };
        let attributes: Vec<(&Attribute, Effects)> = self
            .attributes
            .iter()
            .map(|(attribute, roles)| {
                (attribute, self.matches.effects(user, roles.iter().copied(), &known))
            })
            .collect();
        condition(granted, &attributes, self.matches.path_count)
    }
}

/// The condition for a caller whose granted roles have these effects, and who may have attributes
/// with further effects. `None` if the request is always denied.
fn condition(
    granted: &Effects,
    attributes: &[(&Attribute, Effects)],
    path_count: usize,
) -> Option<Condition> {
    if granted.denied.is_always() {
        return None;
    }
    let never = Ways::default();
    let mut unless = BTreeSet::from_iter(under(&Attribute::Anyone, &granted.denied, &never));
    for (attribute, effects) in attributes {
        unless.extend(under(attribute, &effects.denied, &granted.denied));
    }
    let mut needs = BTreeSet::new();
    for path in 0..path_count {
        let without = granted.allowed_on.get(&path).unwrap_or(&never);
        let without = without.unless_denied(&granted.denied);
        if without.is_always() {
            continue;
        }
        let mut helping = BTreeSet::from_iter(under(&Attribute::Anyone, &without, &never));
        for (attribute, effects) in attributes {
            let ways = effects.allowed_on.get(&path).unwrap_or(&never);
            let ways = ways.unless_denied(&effects.denied).unless_denied(&granted.denied);
            helping.extend(under(attribute, &ways, &without));
        }
        if helping.is_empty() {
            return None;
        }
        needs.insert(helping);
    }
    Some(Condition::new(&Vec::from_iter(needs), unless))
}

/// The attribute in each of these ways, but those that `without` includes.
fn under(attribute: &Attribute, ways: &Ways, without: &Ways) -> Vec<Attribute> {
    let conditions = ways.conditions(without).into_iter();
    let attributes = conditions.map(|condition| match condition.is_empty() {
        true => attribute.clone(),
        false => Attribute::When { attribute: Box::new(attribute.clone()), condition },
    });
    attributes.collect()
}

impl Callers {
    /// The callers by their conditions, where they need one thing only: each line then has one
    /// condition.
    fn by_condition(self) -> Vec<Self> {
        let [list] = &*self.condition.needs else { return vec![self] };
        let mut lists: BTreeMap<Option<String>, Vec<Attribute>> = BTreeMap::new();
        for attribute in list {
            let (attribute, condition) = attribute.under_condition();
            lists.entry(condition.map(str::to_owned)).or_default().push(attribute.clone());
        }
        let lines = lists.into_iter().map(|(when, list)| Self {
            when,
            condition: Condition {
                needs: if list.contains(&Attribute::Anyone) { Vec::new() } else { vec![list] },
                unless: self.condition.unless.clone(),
            },
            ..self.clone()
        });
        lines.collect()
    }
}
