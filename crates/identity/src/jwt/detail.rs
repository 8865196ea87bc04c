//! Describes the cause of an error in a token, for the operator. Never for the client, which must
//! not learn the names of issuers, keys and audiences.

use document::{excerpt, excerpts};
use policy::model;
use serde_json::{Map, Value};

use super::claims::{self, Unreadable, date, find_names, since_epoch, value_at};
use super::issuer::{Issuer, find_issuer};
use super::token::{REJECTED, UnverifiedToken};
use crate::jwks::Algorithm;
use crate::{CredentialsError, UnixTime, is_name};

type Members = Map<String, Value>;

/// The parameter or claim of a token that led to this error, and the expected value.
///
/// Shows nothing of a token but its `alg`, `kid`, `typ`, `iss`, `aud` and times, bounded and
/// escaped, because the client chooses them. Other claims may be about a person. Of a malformed
/// token it shows only where it is malformed.
pub(crate) fn describe(
    token: &UnverifiedToken<'_>,
    issuers: &[Issuer],
    error: CredentialsError,
    now: UnixTime,
) -> Option<String> {
    let (header, claims) = (token.header.as_ref().ok(), token.payload.as_ref().ok());
    let issuer = claims.and_then(|claims| find_issuer(issuers, claims.get("iss")).ok());
    match error {
        CredentialsError::MalformedToken => {
            token.describe_malformed().or_else(|| describe_malformed_parameter(header?))
        }
        CredentialsError::UnsupportedAlgorithm => Some(describe_member(header?, "alg")),
        CredentialsError::UnsafeHeader => describe_unsafe_parameter(header?),
        CredentialsError::WrongType => {
            let required = issuer?.settings.required_type.as_deref()?;
            Some(format!("{}, expected `{required}`", describe_member(header?, "typ")))
        }
        CredentialsError::UnknownIssuer => {
            let configured = excerpts(issuers.iter().map(|issuer| &*issuer.settings.issuer));
            Some(format!("{}, known: {configured}", describe_member(claims?, "iss")))
        }
        CredentialsError::KeysUnavailable => {
            let name = &issuer?.settings.issuer;
            Some(if issuer?.has_stale_keys {
                format!("the keys of `{name}` are older than `max-keys-age`")
            } else {
                format!("no keys of `{name}` have been fetched")
            })
        }
        CredentialsError::UnknownKey => Some(describe_unknown_key(header?, issuer?)),
        CredentialsError::WrongAlgorithm => {
            let algorithm = Algorithm::from_name(header?.get("alg")?.as_str()?)?;
            let kid = header?.get("kid").and_then(Value::as_str);
            let key = issuer?.keys()?.select(kid, algorithm)?.algorithm().name();
            let (alg, kid) = (describe_member(header?, "alg"), describe_member(header?, "kid"));
            Some(format!("{alg}, {kid} of a key for `{key}`"))
        }
        CredentialsError::MalformedClaims => {
            Some(describe_malformed_claim(claims?, &issuer?.settings))
        }
        CredentialsError::MalformedActor => {
            let path = issuer?.settings.act.as_ref()?;
            Some(format!("`act` has no name at `{path}`, or another `iss` than the token"))
        }
        CredentialsError::WrongAudience => {
            let expected = excerpts(issuer?.settings.audiences.iter().map(|audience| &**audience));
            Some(format!("{}, expected {expected}", describe_audience(claims?)))
        }
        CredentialsError::WrongClaim => describe_required_claim(claims?, &issuer?.settings),
        CredentialsError::Expired => {
            Some(format!("{}, {}", describe_time(claims?, &["exp"], now)?, describe_skew(issuer?)))
        }
        CredentialsError::NotYetValid => {
            let time = describe_time(claims?, &["nbf", "iat"], now)?;
            Some(format!("{time}, {}", describe_skew(issuer?)))
        }
        CredentialsError::TooOld => {
            let max_age = issuer?.settings.max_age?.as_secs();
            let (time, skew) = (describe_time(claims?, &["iat"], now)?, describe_skew(issuer?));
            Some(format!("{time}, `max_age` is {max_age} s, {skew}"))
        }
        CredentialsError::UnsupportedScheme
        | CredentialsError::IncompleteCredentials
        | CredentialsError::MalformedCredentials
        | CredentialsError::BadPassword
        | CredentialsError::BadApiKey
        | CredentialsError::MalformedCertificate
        | CredentialsError::SeveralUsers
        | CredentialsError::Inactive
        | CredentialsError::NotIntrospected
        | CredentialsError::BadSignature => None,
    }
}

/// The first required claim that is missing or has another value.
fn describe_required_claim(claims: &Members, issuer: &model::Issuer) -> Option<String> {
    let required =
        issuer.require.iter().find(|required| !claims::has_required(claims, required))?;
    let path = &required.path;
    let state = match value_at(claims, path) {
        None => format!("no `{path}`"),
        Some(_) => format!("`{path}` has another value"),
    };
    let values: Vec<String> = required.values.iter().map(ToString::to_string).collect();
    Some(format!("{state}, expected {}", excerpts(values.iter().map(String::as_str))))
}

