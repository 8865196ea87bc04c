//! The kinds of callers that two policies distinguish.
//!
//! A caller is who holds credentials: nobody, a user of Basic, or a token of an issuer. Under each
//! policy it has a name and roles. Under a policy that does not accept its credentials it can do
//! what callers without credentials can.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use policy::Policy;
use policy::canonical::decoded;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Basic, Issuer, RoleId, SourceId};
use policy::pattern::{Glob, Pattern, PatternSubject, Segment};
use serde::Serialize;

use crate::TooComplex;
use crate::conditions::Attribute;
use crate::segments::{Reading, witnesses};

/// The maximum number of pairs of patterns that are compared in search of names that matter.
const MAX_PAIRS: usize = 50_000_000;

/// How a caller authenticates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum CallerSource {
    /// Not at all.
    Anonymous,
    /// With HTTP Basic.
    Basic,
    /// With a token.
    Token {
        /// Its issuer.
        issuer: String,
    },
}

/// What the name of a user who is not named begins with, ends in or contains, or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NameLike {
    /// The glob, as a path has it.
    pub glob: String,
    /// The prefix of the name that the glob sees; the name without it is what the caller
    /// authenticates with.
    pub prefix: String,
    /// Whether the name matches.
    pub matches: bool,
}

/// One of the two policies, with what is looked up often.
pub(crate) struct Side<'p> {
    pub(crate) policy: &'p Policy,
    to_user: HashMap<&'p str, Vec<RoleId>>,
    to_group: BTreeMap<&'p str, Vec<RoleId>>,
    /// The roles that each role has: itself, and those that it extends.
    held: IdVec<RoleId, Vec<RoleId>>,
}

/// A caller under one of the policies; anonymous if that does not accept its credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnSide {
    pub(crate) name: Option<String>,
    pub(crate) prefix: usize,
    pub(crate) source: Option<SourceId>,
    /// All roles that it has whatever its token says.
    pub(crate) roles: BTreeSet<RoleId>,
}

/// Callers between whom no rule distinguishes, but by their names where it says `{user}`.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) users: Users,
    /// One of them, under the old and under the new policy.
    pub(crate) sides: [OnSide; 2],
}

/// Which users of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// These, by their whole names.
    Named(Vec<String>),
    /// All others, with names like this.
    Others(Vec<NameLike>),
}

/// The callers of one source.
pub(crate) struct Source {
    pub(crate) source: CallerSource,
    pub(crate) kinds: Vec<Kind>,
    /// What its tokens can have, with the roles that it stands for under each policy.
    pub(crate) attributes: Vec<(Attribute, [BTreeSet<RoleId>; 2])>,
}

impl<'p> Side<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let (mut to_user, mut to_group) = (HashMap::new(), BTreeMap::new());
        for grant in &policy.grants {
            for user in &grant.users {
                to_user.entry(&**user).or_insert_with(Vec::new).push(grant.role);
            }
            for group in &grant.groups {
                to_group.entry(&**group).or_insert_with(Vec::new).push(grant.role);
            }
        }
        let held = policy.roles.ids().map(|role| with_extended(policy, role)).collect();
        Self { policy, to_user, to_group, held }
    }

    fn all(&self, roles: impl IntoIterator<Item = RoleId>) -> BTreeSet<RoleId> {
        roles.into_iter().flat_map(|role| self.held.at(role)).copied().collect()
    }

    fn anonymous(&self) -> OnSide {
        OnSide { roles: self.all(self.policy.role(ANYONE)), ..OnSide::default() }
    }

    fn user(&self, source: SourceId, prefix: &str, raw: &str, groups: &[String]) -> OnSide {
        let name = format!("{prefix}{raw}");
        let reserved =
            [ANYONE, AUTHENTICATED].into_iter().filter_map(|role| self.policy.role(role));
        let of_user = self.to_user.get(name.as_str()).into_iter().flatten();
        let of_groups =
            groups.iter().filter_map(|group| self.to_group.get(group.as_str())).flatten();
        let roles = self.all(reserved.chain(of_user.chain(of_groups).copied()));
        OnSide { name: Some(name), prefix: prefix.len(), source: Some(source), roles }
    }
}

