//! An issuer: its settings, its keys, and the verification of its tokens.

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use document::{Place, Problem, Warning};
use policy::KeyUrl;
use policy::model::{self, Keys, SourceId};
use serde_json::{Map, Value};

use super::header::Header;
use super::token::Token;
use super::{claims, subject};
use crate::cache::Window;
use crate::jwks::{self, Key, KeyFault, KeySet, KeySetError, NotJson};
use crate::{CredentialsError, FetchedKeys, Subject, UnixTime, UnknownKids};

/// An issuer with its keys parsed.
pub(crate) struct Issuer {
    pub(crate) settings: model::Issuer,
    pub(crate) source: SourceId,
    /// `None` if the keys are at a URL and have not been fetched yet, or are stale.
    keys: Option<KeySet>,
    /// Whether the keys were fetched, and are too old to be used.
    pub(crate) has_stale_keys: bool,
    /// The `kid`s that tokens name and no key of the set has: the issuer may have replaced its keys.
    unknown: Mutex<UnknownKids>,
}

/// The subject of a verified token, and when the token is valid.
pub(crate) struct VerifiedToken {
    pub(crate) subject: Subject,
    pub(crate) window: Window,
}

impl Issuer {
    /// Parses the keys, and adds what is wrong with them to `problems`.
    pub(crate) fn compile(
        settings: &model::Issuer,
        source: SourceId,
        fetched: &FetchedKeys,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut has_stale_keys = false;
        let keys = match &settings.keys {
            Keys::File { bytes, at, path } => {
                parse_key_set(bytes, at, Source::File(path), Problem::error, problems)
            }
            Keys::Url { url, at, .. } => match fetched.get(url) {
                Some(Some(bytes)) => fetched_set(bytes, at, &url.to_string(), problems),
                stale => {
                    has_stale_keys = stale.is_some();
                    None
                }
            },
        };
        Self { settings: settings.clone(), source, keys, has_stale_keys, unknown: Mutex::default() }
    }

    /// Verifies a token that names this issuer.
    ///
    /// # Errors
    /// Why the token is invalid.
    pub(crate) fn verify(&self, token: Token<'_>, now: UnixTime) -> Result<VerifiedToken, CredentialsError> {
        self.check_type(&token.header)?;
        let key = self.key(&token)?;
        if key.algorithm() != token.header.algorithm {
            return Err(CredentialsError::WrongAlgorithm);
        }
        if !key.verify(token.signed, &token.signature) {
            return Err(CredentialsError::BadSignature);
        }
        self.accept(token.payload, now)
    }

    /// Accepts a token that names this issuer and whose signature was verified by another policy.
    ///
    /// # Errors
    /// Why this policy does not accept it.
    pub(crate) fn accept_verified(
        &self,
        (header, payload): (Header, Map<String, Value>),
        now: UnixTime,
    ) -> Result<Subject, CredentialsError> {
        self.check_type(&header)?;
        self.accept(payload, now).map(|verified| verified.subject)
    }

    fn check_type(&self, header: &Header) -> Result<(), CredentialsError> {
        let required = self.settings.required_type.as_deref();
        if required.is_some_and(|required| !header.is_of_type(required)) {
            return Err(CredentialsError::WrongType);
        }
        Ok(())
    }

    /// The subject of a token with a valid signature.
    fn accept(&self, payload: Map<String, Value>, now: UnixTime) -> Result<VerifiedToken, CredentialsError> {
        let window = claims::window(&payload, &self.settings, now)?;
        claims::check_audience(&payload, &self.settings.audiences)?;
        Ok(VerifiedToken { subject: subject(payload, &self.settings, self.source)?, window })
    }

    /// The keys, unless they have not been fetched yet or are stale.
    pub(crate) fn keys(&self) -> Option<&KeySet> {
        self.keys.as_ref()
    }

    /// The URL of the key set, unless it is in a file.
    pub(crate) fn url(&self) -> Option<&KeyUrl> {
        match &self.settings.keys {
            Keys::Url { url, .. } => Some(url),
            Keys::File { .. } => None,
        }
    }

