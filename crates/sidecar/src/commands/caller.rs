//! The caller, as given on the command line.

use std::io::Read;
use std::sync::Arc;

use authorizer::{Authorizer, ExplainedSubject};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use identity::{CredentialsError, Subject};
use policy::model::SourceId;
use policy::{Policy, closest};

use crate::cli::CallerArgs;

/// Maximum bytes read from standard input: no request can carry longer credentials.
const LONGEST: u64 = 64 << 10;

/// The caller, and the value of the `Authorization` header with its credentials, if any.
///
/// # Errors
/// When the credentials are to be read from standard input, and that fails.
/// Or when a token is given with its scheme, or a user who cannot be one of the issuer.
pub(super) fn caller(
    args: &CallerArgs,
    authorizer: &Authorizer,
    host: &str,
) -> Result<(ExplainedSubject, Option<String>), String> {
    Ok(match args {
        CallerArgs { user: Some(user), issuer, roles, groups, .. } => {
            let subject = subject(authorizer, host, user, issuer.as_deref(), (groups, roles))?;
            (subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given), None)
        }
        CallerArgs { basic: Some(pair), .. } => {
            let encoded = BASE64_STANDARD.encode(given(pair)?);
            (ExplainedSubject::OfCredentials, Some(format!("Basic {encoded}")))
        }
        CallerArgs { bearer: Some(token), .. } => {
            let token = given(token)?;
            if token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) {
                return Err("`--bearer` takes the token alone, without `Bearer ` before it".to_owned());
            }
            (ExplainedSubject::OfCredentials, Some(format!("Bearer {token}")))
        }
        CallerArgs { .. } => (ExplainedSubject::OfCredentials, None),
    })
}

/// The names that the caller is given and the policy, or the search cluster of this host, does not have: probably
/// mistakes.
pub(super) fn unknown_names(
    user: Option<&str>,
    roles: &[String],
    groups: &[String],
    (authorizer, host): (&Authorizer, &str),
) -> Vec<String> {
    if authorizer.is_of_cluster(host.as_bytes()) {
        return authorizer.unknown_on_cluster(host.as_bytes(), user, &[roles, groups].concat());
    }
    let policy = &authorizer.loaded().policy;
    let user = user.and_then(|user| unknown_user(user, policy));
    user.into_iter().chain(unknown_roles(roles, policy)).chain(unknown_groups(groups, policy)).collect()
}

/// Why no caller can have this name: each source puts a prefix before it.
pub(super) fn impossible_user(user: &str, policy: &Policy) -> Option<String> {
    let prefixes: Vec<&str> = policy.identity.sources().map(|(.., prefix)| prefix).collect();
    if prefixes.is_empty() || prefixes.iter().any(|prefix| user.starts_with(prefix)) {
        return None;
    }
    let meant: Vec<String> = prefixes.iter().map(|prefix| format!("`{prefix}{user}`")).collect();
    Some(format!("no source has a user `{user}`: did you mean {}?", meant.join(" or ")))
}

