//! The needs of a request: actions on the cluster, on indices, or on a name that it creates.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::Expression;

/// Actions on a target. A request is permitted if each action of each need is permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<'a> {
    /// The actions.
    pub actions: &'static [Action],
    /// What the actions are performed on.
    pub target: Target<'a>,
    /// Whether the documents are copied to another index. The cluster hides documents and fields
    /// only in answers, not in copies.
    pub is_copied: bool,
    /// Whether the answer has hidden terms: terms of documents that the search does not find. The
    /// cluster does not filter them.
    pub shows_hidden_terms: bool,
    /// Whether the request gives names to indices that do not exist yet: aliases of a new index, or
    /// new names of copies. Under a new name, an index may show everything that a role hides.
    pub adds_names: bool,
}

impl Target<'_> {
    /// The names and patterns of the request: `_all` for all indices, empty for the cluster.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Cluster => "",
            Self::Name(name) | Self::CreatedIfMissing(name) | Self::AliasOrNewIndex(name) => name,
            Self::Indices(expression) | Self::Fixed(expression) if expression.is_empty_or_all() => {
                "_all"
            }
            Self::Indices(expression) | Self::Fixed(expression) => expression.text(),
        }
    }

    /// The names and patterns, if there may be several: only these may have exclusions.
    pub(crate) fn expression(&self) -> Option<&Expression<'_>> {
        match self {
            Self::Cluster
            | Self::Name(_)
            | Self::CreatedIfMissing(_)
            | Self::AliasOrNewIndex(_) => None,
            Self::Indices(expression) | Self::Fixed(expression) => Some(expression),
        }
    }

    /// The number of names and patterns; 1 for the cluster.
    pub(crate) fn size(&self) -> usize {
        1 + self.expression().map_or(0, Expression::commas)
    }

    /// Whether a name or pattern is longer than the name of any index, alias or data stream.
    pub(crate) fn is_too_long(&self) -> bool {
        let text = self.text();
        let mut parts = text.split(',').map(|part| part.strip_prefix('-').unwrap_or(part));
        text.len() > MAX_NAME
            && (self.expression().is_none() || parts.any(|part| part.len() > MAX_NAME))
    }
}

/// The longest name of an index that a node accepts, in bytes of UTF-8.
const MAX_NAME: usize = 255;

/// What an action is performed on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// The cluster as a whole.
    Cluster,
    /// The name of an index, alias or data stream. The cluster expands no pattern here.
    Name(Cow<'a, str>),
    /// Names and patterns in the path or the query, which may be reduced to permitted names.
    Indices(Expression<'a>),
    /// Names and patterns in the body, or all indices if they are unknown. Never reduced.
    Fixed(Expression<'a>),
    /// The name of an index that the request creates, if the inventory lacks it.
    CreatedIfMissing(Cow<'a, str>),
    /// The name or pattern of an alias, even if it is only read or removed, or the name of the
    /// index that a rollover, clone, shrink or split makes. Only the evaluation `v4` checks it.
    AliasOrNewIndex(Cow<'a, str>),
}
