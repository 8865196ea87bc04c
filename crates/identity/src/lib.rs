//! Proof bytes in, verified caller out. The clock and the keys are arguments; nothing here does I/O or waits.
//!
//! Read [`Authenticator`] first: it takes the value of the `Authorization` header and says who is [`Identified`].
//! `basic` and `password` are HTTP Basic and the formats of password hashes; `jwt` and [`jwks`] are tokens and the keys
//! that verify them; `cache` remembers what was verified, under the keyed hashes of `hasher`, and
//! `memory` says how much that takes.

mod authenticator;
mod authorization;
mod basic;
mod cache;
mod credentials_error;
mod json;
pub mod jwks;
mod jwt;
mod keyed_hasher;
mod memory;
mod names;
mod password;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use policy::KeyUrl;

pub use authenticator::{Authenticator, Limits};
pub use basic::{PasswordCheck, PasswordChecked};
pub use credentials_error::CredentialsError;
pub use memory::{HeapSize, allocated};
pub use password::{Recipe, RecipeError, hash_password};

/// A time, since the Unix epoch.
pub type Time = Duration;

/// The bytes of the key sets that were fetched, by URL.
pub type FetchedKeys = HashMap<KeyUrl, Arc<[u8]>>;

/// A caller whose proof has been verified.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The user name, with its source's prefix; never empty, no control characters.
    pub user: Arc<str>,
    /// The groups, with their source's prefix; none is empty or has control characters.
    pub groups: Vec<Arc<str>>,
    /// The roles that the token carries, where its issuer's count.
    pub roles: Vec<Arc<str>>,
    /// The claims of the token, for what is attached to the subject; `Null` for Basic, and in [`Known`].
    ///
    /// They are not remembered: a map of one member takes 640 bytes, so claims can take 80 times as much as their text.
    pub claims: serde_json::Value,
}

/// Who is calling.
#[derive(Debug)]
pub enum Identified<T> {
    /// No proof at all.
    Anonymous,
    /// A verified proof, with what was attached to its subject when it was verified first.
    Known(Arc<Known<T>>),
    /// A proof that does not verify.
    Invalid(CredentialsError),
    /// A password that must be hashed to know: run this off the request threads, then call [`Authenticator::finish`].
    Pending(PasswordCheck),
}

/// A verified subject and what the caller of this crate attached to it (its roles, say).
#[derive(Debug)]
pub struct Known<T> {
    /// Who it is.
    pub subject: Subject,
    /// What was attached.
    pub attached: T,
}
