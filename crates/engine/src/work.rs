//! Counts the steps of matching, in tests only. Unlike seconds, steps do not differ between machines.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one step, whose cost has a constant bound. Does nothing outside of tests.
#[inline]
pub(crate) fn step() {
    steps(1);
}

/// Counts `count` steps.
#[inline]
pub(crate) fn steps(count: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + u64::try_from(count).unwrap_or(u64::MAX)));
    #[cfg(not(test))]
    let _ = count;
}

/// The number of steps that `work` takes.
#[cfg(test)]
pub(crate) fn of(work: impl FnOnce()) -> u64 {
    let before = STEPS.with(Cell::get);
    work();
    STEPS.with(Cell::get) - before
}

#[cfg(test)]
mod tests;
