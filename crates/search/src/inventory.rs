//! The contents of a cluster: its indices, aliases and data streams.
//!
//! Names are sorted. The position of a name is its number, so those of a prefix are a range.

mod resolved;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use roaring::RoaringBitmap;

/// An index, alias or data stream of an [`InventoryBuilder`].
#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    is_hidden: bool,
    members: Vec<String>,
}

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An index that is open.
    OpenIndex,
    /// An index that is closed.
    ClosedIndex,
    /// An alias of indices.
    Alias,
    /// A data stream.
    DataStream,
}

/// Gathers the contents of a cluster.
#[derive(Clone, Debug, Default)]
pub struct InventoryBuilder {
    entries: BTreeMap<String, Entry>,
}

/// The contents of a cluster at some moment. It never changes.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    text: Box<str>,
    /// The end of each name in `text`.
    ends: Box<[u32]>,
    kinds: Box<[Kind]>,
    numbers: HashTable<u32>,
    /// For each name, the end of its list in `members`.
    member_ends: Box<[u32]>,
    /// The members of aliases, the backing indices of data streams, the groups of indices.
    members: Box<[u32]>,
    /// For each name, the number of members of the aliases and data streams up to it.
    group_members: Box<[u32]>,
    /// The most members of an alias or data stream.
    largest_group: u32,
    /// Open indices.
    pub(crate) open: RoaringBitmap,
    /// Closed indices.
    pub(crate) closed: RoaringBitmap,
    /// Names that are hidden, of any kind.
    pub(crate) hidden: RoaringBitmap,
    /// Indices of aliases and data streams that were not listed themselves. They count as open.
    /// Whether they are closed or hidden is not known.
    pub(crate) unlisted: RoaringBitmap,
    pub(crate) aliases: RoaringBitmap,
    pub(crate) data_streams: RoaringBitmap,
}

impl InventoryBuilder {
    /// Adds an index.
    pub fn index(&mut self, name: &str, is_open: bool, is_hidden: bool) -> &mut Self {
        let kind = if is_open { Kind::OpenIndex } else { Kind::ClosedIndex };
        self.entries.insert(name.to_owned(), Entry { kind, is_hidden, members: Vec::new() });
        self
    }

