//! The entry point of this crate: from the header's value to the caller.

mod carried;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use policy::KeyUrl;
use policy::model;
use policy::problem::{Problem, Severity};
use serde_json::Value;

use crate::authorization::{self, Proof};
use crate::basic::{Account, Accounts, Credentials, PasswordChecked, Settled};
use crate::cache::{Cache, Lookup, Window};
use crate::jwt::{self, Issuer, Token};
use crate::keyed_hasher::KeyedHasher;
use crate::memory::Names;
use crate::password::MAX_PASSWORD;
use crate::{CredentialsError, FetchedKeys, HeapSize, Identified, Known, Subject, Time};
use carried::Carried;

/// How far a clock may be set back before cached credentials must be verified again.
const CLOCK_SLIP: Duration = Duration::from_secs(60);

/// Verifies credentials and caches the valid ones. `T` is what the user of this crate attaches to each verified
/// subject.
///
/// Only its caches change. A new policy or key set needs a new authenticator.
pub struct Authenticator<T> {
    basic: Option<Basic<T>>,
    issuers: Vec<Issuer>,
    /// Verified tokens, by the keyed hash of the whole token. Never carried over: a cached token ends with its key
    /// sets.
    tokens: Cache<Arc<Known<T>>>,
    hasher: KeyedHasher,
    limits: Limits,
}

/// HTTP Basic: the users, and the credentials that have been verified.
struct Basic<T> {
    accounts: Accounts,
    verify: bool,
    /// Verified credentials, by the keyed hash of user and password, or of the user alone where passwords are not
    /// checked.
    credentials: Cache<SignedIn<T>>,
    /// Credentials that the previous policy verified against the same hashes.
    carried: Carried,
}

/// A cache entry: a subject whose credentials were verified.
struct SignedIn<T> {
    known: Arc<Known<T>>,
    /// The account that they were verified against; `None` where passwords are not checked.
    account: Option<Arc<Account>>,
}

/// The limits of the caches, in number, memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most verified Basic credentials to cache.
    pub credentials: usize,
    /// The most bytes of memory for all cached Basic credentials together, with what is attached to them. Credentials
    /// that are carried over a reload have another limit of the same size. One of those takes 162 bytes: its names
    /// belong to the policy and nothing is attached to it.
    pub credential_bytes: usize,
    /// How long Basic credentials count as verified, from their verification or their last use. A use in the first
    /// quarter of this time does not renew them: a renewal writes to memory that all threads read, so a busy caller
    /// must not cause one on each request. Setting the clock back to more than a minute before the last renewal ends
    /// them, so that a clock which was wrong for a while cannot extend them.
    pub credentials_for: Duration,
    /// The most verified tokens to cache. Each is kept until it expires.
    pub tokens: usize,
    /// The most bytes of memory for all cached tokens together, with what is attached to them.
    pub token_bytes: usize,
}

impl Default for Limits {
    /// 65,536 entries and 32 MiB for each cache, and ten minutes for Basic credentials: enough for the callers that a
    /// large site has at any one time. A caller with a short name takes about half a KiB, so the limit in bytes is
    /// mostly the one that is reached.
    fn default() -> Self {
        Self {
            credentials: 1 << 16,
            credential_bytes: 32 << 20,
            credentials_for: Duration::from_secs(600),
            tokens: 1 << 16,
            token_bytes: 32 << 20,
        }
    }
}

