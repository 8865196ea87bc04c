//! The needs of a request: actions on the cluster, on indices, or on a name that the request makes.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::Expression;

/// Actions that a request performs on one target. A need is permitted if each of its actions is, and a
/// request if each of its needs is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<'a> {
    /// The actions.
    pub actions: &'static [Action],
    /// The object of the actions.
    pub target: Target<'a>,
    /// Whether the documents are written elsewhere: the cluster filters only answers.
    pub is_copied: bool,
    /// Whether the answer has terms of documents that are not found: the cluster does not filter these.
    pub shows_hidden_terms: bool,
    /// Whether it gives names, such as aliases, to indices that are not made yet: by these names anything
    /// that a role hides could be read.
    pub adds_names: bool,
}

impl Target<'_> {
    /// The names and patterns, as the request has them: `_all` for all indices, and empty for the cluster.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Cluster => "",
            Self::Name(name) | Self::Missing(name) | Self::AddedName(name) => name,
            Self::Indices(expression) | Self::Fixed(expression) if expression.is_all() => "_all",
            Self::Indices(expression) | Self::Fixed(expression) => expression.text(),
        }
    }

    /// The names and patterns, if there may be several: only these may have exclusions.
    pub(crate) fn expression(&self) -> Option<&Expression<'_>> {
        match self {
            Self::Cluster | Self::Name(_) | Self::Missing(_) | Self::AddedName(_) => None,
            Self::Indices(expression) | Self::Fixed(expression) => Some(expression),
        }
    }

    /// How many names and patterns it has, and one for the cluster.
    pub(crate) fn size(&self) -> usize {
        1 + self.expression().map_or(0, Expression::commas)
    }

    /// Whether a name or pattern is longer than the name of any index, alias or data stream.
    pub(crate) fn is_too_long(&self) -> bool {
        let text = self.text();
        let mut parts = text.split(',').map(|part| part.strip_prefix('-').unwrap_or(part));
        text.len() > MAX_NAME && (self.expression().is_none() || parts.any(|part| part.len() > MAX_NAME))
    }
}

/// The longest name of an index that a node accepts, in bytes of UTF-8.
const MAX_NAME: usize = 255;

/// The object of an action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// The cluster as a whole.
    Cluster,
    /// Exactly one index, alias or data stream. The cluster expands no pattern here: `*` is a character
    /// that no name has.
    Name(Cow<'a, str>),
    /// Names and patterns of indices, aliases and data streams in the path or the query, which may be
    /// reduced to those that are permitted.
    Indices(Expression<'a>),
    /// Names and patterns in the body, or all indices where the request does not show which. They cannot
    /// be reduced.
    Fixed(Expression<'a>),
    /// This name, if nothing has it: the request then creates an index. Without an inventory it is needed
    /// always.
    Missing(Cow<'a, str>),
    /// The name of an alias, or of an index that is made beside those that the request acts on. It is a
    /// pattern where the request says no more. The evaluation `v4` asks for it, `legacy` does not.
    AddedName(Cow<'a, str>),
}