fn with_extended(policy: &Policy, role: RoleId) -> Vec<RoleId> {
    let (mut held, mut open) = (BTreeSet::from([role]), vec![role]);
    while let Some(next) = open.pop() {
        let extended = policy.roles.at(next).extends.iter().copied();
        open.extend(extended.filter(|extended| held.insert(*extended)));
    }
    held.into_iter().collect()
}

impl OnSide {
    pub(crate) fn subject(&self) -> Option<PatternSubject<'_>> {
        self.name.as_ref().map(|name| PatternSubject {
            user: name.as_bytes(),
            prefix: self.prefix,
            source: self.source,
        })
    }
}

/// All callers, by their sources.
pub(crate) fn sources(sides: &[Side<'_>; 2]) -> Result<Vec<Source>, TooComplex> {
    let [old, new] = sides;
    let names = OwnNames::new(sides)?;
    let mut sources = vec![Source {
        source: CallerSource::Anonymous,
        kinds: vec![Kind {
            users: Users::Named(Vec::new()),
            sides: [old.anonymous(), new.anonymous()],
        }],
        attributes: Vec::new(),
    }];
    let basic =
        sides.each_ref().map(|side| side.policy.identity.basic.as_ref().map(Accepted::basic));
    if basic.iter().any(Option::is_some) {
        sources.push(source(CallerSource::Basic, sides, &basic, &names)?);
    }
    let issuers: BTreeSet<&str> = sides
        .iter()
        .flat_map(|side| &side.policy.identity.jwt)
        .map(|issuer| &*issuer.issuer)
        .collect();
    for name in issuers {
        let accepted = sides.each_ref().map(|side| {
            let mut issuers = side.policy.identity.jwt.iter().enumerate();
            let (index, issuer) = issuers.find(|(_, issuer)| *issuer.issuer == *name)?;
            Some(Accepted::issuer(SourceId::of_issuer(index), issuer))
        });
        let token = CallerSource::Token { issuer: name.to_owned() };
        sources.push(source(token, sides, &accepted, &names)?);
    }
    Ok(sources)
}

/// What one of the policies accepts from a source.
struct Accepted<'p> {
    id: SourceId,
    user_prefix: &'p str,
    group_prefix: &'p str,
    /// Users with their groups, without prefix.
    users: BTreeMap<&'p str, Vec<String>>,
    /// Whether any other user may come.
    is_open: bool,
    /// The issuer whose tokens may give roles.
    issuer: Option<&'p Issuer>,
    takes_groups: bool,
}

impl<'p> Accepted<'p> {
    fn basic(basic: &'p Basic) -> Self {
        let group = |group: &std::sync::Arc<str>| format!("{}{group}", basic.group_prefix);
        Self {
            id: SourceId::BASIC,
            user_prefix: &basic.user_prefix,
            group_prefix: &basic.group_prefix,
            users: basic
                .users
                .iter()
                .map(|user| (&*user.name, user.groups.iter().map(group).collect()))
                .collect(),
            is_open: !basic.verify,
            issuer: None,
            takes_groups: false,
        }
    }

    fn issuer(id: SourceId, issuer: &'p Issuer) -> Self {
        Self {
            id,
            user_prefix: &issuer.user_prefix,
            group_prefix: &issuer.group_prefix,
            users: BTreeMap::new(),
            is_open: true,
            issuer: Some(issuer),
            takes_groups: issuer.claims.groups.is_some(),
        }
    }

    /// A user of this name, if the source has it.
    fn user(&self, side: &Side<'_>, raw: &str) -> Option<OnSide> {
        match self.users.get(raw) {
            Some(groups) => Some(side.user(self.id, self.user_prefix, raw, groups)),
            None => self.is_open.then(|| side.user(self.id, self.user_prefix, raw, &[])),
        }
    }
}

