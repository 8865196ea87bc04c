//! What a request needs: actions, each on the cluster or on indices.

/// Actions that a request performs on one target. It is permitted only if each of them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need<'a> {
    /// Names of actions, such as `indices:data/read/search`.
    pub actions: &'static [&'static str],
    /// What they are performed on.
    pub target: Target<'a>,
}

/// What an action is performed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target<'a> {
    /// The cluster as a whole.
    Cluster,
    /// The indices, aliases and data streams that an expression names, as the request writes it: not yet split or expanded.
    Indices(&'a str),
}
