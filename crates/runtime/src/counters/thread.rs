//! The counters of a worker thread. Only that thread writes them.

use std::sync::OnceLock;
use std::time::Duration;

use identity::{CacheLookups, Subject};
use policy::model::SourceId;

use super::histogram::Recorder;
use super::{Counter, ErrorKind, Totals, VALID};

/// Maximum number of keys of a [`CountersByKey`]; further keys are not counted at all. There are
/// about thirty reasons for denials, and about twenty pairs of a scheme and a reason for invalid
/// credentials.
const MAX_KEYS: usize = 64;

/// The counters of a worker thread. Aligned, so that two threads never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    allowed: Counter,
    denied: CountersByKey<&'static str>,
    errors: [Counter; ErrorKind::ALL.len()],
    /// Latencies of answers.
    check: Recorder,
    evaluation: Recorder,
    tokens_verified: Counter,
    // Valid credentials, by scheme:
    basic: Counter,
    bearer: Counter,
    api_key: Counter,
    certificate: Counter,
    /// Invalid credentials by scheme and reason.
    invalid: CountersByKey<(&'static str, &'static str)>,
    /// Lookups in the credential caches: `local`, `shared` and `missed` of [`CacheLookups`].
    lookups: [Counter; 3],
}

#[derive(Debug)]
struct CountersByKey<K>([(OnceLock<K>, Counter); MAX_KEYS]);

impl<K> Default for CountersByKey<K> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Default::default()))
    }
}

impl<K: Copy + PartialEq> CountersByKey<K> {
    fn increment(&self, key: K) {
        let slot = self.0.iter().find(|(slot, _)| *slot.get_or_init(|| key) == key);
        if let Some((_, count)) = slot {
            count.increment();
        }
    }

    fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map_while(|(key, count)| Some((*key.get()?, count.read())))
    }
}

impl ThreadCounters {
    /// Counts a request that was allowed.
    pub fn count_allowed(&self) {
        self.allowed.increment();
    }

    /// Counts a request that was denied for this reason.
    pub fn count_denied(&self, reason: &'static str) {
        self.denied.increment(reason);
    }

    /// Counts a request of an authenticated caller.
    pub fn count_valid_credentials(&self, subject: &Subject) {
        let count = match subject.source {
            _ if subject.issuer.is_some() => &self.bearer,
            Some(SourceId::API_KEYS) => &self.api_key,
            Some(SourceId::CERTIFICATES) => &self.certificate,
            Some(_) | None => &self.basic,
        };
        count.increment();
    }

    /// Counts a request whose credentials are invalid for this reason.
    pub fn count_invalid_credentials(&self, scheme: &'static str, reason: &'static str) {
        self.invalid.increment((scheme, reason));
    }

    /// Counts lookups in the credential caches.
    pub fn count_lookups(&self, CacheLookups { local, shared, missed }: CacheLookups) {
        self.lookups.iter().zip([local, shared, missed]).for_each(|(count, more)| count.add(more));
    }

    /// Counts a request that got an error.
    pub fn count_error(&self, kind: ErrorKind) {
        if let Some(count) = self.errors.get(kind as usize) {
            count.increment();
        }
    }

    /// Counts a token that was verified.
    pub fn count_verified_token(&self) {
        self.tokens_verified.increment();
    }

    /// Records how long it took to authorize a decoded request: to parse it, to find its caller,
    /// and to evaluate the rules.
    pub fn record_evaluation(&self, duration: Duration) {
        self.evaluation.record(duration, 1);
    }

    /// Records the latency of `answers` answers: the time from when their requests were complete
    /// until the answers were passed to the transport.
    pub fn record_latency(&self, latency: Duration, answers: u64) {
        self.check.record(latency, answers);
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        totals.allowed += self.allowed.read();
        totals.tokens_verified += self.tokens_verified.read();
        let errors = totals.errors.iter_mut().zip(&self.errors);
        errors.for_each(|((_, sum), count)| *sum += count.read());
        self.check.add_to(&mut totals.check);
        self.evaluation.add_to(&mut totals.evaluation);
        let [local, shared, missed] = self.lookups.each_ref().map(Counter::read);
        totals.lookups.local += local;
        totals.lookups.shared += shared;
        totals.lookups.missed += missed;
        let valid = [
            (("basic", VALID), self.basic.read()),
            (("bearer", VALID), self.bearer.read()),
            (("api_key", VALID), self.api_key.read()),
            (("certificate", VALID), self.certificate.read()),
        ];
        for ((scheme, result), count) in valid.into_iter().chain(self.invalid.iter()) {
            let credentials = totals.credentials.iter_mut();
            match credentials.into_iter().find(|sum| (sum.0, sum.1) == (scheme, result)) {
                Some((_, _, sum)) => *sum += count,
                None => totals.credentials.push((scheme, result, count)),
            }
        }
        for (reason, count) in self.denied.iter() {
            match totals.denied.iter_mut().find(|(name, _)| *name == reason) {
                Some((_, sum)) => *sum += count,
                None => totals.denied.push((reason, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(issuer: Option<&str>, source: Option<SourceId>) -> Subject {
        Subject {
            user: "ann".into(),
            issuer: issuer.map(Into::into),
            source,
            groups: Vec::new(),
            roles: Vec::new(),
            claims: serde_json::Value::Null,
            actor: None,
        }
    }

    #[test]
    fn totals_are_the_sum_over_all_threads() {
        let threads = [ThreadCounters::default(), ThreadCounters::default()];
        for thread in &threads {
            thread.count_allowed();
            thread.count_denied("missing_credentials");
            thread.count_error(ErrorKind::Framing);
            thread.record_evaluation(Duration::from_micros(3));
            thread.record_latency(Duration::from_micros(5), 2);
        }
        threads[1].count_denied("denied");
        threads[0].count_valid_credentials(&subject(Some("https://a.example"), None));
        threads[1].count_valid_credentials(&subject(None, Some(SourceId::API_KEYS)));
        threads[0].count_valid_credentials(&subject(None, Some(SourceId::CERTIFICATES)));
        threads[0].count_invalid_credentials("bearer", "expired");
        for _ in 0..3 {
            threads[1].count_invalid_credentials("basic", "bad_password");
        }
        threads[1].count_invalid_credentials("bearer", "expired");
        threads.iter().for_each(|thread| {
            thread.count_lookups(CacheLookups { local: 3, shared: 2, missed: 1 })
        });
        let totals = Totals::sum(threads.iter());
        assert_eq!(totals.allowed, 2);
        assert_eq!(totals.denied, [("missing_credentials", 2), ("denied", 1)]);
        let credentials = [
            ("basic", VALID, 0),
            ("bearer", VALID, 1),
            ("api_key", VALID, 1),
            ("certificate", VALID, 1),
            ("bearer", "expired", 2),
            ("basic", "bad_password", 3),
        ];
        assert_eq!(totals.credentials, credentials);
        assert_eq!(totals.lookups, CacheLookups { local: 6, shared: 4, missed: 2 });
        let errors: Vec<_> = totals.errors.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [(ErrorKind::Framing, 2)]);
        assert_eq!(
            (totals.evaluation.count(), totals.evaluation.sum()),
            (2, Duration::from_micros(6))
        );
        assert_eq!((totals.check.count(), totals.check.sum()), (4, Duration::from_micros(20)));
    }
}
