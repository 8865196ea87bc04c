//! Authenticates callers: takes the bytes of an `Authorization` header and returns a verified
//! subject. The time and the keys are arguments; nothing here is async (the shared caches have
//! locks) or does I/O, except to read random bytes from the system.
//!
//! Read [`Authenticator`] first: it takes the header's value and returns a [`CachedSubject`].
//! `authorization` splits the value into scheme and credentials. `credentials`, `accounts` and
//! `password` implement HTTP Basic (RFC 7617): user and password, the users of the policy, and the
//! formats of password hashes. `jwt`, [`jwks`] and [`discovery`] implement JSON Web Tokens, the
//! keys that verify them, and how they are found. `verification` separates the slow part of both,
//! so that it can run later and on other threads. `cache` keeps verified credentials for all
//! threads, by the keyed hashes of `keyed_hasher`; `local_cache` is a smaller cache of one thread.
//! `memory` computes how much memory both take.

#![deny(clippy::wildcard_enum_match_arm)]

mod accounts;
mod authenticator;
mod authorization;
mod cache;
mod credentials;
mod credentials_error;
pub mod discovery;
mod excerpt;
mod json;
pub mod jwks;
mod jwt;
mod keyed_hasher;
mod limits;
mod local_cache;
mod memory;
mod names;
mod password;
mod unknown_kids;
mod verification;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use policy::KeyUrl;
use policy::model::SourceId;

pub use authenticator::{Attempted, Authenticator, signed_part};
pub use cache::CacheSize;
pub use credentials_error::CredentialsError;
pub use excerpt::{excerpt, excerpts};
pub use jwt::{claim, malformed_names, named_roles};
pub use limits::Limits;
pub use local_cache::{CacheLookups, LocalCache};
pub use memory::{HeapSize, allocated};
pub use password::{HashAlgorithm, HashPasswordError, hash_password};
pub use unknown_kids::UnknownKids;
pub use verification::{Verification, VerificationKind, VerificationResult};

/// A point in time, as the duration since the Unix epoch.
pub type UnixTime = Duration;

/// What was fetched, by URL: key sets, and the inventory of a search cluster (the names of its
/// indices, aliases and data streams). `None`: keys that are stale, with `on-stale: unavailable`,
/// or an inventory past its `max_age`.
pub type FetchedKeys = HashMap<KeyUrl, Option<Arc<[u8]>>>;

/// Who a caller is, from its verified credentials (with `verify: false`, from credentials that were
/// verified by something between the client and Envoy).
#[derive(Clone, Debug)]
pub struct Subject {
    /// The user name with the prefix of its source. Never empty, no control characters.
    pub user: Arc<str>,
    /// The issuer of the token; `None` for Basic.
    pub issuer: Option<Arc<str>>,
    /// What authenticated it. Of a subject that is given by its name, the source that the name can
    /// come from, `None` if that is not certain. It does not tell whether credentials were
    /// verified.
    pub source: Option<SourceId>,
    /// The groups with the prefix of their source. None is empty or has control characters.
    pub groups: Vec<Arc<str>>,
    /// The roles in the token, if the policy accepts roles from its issuer (`roles_from_token`).
    pub roles: Vec<Arc<str>>,
    /// The claims of the token, for `attach` in [`Authenticator::authenticate`]. `Null` for Basic,
    /// and in each [`CachedSubject`]: parsed JSON can take 80 times the memory of its text (an
    /// object with one member takes 640 bytes).
    pub claims: serde_json::Value,
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

/// A subject, and what the calling crate attached to it (its roles under the policy, for example).
/// This is what the caches hold.
#[derive(Debug)]
pub struct CachedSubject<T> {
    /// The subject.
    pub subject: Subject,
    /// What the calling crate attached to it.
    pub attached: T,
}

impl<T> CachedSubject<T> {
    /// A subject for the caches. Its claims are only for `attach` and are not kept: see
    /// [`Subject::claims`].
    fn new(subject: &Subject, attach: impl FnOnce(&Subject) -> T) -> Arc<Self> {
        let attached = attach(subject);
        let Subject { user, issuer, source, groups, roles, claims: _ } = subject;
        let subject = Subject {
            user: Arc::clone(user),
            issuer: issuer.clone(),
            source: *source,
            groups: groups.clone(),
            roles: roles.clone(),
            claims: serde_json::Value::Null,
        };
        Arc::new(Self { subject, attached })
    }
}

impl From<CredentialsError> for NotAuthenticated {
    fn from(error: CredentialsError) -> Self {
        Self::Invalid(error)
    }
}
