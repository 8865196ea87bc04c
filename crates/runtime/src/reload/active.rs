//! The active snapshot, and the replaced snapshots that requests still hold.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;

/// The active snapshot and the snapshots that it replaced.
///
/// The last owner of a snapshot frees it, which takes a hundred milliseconds for a large policy and
/// must never happen on a worker thread. A request may hold a snapshot slightly longer than it is
/// active. So replaced snapshots are kept here until no request holds them.
#[derive(Debug)]
pub(super) struct ActiveSnapshot {
    current: Arc<ArcSwapOption<Authorizer>>,
    replaced: Vec<Arc<Authorizer>>,
}

impl ActiveSnapshot {
    pub(super) fn new(current: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { current, replaced: Vec::new() }
    }

    /// Makes `next` the active snapshot. With `None`, every check is an error.
    pub(super) fn replace(&mut self, next: Option<Arc<Authorizer>>) {
        let next_pointer = next.as_ref().map(Arc::as_ptr);
        let replaced = self.current.swap(next);
        self.replaced.extend(replaced.filter(|old| Some(Arc::as_ptr(old)) != next_pointer));
    }

    pub(super) fn free_replaced(&mut self) {
        self.replaced.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arc_swap::ArcSwapOption;
    use authorizer::Authorizer;
    use document::MapFiles;
    use identity::FetchedKeys;

    use super::ActiveSnapshot;

    #[test]
    fn a_worker_thread_frees_no_snapshot() {
        let now = Arc::new(ArcSwapOption::empty());
        let mut active = ActiveSnapshot::new(now.clone());
        let first = snapshot();
        let weak = Arc::downgrade(&first);
        active.replace(Some(first));
        // As a running request holds it, and a request whose password is being hashed.
        let (guard, owned) = (now.load(), now.load_full());
        active.replace(Some(snapshot()));
        active.free_replaced();
        drop((guard, owned));
        assert!(weak.upgrade().is_some(), "freed by the thread of a request");
        active.free_replaced();
        assert!(weak.upgrade().is_none(), "never freed");
        assert!(now.load().is_some());
        active.replace(None);
        assert!(now.load().is_none());
    }

    fn snapshot() -> Arc<Authorizer> {
        let files = MapFiles::new("policy.yaml", "version: 1\n");
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        Arc::new(Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0)
    }
}
