//! The ids that several parts of the index share. Parts with ids of their own define them.
//!
//! Ids are plain 32-bit integers. Where there may be none, one value is reserved instead of an
//! `Option`, which would double the size of every node and every edge: fewer cache lines per
//! decision.

use policy::ids::id_types;

id_types! {
    /// An action that a rule names.
    pub(crate) struct ActionId;

    /// A row: the rules at one place.
    pub(crate) struct RowId;

    /// A node of the trie, or for a leaf its row.
    pub(crate) struct NodeId;
}

impl ActionId {
    /// In a row: the rule applies to every action.
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
