//! Names that callers from two sources can have. With a rule for `{user}`, each caller reaches the
//! paths of the other; and a header with the name does not tell the application which of the two
//! callers it is. Another check is about rules with `{user}` where every user name has a prefix.

use std::collections::BTreeMap;

use document::{Place, Problem, Warning};
use policy::model::{ClaimPath, IdentityHeader, Piece, Policy, Rule, SetHeader};
use policy::pattern::Segment;

use crate::sources::{Source, help_to_keep_apart, join_labels, overlapping};
use crate::warnings::Warnings;

/// The maximum number of roles whose rules are checked.
const MAX_ROLES: usize = 1000;

/// Warns of rules with `{user}` for callers from two sources who can have the same name. There is
/// one warning for each set of sources, at the last of them, so that an `# accept:` comment does
/// not cover a source that is added later.
pub(crate) fn shared_users(policy: &Policy, sources: &[&Source<'_>], warnings: &mut Warnings) {
    let roles = policy.roles.entries().filter(|(_, role)| role.allow.iter().any(has_user));
    let roles: Vec<_> = roles.take(MAX_ROLES).collect();
    if roles.is_empty() {
        return;
    }
    let roles_of_sources: Vec<_> = sources.iter().map(|source| source.roles(policy)).collect();
    let mut pairs = Vec::new();
    for (a, source) in sources.iter().enumerate() {
        let later = sources.iter().enumerate().skip(a + 1);
        let sharing = later.filter(|(_, other)| other.names("user").overlap(source.names("user")));
        pairs.extend(sharing.map(|(b, _)| [a, b]));
    }
    // The rules with `{user}` by the sources whose callers share both a name and the role of the
    // rule. A key has the sorted indices of these sources.
    let mut rules: BTreeMap<Vec<usize>, Vec<(Place, String)>> = BTreeMap::new();
    for (id, role) in roles {
        let sharing = pairs.iter().filter(|pair| {
            pair.iter()
                .all(|index| roles_of_sources.get(*index).is_some_and(|roles| roles.contains(id)))
        });
        let mut indices: Vec<usize> = sharing.flatten().copied().collect();
        if indices.is_empty() {
            continue;
        }
        indices.sort_unstable();
        indices.dedup();
        let with_user = role.allow.iter().filter(|rule| has_user(rule));
        let places = with_user
            .map(|rule| (rule.at.clone(), format!("`{}` of the role `{}`", rule.name, role.name)));
        rules.entry(indices).or_default().extend(places);
    }
    for (indices, places) in rules {
        let sources: Vec<&Source<'_>> =
            indices.iter().filter_map(|index| sources.get(*index).copied()).collect();
        let help = "if they are the same person, write `{user.id}` with `user_id_from`";
        let help = format!("{}; {help}", help_to_keep_apart("user"));
        let warning = Warning::SharedUser;
        warnings.extend(same_name_warning(warning, "user", "`{user}`", &sources, help, places));
    }
}

/// The warning about callers with the same name, at the last of their sources. `by` tells where the
/// name is used, such as `headers`.
fn same_name_warning(
    warning: Warning,
    kind: &str,
    by: &str,
    sources: &[&Source<'_>],
    help: String,
    places: impl IntoIterator<Item = (Place, String)>,
) -> Option<Problem> {
    let message = format!(
        "{kind}s {} with the same name cannot be told apart by {by}",
        join_labels("of", sources)
    );
    let at = sources.last()?.at.clone();
    Some(Problem::warning(at, warning, message).help(help).places(places))
}

fn has_user(rule: &Rule) -> bool {
    rule.resources.iter().any(|pattern| pattern.segments.contains(&Segment::User))
}

fn has_user_id(rule: &Rule) -> bool {
    let mut segments = rule.resources.iter().flat_map(|pattern| &pattern.segments);
    segments.any(|segment| matches!(segment, Segment::UserId(_)))
}

/// Warns of headers with the user or the groups of the caller, if callers from two sources can have
/// the same name. There is one warning for users and one for groups, at the last source.
///
/// A header with `{claims.iss}` tells the application the source, so there is no warning. Nor is
/// there a warning about roles: a role is the same for callers from all sources.
pub(crate) fn shared_names(policy: &Policy, sources: &[&Source<'_>], warnings: &mut Warnings) {
    let headers = &*policy.allow_response.set_headers;
    let headers = if headers.iter().any(has_issuer) { &[] } else { headers };
    let identity_header = policy.identity_header.as_ref().filter(|header| !signs_issuer(header));
    if headers.is_empty() && identity_header.is_none() {
        return;
    }
    let allowed: Vec<&Source<'_>> =
        sources.iter().copied().filter(|source| may_be_allowed(policy, source)).collect();
    for (piece, claim, kind) in [(Piece::User, "sub", "user"), (Piece::Groups, "groups", "group")] {
        let with_piece = headers.iter().filter(|header| header.value.0.contains(&piece));
        let mut places: Vec<(Place, String)> =
            with_piece.map(|header| (header.at.clone(), format!("`{}`", header.name))).collect();
        places.extend(
            identity_header
                .map(|header| (header.at.clone(), format!("`{claim}` in `{}`", header.name))),
        );
        if places.is_empty() {
            continue;
        }
        let sharing = overlapping(&allowed, kind);
        let help = "tell the application the issuer: `{claims.iss}` in another header, or \
                    `claims: { issuer: iss }` in `identity_header`";
        let help = format!("{}, or {help}", help_to_keep_apart(kind));
        let warning = Warning::SharedName;
        warnings.extend(same_name_warning(warning, kind, "headers", &sharing, help, places));
    }
    if policy.identity_header.is_none()
        && !headers.iter().any(|header| header.value.0.contains(&Piece::User))
    {
        headers.iter().for_each(|header| shared_claims(&allowed, header, warnings));
    }
}

/// Warns of a header with the claim that several issuers use for the user name: the claim lacks the
/// prefix of the issuer. Not called if a header has `{user}`, or if there is an `identity_header`:
/// the application then does not need the claim to identify the caller.
fn shared_claims(sources: &[&Source<'_>], header: &SetHeader, warnings: &mut Warnings) {
    for piece in &header.value.0 {
        let Piece::Claim(path) = piece else { continue };
        let mut sharing = sources.to_vec();
        sharing.retain(|source| source.issuer.is_some_and(|issuer| issuer.claims.user == *path));
        if sharing.len() > 1 {
            let by = format!("`{}`: it is a claim without the prefix of its issuer", header.name);
            let help = "write `{user}`, and give each a `user_prefix` of its own".to_owned();
            let places = [(header.at.clone(), format!("`{}`", header.name))];
            let warning = Warning::SharedName;
            warnings.extend(same_name_warning(warning, "user", &by, &sharing, help, places));
        }
    }
}

/// Whether any request of a caller from this source may be allowed: headers are set only on allowed
/// requests.
fn may_be_allowed(policy: &Policy, source: &Source<'_>) -> bool {
    let roles = source.roles(policy);
    policy.search.is_some()
        || policy.roles.entries().any(|(id, role)| roles.contains(id) && !role.allow.is_empty())
}

fn has_issuer(header: &SetHeader) -> bool {
    header.value.0.iter().any(|piece| matches!(piece, Piece::Claim(path) if is_issuer(path)))
}

fn signs_issuer(header: &IdentityHeader) -> bool {
    header.claims.iter().any(|(_, path)| is_issuer(path))
}

/// Whether this is the claim `iss` (RFC 7519, 4.1.1), which names the issuer of a token.
fn is_issuer(path: &ClaimPath) -> bool {
    matches!(&*path.0, [name] if **name == *"iss")
}

/// Warns of the first rule with `{user}` if the user names of every source have a prefix. There is
/// no warning if some rule has `{user.id}`: its author knows the difference.
pub(crate) fn prefixed_users(policy: &Policy, warnings: &mut Warnings) {
    let Some((.., prefix)) = policy.identity.sources().next() else { return };
    if policy.identity.sources().any(|(.., prefix)| prefix.is_empty())
        || policy.rules().any(|(_, _, rule, _)| has_user_id(rule))
    {
        return;
    }
    if let Some((_, _, rule, _)) = policy.rules().find(|(_, _, rule, _)| has_user(rule)) {
        let message = format!(
            "`{{user}}` is the user name with its prefix: a path has `{prefix}ann`, not `ann`"
        );
        let problem = Problem::warning(rule.at.clone(), Warning::PrefixedUser, message);
        warnings.push(problem.help("did you mean `{user.id}` with `user_id_from`?"));
    }
}
