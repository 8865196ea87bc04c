//! The text of a configuration that is changed.

use crate::process::Failed;

/// The file that it is made from.
pub(super) const FILE: &str = "deploy/envoy/envoy.yaml";

/// A configuration in which each replaced text must occur exactly once.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn replace(&mut self, from: &str, to: &str) -> Result<(), Failed> {
        match self.0.matches(from).count() {
            1 => self.0 = self.0.replacen(from, to, 1),
            times => {
                return Err(Failed::new(FILE, format!("`{from}` occurs {times} times in it")));
            }
        }
        Ok(())
    }

    pub(super) fn cut(&mut self, from: &str, until: &str) -> Result<(), Failed> {
        let both =
            self.0.split_once(from).and_then(|(before, rest)| Some((before, rest.split_once(until)?.1)));
        let Some((before, after)) = both else {
            return Err(Failed::new(FILE, format!("no `{from}` before `{until}` in it")));
        };
        self.0 = format!("{before}{until}{after}");
        Ok(())
    }
}
