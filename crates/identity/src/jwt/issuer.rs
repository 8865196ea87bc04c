//! An issuer: its settings, its keys, and the verification of its tokens.

use std::mem;
use std::sync::{Mutex, PoisonError};

use document::{Place, Problem, Warning};
use policy::KeyUrl;
use policy::model::{self, Keys, SourceId};
use serde_json::{Map, Value};

use super::token::{Header, Token};
use super::{claims, subject};
use crate::cache::Window;
use crate::jwks::{self, Key, KeyFault, KeySet, KeySetError};
use crate::{CredentialsError, FetchedKeys, Subject, UnixTime, UnknownKids};

/// An issuer with its keys parsed.
pub(crate) struct Issuer {
    pub(crate) settings: model::Issuer,
    pub(crate) source: SourceId,
    /// `None` if the keys have not been fetched yet, or are stale.
    keys: Option<KeySet>,
    /// Whether the keys were fetched, but are too old.
    pub(crate) has_stale_keys: bool,
    /// The `kid`s of tokens for which there is no key: the issuer may have replaced its keys.
    unknown_kids: Mutex<UnknownKids>,
}

/// The subject of a verified token, and when the token is valid.
pub(crate) struct VerifiedToken {
    pub(crate) subject: Subject,
    pub(crate) window: Window,
}

impl Issuer {
    /// Parses the keys, and adds their problems to `problems`.
    pub(crate) fn compile(
        settings: &model::Issuer,
        source: SourceId,
        fetched: &FetchedKeys,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut has_stale_keys = false;
        let keys = match &settings.keys {
            Keys::File { bytes, at, path } => parse_key_set(bytes, at, path, true, problems),
            Keys::Url { url, at, .. } => match fetched.get(url) {
                Some(Some(bytes)) => parse_fetched_set(bytes, at, &url.to_string(), problems),
                Some(None) => {
                    has_stale_keys = true;
                    None
                }
                None => None,
            },
            Keys::Introspection(_) => None,
        };
        Self {
            settings: settings.clone(),
            source,
            keys,
            has_stale_keys,
            unknown_kids: Mutex::default(),
        }
    }

    /// Verifies a token that names this issuer.
    fn verify(&self, token: Token<'_>, now: UnixTime) -> Result<VerifiedToken, CredentialsError> {
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

    /// Accepts a token that names this issuer, whose signature another policy has verified.
    ///
    /// # Errors
    /// If this policy does not accept it.
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

    /// The subject of a token whose signature is valid, or, for an opaque token, of the claims with
    /// which its issuer has answered.
    pub(super) fn accept(
        &self,
        payload: Map<String, Value>,
        now: UnixTime,
    ) -> Result<VerifiedToken, CredentialsError> {
        let window = claims::window(&payload, &self.settings, now)?;
        claims::check_audience(&payload, &self.settings.audiences)?;
        claims::check_required(&payload, &self.settings.require)?;
        Ok(VerifiedToken { subject: subject(payload, &self.settings, self.source)?, window })
    }

    /// The keys, unless they have not been fetched yet or are stale.
    pub(crate) fn keys(&self) -> Option<&KeySet> {
        self.keys.as_ref()
    }

    /// The URL of the key set, if it is fetched.
    pub(crate) fn url(&self) -> Option<&KeyUrl> {
        match &self.settings.keys {
            Keys::Url { url, .. } => Some(url),
            Keys::File { .. } | Keys::Introspection(_) => None,
        }
    }

    /// Where to ask this issuer about its tokens, if they are opaque.
    pub(crate) fn introspection(&self) -> Option<&model::Introspection> {
        match &self.settings.keys {
            Keys::Introspection(introspection) => Some(introspection),
            Keys::File { .. } | Keys::Url { .. } => None,
        }
    }

    /// The `kid`s without a key that tokens have named since the last call.
    pub(crate) fn take_unknown_kids(&self) -> UnknownKids {
        mem::take(&mut *self.unknown_kids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn key(&self, token: &Token<'_>) -> Result<&Key, CredentialsError> {
        let keys = self.keys.as_ref().ok_or(CredentialsError::KeysUnavailable)?;
        let kid = token.header.kid.as_deref();
        keys.select(kid, token.header.algorithm).ok_or_else(|| {
            if let (Some(kid), Some(_)) = (kid, self.url()) {
                self.unknown_kids.lock().unwrap_or_else(PoisonError::into_inner).add(kid);
            }
            CredentialsError::UnknownKey
        })
    }
}

/// Verifies a token with the keys of the issuer that it names.
///
/// # Errors
/// If the token is invalid.
pub(crate) fn verify(
    issuers: &[Issuer],
    text: &[u8],
    now: UnixTime,
) -> Result<VerifiedToken, CredentialsError> {
    let token = Token::parse(text)?;
    find_issuer(issuers, token.payload.get("iss"))?.verify(token, now)
}

/// The issuer that `iss` names.
///
/// # Errors
/// If no issuer has this name.
pub(crate) fn find_issuer<'a>(
    issuers: &'a [Issuer],
    iss: Option<&Value>,
) -> Result<&'a Issuer, CredentialsError> {
    let iss = iss.and_then(Value::as_str).ok_or(CredentialsError::UnknownIssuer)?;
    let mut issuers = issuers.iter();
    let issuer = issuers.find(|issuer| &*issuer.settings.issuer == iss);
    issuer.ok_or(CredentialsError::UnknownIssuer)
}

/// Parses a fetched set. A bad key in it is only a warning, so that it does not disable the good
/// keys: another party may run the issuer.
fn parse_fetched_set(
    bytes: &[u8],
    at: &Place,
    url: &str,
    problems: &mut Vec<Problem>,
) -> Option<KeySet> {
    let keys = parse_key_set(bytes, at, url, false, problems)?;
    if keys.has_secret() {
        let message =
            format!("`{url}` publishes a shared secret: anyone who can read it can make tokens");
        let warning = Problem::warning(at.clone(), Warning::PublicSecret, message);
        problems.push(warning.help("use a public key, or a file"));
    }
    Some(keys)
}

/// Parses the set from this URL or path. In a file, a rejected key is an error. Every other fault
/// of a key is a warning, and the key is ignored: see [`KeyFault::is_rejected`].
fn parse_key_set(
    bytes: &[u8],
    at: &Place,
    source: &str,
    is_file: bool,
    problems: &mut Vec<Problem>,
) -> Option<KeySet> {
    let (keys, faults, error) = match jwks::parse(bytes) {
        Ok((keys, faults)) => (Some(keys), faults, None),
        // The message of this error does not list the faults: each is a problem of its own.
        Err(KeySetError::NoUsableKey(faults)) => {
            (None, faults, Some(KeySetError::NoUsableKey(Vec::new())))
        }
        Err(error) => (None, Vec::new(), Some(error)),
    };
    for KeyFault { key, message, is_rejected } in faults {
        problems.push(if is_file && is_rejected {
            Problem::error(at.clone(), format!("{key} cannot be used: {message}, in `{source}`"))
        } else {
            let message = format!("{key} is ignored: {message}, in `{source}`");
            Problem::warning(at.clone(), Warning::IgnoredKey, message)
        });
    }
    problems.extend(error.map(|error| {
        let problem = Problem::error(at.clone(), format!("key set `{source}`: {error}"));
        match error.help() {
            Some(help) => problem.help(help),
            None => problem,
        }
    }));
    keys
}
