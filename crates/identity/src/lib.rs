//! Proof bytes in, verified caller out. The clock and the keys are arguments; nothing here does I/O or waits.

use std::sync::Arc;
use std::time::Duration;

use policy::problem::Problem;

/// A time, since the Unix epoch.
pub type Time = Duration;

/// A caller whose proof has been verified.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The user name, with its source's prefix; never empty.
    pub user: Arc<str>,
    /// The groups, with their source's prefix.
    pub groups: Vec<Arc<str>>,
    /// The roles that the token carries, where its issuer's count.
    pub roles: Vec<Arc<str>>,
    /// The claims of the token; `Null` for Basic.
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
    Refused(Refusal),
    /// A password that must be hashed to know: run this off the request threads, then ask [`Authenticator::finish`].
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

/// Why a proof does not verify. A closed list; none tells what the proof was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A scheme that the policy does not configure.
    #[error("unsupported scheme")]
    UnsupportedScheme,
}

/// A password that must be hashed.
#[derive(Debug)]
pub struct PasswordCheck {}

/// A password that was hashed: whether it was right.
#[derive(Debug)]
pub struct PasswordChecked {}

/// Verifies proofs, and remembers those that were right. `T` is what the caller attaches to each verified subject.
#[derive(Debug)]
pub struct Authenticator<T> {
    attached: std::marker::PhantomData<T>,
}

/// The bytes of the key sets that were fetched, by address.
pub type FetchedKeys = std::collections::HashMap<Arc<str>, Arc<[u8]>>;

impl PasswordCheck {
    /// Equal for equal user and password, and secret to this process: to run equal checks once.
    #[must_use]
    pub fn key(&self) -> u128 {
        todo!()
    }

    /// Hashes: takes milliseconds, so never on a request thread.
    #[must_use]
    pub fn run(self) -> PasswordChecked {
        todo!()
    }
}

impl<T> Authenticator<T> {
    /// Checks hashes and keys and makes them ready.
    ///
    /// # Errors
    /// Every hash and key that is unreadable or too weak, with its place.
    pub fn compile(
        settings: &policy::model::Identity,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let _ = (settings, fetched, previous);
        todo!()
    }

    /// Who is calling, by the value of the one `Authorization` header.
    pub fn identify(
        &self,
        authorization: Option<&[u8]>,
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Identified<T> {
        let _ = (authorization, now, attach);
        todo!()
    }

    /// Who is calling, now that the password has been hashed.
    pub fn finish(
        &self,
        checked: PasswordChecked,
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Identified<T> {
        let _ = (checked, now, attach);
        todo!()
    }

    /// The subject of a token with these claims, taken as verified.
    ///
    /// # Errors
    /// When no configured issuer is the claims' `iss`, or they name no user.
    pub fn subject_of(&self, claims: &serde_json::Value) -> Result<Subject, Refusal> {
        let _ = claims;
        todo!()
    }
}
