//! The kinds of callers that two policies distinguish.
//!
//! A caller is anonymous, a user with Basic credentials, an API key or a certificate, or the holder
//! of an issuer's token. Under each policy it has a name and roles. Under a policy that does not
//! accept its credentials, it may do the same as an anonymous caller.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use condition::Attribute as Variable;
use policy::Policy;
use policy::canonical::decoded;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, RoleId, SourceId};
use policy::pattern::{Glob, Pattern, PatternSubject, Segment};
use serde::Serialize;

use crate::TooComplex;
use crate::conditions::Attribute;
use crate::grants::{CallerSource, GrantedRole, Grants, Source};
use crate::interned::{ChangedVariables, Conditions};
use crate::segments::{GlobStates, representatives};

/// The maximum number of pairs of patterns that are compared to find [`DistinguishedNames`].
const MAX_PAIRS: usize = 50_000_000;

/// The maximum number of ways in which a role gives roles under different conditions.
const MAX_WAYS: usize = 4096;

/// The maximum number of conditions of all roles of a policy, counted for each role with them. In a
/// chain of `n` roles with conditions of their own it is `n`³ / 6.
const MAX_HELD_CONDITIONS: usize = 4_000_000;

/// A glob that the names of some users match, or do not match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NameGlob {
    /// The glob, percent-encoded as in a path.
    pub glob: String,
    /// The prefix of the source: the glob is matched against prefix and name.
    pub prefix: String,
    /// Whether the name matches.
    pub matches: bool,
}

/// One of the two policies, indexed.
pub(crate) struct Side<'p> {
    pub(crate) policy: &'p Policy,
    grants: Grants<'p>,
    /// Each role with the roles that it extends, directly or not.
    extended_by_role: IdVec<RoleId, BTreeSet<Holding>>,
}

/// A role that a caller has where all of these conditions are true.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holding {
    pub(crate) role: RoleId,
    /// Numbers of [`Conditions`], sorted.
    pub(crate) when: Vec<usize>,
}

/// A caller under one policy; anonymous if the policy does not accept its credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideCaller {
    pub(crate) name: Option<String>,
    /// The length of the prefix in the name.
    pub(crate) prefix: usize,
    pub(crate) source: Option<SourceId>,
    /// Its roles, without the roles that only some tokens give.
    pub(crate) roles: BTreeSet<Holding>,
    /// The groups that it has, without those that only some tokens give.
    groups: Vec<String>,
}

/// Callers to whom the same rules apply, apart from their names in rules with `{user}`.
#[derive(Clone, Debug)]
pub(crate) struct CallerKind {
    pub(crate) users: Users,
    /// A representative under the old and under the new policy.
    pub(crate) sides: [SideCaller; 2],
}

/// Some users of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Users by their whole names.
    Listed(Vec<String>),
    /// The users whom neither policy mentions, and whose names match these globs, or do not.
    Unlisted(Vec<NameGlob>),
}

/// The callers of a source.
pub(crate) struct SourceCallers {
    pub(crate) source: CallerSource,
    pub(crate) kinds: Vec<CallerKind>,
    /// The roles and groups that its tokens can have, each with the roles that it gives under each
    /// policy.
    pub(crate) attributes: Vec<(Attribute, RolesOnSides)>,
    /// Whether each policy finds other names in its tokens.
    token_names_differ: bool,
}

impl<'p> Side<'p> {
    pub(crate) fn new(policy: &'p Policy, conditions: &mut Conditions) -> Result<Self, TooComplex> {
        for condition in policy.all_conditions() {
            conditions.add(condition);
        }
        let mut held_conditions = 0;
        let closures = policy
            .roles
            .ids()
            .map(|role| closure_of_role(policy, role, conditions, &mut held_conditions));
        let extended_by_role = closures.collect::<Result<_, _>>()?;
        Ok(Self { policy, grants: Grants::new(policy), extended_by_role })
    }

