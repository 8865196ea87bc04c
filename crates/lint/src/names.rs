//! Granted names that no caller has, and granted names that two sources could provide.

use std::collections::BTreeSet;
use std::path::Path;

use foldhash::HashSet;

use crate::similar_names::{MAX_COMPARISONS, Work, differ_by_prefix};
use crate::warnings::Warnings;
use document::{Place, Problem, Warning, closest};
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Basic, Identity, Piece, Policy, Role, RoleId};
use policy::{NameRef, Parsed, UnresolvedGrant};

/// The maximum number of sources that are compared with each other.
pub(crate) const MAX_SOURCES: usize = 64;

/// Checks the users and groups that the grants name.
pub(crate) fn identities(parsed: &Parsed, problems: &mut Vec<Problem>) {
    let identity = &parsed.policy.identity;
    claims_of_no_token(parsed, identity, problems);
    match &identity.basic {
        Some(basic) if basic.verify && identity.jwt.is_empty() => {
            unknown_names(parsed, basic, &mut Warnings::new(problems));
        }
        None if identity.jwt.is_empty() => no_identity(parsed, problems),
        Some(_) | None => {
            let sources = sources(identity);
            ambiguous_names(parsed, &sources, &mut Warnings::new(problems));
            names_of_no_source(parsed, &sources, &mut Warnings::new(problems));
        }
    }
}

/// Warns of `{claims.…}` in a header if no tokens are accepted: it is then always empty.
fn claims_of_no_token(parsed: &Parsed, identity: &Identity, problems: &mut Vec<Problem>) {
    if !identity.jwt.is_empty() {
        return;
    }
    for header in &parsed.policy.allow_response.set_headers {
        if header.value.0.iter().any(|piece| matches!(piece, Piece::Claim(_))) {
            let message = format!("`{}` is always without its claim: no tokens are accepted", header.name);
            let help = "add an issuer under `identity.jwt`, or leave the header out";
            problems.push(Problem::warning(header.at.clone(), Warning::UnknownClaim, message).help(help));
        }
    }
}

fn no_identity(parsed: &Parsed, problems: &mut Vec<Problem>) {
    if let Some(grant) = parsed.grants.first() {
        let message = "no way to authenticate is configured, so nobody has a granted role";
        problems
            .push(Problem::warning(grant.at.clone(), Warning::NoIdentity, message).help("add `identity`"));
    }
}

/// Warns of granted names that are not users of Basic, if Basic is the only source.
fn unknown_names(parsed: &Parsed, basic: &Basic, warnings: &mut Warnings<'_>) {
    let users = basic.users.iter().map(|user| format!("{}{}", basic.user_prefix, user.name)).collect();
    let groups = basic.users.iter().flat_map(|user| &user.groups);
    let groups = groups.map(|group| format!("{}{group}", basic.group_prefix)).collect();
    let mut users = Known { names: users, work: Work::default() };
    let mut groups = Known { names: groups, work: Work::default() };
    for grant in &parsed.grants {
        for named in &grant.users {
            users.expect(grant, named, "user", &groups, warnings);
        }
        for named in &grant.groups {
            groups.expect(grant, named, "group", &users, warnings);
        }
    }
}

/// Why a granted name is not what its author probably means: names are compared byte for byte, and no name stands for
/// all callers.
fn unlikely(name: &str) -> Option<&'static str> {
    let all = "the rules of the role `anyone` apply to every caller, those of `authenticated` to every one with \
               credentials: neither is granted";
    match name {
        "*" | "**" | "all" | "any" | ANYONE | AUTHENTICATED | "anonymous" | "everyone" => Some(all),
        _ if name.contains('*') => Some("name each user or group: `*` in a name is literal"),
        _ => None,
    }
}

/// The known names.
struct Known {
    names: BTreeSet<String>,
    work: Work,
}

