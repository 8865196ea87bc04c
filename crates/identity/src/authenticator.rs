//! The entry point of this crate: from the value of an `Authorization` header to the caller.
//!
//! A look-up has up to four steps, the cheapest first: the thread's own cache, the cache of all threads, the Basic
//! credentials carried over from the previous policy, and a verification, which the calling crate runs.

mod attempted;
mod basic;
mod cached_subject;
mod carried;
mod elsewhere;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use document::{Problem, Severity};
use policy::KeyUrl;
use policy::model::{self, SourceId};
use serde_json::Value;

use crate::authorization::{self, Scheme};
use crate::basic::{Credentials, PasswordMatch, PasswordResult};
use crate::cache::{Cache, CacheSize, Lookup, Window};
use crate::jwks::KeySet;
use crate::jwt::{self, Issuer, PendingToken, TokenResult};
use crate::keyed_hasher::KeyedHasher;
use crate::limits::Limits;
use crate::local_cache::{Found, LocalCache};
use crate::memory::Names;
use crate::password::MAX_PASSWORD;
use crate::verification::{CredentialsResult, Pending, Verification, VerificationResult};
use crate::{
    CachedSubject, CredentialsError, FetchedKeys, HeapSize, NotAuthenticated, Subject, UnixTime, UnknownKids,
};
pub use attempted::Attempted;
use basic::Basic;
use cached_subject::cached_subject;
pub use elsewhere::signed_part;

/// How far the clock may be set back without effect on cached Basic credentials. If it is set back further, they must
/// be verified again, so that a clock that was wrong for a while cannot keep them valid for longer. Chosen, not
/// measured: usual corrections of the clock are far smaller, so they cause no hashing; more would let credentials stay
/// valid for longer.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// The longest header value that is looked up in a [`LocalCache`], in bytes: the longest token, and 16 bytes that leave
/// room for the scheme and some extra spaces. A longer value is almost always invalid, so hashing it for the cache
/// would be wasted time; it is parsed at once.
const MAX_CACHED_VALUE: usize = jwt::MAX_BYTES + 16;

/// The id of the next authenticator. A [`LocalCache`] begins with 0, which none has.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Verifies credentials and caches the valid ones. `T` is what the calling crate attaches to each verified subject.
///
/// Only its caches change. A new policy or key set needs a new authenticator.
pub struct Authenticator<T> {
    /// Unique in this process, so that a [`LocalCache`] does not use the entries of another authenticator.
    id: u64,
    basic: Option<Basic<T>>,
    issuers: Arc<[Issuer]>,
    /// Verified tokens, by the keyed hash of the whole token. Never carried over to the next authenticator: its key
    /// sets may not accept them.
    tokens: Cache<Arc<CachedSubject<T>>>,
    hasher: KeyedHasher,
    limits: Limits,
}

impl<T: HeapSize> Authenticator<T> {
    /// Parses password hashes and keys, and returns warnings with the authenticator.
    ///
    /// Basic credentials that `previous` has verified are carried over if the user's stored hash is the same. Without
    /// this, the passwords of all callers would have to be hashed at once after a reload.
    ///
    /// # Errors
    /// Every problem with its place, if a hash or a key set cannot be used: a hash is damaged, not supported or too costly (a weak one
    /// is a warning), or a key in a file is weak (in a fetched set it is ignored, with a warning).
    pub fn compile(
        settings: &model::Identity,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        Self::compile_with(settings, fetched, previous, Limits::default())
    }

