//! Compiles fetched data into the policy: keys of issuers, and the inventory of a search cluster
//! (the names of its indices, aliases and data streams).
//!
//! Both come from a [`KeyUrl`], and most functions here with "keys" in their names serve both.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use authorizer::{Authorizer, Revision};
use document::Problem;
use identity::FetchedKeys;
use policy::KeyUrl;

use super::current::{CurrentPolicy, is_over};
use super::log_problems;
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy, Issuers, KeySource, KeyUrls};
use crate::settings::OnStale;

/// The outcome of compiling fetched keys into the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysOutcome {
    /// The keys differ from the last keys, and are active.
    Changed,
    Unchanged,
    /// The keys cannot be used.
    Unusable,
}

impl CurrentPolicy {
    /// The URLs of the policy's keys and inventory; none without a policy.
    fn wanted_urls(&self) -> KeyUrls {
        self.good.as_ref().map(CompiledPolicy::key_urls).unwrap_or_default()
    }

    pub(super) fn forget_unused_keys(&mut self) {
        let wanted = self.wanted_urls();
        self.fetched.retain(|url, _| wanted.contains_key(url));
        self.fetched_at.retain(|url, _| wanted.contains_key(url));
    }

    /// Passes the URLs to the fetcher, and lists them in the status.
    pub(super) fn publish_key_urls(&self) {
        let mut wanted = self.wanted_urls();
        if !self.max_keys_age.is_zero() {
            for source in wanted.values_mut() {
                source.max_age.get_or_insert(self.max_keys_age);
            }
        }
        let inventory = inventory_url(&wanted);
        let is_same_inventory = inventory == inventory_url(&self.key_urls.borrow());
        self.status.update(|facts| {
            // The state of the inventory is kept only if its address and credentials are the same:
            // with others, nothing has been fetched yet.
            let current = facts.inventory.take().filter(|_| is_same_inventory);
            facts.inventory = inventory.is_some().then(|| current.unwrap_or_default());
            let mut current = mem::take(&mut facts.keys);
            for (url, source) in wanted.iter().filter(|(url, _)| !url.is_inventory()) {
                let mut keys = current.remove(url).unwrap_or_default();
                keys.issuers = source.issuers.clone();
                facts.keys.insert(url.clone(), keys);
            }
        });
        self.key_urls.send_if_modified(|published| {
            let is_changed = *published != wanted;
            if is_changed {
                wanted.iter().for_each(|(url, source)| warn_of_shorter_interval(url, source));
            }
            *published = wanted;
            is_changed
        });
    }

    /// Recompiles the policy with fetched keys, or keeps the last good keys.
    pub(super) fn take_keys(&mut self, url: &KeyUrl, keys: Arc<[u8]>) -> KeysOutcome {
        if !self.wanted_urls().contains_key(url) {
            return KeysOutcome::Unchanged;
        }
        let keys = Some(keys);
        if self.fetched.get(url) == Some(&keys) {
            self.record_fetch(url);
            return KeysOutcome::Unchanged;
        }
        let mut fetched = self.fetched.clone();
        fetched.insert(url.clone(), keys);
        let compiled = match self.compile(&fetched) {
            Ok(compiled) => compiled,
            Err(problems) => {
                self.status.update_keys(url, |keys| {
                    keys.rejected += 1;
                    keys.set_failing("the fetched data cannot be used: the log says why");
                });
                log_problems(&problems);
                self.log_unusable(url);
                return KeysOutcome::Unusable;
            }
        };
        let before = self.good.as_ref().map(|good| good.authorizer.clone());
        let after = compiled.authorizer.clone();
        // Reported only once active, so that readers of the log or the status can rely on it.
        self.replace(compiled, fetched, url);
        self.record_fetch(url);
        self.log_change(url, before.as_deref(), &after);
        KeysOutcome::Changed
    }

