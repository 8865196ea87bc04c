//! What in a token led to an error, for whoever operates the server. Never for the client: what is
//! known and expected here is none of its business.

use document::{excerpt, excerpts};
use policy::model;
use serde_json::{Map, Value};

use super::claims::{self, Unreadable, at, date, find_names, since_epoch};
use super::issuer::{Issuer, find_issuer};
use super::token::{REJECTED, Unverified};
use crate::jwks::Algorithm;
use crate::{CredentialsError, UnixTime, is_name};

type Members = Map<String, Value>;

/// The parameter or claim of a token that led to this error, and what was expected instead.
///
/// Shows nothing of a token but its `alg`, `kid`, `typ`, `iss`, `aud` and times: bounded, and
/// escaped, because whoever sends a token chooses them. Of a malformed token it shows only where it
/// is malformed.
pub(crate) fn detail(
    token: &Unverified<'_>,
    issuers: &[Issuer],
    error: CredentialsError,
    now: UnixTime,
) -> Option<String> {
    let (header, claims) = (token.header.as_ref().ok(), token.payload.as_ref().ok());
    let issuer = || find_issuer(issuers, claims?.get("iss")).ok();
    match error {
        CredentialsError::MalformedToken => {
            token.malformed().or_else(|| malformed_parameter(header?))
        }
        CredentialsError::UnsupportedAlgorithm => Some(is(header?, "alg")),
        CredentialsError::UnsafeHeader => unsafe_parameter(header?),
        CredentialsError::WrongType => {
            let expected = issuer()?.settings.required_type.clone()?;
            Some(format!("{}, expected `{expected}`", is(header?, "typ")))
        }
        CredentialsError::UnknownIssuer => {
            let known = excerpts(issuers.iter().map(|issuer| &*issuer.settings.issuer));
            Some(format!("{}, known: {known}", is(claims?, "iss")))
        }
        CredentialsError::KeysUnavailable => {
            let Issuer { settings: model::Issuer { issuer, .. }, has_stale_keys, .. } = issuer()?;
            Some(if *has_stale_keys {
                format!("the keys of `{issuer}` are older than `max-keys-age`")
            } else {
                format!("no keys of `{issuer}` have been fetched")
            })
        }
        CredentialsError::UnknownKey => Some(unknown_key(header?, issuer()?)),
        CredentialsError::WrongAlgorithm => {
            let algorithm = Algorithm::from_name(header?.get("alg")?.as_str()?)?;
            let kid = header?.get("kid").and_then(Value::as_str);
            let key = issuer()?.keys()?.select(kid, algorithm)?.algorithm();
            Some(format!(
                "{}, {} of a key for `{}`",
                is(header?, "alg"),
                is(header?, "kid"),
                key.name()
            ))
        }
        CredentialsError::MalformedClaims => Some(malformed_claim(claims?, &issuer()?.settings)),
        CredentialsError::WrongAudience => {
            let expected =
                excerpts(issuer()?.settings.audiences.iter().map(|audience| &**audience));
            Some(format!("{}, expected {expected}", audience(claims?)))
        }
        CredentialsError::Expired => {
            Some(format!("{}, {}", time(claims?, &["exp"], now)?, skew(issuer()?)))
        }
        CredentialsError::NotYetValid => {
            Some(format!("{}, {}", time(claims?, &["nbf", "iat"], now)?, skew(issuer()?)))
        }
        CredentialsError::TooOld => {
            let (most, skew) = (issuer()?.settings.max_age?.as_secs(), skew(issuer()?));
            Some(format!("{}, `max_age` is {most} s, {skew}", time(claims?, &["iat"], now)?))
        }
        CredentialsError::UnsupportedScheme
        | CredentialsError::MalformedCredentials
        | CredentialsError::BadPassword
        | CredentialsError::BadSignature => None,
    }
}

fn malformed_parameter(header: &Members) -> Option<String> {
    let name = ["alg", "kid", "typ"].into_iter().find(|name| match header.get(*name) {
        None => *name == "alg",
        Some(value) => !value.is_string(),
    })?;
    Some(is(header, name))
}

