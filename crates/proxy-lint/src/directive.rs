//! The directives of a configuration.

use document::Place;

use crate::finding::{Finding, Kind};

/// Maximum depth of blocks and of includes: a file that includes itself must not take all memory.
pub(crate) const MAX_DEPTH: usize = 32;
/// Maximum number of files that are read, a file that is included twice counted twice.
pub(crate) const MAX_FILES: usize = 1_000;

/// A directive: `name arguments;`, or with a block.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) block: Option<Vec<Self>>,
    pub(crate) at: Place,
}

impl Directive {
    /// The argument at this index; empty without it.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives in its block.
    pub(crate) fn inner(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The directives in its block with this name.
    pub(crate) fn named<'d>(&'d self, name: &'d str) -> impl Iterator<Item = &'d Self> {
        self.inner().iter().filter(move |inner| inner.name == name)
    }

    /// Its name and arguments, as a reader finds them in the file.
    pub(crate) fn head(&self) -> String {
        let mut head = self.name.clone();
        for arg in &self.args {
            head.push(' ');
            head.push_str(arg);
        }
        head.chars().flat_map(visible).take(80).collect()
    }

    pub(crate) fn finding(
        &self,
        kind: Kind,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { kind, at: self.at.clone(), message: message.into(), fix: fix.into() }
    }
}

/// A control character is shown by its code.
fn visible(character: char) -> Vec<char> {
    match character.is_control() {
        true => character.escape_default().collect(),
        false => vec![character],
    }
}