    /// These roles, each under a condition, and the roles that they extend.
    fn with_extended(
        &self,
        roles: impl IntoIterator<Item = GrantedRole<'p>>,
        conditions: &mut Conditions,
    ) -> BTreeSet<Holding> {
        let mut holdings = BTreeSet::new();
        for (role, condition) in roles {
            let condition = condition.map(|condition| conditions.add(condition));
            holdings.extend(
                self.extended_by_role.at(role).iter().map(|holding| holding.also_when(condition)),
            );
        }
        holdings
    }

    fn anonymous(&self, conditions: &mut Conditions) -> SideCaller {
        let roles = self.grants.anyone.map(|role| (role, None));
        SideCaller { roles: self.with_extended(roles, conditions), ..SideCaller::default() }
    }

    /// The user with this name (given without prefix); anonymous if the source does not have the
    /// user.
    fn caller(
        &self,
        source: Option<&Source<'_>>,
        name: &str,
        conditions: &mut Conditions,
    ) -> SideCaller {
        let Some(source) = source else { return self.anonymous(conditions) };
        let listed = source.listed.get(name);
        if listed.is_none() && !source.is_open {
            return self.anonymous(conditions);
        }
        let (prefix, groups) = (source.user_prefix, listed.map_or(&[][..], Vec::as_slice));
        let name = format!("{prefix}{name}");
        let roles = self.with_extended(self.grants.roles(Some(&name), groups), conditions);
        let mut groups = groups.to_vec();
        groups.sort();
        SideCaller {
            name: Some(name),
            prefix: prefix.len(),
            source: Some(source.id),
            roles,
            groups,
        }
    }
}

impl Holding {
    fn also_when(&self, condition: Option<usize>) -> Self {
        let mut when = self.when.clone();
        if let Some(condition) = condition
            && let Err(place) = when.binary_search(&condition)
        {
            when.insert(place, condition);
        }
        Self { role: self.role, when }
    }
}

/// The role and the roles that it extends, directly or not. Adds their conditions to the count.
fn closure_of_role(
    policy: &Policy,
    role: RoleId,
    conditions: &mut Conditions,
    held_conditions: &mut usize,
) -> Result<BTreeSet<Holding>, TooComplex> {
    let mut holdings = BTreeSet::new();
    let mut to_visit = vec![Holding { role, when: Vec::new() }];
    while let Some(holding) = to_visit.pop() {
        let role = policy.roles.at(holding.role);
        let holding = holding.also_when(role.when.as_ref().map(|when| conditions.add(when)));
        if holdings.contains(&holding) {
            continue;
        }
        let extended = role.extends.iter();
        to_visit.extend(extended.map(|role| Holding { role: *role, ..holding.clone() }));
        *held_conditions += holding.when.len();
        holdings.insert(holding);
        if holdings.len() > policy.roles.len() + MAX_WAYS || *held_conditions > MAX_HELD_CONDITIONS
        {
            return Err(TooComplex);
        }
    }
    Ok(holdings)
}

impl SideCaller {
    pub(crate) fn subject(&self) -> Option<PatternSubject<'_>> {
        self.name.as_ref().map(|name| PatternSubject {
            user: name.as_bytes(),
            prefix_len: self.prefix,
            source: self.source,
        })
    }
}

/// All callers, by their sources.
pub(crate) fn sources(
    sides: &[Side<'_>; 2],
    conditions: &mut Conditions,
) -> Result<Vec<SourceCallers>, TooComplex> {
    let names = DistinguishedNames::new(sides)?;
    let anonymous = CallerKind {
        users: Users::Listed(Vec::new()),
        sides: sides.each_ref().map(|side| side.anonymous(conditions)),
    };
    let mut callers = vec![SourceCallers {
        source: CallerSource::Anonymous,
        kinds: vec![anonymous],
        attributes: Vec::new(),
        token_names_differ: false,
    }];
    let mut sources: BTreeMap<CallerSource, SourceOnSides<'_>> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        for source in Source::all(&side.policy.identity) {
            let on_sides = sources.entry(source.kind.clone()).or_default();
            if let Some(on_side) = on_sides.get_mut(index) {
                *on_side = Some(source);
            }
        }
    }
    for (kind, on_sides) in sources {
        callers.push(source_callers(kind, sides, &on_sides, &names, conditions)?);
    }
    Ok(callers)
}

