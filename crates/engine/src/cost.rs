//! Counts the steps of a decision, in tests only. Unlike seconds, steps do not differ between
//! machines.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts steps, each of which has a cost with a constant bound. Does nothing outside of tests.
#[inline]
pub(crate) fn add(steps: usize) {
    #[cfg(test)]
    STEPS.with(|sum| sum.set(sum.get() + u64::try_from(steps).unwrap_or(u64::MAX)));
    #[cfg(not(test))]
    let _ = steps;
}

/// The number of steps that a call takes.
#[cfg(test)]
pub(crate) fn count(call: impl FnOnce()) -> u64 {
    let before = STEPS.with(Cell::get);
    call();
    STEPS.with(Cell::get) - before
}

#[cfg(test)]
mod tests;
