//! Resolves names to ids, in `extends` and in grants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ids::IdVec;
use crate::model::{
    ANYONE, AUTHENTICATED, AllowResponse, DocumentSecurity, Grant, IdentityHeader, Issuer, ListedRole,
    Policy, Role, RoleId, RolesFromToken, Rule,
};
use crate::parse::unresolved::{NameRef, UnresolvedGrant, UnresolvedPolicy, UnresolvedRole};
use crate::parse::user_ids::{self, Sources};
use crate::pattern::{Actions, Segment};
use document::{Place, Problem, Suggestions, Warning};

/// Resolves every name. Cycles in `extends` are cut, so that later passes terminate.
pub(crate) fn resolve(policy: UnresolvedPolicy, problems: &mut Vec<Problem>) -> Policy {
    let mut names = Names {
        by_name: HashMap::new(),
        in_order: IdVec::new(),
        incomplete: policy.lacks_roles,
        suggestions: Suggestions::for_a_file(),
    };
    let mut kept = Vec::with_capacity(policy.roles.len());
    for role in policy.roles {
        if names.define(&role, problems) {
            kept.push(role);
        }
    }
    let identity = policy.identity.map(|(_, section)| section).unwrap_or_default();
    // Those of a search cluster are backend roles, which its own files name.
    let has_cluster = policy.search.is_some();
    for issuer in identity.jwt.iter().filter(|_| !has_cluster) {
        names.check_listed(issuer, problems);
    }
    let sources = Sources::of(&identity, policy.lacks_identity);
    let mut roles = IdVec::new();
    let mut places = IdVec::new();
    for mut role in kept {
        user_ids::resolve(&mut role, &sources, problems);
        let (role, at) = names.role(role, problems);
        roles.push(role);
        places.push(at);
    }
    cut_cycles(&mut roles, &places, problems);
    limit_rules(&roles, problems);
    let grants = policy.grants.into_iter().filter_map(|grant| names.grant(grant, problems)).collect();
    drop(sources);
    let allow_response = policy.allow_response.map(|(_, section)| section).unwrap_or_default();
    let identity_header = policy.identity_header.map(|(_, section)| section);
    if let Some(header) = &identity_header {
        check_identity_header(header, &allow_response, problems);
    }
    let search = policy.search.map(|(_, section)| section);
    if let Some(search) = &search {
        problems.extend(named_twice(&allow_response, identity_header.as_ref(), &search.document_security));
    }
    Policy {
        identity,
        roles,
        grants,
        allow_response,
        identity_header,
        deny_response: policy.deny_response.map(|(_, section)| section).unwrap_or_default(),
        search,
    }
}

/// The maximum size of the index of all rules together. An entry needs about 100 bytes.
const MAX_ENTRIES: usize = 5_000_000;

/// Reports a policy whose index would not fit into memory: a rule with 2,000 hosts, 2,000 paths and 10 methods is short, but
/// has an entry for each combination.
fn limit_rules(roles: &IdVec<RoleId, Role>, problems: &mut Vec<Problem>) {
    let mut entries = 0_usize;
    for rule in roles.iter().flat_map(|role| role.allow.iter().chain(&role.deny)) {
        entries = entries.saturating_add(entries_of(rule));
        if entries > MAX_ENTRIES {
            let message = "the rules have more than 5,000,000 combinations of a host, a path and a method";
            let help = "write fewer of them in a rule: leave the hosts out, or use `*.example.com`, `/**` and `\"*\"`";
            problems.push(Problem::error(rule.at.clone(), message).help(help));
            return;
        }
    }
}

/// The number of entries that a rule has in the index.
fn entries_of(rule: &Rule) -> usize {
    let methods = match &rule.actions {
        Actions::Any => 1,
        Actions::These(these) => these.len(),
    };
    // `{user.id}` has entries for each source.
    let paths = rule.resources.iter().map(|pattern| {
        let sources = pattern.segments.iter().map(|segment| match segment {
            Segment::UserId(sources) => sources.len(),
            Segment::Literal(_) | Segment::One(_) | Segment::User | Segment::Glob(_) => 1,
        });
        sources.max().unwrap_or(1)
    });
    let paths = paths.fold(0, usize::saturating_add);
    rule.scopes.len().max(1).saturating_mul(methods).saturating_mul(paths)
}

