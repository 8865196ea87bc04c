//! Names that a body repeats.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// Names without repetition, each with what is done to it.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub(super) list: Vec<(Cow<'a, str>, u8)>,
    places: HashTable<usize>,
    hasher: RandomState,
    /// The place of the name that was added last: most bodies name few indices.
    last: usize,
}

impl<'a> Names<'a> {
    /// Adds a name, or work to one that is there.
    pub(super) fn add(&mut self, name: Cow<'a, str>, work: u8) {
        if self.list.get(self.last).is_none_or(|(last, _)| *last != name) {
            let is_it = |place: &usize| self.list.get(*place).is_some_and(|(known, _)| *known == name);
            self.last = match self.places.find(self.hasher.hash_one(&*name), is_it) {
                Some(place) => *place,
                None => {
                    let place = self.list.len();
                    let hash = |place: &usize| {
                        self.hasher.hash_one(self.list.get(*place).map_or("", |(name, _)| name))
                    };
                    self.places.insert_unique(self.hasher.hash_one(&*name), place, hash);
                    self.list.push((name, 0));
                    place
                }
            };
        }
        self.list.get_mut(self.last).into_iter().for_each(|(_, known)| *known |= work);
    }
}
