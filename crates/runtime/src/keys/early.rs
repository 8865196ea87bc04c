//! When to fetch keys early, because tokens name keys that the last key set lacked.

use std::collections::HashMap;
use std::time::Duration;

use identity::UnknownKids;
use tokio::time::Instant;

/// Minimum time between two early fetches. A flood of made-up `kid`s causes six fetches a minute
/// for each process, which an issuer must be able to serve. With a longer time, such a flood could
/// delay the fetch of a new key for longer.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a `kid` that was not found causes no further early fetch: a client may send it for
/// ever. It is looked for again later, because the issuer may publish the key at last.
pub(super) const BACKOFF: Duration = Duration::from_secs(20);
/// Maximum number of `kid`s that are remembered. All others cause a fetch, so a flood cannot hide a
/// new key.
const MAX_REMEMBERED: usize = 256;

#[derive(Debug)]
pub(super) struct EarlyFetches {
    /// The `kid`s that cause the next early fetch.
    wanted: UnknownKids,
    /// The `kid`s that were not found, and until when they cause no early fetch.
    not_found: HashMap<Box<str>, Instant>,
    /// When the next early fetch may begin.
    next: Instant,
}

impl EarlyFetches {
    pub(super) fn new(now: Instant) -> Self {
        Self { wanted: UnknownKids::default(), not_found: HashMap::new(), next: now }
    }

    /// Adds `kid`s that tokens name and the last key set lacked, except those that were not found
    /// recently.
    pub(super) fn request(&mut self, mut unknown: UnknownKids, now: Instant) {
        unknown.retain(|kid| self.not_found.get(kid).is_none_or(|until| now >= *until));
        self.wanted.extend(&unknown);
    }

    /// The beginning of a wanted `kid`, for a log line.
    pub(super) fn first_kid(&self) -> Option<String> {
        self.wanted.kids().next().map(document::excerpt)
    }

    /// When to fetch early, if there is a reason to.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.wanted.is_empty()).then_some(self.next)
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.next = now + INTERVAL;
    }

    /// Records a successful fetch. All wanted `kid`s become not found, even those that the fetched
    /// keys contain: these are not requested again, because their tokens now have a key.
    pub(super) fn fetched(&mut self, now: Instant) {
        for kid in std::mem::take(&mut self.wanted).kids() {
            if self.not_found.len() >= MAX_REMEMBERED {
                self.forget_oldest();
            }
            self.not_found.insert(kid.into(), now + BACKOFF);
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.not_found.iter().min_by_key(|(_, until)| **until);
        if let Some(kid) = oldest.map(|(kid, _)| kid.clone()) {
            self.not_found.remove(&kid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kids(list: impl IntoIterator<Item = impl ToString>) -> UnknownKids {
        let mut kids = UnknownKids::default();
        list.into_iter().for_each(|kid| kids.add(&kid.to_string()));
        kids
    }

    /// Requests one `kid` every 100 ms, and fetches early when it is due: the times of the fetches,
    /// in seconds.
    fn flood(seconds: u64, kid_of: impl Fn(u64) -> String) -> (EarlyFetches, Instant, Vec<u64>) {
        let start = Instant::now();
        let mut early = EarlyFetches::new(start);
        let mut fetches = Vec::new();
        let mut now = start;
        for round in 0..seconds * 10 {
            now = start + Duration::from_millis(round * 100);
            early.request(kids([kid_of(round)]), now);
            if early.due().is_some_and(|due| now >= due) {
                fetches.push((now - start).as_secs());
                early.begin(now);
                early.fetched(now);
            }
        }
        (early, now, fetches)
    }

    #[test]
    fn a_kid_that_is_not_found_is_looked_for_every_twenty_seconds() {
        let (_, _, fetches) = flood(100, |_| "gone".to_owned());
        assert_eq!(fetches, [0, 20, 40, 60, 80]);
    }

    #[test]
    fn a_flood_of_kids_fetches_every_ten_seconds_and_is_not_remembered_without_bound() {
        let (early, _, fetches) = flood(300, |round| format!("made-up-{round}"));
        assert_eq!(fetches, (0..30).map(|number| number * 10).collect::<Vec<_>>());
        assert!(early.not_found.len() <= MAX_REMEMBERED);
    }

    #[test]
    fn a_new_kid_is_due_at_once_or_ten_seconds_after_the_last_early_fetch() {
        let (mut early, now, fetches) = flood(15, |_| "gone".to_owned());
        assert_eq!(fetches, [0]);
        assert_eq!(early.due(), None);
        early.request(kids(["new"]), now);
        assert!(
            early.due().is_some_and(|due| due <= now),
            "the last one was more than ten seconds ago"
        );
        early.begin(now);
        early.fetched(now);
        early.request(kids(["newer"]), now);
        assert_eq!(early.due(), Some(now + INTERVAL));
    }

    /// A failed fetch has looked for nothing.
    #[test]
    fn after_a_failure_the_same_kid_is_a_reason_again() {
        let now = Instant::now();
        let mut early = EarlyFetches::new(now);
        early.request(kids(["new"]), now);
        early.begin(now);
        assert_eq!(early.due(), Some(now + INTERVAL));
    }
}
