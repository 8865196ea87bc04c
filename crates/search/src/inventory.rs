//! The contents of a cluster: its indices, aliases and data streams.
//!
//! Names are sorted. The position of a name is its id, so the names with a prefix are a range.

mod resolved;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use roaring::RoaringBitmap;

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

impl Kind {
    /// Whether it is an index.
    #[must_use]
    pub const fn is_index(self) -> bool {
        matches!(self, Self::OpenIndex | Self::ClosedIndex)
    }
}

/// An index, alias or data stream of an [`InventoryBuilder`].
#[derive(Clone, Debug)]
struct AddedName {
    kind: Kind,
    is_hidden: bool,
    members: Vec<String>,
}

/// Gathers the contents of a cluster.
#[derive(Clone, Debug, Default)]
pub struct InventoryBuilder {
    names: BTreeMap<String, AddedName>,
}

/// The contents of a cluster at some moment. It never changes.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// All names, one after the other: a box for each would take as much memory again.
    text: Box<str>,
    /// For each name, its end in `text`.
    name_ends: Box<[u32]>,
    kinds: Box<[Kind]>,
    /// The ids, by the hashes of their names.
    ids: HashTable<u32>,
    /// For each name, the end of its list in `related`. The list starts where the list of the name
    /// before it ends.
    related_ends: Box<[u32]>,
    /// Indices of aliases, backing indices of data streams, and for each index its parents: aliases
    /// and data streams.
    related: Box<[u32]>,
    /// For each name, the number of members of all aliases and data streams up to and including it.
    member_sums: Box<[u32]>,
    pub(crate) open: RoaringBitmap,
    pub(crate) closed: RoaringBitmap,
    pub(crate) hidden: RoaringBitmap,
    /// Indices that are known only as members of an alias or data stream. They are also in `open`,
    /// although in the cluster they may be closed or hidden.
    pub(crate) unlisted: RoaringBitmap,
    pub(crate) aliases: RoaringBitmap,
    pub(crate) data_streams: RoaringBitmap,
}

impl InventoryBuilder {
    /// Adds an index.
    pub fn index(&mut self, name: &str, is_open: bool, is_hidden: bool) -> &mut Self {
        let kind = if is_open { Kind::OpenIndex } else { Kind::ClosedIndex };
        self.names.insert(name.to_owned(), AddedName { kind, is_hidden, members: Vec::new() });
        self
    }

    /// Adds an alias of these indices, or adds these indices to the alias. A member that is an
    /// alias or a data stream is left out. A member that is not added as an index becomes an
    /// [unlisted](Inventory::unlisted) index: otherwise the alias would stand for less than in the
    /// cluster.
    pub fn alias(&mut self, name: &str, members: impl IntoIterator<Item: AsRef<str>>) -> &mut Self {
        self.add_parent(name, Kind::Alias, members)
    }

    /// Adds a data stream with these backing indices.
    pub fn data_stream(
        &mut self,
        name: &str,
        backing: impl IntoIterator<Item: AsRef<str>>,
    ) -> &mut Self {
        self.add_parent(name, Kind::DataStream, backing)
    }

    /// Marks an alias or a data stream as hidden.
    pub fn hide(&mut self, name: &str) -> &mut Self {
        if let Some(added) = self.names.get_mut(name) {
            added.is_hidden = true;
        }
        self
    }

    fn add_parent(
        &mut self,
        name: &str,
        kind: Kind,
        members: impl IntoIterator<Item: AsRef<str>>,
    ) -> &mut Self {
        let added = AddedName { kind, is_hidden: false, members: Vec::new() };
        let parent = self.names.entry(name.to_owned()).or_insert(added);
        parent.members.extend(members.into_iter().map(|member| member.as_ref().to_owned()));
        self
    }

    /// The name of an alias or data stream that no supported cluster has: an index has the same
    /// name, or a member is an alias or data stream. [`Self::build`] leaves such a member out, and
    /// would overlook its indices.
    fn contradiction(&self) -> Option<&String> {
        let mut parents = self.names.iter().filter(|(_, added)| !added.members.is_empty());
        let (name, _) = parents.find(|(_, parent)| {
            let mut members = parent.members.iter().filter_map(|member| self.names.get(member));
            parent.kind.is_index() || members.any(|member| !member.kind.is_index())
        })?;
        Some(name)
    }