    /// Adds an alias of these indices, or further indices to it. A member that is an alias or a
    /// data stream is left out. A member that is not added itself becomes an
    /// [unlisted](Inventory::unlisted) index: otherwise the alias would stand for less than in the
    /// cluster.
    pub fn alias<'n>(
        &mut self,
        name: &str,
        members: impl IntoIterator<Item = &'n str>,
    ) -> &mut Self {
        self.group(name, Kind::Alias, members)
    }

    /// Adds a data stream with these backing indices.
    pub fn data_stream<'n>(
        &mut self,
        name: &str,
        backing: impl IntoIterator<Item = &'n str>,
    ) -> &mut Self {
        self.group(name, Kind::DataStream, backing)
    }

    /// Marks an alias or a data stream as hidden.
    pub fn hide(&mut self, name: &str) -> &mut Self {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_hidden = true;
        }
        self
    }

    fn group<'n>(
        &mut self,
        name: &str,
        kind: Kind,
        members: impl IntoIterator<Item = &'n str>,
    ) -> &mut Self {
        let new = Entry { kind, is_hidden: false, members: Vec::new() };
        let entry = self.entries.entry(name.to_owned()).or_insert(new);
        entry.members.extend(members.into_iter().map(ToOwned::to_owned));
        self
    }

    /// The name of a group that no cluster has: it is an index, too, or has a member that is none.
    fn contradiction(&self) -> Option<&str> {
        let is_group =
            |name: &String| self.entries.get(name).is_some_and(|entry| !entry.kind.is_index());
        let is_odd = |entry: &Entry| {
            (entry.kind.is_index() && !entry.members.is_empty())
                || entry.members.iter().any(is_group)
        };
        self.entries.iter().find(|(_, entry)| is_odd(entry)).map(|(name, _)| &**name)
    }

    /// Builds the inventory. Names beyond four billion, or four billion bytes, are left out: a name
    /// that an inventory lacks is granted by its text alone.
    #[must_use]
    pub fn build(&self) -> Inventory {
        let members = self.entries.values().flat_map(|entry| &entry.members);
        let unlisted: BTreeSet<&String> =
            members.filter(|member| !self.entries.contains_key(*member)).collect();
        if unlisted.is_empty() {
            return self.build_listed();
        }
        let mut all = self.clone();
        for name in &unlisted {
            // A pattern stands for more indices if they are open and not hidden.
            all.index(name, true, false);
        }
        let mut inventory = all.build_listed();
        inventory.unlisted =
            unlisted.into_iter().filter_map(|name| inventory.number(name)).collect();
        inventory
    }

    fn build_listed(&self) -> Inventory {
        let mut inventory = Inventory::default();
        let (mut text, mut ends, mut kinds) = (String::new(), Vec::new(), Vec::new());
        for (number, (name, entry)) in (0..u32::MAX).zip(&self.entries) {
            let Ok(end) = u32::try_from(text.len() + name.len()) else { break };
            text.push_str(name);
            ends.push(end);
            kinds.push(entry.kind);
            let of_kind = match entry.kind {
                Kind::OpenIndex => &mut inventory.open,
                Kind::ClosedIndex => &mut inventory.closed,
                Kind::Alias => &mut inventory.aliases,
                Kind::DataStream => &mut inventory.data_streams,
            };
            of_kind.insert(number);
            if entry.is_hidden {
                inventory.hidden.insert(number);
            }
        }
        inventory.text = text.into();
        inventory.ends = ends.into();
        inventory.kinds = kinds.into();
        let mut numbers = HashTable::with_capacity(inventory.len() as usize);
        for number in 0..inventory.len() {
            let hash = |number: &u32| hash(inventory.name(*number));
            numbers.insert_unique(hash(&number), number, hash);
        }
        inventory.numbers = numbers;
        self.link(&mut inventory);
        inventory
    }

    /// Links groups and their members, in both directions.
    fn link(&self, inventory: &mut Inventory) {
        let mut related: Vec<Vec<u32>> = vec![Vec::new(); inventory.len() as usize];
        for (group, entry) in (0..inventory.len()).zip(self.entries.values()) {
            for member in entry.members.iter().filter_map(|member| inventory.number(member)) {
                if inventory.is_index(member) {
                    related.get_mut(group as usize).into_iter().for_each(|list| list.push(member));
                    related.get_mut(member as usize).into_iter().for_each(|list| list.push(group));
                }
            }
        }
        let mut members = Vec::new();
        let mut ends = Vec::with_capacity(related.len());
        let (mut group_members, mut sum) = (Vec::with_capacity(related.len()), 0_u32);
        for (number, mut list) in (0..).zip(related) {
            list.sort_unstable();
            list.dedup();
            if !inventory.is_index(number) {
                let members = u32::try_from(list.len()).unwrap_or(u32::MAX);
                sum = sum.saturating_add(members);
                inventory.largest_group = inventory.largest_group.max(members);
            }
            group_members.push(sum);
            members.extend(list);
            ends.push(u32::try_from(members.len()).unwrap_or(u32::MAX));
        }
        inventory.members = members.into();
        inventory.group_members = group_members.into();
        inventory.member_ends = ends.into();
    }
}

impl Kind {
    /// Whether it is an index.
    #[must_use]
    pub const fn is_index(self) -> bool {
        matches!(self, Self::OpenIndex | Self::ClosedIndex)
    }
}

