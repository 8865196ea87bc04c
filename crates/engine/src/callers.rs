//! From a subject to its roles.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use policy::Policy;
use policy::ids::{Id, IdVec, id_types};
use policy::model::{ANYONE, AUTHENTICATED, RoleId};
use smallvec::SmallVec;

use crate::interner::Interner;
use crate::roles::{RoleSet, Words, pack};

id_types! {
    /// A user that is granted a role.
    struct UserId;

    /// A group that is granted a role.
    struct GroupId;

    /// A precomputed set of roles, see [`Engine::roles_of`](crate::Engine::roles_of).
    struct RoleSetId;
}

/// Which subjects have which roles.
#[derive(Debug)]
pub(crate) struct Callers {
    graph: Graph,
    users: Interner<UserId>,
    /// The roles of each user: granted ones, reserved ones, and those that these extend.
    sets_of_users: IdVec<UserId, RoleSetId>,
    groups: Interner<GroupId>,
    /// The same for each group.
    sets_of_groups: IdVec<GroupId, RoleSetId>,
    sets: Sets,
    anonymous: RoleSet,
    authenticated: RoleSet,
}

impl Callers {
    pub(crate) fn compile(policy: &Policy) -> Self {
        let graph = Graph::of(policy);
        let mut sets = Sets::default();
        let mut closure = Closure::new(&graph);
        let anonymous = sets.share(closure.of(graph.role(ANYONE)));
        let reserved: SmallVec<[RoleId; 2]> =
            graph.role(ANYONE).into_iter().chain(graph.role(AUTHENTICATED)).collect();
        let authenticated = sets.share(closure.of(reserved.iter().copied()));
        let (users, granted) =
            granted(policy.grants.iter().map(|grant| (grant.role, &*grant.users)));
        let sets_of_users = sets_of(&granted, &reserved, &mut closure, &mut sets);
        let (groups, granted) =
            self::granted(policy.grants.iter().map(|grant| (grant.role, &*grant.groups)));
        let sets_of_groups = sets_of(&granted, &reserved, &mut closure, &mut sets);
        Self { graph, users, sets_of_users, groups, sets_of_groups, sets, anonymous, authenticated }
    }

    pub(crate) const fn anonymous(&self) -> &RoleSet {
        &self.anonymous
    }

    /// A user's own set is shared as it is unless groups or roles add to it. Groups with the same
    /// roles as the user add nothing, which a comparison of the two sets shows.
    pub(crate) fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        let user = self.users.find(user.as_bytes());
        let base =
            user.map_or(&self.authenticated, |user| self.sets.at(*self.sets_of_users.at(user)));
        let groups = groups.into_iter().filter_map(|name| self.groups.find(name.as_bytes()));
        let groups = groups.map(|group| self.sets.at(*self.sets_of_groups.at(group)));
        let mut groups = groups.filter(|set| set.words() != base.words()).peekable();
        let mut roles = roles.into_iter().filter_map(|name| self.graph.role(name)).peekable();
        if groups.peek().is_none() && roles.peek().is_none() {
            return base.clone();
        }
        let mut closure = Closure::new(&self.graph);
        self.sets.find_or_make(
            closure.of(base.iter().chain(groups.flat_map(RoleSet::iter)).chain(roles)),
        )
    }

    pub(crate) fn role_names<'e>(
        &'e self,
        roles: &RoleSet,
    ) -> impl Iterator<Item = &'e str> + use<'e> {
        roles.iter().map(|role| &**self.graph.names.at(role))
    }
}

/// Interns the users or groups that are granted roles. Returns the grants too, sorted and without
/// duplicates.
fn granted<'p, I: Id + Ord>(
    grants: impl Iterator<Item = (RoleId, &'p [Arc<str>])>,
) -> (Interner<I>, Vec<(I, RoleId)>) {
    let mut names = Interner::default();
    let mut granted = Vec::new();
    for (role, to) in grants {
        granted.extend(to.iter().map(|name| (names.add(name.as_bytes()), role)));
    }
    names.shrink();
    granted.sort_unstable();
    granted.dedup();
    (names, granted)
}

