//! How the caller of a request becomes known: by its credentials, or by assumption.

use std::any::Any;
use std::sync::Arc;

use identity::{
    Authenticator, CachedSubject, Certificate, Credentials, CredentialsError, HeapSize, LocalCache,
    NotAuthenticated, Subject, UnixTime, VerificationResult,
};

/// The caller of a request, with the data that a [`Backend`](crate::Backend) keeps about it; `None`
/// if it is anonymous.
pub(crate) type Caller<'c, D> = Option<&'c CachedSubject<D>>;

/// Why a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Its credentials are valid.
    Verified,
    /// It is assumed. It gets no identity header.
    Assumed,
    /// It is assumed, to explain a decision. As [`Trust::Assumed`], but it takes no place in a
    /// shared cache, and no lock that other decisions wait for.
    AssumedUncached,
}

/// A way to know the caller of a request.
pub(crate) enum Authentication<'r> {
    /// By its credentials. Unless they are in a cache, another thread verifies them. After that,
    /// this has the result.
    Deferred(Option<&'r VerificationResult>),
    /// By its credentials, which this thread verifies.
    Inline,
    /// By assumption, whatever the credentials are.
    Assumed(Result<Option<Subject>, CredentialsError>, Trust),
    /// By assumption, with the data of a backend.
    Prepared(Result<&'r PreparedCaller, CredentialsError>),
}

/// A [`CachedSubject`] with the data of a backend.
pub(crate) type PreparedCaller = Arc<dyn Any + Send + Sync>;

impl Authentication<'_> {
    /// Whether the caller is known by its credentials, which are then well-formed.
    pub(crate) fn reads_credentials(&self) -> bool {
        !matches!(self, Self::Assumed(..) | Self::Prepared(_))
    }

    /// The caller. `attach` computes the data of the backend for a subject that is in no cache. An
    /// assumed caller has the actor of `certificate`, if an actor is required.
    ///
    /// # Errors
    /// If its credentials are invalid. [`NotAuthenticated::Pending`] only if they are verified by
    /// another thread.
    pub(crate) fn caller<'c, D: HeapSize + Send + Sync + 'static>(
        self,
        authenticator: &Authenticator<D>,
        (credentials, certificate): (Option<Credentials<'_>>, Option<Certificate<'_>>),
        now: UnixTime,
        cache: &'c mut LocalCache<D>,
        attach: impl Fn(&Subject, Trust) -> D,
    ) -> Result<Caller<'c, D>, NotAuthenticated> {
        match self {
            Self::Deferred(result) => {
                authenticator.authenticate(credentials, result, now, cache, |subject| {
                    attach(subject, Trust::Verified)
                })
            }
            Self::Inline => {
                Ok(authenticator.authenticate_inline(credentials, now, cache, |subject| {
                    attach(subject, Trust::Verified)
                })?)
            }
            Self::Assumed(caller, trust) => {
                let Some(subject) = caller? else { return Ok(None) };
                let subject = authenticator.with_required_actor(subject, certificate)?;
                let attached = attach(&subject, trust);
                Ok(Some(cache.keep_until_next_call(Arc::new(CachedSubject { subject, attached }))))
            }
            Self::Prepared(caller) => match Arc::clone(caller?).downcast::<CachedSubject<D>>() {
                Ok(cached) => {
                    // It was prepared without a request: no certificate gave it an actor.
                    if authenticator.requires_both() && cached.subject.actor.is_none() {
                        return Err(CredentialsError::IncompleteCredentials.into());
                    }
                    Ok(Some(cache.keep_until_next_call(cached)))
                }
                // The caller was prepared for the other backend.
                Err(_) => Err(CredentialsError::UnsupportedScheme.into()),
            },
        }
    }
}