    /// Builds the inventory, with the unlisted indices. If all names together are longer than
    /// 4 GiB, the last ones are left out: for a name that the inventory lacks, the patterns of the
    /// roles decide.
    #[must_use]
    pub fn build(&self) -> Inventory {
        let members = self.names.values().flat_map(|added| &added.members);
        let unlisted: BTreeSet<&String> =
            members.filter(|member| !self.names.contains_key(*member)).collect();
        let mut builder = Cow::Borrowed(self);
        for name in &unlisted {
            // Open and not hidden, so patterns match it.
            builder.to_mut().index(name, true, false);
        }
        let mut inventory = builder.build_added();
        inventory.unlisted = unlisted.into_iter().filter_map(|name| inventory.id(name)).collect();
        inventory
    }

    /// Builds the inventory of the names that were added.
    fn build_added(&self) -> Inventory {
        let mut inventory = Inventory::default();
        let (mut text, mut name_ends, mut kinds) = (String::new(), Vec::new(), Vec::new());
        for (id, (name, added)) in (0..).zip(&self.names) {
            let Ok(end) = u32::try_from(text.len() + name.len()) else { break };
            text.push_str(name);
            name_ends.push(end);
            kinds.push(added.kind);
            let of_kind = match added.kind {
                Kind::OpenIndex => &mut inventory.open,
                Kind::ClosedIndex => &mut inventory.closed,
                Kind::Alias => &mut inventory.aliases,
                Kind::DataStream => &mut inventory.data_streams,
            };
            of_kind.insert(id);
            if added.is_hidden {
                inventory.hidden.insert(id);
            }
        }
        inventory.text = text.into();
        inventory.name_ends = name_ends.into();
        inventory.kinds = kinds.into();
        let mut ids = HashTable::with_capacity(self.names.len());
        for id in 0..inventory.len() {
            ids.insert_unique(hash(inventory.name(id)), id, |id| hash(inventory.name(*id)));
        }
        inventory.ids = ids;
        // Aliases and data streams with their members, in both directions.
        let mut links: Vec<(u32, u32)> = Vec::new();
        for (parent, added) in (0..inventory.len()).zip(self.names.values()) {
            let members = added.members.iter().filter_map(|member| inventory.id(member));
            for member in members.filter(|member| inventory.is_index(*member)) {
                links.extend([(parent, member), (member, parent)]);
            }
        }
        links.sort_unstable();
        links.dedup();
        let names = 0..inventory.len();
        let mut end = 0;
        let ends = names.clone().map(|id| {
            let links = links.get(end..).unwrap_or_default();
            end += links.iter().take_while(|(name, _)| *name == id).count();
            saturated(end)
        });
        inventory.related_ends = ends.collect();
        inventory.related = links.into_iter().map(|(_, related)| related).collect();
        inventory.member_sums = sums(names.map(|id| inventory.members(id).len()));
        inventory
    }
}

impl Inventory {
    /// How many names there are. Their ids count from 0.
    #[must_use]
    pub fn len(&self) -> u32 {
        saturated(self.kinds.len())
    }

