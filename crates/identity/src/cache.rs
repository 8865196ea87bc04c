//! The cache of verified credentials: bounded in number, memory and time.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use crate::{CachedSubject, HeapSize, Subject, UnixTime};

/// How many entries in a row an eviction spares because they were used. Then it evicts the next
/// entry even if it was used, so that the cost of an insertion does not grow with the cache.
/// Chosen, not measured.
const MAX_SECOND_CHANCES: usize = 8;

/// Values by keyed hash. A look-up takes the read lock of one shard and allocates nothing.
///
/// Only verified credentials are inserted, so a caller without valid credentials cannot evict any.
/// Evicts entries that were not used since the last round (the clock algorithm: a queue, and a bit
/// per entry). LRU would write to memory that all threads share at every hit.
pub(crate) struct Cache<V> {
    entries: DashMap<u128, Entry<V>, BuildHasherDefault<AlreadyHashed>>,
    /// Every key of `entries` once, the oldest first. Insertions and [`Cache::for_each`] take this
    /// lock, look-ups do not. While the cache is in use, the next three fields are changed only
    /// under this lock. They are read without it.
    queue: Mutex<VecDeque<u128>>,
    len: AtomicUsize,
    bytes: AtomicUsize,
    evicted: AtomicU64,
    max_entries: usize,
    /// The most memory for all entries together, in bytes.
    max_bytes: usize,
    /// How long an entry is valid from its last use; `None` if use does not renew entries.
    lifetime: Option<Duration>,
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup<R> {
    /// An entry that is valid now.
    Valid(R),
    /// An entry whose window does not contain this time: its credentials were verified once.
    Expired,
    /// No entry.
    Missing,
}

/// A value found in a [`Cache`] or given to [`Cache::insert`], and how long it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedValue<V> {
    pub(crate) value: V,
    /// When its credentials are valid.
    pub(crate) window: Window,
    /// The memory that it holds, in bytes.
    pub(crate) bytes: usize,
    /// How long a thread may use it before it must look it up again, which renews the entry.
    pub(crate) max_local_age: Duration,
}

/// When something is valid: from `from` on, until before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: UnixTime,
    pub(crate) until: UnixTime,
}

struct Entry<V> {
    value: V,
    /// When the entry is valid, without renewals.
    window: Window,
    /// By how many seconds renewals have moved both ends of the window. The start moves, too: an
    /// entry that was renewed by a fast clock is not valid once the clock is set back.
    renewed_by: AtomicU64,
    /// Bytes that its value holds.
    bytes: usize,
    used: AtomicBool,
}

/// The size of a cache of verified credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// The number of entries.
    pub entries: usize,
    /// The memory that they take.
    pub bytes: usize,
    /// The number of entries that were evicted since the start, under previous policies, too.
    pub evicted: u64,
}

impl<V: Clone> Cache<V> {
    /// The most memory of an entry in the table and in the queue, in bytes. A table is largest when
    /// it has just grown: then it has 16 slots for every seven entries, less than 5/2 per entry. A
    /// slot takes one byte besides its entry. A queue has at most two slots per key.
    const ENTRY_BYTES: usize = (size_of::<(u128, Entry<V>)>() + 1) * 5 / 2 + 2 * size_of::<u128>();

