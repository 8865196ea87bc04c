//! Counts the work for a question, so that it ends soon whatever the configuration has.

/// How many more steps may be taken: names, roles, patterns and users that are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Steps(usize);

impl Steps {
    /// So many.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self(most)
    }

    /// Takes some. `None` if there are too few: then none are left, so less is not tried.
    pub fn take(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// How many are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0
    }
}
