//! The callers who may make a request: everyone whose roles allow it and do not deny it.
//!
//! A Basic user has fixed groups, so each is looked up. A token has whatever its issuer puts into
//! it. Which names it may have that the policy uses is known, and each of them helps, denies, or
//! means nothing to the request. So the tokens that may make it are those that have at least one
//! helping name for each interpretation of the path and no denying one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use policy::Policy;
use policy::model::{self, ANYONE, AUTHENTICATED, RoleId, SourceId};

use super::matches::{Effects, Matches};
use super::{Attribute, CallerSource, Callers};

/// The callers who may make the request that `matches` is about.
pub(super) fn callers(policy: &Policy, matches: &Matches<'_>) -> Vec<Callers> {
    let grants = Grants::new(policy);
    let mut callers = Vec::new();
    if matches.effects(None, grants.anyone).allow(matches.paths) {
        callers.push(Callers::all_of(CallerSource::Anonymous, Condition::default()));
    }
    if let Some(basic) = &policy.identity.basic {
        callers.extend(Source::from_basic(basic).callers(matches, &grants));
    }
    for (index, issuer) in policy.identity.jwt.iter().enumerate() {
        let id = SourceId::of_issuer(index);
        callers.extend(Source::from_issuer(id, issuer, policy, &grants).callers(matches, &grants));
    }
    callers
}

/// Who is granted which roles.
struct Grants<'a> {
    anyone: Option<RoleId>,
    authenticated: Option<RoleId>,
    to_user: HashMap<&'a str, Vec<RoleId>>,
    to_group: BTreeMap<&'a str, Vec<RoleId>>,
}

impl<'a> Grants<'a> {
    fn new(policy: &'a Policy) -> Self {
        let (mut to_user, mut to_group) = (HashMap::new(), BTreeMap::new());
        for grant in &policy.grants {
            for user in &grant.users {
                to_user.entry(&**user).or_insert_with(Vec::new).push(grant.role);
            }
            for group in &grant.groups {
                to_group.entry(&**group).or_insert_with(Vec::new).push(grant.role);
            }
        }
        Self {
            anyone: policy.role(ANYONE),
            authenticated: policy.role(AUTHENTICATED),
            to_user,
            to_group,
        }
    }

    /// The roles that an authenticated caller has without those in its token.
    fn roles(&self, user: Option<&str>, groups: &[String]) -> impl Iterator<Item = RoleId> {
        let of_user = user.and_then(|user| self.to_user.get(user)).into_iter().flatten();
        let of_groups =
            groups.iter().filter_map(|group| self.to_group.get(group.as_str())).flatten();
        self.anyone.into_iter().chain(self.authenticated).chain(of_user.chain(of_groups).copied())
    }
}

/// A source of authenticated callers.
struct Source<'a> {
    id: SourceId,
    source: CallerSource,
    /// Users with known groups, by their whole names.
    users: Vec<(String, Vec<String>)>,
    /// What other user names begin with; `None` if there are no others.
    others: Option<&'a str>,
    /// What tokens may have that the policy uses, with the roles that it stands for.
    attributes: Vec<(Attribute, Vec<RoleId>)>,
}

impl<'a> Source<'a> {
    fn from_basic(basic: &'a model::Basic) -> Self {
        let group = |group: &Arc<str>| format!("{}{group}", basic.group_prefix);
        let user = |user: &model::BasicUser| {
            (format!("{}{}", basic.user_prefix, user.name), user.groups.iter().map(group).collect())
        };
        Self {
            id: SourceId::BASIC,
            source: CallerSource::Basic,
            users: basic.users.iter().map(user).collect(),
            others: (!basic.verify).then_some(&*basic.user_prefix),
            attributes: Vec::new(),
        }
    }

    fn from_issuer(
        id: SourceId,
        issuer: &'a model::Issuer,
        policy: &Policy,
        grants: &Grants<'_>,
    ) -> Self {
        let mut attributes = Vec::new();
        let roles = policy.roles.entries().filter(|(_, role)| issuer.may_give(&role.name));
        attributes
            .extend(roles.map(|(id, role)| (Attribute::Role(role.name.to_string()), vec![id])));
        if issuer.claims.groups.is_some() {
            let possible = grants
                .to_group
                .iter()
                .filter(|(group, _)| is_prefixed(group, &issuer.group_prefix));
            let attribute = |(group, roles): (&&str, &Vec<RoleId>)| {
                (Attribute::Group((*group).into()), roles.clone())
            };
            attributes.extend(possible.map(attribute));
        }
        let source = CallerSource::Token { issuer: issuer.issuer.to_string() };
        Self { id, source, users: Vec::new(), others: Some(&issuer.user_prefix), attributes }
    }

