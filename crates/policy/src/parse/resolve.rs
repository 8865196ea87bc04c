//! Resolves names to ids, in `extends` and in grants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ids::IdVec;
use crate::model::{
    ANYONE, AUTHENTICATED, AllowResponse, AuthZen, COOKIE, DocumentSecurity, Grant, Identity,
    IdentityHeader, Issuer, ListedRole, Policy, Role, RoleId, RolesFromToken, Search,
};
use crate::parse::conditions::{self, Conditions};
use crate::parse::unresolved::{
    NameRef, UnresolvedGrant, UnresolvedPolicy, UnresolvedRole, UnresolvedRule,
};
use crate::parse::user_ids::{self, Sources};
use crate::pattern::Actions;
use condition::Condition;
use document::{Place, Problem, Severity, Suggestions, Warning};

/// Resolves every name in the policy and in `grants`. Cuts cycles in `extends`, because later
/// passes would never end with them.
pub(crate) fn resolve(
    policy: UnresolvedPolicy,
    grants: &[UnresolvedGrant],
    problems: &mut Vec<Problem>,
) -> Policy {
    let mut names = Names {
        by_name: HashMap::new(),
        in_order: IdVec::new(),
        incomplete: policy.roles_incomplete,
        suggestions: Suggestions::with_file_limit(),
    };
    let mut kept = Vec::with_capacity(policy.roles.len());
    for role in policy.roles {
        if names.define(&role, problems) {
            kept.push(role);
        }
    }
    let identity = policy.identity.map(|(_, section)| section).unwrap_or_default();
    let unresolved = policy.conditions.map(|(_, section)| section).unwrap_or_default();
    let conditions = Conditions::new(unresolved, &identity, policy.identity_incomplete, problems);
    // With a search cluster, the roles in tokens are backend roles, which the cluster's files map.
    // They are no roles of this policy.
    let has_cluster = policy.search.is_some();
    for issuer in identity.jwt.iter().filter(|_| !has_cluster) {
        names.check_roles_from_token(issuer, problems);
    }
    let sources = Sources::new(&identity, policy.identity_incomplete);
    let mut roles = IdVec::new();
    let mut extends_at = IdVec::new();
    for mut role in kept {
        user_ids::resolve(&mut role, &sources, problems);
        let (role, places) = names.resolve_role(role, &conditions, problems);
        roles.push(role);
        extends_at.push(places);
    }
    cut_cycles(&mut roles, &extends_at, problems);
    limit_rules(&roles, problems);
    let grants: Vec<Grant> = grants
        .iter()
        .filter_map(|grant| names.resolve_grant(grant, &conditions, problems))
        .collect();
    let allow_response = policy.allow_response.map(|(_, section)| section).unwrap_or_default();
    let identity_header = policy.identity_header.map(|(_, section)| section);
    let search = policy.search.map(|(_, section)| section);
    if !has_cluster {
        names.check_metadata(&allow_response, problems);
    }
    check_headers(&allow_response, identity_header.as_ref(), search.as_ref(), problems);
    check_key_header(&identity, search.as_ref(), problems);
    let authzen = policy.authzen.map(|(_, section)| section);
    if !policy.identity_incomplete {
        check_token_places(&identity, problems);
        check_actors(&identity, (search.as_ref(), authzen.as_ref()), problems);
    }
    if let Some(authzen) = &authzen
        && !policy.identity_incomplete
    {
        check_issuers(authzen, &identity, problems);
    }
    // After an error, a part of the policy may be missing, and this part may use any condition.
    if problems.iter().all(|problem| problem.severity != Severity::Error) {
        let of_rules = roles.iter().flat_map(|role| role.allow.iter().chain(&role.deny));
        let of_rules = of_rules.filter_map(|rule| rule.when.as_ref());
        let of_roles = roles.iter().filter_map(|role| role.when.as_ref());
        let of_grants = grants.iter().filter_map(|grant: &Grant| grant.when.as_ref());
        let used: Vec<&Condition> = of_rules.chain(of_roles).chain(of_grants).collect();
        conditions.warn_of_unused(&used, problems);
    }
    Policy {
        identity,
        conditions: conditions.in_order,
        roles,
        grants,
        allow_response,
        identity_header,
        deny_response: policy.deny_response.map(|(_, section)| section).unwrap_or_default(),
        search,
        authzen,
    }
}

