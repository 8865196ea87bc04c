//! The ids that several modules use.
//!
//! Ids are plain 32-bit integers with a reserved value for "none". An `Option` would double the
//! size of every node and every edge: more cache lines per decision.

use policy::ids::id_types;

id_types! {
    /// An action that a rule names.
    pub(crate) struct ActionId;

    /// A row: the rules at the end of a pattern.
    pub(crate) struct RowId;

    /// A node of the trie, or for a leaf its row.
    pub(crate) struct NodeId;
}

impl ActionId {
    /// In a row entry: the rule applies to every action.
    pub(crate) const ANY: Self = Self(u32::MAX);
    /// An action that no rule names. Only rules for every action match it.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX - 1);
}

impl RowId {
    /// No pattern ends here.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl NodeId {
    /// The target of an edge that does not exist.
    pub(crate) const NONE: Self = Self(u32::MAX);
}
