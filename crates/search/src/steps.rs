//! Limits the work for an explanation, so that it ends soon with any configuration.

/// The steps that are left: names, roles, patterns and users that may be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Steps(usize);

impl Steps {
    /// A number of steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// Takes steps. `None` if too few are left. It then takes all, so that no smaller work is
    /// tried.
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