/// Reports each type of AuthZEN subjects whose `issuer` is not the issuer of an entry of `jwt`.
fn check_issuers(authzen: &AuthZen, identity: &Identity, problems: &mut Vec<Problem>) {
    for subject in &authzen.subjects {
        let Some(name) = &subject.issuer else { continue };
        if !identity.jwt.iter().any(|issuer| issuer.issuer == *name) {
            let message = format!("`{}` has an issuer that is not under `jwt`", subject.name);
            let help = "write the `issuer` of an entry of `jwt`, or leave it out";
            problems.push(Problem::error(subject.at.clone(), message).help(help));
        }
    }
}

/// The maximum number of entries in the index of all rules. An entry needs about 100 bytes.
const MAX_ENTRIES: usize = 5_000_000;

/// Reports a policy whose index would not fit into memory: a rule with 2,000 hosts, 2,000 paths and
/// 10 methods is short, but has an entry for each combination.
fn limit_rules(roles: &IdVec<RoleId, Role>, problems: &mut Vec<Problem>) {
    let mut entries = 0_usize;
    for rule in roles.iter().flat_map(|role| role.allow.iter().chain(&role.deny)) {
        let methods = match &rule.actions {
            Actions::Any => 1,
            Actions::These(methods) => methods.len(),
        };
        let lists = [rule.scopes.len().max(1), methods, rule.resources.len()];
        entries = entries.saturating_add(lists.into_iter().fold(1, usize::saturating_mul));
        if entries > MAX_ENTRIES {
            let message =
                "the rules have more than 5,000,000 combinations of a host, a path and a method";
            let help = "write fewer of them in a rule: leave the hosts out, or use \
                        `*.example.com`, `/**` and `\"*\"`";
            problems.push(Problem::error(rule.at.clone(), message).help(help));
            return;
        }
    }
}

/// Reports the identity header or the header of document security if another section also sets or
/// removes it.
fn check_headers(
    response: &AllowResponse,
    identity_header: Option<&IdentityHeader>,
    search: Option<&Search>,
    problems: &mut Vec<Problem>,
) {
    let set_headers = response.set_headers.iter().map(|header| &header.name);
    let in_response = set_headers.chain(&response.remove_headers).map(|name| &**name);
    let cookie = response.remove_cookies.first().map(|_| COOKIE);
    let in_response: HashSet<&str> = in_response.chain(cookie).collect();
    if let Some(IdentityHeader { name, at, .. }) =
        identity_header.filter(|header| in_response.contains(&*header.name))
    {
        let message = format!("the identity header `{name}` is also in `allow_response`");
        let help =
            "remove it there, or take another `name`: it is overwritten on every request anyway";
        problems.push(Problem::error(at.clone(), message).help(help));
    }
    if let Some(DocumentSecurity::Header { name, at }) =
        search.map(|search| &search.document_security)
    {
        let is_identity = identity_header.is_some_and(|header| header.name == *name);
        let section = if is_identity { "identity_header" } else { "allow_response" };
        if is_identity || in_response.contains(&**name) {
            let message = format!("`{section}` names the header `{name}`, too");
            let help = "take another name: this header is set or removed by the cluster's roles";
            problems.push(Problem::error(at.clone(), message).help(help));
        }
    }
}

/// Reports `token_from` in a policy without `jwt`: it has no effect, but somebody may rely on it.
fn check_token_places(identity: &Identity, problems: &mut Vec<Problem>) {
    if let (Some(place), []) = (identity.token_from.first(), &*identity.jwt) {
        let message = "`token_from` has no effect without `jwt`";
        let help = "add an issuer under `jwt`, or leave `token_from` out";
        problems.push(Problem::error(place.at.clone(), message).help(help));
    }
}

/// Reports `act` and `combine: both` where they cannot work. Each adds a second caller to a
/// request: an actor, or the application that calls for a user. With other settings, a decision can
/// be about one caller only, and would ignore the other.
fn check_actors(
    identity: &Identity,
    (search, authzen): (Option<&Search>, Option<&AuthZen>),
    problems: &mut Vec<Problem>,
) {
    let acting = identity.jwt.iter().find(|issuer| issuer.act.is_some());
    if let (Some(issuer), Some(_)) = (acting, search) {
        let message = "`act` has no meaning with `search`: a cluster's roles are those of one user";
        let help = "leave it out, or put the cluster into a policy of its own";
        problems.push(Problem::error(issuer.at.clone(), message).help(help));
    }
    let Some(at) = &identity.combine_both else { return };
    let Identity { basic, api_keys, certificates, jwt, .. } = identity;
    let has_others = basic.is_some() || api_keys.is_some() || !jwt.is_empty();
    let fault = if certificates.is_none() {
        Some(("no certificates are accepted", "add `certificates`"))
    } else if !has_others {
        Some(("nothing but certificates is accepted", "add `jwt`, `api_keys` or `basic`"))
    } else if acting.is_some() {
        Some(("`act` of an issuer names an actor, too", "leave one of them out"))
    } else if search.is_some() {
        let help = "leave it out, or put the cluster into a policy of its own";
        Some(("a search cluster's roles are those of one user", help))
    } else if authzen.is_some() {
        Some(("a question of AuthZEN is about one subject", "leave one of them out"))
    } else {
        None
    };
    if let Some((fault, help)) = fault {
        let message = format!("`combine: both` cannot be: {fault}");
        problems.push(Problem::error(at.clone(), message).help(help));
    }
}

