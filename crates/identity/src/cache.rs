//! What was verified, remembered: bounded in number, in bytes and in time.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use crate::Time;

/// How many entries that were used since they were last looked at are spared in a row before one goes all the same:
/// so an insertion costs the same whatever the size.
const SECOND_CHANCES: usize = 8;

/// Values by keyed hash. Looking up takes one shard's lock for reading and allocates nothing.
///
/// Only what was verified comes in, so that a stranger cannot push anything out; whoever has one good proof can at
/// most fill it with good proofs. What goes first is what was not used since the last round (the clock algorithm, one
/// queue and a bit an entry: true LRU would write to shared memory on every hit).
pub(crate) struct Cache<V> {
    entries: DashMap<u128, Entry<V>, BuildHasherDefault<AlreadyHashed>>,
    /// Every key of `entries`, once, the oldest first. Only insertions take this lock.
    queue: Mutex<Queue>,
    max_entries: usize,
    /// The most bytes of all entries together.
    max_weight: usize,
    renewal: Option<Renewal>,
}

/// What a look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup<R> {
    /// An entry that holds now.
    Valid(R),
    /// An entry whose window does not contain this time: it was verified once, and must be verified again.
    Expired,
    /// No entry.
    Missing,
}

/// How the entries of a cache are renewed when they are used.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    /// An entry that is renewed holds for so long from then on.
    lifetime: Duration,
    /// An entry is renewed where less than this is left: a renewal writes to memory that all threads read, so it must
    /// not happen with each use.
    below: Duration,
}

/// When something holds: from `from` on, up to but without `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

struct Entry<V> {
    value: V,
    /// When it holds without any renewal.
    window: Window,
    /// By how many seconds renewals have moved the window. Both ends move: an entry that was renewed by a clock which is
    /// set back later does not hold until that time comes again.
    moved: AtomicU64,
    /// Bytes: those of this entry, and those that its value holds.
    weight: usize,
    used: AtomicBool,
}

#[derive(Default)]
struct Queue {
    keys: VecDeque<u128>,
    weight: usize,
}

impl<V> Cache<V> {
    /// What one entry takes at most in the table and in the queue, in bytes: a table that has just grown has 16 places
    /// for seven entries and some bytes beside, a queue two for one.
    const ENTRY_BYTES: usize = (size_of::<(u128, Entry<V>)>() + 1) * 5 / 2 + 2 * size_of::<u128>();

    /// An empty cache of at most so many entries, which take at most so many bytes together with what they hold.
    pub(crate) fn new(max_entries: usize, max_weight: usize) -> Self {
        Self { entries: DashMap::default(), queue: Mutex::default(), max_entries, max_weight, renewal: None }
    }

    /// The same cache, with entries that hold for `lifetime` from their last use on. Their windows must end `lifetime`
    /// after they are inserted.
    ///
    /// An entry is renewed by a use in the last three quarters of that time, so it may end up to a quarter earlier than
    /// its last use and `lifetime` would have it.
    pub(crate) fn renewed_on_use(self, lifetime: Duration) -> Self {
        Self { renewal: Some(Renewal { lifetime, below: lifetime / 4 * 3 }), ..self }
    }

    /// What was remembered under this key. A use is noted, and renews the entry where the cache does that.
    pub(crate) fn find<R>(&self, key: u128, now: Time, read: impl FnOnce(&V) -> R) -> Lookup<R> {
        let Some(entry) = self.entries.get(&key) else { return Lookup::Missing };
        let window = entry.window();
        if !window.holds(now) {
            return Lookup::Expired;
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        if let Some(renewal) = self.renewal
            && window.until.saturating_sub(now) <= renewal.below
        {
            entry.renew(now, renewal.lifetime);
        }
        Lookup::Valid(read(&entry.value))
    }

    /// Remembers a value, in place of what was there under this key. It holds so many bytes beside its own size.
    pub(crate) fn insert(&self, key: u128, value: V, window: Window, held_bytes: usize) {
        let weight = held_bytes.saturating_add(Self::ENTRY_BYTES);
        if weight > self.max_weight || self.max_entries == 0 {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry { value, window, moved: AtomicU64::new(0), weight, used: AtomicBool::new(false) };
        match self.entries.insert(key, entry) {
            Some(old) => queue.weight = queue.weight.saturating_sub(old.weight),
            None => queue.keys.push_back(key),
        }
        queue.weight = queue.weight.saturating_add(weight);
        while queue.keys.len() > self.max_entries || queue.weight > self.max_weight {
            self.evict(&mut queue);
        }
    }

    /// Shows all entries; what comes or goes meanwhile may be among them or not.
    ///
    /// Whoever adds one waits while the keys are copied, and from then on for one entry at a time.
    pub(crate) fn for_each(&self, mut read: impl FnMut(u128, &V, Window)) {
        let keys = self.queue.lock().unwrap_or_else(PoisonError::into_inner).keys.clone();
        for key in keys {
            if let Some(entry) = self.entries.get(&key) {
                read(key, &entry.value, entry.window());
            }
        }
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
            return;
        }
    }

    /// Whether an entry was used since this was last asked.
    fn was_used(&self, key: u128) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.used.swap(false, Ordering::Relaxed))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<V> Entry<V> {
    /// When it holds, with its renewals.
    fn window(&self) -> Window {
        let moved = Duration::from_secs(self.moved.load(Ordering::Relaxed));
        let Window { from, until } = self.window;
        Window { from: from.saturating_add(moved), until: until.saturating_add(moved) }
    }

    /// Lets it hold for `lifetime` from now on, in whole seconds and never longer.
    ///
    /// One relaxed store: two threads that renew at once write the same to a second, as both count from the window that
    /// never changes, and nothing else is read because of it.
    fn renew(&self, now: Time, lifetime: Duration) {
        let moved = now.saturating_add(lifetime).saturating_sub(self.window.until).as_secs();
        self.moved.store(moved, Ordering::Relaxed);
    }
}

impl<R> Lookup<R> {
    /// What holds, if anything does.
    pub(crate) fn valid(self) -> Option<R> {
        match self {
            Self::Valid(found) => Some(found),
            Self::Expired | Self::Missing => None,
        }
    }
}

impl Window {
    /// Whether it holds at this time.
    pub(crate) fn holds(self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
}

/// Takes the low half of a key as it is: keys are keyed hashes already, and nobody outside can choose them.
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
