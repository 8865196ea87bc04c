//! Names that callers from two sources can have. By a rule with `{user}` each reaches what is the
//! other's, and by a header with names the application cannot tell them apart. Where every name has
//! a prefix, a path must have it, too.

use crate::names::{MAX_SOURCES, Source, keep_apart, listed, related, sharing, sources};
use crate::roles::roles_of;
use crate::warnings::Warnings;
use document::{Place, Problem, Warning};
use policy::ids::IdVec;
use policy::model::{ClaimPath, IdentityHeader, Piece, Policy, RoleId, Rule, SetHeader};
use policy::pattern::Segment;

/// The maximum number of roles whose rules are looked at.
const MAX_ROLES: usize = 1000;

/// Warns of each rule with `{user}` for callers from two sources who can have the same name. The
/// warning is at the rule: a comment accepts only the rules on its own line.
pub(crate) fn shared_users(policy: &Policy, warnings: &mut Warnings) {
    let roles = policy.roles.entries().filter(|(_, role)| role.allow.iter().any(has_user));
    let roles: Vec<_> = roles.take(MAX_ROLES).collect();
    if roles.is_empty() {
        return;
    }
    let sources = sources(&policy.identity);
    let sources = sources.get(..MAX_SOURCES).unwrap_or(&sources);
    let had: Vec<_> = sources.iter().map(|source| roles_of(policy, source)).collect();
    let having: Vec<(&Source<'_>, &IdVec<RoleId, bool>)> = sources.iter().zip(&had).collect();
    let mut pairs = Vec::new();
    for (index, first) in having.iter().enumerate() {
        let met =
            having.iter().skip(index + 1).filter(|second| first.0.users.may_meet(&second.0.users));
        pairs.extend(met.map(|second| [first, second]));
    }
    for (id, role) in roles {
        let both = pairs.iter().filter(|pair| pair.iter().all(|(_, had)| *had.at(id)));
        let met: Vec<&Source<'_>> = both.flatten().map(|(source, _)| *source).collect();
        let is_met = |source: &&Source<'_>| met.iter().any(|other| std::ptr::eq(*other, *source));
        let shared: Vec<&Source<'_>> = sources.iter().filter(is_met).collect();
        if !shared.is_empty() {
            let rules = role.allow.iter().filter(|rule| has_user(rule));
            rules.for_each(|rule| warnings.push(warning(rule, &shared)));
        }
    }
}

fn warning(rule: &Rule, sources: &[&Source<'_>]) -> Problem {
    let message = format!(
        "users {} with the same name cannot be told apart by `{{user}}`",
        listed("of", sources)
    );
    let apart = keep_apart("user");
    let help =
        format!("{apart}; if they are the same person, write `{{user.id}}` with `user_id_from`");
    related(Problem::warning(rule.at.clone(), Warning::SharedUser, message).help(help), sources)
}

fn has_user(rule: &Rule) -> bool {
    rule.resources.iter().any(|pattern| pattern.segments.contains(&Segment::User))
}

/// Warns of each header with the user or the groups of the caller, if callers from two sources can
/// have the same name.
///
/// Where a header has `{claims.iss}`, it tells the application the source, so there is no warning.
/// Nor is there one about roles: they are those of the policy, whichever source gives them.
pub(crate) fn shared_names(policy: &Policy, warnings: &mut Warnings) {
    let headers = &*policy.allow_response.set_headers;
    let headers = if headers.iter().any(has_issuer) { &[] } else { headers };
    let signed = policy.identity_header.as_ref().filter(|signed| !signs_issuer(signed));
    if headers.is_empty() && signed.is_none() {
        return;
    }
    let mut sources = sources(&policy.identity);
    sources.truncate(MAX_SOURCES);
    sources.retain(|source| may_be_allowed(policy, source));
    for (piece, claim, what) in [(Piece::User, "sub", "user"), (Piece::Groups, "groups", "group")] {
        let with_piece: Vec<_> =
            headers.iter().filter(|header| header.value.0.contains(&piece)).collect();
        if with_piece.is_empty() && signed.is_none() {
            continue;
        }
        let shared = sharing(&sources, what);
        if shared.is_empty() {
            continue;
        }
        let apart = keep_apart(what);
        for SetHeader { name, at, .. } in with_piece {
            let help = format!(
                "{apart}, or tell the application the issuer in another header: `{{claims.iss}}`"
            );
            warnings.push(header_warning(at, &format!("`{name}` is"), what, &shared).help(help));
        }
        if let Some(IdentityHeader { name, at, .. }) = signed {
            let help = format!("{apart}, or add the issuer: `claims: {{ issuer: iss }}`");
            warnings.push(
                header_warning(at, &format!("`{claim}` in `{name}` is"), what, &shared).help(help),
            );
        }
    }
    let has_user = |header: &SetHeader| header.value.0.contains(&Piece::User);
    if policy.identity_header.is_none() && !headers.iter().any(has_user) {
        headers.iter().for_each(|header| user_claims(&sources, header, warnings));
    }
}

/// Warns of a header with the claim that has the user names of several issuers: it is without the
/// prefix of its issuer. Beside a header with `{user}` it is no more than an attribute.
fn user_claims(sources: &[Source<'_>], header: &SetHeader, warnings: &mut Warnings) {
    for piece in &header.value.0 {
        let Piece::Claim(path) = piece else { continue };
        let is_user =
            |source: &&Source<'_>| source.issuer.is_some_and(|issuer| issuer.claims.user == *path);
        let shared: Vec<&Source<'_>> = sources.iter().filter(is_user).collect();
        if shared.len() > 1 {
            let is = format!("`{}` is a claim without the prefix of its issuer, and", header.name);
            let help = "write `{user}`, and give each a `user_prefix` of its own";
            warnings.push(header_warning(&header.at, &is, "user", &shared).help(help));
        }
    }
}

fn header_warning(at: &Place, header_is: &str, what: &str, sources: &[&Source<'_>]) -> Problem {
    let message =
        format!("{header_is} the same for {what}s {} with the same name", listed("of", sources));
    related(Problem::warning(at.clone(), Warning::SharedName, message), sources)
}

/// Whether a rule may allow a request of a caller from this source. Only then are headers set.
fn may_be_allowed(policy: &Policy, source: &Source<'_>) -> bool {
    let had = roles_of(policy, source);
    policy.search.is_some()
        || policy.roles.entries().any(|(id, role)| *had.at(id) && !role.allow.is_empty())
}

fn has_issuer(header: &SetHeader) -> bool {
    header.value.0.iter().any(|piece| matches!(piece, Piece::Claim(path) if is_issuer(path)))
}

fn signs_issuer(header: &IdentityHeader) -> bool {
    header.claims.iter().any(|(_, path)| is_issuer(path))
}

/// Whether this is the claim `iss` (RFC 7519, 4.1.1), by which rolegate chooses the issuer of a
/// token.
fn is_issuer(path: &ClaimPath) -> bool {
    matches!(&*path.0, [name] if **name == *"iss")
}

/// Warns of the first rule with `{user}`, unless another has `{user.id}`: its author knows the
/// difference.
pub(crate) fn prefixed_users(policy: &Policy, warnings: &mut Warnings) {
    let Some((.., prefix)) = policy.identity.sources().next() else { return };
    if policy.identity.sources().any(|(.., prefix)| prefix.is_empty()) {
        return;
    }
    let has = |rule: &Rule, is: fn(&Segment) -> bool| {
        rule.resources.iter().any(|pattern| pattern.segments.iter().any(is))
    };
    if policy
        .rules()
        .any(|(_, _, rule, _)| has(rule, |segment| matches!(segment, Segment::UserId(_))))
    {
        return;
    }
    let with_user =
        policy.rules().find(|(_, _, rule, _)| has(rule, |segment| *segment == Segment::User));
    if let Some((_, _, rule, _)) = with_user {
        let message = format!(
            "`{{user}}` is the user name with its prefix: a path has `{prefix}ann`, not `ann`"
        );
        let help = "did you mean `{user.id}` with `user_id_from`?";
        warnings.push(Problem::warning(rule.at.clone(), Warning::PrefixedUser, message).help(help));
    }
}