/// A source under the old and the new policy; `None` if a policy does not accept its credentials.
type SourceOnSides<'p> = [Option<Source<'p>>; 2];

/// The properties that callers of a kind share.
type KindKey = (bool, [(bool, BTreeSet<Holding>); 2]);

fn source_callers(
    source: CallerSource,
    sides: &[Side<'_>; 2],
    on_sides: &SourceOnSides<'_>,
    distinguished: &DistinguishedNames<'_>,
    conditions: &mut Conditions,
) -> Result<SourceCallers, TooComplex> {
    let accepting: Vec<_> = sides
        .iter()
        .zip(on_sides)
        .filter_map(|(side, source)| Some((side, source.as_ref()?)))
        .collect();
    let mut prefixes: BTreeSet<&str> = BTreeSet::from([""]);
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (_, source) in &accepting {
        prefixes.insert(source.user_prefix);
        names.extend(source.listed.keys().map(|name| (*name).to_owned()));
    }
    let is_open = accepting.iter().any(|(_, source)| source.is_open);
    if is_open {
        let granted = accepting.iter().flat_map(|(side, source)| {
            let users = side.grants.by_user.keys();
            users.filter_map(|user| user.strip_prefix(source.user_prefix))
        });
        let in_paths = prefixes.iter().flat_map(|prefix| {
            distinguished.words.iter().filter_map(|word| word.strip_prefix(*prefix))
        });
        let possible = granted
            .chain(in_paths)
            .filter(|name| accepting.iter().any(|(_, source)| source.may_have_unlisted(name)));
        names.extend(possible.map(str::to_owned));
    }
    let mut kinds: Vec<CallerKind> = Vec::new();
    let mut kinds_by_roles: HashMap<KindKey, usize> = HashMap::new();
    for name in &names {
        let having = on_sides.each_ref().map(|source| {
            let source = source.as_ref()?;
            let has_user = source.listed.contains_key(&**name) || source.may_have_unlisted(name);
            has_user.then_some(source)
        });
        let callers = callers_on_sides(sides, having, name, conditions);
        let whole_name = callers.iter().rev().find_map(|caller| caller.name.clone());
        let Some(whole_name) = whole_name else { continue };
        let [old, new] = &callers;
        let key = callers.clone().map(|caller| (caller.name.is_some(), caller.roles));
        let key = (old.groups == new.groups, key);
        let is_distinguished = distinguished.contains(name, &prefixes);
        if !is_distinguished
            && let Some(kind) = kinds_by_roles.get(&key).and_then(|index| kinds.get_mut(*index))
            && let Users::Listed(users) = &mut kind.users
        {
            users.push(whole_name);
            continue;
        }
        if !is_distinguished {
            kinds_by_roles.insert(key, kinds.len());
        }
        kinds.push(CallerKind { users: Users::Listed(vec![whole_name]), sides: callers });
    }
    if is_open {
        for (name, globs) in distinguished.unlisted(&names, &prefixes)? {
            let on_sides = on_sides.each_ref().map(Option::as_ref);
            let sides = callers_on_sides(sides, on_sides, &name, conditions);
            kinds.push(CallerKind { users: Users::Unlisted(globs), sides });
        }
    }
    let [old_names, new_names] = on_sides.each_ref().map(|source| {
        let issuer = source.as_ref()?.issuer?;
        Some((&issuer.group_prefix, &issuer.claims))
    });
    let token_names_differ = old_names != new_names;
    let attributes = attributes(sides, on_sides, conditions);
    Ok(SourceCallers { source, kinds, attributes, token_names_differ })
}

impl CallerKind {
    /// The variables of these callers that may have other values under the new policy, of those
    /// that conditions read.
    pub(crate) fn changed_variables(
        &self,
        sides: &[Side<'_>; 2],
        source: &SourceCallers,
        conditions: &Conditions,
    ) -> ChangedVariables {
        let [old, new] = &self.sides;
        let mut changed = Vec::new();
        if (&old.name, old.prefix) != (&new.name, new.prefix) {
            changed.extend([Variable::User, Variable::Issuer, Variable::Scheme, Variable::Claims]);
        }
        if !changed.is_empty() || old.groups != new.groups {
            changed.push(Variable::Groups);
        }
        if source.token_names_differ {
            changed.extend([Variable::User, Variable::Groups, Variable::Roles]);
        }
        let [old_policy, new_policy] = sides.each_ref().map(|side| side.policy);
        let of_tokens = source.attributes.iter().map(|(_, [old, new])| (old, new));
        let mut roles = [(&old.roles, &new.roles)].into_iter().chain(of_tokens);
        // Few conditions read the roles, and there are many names to compare.
        if conditions.read(&Variable::Roles)
            && roles
                .any(|(old, new)| certain_names(old, old_policy) != certain_names(new, new_policy))
        {
            changed.push(Variable::Roles);
        }
        changed.retain(|variable| conditions.read(variable));
        ChangedVariables(changed)
    }
}

/// The names of the roles that do not depend on conditions.
fn certain_names<'p>(held: &BTreeSet<Holding>, policy: &'p Policy) -> BTreeSet<&'p str> {
    let certain = held.iter().filter(|holding| holding.when.is_empty());
    let names = certain.map(|holding| &*policy.roles.at(holding.role).name);
    names.filter(|name| ![ANYONE, AUTHENTICATED].contains(name)).collect()
}

