//! Granted names that no caller has, and granted names that two sources could provide.

use std::collections::BTreeSet;

use crate::warnings::Warnings;
use document::{Place, Problem, Suggestions, Warning};
use policy::model::{ANYONE, AUTHENTICATED, Identity, Issuer, Piece};
use policy::{NameRef, Parsed};

/// The maximum number of comparisons of a granted name with a source.
pub(crate) const MAX_COMPARISONS: usize = 2_000_000;

/// The maximum number of sources that are compared with each other.
pub(crate) const MAX_SOURCES: usize = 64;

/// Checks the users and groups that the grants name.
pub(crate) fn identities(parsed: &Parsed, warnings: &mut Warnings) {
    let identity = &parsed.policy.identity;
    let sources = sources(identity);
    if identity.jwt.is_empty() {
        claims_of_no_token(parsed, warnings);
    }
    if !sources.is_empty() {
        ambiguous_names(parsed, &sources, warnings);
        names_of_no_source(parsed, &sources, warnings);
    } else if let Some(grant) = parsed.grants.first() {
        let message = "no way to authenticate is configured, so nobody has a granted role";
        let problem = Problem::warning(grant.at.clone(), Warning::NoIdentity, message);
        warnings.push(problem.help("add `identity`"));
    }
}

/// Warns of `{claims.…}` in a header where no tokens are accepted: it is then always empty.
fn claims_of_no_token(parsed: &Parsed, warnings: &mut Warnings) {
    for header in &parsed.policy.allow_response.set_headers {
        if header.value.0.iter().any(|piece| matches!(piece, Piece::Claim(_))) {
            let message =
                format!("`{}` is always without its claim: no tokens are accepted", header.name);
            let help = "add an issuer under `identity.jwt`, or leave the header out";
            warnings.push(
                Problem::warning(header.at.clone(), Warning::UnknownClaim, message).help(help),
            );
        }
    }
}

/// The names of users (`user`) and groups that the grants have, each with its place.
fn granted(parsed: &Parsed) -> impl Iterator<Item = (&Place, &NameRef, &'static str)> {
    parsed.grants.iter().flat_map(|grant| {
        let users = grant.users.iter().map(|name| (&grant.at, name, "user"));
        users.chain(grant.groups.iter().map(|name| (&grant.at, name, "group")))
    })
}

/// Why a granted name is not what its author probably means: names are compared byte for byte, and
/// no name stands for all callers.
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
    /// `None` for Basic.
    pub(crate) issuer: Option<&'i Issuer>,
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

/// Warns of granted names that two sources could provide, each where it is granted: a comment
/// accepts only the names on its own line.
fn ambiguous_names(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings) {
    let sources = sources.get(..MAX_SOURCES).unwrap_or(sources);
    let (users, groups) = (sharing(sources, "user"), sharing(sources, "group"));
    for (file, name, what) in granted(parsed) {
        let mut sources = if what == "user" { users.clone() } else { groups.clone() };
        sources.retain(|source| source.names(what).may_be(&name.name));
        if sources.len() > 1 {
            let from = listed("from", &sources);
            let message = format!("the granted {what} `{}` may come {from}", name.name);
            let help = format!("{}, and grant to the name with it", keep_apart(what));
            let problem = Problem::warning(file.beside(name.at), Warning::AmbiguousName, message);
            warnings.push(related(problem.help(help), &sources));
        }
    }
}

/// The sources that may provide a name that another one may provide too.
pub(crate) fn sharing<'s, 'i>(sources: &'s [Source<'i>], what: &str) -> Vec<&'s Source<'i>> {
    let meets = |one: &Source<'_>| {
        sources.iter().any(|other| {
            !std::ptr::eq(one.at, other.at) && one.names(what).may_meet(other.names(what))
        })
    };
    sources.iter().filter(|source| meets(source)).collect()
}

