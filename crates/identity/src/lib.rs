//! Authenticates callers: takes the [`Credentials`] of a request and returns a verified subject.
//! The time and the keys are arguments; nothing here is async (the shared caches have locks) or
//! does I/O, except to read random bytes from the system.
//!
//! Read [`Authenticator`] first: it takes the credentials and returns a [`CachedSubject`].
//!
//! * `credentials` splits the value into scheme and credentials, and decodes Basic credentials.
//! * `accounts` and `password` have the users of the policy and their password hashes.
//! * `api_keys` has the API keys of the policy.
//! * `certificate` reads the names of a client certificate, and `xfcc` reads them in the header
//!   `x-forwarded-client-cert`. `certificates` has the users of such names.
//! * `jwt`, [`jwks`] and [`discovery`] implement JSON Web Tokens, the keys that verify them, and
//!   how these are found.
//! * `verification` is the slow part for passwords and tokens. It can run later and on other
//!   threads.
//! * `cache` keeps verified credentials for all threads, by the keyed hashes of `keyed_hasher`;
//!   `local_cache` is a smaller cache for each thread. `memory` computes how much memory they take.

#![deny(clippy::wildcard_enum_match_arm)]

mod accounts;
mod api_keys;
mod authenticator;
mod cache;
mod certificate;
mod certificates;
mod credentials;
mod credentials_error;
pub mod discovery;
pub mod json;
pub mod jwks;
mod jwt;
mod keyed_hasher;
mod limits;
mod local_cache;
mod memory;
mod password;
mod unknown_kids;
mod verification;
mod xfcc;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use policy::KeyUrl;
use policy::model::SourceId;

pub use api_keys::NewApiKey;
pub use authenticator::{Attempted, Authenticator, signed_part};
pub use cache::CacheSize;
pub use certificate::{Certificate, MalformedCertificate};
pub use credentials::{Credentials, UserCredentials};
pub use credentials_error::CredentialsError;
pub use jwt::{
    MalformedAnswer, check_required, claim, describe_malformed_names, names, token_roles,
};
pub use limits::Limits;
pub use local_cache::{CacheLookups, LocalCache};
pub use memory::{HeapSize, allocated};
pub use password::{HashAlgorithm, HashPasswordError, hash_password};
pub use unknown_kids::UnknownKids;
pub use verification::{Question, Verification, VerificationKind, VerificationResult};
pub use xfcc::{LastElement, MalformedXfcc};

/// A point in time, as the duration since the Unix epoch.
pub type UnixTime = Duration;

/// Fetched documents by URL: key sets, and the inventory of a search cluster (the names of its
/// indices, aliases and data streams). `None`: keys that are stale, with `on-stale: unavailable`,
/// or an inventory past its `max_age`.
pub type FetchedKeys = HashMap<KeyUrl, Option<Arc<[u8]>>>;

/// The caller, from its verified credentials (with `verify: false`, from credentials that another
/// program verified between the client and Envoy).
#[derive(Clone, Debug)]
pub struct Subject {
    /// The user name with the prefix of its source. Never empty, no control characters.
    pub user: Arc<str>,
    /// The issuer of the token; `None` for other credentials.
    pub issuer: Option<Arc<str>>,
    /// The method that authenticated it. If a subject was made from a name, the source of such
    /// names; `None` if that is ambiguous. It does not tell whether credentials were verified.
    pub source: Option<SourceId>,
    /// The groups with the prefix of their source. None is empty or has control characters.
    pub groups: Vec<Arc<str>>,
    /// The roles in the token, if the policy accepts roles from its issuer (`roles_from_token`).
    pub roles: Vec<Arc<str>>,
    /// The claims of the token, for `attach` in [`Authenticator::authenticate`]. `Null` without a
    /// token, and in each [`CachedSubject`]: parsed JSON can take 80 times the memory of its text
    /// (`{"a":0}` takes 640 bytes).
    pub claims: serde_json::Value,
    /// The actor that calls for this user: the application with a certificate (`combine: both`), or
    /// the actor in the claim `act` (RFC 8693, 4.1). It has no claims and no actor. The roles that
    /// count for a request are those that both the user and the actor have.
    pub actor: Option<Arc<Subject>>,
}

impl Subject {
    /// The subject, with this actor that calls for it.
    #[must_use]
    pub fn with_actor(&self, actor: &Arc<Self>) -> Self {
        Self { actor: Some(Arc::clone(actor)), ..self.clone() }
    }
}

/// Why no subject is returned for credentials.
#[derive(Debug)]
pub enum NotAuthenticated {
    /// The credentials are invalid.
    Invalid(CredentialsError),
    /// The credentials must be verified first: run this, then call [`Authenticator::authenticate`]
    /// again with its result.
    Pending(Verification),
}

/// A subject in the caches.
#[derive(Debug)]
pub struct CachedSubject<T> {
    /// The subject.
    pub subject: Subject,
    /// A value of the calling crate, such as the roles of the subject under the policy.
    pub attached: T,
}

impl<T> CachedSubject<T> {
    /// Calls `attach`, and drops the claims: see [`Subject::claims`].
    fn new(subject: &Subject, attach: impl FnOnce(&Subject) -> T) -> Arc<Self> {
        let attached = attach(subject);
        let Subject { user, issuer, source, groups, roles, claims: _, actor } = subject;
        let subject = Subject {
            user: Arc::clone(user),
            issuer: issuer.clone(),
            source: *source,
            groups: groups.clone(),
            roles: roles.clone(),
            claims: serde_json::Value::Null,
            actor: actor.clone(),
        };
        Arc::new(Self { subject, attached })
    }
}

impl From<CredentialsError> for NotAuthenticated {
    fn from(error: CredentialsError) -> Self {
        Self::Invalid(error)
    }
}

/// Whether a text can be the name of a user, a group or a role, which goes into log lines, headers
/// and comparisons: not empty, no control characters.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// A name with the prefix of its source.
#[must_use]
pub fn with_prefix(prefix: &str, name: &str) -> Arc<str> {
    if prefix.is_empty() { name.into() } else { [prefix, name].concat().into() }
}