/// The user with this name (given without prefix), under each policy.
fn callers_on_sides(
    sides: &[Side<'_>; 2],
    [old_source, new_source]: [Option<&Source<'_>>; 2],
    name: &str,
    conditions: &mut Conditions,
) -> [SideCaller; 2] {
    let [old, new] = sides;
    [(old, old_source), (new, new_source)]
        .map(|(side, source)| side.caller(source, name, conditions))
}

/// The roles under each policy.
type RolesOnSides = [BTreeSet<Holding>; 2];

/// The roles and groups that tokens of a source can have and that at least one policy uses. Groups
/// are compared without their prefix.
fn attributes(
    sides: &[Side<'_>; 2],
    on_sides: &SourceOnSides<'_>,
    conditions: &mut Conditions,
) -> Vec<(Attribute, RolesOnSides)> {
    let mut attributes = BTreeMap::<(bool, String), (Attribute, RolesOnSides)>::new();
    for (index, (side, source)) in sides.iter().zip(on_sides).enumerate() {
        let Some(source) = source else { continue };
        for (attribute, roles) in source.attributes(side.policy, &side.grants) {
            let key = match &attribute {
                Attribute::Role(name) => (false, name.clone()),
                Attribute::Group(name) => {
                    let prefix = source.group_prefix().unwrap_or_default();
                    (true, name.strip_prefix(prefix).unwrap_or(name).to_owned())
                }
            };
            let entry = attributes
                .entry(key)
                .or_insert_with(|| (attribute.clone(), RolesOnSides::default()));
            entry.0 = attribute;
            if let Some(roles_on_side) = entry.1.get_mut(index) {
                roles_on_side.extend(side.with_extended(roles, conditions));
            }
        }
    }
    attributes.into_values().collect()
}

/// Names that other patterns have where a pattern has `{user}` or `{user.id}`: their users may get
/// other answers.
struct DistinguishedNames<'p> {
    words: BTreeSet<String>,
    globs: BTreeSet<&'p Glob>,
}

impl<'p> DistinguishedNames<'p> {
    fn new(sides: &[Side<'p>; 2]) -> Result<Self, TooComplex> {
        let mut names = Self { words: BTreeSet::new(), globs: BTreeSet::new() };
        let patterns: Vec<&Pattern> = sides
            .iter()
            .flat_map(|side| side.policy.rules().flat_map(|(_, _, rule, _)| &rule.resources))
            .collect();
        let with_user: Vec<&Pattern> = patterns
            .iter()
            .filter(|pattern| pattern.segments.iter().any(is_user))
            .copied()
            .collect();
        if with_user.len().saturating_mul(patterns.len()) > MAX_PAIRS {
            return Err(TooComplex);
        }
        for pattern in &patterns {
            for with_user in &with_user {
                for segments in with_user.segments.iter().zip(&pattern.segments) {
                    match segments {
                        (Segment::Literal(a), Segment::Literal(b)) if a != b => break,
                        (Segment::User | Segment::UserId(_), Segment::Literal(word)) => {
                            names.words.extend(String::from_utf8(decoded(word.as_bytes())));
                        }
                        (Segment::User | Segment::UserId(_), Segment::Glob(glob)) => {
                            names.globs.insert(glob);
                        }
                        _ => {}
                    }
                }
            }
        }
        // The glob `*` matches every name, so it distinguishes none.
        names.globs.retain(|glob| glob.0.iter().any(|piece| !piece.is_empty()));
        Ok(names)
    }

    /// Whether a pattern without `{user}` matches this name, with one of the prefixes.
    fn contains(&self, name: &str, prefixes: &BTreeSet<&str>) -> bool {
        prefixes.iter().any(|prefix| {
            let name = format!("{prefix}{name}");
            let mut encoded = encodings(name.as_bytes()).into_iter();
            self.words.contains(&name)
                || encoded.any(|text| self.globs.iter().any(|glob| glob.matches(text.as_bytes())))
        })
    }

    /// For each kind of names that the globs distinguish, a name that is not in `names`.
    fn unlisted(
        &self,
        names: &BTreeSet<String>,
        prefixes: &BTreeSet<&str>,
    ) -> Result<Vec<(String, Vec<NameGlob>)>, TooComplex> {
        let globs: Vec<(&Glob, &str)> = self
            .globs
            .iter()
            .flat_map(|glob| prefixes.iter().map(move |prefix| (*glob, *prefix)))
            .collect();
        let states: Result<Vec<GlobStates<'_>>, _> =
            globs.iter().map(|(glob, prefix)| GlobStates::new(glob, &encode(prefix))).collect();
        let listed: Vec<String> =
            names.iter().flat_map(|name| encodings(name.as_bytes())).collect();
        let texts = representatives(&states?, &listed.iter().map(String::as_str).collect())?;
        let names =
            texts.iter().filter_map(|text| String::from_utf8(decoded(text.as_bytes())).ok());
        let unlisted = names.map(|name| {
            let globs = globs.iter().map(|(glob, prefix)| NameGlob {
                glob: glob.0.join("*"),
                prefix: (*prefix).to_owned(),
                matches: glob.matches(encode(&format!("{prefix}{name}")).as_bytes()),
            });
            let globs = globs.collect();
            (name, globs)
        });
        Ok(unlisted.collect())
    }
}

/// Whether a segment depends on the caller's name.
pub(crate) const fn is_user(segment: &Segment) -> bool {
    matches!(segment, Segment::User | Segment::UserId(_))
}

/// The canonical forms of a name in a path: only unreserved characters are the same with and
/// without encoding (RFC 3986, 2.2).
pub(crate) fn encodings(name: &[u8]) -> [String; 2] {
    [encode_except(name, b"-._~"), encode_except(name, b"-._~!$&'()*+,=:@")]
}

fn encode(name: &str) -> String {
    encode_except(name.as_bytes(), b"-._~")
}

fn encode_except(name: &[u8], plain: &[u8]) -> String {
    let mut encoded = String::new();
    for byte in name {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}