fn source(
    source: CallerSource,
    sides: &[Side<'_>; 2],
    accepted: &[Option<Accepted<'_>>; 2],
    names: &OwnNames<'_>,
) -> Result<Source, TooComplex> {
    let pairs = || {
        sides.iter().zip(accepted).filter_map(|(side, accepted)| Some((side, accepted.as_ref()?)))
    };
    let prefixes: BTreeSet<&str> =
        pairs().map(|(_, accepted)| accepted.user_prefix).chain([""]).collect();
    let is_open = pairs().any(|(_, accepted)| accepted.is_open);
    let mut raw: BTreeSet<String> = pairs()
        .flat_map(|(_, accepted)| accepted.users.keys().map(|user| (*user).to_owned()))
        .collect();
    if is_open {
        let granted = pairs().flat_map(|(side, accepted)| {
            side.to_user.keys().filter_map(|user| user.strip_prefix(accepted.user_prefix))
        });
        let of_paths = prefixes.iter().flat_map(|prefix| {
            names.words.iter().filter_map(move |word| word.strip_prefix(*prefix))
        });
        // A Basic user name has no colon (RFC 7617, 2).
        let has_colon = |name: &str| source == CallerSource::Basic && name.contains(':');
        let possible = granted.chain(of_paths).filter(|name| {
            !name.is_empty() && !has_colon(name) && !name.contains(char::is_control)
        });
        raw.extend(possible.map(str::to_owned));
    }
    let on_sides = |raw: &str| {
        let [old, new] = sides;
        let [accepted_old, accepted_new] = accepted;
        let on = |side: &Side<'_>, accepted: &Option<Accepted<'_>>| {
            accepted
                .as_ref()
                .and_then(|accepted| accepted.user(side, raw))
                .unwrap_or_else(|| side.anonymous())
        };
        [on(old, accepted_old), on(new, accepted_new)]
    };
    let mut kinds: Vec<Kind> = Vec::new();
    let mut alike: HashMap<[(bool, BTreeSet<RoleId>); 2], usize> = HashMap::new();
    for name in &raw {
        let sides = on_sides(name);
        let Some(shown) = sides.iter().rev().find_map(|side| side.name.clone()) else { continue };
        let key = sides.clone().map(|side| (side.name.is_some(), side.roles));
        if names.matters(name, &prefixes) {
            kinds.push(Kind { users: Users::Named(vec![shown]), sides });
        } else if let Some(kind) = alike.get(&key).and_then(|index| kinds.get_mut(*index))
            && let Users::Named(users) = &mut kind.users
        {
            users.push(shown);
        } else {
            alike.insert(key, kinds.len());
            kinds.push(Kind { users: Users::Named(vec![shown]), sides });
        }
    }
    if is_open {
        for (other, like) in names.others(&raw, &prefixes)? {
            kinds.push(Kind { users: Users::Others(like), sides: on_sides(&other) });
        }
    }
    Ok(Source { source, kinds, attributes: attributes(sides, accepted) })
}

/// What tokens of a source can have that one of the policies uses.
fn attributes(
    sides: &[Side<'_>; 2],
    accepted: &[Option<Accepted<'_>>; 2],
) -> Vec<(Attribute, [BTreeSet<RoleId>; 2])> {
    let mut all: BTreeMap<(bool, String), [BTreeSet<RoleId>; 2]> = BTreeMap::new();
    let mut shown: BTreeMap<(bool, String), Attribute> = BTreeMap::new();
    for (index, (side, accepted)) in sides.iter().zip(accepted).enumerate() {
        let Some(accepted) = accepted else { continue };
        let gives = |name: &str| accepted.issuer.is_some_and(|issuer| issuer.may_give(name));
        let roles = side.policy.roles.entries().filter(|(_, role)| gives(&role.name));
        let roles = roles.map(|(id, role)| {
            let name = role.name.to_string();
            ((false, name.clone()), Attribute::Role(name), vec![id])
        });
        let groups = side.to_group.iter().filter(|_| accepted.takes_groups);
        let groups = groups.filter_map(|(group, roles)| {
            let raw = group.strip_prefix(accepted.group_prefix).filter(|raw| !raw.is_empty())?;
            Some(((true, raw.to_owned()), Attribute::Group((*group).to_owned()), roles.clone()))
        });
        for (key, attribute, roles) in roles.chain(groups) {
            shown.insert(key.clone(), attribute);
            if let Some(of_side) = all.entry(key).or_default().get_mut(index) {
                of_side.extend(side.all(roles));
            }
        }
    }
    all.into_iter().filter_map(|(key, roles)| Some((shown.remove(&key)?, roles))).collect()
}

/// What rules with `{user}` or `{user.id}` distinguish names by: other patterns that match at the
/// same place of a path.
struct OwnNames<'p> {
    words: BTreeSet<String>,
    globs: BTreeSet<&'p Glob>,
}

impl<'p> OwnNames<'p> {
    fn new(sides: &[Side<'p>; 2]) -> Result<Self, TooComplex> {
        let mut names = OwnNames { words: BTreeSet::new(), globs: BTreeSet::new() };
        let all: Vec<&Pattern> = sides
            .iter()
            .flat_map(|side| side.policy.rules().flat_map(|(_, _, rule, _)| &rule.resources))
            .collect();
        let is_own = |segment: &Segment| matches!(segment, Segment::User | Segment::UserId(_));
        let own: Vec<&Pattern> =
            all.iter().copied().filter(|pattern| pattern.segments.iter().any(is_own)).collect();
        if own.len().saturating_mul(all.len()) > MAX_PAIRS {
            return Err(TooComplex);
        }
        for pattern in &all {
            for with_own in &own {
                for (own, other) in with_own.segments.iter().zip(&pattern.segments) {
                    match (own, other) {
                        (Segment::Literal(one), Segment::Literal(two)) if one != two => break,
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
        names.globs.retain(|glob| glob.0.iter().any(|piece| !piece.is_empty()));
        Ok(names)
    }

    /// Whether a pattern besides those with `{user}` tells this user, by its name without prefix,
    /// from others.
    fn matters(&self, raw: &str, prefixes: &BTreeSet<&str>) -> bool {
        prefixes.iter().any(|prefix| {
            let name = format!("{prefix}{raw}");
            let mut encoded = encodings(name.as_bytes());
            self.words.contains(&name)
                || encoded.any(|text| self.globs.iter().any(|glob| glob.matches(text.as_bytes())))
        })
    }

    /// A name besides these for each kind of names that the globs distinguish.
    fn others(
        &self,
        raw: &BTreeSet<String>,
        prefixes: &BTreeSet<&str>,
    ) -> Result<Vec<(String, Vec<NameLike>)>, TooComplex> {
        let pairs: Vec<(&Glob, &str)> = self
            .globs
            .iter()
            .flat_map(|glob| prefixes.iter().map(move |prefix| (*glob, *prefix)))
            .collect();
        let encoded = |name: &str| encodings(name.as_bytes()).next().unwrap_or_default();
        let readings: Result<Vec<Reading<'_>>, _> =
            pairs.iter().map(|(glob, prefix)| Reading::new(glob, &encoded(prefix))).collect();
        let known: Vec<String> = raw.iter().flat_map(|name| encodings(name.as_bytes())).collect();
        let found = witnesses(&readings?, &known.iter().map(String::as_str).collect())?;
        let names =
            found.iter().filter_map(|text| String::from_utf8(decoded(text.as_bytes())).ok());
        let like = |name: &str| {
            let one = |(glob, prefix): &(&Glob, &str)| NameLike {
                glob: glob.0.join("*"),
                prefix: (*prefix).to_owned(),
                matches: glob.matches(encoded(&format!("{prefix}{name}")).as_bytes()),
            };
            pairs.iter().map(one).collect()
        };
        Ok(names.map(|name| (name.clone(), like(&name))).collect())
    }
}

/// The canonical forms of a name in a path: only unreserved characters are the same with and
/// without encoding (RFC 3986, 2.2).
pub(crate) fn encodings(name: &[u8]) -> impl Iterator<Item = String> + use<> {
    let encoded = |also: &[u8]| -> String {
        let is_plain = |byte: u8| {
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte)
        };
        let one = |byte: &u8| {
            if is_plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
        };
        name.iter().map(one).collect()
    };
    [encoded(b""), encoded(b"!$&'()*+,=:@")].into_iter()
}