/// What to write so that no two sources have the same name. A prefix of its own is not enough: with
/// the prefixes `p` and `pa:` the name `pa:x` is `a:x` of the one and `x` of the other.
pub(crate) fn keep_apart(what: &str) -> String {
    format!("give each a `{what}_prefix` that does not begin with another")
}

/// The maximum number of sources that a warning names.
pub(crate) const MAX_LISTED: usize = 8;

/// `from Basic, from `a` and from `b``.
pub(crate) fn listed(preposition: &str, sources: &[&Source<'_>]) -> String {
    let more = sources.len().saturating_sub(MAX_LISTED);
    let shown = sources.iter().take(MAX_LISTED);
    let mut parts: Vec<String> =
        shown.map(|source| format!("{preposition} {}", source.what)).collect();
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

/// Warns of granted names that the source with their prefix does not have. An issuer without a
/// prefix may have a user with any name, but hardly one that begins with the prefix of another
/// source.
fn names_of_no_source(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings) {
    // Names × sources: a policy with very many of both gets only some of these warnings.
    let max_names = MAX_COMPARISONS / sources.len().max(1);
    let mut suggestions = Suggestions::for_a_file();
    for (file, name, what) in granted(parsed).take(max_names) {
        if let Some((message, help)) = absent(&name.name, what, sources, &mut suggestions) {
            let problem = Problem::warning(file.beside(name.at), Warning::UnknownName, message);
            warnings.push(problem.help(help));
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
    let is_known =
        |source: &Source<'_>| source.names(what).only.is_some() && source.names(what).may_be(name);
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
        return Some((
            message,
            "write the prefix of its source before it, or leave it out".to_owned(),
        ));
    };
    let Names { prefix, only } = source.names(what);
    let own = name.strip_prefix(prefix).unwrap_or(name);
    let help = if source.names(other).only.is_some() && source.names(other).may_be(name) {
        format!("it is a {other}: write it under `{other}s`")
    } else if let Some(near) = suggestions.closest(own, only.iter().flatten().copied()) {
        format!("did you mean `{prefix}{near}`?")
    } else {
        let place = if sources.len() == 1 {
            "add it there"
        } else {
            "write the prefix of its source before it"
        };
        format!("{place}, or leave it out")
    };
    Some((format!("{} has no {what} that is called `{name}`", source.what), help))
}

pub(crate) fn sources(identity: &Identity) -> Vec<Source<'_>> {
    let basic = identity.basic.iter().map(|basic| Source {
        what: "Basic".to_owned(),
        at: &basic.at,
        issuer: None,
        users: Names {
            prefix: &basic.user_prefix,
            only: basic.verify.then(|| basic.users.iter().map(|user| &*user.name).collect()),
        },
        groups: Names {
            prefix: &basic.group_prefix,
            only: Some(
                basic.users.iter().flat_map(|user| &user.groups).map(|group| &**group).collect(),
            ),
        },
    });
    let jwt = identity.jwt.iter().map(|issuer| Source {
        what: format!("`{}`", issuer.issuer),
        at: &issuer.at,
        issuer: Some(issuer),
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
        let may_have =
            |one: &Self, names: &Self| match (&names.only, one.prefix.strip_prefix(names.prefix)) {
                // Without a text for each of perhaps a million users.
                (Some(only), Some(rest)) if one.only.is_none() => {
                    only.iter().any(|own| own.len() > rest.len() && own.starts_with(rest))
                }
                (Some(only), _) => {
                    only.iter().any(|own| one.may_be(&format!("{}{own}", names.prefix)))
                }
                (None, _) => true,
            };
        if other.only.is_some() { may_have(self, other) } else { may_have(other, self) }
    }

    pub(crate) fn may_be(&self, name: &str) -> bool {
        let own = name.strip_prefix(self.prefix).filter(|own| !own.is_empty());
        own.is_some_and(|own| self.only.as_ref().is_none_or(|only| only.contains(own)))
    }
}