impl<T: HeapSize> Authenticator<T> {
    /// Parses password hashes and keys, and returns warnings with the authenticator.
    ///
    /// Credentials that `previous` has verified are carried over where the stored hash is the same, so that a reload
    /// does not make all callers hash again at once.
    ///
    /// # Errors
    /// Every problem with its place, if a hash or a key is unreadable or too weak.
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
        let compile = |issuer| Issuer::compile(issuer, fetched, &mut problems);
        let issuers = settings.jwt.iter().map(compile).collect();
        let Some(hasher) = KeyedHasher::random() else {
            problems.extend(place(settings).map(|at| Problem::error(at, "the system has no randomness")));
            return Err(problems);
        };
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(problems);
        }
        let tokens = Cache::new(limits.tokens, limits.token_bytes);
        let mut this = Self { basic, issuers, tokens, hasher, limits };
        if let Some(previous) = previous {
            this.carry_over(previous);
        }
        Ok((this, problems))
    }

    /// Carries over the credentials that `previous` has verified, as [`Authenticator::compile`] does. Call it before
    /// this authenticator serves requests.
    ///
    /// It takes locks that requests take too, so a thread of low priority, which may wait long for a CPU, must not call
    /// it.
    pub fn carry_over(&mut self, previous: &Self) {
        self.hasher = previous.hasher.clone();
        if let (Some(basic), Some(before)) = (&mut self.basic, &previous.basic)
            && basic.verify
            && before.verify
        {
            basic.carried = before.carry(&basic.accounts, self.limits);
        }
    }

    /// Authenticates a caller by the value of its one `Authorization` header; `None` means that there is no such
    /// header.
    ///
    /// The first call for a subject calls `attach`. Later calls find the result in the cache, and allocate nothing.
    pub fn identify(
        &self,
        authorization: Option<&[u8]>,
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Identified<T> {
        let Some(value) = authorization else { return Identified::Anonymous };
        match (authorization::read(value), &self.basic) {
            (Proof::Basic(encoded), Some(basic)) => self.credentials(basic, encoded, now, attach),
            (Proof::Bearer(token), _) if !self.issuers.is_empty() => self.token(token, now, attach),
            (Proof::Basic(_) | Proof::Bearer(_) | Proof::Other, _) => {
                Identified::Invalid(CredentialsError::UnsupportedScheme)
            }
        }
    }

    /// Authenticates a caller whose password has been hashed; `None` means that [`Authenticator::identify`] must be
    /// called again.
    ///
    /// The check may come from the authenticator of another policy. It counts if the user has the same stored hash
    /// here, byte for byte, or exists in neither policy. Otherwise (the user was added or removed, or has another hash)
    /// it says nothing about this policy: call [`Authenticator::identify`] with the same header, which may return
    /// another check.
    ///
    /// A right password is cached, a wrong one never. So this may also be called when no request waits for the result,
    /// and more than once for the same check.
    pub fn finish(
        &self,
        checked: &PasswordChecked,
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Option<Identified<T>> {
        let basic = self.basic.as_ref().filter(|basic| basic.verify)?;
        Some(match basic.accounts.settle(checked)? {
            Settled::Right(account) => {
                let key = checked.credentials;
                let found = basic.credentials.find(key, now, |found| Arc::clone(&found.known)).valid();
                let remember = || basic.remember(key, account, self.credentials_window(now), attach);
                Identified::Known(found.unwrap_or_else(remember))
            }
            Settled::Wrong => Identified::Invalid(CredentialsError::BadPassword),
        })
    }

    /// The subject of a token with these claims, without verifying a token.
    ///
    /// # Errors
    /// If `iss` is not a configured issuer, or the claims that name the user, the groups or the roles are malformed.
    pub fn subject_of(&self, claims: &Value) -> Result<Subject, CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = self.issuer(members.get("iss"))?;
        jwt::subject(members.clone(), &issuer.settings)
    }

    /// The URLs of key sets to fetch again, because a token named a key that they did not have. Each URL is returned
    /// once, and again only after another such token. How often to fetch is for the calling program to limit.
    pub fn take_refetches(&self) -> impl Iterator<Item = KeyUrl> {
        self.issuers.iter().filter_map(Issuer::take_refetch)
    }

    fn credentials(
        &self,
        basic: &Basic<T>,
        encoded: &[u8],
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Identified<T> {
        let credentials = match Credentials::decode(encoded) {
            Ok(credentials) => credentials,
            Err(refusal) => return Identified::Invalid(refusal),
        };
        if !basic.verify {
            return Identified::Known(self.trusted(basic, credentials.user(), now, attach));
        }
        // Checked before any look-up, so that the time until the answer says nothing about whether the user exists.
        if credentials.password().len() > MAX_PASSWORD {
            return Identified::Invalid(CredentialsError::BadPassword);
        }
        let key = self.hasher.pair(credentials.user().as_bytes(), credentials.password());
        let verified_before = match basic.credentials.find(key, now, |found| Arc::clone(&found.known)) {
            Lookup::Valid(known) => return Identified::Known(known),
            Lookup::Expired => true,
            Lookup::Missing => match basic.carried.find(key, now) {
                Lookup::Valid(account) => {
                    let window = self.credentials_window(now);
                    return Identified::Known(basic.remember(key, account, window, attach));
                }
                Lookup::Expired => true,
                Lookup::Missing => false,
            },
        };
        match basic.accounts.check(&credentials, key, &self.hasher) {
            Some(check) => Identified::Pending(check.with_verified_before(verified_before)),
            None => Identified::Invalid(CredentialsError::BadPassword),
        }
    }

    /// Accepts a user without a password check, because something in front of the proxy has checked the password.
    fn trusted(
        &self,
        basic: &Basic<T>,
        user: &str,
        now: Time,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Arc<Known<T>> {
        let key = self.hasher.whole(user.as_bytes());
        let found = basic.credentials.find(key, now, |found| Arc::clone(&found.known));
        if let Some(known) = found.valid() {
            return known;
        }
        let known = known(basic.accounts.trusted(user), attach);
        let signed_in = SignedIn { known: Arc::clone(&known), account: None };
        let bytes = known.bytes(Names::OfCaller);
        basic.credentials.insert(key, signed_in, self.credentials_window(now), bytes);
        known
    }

    fn token(&self, text: &[u8], now: Time, attach: impl FnOnce(&Subject) -> T) -> Identified<T> {
        if text.len() > jwt::MAX_BYTES {
            return Identified::Invalid(CredentialsError::MalformedToken);
        }
        let key = self.hasher.whole(text);
        if let Some(known) = self.tokens.find(key, now, Arc::clone).valid() {
            return Identified::Known(known);
        }
        match Token::read(text).and_then(|token| self.issuer(token.payload.get("iss"))?.verify(token, now)) {
            Ok(verified) => {
                let known = known(verified.subject, attach);
                self.tokens.insert(key, Arc::clone(&known), verified.window, known.bytes(Names::OfCaller));
                Identified::Known(known)
            }
            Err(refusal) => Identified::Invalid(refusal),
        }
    }

    fn issuer(&self, iss: Option<&Value>) -> Result<&Issuer, CredentialsError> {
        let iss = iss.and_then(Value::as_str).ok_or(CredentialsError::UnknownIssuer)?;
        self.issuers
            .iter()
            .find(|issuer| &*issuer.settings.issuer == iss)
            .ok_or(CredentialsError::UnknownIssuer)
    }

    fn credentials_window(&self, now: Time) -> Window {
        let until = now.saturating_add(self.limits.credentials_for);
        Window { from: now.saturating_sub(CLOCK_SLIP), until }
    }
}

impl<T: HeapSize> Basic<T> {
    fn compile(settings: &model::Basic, limits: Limits, problems: &mut Vec<Problem>) -> Self {
        let accounts = Accounts::compile(settings, problems);
        let credentials = Cache::new(limits.credentials, limits.credential_bytes);
        let credentials = credentials.renewed_on_use(limits.credentials_for);
        Self { accounts, verify: settings.verify, credentials, carried: Carried::default() }
    }

    /// The credentials verified here whose users have the same stored hash in `accounts`.
    fn carry(&self, accounts: &Accounts, limits: Limits) -> Carried {
        let mut carried = self.carried.still(accounts);
        self.credentials.for_each(|key, signed_in, window| {
            if let Some(account) = signed_in.account.as_ref().and_then(|account| accounts.unchanged(account))
            {
                carried.insert(key, account, window);
            }
        });
        carried.limit(limits.credentials.min(limits.credential_bytes / Carried::ENTRY_BYTES));
        carried
    }

    fn remember(
        &self,
        key: u128,
        account: &Arc<Account>,
        window: Window,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Arc<Known<T>> {
        let known = known(account.subject.clone(), attach);
        let signed_in = SignedIn { known: Arc::clone(&known), account: Some(Arc::clone(account)) };
        self.credentials.insert(key, signed_in, window, known.bytes(Names::OfPolicy));
        known
    }
}

fn known<T>(subject: Subject, attach: impl FnOnce(&Subject) -> T) -> Arc<Known<T>> {
    let attached = attach(&subject);
    Arc::new(Known { subject: Subject { claims: Value::Null, ..subject }, attached })
}

fn place(settings: &model::Identity) -> Option<policy::problem::Place> {
    let basic = settings.basic.as_ref().map(|basic| &basic.at);
    basic.or(settings.jwt.first().map(|issuer| &issuer.at)).cloned()
}

impl<T> fmt::Debug for Authenticator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("limits", &self.limits).finish_non_exhaustive()
    }
}