fn describe_malformed_parameter(header: &Members) -> Option<String> {
    let name = ["alg", "kid", "typ"].into_iter().find(|name| match header.get(*name) {
        None => *name == "alg",
        Some(value) => !value.is_string(),
    })?;
    Some(describe_member(header, name))
}

fn describe_unsafe_parameter(header: &Members) -> Option<String> {
    let mut names = REJECTED.into_iter().chain(["b64"]);
    names.find(|name| header.contains_key(*name)).map(|name| format!("it has `{name}`"))
}

fn describe_unknown_key(header: &Members, issuer: &Issuer) -> String {
    let kid = describe_member(header, "kid");
    let Some(keys) = issuer.keys() else { return kid };
    let kids = excerpts(keys.kids());
    if header.contains_key("kid") {
        return format!("{kid}, known: {kids}");
    }
    let algorithm = describe_member(header, "alg");
    format!("no `kid`, and not exactly one key for its algorithm: {algorithm}, known: {kids}")
}

pub(crate) fn describe_malformed_claim(claims: &Members, issuer: &model::Issuer) -> String {
    if let Some(name) = ["exp", "nbf", "iat"].into_iter().find(|name| date(claims, name).is_err()) {
        return format!("`{name}` is not a number");
    }
    if !claims.contains_key("exp") {
        return "no `exp`".to_owned();
    }
    if issuer.max_age.is_some() && !claims.contains_key("iat") {
        return "no `iat`, which `max_age` requires".to_owned();
    }
    if claims::check_audience(claims, &issuer.audiences) == Err(CredentialsError::MalformedClaims) {
        return "`aud` is neither text nor a list of texts".to_owned();
    }
    let user = &issuer.claims.user;
    match value_at(claims, user) {
        None => return format!("no `{user}`"),
        Some(Value::String(name)) if name.is_empty() => return format!("`{user}` is empty"),
        Some(Value::String(name)) if !is_name(name) => {
            return format!("`{user}` has a control character");
        }
        Some(Value::String(_)) => {}
        Some(_) => return format!("`{user}` is not a text"),
    }
    describe_malformed_names(claims, issuer)
        .unwrap_or_else(|| "a name of a group or a role has a control character".to_owned())
}

/// Describes the first claim of groups or roles that cannot be read: it is neither a text nor a
/// list of names, its path leads through a value of another type, or it is not in the token but has
/// to be fetched from another place.
#[must_use]
pub fn describe_malformed_names(claims: &Members, issuer: &model::Issuer) -> Option<String> {
    let paths = [issuer.claims.groups.as_ref(), issuer.accepted_role_claim()];
    paths.into_iter().flatten().find_map(|path| describe_malformed_list(claims, path))
}

fn describe_malformed_list(claims: &Members, path: &model::ClaimPath) -> Option<String> {
    match find_names(claims, path) {
        Ok(None | Some(Value::String(_))) => None,
        Ok(Some(Value::Array(list)))
            if list.iter().all(|item| item.as_str().is_some_and(is_name)) =>
        {
            None
        }
        Ok(Some(_)) => Some(format!(
            "`{path}` is neither a text nor a list of texts without control characters"
        )),
        Err(Unreadable::Mistyped(depth)) => {
            let outer = model::ClaimPath(path.0.iter().take(depth).cloned().collect());
            Some(format!("`{path}` cannot be read: `{outer}` has another type"))
        }
        Err(Unreadable::Elsewhere(claim)) => {
            Some(format!("`{path}` is not in the token (`{claim}`)"))
        }
    }
}

fn describe_skew(issuer: &Issuer) -> String {
    format!("`clock_skew` is {} s", issuer.settings.clock_skew.as_secs())
}

/// The latest of these times, relative to now.
fn describe_time(claims: &Members, names: &[&'static str], now: UnixTime) -> Option<String> {
    let times =
        names.iter().filter_map(|name| Some((since_epoch(claims.get(*name)?.as_number()?), *name)));
    let (time, name) = times.max()?;
    Some(match now.checked_sub(time) {
        Some(past) => format!("`{name}` was {} s ago", past.as_secs()),
        None => format!("`{name}` is in {} s", time.saturating_sub(now).as_secs()),
    })
}

/// For example `` `kid` is `k1` ``.
fn describe_member(members: &Members, name: &str) -> String {
    match members.get(name) {
        None => format!("no `{name}`"),
        Some(Value::String(text)) => format!("`{name}` is `{}`", excerpt(text)),
        Some(_) => format!("`{name}` is not text"),
    }
}

fn describe_audience(claims: &Members) -> String {
    match claims.get("aud") {
        Some(Value::Array(audiences)) => {
            format!("`aud` is {}", excerpts(audiences.iter().filter_map(Value::as_str)))
        }
        _ => describe_member(claims, "aud"),
    }
}