    /// Those of this source who may make the request.
    fn callers(&self, matches: &Matches<'_>, grants: &Grants<'_>) -> Vec<Callers> {
        // Users for whom the same rules match differ by what their own roles mean, and only few
        // meanings are different.
        let mut conditions: BTreeMap<Effects, Option<Condition>> = BTreeMap::new();
        let mut condition = |user: Option<&str>, groups: &[String]| {
            let special =
                user.filter(|user| matches.has_user(self.id, user)).map(|user| (self.id, user));
            let has = matches.effects(special, grants.roles(user, groups));
            if special.is_some() {
                return self.condition(matches, special, &has);
            }
            let known =
                conditions.entry(has).or_insert_with_key(|has| self.condition(matches, None, has));
            known.clone()
        };
        let general = self.others.map(|_| condition(None, &[]));
        let of_everyone = self.others.map(|_| matches.effects(None, grants.roles(None, &[])));
        let general_condition = general.as_ref().and_then(Option::as_ref);
        let mut exceptions = Vec::new();
        let mut of_users: BTreeMap<Condition, Vec<String>> = BTreeMap::new();
        for (user, groups) in self.special_users(matches, grants) {
            let is_like_everyone = !matches.has_user(self.id, &user)
                && of_everyone == Some(matches.effects(None, grants.roles(Some(&user), &groups)));
            if is_like_everyone {
                continue;
            }
            let condition = condition(Some(&user), &groups);
            if condition.as_ref() == general_condition {
                continue;
            }
            // Whoever the policy names has what everyone has. So what is true of any user is true
            // of this one, unless more denies it.
            let applies = |general: &Condition| {
                condition.as_ref().is_some_and(|condition| condition.unless == general.unless)
            };
            if general_condition.is_some_and(|general| !applies(general)) {
                exceptions.push(user.clone());
            }
            if let Some(condition) = condition {
                of_users.entry(condition).or_default().push(user);
            }
        }
        let general = general.flatten().map(|condition| Callers {
            except_users: exceptions,
            ..Callers::all_of(self.source.clone(), condition)
        });
        let of_users = of_users.into_iter().map(|(condition, users)| Callers {
            users: Some(users),
            ..Callers::all_of(self.source.clone(), condition)
        });
        general.into_iter().chain(of_users).collect()
    }

    /// The users whose condition may differ from that of others: those with known groups, with
    /// grants of their own, and those whose name is in the path; with their groups.
    fn special_users(
        &self,
        matches: &Matches<'_>,
        grants: &Grants<'_>,
    ) -> BTreeMap<String, Vec<String>> {
        let named = grants.to_user.keys().copied().chain(matches.users(self.id));
        let possible = named.filter(|user| self.can_name(user));
        let possible = possible.map(|user| (user.to_owned(), Vec::new()));
        possible.chain(self.users.iter().cloned()).collect()
    }

    /// Whether users who are not known beforehand can have this name. A Basic user name has no
    /// colon (RFC 7617, 2).
    fn can_name(&self, user: &str) -> bool {
        let Some(prefix) = self.others else { return false };
        let colon = self.source == CallerSource::Basic
            && user.get(prefix.len()..).is_some_and(|own| own.contains(':'));
        is_prefixed(user, prefix) && !colon
    }

    /// What a caller whose roles mean this needs to make the request; `None` if nothing helps.
    fn condition(
        &self,
        matches: &Matches<'_>,
        user: Option<(SourceId, &str)>,
        has: &Effects,
    ) -> Option<Condition> {
        if has.denied {
            return None;
        }
        let effects = |roles: &Vec<RoleId>| matches.effects(user, roles.iter().copied());
        let attributes =
            self.attributes.iter().map(|(attribute, roles)| (attribute, effects(roles)));
        let (denying, others): (Vec<_>, Vec<_>) =
            attributes.partition(|(_, effects)| effects.denied);
        let mut needs = BTreeSet::new();
        for path in (0..matches.paths).filter(|path| !has.allowed_on.contains(path)) {
            let helping = others.iter().filter(|(_, effects)| effects.allowed_on.contains(&path));
            let helping: BTreeSet<Attribute> =
                helping.map(|(attribute, _)| (*attribute).clone()).collect();
            if helping.is_empty() {
                return None;
            }
            needs.insert(helping);
        }
        let unless = denying.into_iter().map(|(attribute, _)| attribute.clone()).collect();
        Some(Condition { needs: smallest(needs), unless })
    }
}

/// What a token must have and must not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Condition {
    needs: Vec<Vec<Attribute>>,
    unless: Vec<Attribute>,
}

impl Callers {
    fn all_of(source: CallerSource, condition: Condition) -> Self {
        let Condition { needs, unless } = condition;
        Self { source, users: None, except_users: Vec::new(), needs, unless }
    }
}

impl Effects {
    fn allow(&self, paths: usize) -> bool {
        !self.denied && self.allowed_on.len() == paths
    }
}

/// Leaves out each list that contains another one whole: who has one of the smaller list has one of
/// both.
fn smallest(needs: BTreeSet<BTreeSet<Attribute>>) -> Vec<Vec<Attribute>> {
    let is_smallest = |one: &&BTreeSet<Attribute>| {
        !needs.iter().any(|other| other != *one && other.is_subset(one))
    };
    needs.iter().filter(is_smallest).map(|one| one.iter().cloned().collect()).collect()
}

/// Whether a name can come from a source with this prefix.
fn is_prefixed(name: &str, prefix: &str) -> bool {
    let own = name.strip_prefix(prefix);
    own.is_some_and(|own| !own.is_empty() && !own.contains(char::is_control))
}
