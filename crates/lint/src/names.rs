//! Granted names that no caller has, and granted names that callers from two sources can have.

use std::collections::BTreeSet;

use condition::{Attribute, Comparison, Constant, Expression};
use document::{Place, Problem, Suggestions, Warning};
use policy::model::{ANYONE, AUTHENTICATED, Piece, Policy};
use policy::{NameRef, Parsed};

use crate::conditions::with_places;
use crate::sources::{
    MAX_COMPARISONS, Names, Source, help_to_keep_apart, join_labels, overlapping,
};
use crate::warnings::Warnings;

/// The help for a name without the prefix of a source.
const ADD_PREFIX: &str =
    "write the prefix of its source before the name, or remove the name from the grants";

/// Warns of `{claims.…}` in a header or in metadata where no tokens are accepted: it is then
/// always empty.
pub(crate) fn claims_without_tokens(policy: &Policy, warnings: &mut Warnings) {
    if !policy.identity.jwt.is_empty() {
        return;
    }
    for (name, at, template) in policy.allow_response.templates() {
        if template.0.iter().any(|piece| matches!(piece, Piece::Claim(_))) {
            let message = format!("`{name}` is always without its claim: no tokens are accepted");
            let problem = Problem::warning(at.clone(), Warning::UnknownClaim, message);
            let help = "add an issuer under `identity.jwt`, or leave it out";
            warnings.push(problem.help(help));
        }
    }
}

/// The users (`user`) and groups (`group`) in the grants, each with its place.
fn granted(parsed: &Parsed) -> impl Iterator<Item = (Place, &NameRef, &'static str)> {
    parsed.grants.iter().flat_map(|grant| {
        let users = grant.users.iter().map(|name| (name, "user"));
        let names = users.chain(grant.groups.iter().map(|name| (name, "group")));
        names.map(|(name, kind)| (grant.at.in_same_file(name.at), name, kind))
    })
}

