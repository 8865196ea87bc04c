//! The waker that a connection gives to `h2`.
//!
//! `h2` wakes the task of a connection whenever a stream has something to send, also while that task itself answers. It then
//! polls `h2` again anyway, so such a wake-up only costs one more poll after each batch; and the connection would queue for a
//! time slice (see `slices`) with nothing to read. So the waker is muted meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Wake, Waker};

/// A waker that can be muted.
#[derive(Debug)]
pub(super) struct MutedWaker {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    task: Waker,
    is_muted: AtomicBool,
    has_woken: AtomicBool,
}

impl MutedWaker {
    /// For the task with this waker.
    pub(super) fn new(task: Waker) -> Self {
        let (is_muted, has_woken) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { state: Arc::new(State { task, is_muted, has_woken }) }
    }

    /// Whether it is for the task with this waker.
    pub(super) fn wakes(&self, task: &Waker) -> bool {
        self.state.task.will_wake(task)
    }

    /// What is to be woken.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.state))
    }

    /// Begins to keep back what would wake the task.
    pub(super) fn mute(&self) {
        self.state.has_woken.store(false, SeqCst);
        self.state.is_muted.store(true, SeqCst);
    }

    /// Stops that. With `forward` the task is woken if it would have been meanwhile.
    pub(super) fn unmute(&self, forward: bool) {
        self.state.is_muted.store(false, SeqCst);
        // In this order, and vice versa in `wake_by_ref`, so that nothing is lost.
        if self.state.has_woken.swap(false, SeqCst) && forward {
            self.state.task.wake_by_ref();
        }
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_woken.store(true, SeqCst);
        if !self.is_muted.load(SeqCst) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn what_is_muted_is_forwarded_or_forgotten() {
        let count = Arc::<Count>::default();
        let muted = MutedWaker::new(Waker::from(Arc::clone(&count)));
        let waker = muted.waker();
        let woken = || count.0.swap(0, SeqCst);
        waker.wake_by_ref();
        assert_eq!(woken(), 1);
        for (wakes, forward, expected) in [(0, true, 0), (2, true, 1), (2, false, 0)] {
            muted.mute();
            (0..wakes).for_each(|_| waker.wake_by_ref());
            assert_eq!(woken(), 0);
            muted.unmute(forward);
            assert_eq!(woken(), expected);
        }
        waker.wake_by_ref();
        assert_eq!(woken(), 1);
    }
}
