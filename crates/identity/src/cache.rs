//! The cache of verified credentials: bounded in number, memory and time.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use dashmap::DashMap;

use crate::UnixTime;

/// How many entries in a row an eviction spares because they were used since it last saw them. After these it evicts
/// one even if it was used, so that the cost of an insertion does not grow with the cache. Chosen, not measured: more
/// keep used entries longer, fewer make an insertion into a full cache cheaper.
const SECOND_CHANCES: usize = 8;

/// Values by keyed hash. A look-up takes the read lock of one shard and allocates nothing.
///
/// Only verified credentials are inserted, so a caller without valid credentials cannot evict anything. A caller with
/// some can at most fill the cache with valid ones. The cache evicts what was not used since the last round (the clock
/// algorithm: one queue, and one bit per entry). True LRU would write to memory that all threads share on every hit.
pub(crate) struct Cache<V> {
    entries: DashMap<u128, Entry<V>, BuildHasherDefault<AlreadyHashed>>,
    /// Every key of `entries` once, the oldest first. Insertions and [`Cache::for_each`] take this lock, look-ups do
    /// not.
    queue: Mutex<Queue>,
    max_entries: usize,
    /// The most memory for all entries together, in bytes.
    max_weight: usize,
    renewal: Option<Renewal>,
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup<R> {
    /// An entry that is valid now.
    Valid(R),
    /// An entry whose window does not contain this time: its credentials were verified once, and must be verified
    /// again.
    Expired,
    /// No entry.
    Missing,
}

/// How the entries of a cache are renewed by use.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    /// How long a renewed entry is valid from then on.
    lifetime: Duration,
    /// An entry is renewed if this or less is left of its window. A renewal writes to memory that all threads read, so
    /// it must not happen on each use.
    threshold: Duration,
}

/// When something is valid: from `from` on, until before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: UnixTime,
    pub(crate) until: UnixTime,
}

struct Entry<V> {
    value: V,
    /// When the entry is valid without any renewal.
    window: Window,
    /// By how many seconds renewals have moved the window. They move both ends: so if the clock is set back after a
    /// renewal, the entry is not valid until the clock reaches that time again.
    renewed_by: AtomicU64,
    /// Bytes of this entry and of what its value holds.
    weight: usize,
    used: AtomicBool,
}

#[derive(Default)]
struct Queue {
    keys: VecDeque<u128>,
    weight: usize,
    /// The number of entries that were evicted.
    evicted: u64,
}

/// What a cache of verified credentials holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// The number of entries.
    pub entries: usize,
    /// The memory that they take.
    pub bytes: usize,
    /// The number of entries that were evicted to make room since the start, also under previous policies.
    pub evicted: u64,
}

impl<V> Cache<V> {
    /// The most memory that one entry takes in the table and in the queue, in bytes: a table that has just grown has 16
    /// slots for seven entries, with one more byte per slot; a queue has two slots per key.
    const ENTRY_BYTES: usize = (size_of::<(u128, Entry<V>)>() + 1) * 5 / 2 + 2 * size_of::<u128>();

    /// An empty cache of at most `max_entries` entries, which with all they hold take at most `max_weight` bytes.
    pub(crate) fn new(max_entries: usize, max_weight: usize) -> Self {
        Self { entries: DashMap::default(), queue: Mutex::default(), max_entries, max_weight, renewal: None }
    }

    /// The same cache, with entries that are valid for `lifetime` from their last use. The window of
    /// an inserted entry must end `lifetime` after its insertion.
    ///
    /// Only a use in the last three quarters of that time renews an entry. So an entry may expire up to a quarter of
    /// `lifetime` earlier than its last use suggests.
    pub(crate) fn renewed_on_use(self, lifetime: Duration) -> Self {
        Self { renewal: Some(Renewal { lifetime, threshold: lifetime / 4 * 3 }), ..self }
    }

