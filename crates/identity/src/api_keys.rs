//! API keys: found by their public ids, compared by their hashes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use policy::model::{self, KeyHash, SourceId};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::cache::{TimedValue, Window};
use crate::{CachedSubject, CredentialsError, HeapSize, Subject, UnixTime, with_prefix};

/// The longest key in a request that is hashed, in bytes. Those of `rolegate new-api-key` have 45.
pub(crate) const MAX_BYTES: usize = 256;

/// The length of a [`KeyHash`].
const HASH_BYTES: usize = 32;

/// The API keys of a policy.
pub(crate) struct ApiKeys<T> {
    by_id: HashMap<Arc<str>, Entry<T>>,
}

/// An API key.
struct Entry<T> {
    hash: KeyHash,
    subject: Subject,
    /// The first moment at which it is not valid.
    until: UnixTime,
    /// The subject, from the first use of the key. There are no more of these than keys in the
    /// policy, so they need no cache with a limit.
    cached: OnceLock<Cached<T>>,
}

/// A subject and the memory that it takes, in bytes.
type Cached<T> = (Arc<CachedSubject<T>>, usize);

impl<T: HeapSize> ApiKeys<T> {
    pub(crate) fn compile(settings: &model::ApiKeys) -> Self {
        let keys = settings.keys.iter().map(|key| {
            let groups = key.groups.iter();
            let groups = groups.map(|group| with_prefix(&settings.group_prefix, group));
            let subject = Subject {
                user: with_prefix(&settings.user_prefix, &key.user),
                issuer: None,
                source: Some(SourceId::API_KEYS),
                groups: groups.collect(),
                roles: Vec::new(),
                claims: Value::Null,
                actor: None,
            };
            let until = key.expires.unwrap_or(Duration::MAX);
            (key.id.clone(), Entry { hash: key.hash, subject, until, cached: OnceLock::new() })
        });
        Self { by_id: keys.collect() }
    }

    /// The subject of a key in a request. Takes as long for an unknown id as for a wrong secret.
    pub(crate) fn authenticate(
        &self,
        key: &[u8],
        now: UnixTime,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Result<TimedValue<Arc<CachedSubject<T>>>, CredentialsError> {
        if key.len() > MAX_BYTES {
            return Err(CredentialsError::BadApiKey);
        }
        let entry = Self::verify(self.entry(key), digest(&SHA256, key).as_ref(), now)?;
        let (value, bytes) = entry.cached.get_or_init(|| {
            let cached = CachedSubject::new(&entry.subject, attach);
            let bytes = cached.bytes();
            (cached, bytes)
        });
        let window = Window { from: Duration::ZERO, until: entry.until };
        let (value, max_local_age) = (Arc::clone(value), Duration::MAX);
        Ok(TimedValue { value, window, bytes: *bytes, max_local_age })
    }

    /// Checks that the whole key of this entry has this hash, and is valid now.
    fn verify<'k>(
        entry: Option<&'k Entry<T>>,
        hash: &[u8],
        now: UnixTime,
    ) -> Result<&'k Entry<T>, CredentialsError> {
        let KeyHash(stored) = entry.map_or(KeyHash([0; HASH_BYTES]), |entry| entry.hash);
        let matches = verify_slices_are_equal(hash, &stored).is_ok();
        let entry = entry.filter(|_| matches).ok_or(CredentialsError::BadApiKey)?;
        if now < entry.until { Ok(entry) } else { Err(CredentialsError::Expired) }
    }

    /// The entry with the id of a key.
    fn entry(&self, key: &[u8]) -> Option<&Entry<T>> {
        self.by_id.get(id(key)?)
    }

    /// Of a key that is not valid: the user to whom its id belongs, and why the key is not valid.
    /// Shows an id only if the policy has it: any other text may be a secret.
    pub(crate) fn attempted(
        &self,
        key: &[u8],
        error: CredentialsError,
    ) -> (Option<String>, String) {
        let known = id(key).zip(self.entry(key));
        let detail = match (known, error) {
            _ if key.len() > MAX_BYTES => format!("it is longer than {MAX_BYTES} bytes"),
            (Some((id, _)), CredentialsError::Expired) => format!("the key `{id}` has expired"),
            (Some((id, _)), _) => format!("the secret after the id `{id}` is wrong"),
            (None, _) if id(key).is_none() => "it is not `ID_SECRET`".to_owned(),
            (None, _) => "no key has its id".to_owned(),
        };
        (known.map(|(_, entry)| entry.subject.user.to_string()), detail)
    }

    /// The subject of this user (a name with its prefix). All keys of a user have the same subject.
    pub(crate) fn find_user(&self, user: &str) -> Option<&Subject> {
        self.by_id.values().map(|entry| &entry.subject).find(|subject| *subject.user == *user)
    }

    /// The hash and the id of a valid key, for [`ApiKeys::subject_of_proof`].
    pub(crate) fn proof(&self, key: &[u8]) -> Option<Vec<u8>> {
        let KeyHash(hash) = self.entry(key)?.hash;
        Some([&hash[..], id(key)?.as_bytes()].concat())
    }

    /// The subject of a key that was verified elsewhere, if the same key is valid here.
    pub(crate) fn subject_of_proof(
        &self,
        proof: &[u8],
        now: UnixTime,
    ) -> Result<Subject, CredentialsError> {
        let (hash, id) = proof.split_at_checked(HASH_BYTES).unwrap_or_default();
        let entry = std::str::from_utf8(id).ok().and_then(|id| self.by_id.get(id));
        Ok(Self::verify(entry, hash, now)?.subject.clone())
    }
}

/// The id of a key: the part before the first `_`.
fn id(key: &[u8]) -> Option<&str> {
    let end = key.iter().position(|byte| *byte == b'_')?;
    key.get(..end).and_then(|id| std::str::from_utf8(id).ok())
}

/// A new API key.
pub struct NewApiKey {
    /// The whole key, `ID_SECRET`. It is overwritten when it is dropped.
    pub key: Zeroizing<String>,
    /// Its id.
    pub id: String,
    /// The hash of the whole key, for the policy.
    pub hash: KeyHash,
}

impl NewApiKey {
    /// A key with a secret of 160 random bits; `None` if the system's random number generator
    /// fails.
    ///
    /// With at least 128 bits nobody can guess a secret, so a fast hash of it is enough.
    #[must_use]
    pub fn random() -> Option<Self> {
        let id = format!("rk{}", &*random_text(10)?);
        let secret = random_text(32)?;
        let key = Zeroizing::new([&*id, "_", &**secret].concat());
        let hash = digest(&SHA256, key.as_bytes()).as_ref().try_into().ok().map(KeyHash)?;
        Some(Self { key, id, hash })
    }
}

/// Shows no secret.
impl fmt::Debug for NewApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewApiKey({})", self.id)
    }
}

/// Letters and digits that are not mistaken for each other: 5 bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A random text of this length in characters of [`ALPHABET`].
fn random_text(length: usize) -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(vec![0; length]);
    getrandom::fill(&mut bytes).ok()?;
    let characters = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte % 32)));
    // Allocated once: if the text grew, it would leave a copy of its start in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(length));
    text.extend(characters.map(|byte| char::from(*byte)));
    Some(text)
}