fn unsafe_parameter(header: &Members) -> Option<String> {
    let mut names = REJECTED.into_iter().chain(["b64"]);
    names.find(|name| header.contains_key(*name)).map(|name| format!("it has `{name}`"))
}

fn unknown_key(header: &Members, issuer: &Issuer) -> String {
    let Some(keys) = issuer.keys() else { return is(header, "kid") };
    let known = excerpts(keys.kids());
    if header.contains_key("kid") {
        return format!("{}, known: {known}", is(header, "kid"));
    }
    let algorithm = is(header, "alg");
    format!("no `kid`, and not exactly one key for its algorithm: {algorithm}, known: {known}")
}

pub(crate) fn malformed_claim(claims: &Members, issuer: &model::Issuer) -> String {
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
    match at(claims, user) {
        None => return format!("no {}", shown(user)),
        Some(Value::String(name)) if name.is_empty() => return format!("{} is empty", shown(user)),
        Some(Value::String(name)) if !is_name(name) => {
            return format!("{} has a control character", shown(user));
        }
        Some(Value::String(_)) => {}
        Some(_) => return format!("{} is not a text", shown(user)),
    }
    malformed_names(claims, issuer)
        .unwrap_or_else(|| "a name of a group or a role has a control character".to_owned())
}

/// What is wrong with the first claim of groups or roles that is malformed: it is neither absent,
/// nor a text, nor a list of names.
#[must_use]
pub fn malformed_names(claims: &Members, issuer: &model::Issuer) -> Option<String> {
    let paths = [issuer.claims.groups.as_ref(), issuer.role_claim()];
    paths.into_iter().flatten().find_map(|path| wrong_name(claims, path))
}

fn wrong_name(claims: &Members, path: &model::ClaimPath) -> Option<String> {
    let name = shown(path);
    match find_names(claims, path) {
        Ok(None | Some(Value::String(_))) => None,
        Ok(Some(Value::Array(list)))
            if list.iter().all(|item| item.as_str().is_some_and(is_name)) =>
        {
            None
        }
        Ok(Some(_)) => {
            Some(format!("{name} is neither a text nor a list of texts without control characters"))
        }
        Err(Unreadable::Mistyped(depth)) => {
            let outer = model::ClaimPath(path.0.iter().take(depth).cloned().collect());
            Some(format!("{name} cannot be read: {} has another type", shown(&outer)))
        }
        Err(Unreadable::Elsewhere(marker)) => {
            Some(format!("{name} is not in the token (`{marker}`)"))
        }
    }
}

/// A claim as a policy names it: a pointer (RFC 6901) if it is inside another one.
fn shown(path: &model::ClaimPath) -> String {
    format!("`{path}`")
}

fn skew(issuer: &Issuer) -> String {
    format!("`clock_skew` is {} s", issuer.settings.clock_skew.as_secs())
}

/// The latest of these times, relative to now.
fn time(claims: &Members, names: &[&'static str], now: UnixTime) -> Option<String> {
    let times =
        names.iter().filter_map(|name| Some((since_epoch(claims.get(*name)?.as_number()?), *name)));
    let (time, name) = times.max()?;
    Some(match now.checked_sub(time) {
        Some(past) => format!("`{name}` was {} s ago", past.as_secs()),
        None => format!("`{name}` is in {} s", time.saturating_sub(now).as_secs()),
    })
}

/// `` `kid` is `k1` ``.
fn is(members: &Members, name: &str) -> String {
    match members.get(name) {
        None => format!("no `{name}`"),
        Some(Value::String(text)) => format!("`{name}` is `{}`", excerpt(text)),
        Some(_) => format!("`{name}` is not text"),
    }
}

fn audience(claims: &Members) -> String {
    match claims.get("aud") {
        Some(Value::Array(audiences)) => {
            format!("`aud` is {}", excerpts(audiences.iter().filter_map(Value::as_str)))
        }
        _ => is(claims, "aud"),
    }
}