impl Known {
    fn expect(
        &mut self,
        grant: &UnresolvedGrant,
        named: &NameRef,
        what: &str,
        others: &Self,
        warnings: &mut Warnings<'_>,
    ) {
        if self.names.contains(&*named.name) {
            return;
        }
        let problem = Problem::warning(
            place(grant, named),
            Warning::UnknownName,
            format!("no {what} is called `{}`", named.name),
        );
        let other = if what == "user" { "group" } else { "user" };
        if let Some(help) = unlikely(&named.name) {
            warnings.push(problem.help(help));
            return;
        }
        if others.names.contains(&*named.name) {
            warnings.push(problem.help(format!("it is a {other}: write it under `{other}s`")));
            return;
        }
        warnings.push(match self.near(&named.name) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help("`basic.users` names users and their groups, `users_file` more users"),
        });
    }

    fn near(&mut self, name: &str) -> Option<String> {
        if !self.work.take(self.names.len()) {
            return None;
        }
        let mut names = self.names.iter().map(String::as_str);
        let near = names.clone().find(|known| differ_by_prefix(name, known));
        near.or_else(|| self.work.suggestions.closest(name, &mut names)).map(str::to_owned)
    }
}

/// A source of names.
pub(crate) struct Source<'i> {
    pub(crate) what: String,
    pub(crate) at: &'i Place,
    pub(crate) users: Names<'i>,
    pub(crate) groups: Names<'i>,
}

/// The names that a source may provide.
pub(crate) struct Names<'i> {
    prefix: &'i str,
    /// The possible names, before the prefix; `None` means any.
    only: Option<HashSet<&'i str>>,
}

/// Warns of granted names that two sources could provide, each where it is granted: a comment accepts only the names on
/// its own line.
fn ambiguous_names(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings<'_>) {
    let sources = sources.get(..MAX_SOURCES).unwrap_or(sources);
    let users = sources.iter().map(|source| (source, &source.users)).collect();
    let groups = sources.iter().map(|source| (source, &source.groups)).collect();
    let [users, groups] = [users, groups].map(sources_of_shared);
    for grant in &parsed.grants {
        for (named, what, sources) in grant
            .users
            .iter()
            .map(|named| (named, "user", &users))
            .chain(grant.groups.iter().map(|named| (named, "group", &groups)))
        {
            let having: Vec<_> =
                sources.iter().filter(|(_, names)| names.may_be(&named.name)).copied().collect();
            if having.len() > 1 {
                warnings.push(ambiguous(grant, named, what, &having));
            }
        }
    }
}

/// The sources that may provide a name that another one may provide too.
fn sources_of_shared<'s, 'i>(
    all: Vec<(&'s Source<'i>, &'s Names<'i>)>,
) -> Vec<(&'s Source<'i>, &'s Names<'i>)> {
    let meets =
        |one: &Names<'_>| all.iter().any(|(_, other)| !std::ptr::eq(one, *other) && one.may_meet(other));
    all.iter().copied().filter(|(_, names)| meets(names)).collect()
}

fn ambiguous(
    grant: &UnresolvedGrant,
    named: &NameRef,
    what: &str,
    having: &[(&Source<'_>, &Names<'_>)],
) -> Problem {
    let (sources, names): (Vec<_>, Vec<_>) = having.iter().copied().unzip();
    let message = format!("the granted {what} `{}` may come {}", named.name, listed("from", &sources));
    let help = format!("{}, and grant to the name with it", keep_apart(what, &names));
    let problem = Problem::warning(place(grant, named), Warning::AmbiguousName, message).help(help);
    related(problem, &sources)
}

