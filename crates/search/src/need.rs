//! What a request needs: actions, each on the cluster, on indices that it names, or on a name that it makes.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::Expression;

/// Actions that a request performs on one target. It is permitted only if each of them is, and a request is permitted
/// only if each of its needs is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<'a> {
    /// The actions.
    pub actions: &'static [Action],
    /// What they are performed on.
    pub target: Target<'a>,
    /// Whether what is read is written elsewhere: who filters only answers does not filter that.
    pub is_copied: bool,
    /// Whether terms of documents are shown that are not found: who filters documents does not filter those.
    pub shows_hidden_terms: bool,
    /// Whether indices that are not made yet get names by it, such as aliases: what a role hides of them could be read by these.
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
}

impl Target<'_> {
    /// How many names and patterns it has, and one for the cluster.
    pub(crate) fn size(&self) -> usize {
        let commas = match self {
            Self::Cluster | Self::Name(_) | Self::Missing(_) | Self::AddedName(_) => 0,
            Self::Indices(expression) | Self::Fixed(expression) => expression.commas(),
        };
        1 + commas
    }

    /// Whether one of its names or patterns is longer than a node permits for the name of an index, an alias or a data stream. There is no
    /// such name, and a longer pattern matches none, or has a wildcard that stands for nothing.
    pub(crate) fn is_too_long(&self) -> bool {
        let text = self.text();
        text.len() > MAX_NAME
            && match self {
                Self::Cluster | Self::Name(_) | Self::Missing(_) | Self::AddedName(_) => true,
                Self::Indices(_) | Self::Fixed(_) => {
                    let mut parts = text.split(',').map(|part| part.strip_prefix('-').unwrap_or(part));
                    parts.any(|part| part.len() > MAX_NAME)
                }
            }
    }
}

/// The longest name of an index that a node accepts, in bytes of UTF-8.
const MAX_NAME: usize = 255;

/// What an action is performed on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// The cluster as a whole.
    Cluster,
    /// Exactly one index, alias or data stream. The cluster expands no pattern here: a `*` is a character that no
    /// name has.
    Name(Cow<'a, str>),
    /// Names and patterns of indices, aliases and data streams in the path or the query, which may be reduced to those
    /// that are permitted.
    Indices(Expression<'a>),
    /// Names and patterns in the body, or all indices where the request does not show which: nothing can reduce them.
    Fixed(Expression<'a>),
    /// This name, if nothing has it: the request then creates an index. Without an inventory it is needed always.
    Missing(Cow<'a, str>),
    /// The name of an alias, or of an index that is made beside those that the request acts on: a name, or a pattern where the request
    /// says no more. The evaluation `v4` asks for it; `legacy` asks for the indices only.
    AddedName(Cow<'a, str>),
}
