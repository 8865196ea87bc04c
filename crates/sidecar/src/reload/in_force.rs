//! The snapshot that answers requests, and those before it that nobody has let go of yet.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;

use super::aside::Aside;

/// What is in force, and was.
///
/// Whoever lets go of a snapshot last frees it. For a large one that is a hundred milliseconds of work, which a thread
/// that answers requests must never have: a request may hold the last snapshot a little longer than it is in force. So
/// it is kept here until nobody else has it.
#[derive(Debug)]
pub(super) struct InForce {
    now: Arc<ArcSwapOption<Authorizer>>,
    before: Vec<Arc<Authorizer>>,
}

impl InForce {
    /// Publishes what comes into force in `now`.
    pub(super) fn new(now: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { now, before: Vec::new() }
    }

    /// From now on this answers requests; with `None` each is an error.
    pub(super) fn put(&mut self, next: Option<Arc<Authorizer>>) {
        self.before.extend(self.now.swap(next));
    }

    /// Whether there is something left to free.
    pub(super) fn holds_more(&self) -> bool {
        !self.before.is_empty()
    }

    /// Frees what nobody else has any more.
    pub(super) fn let_go(&mut self, aside: &Aside) {
        for free in self.before.extract_if(.., |it| Arc::strong_count(it) == 1) {
            aside.free(free);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arc_swap::ArcSwapOption;
    use authorizer::Authorizer;
    use identity::FetchedKeys;
    use policy::MapFiles;

    use super::{Aside, InForce};

    #[test]
    fn a_snapshot_is_not_freed_by_who_answers_with_it() {
        let now = Arc::new(ArcSwapOption::empty());
        let mut in_force = InForce::new(now.clone());
        let first = snapshot();
        let weak = Arc::downgrade(&first);
        in_force.put(Some(first));
        // Of a request that takes its time, and of one that has it for longer, as while a password is hashed.
        let (guard, owned) = (now.load(), now.load_full());
        in_force.put(Some(snapshot()));
        let aside = Aside::start().unwrap();
        in_force.let_go(&aside);
        assert!(in_force.holds_more());
        drop((guard, owned));
        assert!(weak.upgrade().is_some(), "freed by who answered with it");
        in_force.let_go(&aside);
        // By a thread that has no haste.
        let freed = (0..30_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            weak.upgrade().is_none()
        });
        assert!(freed, "never freed");
        assert!(now.load().is_some());
        in_force.put(None);
        assert!(now.load().is_none());
    }

    fn snapshot() -> Arc<Authorizer> {
        let files = MapFiles::of("policy.yaml", "version: 1\n");
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        Arc::new(Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0)
    }
}