/// Warns of granted names that callers from two sources can have. There is one warning for users
/// and one for groups, at the last source, so that an `# accept:` comment does not cover a source
/// that is added later.
pub(crate) fn ambiguous_names(parsed: &Parsed, sources: &[&Source<'_>], warnings: &mut Warnings) {
    for kind in ["user", "group"] {
        let mut overlapping = overlapping(sources, kind);
        let mut ambiguous: Vec<(Place, &NameRef)> = Vec::new();
        for (at, name, _) in granted(parsed).filter(|(.., granted_kind)| *granted_kind == kind) {
            let providers = overlapping.iter().filter(|s| s.names(kind).include(&name.name));
            if providers.count() > 1 {
                ambiguous.push((at, name));
            }
        }
        overlapping.retain(|s| ambiguous.iter().any(|(_, name)| s.names(kind).include(&name.name)));
        let Some(source) = overlapping.last() else { continue };
        let message = format!(
            "callers {} can have the same {kind} name, and it is granted",
            join_labels("from", &overlapping)
        );
        let problem = Problem::warning(source.at.clone(), Warning::AmbiguousName, message);
        let places =
            ambiguous.iter().map(|(at, name)| (at.clone(), format!("`{}` is granted", name.name)));
        let help = match with_foreign_prefix(&overlapping, kind, &ambiguous) {
            Some((source, name)) => format!(
                "{} has no `{kind}_prefix`, so it may have a {kind} `{name}` of its own: give the \
                 source a prefix",
                source.label
            ),
            None => help_to_keep_apart(kind),
        };
        let help = format!("{help}, and write the prefix in the grants");
        warnings.push(problem.help(help).places(places));
    }
}

/// A source without a prefix, and a granted name of it that begins with the prefix of another
/// source.
fn with_foreign_prefix<'s, 'i>(
    sources: &[&'s Source<'i>],
    kind: &str,
    names: &'s [(Place, &NameRef)],
) -> Option<(&'s Source<'i>, &'s str)> {
    let mut pairs = sources
        .iter()
        .filter(|source| source.names(kind).prefix.is_empty())
        .flat_map(|source| names.iter().map(move |(_, name)| (*source, &*name.name)));
    pairs.find(|(source, name)| {
        let with_prefix = sources.iter().filter(|s| !s.names(kind).prefix.is_empty());
        source.names(kind).include(name)
            && with_prefix.map(|s| s.names(kind)).any(|names| names.include(name))
    })
}

/// Warns of granted names that no caller has. A policy with `authzen` and without a source gets no
/// warning: a question may name anybody. If a name begins with the prefixes of several sources,
/// only the sources with the longest prefix are searched.
pub(crate) fn unknown_names(parsed: &Parsed, sources: &[Source<'_>], warnings: &mut Warnings) {
    if sources.is_empty() && parsed.policy.authzen.is_some() {
        return;
    }
    if sources.is_empty()
        && let Some(grant) = parsed.grants.first()
    {
        let message = "no way to authenticate is configured, so nobody has a granted role";
        let problem = Problem::warning(grant.at.clone(), Warning::NoIdentity, message);
        warnings.push(problem.help("add `identity`"));
        return;
    }
    // Each name is compared with each source. A policy with very many of both gets only some of
    // these warnings.
    let max_names = MAX_COMPARISONS / sources.len().max(1);
    let mut suggestions = Suggestions::with_file_limit();
    for (at, name, kind) in granted(parsed).take(max_names) {
        if let Some((message, help)) = unknown(&name.name, kind, sources, &mut suggestions) {
            warnings.push(Problem::warning(at, Warning::UnknownName, message).help(help));
        }
    }
}

/// Warns of names in conditions that no caller has, such as a group without the prefix of its
/// issuer: a comparison with such a name has the same result for all callers. Each name is reported
/// once.
pub(crate) fn unknown_names_in_conditions(
    policy: &Policy,
    sources: &[Source<'_>],
    warnings: &mut Warnings,
) {
    // A question of AuthZEN may name anybody.
    if sources.is_empty() || policy.authzen.is_some() {
        return;
    }
    let max_names = MAX_COMPARISONS / sources.len().max(1);
    let mut suggestions = Suggestions::with_file_limit();
    let mut looked_up = BTreeSet::new();
    for (when, at) in with_places(policy) {
        let mut names = Vec::new();
        collect_names(&when.expression, &mut names);
        for (kind, name) in names {
            if looked_up.len() >= max_names || !looked_up.insert((kind, name)) {
                continue;
            }
            if let Some((message, help)) = unknown(name, kind, sources, &mut suggestions) {
                let help = help.replace("from the grants", "from the condition");
                let problem = Problem::warning(at.clone(), Warning::UnknownName, message);
                warnings.push(problem.help(help));
            }
        }
    }
}

/// The users and groups that a condition compares with those of the caller.
fn collect_names<'e>(expression: &'e Expression, names: &mut Vec<(&'static str, &'e str)>) {
    let user = Expression::Attribute(Attribute::User);
    let groups = Expression::Attribute(Attribute::Groups);
    match expression {
        Expression::In(name, list) if **list == groups => {
            names.extend(text(name).map(|name| ("group", name)));
        }
        Expression::In(name, list) if **name == user => {
            if let Expression::Constant(Constant::List(items)) = &**list {
                names.extend(items.iter().filter_map(|item| match item {
                    Constant::Text(name) => Some(("user", &**name)),
                    _ => None,
                }));
            }
        }
        Expression::Compare(Comparison::Equal | Comparison::NotEqual, left, right) => {
            let name = if **left == user { text(right) } else { None };
            let name = name.or_else(|| if **right == user { text(left) } else { None });
            names.extend(name.map(|name| ("user", name)));
        }
        _ => {}
    }
    for part in expression.parts() {
        collect_names(part, names);
    }
}

fn text(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Constant(Constant::Text(text)) => Some(text),
        _ => None,
    }
}

/// The message and the help for a granted user or group that no caller has.
fn unknown(
    name: &str,
    kind: &str,
    sources: &[Source<'_>],
    suggestions: &mut Suggestions,
) -> Option<(String, String)> {
    let is_listed = sources.iter().any(|source| source.names(kind).is_listed(name));
    if let Some(help) = literal_help(name).filter(|_| !is_listed) {
        let message = format!("`{name}` is matched literally as the name of a {kind}");
        return Some((message, help.to_owned()));
    }
    // The sources with the longest prefix with which the name begins.
    let mut likely: Vec<&Source<'_>> = sources.iter().collect();
    likely.retain(|source| name.starts_with(source.names(kind).prefix));
    let longest = likely.iter().map(|source| source.names(kind).prefix.len()).max();
    likely.retain(|source| Some(source.names(kind).prefix.len()) == longest);
    let Some(source) = likely.first() else {
        let message = format!("no {kind} is called `{name}`: it has the prefix of no source");
        return Some((message, ADD_PREFIX.to_owned()));
    };
    if likely.iter().any(|source| source.names(kind).include(name)) {
        return None;
    }
    let Names { prefix, listed } = source.names(kind);
    let other_kind = if kind == "user" { "group" } else { "user" };
    let without_prefix = name.strip_prefix(prefix).unwrap_or(name);
    let is_source_certain = sources.len() == 1 || !prefix.is_empty() && !without_prefix.is_empty();
    let help = if source.names(other_kind).is_listed(name) {
        format!("it is a {other_kind}: write it under `{other_kind}s`")
    } else if let Some(close) =
        suggestions.closest(without_prefix, listed.iter().flatten().copied())
    {
        format!("did you mean `{prefix}{close}`?")
    } else if !is_source_certain {
        ADD_PREFIX.to_owned()
    } else {
        let file = source.users_file.filter(|_| kind == "user" && !without_prefix.is_empty());
        let remedy = match (file, source.issuer) {
            (Some(file), _) => format!("add a line for `{without_prefix}` to `{}`", file.display()),
            (None, Some(_)) => format!("name the claim with its {kind}s under `claims`"),
            (None, None) => format!("add the {kind} there"),
        };
        format!("{remedy}, or remove the name from the grants")
    };
    Some((format!("{} has no {kind} that is called `{name}`", source.label), help))
}

/// The help for a name whose author probably means several callers. Names are compared byte for
/// byte, and no name stands for all callers.
fn literal_help(name: &str) -> Option<&'static str> {
    match name {
        "*" | "**" | "all" | "any" | ANYONE | AUTHENTICATED | "anonymous" | "everyone" => Some(
            "the rules of the role `anyone` apply to every caller, those of `authenticated` to \
             every caller with credentials: neither needs a grant",
        ),
        _ if name.contains('*') => Some("name each user or group: `*` in a name is literal"),
        _ => None,
    }
}
