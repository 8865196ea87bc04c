//! The one entrance: header value in, caller out.

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

/// How far a clock may be set back before what was verified must be verified again.
const CLOCK_SLIP: Duration = Duration::from_secs(60);

/// Verifies proofs, and remembers those that were right. `T` is what the caller attaches to each verified subject.
///
/// It never changes but for its caches; a new policy or key set makes a new one.
pub struct Authenticator<T> {
    basic: Option<Basic<T>>,
    issuers: Vec<Issuer>,
    /// Verified tokens, by the keyed hash of the whole token. Dies with the key sets.
    tokens: Cache<Arc<Known<T>>>,
    hasher: KeyedHasher,
    limits: Limits,
}

/// HTTP Basic: the users, and who has signed in.
struct Basic<T> {
    accounts: Accounts,
    verify: bool,
    /// Verified credentials, by the keyed hash of user and password; where passwords are not checked, of the user.
    credentials: Cache<SignedIn<T>>,
    /// Credentials that were verified under the policy before this one, against the same hashes.
    carried: Carried,
}

/// Somebody whose credentials were verified.
struct SignedIn<T> {
    known: Arc<Known<T>>,
    /// `None` where passwords are not checked.
    account: Option<Arc<Account>>,
}

/// How much is remembered, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many verified Basic credentials.
    pub credentials: usize,
    /// How many bytes of memory all remembered Basic credentials may take together, with what is attached to them. Those
    /// that are carried over a reload are bounded apart from these, in the same way; without names and attachments, they
    /// take 162 bytes each.
    pub credential_bytes: usize,
    /// How long a Basic credential counts as verified, from its verification or its last use on. A use in the first
    /// quarter of this time renews nothing, so that busy callers do not write to shared memory with each request. A clock
    /// that is set back to more than a minute before the last renewal ends it, so a clock that was wrong for a while
    /// cannot make it last.
    pub credentials_for: Duration,
    /// How many verified tokens. Each until it expires.
    pub tokens: usize,
    /// How many bytes of memory all remembered tokens may take together, with what is attached to them.
    pub token_bytes: usize,
}

impl Default for Limits {
    /// 65,536 of each in 32 MiB of each, credentials for ten minutes: enough for the callers of a large site at any one
    /// time. A caller with a short name takes about half a KiB, so it is mostly the bytes that count.
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
    /// Checks hashes and keys and makes them ready.
    ///
    /// Whoever was signed in at `previous` stays so where the stored hash is the same: a reload does not make everybody
    /// hash again at once.
    ///
    /// # Errors
    /// Every hash and key that is unreadable or too weak, with its place.
    pub fn compile(
        settings: &model::Identity,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        Self::compile_with(settings, fetched, previous, Limits::default())
    }

    /// As [`Authenticator::compile`], with other limits.
    ///
    /// # Errors
    /// As there.
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

    /// Lets whoever was signed in at `previous` stay so, as [`Authenticator::compile`] does it. To be called before this
    /// answers anybody.
    ///
    /// It takes locks that requests take too, so it is not for a thread that may wait long for a processor.
    pub fn carry_over(&mut self, previous: &Self) {
        self.hasher = previous.hasher.clone();
        if let (Some(basic), Some(before)) = (&mut self.basic, &previous.basic)
            && basic.verify
            && before.verify
        {
            basic.carried = before.carry(&basic.accounts, self.limits);
        }
    }

    /// Who is calling, by the value of the one `Authorization` header; `None` is no such header.
    ///
    /// The first call for a caller calls `attach`; later ones find what it gave, and allocate nothing.
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

    /// Who is calling, now that the password has been hashed; `None` where the caller must be identified again.
    ///
    /// The check may have been begun under another policy. It counts where the user has the same stored hash here, byte
    /// for byte, or exists neither there nor here. Otherwise (the user was removed or added, or has another hash) the
    /// check says nothing about this policy: call [`Authenticator::identify`] with the same header, which may give another
    /// check.
    ///
    /// A right password is remembered, a wrong one never, so this may also be called where nobody waits for the answer,
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

    /// The subject of a token with these claims, taken as verified.
    ///
    /// # Errors
    /// When no configured issuer is the claims' `iss`, or they name no user.
    pub fn subject_of(&self, claims: &Value) -> Result<Subject, CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = self.issuer(members.get("iss"))?;
        jwt::subject(members.clone(), &issuer.settings)
    }

    /// The addresses whose keys should be fetched again, because a token named a key that they did not have. Each is
    /// told once until the next such token; how often that leads to a fetch is for the caller to bound.
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
        // Before any look-up, so that it says nothing about the user.
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

    /// A user whose password something in front has checked.
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

    /// Who has signed in here and has the same hash there.
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
