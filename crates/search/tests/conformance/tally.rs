//! Counts how answers compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::decision::{self, Decision, STRICTER};
use crate::node::Answer;
use crate::requests::Sent;
use crate::world;

/// How answers compare.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) same: usize,
    /// The node failed for another reason than privileges.
    pub(crate) undecided: usize,
    pub(crate) stricter: BTreeMap<(String, String), (usize, String)>,
    pub(crate) over_granted: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, sent: &Sent, node: &Answer, ours: &Decision) {
        let shown = || sent.shown();
        match (node.allowed, ours) {
            (None, _) => self.undecided += 1,
            (Some(false), Decision::Denied { .. }) => self.same += 1,
            (Some(false), Decision::Permitted(_)) => self.over_granted.push(shown()),
            (Some(true), Decision::Permitted(None)) => self.same += 1,
            (Some(true), Decision::Permitted(Some(only))) => {
                let only: BTreeSet<_> =
                    only.iter().filter(|index| world::has_documents(index)).cloned().collect();
                let found = node
                    .found
                    .as_ref()
                    .map(|found| found.iter().filter(|index| world::has_documents(index)));
                match found.map(|found| found.cloned().collect::<BTreeSet<_>>()) {
                    Some(found) if !only.is_subset(&found) => {
                        self.over_granted
                            .push(format!("{}: {only:?} instead of {found:?}", shown()));
                    }
                    Some(found) if only != found => {
                        let why = format!("{only:?} instead of {found:?}");
                        self.stricter
                            .entry(("reduced".to_owned(), why))
                            .or_insert_with(|| (0, shown()))
                            .0 += 1;
                    }
                    _ => self.same += 1,
                }
            }
            (Some(true), Decision::Denied { operation, why }) => {
                let key = (operation.clone(), why.clone());
                self.stricter.entry(key).or_insert_with(|| (0, shown())).0 += 1;
            }
        }
    }

    /// The errors: over-grants, and denials that no line of the table explains.
    pub(crate) fn problems(&self) -> String {
        let mut problems = String::new();
        for request in self.over_granted.iter().take(40) {
            writeln!(problems, "over-granted: {request}").expect("text");
        }
        for ((operation, why), (count, example)) in &self.stricter {
            if !STRICTER.iter().any(|row| decision::explains(row, operation, why)) {
                writeln!(problems, "stricter {count} times: {operation}: {why}: {example}")
                    .expect("text");
            }
        }
        problems
    }

    /// Prints what was compared.
    #[expect(clippy::print_stdout, reason = "it is the result of the run")]
    pub(crate) fn print(&self, count: usize) {
        let stricter: usize = self.stricter.values().map(|(count, _)| count).sum();
        println!(
            "{count} requests: {} same, {stricter} stricter, {} undecided, {} over-granted",
            self.same,
            self.undecided,
            self.over_granted.len()
        );
        for ((operation, why), (count, _)) in &self.stricter {
            println!("{count:6} stricter: {operation}: {why}");
        }
        for request in &self.over_granted {
            println!("over-granted: {request}");
        }
        // Not a failure: a row may need more requests than these. One that no long run needs can
        // go.
        for row in STRICTER {
            if !self.stricter.keys().any(|(operation, why)| decision::explains(row, operation, why))
            {
                println!("no request needs the row: {}: {}", row.0, row.1);
            }
        }
    }
}