/// A user that no source can have, or that only Basic could have, and does not.
fn unknown_user(user: &str, policy: &Policy) -> Option<String> {
    if let Some(impossible) = impossible_user(user, policy) {
        return Some(impossible);
    }
    let basic = policy.identity.basic.as_ref().filter(|basic| basic.verify)?;
    if policy.identity.source_of(user) != Some(SourceId::BASIC) {
        return None;
    }
    let users: Vec<String> =
        basic.users.iter().map(|known| format!("{}{}", basic.user_prefix, known.name)).collect();
    unknown("user", user, &users.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The roles that the policy does not have.
pub(super) fn unknown_roles(given: &[String], policy: &Policy) -> Vec<String> {
    let known: Vec<&str> = policy.roles.iter().map(|role| &*role.name).collect();
    given.iter().filter_map(|name| unknown("role", name, &known)).collect()
}

fn unknown_groups(given: &[String], policy: &Policy) -> Vec<String> {
    let of_basic = policy.identity.basic.iter().flat_map(|basic| {
        let groups = basic.users.iter().flat_map(|user| &user.groups);
        groups.map(|group| format!("{}{group}", basic.group_prefix))
    });
    let of_basic: Vec<String> = of_basic.collect();
    let granted = policy.grants.iter().flat_map(|grant| grant.groups.iter().map(|group| &**group));
    let known: Vec<&str> = granted.chain(of_basic.iter().map(String::as_str)).collect();
    let of_issuers = policy.identity.jwt.iter().map(|issuer| &*issuer.group_prefix);
    let prefixes: Vec<&str> =
        policy.identity.basic.iter().map(|basic| &*basic.group_prefix).chain(of_issuers).collect();
    let without_prefix = |name: &String| {
        let mut meant = prefixes.iter().map(|prefix| format!("{prefix}{name}"));
        let meant = meant.find(|meant| known.contains(&meant.as_str()))?;
        let is_unknown = !known.contains(&name.as_str());
        is_unknown.then(|| format!("the policy has no group `{name}`: did you mean `{meant}`?"))
    };
    let note = |name| without_prefix(name).or_else(|| unknown("group", name, &known));
    given.iter().filter_map(note).collect()
}

fn unknown(kind: &str, name: &str, known: &[&str]) -> Option<String> {
    let meant = closest(name, known.iter().copied());
    let meant = meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
    (!known.contains(&name)).then(|| format!("the policy has no {kind} `{name}`{meant}"))
}

/// A user with more groups and roles than the policy gives it, as if it were authenticated: by a token of this issuer, or
/// by the source that its name can come from.
///
/// The inner error is that of its requests, when Basic does not have the user.
///
/// # Errors
/// When no token of the issuer can have these names.
pub(super) fn subject(
    authorizer: &Authorizer,
    host: &str,
    user: &str,
    issuer: Option<&str>,
    (groups, roles): (&[String], &[String]),
) -> Result<Result<Subject, CredentialsError>, String> {
    let Some(name) = issuer else {
        return Ok(authorizer.subject_named(host.as_bytes(), user, groups, roles));
    };
    let issuers = &authorizer.loaded().policy.identity.jwt;
    let Some((index, issuer)) = issuers.iter().enumerate().find(|(_, known)| *known.issuer == *name) else {
        let known: Vec<&str> = issuers.iter().map(|known| &*known.issuer).collect();
        return Err(unknown("issuer", name, &known).unwrap_or_default());
    };
    let users = [(&issuer.user_prefix, user)];
    let names = users.into_iter().chain(groups.iter().map(|group| (&issuer.group_prefix, group.as_str())));
    if let Some((prefix, bare)) = names.into_iter().find(|(prefix, name)| !name.starts_with(&***prefix)) {
        return Err(format!("names of `{name}` have a prefix: did you mean `{prefix}{bare}`?"));
    }
    let given = [
        ("role", !roles.is_empty(), issuer.role_claim().is_some()),
        ("group", !groups.is_empty(), issuer.claims.groups.is_some()),
    ];
    if let Some((kind, ..)) = given.into_iter().find(|(_, given, gives)| *given && !gives) {
        return Err(format!("the policy takes no {kind}s from tokens of `{name}`: leave `--{kind}` out"));
    }
    if let Some(role) = roles.iter().find(|role| !issuer.may_give(role)) {
        return Err(format!("`roles_from_token` of `{name}` does not list the role `{role}`: leave it out"));
    }
    let names = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
    Ok(Ok(Subject {
        user: user.into(),
        issuer: Some(issuer.issuer.clone()),
        source: Some(SourceId::of_issuer(index)),
        groups: names(groups),
        roles: names(roles),
        claims: serde_json::Value::Null,
    }))
}

/// The value itself, or the first line of standard input if the value is `-`.
fn given(value: &str) -> Result<String, String> {
    if value != "-" {
        return Ok(value.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
