//! Keys of issuers, and the inventory of a search cluster, compiled into the policy.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use authorizer::{Authorizer, Revision};
use document::Problem;
use policy::KeyUrl;

use super::current::{CurrentPolicy, is_over};
use super::log_problems;
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy, Issuers, KeySource, KeyUrls};
use crate::settings::OnStale;
use crate::threads::catch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysOutcome {
    /// They differ from those before, and are active.
    Changed,
    /// They are those that were there.
    Unchanged,
    /// They cannot be used.
    Unusable,
}

impl CurrentPolicy {
    /// The URLs of what the policy needs; none without a policy.
    pub(super) fn wanted_urls(&self) -> KeyUrls {
        self.good.as_ref().map(CompiledPolicy::key_urls).unwrap_or_default()
    }

    pub(super) fn forget_unused_keys(&mut self) {
        let wanted = self.wanted_urls();
        self.fetched.retain(|url, _| wanted.contains_key(url));
        self.fetched_at.retain(|url, _| wanted.contains_key(url));
    }

    pub(super) fn publish_key_urls(&self) {
        let mut wanted = self.wanted_urls();
        if !self.max_keys_age.is_zero() {
            wanted
                .values_mut()
                .for_each(|source| _ = source.max_age.get_or_insert(self.max_keys_age));
        }
        let inventory = |urls: &KeyUrls| urls.keys().find(|url| url.is_inventory()).cloned();
        let (inventory, before) = (inventory(&wanted), inventory(&self.key_urls.borrow()));
        self.status.note(|facts| {
            // Another address, or other credentials for it, has not given anything yet.
            let current = facts.inventory.take().filter(|_| inventory == before);
            facts.inventory = inventory.is_some().then(|| current.unwrap_or_default());
            let mut current = mem::take(&mut facts.keys);
            let keys = wanted.iter().filter(|(url, _)| !url.is_inventory()).map(|(url, source)| {
                let mut keys = current.remove(url).unwrap_or_default();
                keys.issuers = source.issuers.clone();
                (url.clone(), keys)
            });
            facts.keys = keys.collect();
        });
        self.key_urls.send_if_modified(|published| {
            let changed = *published != wanted;
            if changed {
                wanted.iter().for_each(|(url, source)| warn_of_shorter_interval(url, source));
            }
            *published = wanted;
            changed
        });
    }

    /// Recompiles the policy with fetched keys, or keeps the last good ones.
    pub(super) fn take_keys(&mut self, url: &KeyUrl, keys: Arc<[u8]>) -> KeysOutcome {
        let outcome = catch("taking what was fetched", || self.use_keys(url, keys));
        outcome.unwrap_or_else(|panicked| {
            // They may be active. If they come again, they must not count as unchanged.
            self.fetched.remove(url);
            self.status.note_keys(url, |keys| {
                keys.rejected += 1;
                keys.fail(&panicked.to_string());
            });
            tracing::error!(%url, "{panicked}");
            KeysOutcome::Unusable
        })
    }

    fn use_keys(&mut self, url: &KeyUrl, keys: Arc<[u8]>) -> KeysOutcome {
        if !self.wanted_urls().contains_key(url) {
            return KeysOutcome::Unchanged;
        }
        let keys = Some(keys);
        if self.fetched.get(url) == Some(&keys) {
            self.note_fetched(url);
            return KeysOutcome::Unchanged;
        }
        let last = self.fetched.insert(url.clone(), keys);
        match self.compile() {
            Ok(compiled) => {
                let before = self.good.as_ref().map(|good| good.authorizer.clone());
                let after = compiled.authorizer.clone();
                // First active, then reported: who reads the log or the status may rely on it.
                self.replace(compiled, url);
                self.note_fetched(url);
                self.log_change(url, before.as_deref(), &after);
                KeysOutcome::Changed
            }
            Err(problems) => {
                match last {
                    Some(last) => self.fetched.insert(url.clone(), last),
                    None => self.fetched.remove(url),
                };
                self.status.note_keys(url, |keys| {
                    keys.rejected += 1;
                    keys.fail("what was fetched cannot be used: the log says why");
                });
                log_problems(&problems);
                let issuers = self.issuers_of(url);
                if url.is_inventory() {
                    tracing::error!(
                        %url,
                        "the fetched inventory is not used: the last good one stays active until it is too old"
                    );
                } else if matches!(self.fetched.get(url), Some(Some(_))) {
                    tracing::error!(%url, %issuers, "fetched keys not used: the last good ones stay active");
                } else {
                    tracing::error!(%url, %issuers, "fetched keys not used: tokens of {issuers} get 401");
                }
                KeysOutcome::Unusable
            }
        }
    }

