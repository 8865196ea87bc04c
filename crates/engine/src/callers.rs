//! From a subject to its roles.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use indexmap::IndexSet;
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
pub(crate) struct Callers {
    pub(crate) graph: RoleGraph,
    users: Members<UserId>,
    groups: Members<GroupId>,
    sets: RoleSets,
    anonymous: RoleSet,
    authenticated: RoleSet,
}

impl Callers {
    pub(crate) fn compile(policy: &Policy) -> Self {
        let graph = RoleGraph::new(policy);
        let mut closure = RoleClosure::new(&graph);
        let mut sets = RoleSets::default();
        let anyone = graph.direct_by_name(ANYONE);
        let anonymous = sets.add(closure.pack(anyone));
        let reserved: SmallVec<[RoleId; 2]> =
            anyone.into_iter().chain(graph.direct_by_name(AUTHENTICATED)).collect();
        let authenticated = sets.add(closure.pack(reserved.iter().copied()));
        let granted = graph.granted.iter().copied();
        let users = granted.clone().zip(policy.grants.iter().map(|grant| &*grant.users));
        let users = Members::new(users, &reserved, &mut closure, &mut sets);
        let groups = granted.zip(policy.grants.iter().map(|grant| &*grant.groups));
        let groups = Members::new(groups, &reserved, &mut closure, &mut sets);
        let anonymous = sets.at(anonymous).clone();
        let authenticated = sets.at(authenticated).clone();
        Self { graph, users, groups, sets, anonymous, authenticated }
    }

    pub(crate) const fn anonymous(&self) -> &RoleSet {
        &self.anonymous
    }

    /// Returns the user's precomputed set unless groups or roles add to it. Groups with the same
    /// roles as the user add nothing.
    pub(crate) fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        let base = self.users.find(user).map_or(&self.authenticated, |id| self.sets.at(id));
        let mut groups = groups
            .into_iter()
            .filter_map(|name| self.groups.find(name))
            .map(|id| self.sets.at(id))
            .filter(|set| set.words() != base.words())
            .peekable();
        let mut roles =
            roles.into_iter().filter_map(|name| self.graph.direct_by_name(name)).peekable();
        if groups.peek().is_none() && roles.peek().is_none() {
            return base.clone();
        }
        let mut closure = RoleClosure::new(&self.graph);
        let roles = base.iter().chain(groups.flat_map(RoleSet::iter)).chain(roles);
        self.sets.find_or_create(closure.pack(roles))
    }

    pub(crate) fn role_names<'e>(
        &'e self,
        roles: &RoleSet,
    ) -> impl Iterator<Item = &'e str> + use<'e> {
        roles.iter().filter_map(|role| self.role_name(role))
    }

    /// The name of a role of the policy; `None` for another node of [`RoleGraph`].
    pub(crate) fn role_name(&self, role: RoleId) -> Option<&str> {
        self.graph.names.get(role.index()).map(|name| &**name)
    }
}

/// The users or groups that are granted roles.
struct Members<I> {
    names: Interner<I>,
    /// The roles of each member: granted and reserved roles, and the roles that these extend.
    sets: IdVec<I, RoleSetId>,
}

impl<I: Id + Ord> Members<I> {
    fn new<'p>(
        grants: impl Iterator<Item = (RoleId, &'p [Arc<str>])>,
        reserved: &[RoleId],
        closure: &mut RoleClosure<'_>,
        sets: &mut RoleSets,
    ) -> Self {
        let mut names = Interner::default();
        let mut granted: Vec<(I, RoleId)> = Vec::new();
        for (role, members) in grants {
            granted.extend(members.iter().map(|name| (names.add(name.as_bytes()), role)));
        }
        names.shrink();
        granted.sort_unstable();
        granted.dedup();
        // A name is added with its first grant, so each id has a chunk, and the chunks are in the
        // order of the ids. Many users have the same grants. Their closure is computed once.
        let mut sets_by_grants: HashMap<Vec<RoleId>, RoleSetId, RandomState> = HashMap::default();
        let mut roles = Vec::new();
        let sets = granted.chunk_by(|a, b| a.0 == b.0).map(|grants| {
            roles.clear();
            roles.extend(grants.iter().map(|(_, role)| *role));
            *sets_by_grants
                .entry_ref(&*roles)
                .or_insert_with(|| sets.add(closure.pack(reserved.iter().chain(&roles).copied())))
        });
        Self { sets: sets.collect(), names }
    }

    fn find(&self, name: &str) -> Option<RoleSetId> {
        self.names.find(name.as_bytes()).map(|id| *self.sets.at(id))
    }
}

/// The roles, and which roles each extends.
///
/// Each role is a node. A role that a condition may take from a caller has more nodes, which extend
/// it: a node for each grant with a condition, and a node for all other ways to be given the role.
/// So the set of a caller tells how it has the role. The ids of these nodes follow those of the
/// policy's roles.
pub(crate) struct RoleGraph {
    ids: Interner<RoleId>,
    names: IdVec<RoleId, Arc<str>>,
    extends: IdVec<RoleId, Box<[RoleId]>>,
    /// The node of each grant: a role, or a node that extends it.
    granted: Vec<RoleId>,
    /// The roles that a condition may take from a caller, each after the roles that extend it.
    conditional: Vec<RoleId>,
    /// For each of these roles, the node of the callers that are given the role without a
    /// condition.
    direct: HashMap<RoleId, RoleId, RandomState>,
    /// The nodes of the grants with a condition: the role, the node, and the index of the grant.
    conditional_grants: Vec<(RoleId, RoleId, usize)>,
}