/// A header that says what to hide, and that another section names, too.
fn named_twice(
    response: &AllowResponse,
    identity: Option<&IdentityHeader>,
    document_security: &DocumentSecurity,
) -> Option<Problem> {
    let DocumentSecurity::Header { name, at } = document_security else { return None };
    let mut others = response.set_headers.iter().map(|header| &header.name).chain(&response.remove_headers);
    let section = if identity.is_some_and(|identity| identity.name == *name) {
        "identity_header"
    } else {
        others.any(|other| other == name).then_some("allow_response")?
    };
    let message = format!("`{section}` names the header `{name}`, too");
    let help = "take another name: this one is set or removed by what the roles of the cluster say";
    Some(Problem::error(at.clone(), message).help(help))
}

/// Reports an identity header that is also set or removed as another header.
fn check_identity_header(header: &IdentityHeader, others: &AllowResponse, problems: &mut Vec<Problem>) {
    let set = others.set_headers.iter().map(|other| &other.name);
    if set.chain(&others.remove_headers).any(|other| *other == header.name) {
        let message = format!("the identity header `{}` is also in `allow_response`", header.name);
        let help = "remove it there, or take another `name`: it is overwritten on every request anyway";
        problems.push(Problem::error(header.at.clone(), message).help(help));
    }
}

/// The names of the roles.
struct Names {
    by_name: HashMap<Arc<str>, (RoleId, Place)>,
    in_order: IdVec<RoleId, Arc<str>>,
    incomplete: bool,
    suggestions: Suggestions,
}

impl Names {
    /// Assigns the next id to a role; false if its name is already taken.
    fn define(&mut self, role: &UnresolvedRole, problems: &mut Vec<Problem>) -> bool {
        if let Some((_, first)) = self.by_name.get(&role.name) {
            let problem =
                Problem::error(role.at.clone(), format!("the role `{}` is defined twice", role.name))
                    .help("rename one, or put their rules together")
                    .related(first.clone(), "the first is here");
            problems.push(problem);
            return false;
        }
        let id = self.in_order.push(role.name.clone());
        self.by_name.insert(role.name.clone(), (id, role.at.clone()));
        true
    }

    /// A role with the ids of the roles it extends, and the places where they are named.
    fn role(&mut self, unresolved: UnresolvedRole, problems: &mut Vec<Problem>) -> (Role, Vec<Place>) {
        let mut extends = Vec::with_capacity(unresolved.extends.len());
        let mut places = Vec::with_capacity(unresolved.extends.len());
        let mut known = HashSet::new();
        for NameRef { name, at } in &unresolved.extends {
            let at = Place { line: at.line, column: at.column, file: unresolved.at.file.clone() };
            warn_of_reserved(&unresolved.name, name, &at, problems);
            if let Some(id) = self.find(name, &at, problems)
                && known.insert(id)
            {
                extends.push(id);
                places.push(at);
            }
        }
        let UnresolvedRole { name, allow, deny, at, .. } = unresolved;
        let [allow, deny] = [allow, deny].map(|rules| rules.into_iter().map(|rule| rule.rule).collect());
        (Role { name, extends, allow, deny, at }, places)
    }

    /// Checks that the roles that tokens may give are roles of the policy.
    fn check_listed(&mut self, issuer: &Issuer, problems: &mut Vec<Problem>) {
        let RolesFromToken::Only(listed) = &issuer.roles_from_token else { return };
        for ListedRole { name, at } in listed {
            if self.find(name, at, problems).is_some() && (**name == *ANYONE || **name == *AUTHENTICATED) {
                let message = format!("callers have the role `{name}` without a token that names it");
                problems
                    .push(Problem::warning(at.clone(), Warning::ReservedRole, message).help("leave it out"));
            }
        }
    }

    fn grant(&mut self, unresolved: UnresolvedGrant, problems: &mut Vec<Problem>) -> Option<Grant> {
        let role = self.find(&unresolved.role, &unresolved.at, problems)?;
        let plain = |names: Vec<NameRef>| names.into_iter().map(|named| named.name).collect();
        Some(Grant { role, users: plain(unresolved.users), groups: plain(unresolved.groups) })
    }

