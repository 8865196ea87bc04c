//! The directives of nginx that apply in a block: its own, and those of the blocks around it.

use crate::directive::Directive;

/// A block with the blocks around it, the innermost last.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'d>(Vec<&'d [Directive]>);

impl<'d> Scope<'d> {
    pub(crate) fn new(directives: &'d [Directive]) -> Self {
        Self(vec![directives])
    }

    /// The scope of a block inside this scope.
    pub(crate) fn inner(&self, block: &'d Directive) -> Self {
        let mut blocks = self.0.clone();
        blocks.push(block.inner());
        Self(blocks)
    }

    /// The directives with this name that apply: those of the innermost block that has any, as
    /// nginx inherits them.
    pub(crate) fn all(&self, name: &str) -> Vec<&'d Directive> {
        let blocks = self.0.iter().rev().map(|block| {
            block.iter().filter(|directive| directive.name == name).collect::<Vec<_>>()
        });
        blocks.into_iter().find(|block| !block.is_empty()).unwrap_or_default()
    }

    /// The directive with this name that applies.
    pub(crate) fn get(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).last().copied()
    }

    /// The value that is set for a header of the proxied request.
    pub(crate) fn header(&self, name: &str) -> Option<&'d str> {
        let lines = self.all("proxy_set_header");
        let line = lines.into_iter().rev().find(|line| line.arg(0).eq_ignore_ascii_case(name));
        line.map(|line| line.arg(1))
    }
}