/// The set of each user or group. Most have been granted the same roles as another one: equal
/// grants are looked up and share one set.
fn sets_of<I: Id + Ord>(
    granted: &[(I, RoleId)],
    reserved: &[RoleId],
    closure: &mut Closure<'_>,
    sets: &mut Sets,
) -> IdVec<I, RoleSetId> {
    let seed = RandomState::default();
    let hash = |grants: &[(I, RoleId)]| {
        let mut hasher = seed.build_hasher();
        grants.iter().for_each(|(_, role)| hasher.write_u32(role.0));
        hasher.finish()
    };
    let mut known: HashTable<(&[(I, RoleId)], RoleSetId)> = HashTable::new();
    let sets = granted.chunk_by(|a, b| a.0 == b.0).map(|grants| {
        let roles = grants.iter().map(|(_, role)| *role);
        let is_same = |(other, _): &(&[(I, RoleId)], _)| {
            roles.clone().eq(other.iter().map(|(_, role)| *role))
        };
        if let Some((_, set)) = known.find(hash(grants), is_same) {
            return *set;
        }
        let set = sets.add(closure.of(reserved.iter().copied().chain(roles.clone())));
        known.insert_unique(hash(grants), (grants, set), |(other, _)| hash(other));
        set
    });
    sets.collect()
}

/// The roles and which roles they extend.
#[derive(Debug)]
struct Graph {
    roles: Interner<RoleId>,
    names: IdVec<RoleId, Arc<str>>,
    extends: IdVec<RoleId, Box<[RoleId]>>,
}

impl Graph {
    fn of(policy: &Policy) -> Self {
        let mut roles = Interner::default();
        for role in &policy.roles {
            roles.add(role.name.as_bytes());
        }
        let names = policy.roles.iter().map(|role| Arc::clone(&role.name)).collect();
        let extends =
            policy.roles.iter().map(|role| role.extends.clone().into_boxed_slice()).collect();
        Self { roles, names, extends }
    }

    fn role(&self, name: &str) -> Option<RoleId> {
        self.roles.find(name.as_bytes())
    }
}

/// Computes the closure of roles under `extends`, and packs it. Reusable: it keeps its allocations.
struct Closure<'g> {
    graph: &'g Graph,
    /// A bit for each role, set if the role is in `found`.
    seen: SmallVec<[u64; 64]>,
    found: SmallVec<[RoleId; 64]>,
    words: Words,
}

impl<'g> Closure<'g> {
    fn new(graph: &'g Graph) -> Self {
        let seen = SmallVec::from_elem(0, graph.roles.len() / 64 + 1);
        Self { graph, seen, found: SmallVec::new(), words: Words::new() }
    }

    /// These roles and all that they extend, in the layout of [`RoleSet`].
    fn of(&mut self, roles: impl IntoIterator<Item = RoleId>) -> &[u64] {
        for role in roles {
            self.add(role);
        }
        let mut next = 0;
        while let Some(role) = self.found.get(next).copied() {
            next += 1;
            for extended in self.graph.extends.at(role) {
                self.add(*extended);
            }
        }
        self.found.sort_unstable();
        pack(self.found.iter().copied(), &mut self.words);
        for role in self.found.drain(..) {
            if let Some(word) = self.seen.get_mut(role.index() / 64) {
                *word = 0;
            }
        }
        &self.words
    }

    fn add(&mut self, role: RoleId) {
        let Some(word) = self.seen.get_mut(role.index() / 64) else { return };
        let bit = 1 << (role.0 % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.found.push(role);
        }
    }
}

/// Sets of roles, without duplicates.
#[derive(Default)]
struct Sets {
    sets: IdVec<RoleSetId, RoleSet>,
    index: HashTable<RoleSetId>,
    seed: RandomState,
}

impl Sets {
    fn at(&self, id: RoleSetId) -> &RoleSet {
        self.sets.at(id)
    }

    fn share(&mut self, words: &[u64]) -> RoleSet {
        let id = self.add(words);
        self.at(id).clone()
    }

    /// The id of this set. A new set is added.
    fn add(&mut self, words: &[u64]) -> RoleSetId {
        let hash = self.seed.hash_one(words);
        let Self { sets, index, seed } = self;
        if let Some(id) = index.find(hash, |other| sets.at(*other).words() == words) {
            return *id;
        }
        let id = sets.push(RoleSet::from_words(words));
        index.insert_unique(hash, id, |other| seed.hash_one(sets.at(*other).words()));
        id
    }

    fn find_or_make(&self, words: &[u64]) -> RoleSet {
        let found =
            self.index.find(self.seed.hash_one(words), |other| self.at(*other).words() == words);
        found.map_or_else(|| RoleSet::from_words(words), |id| self.at(*id).clone())
    }
}

impl std::fmt::Debug for Sets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} sets of roles", self.sets.len())
    }
}