    /// The same as [`Authenticator::compile`], with other limits.
    ///
    /// # Errors
    /// The same.
    pub fn compile_with(
        settings: &model::Identity,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
        limits: Limits,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let mut problems = Vec::new();
        let basic = settings.basic.as_ref().map(|basic| Basic::compile(basic, limits, &mut problems));
        let compile =
            |(index, issuer)| Issuer::compile(issuer, SourceId::of_issuer(index), fetched, &mut problems);
        let issuers = settings.jwt.iter().enumerate().map(compile).collect();
        let Some(hasher) = KeyedHasher::random() else {
            problems.extend(
                place(settings).map(|at| Problem::error(at, "the system's random number generator failed")),
            );
            return Err(problems);
        };
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(problems);
        }
        let tokens = Cache::new(limits.tokens, limits.token_bytes);
        // Only unique: no other memory depends on it.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut this = Self { id, basic, issuers, tokens, hasher, limits };
        if let Some(previous) = previous {
            this.carry_over(previous);
        }
        Ok((this, problems))
    }

    /// Carries over the Basic credentials that `previous` has verified, as [`Authenticator::compile`] does. Call it
    /// before this authenticator serves requests.
    ///
    /// It is a step of its own, because it takes locks of `previous` that requests take too. A program that compiles in
    /// a thread of low priority must call it in another one: that thread may wait long for a CPU while it holds a lock,
    /// and requests would wait for it.
    pub fn carry_over(&mut self, previous: &Self) {
        self.hasher = previous.hasher.clone();
        self.tokens.continue_count(&previous.tokens);
        if let (Some(basic), Some(before)) = (&mut self.basic, &previous.basic) {
            basic.continue_count(before);
            if basic.verify && before.verify {
                basic.carried = before.carry(&basic.accounts, self.limits);
            }
        }
    }

    /// Hashes credentials with the keys of `other`, so that what was verified for one is found by the other if both cache it. Each
    /// keeps its own cache, users and roles. Call it before this authenticator serves requests, and after
    /// [`Authenticator::carry_over`], only if what was carried over was hashed with the same keys.
    pub fn share_keys<U>(&mut self, other: &Authenticator<U>) {
        self.hasher = other.hasher.clone();
    }

    /// Authenticates a caller by the value of its one `Authorization` header. Without such a header, the caller is
    /// anonymous: `Ok(None)`.
    ///
    /// `result` is that of a [`Verification`] that an earlier call with the same header returned. It may come
    /// from an earlier authenticator (another policy, or other keys): then it is ignored if it is that of a token, or if this one has another
    /// hash for the user, and this may return another verification.
    ///
    /// `attach` is called when credentials enter the cache of all threads: with the `result` of their verification, or at their
    /// first use where none is needed (they were carried over from the previous policy, or the policy verifies no passwords). A
    /// call that finds them in `cache` or in that cache does not call it, and allocates nothing, except at a thread's first call with
    /// this authenticator.
    ///
    /// A value with a control byte or a comma never authenticates a caller. (For a token this may first return a verification, which
    /// fails.)
    ///
    /// # Errors
    /// If the credentials are invalid, or must be verified first.
    pub fn authenticate<'c>(
        &self,
        authorization: Option<&[u8]>,
        result: Option<&VerificationResult>,
        now: UnixTime,
        cache: &'c mut LocalCache<T>,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<&'c CachedSubject<T>>, NotAuthenticated> {
        let Some(value) = authorization else { return Ok(None) };
        let look_up = || self.look_up(value, result, now, attach);
        if value.len() > MAX_CACHED_VALUE {
            return Ok(Some(cache.hold(look_up()?.cached)));
        }
        // The cache key is the hash of the whole header value. A hash of user and password, or of the token, would do
        // too, but then each hit would first parse the value and decode its base64.
        cache.get_or_look_up(self.id, self.hasher.hash(value), now, result.is_some(), look_up).map(Some)
    }

    /// The same as [`Authenticator::authenticate`], but runs a verification on the calling thread. Hashing a password
    /// takes milliseconds, so this is for tools and tests.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn authenticate_inline<'c>(
        &self,
        authorization: Option<&[u8]>,
        now: UnixTime,
        cache: &'c mut LocalCache<T>,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Option<&'c CachedSubject<T>>, CredentialsError> {
        let Some(value) = authorization else { return Ok(None) };
        let look_up = |result: Option<&VerificationResult>| self.look_up(value, result, now, &attach);
        let found = look_up(None).or_else(|why| match why {
            NotAuthenticated::Pending(verification) => look_up(Some(&verification.run())),
            NotAuthenticated::Invalid(_) => Err(why),
        });
        match found {
            Ok(found) => Ok(Some(cache.hold(found.cached))),
            Err(NotAuthenticated::Invalid(error)) => Err(error),
            // Cannot happen: this authenticator made the verification, so it does not ignore the result. It returns an
            // error, so that a bug here denies the request.
            Err(NotAuthenticated::Pending(_)) => Err(CredentialsError::BadPassword),
        }
    }

    /// Caches verified credentials, if they are valid under this policy, and returns whether they are. Invalid ones are
    /// never cached. Call it when the verification has run, even if no request waits for the result any more: the
    /// client's next attempt then needs no verification. It may be called more than once.
    pub fn cache_result(
        &self,
        result: &VerificationResult,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> bool {
        matches!(self.resolve(result, now, attach), Some(Ok(_)))
    }

    /// The subject that a valid token with these claims would have, for test cases and tools. Nothing is verified.
    ///
    /// # Errors
    /// If `iss` is not a configured issuer, or the claims that name the user, the groups or the roles are malformed.
    pub fn subject_of(&self, claims: &Value) -> Result<Subject, CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = jwt::find_issuer(&self.issuers, members.get("iss"))?;
        jwt::subject(members.clone(), &issuer.settings, issuer.source)
    }

    /// Checks the `aud`, `exp`, `nbf` and `iat` that claims have, for test cases and tools. None of them is required.
    ///
    /// # Errors
    /// If no token with these claims is valid now.
    pub fn check_claims(&self, claims: &Value, now: UnixTime) -> Result<(), CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = jwt::find_issuer(&self.issuers, members.get("iss"))?;
        jwt::check_given(members.clone(), &issuer.settings, now)
    }

    /// The subject of the Basic user with this name, which has the prefix. Nothing is verified.
    #[must_use]
    pub fn basic_user(&self, user: &str) -> Option<&Subject> {
        self.basic.as_ref()?.accounts.with_prefix(user)
    }

    /// The sizes of the caches of all threads: of Basic credentials, and of tokens.
    #[must_use]
    pub fn cache_sizes(&self) -> [CacheSize; 2] {
        [self.basic.as_ref().map(Basic::cache_size).unwrap_or_default(), self.tokens.size()]
    }

    /// The same; `None` where it would have to wait.
    #[must_use]
    pub fn try_cache_sizes(&self) -> Option<[CacheSize; 2]> {
        let of_basic = self.basic.as_ref().map_or_else(|| Some(CacheSize::default()), Basic::try_cache_size);
        Some([of_basic?, self.tokens.try_size()?])
    }

    /// The `kid`s of the keys of this URL; none if they are not fetched yet. A key without a `kid` has an empty one.
    #[must_use]
    pub fn kids(&self, url: &KeyUrl) -> BTreeSet<&str> {
        let sets = self.issuers.iter().filter(|issuer| issuer.url() == Some(url)).filter_map(Issuer::keys);
        sets.flat_map(KeySet::kids).collect()
    }

    /// The `kid`s that tokens have named since the last call and the key set of this URL does not have: reasons to
    /// fetch it again. The calling program limits how often it does.
    #[must_use]
    pub fn take_unknown_kids(&self, url: &KeyUrl) -> UnknownKids {
        let mut unknown = UnknownKids::default();
        let issuers = self.issuers.iter().filter(|issuer| issuer.url() == Some(url));
        issuers.for_each(|issuer| unknown.extend(&issuer.take_unknown_kids()));
        unknown
    }

    /// Authenticates a caller whose header value is not in the thread's own cache.
    fn look_up(
        &self,
        value: &[u8],
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Found<T>, NotAuthenticated> {
        match (authorization::parse(value), &self.basic) {
            (Scheme::Basic(encoded), Some(basic)) => {
                self.basic_credentials(basic, encoded, result, now, attach)
            }
            (Scheme::Bearer(token), _) if !self.issuers.is_empty() => {
                self.bearer_token(token, result, now, attach)
            }
            (Scheme::Basic(_) | Scheme::Bearer(_) | Scheme::Other, _) => {
                Err(CredentialsError::UnsupportedScheme.into())
            }
        }
    }

    fn basic_credentials(
        &self,
        basic: &Basic<T>,
        encoded: &[u8],
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Found<T>, NotAuthenticated> {
        let credentials = Credentials::decode(encoded).map_err(CredentialsError::from)?;
        if !basic.verify {
            return Ok(self.unverified(basic, credentials.user(), now, attach));
        }
        // Checked before any look-up, so that the response time does not depend on whether the user exists.
        if credentials.password().len() > MAX_PASSWORD {
            return Err(CredentialsError::BadPassword.into());
        }
        let key = self.hasher.hash_pair(credentials.user().as_bytes(), credentials.password());
        // Expired means that the password was right before: the hash queue serves such a caller first (S19 in
        // `SECURITY.md`).
        let verified_before = match basic.find(key, now) {
            Lookup::Valid(found) => return Ok(found),
            Lookup::Expired => true,
            Lookup::Missing => match basic.carried.find(key, now) {
                Lookup::Valid(account) => {
                    return Ok(basic.insert_account(key, account, self.basic_window(now), attach));
                }
                Lookup::Expired => true,
                Lookup::Missing => false,
            },
        };
        match self.resolve_for(key, result, now, attach) {
            Some(result) => Ok(result?),
            None => match basic.accounts.pending(&credentials, key, &self.hasher) {
                Some(pending) => {
                    let pending = pending.with_verified_before(verified_before);
                    Err(NotAuthenticated::Pending(Verification(Pending::Password(pending))))
                }
                // No user of the policy has a hash: all fail alike, so the time tells nothing about a name.
                None => Err(CredentialsError::BadPassword.into()),
            },
        }
    }

    /// The user of the credentials without a password check. With `verify: false`, something between the client and
    /// Envoy checks the password.
    fn unverified(
        &self,
        basic: &Basic<T>,
        user: &str,
        now: UnixTime,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Found<T> {
        // SipHash whatever its length: other callers may know the name.
        let key = self.hasher.hash_pair(user.as_bytes(), b"");
        basic.find(key, now).valid().unwrap_or_else(|| {
            let cached = cached_subject(&basic.accounts.unverified_subject(user), attach);
            basic.insert(key, cached, None, self.basic_window(now))
        })
    }

    fn bearer_token(
        &self,
        text: &[u8],
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Result<Found<T>, NotAuthenticated> {
        if text.len() > jwt::MAX_BYTES {
            return Err(CredentialsError::MalformedToken.into());
        }
        let hash = self.hasher.hash(text);
        if let Some(found) = self.find_token(hash, now) {
            return Ok(found);
        }
        match self.resolve_for(hash, result, now, attach) {
            Some(result) => Ok(result?),
            None => {
                let pending = PendingToken::new(text, &self.issuers, now, hash);
                Err(NotAuthenticated::Pending(Verification(Pending::Token(pending))))
            }
        }
    }

    fn find_token(&self, hash: u128, now: UnixTime) -> Option<Found<T>> {
        let found = |cached: &Arc<CachedSubject<T>>, window, bytes| Found {
            cached: Arc::clone(cached),
            window,
            bytes,
            max_local_age: Duration::MAX,
        };
        self.tokens.find(hash, now, found).valid()
    }

    /// The result of [`Self::resolve`], if `result` belongs to the credentials with this cache key; otherwise `None`.
    fn resolve_for(
        &self,
        key: u128,
        result: Option<&VerificationResult>,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Option<Result<Found<T>, CredentialsError>> {
        self.resolve(result.filter(|result| result.cache_key() == key)?, now, attach)
    }

    /// What the result of a verification means under this policy. `None` if it does not count, so that the credentials must
    /// be verified again: it was made for a password under a policy with another hash, or for a token by any other authenticator
    /// (another policy, or other keys), or the token is not valid now. If the credentials are valid, their subject is cached.
    fn resolve(
        &self,
        result: &VerificationResult,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Option<Result<Found<T>, CredentialsError>> {
        match &result.0 {
            CredentialsResult::Password(result) => self.resolve_password(result, now, attach),
            CredentialsResult::Token(result) => self.resolve_token(result, now, attach),
        }
    }

    /// A password check counts if the user has the same stored hash, byte for byte, in this policy and in that of the
    /// check, or exists in neither.
    fn resolve_password(
        &self,
        result: &PasswordResult,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Option<Result<Found<T>, CredentialsError>> {
        let basic = self.basic.as_ref().filter(|basic| basic.verify)?;
        Some(match basic.accounts.match_of(result)? {
            PasswordMatch::Right(account) => {
                let key = result.cache_key;
                let found = basic.find(key, now).valid();
                let insert = || basic.insert_account(key, account, self.basic_window(now), attach);
                Ok(found.unwrap_or_else(insert))
            }
            PasswordMatch::Wrong => Err(CredentialsError::BadPassword),
        })
    }

    /// A token verification counts if it used the keys and settings of this authenticator, and the token is valid now.
    fn resolve_token(
        &self,
        result: &TokenResult,
        now: UnixTime,
        attach: impl Fn(&Subject) -> T,
    ) -> Option<Result<Found<T>, CredentialsError>> {
        if !Arc::ptr_eq(&self.issuers, &result.issuers) {
            return None;
        }
        let token = match &result.result {
            Ok(token) if token.window.contains(now) => token,
            Ok(_) => return None,
            Err(error) => return Some(Err(*error)),
        };
        Some(Ok(self.find_token(result.hash, now).unwrap_or_else(|| {
            let cached = cached_subject(&token.subject, attach);
            let bytes = cached.bytes(Names::OwnedBySubject);
            self.tokens.insert(result.hash, Arc::clone(&cached), token.window, bytes);
            Found { cached, window: token.window, bytes, max_local_age: Duration::MAX }
        })))
    }

    fn basic_window(&self, now: UnixTime) -> Window {
        let until = now.saturating_add(self.limits.basic_ttl);
        Window { from: now.saturating_sub(CLOCK_TOLERANCE), until }
    }
}

fn place(settings: &model::Identity) -> Option<document::Place> {
    let basic = settings.basic.as_ref().map(|basic| &basic.at);
    basic.or(settings.jwt.first().map(|issuer| &issuer.at)).cloned()
}

impl<T> fmt::Debug for Authenticator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("limits", &self.limits).finish_non_exhaustive()
    }
}