    fn find(&mut self, name: &Arc<str>, at: &Place, problems: &mut Vec<Problem>) -> Option<RoleId> {
        if let Some((id, _)) = self.by_name.get(name) {
            return Some(*id);
        }
        // The role may be defined in a part that could not be read.
        if !self.incomplete {
            let problem = Problem::error(at.clone(), format!("unknown role `{name}`"));
            let known = self.in_order.iter().map(|known| &**known);
            problems.push(match self.suggestions.closest(name, known) {
                Some(known) => problem.help(format!("did you mean `{known}`?")),
                None => problem.help("define it under `roles`"),
            });
        }
        None
    }
}

/// Warns of a role that extends a reserved one. Callers have the reserved roles anyway, so this is redundant at best;
/// at worst it gives a role's rules to everybody.
fn warn_of_reserved(role: &str, extended: &str, at: &Place, problems: &mut Vec<Problem>) {
    let message = match (role, extended) {
        (ANYONE, AUTHENTICATED) => "every caller gets what `authenticated` may, also an anonymous one",
        (ANYONE, _) => return,
        (_, ANYONE) => "every caller has the role `anyone` already",
        (_, AUTHENTICATED) => "every authenticated caller has the role `authenticated` already",
        _ => return,
    };
    problems.push(Problem::warning(at.clone(), Warning::ReservedRole, message).help("leave it out"));
}

/// The state of a role in the depth-first search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Ahead,
    OnPath,
    Done,
}

/// Reports each cycle in `extends` and removes the link that closes it.
fn cut_cycles(
    roles: &mut IdVec<RoleId, Role>,
    places: &IdVec<RoleId, Vec<Place>>,
    problems: &mut Vec<Problem>,
) {
    let mut search = CycleSearch {
        roles,
        places,
        state: vec![Visit::Ahead; roles.len()].into(),
        closing: Vec::new(),
        problems,
    };
    for start in roles.ids() {
        if *search.state.at(start) == Visit::Ahead {
            search.visit(start);
        }
    }
    for (from, to) in search.closing {
        roles.at_mut(from).extends.retain(|extended| *extended != to);
    }
}

/// A depth-first search for cycles.
struct CycleSearch<'s> {
    roles: &'s IdVec<RoleId, Role>,
    /// For each role, where the roles that it extends are named.
    places: &'s IdVec<RoleId, Vec<Place>>,
    state: IdVec<RoleId, Visit>,
    /// The links that close a cycle.
    closing: Vec<(RoleId, RoleId)>,
    problems: &'s mut Vec<Problem>,
}

impl CycleSearch<'_> {
    /// Visits one role and all that it extends. The path holds each role and the index of its next link.
    fn visit(&mut self, start: RoleId) {
        let mut path = vec![(start, 0_usize)];
        *self.state.at_mut(start) = Visit::OnPath;
        while let Some((role, next)) = path.last_mut() {
            let (from, link) = (*role, *next);
            *next += 1;
            let Some(to) = self.roles.at(from).extends.get(link).copied() else {
                *self.state.at_mut(from) = Visit::Done;
                path.pop();
                continue;
            };
            match *self.state.at(to) {
                Visit::Ahead => {
                    *self.state.at_mut(to) = Visit::OnPath;
                    path.push((to, 0));
                }
                Visit::OnPath => {
                    self.closing.push((from, to));
                    let on_path = path.iter().map(|(role, _)| *role).skip_while(|role| *role != to);
                    let cycle: Vec<RoleId> = on_path.chain([to]).collect();
                    self.reader(&cycle, from, link);
                }
                Visit::Done => {}
            }
        }
    }

    fn reader(&mut self, cycle: &[RoleId], from: RoleId, link: usize) {
        let names: Vec<String> =
            cycle.iter().map(|role| format!("`{}`", self.roles.at(*role).name)).collect();
        if let Some(at) = self.places.at(from).get(link) {
            let message = format!("roles extend each other: {}", names.join(" -> "));
            self.problems.push(Problem::error(at.clone(), message).help("leave one of the `extends` out"));
        }
    }
}
