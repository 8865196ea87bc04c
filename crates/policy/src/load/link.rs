//! Resolves names to ids, in `extends` and in grants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::load::draft::{Draft, GrantDraft, Named, RoleDraft};
use crate::model::{ANYONE, AUTHENTICATED, Grant, Policy, Role, RoleId};
use crate::problem::{Place, Problem};
use crate::report::closest;

/// The maximum number of name comparisons in search of similar names.
const COMPARISONS: usize = 2_000_000;

/// Resolves every name. Cycles in `extends` are cut, so that later passes terminate.
pub(crate) fn link(draft: Draft, problems: &mut Vec<Problem>) -> Policy {
    let mut names =
        Names { by_name: HashMap::new(), in_order: Vec::new(), incomplete: draft.missing.roles, compared: 0 };
    let mut kept = Vec::with_capacity(draft.roles.len());
    for role in draft.roles {
        if names.define(&role, problems) {
            kept.push(role);
        }
    }
    let mut roles = Vec::with_capacity(kept.len());
    let mut places = Vec::with_capacity(kept.len());
    for role in kept {
        let (role, at) = names.role(role, problems);
        roles.push(role);
        places.push(at);
    }
    cut_cycles(&mut roles, &places, problems);
    let grants = draft.grants.into_iter().filter_map(|grant| names.grant(grant, problems)).collect();
    Policy {
        identity: draft.identity.map(|(_, it)| it).unwrap_or_default(),
        roles,
        grants,
        allow_response: draft.allow_response.map(|(_, it)| it).unwrap_or_default(),
        deny_response: draft.deny_response.map(|(_, it)| it).unwrap_or_default(),
    }
}

/// The names of the roles.
struct Names {
    by_name: HashMap<Arc<str>, (RoleId, Place)>,
    in_order: Vec<Arc<str>>,
    incomplete: bool,
    compared: usize,
}

impl Names {
    /// Assigns the next id to a role; false if its name is already taken.
    fn define(&mut self, role: &RoleDraft, problems: &mut Vec<Problem>) -> bool {
        if let Some((_, first)) = self.by_name.get(&role.name) {
            let problem =
                Problem::error(role.at.clone(), format!("the role `{}` is defined twice", role.name))
                    .help("rename one, or put their rules together")
                    .related(first.clone(), "the first is here");
            problems.push(problem);
            return false;
        }
        let id = RoleId(u32::try_from(self.in_order.len()).unwrap_or(u32::MAX));
        self.by_name.insert(role.name.clone(), (id, role.at.clone()));
        self.in_order.push(role.name.clone());
        true
    }

    /// A role with the ids of the roles it extends, and the places where they are named.
    fn role(&mut self, draft: RoleDraft, problems: &mut Vec<Problem>) -> (Role, Vec<Place>) {
        let mut extends = Vec::with_capacity(draft.extends.len());
        let mut places = Vec::with_capacity(draft.extends.len());
        let mut known = HashSet::new();
        for Named { name, at } in &draft.extends {
            let at = Place { line: at.line, column: at.column, file: draft.at.file.clone() };
            doubt_reserved(&draft.name, name, &at, problems);
            if let Some(id) = self.find(name, &at, problems)
                && known.insert(id)
            {
                extends.push(id);
                places.push(at);
            }
        }
        let RoleDraft { name, allow, deny, at, .. } = draft;
        (Role { name, extends, allow, deny, at }, places)
    }

    fn grant(&mut self, draft: GrantDraft, problems: &mut Vec<Problem>) -> Option<Grant> {
        let role = self.find(&draft.role, &draft.at, problems)?;
        let plain = |names: Vec<Named>| names.into_iter().map(|it| it.name).collect();
        Some(Grant { role, users: plain(draft.users), groups: plain(draft.groups) })
    }