    /// The `kid`s that tokens have named since the last call and no key of the set has.
    pub(crate) fn take_unknown_kids(&self) -> UnknownKids {
        mem::take(&mut *self.unknown.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn key(&self, token: &Token<'_>) -> Result<&Key, CredentialsError> {
        let keys = self.keys.as_ref().ok_or(CredentialsError::KeysUnavailable)?;
        let kid = token.header.kid.as_deref();
        keys.select(kid, token.header.algorithm).ok_or_else(|| {
            if let (Some(kid), Some(_)) = (kid, self.url()) {
                self.unknown.lock().unwrap_or_else(PoisonError::into_inner).add(kid);
            }
            CredentialsError::UnknownKey
        })
    }
}

/// The issuer that `iss` names.
///
/// # Errors
/// If there is none.
pub(crate) fn find_issuer<'a>(
    issuers: &'a [Issuer],
    iss: Option<&Value>,
) -> Result<&'a Issuer, CredentialsError> {
    let iss = iss.and_then(Value::as_str).ok_or(CredentialsError::UnknownIssuer)?;
    issuers.iter().find(|issuer| &*issuer.settings.issuer == iss).ok_or(CredentialsError::UnknownIssuer)
}

/// Parses a fetched set. A bad key in it is only a warning, so that it does not disable the good ones: another
/// party may run the issuer.
fn fetched_set(bytes: &[u8], at: &Place, url: &str, problems: &mut Vec<Problem>) -> Option<KeySet> {
    let keys = parse_key_set(bytes, at, Source::Url(url), ignored_key, problems)?;
    if keys.has_secret() {
        let message = format!("`{url}` publishes a shared secret: anyone who can read it can make tokens");
        problems.push(
            Problem::warning(at.clone(), Warning::PublicSecret, message).help("use a public key, or a file"),
        );
    }
    Some(keys)
}

fn ignored_key(at: Place, message: String) -> Problem {
    Problem::warning(at, Warning::IgnoredKey, message)
}

/// Where a set is from.
#[derive(Clone, Copy)]
enum Source<'a> {
    File(&'a str),
    Url(&'a str),
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name) | Self::Url(name) => f.write_str(name),
        }
    }
}

/// Parses a set. `severity` is that of a weak or damaged key.
fn parse_key_set(
    bytes: &[u8],
    at: &Place,
    source: Source<'_>,
    severity: fn(Place, String) -> Problem,
    problems: &mut Vec<Problem>,
) -> Option<KeySet> {
    let mut report = |fault: &KeyFault| {
        let severity = if fault.other_purpose { ignored_key } else { severity };
        let mut problem = severity(at.clone(), String::new());
        let verdict = if problem.is_warning() { "is ignored" } else { "cannot be used" };
        problem.message = format!("{} {verdict}: {}, in `{source}`", fault.key, fault.message);
        problems.push(problem);
    };
    match jwks::parse(bytes) {
        Ok((keys, faults)) => {
            faults.iter().for_each(report);
            Some(keys)
        }
        Err(error) => {
            if let KeySetError::NoUsableKey(faults) = &error {
                faults.iter().for_each(&mut report);
            }
            let problem = Problem::error(at.clone(), format!("key set `{source}`: {error}"));
            problems.push(match (&error, source) {
                (KeySetError::NotJson(NotJson { what, at: Some((line, column)) }), Source::File(path)) => {
                    let of_json = Place { file: Path::new(path).into(), line: *line, column: *column };
                    Problem::error(of_json, format!("key set `{source}`: not JSON{what}"))
                        .related(at.clone(), "the policy names the file here")
                }
                (KeySetError::Mixed(_), _) => problem.help(
                    "replace the shared secrets: anyone who can read the set of public keys knows them",
                ),
                (KeySetError::Discovery { jwks_uri }, _) => problem
                    .help(format!("write `discovery: true`, or the URL of its `jwks_uri`: `{jwks_uri}`")),
                (
                    KeySetError::TooLong
                    | KeySetError::NotJson(_)
                    | KeySetError::NotAKeySet
                    | KeySetError::NoUsableKey(_),
                    _,
                ) => problem,
            });
            None
        }
    }
}
