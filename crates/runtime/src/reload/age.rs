//! How old the policy and what is fetched for it may become.

use std::time::{Duration, Instant};

use super::{MAX_SLEEP, ReloadSettings, Reloader};
use crate::compiled_policy::SHORTEST_INTERVAL;
use crate::settings::OnStale;

impl Reloader {
    /// When to poll next. Staleness is checked at polls, so the interval is at most half of each maximum staleness.
    pub(super) fn next_poll(&self) -> Instant {
        let ReloadSettings { poll, max_policy_age, max_keys_age, .. } = self.settings;
        let of_sources = self.wanted_urls().into_values().filter_map(|source| source.max_age);
        let of_sources = of_sources.map(|max| (max / 2).max(SHORTEST_INTERVAL));
        let often = [poll, max_policy_age / 2, max_keys_age / 2].into_iter().chain(of_sources);
        let often = often.filter(|interval| !interval.is_zero());
        Instant::now() + often.min().unwrap_or(MAX_SLEEP)
    }

    /// Marks as stale what is too old.
    pub(super) fn check_age(&mut self, now: Instant) {
        let facts = self.status.facts().policy;
        let age = facts.failing_since.map(|since| now.saturating_duration_since(since));
        if self.good.is_some()
            && !facts.stale
            && age.is_some_and(|age| is_over(age, self.settings.max_policy_age))
        {
            self.mark_policy_stale();
        }
        self.check_fetched(now);
    }

    fn mark_policy_stale(&mut self) {
        let unavailable = self.settings.on_stale == OnStale::Unavailable;
        if unavailable {
            self.active.replace(None);
        }
        self.status.note(|facts| {
            facts.policy.stale = true;
            facts.policy.revision = facts.policy.revision.take().filter(|_| !unavailable);
        });
        let action = if unavailable { "every check gets an error" } else { "it stays active" };
        tracing::error!(file = %self.file.display(), "the policy exceeds its maximum staleness: {action}");
    }
}

/// A maximum of zero means no limit.
pub(super) fn is_over(age: Duration, max: Duration) -> bool {
    !max.is_zero() && age > max
}