impl Inventory {
    /// How many names there are. They are numbered from 0.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    /// Whether it has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of a name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.find(hash(name), |number| self.name(*number) == name).copied()
    }

    /// The name with this number; empty if there is none.
    #[must_use]
    pub fn name(&self, number: u32) -> &str {
        self.text.get(range(&self.ends, number)).unwrap_or_default()
    }

    /// The kind of the name with this number.
    #[must_use]
    pub fn kind(&self, number: u32) -> Option<Kind> {
        self.kinds.get(number as usize).copied()
    }

    /// The indices of an alias or data stream, or the aliases and data streams of an index. Sorted.
    #[must_use]
    pub fn related(&self, number: u32) -> &[u32] {
        self.members.get(range(&self.member_ends, number)).unwrap_or_default()
    }

    /// Whether the name with this number is that of an index.
    #[must_use]
    pub fn is_index(&self, number: u32) -> bool {
        self.kind(number).is_some_and(Kind::is_index)
    }

    /// The indices of an alias or data stream. Sorted.
    pub(crate) fn members(&self, number: u32) -> &[u32] {
        if self.is_index(number) { &[] } else { self.related(number) }
    }

    /// The aliases and data streams of an index. Sorted.
    pub(crate) fn groups(&self, number: u32) -> &[u32] {
        if self.is_index(number) { self.related(number) } else { &[] }
    }

    /// The number of indices of all aliases and data streams.
    pub(crate) fn memberships(&self) -> usize {
        self.group_members.last().map_or(0, |members| *members as usize)
    }

    /// The most indices of an alias or data stream.
    pub(crate) const fn largest_group(&self) -> usize {
        self.largest_group as usize
    }

    /// The number of indices of the aliases and data streams in a range of names.
    pub(crate) fn members_in(&self, names: Range<u32>) -> usize {
        let before = |number: u32| {
            let last = number.checked_sub(1).and_then(|last| self.group_members.get(last as usize));
            last.copied().unwrap_or_default()
        };
        before(names.end).saturating_sub(before(names.start)) as usize
    }

    /// The bytes of a range of names.
    pub(crate) fn bytes_in(&self, names: Range<u32>) -> usize {
        let before = |number: u32| range(&self.ends, number).start;
        before(names.end).saturating_sub(before(names.start))
    }

    /// The numbers of the names that start with this text.
    #[must_use]
    pub fn with_prefix(&self, prefix: &str) -> Range<u32> {
        let start = self.partition(|name| name < prefix);
        let end = self.partition(|name| name < prefix || name.starts_with(prefix));
        start..end
    }

    /// The first number whose name does not satisfy a condition that only the first names do.
    fn partition(&self, condition: impl Fn(&str) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if condition(self.name(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn range(ends: &[u32], number: u32) -> Range<usize> {
    let number = number as usize;
    let start =
        number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    let end = ends.get(number).copied().unwrap_or_default();
    start as usize..end as usize
}

/// Names come from the cluster, so a fixed key is enough: a request only looks names up.
fn hash(name: &str) -> u64 {
    FixedState::with_seed(0).hash_one(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let mut builder = InventoryBuilder::default();
        builder
            .index("logs-1", true, false)
            .index("logs-2", false, false)
            .index(".hidden", true, true);
        builder
            .alias("all-logs", ["logs-1", "logs-2", "missing"])
            .data_stream("stream", [".hidden"]);
        builder.build()
    }

    #[test]
    fn a_name_is_found_with_what_it_stands_for() {
        let inventory = inventory();
        assert_eq!(inventory.len(), 6);
        assert_eq!(inventory.number("other"), None);
        let number = |name| inventory.number(name).unwrap();
        assert_eq!(inventory.name(number("logs-2")), "logs-2");
        assert_eq!(inventory.kind(number("logs-2")), Some(Kind::ClosedIndex));
        assert_eq!(inventory.kind(number("all-logs")), Some(Kind::Alias));
        assert_eq!(inventory.hidden.iter().collect::<Vec<_>>(), [number(".hidden")]);
    }

    #[test]
    fn membership_is_known_from_both_sides() {
        let inventory = inventory();
        let number = |name| inventory.number(name).unwrap();
        assert_eq!(
            inventory.related(number("all-logs")),
            ["logs-1", "logs-2", "missing"].map(number)
        );
        assert_eq!(inventory.related(number("logs-1")), [number("all-logs")]);
        assert_eq!(inventory.related(number(".hidden")), [number("stream")]);
    }

    #[test]
    fn a_member_that_was_not_added_is_known_by_its_name() {
        let inventory = inventory();
        let number = |name| inventory.number(name).unwrap();
        assert_eq!(inventory.unlisted.iter().collect::<Vec<_>>(), [number("missing")]);
        assert_eq!(inventory.related(number("missing")), [number("all-logs")]);
        assert!(inventory.open.contains(number("missing")));
        assert_eq!(inventory.largest_group(), 3);
    }

    #[test]
    fn names_with_a_prefix_are_a_range() {
        let inventory = inventory();
        let names = |prefix| {
            inventory.with_prefix(prefix).map(|number| inventory.name(number)).collect::<Vec<_>>()
        };
        assert_eq!(names("logs-"), ["logs-1", "logs-2"]);
        assert_eq!(names("logs-2"), ["logs-2"]);
        assert_eq!(names("zzz"), [""; 0]);
        assert_eq!(names("").len(), 6);
    }
}