    /// An empty cache of at most `max_entries` entries and `max_bytes` bytes, values included.
    pub(crate) fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self {
            entries: DashMap::default(),
            queue: Mutex::default(),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            max_entries,
            max_bytes,
            lifetime: None,
        }
    }

    /// The same cache, with entries that are valid for `lifetime` from their last use. The window
    /// of an inserted entry must end `lifetime` after its insertion.
    ///
    /// A use in the first quarter of that time does not renew the entry, because a renewal writes
    /// to memory that all threads read. So an entry may expire up to a quarter of `lifetime` early.
    pub(crate) fn renewed_on_use(self, lifetime: Duration) -> Self {
        Self { lifetime: Some(lifetime), ..self }
    }

    /// Finds the value of this key. Marks the entry as used, and renews it if the cache renews
    /// entries.
    pub(crate) fn find(&self, key: u128, now: UnixTime) -> Lookup<TimedValue<V>> {
        let Some(entry) = self.entries.get(&key) else { return Lookup::Missing };
        let window = entry.window();
        if !window.contains(now) {
            return Lookup::Expired;
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        if let Some(lifetime) = self.lifetime
            && window.until.saturating_sub(now) <= lifetime / 4 * 3
        {
            entry.renew(now, lifetime);
        }
        Lookup::Valid(self.with_times(entry.value.clone(), entry.window(), entry.bytes))
    }

    /// Inserts a value, in place of any with this key. `bytes` is the memory that it holds besides
    /// its own size. A value that alone exceeds a limit is returned, but not inserted.
    pub(crate) fn insert(
        &self,
        key: u128,
        value: V,
        window: Window,
        bytes: usize,
    ) -> TimedValue<V> {
        let timed = self.with_times(value.clone(), window, bytes);
        let weight = bytes.saturating_add(Self::ENTRY_BYTES);
        if weight > self.max_bytes || self.max_entries == 0 {
            return timed;
        }
        let entry = Entry {
            value,
            window,
            renewed_by: AtomicU64::new(0),
            bytes,
            used: AtomicBool::new(false),
        };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        match self.entries.insert(key, entry) {
            Some(replaced) => self.subtract(&replaced),
            None => queue.push_back(key),
        }
        while queue.len() > self.max_entries || self.bytes.load(Ordering::Relaxed) > self.max_bytes
        {
            self.evict(&mut queue);
        }
        self.len.store(queue.len(), Ordering::Relaxed);
        timed
    }

    /// Calls `read` for each entry; perhaps not for entries that are inserted or removed meanwhile.
    /// Insertions wait while the keys are copied, and then while an entry of the same shard is
    /// read.
    pub(crate) fn for_each(&self, mut read: impl FnMut(u128, &V, Window)) {
        let keys = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for key in keys {
            if let Some(entry) = self.entries.get(&key) {
                read(key, &entry.value, entry.window());
            }
        }
    }

    /// The size. It never waits.
    pub(crate) fn size(&self) -> CacheSize {
        CacheSize {
            entries: self.len.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    /// Starts with the number of evictions of `previous`, so that a reload does not reset it.
    pub(crate) fn continue_evictions(&self, previous: &Self) {
        self.evicted.store(previous.evicted.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn with_times(&self, value: V, window: Window, bytes: usize) -> TimedValue<V> {
        // After a quarter of the lifetime, a look-up renews the entry, so an active caller does not
        // expire.
        let max_local_age = self.lifetime.map_or(Duration::MAX, |lifetime| lifetime / 4);
        TimedValue { value, window, bytes, max_local_age }
    }

    fn evict(&self, queue: &mut VecDeque<u128>) {
        for chance in 0..=MAX_SECOND_CHANCES {
            let Some(key) = queue.pop_front() else { return };
            if chance < MAX_SECOND_CHANCES && self.was_used(key) {
                queue.push_back(key);
                continue;
            }
            if let Some((_, entry)) = self.entries.remove(&key) {
                self.subtract(&entry);
            }
            self.evicted.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }

    /// Whether an entry was used since the last call. Clears the mark.
    fn was_used(&self, key: u128) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.used.swap(false, Ordering::Relaxed))
    }

    fn subtract(&self, removed: &Entry<V>) {
        self.bytes.fetch_sub(removed.bytes.saturating_add(Self::ENTRY_BYTES), Ordering::Relaxed);
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
    /// A relaxed store suffices: two threads that renew at once write the same to within a second,
    /// and no other memory depends on it.
    fn renew(&self, now: UnixTime, lifetime: Duration) {
        let moved = now.saturating_add(lifetime).saturating_sub(self.window.until).as_secs();
        self.renewed_by.store(moved, Ordering::Relaxed);
    }
}

impl<T: HeapSize> Cache<Arc<CachedSubject<T>>> {
    /// Inserts a subject with its attached value.
    pub(crate) fn insert_subject(
        &self,
        key: u128,
        subject: &Subject,
        window: Window,
        attach: impl FnOnce(&Subject) -> T,
    ) -> TimedValue<Arc<CachedSubject<T>>> {
        let cached = CachedSubject::new(subject, attach);
        let bytes = cached.bytes();
        self.insert(key, cached, window, bytes)
    }
}

impl<R> Lookup<R> {
    /// The result, if the entry is valid.
    pub(crate) fn valid(self) -> Option<R> {
        match self {
            Self::Valid(result) => Some(result),
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

/// Takes the low half of a key as its hash: keys are keyed hashes, and no client can choose them.
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