/// What to write so that no two of these have the same name. A prefix of its own is not enough: with the prefixes `p`
/// and `pa:` the name `pa:x` is `a:x` of the one and `x` of the other.
pub(crate) fn keep_apart(what: &str, names: &[&Names<'_>]) -> String {
    let mut prefixes: Vec<&str> = names.iter().map(|names| names.prefix).collect();
    prefixes.sort_unstable();
    let distinct = prefixes.is_sorted_by(|one, next| one < next) && !prefixes.contains(&"");
    let nested = prefixes.iter().zip(prefixes.iter().skip(1)).find(|(one, next)| next.starts_with(**one));
    // A name of Basic that begins with the prefix of the issuer.
    let is_of_issuer = |names: &&Names<'_>| names.only.is_none() && !names.prefix.is_empty();
    let is_of_basic = |names: &&Names<'_>| names.only.is_some() && names.prefix.is_empty();
    match nested.filter(|_| distinct) {
        None if names.len() == 2 && names.iter().any(is_of_issuer) && names.iter().any(is_of_basic) => {
            format!("give `basic` a `{what}_prefix`")
        }
        Some((one, next)) => {
            format!(
                "`{next}` begins with `{one}`: give each a `{what}_prefix` that does not begin with another"
            )
        }
        // Of Basic the names are known: none of them begins with a prefix that is chosen for an issuer.
        None if names.iter().any(|names| names.only.is_some()) => match names.len() {
            2 => format!("give the issuer a `{what}_prefix`"),
            _ => format!("give each issuer a `{what}_prefix` of its own"),
        },
        None => format!("give each a `{what}_prefix` of its own"),
    }
}

/// The maximum number of sources that a warning names.
pub(crate) const MAX_LISTED: usize = 8;

/// `from Basic, from `a` and from `b``.
pub(crate) fn listed(preposition: &str, sources: &[&Source<'_>]) -> String {
    let more = sources.len().saturating_sub(MAX_LISTED);
    let shown = sources.iter().take(MAX_LISTED);
    let mut parts: Vec<String> = shown.map(|source| format!("{preposition} {}", source.what)).collect();
    if more > 0 {
        parts.push(format!("{preposition} {more} more"));
    }
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}

/// Adds where the sources are.
pub(crate) fn related(problem: Problem, sources: &[&Source<'_>]) -> Problem {
    sources.iter().take(MAX_LISTED).fold(problem, |problem, source| {
        problem.related(source.at.clone(), format!("{} is here", source.what))
    })
}

/// Warns of granted names that the source with their prefix does not have. An issuer without a prefix may have a user
/// with any name, but hardly one that begins with the prefix of another source.
fn names_of_no_source(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings<'_>) {
    // Names × sources: a policy with very many of both gets only some of these warnings.
    let most = MAX_COMPARISONS / sources.len().max(1);
    let users = parsed.grants.iter().flat_map(|grant| grant.users.iter().map(move |named| (grant, named)));
    let groups = parsed.grants.iter().flat_map(|grant| grant.groups.iter().map(move |named| (grant, named)));
    let mut work = Work::default();
    for (grant, named) in users.take(most) {
        let names = sources.iter().map(|source| (source, &source.users));
        warn_of_absent(grant, named, "user", names, &mut work, warnings);
    }
    for (grant, named) in groups.take(most) {
        let names = sources.iter().map(|source| (source, &source.groups));
        warn_of_absent(grant, named, "group", names, &mut work, warnings);
    }
}

fn warn_of_absent<'s, 'i: 's>(
    grant: &UnresolvedGrant,
    named: &NameRef,
    what: &str,
    sources: impl Iterator<Item = (&'s Source<'i>, &'s Names<'i>)>,
    work: &mut Work,
    warnings: &mut Warnings<'_>,
) {
    let name = &named.name;
    if let Some(help) = unlikely(name) {
        let message = format!("`{name}` is matched literally as the name of a {what}");
        warnings.push(Problem::warning(place(grant, named), Warning::UnknownName, message).help(help));
        return;
    }
    // The sources with the longest prefix that fits.
    let sources: Vec<_> = sources.collect();
    let mut likely = sources.clone();
    likely.retain(|(_, names)| name.starts_with(names.prefix));
    let longest = likely.iter().map(|(_, names)| names.prefix.len()).max();
    likely.retain(|(_, names)| Some(names.prefix.len()) == longest);
    if likely.iter().any(|(_, names)| names.may_be(name)) {
        return;
    }
    let count = sources.iter().map(|(_, names)| names.only.as_ref().map_or(0, HashSet::len)).sum();
    let may_compare = work.take(count);
    let with_prefix = sources.iter().filter(|_| may_compare).find_map(|(_, names)| {
        let known = names.only.iter().flatten().map(|own| format!("{}{own}", names.prefix));
        known.filter(|known| differ_by_prefix(name, known)).min()
    });
    // An issuer may have any name, so the author may have left out its prefix.
    let left_out = if longest.unwrap_or(0) > 0 { Vec::new() } else { prefixed(name, &sources) };
    let (message, near) = match (with_prefix, likely.first()) {
        (Some(near), _) => (format!("no {what} is called `{name}`"), Some(near)),
        (None, Some((source, names))) => {
            let own = name.strip_prefix(names.prefix).unwrap_or(name);
            let mut known: Vec<&str> = names.only.iter().flatten().copied().filter(|_| may_compare).collect();
            known.sort_unstable();
            let near = work.suggestions.closest(own, known).map(|near| format!("{}{near}", names.prefix));
            let message = match left_out.first() {
                None => format!("{} has no {what} that is called `{name}`", source.what),
                Some(_) => format!("no {what} is called `{name}`"),
            };
            (message, near)
        }
        (None, None) => (format!("no {what} is called `{name}`: it has the prefix of no source"), None),
    };
    let problem = Problem::warning(place(grant, named), Warning::UnknownName, message);
    let quoted = |names: Vec<String>| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(" or ")
    };
    // Of Basic the names are known: rather than a mistyped one, this may be one that was removed.
    let knows = |names: &Names<'_>| names.only.as_ref().is_some_and(|only| !only.is_empty());
    let closed = likely.first().filter(|(_, names)| knows(names)).map(|(source, _)| source);
    warnings.push(match (near, closed) {
        (Some(near), _) => problem.help(format!("did you mean `{near}`?")),
        (None, _) if left_out.is_empty() => problem,
        (None, Some(source)) => problem.help(format!(
            "remove the name, or add the {what} to {}; the {what} of a token would be {}",
            source.what,
            quoted(left_out)
        )),
        (None, None) => problem.help(format!("did you mean {}?", quoted(left_out))),
    });
}

/// The maximum number of sources whose prefix is suggested.
const MAX_SUGGESTED: usize = 3;

/// This name with the prefix of each source that may have any name; where it begins with a misspelled prefix, with the
/// right one.
fn prefixed(name: &str, sources: &[(&Source<'_>, &Names<'_>)]) -> Vec<String> {
    let open = sources.iter().filter(|(_, names)| names.only.is_none());
    let mut meant: Vec<String> = open
        .filter_map(|(_, Names { prefix, .. })| {
            let separator = prefix.chars().next_back()?;
            let end = name.find(separator).filter(|end| *end > 0 && !separator.is_alphanumeric());
            let Some((head, own)) = end.and_then(|end| name.split_at_checked(end + separator.len_utf8()))
            else {
                return Some(format!("{prefix}{name}"));
            };
            (!own.is_empty()).then(|| closest(head, [*prefix]))?.map(|prefix| format!("{prefix}{own}"))
        })
        .take(MAX_SUGGESTED)
        .collect();
    meant.dedup();
    meant
}

pub(crate) fn sources(identity: &Identity) -> Vec<Source<'_>> {
    let basic = identity.basic.iter().map(|basic| Source {
        what: "Basic".to_owned(),
        at: &basic.at,
        users: Names {
            prefix: &basic.user_prefix,
            only: basic.verify.then(|| basic.users.iter().map(|user| &*user.name).collect()),
        },
        groups: Names {
            prefix: &basic.group_prefix,
            only: Some(basic.users.iter().flat_map(|user| &user.groups).map(|group| &**group).collect()),
        },
    });
    let jwt = identity.jwt.iter().map(|issuer| Source {
        what: format!("`{}`", issuer.issuer),
        at: &issuer.at,
        users: Names { prefix: &issuer.user_prefix, only: None },
        groups: Names {
            prefix: &issuer.group_prefix,
            only: if issuer.claims.groups.is_some() { None } else { Some(HashSet::default()) },
        },
    });
    basic.chain(jwt).collect()
}

