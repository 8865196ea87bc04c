//! Counts the work for a question, so that it ends soon whatever the configuration has.

/// The steps that are left: names, roles, patterns and users that may be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Steps(usize);

impl Steps {
    /// A number of steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// Takes steps. `None` if there are too few; then none are left, so nothing smaller is tried.
    pub fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// The number of steps that are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0
    }
}