impl RoleGraph {
    fn new(policy: &Policy) -> Self {
        let mut ids = Interner::default();
        for role in &policy.roles {
            ids.add(role.name.as_bytes());
        }
        let mut graph = Self {
            ids,
            names: policy.roles.iter().map(|role| Arc::clone(&role.name)).collect(),
            extends: policy.roles.iter().map(|role| role.extends.as_slice().into()).collect(),
            granted: Vec::with_capacity(policy.grants.len()),
            conditional: conditional_roles(policy),
            direct: HashMap::default(),
            conditional_grants: Vec::new(),
        };
        for role in graph.conditional.clone() {
            let node = graph.extends.push([role].into());
            graph.direct.insert(role, node);
        }
        for (index, grant) in policy.grants.iter().enumerate() {
            let node = if grant.when.is_some() {
                let node = graph.extends.push([grant.role].into());
                graph.conditional_grants.push((grant.role, node, index));
                node
            } else {
                graph.direct(grant.role).unwrap_or(grant.role)
            };
            graph.granted.push(node);
        }
        graph
    }

    /// The node of the callers that are given the role with this name without a condition.
    fn direct_by_name(&self, name: &str) -> Option<RoleId> {
        let role = self.ids.find(name.as_bytes())?;
        Some(self.direct(role).unwrap_or(role))
    }

    /// The roles that a condition may take from a caller, each after the roles that extend it.
    pub(crate) fn conditional_roles(&self) -> impl Iterator<Item = RoleId> + use<> {
        self.conditional.clone().into_iter()
    }

    /// The node of the callers that are given the role without a condition; `None` if no condition
    /// may take the role.
    pub(crate) fn direct(&self, role: RoleId) -> Option<RoleId> {
        self.direct.get(&role).copied()
    }

    /// The nodes of the grants of a role with a condition, and the indices of these grants.
    pub(crate) fn conditional_grants(
        &self,
        role: RoleId,
    ) -> impl Iterator<Item = (RoleId, usize)> + use<'_> {
        let grants = self.conditional_grants.iter().filter(move |(granted, ..)| *granted == role);
        grants.map(|(_, node, index)| (*node, *index))
    }
}

/// The roles that have a condition, the roles that are granted under a condition, and the roles
/// that these extend; each after the roles that extend it.
fn conditional_roles(policy: &Policy) -> Vec<RoleId> {
    let own = policy.roles.entries().filter(|(_, role)| role.when.is_some()).map(|(id, _)| id);
    let granted = policy.grants.iter().filter(|grant| grant.when.is_some());
    let mut unvisited: Vec<(RoleId, usize)> =
        own.chain(granted.map(|grant| grant.role)).map(|role| (role, 0)).collect();
    // Depth first, so that a role is done after all that it extends. Not recursive: a chain of
    // roles may be long.
    let mut done = IndexSet::new();
    while let Some((role, next)) = unvisited.pop() {
        if done.contains(&role) {
            continue;
        }
        match policy.roles.at(role).extends.get(next) {
            Some(extended) => unvisited.extend([(role, next + 1), (*extended, 0)]),
            None => {
                done.insert(role);
            }
        }
    }
    done.into_iter().rev().collect()
}

/// Computes the closure of roles under `extends`, and packs it. Reusable: it keeps its allocations.
struct RoleClosure<'g> {
    graph: &'g RoleGraph,
    roles: SmallVec<[RoleId; 64]>,
    /// A bit for each role of the graph, set if the role is in `roles`.
    members: SmallVec<[u64; 64]>,
    words: Words,
}

impl<'g> RoleClosure<'g> {
    fn new(graph: &'g RoleGraph) -> Self {
        let members = SmallVec::from_elem(0, graph.extends.len() / 64 + 1);
        Self { graph, members, roles: SmallVec::new(), words: Words::new() }
    }

    /// Packs the closure of these roles into the layout of [`RoleSet`].
    fn pack(&mut self, roles: impl IntoIterator<Item = RoleId>) -> &[u64] {
        for role in roles {
            self.add(role);
        }
        let mut next = 0;
        while let Some(role) = self.roles.get(next).copied() {
            next += 1;
            for extended in self.graph.extends.at(role) {
                self.add(*extended);
            }
        }
        self.roles.sort_unstable();
        pack(self.roles.iter().copied(), &mut self.words);
        for role in self.roles.drain(..) {
            if let Some(word) = self.members.get_mut(role.index() / 64) {
                *word = 0;
            }
        }
        &self.words
    }

    fn add(&mut self, role: RoleId) {
        let Some(word) = self.members.get_mut(role.index() / 64) else { return };
        let bit = 1 << (role.0 % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.roles.push(role);
        }
    }
}

/// Sets of roles, without duplicates.
#[derive(Default)]
struct RoleSets(IndexSet<RoleSet, RandomState>);

impl RoleSets {
    /// # Panics
    /// As [`IdVec::at`], if the id is not from [`RoleSets::add`].
    #[expect(clippy::indexing_slicing, reason = "each id is of a set in here: see `add`")]
    fn at(&self, id: RoleSetId) -> &RoleSet {
        &self.0[id.index()]
    }

    /// The id of this set. A new set is added.
    fn add(&mut self, words: &[u64]) -> RoleSetId {
        let index = self.0.get_index_of(words);
        let index = index.unwrap_or_else(|| self.0.insert_full(RoleSet::from_words(words)).0);
        RoleSetId::from_index(index)
    }

    fn find_or_create(&self, words: &[u64]) -> RoleSet {
        self.0.get(words).cloned().unwrap_or_else(|| RoleSet::from_words(words))
    }
}
