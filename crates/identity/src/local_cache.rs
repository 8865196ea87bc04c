//! A small cache for each thread, in front of the caches of all threads.
//!
//! A look-up in a shared cache writes to memory that all threads use: the lock of a shard, and the
//! reference count of the subject. Each such write takes the cache line from the other cores, which
//! on many cores would limit the whole process. A hit here writes to no shared memory (P9 in
//! `benches/README.md`, `make bench BENCH=threads`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{TimedValue, Window};
use crate::{CachedSubject, UnixTime};

/// Entries per set: the cache is set-associative, like that of a CPU, so two busy callers with the
/// same set do not evict each other.
const WAYS: usize = 2;
/// The number of sets, a power of two. Chosen, not measured: enough for 1,024 callers per thread.
const SETS: usize = 512;
/// The largest subject to keep here, in bytes. Most take half a KiB. This limits the memory of
/// subjects that the shared cache has evicted, which exist only here: 1,024 of this size are 2 MiB.
const MAX_BYTES: usize = 2 << 10;
/// How long an entry is used before the next look-up in the shared cache. That look-up marks the
/// shared entry as used: otherwise the shared cache would evict the busiest callers, or let them
/// expire.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The verified credentials that a thread has used last: at most 1,024, and 2 MiB with their
/// subjects. If it is used with several [`Authenticator`](crate::Authenticator)s in turn, it never
/// returns a subject of another authenticator.
pub struct LocalCache<T> {
    /// The id of the authenticator that verified all entries.
    authenticator: u64,
    /// Allocated with the first look-up, and again for each new authenticator.
    sets: Vec<[Option<Entry<T>>; WAYS]>,
    /// The last subject that was returned without an entry, kept so that it can be borrowed.
    last: Option<Arc<CachedSubject<T>>>,
    lookups: CacheLookups,
}

/// How many requests had their credentials in each cache. A request that has to wait for a
/// verification is counted when it has the result. A request whose credentials are found to be
/// invalid without a verification is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLookups {
    /// In the cache of the thread.
    pub local: u64,
    /// In the cache of all threads, carried over from the previous policy, or of a kind that needs
    /// no verification, such as a certificate.
    pub shared: u64,
    /// In no cache: they were verified for this request.
    pub missed: u64,
}

struct Entry<T> {
    key: u128,
    window: Window,
    cached: Arc<CachedSubject<T>>,
}

impl<T> LocalCache<T> {
    /// The cached subject with this key, if this authenticator has verified its credentials;
    /// otherwise the subject that `look_up` returns, which is then cached for at most a second.
    /// `was_verified`, for the counters, is whether `look_up` has the result of a verification for
    /// this request.
    ///
    /// # Errors
    /// The error of `look_up`.
    pub(crate) fn get_or_look_up<E>(
        &mut self,
        authenticator: u64,
        key: u128,
        now: UnixTime,
        was_verified: bool,
        look_up: impl FnOnce() -> Result<TimedValue<Arc<CachedSubject<T>>>, E>,
    ) -> Result<&CachedSubject<T>, E> {
        if self.authenticator != authenticator {
            let mut sets = Vec::new();
            sets.resize_with(SETS, Default::default);
            *self = Self { authenticator, sets, last: None, lookups: self.lookups };
        }
        let Self { sets, last, lookups, .. } = self;
        let Some([first, second]) = sets.get_mut(set_index(key)) else {
            // Cannot happen: the index is below `SETS`, and no authenticator has the id of an empty
            // cache, 0.
            return Ok(last.insert(look_up()?.value));
        };
        // The slot with this key, or else a free slot. If there is none, the second is replaced;
        // the first is free again after `MAX_AGE` at the latest.
        let slot = if !has_key(second, key) && (has_key(first, key) || is_free(first, now)) {
            first
        } else {
            second
        };
        let is_valid = has_key(slot, key) && !is_free(slot, now);
        if is_valid && let Some(entry) = slot {
            lookups.local += 1;
            return Ok(&entry.cached);
        }
        lookups.missed += u64::from(was_verified);
        let TimedValue { value: cached, window, bytes, max_local_age } = look_up()?;
        lookups.shared += u64::from(!was_verified);
        if bytes > MAX_BYTES {
            return Ok(last.insert(cached));
        }
        // Valid from now on. If the clock is set back, the next look-up goes to the shared cache,
        // which has the whole window.
        let until = window.until.min(now.saturating_add(max_local_age.min(MAX_AGE)));
        Ok(&slot.insert(Entry { key, window: Window { from: now, until }, cached }).cached)
    }

    /// The look-ups since the last call.
    pub fn take_lookups(&mut self) -> CacheLookups {
        std::mem::take(&mut self.lookups)
    }

    /// Keeps a subject until the next call, so that it can be borrowed without being cached.
    pub fn keep_until_next_call(&mut self, cached: Arc<CachedSubject<T>>) -> &CachedSubject<T> {
        self.last.insert(cached)
    }
}

fn has_key<T>(slot: &Option<Entry<T>>, key: u128) -> bool {
    slot.as_ref().is_some_and(|entry| entry.key == key)
}

/// Whether a slot is empty or expired.
fn is_free<T>(slot: &Option<Entry<T>>, now: UnixTime) -> bool {
    slot.as_ref().is_none_or(|entry| !entry.window.contains(now))
}

/// The index of the set for a key. Keys are keyed hashes, so their bits are uniform, and no client
/// can choose credentials with the same set. The shared cache uses the low half.
fn set_index(key: u128) -> usize {
    usize::try_from(key >> 64 & (SETS as u128 - 1)).unwrap_or_default()
}

impl<T> Default for LocalCache<T> {
    fn default() -> Self {
        Self { authenticator: 0, sets: Vec::new(), last: None, lookups: CacheLookups::default() }
    }
}

impl<T> fmt::Debug for LocalCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalCache(…)")
    }
}

#[cfg(test)]
mod tests;
