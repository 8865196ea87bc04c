//! How the caller of a request becomes known: by its credentials, verified on other threads or on
//! this one, or by assumption.

use std::convert::Infallible;
use std::sync::Arc;

use identity::{
    Authenticator, CachedSubject, CredentialsError, HeapSize, LocalCache, NotAuthenticated, Subject,
    UnixTime, Verification, VerificationResult,
};

/// The caller of a request, with what the backend attaches to it. `None` is an anonymous one.
pub(crate) type Caller<'c, D> = Option<&'c CachedSubject<D>>;

/// Why a caller is known. What the backend attaches to it depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Its credentials are valid.
    Verified,
    /// It is assumed. It gets no identity header.
    Assumed,
    /// The same, to explain a decision: it takes no place in a shared cache, and no lock that other
    /// decisions wait for.
    Explained,
}

/// A way to know the caller of a request.
pub(crate) trait Authentication {
    /// What is returned if credentials must be verified first.
    type Pending;

    /// Whether a caller is known by the value of its `Authorization` header, which is then
    /// well-formed.
    const READS_CREDENTIALS: bool;

    /// The caller. `attach` computes what the backend attaches to a subject that is in no cache
    /// yet.
    fn caller<'c, D: HeapSize>(
        self,
        authenticator: &Authenticator<D>,
        authorization: Option<&[u8]>,
        now: UnixTime,
        cache: &'c mut LocalCache<D>,
        attach: impl Fn(&Subject, Trust) -> D,
    ) -> Result<Result<Caller<'c, D>, CredentialsError>, Self::Pending>;
}

/// By credentials that another thread verifies, unless they are in a cache: with the result, if
/// there is one already.
pub(crate) struct Deferred<'r>(pub(crate) Option<&'r VerificationResult>);

/// By credentials that this thread verifies: for tools and tests, as a hash takes milliseconds.
pub(crate) struct Inline;

/// By assumption, whatever the credentials are.
pub(crate) struct Assumed {
    pub(crate) caller: Result<Option<Subject>, CredentialsError>,
    pub(crate) trust: Trust,
}

impl Authentication for Deferred<'_> {
    type Pending = Verification;

    const READS_CREDENTIALS: bool = true;

    fn caller<'c, D: HeapSize>(
        self,
        authenticator: &Authenticator<D>,
        authorization: Option<&[u8]>,
        now: UnixTime,
        cache: &'c mut LocalCache<D>,
        attach: impl Fn(&Subject, Trust) -> D,
    ) -> Result<Result<Caller<'c, D>, CredentialsError>, Verification> {
        let attach = |subject: &Subject| attach(subject, Trust::Verified);
        match authenticator.authenticate(authorization, self.0, now, cache, attach) {
            Ok(caller) => Ok(Ok(caller)),
            Err(NotAuthenticated::Invalid(error)) => Ok(Err(error)),
            Err(NotAuthenticated::Pending(verification)) => Err(verification),
        }
    }
}

impl Authentication for Inline {
    type Pending = Infallible;

    const READS_CREDENTIALS: bool = true;

    fn caller<'c, D: HeapSize>(
        self,
        authenticator: &Authenticator<D>,
        authorization: Option<&[u8]>,
        now: UnixTime,
        cache: &'c mut LocalCache<D>,
        attach: impl Fn(&Subject, Trust) -> D,
    ) -> Result<Result<Caller<'c, D>, CredentialsError>, Infallible> {
        let attach = |subject: &Subject| attach(subject, Trust::Verified);
        Ok(authenticator.authenticate_inline(authorization, now, cache, attach))
    }
}

impl Authentication for Assumed {
    type Pending = Infallible;

    const READS_CREDENTIALS: bool = false;

    fn caller<'c, D: HeapSize>(
        self,
        _: &Authenticator<D>,
        _: Option<&[u8]>,
        _: UnixTime,
        cache: &'c mut LocalCache<D>,
        attach: impl Fn(&Subject, Trust) -> D,
    ) -> Result<Result<Caller<'c, D>, CredentialsError>, Infallible> {
        Ok(match self.caller {
            Ok(Some(subject)) => {
                let attached = attach(&subject, self.trust);
                Ok(Some(cache.hold(Arc::new(CachedSubject { attached, subject }))))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        })
    }
}
