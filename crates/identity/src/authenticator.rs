//! The entry point of this crate: from the credentials of a request to the subject.
//!
//! A look-up has up to four steps, the cheapest first: the cache of the thread, the cache of all
//! threads, the Basic credentials carried over from the previous policy, and a verification, which
//! the calling crate runs.

mod basic;
mod unverified;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use document::{Problem, Severity};
use policy::KeyUrl;
use policy::model::{self, SourceId};
use zeroize::Zeroizing;

use crate::api_keys::{self, ApiKeys};
use crate::cache::{Cache, CacheSize, Lookup, TimedValue, Window};
use crate::certificate::Certificate;
use crate::certificates::Certificates;
use crate::credentials::{Authorization, BasicCredentials, Credentials};
use crate::jwks::KeySet;
use crate::jwt::{self, Issuer};
use crate::keyed_hasher::KeyedHasher;
use crate::limits::Limits;
use crate::local_cache::LocalCache;
use crate::password::MAX_PASSWORD;
use crate::verification::{
    CredentialsResult, PendingCredentials, Verification, VerificationResult,
};
use crate::{
    CachedSubject, CredentialsError, FetchedKeys, HeapSize, NotAuthenticated, Subject, UnixTime,
    UnknownKids,
};
use basic::Basic;
pub use unverified::{Attempted, signed_part};

/// The longest header value that is looked up in a [`LocalCache`], in bytes: the longest token, and
/// 16 bytes for the scheme and some spaces. A longer value is almost always invalid, so it is
/// parsed at once and not hashed for the cache.
const MAX_CACHED_VALUE: usize = jwt::MAX_BYTES + 16;

/// Maximum number of invalid opaque tokens that are remembered.
const MAX_REFUSED: usize = 1 << 12;

/// The id of the next authenticator. A new [`LocalCache`] has the id 0, which is never used.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Verifies credentials, and caches valid credentials. `T` is what the calling crate attaches to
/// each verified subject.
///
/// Only its caches change. A new policy or key set needs a new authenticator.
pub struct Authenticator<T> {
    /// Unique in this process, so that a [`LocalCache`] does not use the entries of another
    /// authenticator.
    id: u64,
    basic: Option<Basic<T>>,
    api_keys: Option<ApiKeys<T>>,
    certificates: Option<Certificates>,
    /// Whether a certificate and other credentials are required together (`combine: both`).
    requires_both: bool,
    issuers: Arc<[Issuer]>,
    /// Whether tokens may be in the `Authorization` header.
    reads_bearer: bool,
    /// Verified tokens, by `token_key`, and client certificates that the policy names. They are
    /// never carried over to the next authenticator, which may not accept them.
    tokens: Cache<Arc<CachedSubject<T>>>,
    /// Invalid opaque tokens, for some seconds, by the keyed hash of the token. They have their own
    /// cache, so that a flood of them evicts no valid token.
    refused: Cache<CredentialsError>,
    hasher: KeyedHasher,
    limits: Limits,
}

/// A subject whose credentials are valid.
type Verified<T> = TimedValue<Arc<CachedSubject<T>>>;