    fn find(&mut self, name: &Arc<str>, at: &Place, problems: &mut Vec<Problem>) -> Option<RoleId> {
        if let Some((id, _)) = self.by_name.get(name) {
            return Some(*id);
        }
        // The role may be defined in a part that could not be read.
        if !self.incomplete {
            let problem = Problem::error(at.clone(), format!("unknown role `{name}`"));
            problems.push(match self.suggestion(name) {
                Some(help) => problem.help(help),
                None => problem.help("define it under `roles`"),
            });
        }
        None
    }

    fn suggestion(&mut self, name: &str) -> Option<String> {
        if self.compared > COMPARISONS || name == ANYONE || name == AUTHENTICATED {
            return None;
        }
        self.compared += self.in_order.len();
        closest(name, self.in_order.iter().map(|it| &**it)).map(|it| format!("did you mean `{it}`?"))
    }
}

/// Warns of a role that extends a reserved one. Callers have the reserved roles anyway, so this is redundant at best;
/// at worst it gives a role's rules to everybody.
fn doubt_reserved(role: &str, extended: &str, at: &Place, problems: &mut Vec<Problem>) {
    let problem = match (role, extended) {
        (ANYONE, AUTHENTICATED) => {
            let message = "every caller gets what `authenticated` may, also an anonymous one";
            Problem::warning(at.clone(), message).help("leave it out")
        }
        (ANYONE, _) => return,
        (_, ANYONE) => {
            Problem::warning(at.clone(), "every caller has the role `anyone` already").help("leave it out")
        }
        (_, AUTHENTICATED) => {
            let message = "every authenticated caller has the role `authenticated` already";
            Problem::warning(at.clone(), message).help("leave it out")
        }
        _ => return,
    };
    problems.push(problem);
}

/// The state of a role in the depth-first search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    Ahead,
    On,
    Done,
}

/// Reports each cycle in `extends` and removes the link that closes it.
fn cut_cycles(roles: &mut [Role], places: &[Vec<Place>], problems: &mut Vec<Problem>) {
    let mut state = vec![Walk::Ahead; roles.len()];
    let mut closing: Vec<(usize, RoleId)> = Vec::new();
    for start in 0..roles.len() {
        if state.get(start) == Some(&Walk::Ahead) {
            walk(start, roles, places, &mut state, &mut closing, problems);
        }
    }
    for (from, to) in closing {
        if let Some(role) = roles.get_mut(from) {
            role.extends.retain(|it| *it != to);
        }
    }
}

/// Walks up from one role. The path holds each role and the index of its next link.
fn walk(
    start: usize,
    roles: &[Role],
    places: &[Vec<Place>],
    state: &mut [Walk],
    closing: &mut Vec<(usize, RoleId)>,
    problems: &mut Vec<Problem>,
) {
    let mut path = vec![(start, 0_usize)];
    set(state, start, Walk::On);
    while let Some((role, next)) = path.last_mut() {
        let (from, link) = (*role, *next);
        *next += 1;
        let Some(RoleId(to)) = roles.get(from).and_then(|role| role.extends.get(link)).copied() else {
            set(state, from, Walk::Done);
            path.pop();
            continue;
        };
        let to_index = to as usize;
        match state.get(to_index) {
            Some(Walk::Ahead) => {
                set(state, to_index, Walk::On);
                path.push((to_index, 0));
            }
            Some(Walk::On) => {
                closing.push((from, RoleId(to)));
                let on_path = path.iter().map(|(role, _)| *role).skip_while(|role| *role != to_index);
                let chain: Vec<String> = on_path.chain([to_index]).map(|it| quoted(roles, it)).collect();
                if let Some(at) = places.get(from).and_then(|places| places.get(link)) {
                    let message = format!("roles extend each other: {}", chain.join(" -> "));
                    problems.push(Problem::error(at.clone(), message).help("leave one of the `extends` out"));
                }
            }
            Some(Walk::Done) | None => {}
        }
    }
}

fn set(state: &mut [Walk], role: usize, walk: Walk) {
    if let Some(it) = state.get_mut(role) {
        *it = walk;
    }
}

fn quoted(roles: &[Role], role: usize) -> String {
    roles.get(role).map(|role| format!("`{}`", role.name)).unwrap_or_default()
}