    fn log_unusable(&self, url: &KeyUrl) {
        let issuers = self.issuers(url);
        if url.is_inventory() {
            tracing::error!(
                %url,
                "the fetched inventory is not used: the last good one stays active until it is too \
                 old"
            );
        } else {
            let consequence = match self.fetched.get(url) {
                Some(Some(_)) => "the last good ones stay active".to_owned(),
                Some(None) | None => format!("tokens of {issuers} get 401"),
            };
            tracing::error!(%url, %issuers, "fetched keys not used: {consequence}");
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
        let issuers = self.issuers(url);
        let added = document::excerpts(after.difference(&before).copied());
        let removed = document::excerpts(before.difference(&after).copied());
        tracing::info!(%url, %issuers, added, removed, "keys changed");
    }

    fn record_fetch(&mut self, url: &KeyUrl) {
        self.fetched_at.insert(url.clone(), Instant::now());
        self.status.update_keys(url, |keys| {
            (keys.loaded, keys.stale, keys.fetched) = (true, false, clock::now());
            keys.fetches += 1;
            keys.failing = None;
        });
    }

    fn issuers(&self, url: &KeyUrl) -> Issuers {
        self.wanted_urls().remove(url).map(|source| source.issuers).unwrap_or_default()
    }

    fn compile(&self, fetched: &FetchedKeys) -> Result<CompiledPolicy, Vec<Problem>> {
        // Does not happen: without a policy no keys are fetched.
        let Some(CompiledPolicy { authorizer, loaded, .. }) = &self.good else {
            return Err(Vec::new());
        };
        compiled_policy::catch_panic(&self.file, || {
            CompiledPolicy::compile(loaded.clone(), fetched, Some(authorizer))
        })
    }

    /// Activates the same policy with other keys, or another inventory. This does not make a stale
    /// policy fresh.
    fn replace(&mut self, compiled: CompiledPolicy, fetched: FetchedKeys, url: &KeyUrl) {
        self.good = Some(compiled);
        self.fetched = fetched;
        self.update_active(self.status.facts().policy.stale);
        if let Some(Revision { policy, keys }) = self.status.facts().policy.revision {
            let source = if url.is_inventory() { "another inventory" } else { "other keys" };
            tracing::info!(%policy, keys = keys.as_deref(), "policy active with {source}");
        }
    }

    /// Marks keys that were fetched too long ago as stale.
    pub(super) fn check_fetched(&mut self, now: Instant) {
        let urls = self.wanted_urls();
        let mut stale = Vec::new();
        for (url, at) in &self.fetched_at {
            let max_age = urls.get(url).and_then(|source| source.max_age);
            let age = now.saturating_duration_since(*at);
            if is_over(age, max_age.unwrap_or(self.max_keys_age)) {
                stale.push(url.clone());
            }
        }
        stale.iter().for_each(|url| self.mark_keys_stale(url));
    }

    fn mark_keys_stale(&mut self, url: &KeyUrl) {
        self.fetched_at.remove(url);
        // A stale inventory is removed whatever `on_stale` says: without an inventory, fewer
        // requests are permitted, never more.
        let is_unavailable = url.is_inventory() || self.on_stale == OnStale::Unavailable;
        // Reported only once inactive, so that readers of the log or the status can rely on it.
        if is_unavailable {
            let mut fetched = self.fetched.clone();
            fetched.insert(url.clone(), None);
            match self.compile(&fetched) {
                Ok(compiled) => self.replace(compiled, fetched, url),
                // This is a bug. It is safer to have no policy than to keep one with stale keys.
                Err(problems) => {
                    log_problems(&problems);
                    self.good = None;
                    self.update_active(self.status.facts().policy.stale);
                }
            }
        }
        self.status.update_keys(url, |keys| (keys.stale, keys.loaded) = (true, !is_unavailable));
        let issuers = self.issuers(url);
        if url.is_inventory() {
            tracing::error!(
                %url,
                "the inventory exceeds its `max_age`: patterns are permitted only where one \
                 pattern of a role covers them"
            );
        } else {
            let action =
                if is_unavailable { "tokens that need them get 401" } else { "they stay active" };
            tracing::error!(%url, %issuers, "keys exceed their maximum staleness: {action}");
        }
    }
}

fn inventory_url(urls: &KeyUrls) -> Option<KeyUrl> {
    urls.keys().find(|url| url.is_inventory()).cloned()
}

fn warn_of_shorter_interval(url: &KeyUrl, source: &KeySource) {
    let (interval, refresh) = (source.interval(), source.refresh);
    let Some(max_age) = source.max_age.filter(|_| interval < refresh) else { return };
    let issuers = source.issuers.log_value();
    let (fetched, limit) = match url.is_inventory() {
        true => ("the inventory is", "its `max_age`"),
        false => ("keys are", "`max-keys-age`"),
    };
    tracing::warn!(
        %url, issuers,
        "{fetched} fetched every {interval:?}, not every {refresh:?} (`refresh`), because {limit} \
         is {max_age:?}"
    );
}
