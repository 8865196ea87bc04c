//! Granted names that no caller has, and granted names that two sources could provide.

use std::collections::BTreeSet;

use crate::warnings::Warnings;
use document::{Place, Problem, Suggestions, Warning};
use policy::model::{ANYONE, AUTHENTICATED, Identity, Piece};
use policy::{NameRef, Parsed, UnresolvedGrant};

/// The maximum number of comparisons of a granted name with a source.
pub(crate) const MAX_COMPARISONS: usize = 2_000_000;

/// The maximum number of sources that are compared with each other.
pub(crate) const MAX_SOURCES: usize = 64;

/// Checks the users and groups that the grants name.
pub(crate) fn identities(parsed: &Parsed, problems: &mut Vec<Problem>) {
    let identity = &parsed.policy.identity;
    claims_of_no_token(parsed, identity, problems);
    let sources = sources(identity);
    if sources.is_empty() {
        no_identity(parsed, problems);
    } else {
        ambiguous_names(parsed, &sources, &mut Warnings::new(problems));
        names_of_no_source(parsed, &sources, &mut Warnings::new(problems));
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

/// A source of names.
pub(crate) struct Source<'i> {
    pub(crate) what: String,
    pub(crate) at: &'i Place,
    pub(crate) users: Names<'i>,
    pub(crate) groups: Names<'i>,
}

impl<'i> Source<'i> {
    /// The names of its users (`user`) or of its groups.
    pub(crate) fn names(&self, what: &str) -> &Names<'i> {
        if what == "user" { &self.users } else { &self.groups }
    }
}

/// The names that a source may provide.
pub(crate) struct Names<'i> {
    prefix: &'i str,
    /// The possible names, before the prefix; `None` means any.
    only: Option<BTreeSet<&'i str>>,
}

/// Warns of granted names that two sources could provide, each where it is granted: a comment accepts only the names on
/// its own line.
fn ambiguous_names(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings<'_>) {
    let sources = sources.get(..MAX_SOURCES).unwrap_or(sources);
    let [users, groups] = ["user", "group"].map(|what| sharing(sources, what));
    for grant in &parsed.grants {
        let users = grant.users.iter().map(|named| (named, "user", &users));
        let groups = grant.groups.iter().map(|named| (named, "group", &groups));
        for (named, what, sources) in users.chain(groups) {
            let mut having = sources.clone();
            having.retain(|source| source.names(what).may_be(&named.name));
            if having.len() > 1 {
                warnings.push(ambiguous(grant, named, what, &having));
            }
        }
    }
}

/// The sources that may provide a name that another one may provide too.
pub(crate) fn sharing<'s, 'i>(sources: &'s [Source<'i>], what: &str) -> Vec<&'s Source<'i>> {
    let meets = |one: &Source<'_>| {
        sources
            .iter()
            .any(|other| !std::ptr::eq(one.at, other.at) && one.names(what).may_meet(other.names(what)))
    };
    sources.iter().filter(|source| meets(source)).collect()
}

fn ambiguous(grant: &UnresolvedGrant, named: &NameRef, what: &str, sources: &[&Source<'_>]) -> Problem {
    let message = format!("the granted {what} `{}` may come {}", named.name, listed("from", sources));
    let help = format!("{}, and grant to the name with it", keep_apart(what));
    let problem = Problem::warning(place(grant, named), Warning::AmbiguousName, message).help(help);
    related(problem, sources)
}

/// What to write so that no two sources have the same name. A prefix of its own is not enough: with the prefixes `p`
/// and `pa:` the name `pa:x` is `a:x` of the one and `x` of the other.
pub(crate) fn keep_apart(what: &str) -> String {
    format!("give each a `{what}_prefix` that does not begin with another")
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
    let users = users.take(most).map(|(grant, named)| (grant, named, "user"));
    let groups = groups.take(most).map(|(grant, named)| (grant, named, "group"));
    let mut suggestions = Suggestions::for_a_file();
    for (grant, named, what) in users.chain(groups) {
        let at = place(grant, named);
        if let Some((message, help)) = absent(&named.name, what, sources, &mut suggestions) {
            warnings.push(Problem::warning(at, Warning::UnknownName, message).help(help));
        }
    }
}

/// What is wrong with the granted name of a user or a group that nobody has, and what to write.
fn absent(
    name: &str,
    what: &str,
    sources: &[Source<'_>],
    suggestions: &mut Suggestions,
) -> Option<(String, String)> {
    let is_known = |source: &Source<'_>| source.names(what).only.is_some() && source.names(what).may_be(name);
    if let Some(help) = unlikely(name).filter(|_| !sources.iter().any(is_known)) {
        let message = format!("`{name}` is matched literally as the name of a {what}");
        return Some((message, help.to_owned()));
    }
    let other = if what == "user" { "group" } else { "user" };
    // The sources with the longest prefix that fits.
    let mut likely: Vec<&Source<'_>> = sources.iter().collect();
    likely.retain(|source| name.starts_with(source.names(what).prefix));
    let longest = likely.iter().map(|source| source.names(what).prefix.len()).max();
    likely.retain(|source| Some(source.names(what).prefix.len()) == longest);
    if likely.iter().any(|source| source.names(what).may_be(name)) {
        return None;
    }
    let Some(source) = likely.first() else {
        let message = format!("no {what} is called `{name}`: it has the prefix of no source");
        return Some((message, "write the prefix of its source before it, or leave it out".to_owned()));
    };
    let Names { prefix, only } = source.names(what);
    let own = name.strip_prefix(prefix).unwrap_or(name);
    let help = if source.names(other).only.is_some() && source.names(other).may_be(name) {
        format!("it is a {other}: write it under `{other}s`")
    } else if let Some(near) = suggestions.closest(own, only.iter().flatten().copied()) {
        format!("did you mean `{prefix}{near}`?")
    } else {
        let place =
            if sources.len() == 1 { "add it there" } else { "write the prefix of its source before it" };
        format!("{place}, or leave it out")
    };
    Some((format!("{} has no {what} that is called `{name}`", source.what), help))
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
            only: if issuer.claims.groups.is_some() { None } else { Some(BTreeSet::new()) },
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