    /// Finds the value of this key, with its window and the bytes that it holds. Marks the entry as used, and renews it
    /// if the cache renews entries.
    pub(crate) fn find<R>(
        &self,
        key: u128,
        now: UnixTime,
        read: impl FnOnce(&V, Window, usize) -> R,
    ) -> Lookup<R> {
        let Some(entry) = self.entries.get(&key) else { return Lookup::Missing };
        let window = entry.window();
        if !window.contains(now) {
            return Lookup::Expired;
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        if let Some(renewal) = self.renewal
            && window.until.saturating_sub(now) <= renewal.threshold
        {
            entry.renew(now, renewal.lifetime);
        }
        let held_bytes = entry.weight.saturating_sub(Self::ENTRY_BYTES);
        Lookup::Valid(read(&entry.value, entry.window(), held_bytes))
    }

    /// Inserts a value, in place of any with this key. `held_bytes` is the memory that it holds besides its own size. A
    /// value that alone exceeds a limit is not inserted.
    pub(crate) fn insert(&self, key: u128, value: V, window: Window, held_bytes: usize) {
        let weight = held_bytes.saturating_add(Self::ENTRY_BYTES);
        if weight > self.max_weight || self.max_entries == 0 {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let entry =
            Entry { value, window, renewed_by: AtomicU64::new(0), weight, used: AtomicBool::new(false) };
        match self.entries.insert(key, entry) {
            Some(old) => queue.weight = queue.weight.saturating_sub(old.weight),
            None => queue.keys.push_back(key),
        }
        queue.weight = queue.weight.saturating_add(weight);
        while queue.keys.len() > self.max_entries || queue.weight > self.max_weight {
            self.evict(&mut queue);
        }
    }

    /// Calls `read` for each entry. Entries that are inserted or removed meanwhile may be left out.
    ///
    /// Insertions wait while the keys are copied, and from then on at most for one entry at a time.
    pub(crate) fn for_each(&self, mut read: impl FnMut(u128, &V, Window)) {
        let keys = self.queue.lock().unwrap_or_else(PoisonError::into_inner).keys.clone();
        for key in keys {
            if let Some(entry) = self.entries.get(&key) {
                read(key, &entry.value, entry.window());
            }
        }
    }

    /// What it holds. Insertions wait meanwhile, look-ups do not.
    pub(crate) fn size(&self) -> CacheSize {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.size()
    }

    /// The same; `None` where it would have to wait.
    pub(crate) fn try_size(&self) -> Option<CacheSize> {
        match self.queue.try_lock() {
            Ok(queue) => Some(queue.size()),
            Err(TryLockError::Poisoned(queue)) => Some(queue.into_inner().size()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Counts evictions from the number of `previous` on, so that a reload does not begin anew.
    pub(crate) fn continue_count(&self, previous: &Self) {
        let evicted = previous.size().evicted;
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).evicted = evicted;
    }

    fn evict(&self, queue: &mut Queue) {
        for chance in 0..=SECOND_CHANCES {
            let Some(key) = queue.keys.pop_front() else { return };
            let spared = chance < SECOND_CHANCES && self.was_used(key);
            if spared {
                queue.keys.push_back(key);
                continue;
            }
            let weight = self.entries.remove(&key).map_or(0, |(_, entry)| entry.weight);
            queue.weight = queue.weight.saturating_sub(weight);
            queue.evicted += 1;
            return;
        }
    }

    /// Whether an entry was used since the last call. Clears the mark.
    fn was_used(&self, key: u128) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.used.swap(false, Ordering::Relaxed))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Queue {
    fn size(&self) -> CacheSize {
        CacheSize { entries: self.keys.len(), bytes: self.weight, evicted: self.evicted }
    }
}

impl std::ops::AddAssign for CacheSize {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.evicted += other.evicted;
    }
}

impl<V> Entry<V> {
    /// When the entry is valid, renewals included.
    fn window(&self) -> Window {
        let moved = Duration::from_secs(self.renewed_by.load(Ordering::Relaxed));
        let Window { from, until } = self.window;
        Window { from: from.saturating_add(moved), until: until.saturating_add(moved) }
    }

    /// Makes the entry valid for `lifetime` from now on, rounded down to seconds.
    ///
    /// One relaxed store suffices. Two threads that renew at once write the same to within a second, since both count
    /// from `window`, which never changes. No other memory is read because of this value.
    fn renew(&self, now: UnixTime, lifetime: Duration) {
        let moved = now.saturating_add(lifetime).saturating_sub(self.window.until).as_secs();
        self.renewed_by.store(moved, Ordering::Relaxed);
    }
}

impl<R> Lookup<R> {
    /// The result, if the entry is valid.
    pub(crate) fn valid(self) -> Option<R> {
        match self {
            Self::Valid(found) => Some(found),
            Self::Expired | Self::Missing => None,
        }
    }
}

impl Window {
    /// Whether the window contains this time.
    pub(crate) fn contains(self, now: UnixTime) -> bool {
        self.from <= now && now < self.until
    }
}

/// Takes the low half of a key as its hash: keys are keyed hashes already, and no client can choose them.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of a uniform hash is a uniform hash")]
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

#[cfg(test)]
mod tests;