/// Reports if API keys and document security use the same header. The header of API keys is always
/// removed, so document security could not set it.
fn check_key_header(identity: &Identity, search: Option<&Search>, problems: &mut Vec<Problem>) {
    if let Some(DocumentSecurity::Header { name, at }) =
        search.map(|search| &search.document_security)
        && identity.api_key_header() == Some(&**name)
    {
        let message = format!("`identity.api_keys` names the header `{name}`, too");
        let help = "take another name: the header of API keys is removed from every request";
        problems.push(Problem::error(at.clone(), message).help(help));
    }
}

struct Names {
    by_name: HashMap<Arc<str>, (RoleId, Place)>,
    in_order: IdVec<RoleId, Arc<str>>,
    incomplete: bool,
    suggestions: Suggestions,
}

impl Names {
    /// Assigns the next id to a role. False if its name is defined already, which is reported.
    fn define(&mut self, role: &UnresolvedRole, problems: &mut Vec<Problem>) -> bool {
        if let Some((_, first)) = self.by_name.get(&role.name) {
            let name = format!("the role `{}`", role.name);
            let help = "rename one, or put their rules together";
            problems.push(Problem::defined_twice(role.at.clone(), &name, help, first.clone()));
            return false;
        }
        let id = self.in_order.push(role.name.clone());
        self.by_name.insert(role.name.clone(), (id, role.at.clone()));
        true
    }

    /// The role with the ids of the roles that it extends, and the place of each of these in its
    /// `extends`.
    fn resolve_role(
        &mut self,
        unresolved: UnresolvedRole,
        conditions: &Conditions,
        problems: &mut Vec<Problem>,
    ) -> (Role, Vec<Place>) {
        let mut extends = Vec::with_capacity(unresolved.extends.len());
        let mut places = Vec::with_capacity(unresolved.extends.len());
        let mut ids = HashSet::new();
        for NameRef { name, at } in &unresolved.extends {
            let at = unresolved.at.in_same_file(*at);
            warn_of_reserved(&unresolved.name, name, &at, problems);
            if let Some(id) = self.find(name, &at, problems)
                && ids.insert(id)
            {
                extends.push(id);
                places.push(at);
            }
        }
        let UnresolvedRole { name, allow, deny, when, at, .. } = unresolved;
        let [allow, deny] = [allow, deny].map(|rules| {
            let rules = rules.into_iter();
            rules
                .map(|UnresolvedRule { mut rule, when, .. }| {
                    let when = when.and_then(|when| conditions.resolve(&when, problems));
                    if let Some(when) = &when {
                        conditions::check_placeholders(&rule, when, problems);
                    }
                    rule.when = conditions::with_claims(&rule, when);
                    rule
                })
                .collect()
        });
        let when = when.and_then(|when| conditions.resolve(&when, problems));
        (Role { name, extends, allow, deny, when, at }, places)
    }

    /// Checks that the roles that tokens may give are roles of the policy.
    fn check_roles_from_token(&mut self, issuer: &Issuer, problems: &mut Vec<Problem>) {
        let RolesFromToken::Only(listed) = &issuer.roles_from_token else { return };
        for ListedRole { name, at } in listed {
            if self.find(name, at, problems).is_some()
                && (**name == *ANYONE || **name == *AUTHENTICATED)
            {
                let message =
                    format!("callers have the role `{name}` without a token that names it");
                let problem = Problem::warning(at.clone(), Warning::ReservedRole, message);
                problems.push(problem.help("leave it out"));
            }
        }
    }

    /// Checks that the policy has each role for which `metadata` has a value.
    fn check_metadata(&mut self, response: &AllowResponse, problems: &mut Vec<Problem>) {
        let values = response.metadata.iter().flat_map(|entry| &entry.values);
        for ListedRole { name, at } in values.filter_map(|(role, _)| role.as_ref()) {
            let help = "define it under `roles`; keys with values for everyone go under `else`";
            self.find_or_help(name, at, help, problems);
        }
    }