    fn log_change(&self, url: &KeyUrl, before: Option<&Authorizer>, after: &Authorizer) {
        if url.is_inventory() {
            let inventory = after.cluster().and_then(|cluster| cluster.privileges().inventory());
            let names = inventory.map_or(0, |inventory| inventory.len());
            tracing::info!(%url, names, "inventory changed");
            return;
        }
        let before =
            before.map(|policy| policy.rules().authenticator().kids(url)).unwrap_or_default();
        let after = after.rules().authenticator().kids(url);
        let issuers = self.issuers_of(url);
        let added = identity::excerpts(after.difference(&before).copied());
        let removed = identity::excerpts(before.difference(&after).copied());
        tracing::info!(%url, %issuers, added, removed, "keys changed");
    }

    fn note_fetched(&mut self, url: &KeyUrl) {
        self.fetched_at.insert(url.clone(), Instant::now());
        self.status.note_keys(url, |keys| {
            (keys.loaded, keys.stale, keys.fetched) = (true, false, clock::now());
            keys.fetches += 1;
            keys.failing = None;
        });
    }

    fn issuers_of(&self, url: &KeyUrl) -> Issuers {
        self.wanted_urls().remove(url).map(|source| source.issuers).unwrap_or_default()
    }

    fn compile(&self) -> Result<CompiledPolicy, Vec<Problem>> {
        // Without a policy no keys are fetched.
        let Some(CompiledPolicy { authorizer, loaded, .. }) = &self.good else {
            return Err(Vec::new());
        };
        compiled_policy::survive(&self.file, || {
            CompiledPolicy::compile(loaded.clone(), &self.fetched, Some(authorizer))
        })
    }

    /// Activates the same policy with other keys, or another inventory. This does not make a stale
    /// policy fresh.
    fn replace(&mut self, compiled: CompiledPolicy, url: &KeyUrl) {
        self.good = Some(compiled);
        self.show(self.status.facts().policy.stale);
        if let Some(Revision { policy, keys }) = self.status.facts().policy.revision {
            let what = if url.is_inventory() { "another inventory" } else { "other keys" };
            tracing::info!(%policy, keys = keys.as_deref(), "policy active with {what}");
        }
    }

    /// Marks as stale what was fetched too long ago.
    pub(super) fn check_fetched(&mut self, now: Instant) {
        let urls = self.wanted_urls();
        let max = |url: &KeyUrl| {
            urls.get(url).and_then(|source| source.max_age).unwrap_or(self.max_keys_age)
        };
        let over = |(url, at): &(&KeyUrl, &Instant)| {
            is_over(now.saturating_duration_since(**at), max(url))
        };
        let stale: Vec<KeyUrl> =
            self.fetched_at.iter().filter(over).map(|(url, _)| url.clone()).collect();
        for url in stale {
            self.mark_keys_stale(&url);
        }
    }

    fn mark_keys_stale(&mut self, url: &KeyUrl) {
        self.fetched_at.remove(url);
        // Without an inventory fewer requests are permitted, but none is that should not be.
        let unavailable = url.is_inventory() || self.on_stale == OnStale::Unavailable;
        // First no longer active, then reported: who reads the log or the status may rely on it.
        if unavailable {
            self.fetched.insert(url.clone(), None);
            match self.compile() {
                Ok(compiled) => self.replace(compiled, url),
                // A bug. No policy is better than one with stale keys.
                Err(problems) => {
                    log_problems(&problems);
                    self.good = None;
                    self.show(self.status.facts().policy.stale);
                }
            }
        }
        self.status.note_keys(url, |keys| (keys.stale, keys.loaded) = (true, !unavailable));
        let action = if unavailable { "tokens that need them get 401" } else { "they stay active" };
        let issuers = self.issuers_of(url);
        if url.is_inventory() {
            tracing::error!(%url, "the inventory exceeds its `max_age`: patterns are permitted only where one pattern of a role covers them");
        } else {
            tracing::error!(%url, %issuers, "keys exceed their maximum staleness: {action}");
        }
    }
}

fn warn_of_shorter_interval(url: &KeyUrl, source: &KeySource) {
    let (interval, refresh) = (source.interval(), source.refresh);
    let Some(max_age) = source.max_age.filter(|_| interval < refresh) else { return };
    if url.is_inventory() {
        tracing::warn!(%url, "the inventory is fetched every {interval:?}, not every {refresh:?} (`refresh`), because its `max_age` is {max_age:?}");
    } else {
        let issuers = &source.issuers;
        tracing::warn!(%url, %issuers, "keys are fetched every {interval:?}, not every {refresh:?} (`refresh`), because `max-keys-age` is {max_age:?}");
    }
}