impl Names<'_> {
    /// Whether another source may provide a name that this one may provide.
    pub(crate) fn may_meet(&self, other: &Self) -> bool {
        if !self.prefix.starts_with(other.prefix) && !other.prefix.starts_with(self.prefix) {
            return false;
        }
        let may_have = |one: &Self, names: &Self| match (&names.only, one.prefix.strip_prefix(names.prefix)) {
            // Without a text for each of perhaps a million users.
            (Some(only), Some(rest)) if one.only.is_none() => {
                only.iter().any(|own| own.len() > rest.len() && own.starts_with(rest))
            }
            (Some(only), _) => only.iter().any(|own| one.may_be(&format!("{}{own}", names.prefix))),
            (None, _) => true,
        };
        if other.only.is_some() { may_have(self, other) } else { may_have(other, self) }
    }

    pub(crate) fn may_be(&self, name: &str) -> bool {
        let own = name.strip_prefix(self.prefix).filter(|own| !own.is_empty());
        own.is_some_and(|own| self.only.as_ref().is_none_or(|only| only.contains(own)))
    }
}

fn place(grant: &UnresolvedGrant, named: &NameRef) -> Place {
    Place { line: named.at.line, column: named.at.column, file: grant.at.file.clone() }
}

/// Warns of a policy without a role: it is probably a part of one, such as a file that was cut off.
pub(crate) fn no_roles(policy: &Policy, file: &Path, problems: &mut Vec<Problem>) {
    if policy.roles.is_empty() && policy.search.is_none() {
        let message = "there is no role, so every request is denied";
        let problem = Problem::warning(Place::start_of(file), Warning::NoRoles, message);
        problems.push(problem.help("add `roles`; if the policy had some, a part of it is missing"));
    }
}