    /// Whether it has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The id of a name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.find(hash(name), |id| self.name(*id) == name).copied()
    }

    /// The name with this id; empty if there is none.
    #[must_use]
    pub fn name(&self, id: u32) -> &str {
        self.text.get(range(&self.name_ends, id)).unwrap_or_default()
    }

    /// The kind of the name with this id.
    #[must_use]
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// The indices of an alias or data stream, or the aliases and data streams of an index. Sorted.
    #[must_use]
    pub fn related(&self, id: u32) -> &[u32] {
        self.related.get(range(&self.related_ends, id)).unwrap_or_default()
    }

    /// Whether the name with this id names an index.
    #[must_use]
    pub fn is_index(&self, id: u32) -> bool {
        self.kind(id).is_some_and(Kind::is_index)
    }

    /// The indices of an alias or data stream. Sorted.
    pub(crate) fn members(&self, id: u32) -> &[u32] {
        if self.is_index(id) { &[] } else { self.related(id) }
    }

    /// The aliases and data streams of an index. Sorted.
    pub(crate) fn parents(&self, id: u32) -> &[u32] {
        if self.is_index(id) { self.related(id) } else { &[] }
    }

    /// These names, with the indices of the aliases and data streams among them.
    pub(crate) fn with_members(&self, mut names: RoaringBitmap) -> RoaringBitmap {
        for parent in &names & (&self.aliases | &self.data_streams) {
            names.extend(self.related(parent));
        }
        names
    }

    /// These names, with the aliases and data streams of the indices among them.
    pub(crate) fn with_parents(&self, mut names: RoaringBitmap) -> RoaringBitmap {
        for index in &names & (&self.open | &self.closed) {
            names.extend(self.related(index));
        }
        names
    }

    /// The number of indices of the aliases and data streams in a range of names.
    pub(crate) fn members_in(&self, names: Range<u32>) -> usize {
        sum_in(&self.member_sums, names)
    }

    /// The number of bytes of the names in a range.
    pub(crate) fn bytes_in(&self, names: Range<u32>) -> usize {
        sum_in(&self.name_ends, names)
    }

    /// The ids of the names that start with this text.
    #[must_use]
    pub fn with_prefix(&self, prefix: impl AsRef<[u8]>) -> Range<u32> {
        let prefix = prefix.as_ref();
        self.partition_point(|name| name < prefix)
            ..self.partition_point(|name| name < prefix || name.starts_with(prefix))
    }

    /// The first id whose name does not satisfy `is_before`.
    fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match is_before(self.name(middle).as_bytes()) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The seed is fixed: the table stores only names of the cluster, and no texts of a request.
fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

/// The range of the part with this id. `ends` has the end of each part.
fn range(ends: &[u32], id: u32) -> Range<usize> {
    entry_before(ends, id)..entry_before(ends, id.saturating_add(1))
}

/// For each number, the sum up to and including it.
fn sums(numbers: impl Iterator<Item = usize>) -> Box<[u32]> {
    let mut sum = 0_u32;
    let sums = numbers.map(|number| {
        sum = sum.saturating_add(saturated(number));
        sum
    });
    sums.collect()
}

/// The entry before this id: in sums, the sum of all values before it.
fn entry_before(entries: &[u32], id: u32) -> usize {
    let entry = id.checked_sub(1).and_then(|before| entries.get(before as usize));
    entry.map_or(0, |entry| *entry as usize)
}

fn sum_in(sums: &[u32], range: Range<u32>) -> usize {
    entry_before(sums, range.end).saturating_sub(entry_before(sums, range.start))
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
        assert_eq!(inventory.id("other"), None);
        let id = |name| inventory.id(name).unwrap();
        assert_eq!(inventory.name(id("logs-2")), "logs-2");
        assert_eq!(inventory.kind(id("logs-2")), Some(Kind::ClosedIndex));
        assert_eq!(inventory.kind(id("all-logs")), Some(Kind::Alias));
        assert_eq!(inventory.hidden.iter().collect::<Vec<_>>(), [id(".hidden")]);
    }

    #[test]
    fn membership_is_known_from_both_sides() {
        let inventory = inventory();
        let id = |name| inventory.id(name).unwrap();
        assert_eq!(inventory.related(id("all-logs")), ["logs-1", "logs-2", "missing"].map(id));
        assert_eq!(inventory.related(id("logs-1")), [id("all-logs")]);
        assert_eq!(inventory.related(id(".hidden")), [id("stream")]);
    }

    #[test]
    fn a_member_that_was_not_added_is_known_by_its_name() {
        let inventory = inventory();
        let id = |name| inventory.id(name).unwrap();
        assert_eq!(inventory.unlisted.iter().collect::<Vec<_>>(), [id("missing")]);
        assert_eq!(inventory.related(id("missing")), [id("all-logs")]);
        assert!(inventory.open.contains(id("missing")));
        assert_eq!(inventory.members_in(0..inventory.len()), 4);
    }

    #[test]
    fn names_with_a_prefix_are_a_range() {
        let inventory = inventory();
        let names =
            |prefix| inventory.with_prefix(prefix).map(|id| inventory.name(id)).collect::<Vec<_>>();
        assert_eq!(names("logs-"), ["logs-1", "logs-2"]);
        assert_eq!(names("logs-2"), ["logs-2"]);
        assert_eq!(names("zzz"), [""; 0]);
        assert_eq!(names("").len(), 6);
    }
}
