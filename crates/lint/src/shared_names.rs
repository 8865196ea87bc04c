//! Headers with names that callers from two sources can have: the application cannot tell these callers apart.

use crate::names::{MAX_SOURCES, Names, Source, keep_apart, listed, related, sources};
use crate::shared_users::{issuer_of, roles_of};
use crate::warnings::Warnings;
use document::{Place, Problem, Warning};
use policy::model::{ClaimPath, IdentityHeader, Piece, Policy, SetHeader};

/// Warns of each header with the user or the groups of the caller, if callers from two sources can have the same name.
///
/// Where a header has `{claims.iss}`, it tells the application the source, so there is no warning. Nor is there one about
/// roles: they are those of the policy, whichever source gives them.
pub(crate) fn shared_names(policy: &Policy, problems: &mut Vec<Problem>) {
    let headers = &*policy.allow_response.set_headers;
    let headers = if headers.iter().any(has_issuer) { &[] } else { headers };
    let signed = policy.identity_header.as_ref().filter(|signed| !signs_issuer(signed));
    if headers.is_empty() && signed.is_none() {
        return;
    }
    let mut sources = sources(&policy.identity);
    sources.truncate(MAX_SOURCES);
    sources.retain(|source| may_be_allowed(policy, source));
    let mut warnings = Warnings::new(problems);
    for (piece, claim, what, names) in [
        (Piece::User, "sub", "user", (|source| &source.users) as NamesOf),
        (Piece::Groups, "groups", "group", |source| &source.groups),
    ] {
        let with_piece: Vec<_> = headers.iter().filter(|header| header.value.0.contains(&piece)).collect();
        if with_piece.is_empty() && signed.is_none() {
            continue;
        }
        let shared = sharing(&sources, names);
        if shared.is_empty() {
            continue;
        }
        let apart = keep_apart(what, &shared.iter().map(|source| names(source)).collect::<Vec<_>>());
        for SetHeader { name, at, .. } in with_piece {
            let help =
                format!("{apart}, or tell the application the issuer in another header: `{{claims.iss}}`");
            warnings.push(warning(at, &format!("`{name}` is"), what, &shared).help(help));
        }
        if let Some(IdentityHeader { name, at, .. }) = signed {
            let help = format!("{apart}, or add the issuer: `claims: {{ issuer: iss }}`");
            warnings.push(warning(at, &format!("`{claim}` in `{name}` is"), what, &shared).help(help));
        }
    }
    let has_user = |header: &SetHeader| header.value.0.contains(&Piece::User);
    if policy.identity_header.is_none() && !headers.iter().any(has_user) {
        headers.iter().for_each(|header| user_claims(policy, &sources, header, &mut warnings));
    }
}

/// The users or the groups of a source.
type NamesOf = for<'s, 'i> fn(&'s Source<'i>) -> &'s Names<'i>;

/// Warns of a header with the claim that has the user names of several issuers: it is without the prefix of its issuer.
/// Beside a header with `{user}` it is no more than an attribute.
fn user_claims(policy: &Policy, sources: &[Source<'_>], header: &SetHeader, warnings: &mut Warnings<'_>) {
    for piece in &header.value.0 {
        let Piece::Claim(path) = piece else { continue };
        let is_user = |source: &&Source<'_>| {
            issuer_of(&policy.identity, source).is_some_and(|issuer| issuer.claims.user == *path)
        };
        let shared: Vec<&Source<'_>> = sources.iter().filter(is_user).collect();
        if shared.len() > 1 {
            let is = format!("`{}` is a claim without the prefix of its issuer, and", header.name);
            let help = "write `{user}`, and give each a `user_prefix` of its own";
            warnings.push(warning(&header.at, &is, "user", &shared).help(help));
        }
    }
}

fn warning(at: &Place, header_is: &str, what: &str, sources: &[&Source<'_>]) -> Problem {
    let message = format!("{header_is} the same for {what}s {} with the same name", listed("of", sources));
    related(Problem::warning(at.clone(), Warning::SharedName, message), sources)
}

/// The sources that may provide a name that another one may provide too.
fn sharing<'s, 'i>(sources: &'s [Source<'i>], names: NamesOf) -> Vec<&'s Source<'i>> {
    let meets = |one: &Source<'_>| {
        sources.iter().any(|other| !std::ptr::eq(one.at, other.at) && names(one).may_meet(names(other)))
    };
    sources.iter().filter(|source| meets(source)).collect()
}

/// Whether a rule may allow a request of a caller from this source. Only then are headers set.
fn may_be_allowed(policy: &Policy, source: &Source<'_>) -> bool {
    let had = roles_of(policy, source);
    policy.search.is_some() || policy.roles.entries().any(|(id, role)| *had.at(id) && !role.allow.is_empty())
}

fn has_issuer(header: &SetHeader) -> bool {
    header.value.0.iter().any(|piece| matches!(piece, Piece::Claim(path) if is_issuer(path)))
}

fn signs_issuer(header: &IdentityHeader) -> bool {
    header.claims.iter().any(|(_, path)| is_issuer(path))
}

/// Whether this is the claim `iss` (RFC 7519, 4.1.1), by which rolegate chooses the issuer of a token.
fn is_issuer(path: &ClaimPath) -> bool {
    matches!(&*path.0, [name] if **name == *"iss")
}
