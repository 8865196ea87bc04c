//! The names whose filters a request has already.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::filtering::Filtering;

/// Names whose filters a request has already. A client may name the same alias hundreds of times.
#[derive(Default)]
pub(super) struct Filtered {
    by_filtering: BTreeMap<Filtering, [RoaringBitmap; 2]>,
}

impl Filtered {
    /// Single names, and those of aliases and data streams with all of their indices.
    pub(super) fn of(&mut self, filtering: Filtering) -> &mut [RoaringBitmap; 2] {
        self.by_filtering.entry(filtering).or_default()
    }
}