    fn resolve_grant(
        &mut self,
        unresolved: &UnresolvedGrant,
        conditions: &Conditions,
        problems: &mut Vec<Problem>,
    ) -> Option<Grant> {
        let role = self.find(&unresolved.role, &unresolved.at, problems)?;
        let [users, groups] = [&unresolved.users, &unresolved.groups]
            .map(|names| names.iter().map(|name| name.name.clone()).collect());
        let when = unresolved.when.as_ref().and_then(|when| conditions.resolve(when, problems));
        Some(Grant { role, users, groups, when, at: unresolved.at.clone() })
    }

    fn find(&mut self, name: &Arc<str>, at: &Place, problems: &mut Vec<Problem>) -> Option<RoleId> {
        self.find_or_help(name, at, "define it under `roles`", problems)
    }

    /// The role with this name. If there is no such role, an error with this help.
    fn find_or_help(
        &mut self,
        name: &Arc<str>,
        at: &Place,
        help: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<RoleId> {
        if let Some((id, _)) = self.by_name.get(name) {
            return Some(*id);
        }
        // The role may be defined in a part of the policy that could not be read.
        if !self.incomplete {
            let problem = Problem::error(at.clone(), format!("unknown role `{name}`"));
            let names = self.in_order.iter().map(|name| &**name);
            problems.push(match self.suggestions.closest(name, names) {
                Some(close) => problem.help(format!("did you mean `{close}`?")),
                None => problem.help(help),
            });
        }
        None
    }
}

/// Warns of a role that extends a reserved role. Callers have the reserved roles anyway, so this is
/// redundant at best. At worst it gives the rules of `authenticated` to everybody.
fn warn_of_reserved(role: &str, extended: &str, at: &Place, problems: &mut Vec<Problem>) {
    let message = match (role, extended) {
        (ANYONE, AUTHENTICATED) => {
            "every caller, even an anonymous caller, may do what `authenticated` may do"
        }
        (ANYONE, _) => return,
        (_, ANYONE) => "every caller has the role `anyone` already",
        (_, AUTHENTICATED) => "every authenticated caller has the role `authenticated` already",
        _ => return,
    };
    let problem = Problem::warning(at.clone(), Warning::ReservedRole, message);
    problems.push(problem.help("leave it out"));
}

/// The state of a role in the depth-first search for cycles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Unvisited,
    OnPath,
    Done,
}

/// Reports each cycle in `extends`, and removes the link that closes the cycle. For each role,
/// `extends_at` has the places of the names in its `extends`.
fn cut_cycles(
    roles: &mut IdVec<RoleId, Role>,
    extends_at: &IdVec<RoleId, Vec<Place>>,
    problems: &mut Vec<Problem>,
) {
    let mut visits: IdVec<RoleId, Visit> = vec![Visit::Unvisited; roles.len()].into();
    let mut closing = Vec::new();
    for start in roles.ids() {
        if *visits.at(start) != Visit::Unvisited {
            continue;
        }
        // The roles from the start to the current role, each with the index of its next link. Not
        // recursive: a chain of roles may be long.
        let mut path = vec![(start, 0_usize)];
        *visits.at_mut(start) = Visit::OnPath;
        while let Some((role, link)) = path.last().copied() {
            let Some(extended) = roles.at(role).extends.get(link).copied() else {
                *visits.at_mut(role) = Visit::Done;
                path.pop();
                continue;
            };
            if let Some((_, next)) = path.last_mut() {
                *next += 1;
            }
            match *visits.at(extended) {
                Visit::Unvisited => {
                    *visits.at_mut(extended) = Visit::OnPath;
                    path.push((extended, 0));
                }
                Visit::OnPath => {
                    closing.push((role, extended));
                    let cycle =
                        path.iter().map(|(role, _)| *role).skip_while(|role| *role != extended);
                    let names: Vec<String> = cycle
                        .chain([extended])
                        .map(|role| format!("`{}`", roles.at(role).name))
                        .collect();
                    let message = format!("roles extend each other: {}", names.join(" -> "));
                    let at = extends_at.at(role).get(link).unwrap_or(&roles.at(role).at).clone();
                    problems
                        .push(Problem::error(at, message).help("leave one of the `extends` out"));
                }
                Visit::Done => {}
            }
        }
    }
    for (role, extended) in closing {
        roles.at_mut(role).extends.retain(|id| *id != extended);
    }
}