/// Warns of each role that no caller can have.
pub(crate) fn roles(policy: &Policy, problems: &mut Vec<Problem>) {
    let by_token = |role: &Role| policy.identity.jwt.iter().any(|issuer| issuer.may_give(&role.name));
    let by_token = policy.roles.entries().filter(|(_, role)| by_token(role)).map(|(id, _)| id);
    let mut open: Vec<RoleId> = policy.grants.iter().map(|grant| grant.role).chain(by_token).collect();
    let is_granted = !open.is_empty();
    let mut had: IdVec<RoleId, bool> = vec![false; policy.roles.len()].into();
    open.extend([ANYONE, AUTHENTICATED].into_iter().filter_map(|name| policy.role(name)));
    while let Some(role) = open.pop() {
        if !std::mem::replace(had.at_mut(role), true) {
            open.extend(&policy.roles.at(role).extends);
        }
    }
    let mut unused = policy.roles.entries().filter(|(id, _)| !*had.at(*id)).map(|(_, role)| role);
    if !is_granted {
        // One warning is enough for all of them.
        problems.extend(unused.next().map(no_grants));
        return;
    }
    let mut warnings = Warnings::new(problems);
    for role in unused {
        let message = format!("nobody has the role `{}`", role.name);
        let help = match role.name.to_ascii_lowercase().as_str() {
            name if name == "guest" || sounds_like_anyone(name) => CALL_IT_ANYONE,
            "users" | "user" | "logged_in" | "authenticated" | "signed_in" => {
                "grant it, or call it `authenticated`, the role of every caller with credentials"
            }
            _ => "name it under `grants`, or let a role that is granted extend it",
        };
        warnings.push(Problem::warning(role.at.clone(), Warning::UnusedRole, message).help(help));
    }
    drop(warnings);
    like_anyone(policy, &had, &mut Warnings::new(problems));
}

fn no_grants(role: &Role) -> Problem {
    let is_like = sounds_like_anyone(&role.name.to_ascii_lowercase());
    let help = if is_like { CALL_IT_ANYONE } else { "add `grants`" };
    Problem::warning(role.at.clone(), Warning::UnusedRole, "no role is granted to anybody").help(help)
}

/// What to write instead of a role that sounds as if every caller had it, and that nobody has.
const CALL_IT_ANYONE: &str = "grant it, or call it `anyone`, the role that every caller has";

/// Whether a name, in lower case, sounds as if every caller had the role. A guest may be a user.
fn sounds_like_anyone(name: &str) -> bool {
    matches!(name, "*" | "all" | "any" | "everyone" | "everybody" | "public" | "anonymous" | "anonymous_user")
}

/// Warns of each role that sounds as if every caller had it, and that only some have.
fn like_anyone(policy: &Policy, had: &IdVec<RoleId, bool>, warnings: &mut Warnings<'_>) {
    let mut everybodys: IdVec<RoleId, bool> = vec![false; policy.roles.len()].into();
    let mut open: Vec<RoleId> = [ANYONE, AUTHENTICATED].iter().filter_map(|name| policy.role(name)).collect();
    while let Some(role) = open.pop() {
        if !std::mem::replace(everybodys.at_mut(role), true) {
            open.extend(&policy.roles.at(role).extends);
        }
    }
    for (_, role) in policy.roles.entries().filter(|(id, _)| *had.at(*id) && !*everybodys.at(*id)) {
        if sounds_like_anyone(&role.name.to_ascii_lowercase()) {
            let message =
                format!("`{}` is a role like any other: only callers to whom it is given have it", role.name);
            let help = "call it `anyone`, the role that every caller has, or `authenticated`, that of every caller with \
                        credentials: neither is granted or extended";
            warnings.push(Problem::warning(role.at.clone(), Warning::LikeAnyone, message).help(help));
        }
    }
}