impl<T: HeapSize> Authenticator<T> {
    /// Parses password hashes and keys, and returns warnings with the authenticator.
    ///
    /// # Errors
    /// If a hash or a key set cannot be used, or the system returns no random bytes. The error has
    /// every problem with its place. A hash must not be damaged, unsupported or too costly; a weak
    /// hash is only a warning. A weak key is an error in a file. In a fetched set it is ignored,
    /// with a warning.
    pub fn compile(
        settings: &model::Identity,
        fetched: &FetchedKeys,
        limits: Limits,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let mut problems = Vec::new();
        let basic =
            settings.basic.as_ref().map(|basic| Basic::compile(basic, limits, &mut problems));
        let api_keys = settings.api_keys.as_ref().map(ApiKeys::compile);
        let certificates = settings.certificates.as_ref().map(Certificates::compile);
        let issuers = settings.jwt.iter().enumerate().map(|(index, issuer)| {
            Issuer::compile(issuer, SourceId::from_issuer(index), fetched, &mut problems)
        });
        let issuers: Arc<[Issuer]> = issuers.collect();
        let Some(hasher) = KeyedHasher::random() else {
            let at = settings.basic.as_ref().map(|basic| &basic.at);
            let at = at.or(settings.api_keys.as_ref().map(|keys| &keys.at));
            let at = at.or(settings.certificates.as_ref().map(|certificates| &certificates.at));
            let at = at.or(settings.jwt.first().map(|issuer| &issuer.at)).cloned();
            let message = "the system's random number generator failed";
            problems.extend(at.map(|at| Problem::error(at, message)));
            return Err(problems);
        };
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(problems);
        }
        let tokens = Cache::new(limits.tokens, limits.token_bytes);
        let refused = Cache::new(limits.tokens.min(MAX_REFUSED), limits.token_bytes);
        // `Relaxed` is enough: the id must only be unique, and orders no other memory access.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let reads_bearer = !issuers.is_empty() && settings.reads_bearer();
        let this = Self {
            id,
            basic,
            api_keys,
            certificates,
            requires_both: settings.combine_both.is_some(),
            issuers,
            reads_bearer,
            tokens,
            refused,
            hasher,
            limits,
        };
        Ok((this, problems))
    }

    /// Carries over the Basic credentials that `previous` has verified, of users whose stored hash
    /// is the same. Without this, the passwords of all callers would have to be hashed at once
    /// after a reload. Call it before this authenticator serves requests.
    ///
    /// This takes locks of `previous` that requests also take. The thread that compiles policies
    /// has a low priority, so it must not call this: it could hold a lock while it waits for a CPU,
    /// and requests would wait for that lock.
    pub fn carry_over(&mut self, previous: &Self) {
        self.hasher = previous.hasher.clone();
        self.tokens.continue_evictions(&previous.tokens);
        if let (Some(basic), Some(before)) = (&mut self.basic, &previous.basic) {
            basic.carry_over(before, self.limits);
        }
    }

    /// Uses the hasher of `other`, so that both can cache the result of the same verification. Call
    /// it before this authenticator serves requests. After [`Authenticator::carry_over`], call it
    /// only if `other` has the same hasher: another hasher would not find the carried-over
    /// credentials.
    pub fn share_hasher<U>(&mut self, other: &Authenticator<U>) {
        self.hasher = other.hasher.clone();
    }

    /// Authenticates a caller by its credentials. A caller without credentials is anonymous:
    /// `Ok(None)`. So is a caller with only a certificate that the policy does not name.
    ///
    /// `result` is the result of a [`Verification`] that an earlier call with the same header
    /// returned. If that was a call of an earlier authenticator (with another policy or other
    /// keys), a result for a token is ignored. So is a result for a user who has another hash here,
    /// or whom only one of the policies has. In these cases this may return another verification.
    ///
    /// `attach` is called when credentials are cached for all threads. That is in the call that has
    /// their `result`. Credentials that need no verification are cached at their first use: Basic
    /// credentials that were carried over or whose passwords are not verified, API keys, and
    /// certificates.
    ///
    /// For cached credentials this does not call `attach`, and allocates nothing, except at a
    /// thread's first call with this authenticator. With `combine: both`, this is so only if the
    /// cache of the thread has them. If it has not, this call allocates the actor. For a password
    /// or an API key it also calls `attach`: the cache of all threads keeps these without an actor.
    ///
    /// Where the policy requires a certificate and other credentials together, either alone is
    /// invalid. The certificate's user is then the [actor](Subject::actor).
    ///
    /// A value with a control byte or a comma never authenticates a caller. (For a token this may
    /// first return a verification, which fails.)
    ///
    /// # Errors
    /// If the credentials are invalid, or must be verified first.
    pub fn authenticate<'c>(
        &self,
        credentials: Option<Credentials<'_>>,
        result: Option<&VerificationResult>,
        now: UnixTime,
        cache: &'c mut LocalCache<T>,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<&'c CachedSubject<T>>, NotAuthenticated> {
        let Some(credentials) = credentials else { return Ok(None) };
        self.check_complete(credentials)?;
        if let Credentials::Certificate(certificate) = credentials {
            return self.authenticate_certificate(certificate, now, cache, attach);
        }
        let look_up = || self.look_up(credentials, result, now, attach);
        let Some(key) = self.local_key(credentials) else {
            return Ok(Some(cache.keep_until_next_call(look_up()?.value)));
        };
        let was_verified = result.is_some();
        cache.get_or_look_up(self.id, key, now, was_verified, look_up).map(Some)
    }

    /// Whether a certificate and other credentials are required together.
    #[must_use]
    pub fn requires_both(&self) -> bool {
        self.requires_both
    }

    /// Refuses a request with only one of two required credentials. A certificate that the policy
    /// does not name is no credential.
    fn check_complete(&self, credentials: Credentials<'_>) -> Result<(), CredentialsError> {
        let is_incomplete = self.requires_both
            && match credentials {
                Credentials::Both(..) => false,
                Credentials::Certificate(certificate) => self.actor(certificate)?.is_some(),
                Credentials::Authorization(_) | Credentials::Token(_) | Credentials::ApiKey(_) => {
                    true
                }
            };
        if is_incomplete { Err(CredentialsError::IncompleteCredentials) } else { Ok(()) }
    }

    /// The key of credentials in the cache of a thread. It depends on the whole header value, so a
    /// hit needs neither to parse the value nor to decode its base64. `None` if they are not cached
    /// there, or are only a certificate: see `authenticate_certificate`.
    fn local_key(&self, credentials: Credentials<'_>) -> Option<u128> {
        Some(match credentials {
            Credentials::Authorization(value) if value.len() <= MAX_CACHED_VALUE => {
                self.hasher.hash(value)
            }
            // Inverted, so that an `Authorization` header with the same bytes has another key.
            Credentials::Token(value) if value.len() <= jwt::MAX_BYTES => !self.hasher.hash(value),
            // Hashed as a pair, so that a token or an `Authorization` header with the same bytes
            // has another key.
            Credentials::ApiKey(value) if value.len() <= api_keys::MAX_BYTES => {
                self.hasher.hash_pair(b"", value)
            }
            Credentials::Both(user, certificate) => {
                let user = self.local_key(user.into())?;
                self.key_of_both(user, certificate.cache_key(&self.hasher)?)
            }
            Credentials::Authorization(_)
            | Credentials::Token(_)
            | Credentials::ApiKey(_)
            | Credentials::Certificate(_) => return None,
        })
    }

    /// The key of a user's credentials together with an actor's. It differs from the key of each.
    fn key_of_both(&self, user: u128, actor: u128) -> u128 {
        let keys = [user.to_le_bytes(), actor.to_le_bytes()];
        self.hasher.hash_pair(b"both", keys.as_flattened())
    }

    /// The same as [`Authenticator::authenticate`], but runs a verification on the calling thread.
    /// Hashing a password takes milliseconds, so this is for tools and tests.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn authenticate_inline<'c>(
        &self,
        credentials: Option<Credentials<'_>>,
        now: UnixTime,
        cache: &'c mut LocalCache<T>,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<&'c CachedSubject<T>>, CredentialsError> {
        let Some(credentials) = credentials else { return Ok(None) };
        self.check_complete(credentials)?;
        if let Credentials::Certificate(certificate) = credentials {
            let Some(verified) = self.look_up_certificate(certificate, now, attach)? else {
                return Ok(None);
            };
            return Ok(Some(cache.keep_until_next_call(verified.value)));
        }
        let mut verified = self.look_up(credentials, None, now, &attach);
        if let Err(NotAuthenticated::Pending(verification)) = verified {
            verified = self.look_up(credentials, Some(&verification.run()), now, &attach);
        }
        match verified {
            Ok(verified) => Ok(Some(cache.keep_until_next_call(verified.value))),
            Err(NotAuthenticated::Invalid(error)) => Err(error),
            // Cannot happen: this authenticator does not ignore the result of its own verification.
            // If it did, the request would be denied.
            Err(NotAuthenticated::Pending(_)) => Err(CredentialsError::BadPassword),
        }
    }

    /// Caches verified credentials, if they are valid under this policy, and returns whether they
    /// are valid. Call it when the verification has run, even if no request waits for the result
    /// any more: the client's next attempt then needs no verification. With `combine: both`, this
    /// caches no token.
    pub fn cache_result(
        &self,
        result: &VerificationResult,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> bool {
        match &result.credentials {
            // Not cached here: a token is cached with its actor, which only a request has.
            CredentialsResult::Token { result, issuers, .. } if self.requires_both => {
                Arc::ptr_eq(&self.issuers, issuers)
                    && result.as_ref().is_ok_and(|token| token.window.contains(now))
            }
            CredentialsResult::Token { .. } | CredentialsResult::Password(_) => {
                matches!(self.resolve(result, None, now, attach), Some(Ok(_)))
            }
        }
    }

    /// The sizes of the caches of all threads: of Basic credentials, and of tokens. This
    /// call never waits.
    #[must_use]
    pub fn cache_sizes(&self) -> [CacheSize; 2] {
        let basic = self.basic.as_ref().map(|basic| basic.credentials.size());
        [basic.unwrap_or_default(), self.tokens.size()]
    }

    /// The `kid`s of the keys of this URL; none if they are not fetched yet. The `kid` of a key
    /// without `kid` is empty.
    #[must_use]
    pub fn kids(&self, url: &KeyUrl) -> BTreeSet<&str> {
        let issuers = self.issuers.iter().filter(|issuer| issuer.url() == Some(url));
        issuers.filter_map(Issuer::keys).flat_map(KeySet::kids).collect()
    }

    /// The `kid`s of tokens since the last call for which the key set of this URL has no key. They
    /// are reasons to fetch the key set again. The calling program limits how often it does.
    #[must_use]
    pub fn take_unknown_kids(&self, url: &KeyUrl) -> UnknownKids {
        let mut unknown = UnknownKids::default();
        let issuers = self.issuers.iter().filter(|issuer| issuer.url() == Some(url));
        issuers.for_each(|issuer| unknown.extend(&issuer.take_unknown_kids()));
        unknown
    }

    /// Authenticates a caller whose credentials are not in the cache of the thread.
    fn look_up(
        &self,
        credentials: Credentials<'_>,
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Verified<T>, NotAuthenticated> {
        let Credentials::Both(user, certificate) = credentials else {
            return self.look_up_user(credentials, None, result, now, attach);
        };
        let actor = self.actor(certificate)?.ok_or(CredentialsError::IncompleteCredentials)?;
        let user = self.look_up_user(user.into(), Some(&actor), result, now, &attach)?;
        if user.value.subject.actor.is_some() {
            return Ok(user);
        }
        // A password or an API key is cached without an actor, so `attach` must be called again,
        // for the subject with its actor. The cached subject has all that `attach` reads: only
        // tokens have claims, which the cache drops.
        let value = CachedSubject::new(&user.value.subject.with_actor(&actor), attach);
        Ok(TimedValue { bytes: value.bytes(), value, ..user })
    }

    /// The user of a certificate, as an actor; `None` if the policy does not name it.
    fn actor(
        &self,
        certificate: Certificate<'_>,
    ) -> Result<Option<Arc<Subject>>, CredentialsError> {
        let Some(certificates) = &self.certificates else { return Ok(None) };
        Ok(certificates.subject(certificate)?.map(Arc::new))
    }

    /// Authenticates the user of a request. A token is cached with the actor, other credentials
    /// without.
    fn look_up_user(
        &self,
        credentials: Credentials<'_>,
        actor: Option<&Arc<Subject>>,
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Verified<T>, NotAuthenticated> {
        let value = match (credentials, &self.api_keys) {
            (Credentials::Authorization(value), _) => value,
            (Credentials::Token(token), _) if !self.issuers.is_empty() => {
                return self.look_up_token((token, actor), result, now, attach);
            }
            (Credentials::ApiKey(key), Some(keys)) => {
                return Ok(keys.authenticate(key, now, attach)?);
            }
            (Credentials::ApiKey(_), None)
            | (Credentials::Token(_) | Credentials::Certificate(_) | Credentials::Both(..), _) => {
                return Err(CredentialsError::UnsupportedScheme.into());
            }
        };
        match (Authorization::parse(value), &self.basic) {
            (Authorization::Basic(encoded), Some(basic)) => {
                self.look_up_basic(basic, encoded, result, now, attach)
            }
            (Authorization::Bearer(token), _) if self.reads_bearer => {
                self.look_up_token((token, actor), result, now, attach)
            }
            (
                Authorization::Basic(_) | Authorization::Bearer(_) | Authorization::Unsupported,
                _,
            ) => Err(CredentialsError::UnsupportedScheme.into()),
        }
    }

    fn authenticate_certificate<'c>(
        &self,
        certificate: Certificate<'_>,
        now: UnixTime,
        cache: &'c mut LocalCache<T>,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<&'c CachedSubject<T>>, NotAuthenticated> {
        // `Err(None)`: the policy does not name the certificate, so the caller is anonymous.
        let look_up = || match self.look_up_certificate(certificate, now, attach) {
            Ok(verified) => verified.ok_or(None),
            Err(error) => Err(Some(error)),
        };
        let caller = match certificate.cache_key(&self.hasher) {
            Some(key) => cache.get_or_look_up(self.id, key, now, false, look_up),
            None => look_up().map(|verified| cache.keep_until_next_call(verified.value)),
        };
        match caller {
            Ok(cached) => Ok(Some(cached)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error.into()),
        }
    }

    /// The user of a certificate; `None` if the policy does not name it. The proxy has verified the
    /// certificate and its dates, so the cached entry does not expire.
    fn look_up_certificate(
        &self,
        certificate: Certificate<'_>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<Verified<T>>, CredentialsError> {
        let Some(certificates) = &self.certificates else { return Ok(None) };
        let key = certificate.cache_key(&self.hasher);
        if let Some(key) = key
            && let Lookup::Valid(verified) = self.tokens.find(key, now)
        {
            return Ok(Some(verified));
        }
        let Some(subject) = certificates.subject(certificate)? else { return Ok(None) };
        let value = CachedSubject::new(&subject, attach);
        let (window, bytes) =
            (Window { from: UnixTime::ZERO, until: UnixTime::MAX }, value.bytes());
        Ok(Some(match key {
            Some(key) => self.tokens.insert(key, value, window, bytes),
            None => TimedValue { value, window, bytes, max_local_age: UnixTime::MAX },
        }))
    }

    fn look_up_basic(
        &self,
        basic: &Basic<T>,
        encoded: &[u8],
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Verified<T>, NotAuthenticated> {
        let credentials = BasicCredentials::decode(encoded).map_err(CredentialsError::from)?;
        let (user, password) = (credentials.user(), credentials.password());
        if !basic.verify {
            // A user name is no secret: others may know it. So it is hashed as a pair, because
            // pairs are always hashed by SipHash (see [`KeyedHasher`]).
            let cache_key = self.hasher.hash_pair(user.as_bytes(), b"");
            return Ok(basic.unverified(cache_key, user, now, attach));
        }
        // Checked before any look-up, so that the response time does not depend on whether the user
        // exists.
        if password.len() > MAX_PASSWORD {
            return Err(CredentialsError::BadPassword.into());
        }
        let cache_key = self.hasher.hash_pair(user.as_bytes(), password);
        // Expired means that the password was right before: the hash queue serves such a caller
        // first (S19 in `SECURITY.md`).
        let verified_before = match basic.credentials.find(cache_key, now) {
            Lookup::Valid(verified) => return Ok(verified),
            Lookup::Expired => true,
            Lookup::Missing => match basic.carried.find(cache_key, now) {
                Lookup::Valid(account) => {
                    return Ok(basic.insert(cache_key, &account.subject, now, attach));
                }
                Lookup::Expired => true,
                Lookup::Missing => false,
            },
        };
        let result = result.filter(|result| result.cache_key == cache_key);
        if let Some(resolved) = result.and_then(|result| self.resolve(result, None, now, attach)) {
            return Ok(resolved?);
        }
        let Some(account) = basic.accounts.account_or_decoy(user) else {
            // No user of the policy has a hash.
            return Err(CredentialsError::BadPassword.into());
        };
        // Verifications with the same key need to run only once.
        let job_key = self.hasher.hash_pair(&cache_key.to_le_bytes(), account.hash().as_bytes());
        let (user, password) = (user.into(), Zeroizing::new(password.to_vec()));
        let credentials = PendingCredentials::Password { account, user, password };
        let verification = Verification { credentials, cache_key, job_key, verified_before };
        Err(NotAuthenticated::Pending(verification))
    }

    /// The key of a token in the cache of all threads. It includes the names of the actor, because
    /// the attached value depends on them. It does not include the certificate, so that a renewed
    /// certificate has the same key.
    fn token_key(&self, token: u128, actor: Option<&Arc<Subject>>) -> u128 {
        let Some(actor) = actor else { return token };
        // No name has a control character, so a line feed can only separate names.
        let names: Vec<&str> =
            [&actor.user].into_iter().chain(&actor.groups).map(|n| &**n).collect();
        self.key_of_both(token, self.hasher.hash_pair(b"actor", names.join("\n").as_bytes()))
    }

    fn look_up_token(
        &self,
        (text, actor): (&[u8], Option<&Arc<Subject>>),
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Verified<T>, NotAuthenticated> {
        if text.len() > jwt::MAX_BYTES {
            return Err(CredentialsError::MalformedToken.into());
        }
        let cache_key = self.hasher.hash(text);
        let was_cached = match self.tokens.find(self.token_key(cache_key, actor), now) {
            Lookup::Valid(verified) => return Ok(verified),
            Lookup::Expired => true,
            Lookup::Missing => false,
        };
        let introspector = self.issuers.iter().position(|issuer| issuer.introspection().is_some());
        let introspector = introspector.filter(|_| jwt::is_opaque(text));
        if introspector.is_some()
            && let Lookup::Valid(refused) = self.refused.find(cache_key, now)
        {
            return Err(refused.value.into());
        }
        let result = result.filter(|result| result.cache_key == cache_key);
        if let Some(resolved) = result.and_then(|result| self.resolve(result, actor, now, attach)) {
            return Ok(resolved?);
        }
        let issuers = Arc::clone(&self.issuers);
        let credentials = match (introspector, str::from_utf8(text)) {
            (Some(issuer), Ok(text)) => {
                let token = Zeroizing::new(text.into());
                PendingCredentials::Opaque { token, issuers, issuer }
            }
            (_, _) => {
                PendingCredentials::Token { token: Zeroizing::new(text.into()), issuers, now }
            }
        };
        let (job_key, verified_before) = (cache_key, was_cached && introspector.is_some());
        let verification = Verification { credentials, cache_key, job_key, verified_before };
        Err(NotAuthenticated::Pending(verification))
    }

    /// The subject of the credentials of a verification, or the error if they are invalid. Caches
    /// the subject. Remembers an invalid token that has `refused_until` until then.
    ///
    /// `None` if the result says nothing under this policy:
    /// * this policy does not verify passwords;
    /// * since the verification, the user was added or removed, or got another hash;
    /// * another authenticator (with another policy or other keys) verified the token;
    /// * the token is not valid now.
    fn resolve(
        &self,
        result: &VerificationResult,
        actor: Option<&Arc<Subject>>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Option<Result<Verified<T>, CredentialsError>> {
        let key = result.cache_key;
        match &result.credentials {
            CredentialsResult::Password(password) => {
                let basic = self.basic.as_ref().filter(|basic| basic.verify)?;
                Some(basic.accounts.account_verified_by(password)?.map(|account| {
                    let cached = basic.credentials.find(key, now).valid();
                    cached.unwrap_or_else(|| basic.insert(key, &account.subject, now, attach))
                }))
            }
            CredentialsResult::Token { issuers, .. } if !Arc::ptr_eq(&self.issuers, issuers) => {
                None
            }
            CredentialsResult::Token { result: Err(error), refused_until, .. } => {
                if let Some(until) = *refused_until {
                    let window = Window { from: UnixTime::ZERO, until };
                    self.refused.insert(key, *error, window, 0);
                }
                Some(Err(*error))
            }
            CredentialsResult::Token { result: Ok(token), .. } => {
                let window = Some(token.window).filter(|window| window.contains(now))?;
                let key = self.token_key(key, actor);
                Some(Ok(self.tokens.find(key, now).valid().unwrap_or_else(|| match actor {
                    Some(actor) => {
                        let subject = token.subject.with_actor(actor);
                        self.tokens.insert_subject(key, &subject, window, attach)
                    }
                    None => self.tokens.insert_subject(key, &token.subject, window, attach),
                })))
            }
        }
    }
}

impl<T> fmt::Debug for Authenticator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("limits", &self.limits).finish_non_exhaustive()
    }
}
