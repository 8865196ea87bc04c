//! Sets of requests in the words of a policy: methods, hosts, and path patterns with exceptions.
//!
//! The answers of two policies differ for some of the requests that a rule matches. If for all, the
//! rule's own patterns say which. If not, other patterns of the policies tell the rest apart: those
//! that must not match, and, rarely, those that must match too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use policy::pattern::{Pattern, Segment};
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::hosts::{HostRegion, Hosts, texts};

/// Some methods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Methods {
    /// These.
    Only(Vec<String>),
    /// Every method but these.
    AllBut(Vec<String>),
}

/// Some requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Region {
    /// Their methods.
    pub methods: Methods,
    /// Their hosts.
    pub hosts: HostRegion,
    /// Their paths: at least one of these patterns matches.
    #[serde(serialize_with = "texts")]
    pub paths: Vec<Pattern>,
    /// All of these match too; usually there are none.
    #[serde(serialize_with = "texts")]
    pub also_matching: Vec<Pattern>,
    /// None of these matches.
    #[serde(serialize_with = "texts")]
    pub except_paths: Vec<Pattern>,
    /// Whether the answer was the same before for some of them: those would take many exceptions.
    pub in_part: bool,
}

impl Methods {
    /// Whether this method is one of them.
    #[must_use]
    pub fn include(&self, method: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|name| name == method),
            Self::AllBut(names) => names.iter().all(|name| name != method),
        }
    }
}

impl Region {
    /// The same region by the narrowest of the patterns that must match: whatever matches it
    /// matches those around it.
    fn narrowed(mut self) -> Self {
        while let [path] = self.paths.as_mut_slice()
            && let Some(place) = self.also_matching.iter().position(|also| is_within(also, path))
        {
            *path = self.also_matching.remove(place);
        }
        if let [path] = self.paths.as_slice() {
            self.also_matching.retain(|also| !is_within(path, also));
        }
        self
    }
}

/// Whether a pattern matches only what another one matches too. It may be so where this says that
/// it is not.
fn is_within(inner: &Pattern, outer: &Pattern) -> bool {
    let (fewest, least) = (inner.segments.len(), outer.segments.len());
    let segment = |(inner, outer): (&Segment, &Segment)| match (inner, outer) {
        (Segment::Literal(literal), outer) => outer.matches(literal.as_bytes(), None),
        (_, Segment::One(_)) => true,
        (inner, outer) => inner == outer,
    };
    inner.absolute == outer.absolute
        && (if outer.rest { least <= fewest } else { least == fewest && !inner.rest })
        && inner.segments.iter().zip(&outer.segments).all(segment)
}

/// What requests are told apart by.
pub(crate) struct Dimensions<'d> {
    /// The methods that the policies name; the method after the last one is any other.
    pub(crate) methods: &'d [&'d str],
    pub(crate) hosts: &'d Hosts,
    /// How many kinds of hosts and of paths there are.
    pub(crate) host_count: u32,
    pub(crate) cell_count: u32,
    pub(crate) patterns: &'d [&'d Pattern],
    /// The kinds of paths that each pattern matches.
    pub(crate) cells_of: &'d [RoaringBitmap],
}

/// A kind of requests, as one number: its method, its host and its kind of paths.
pub(crate) type Point = u32;

impl Dimensions<'_> {
    /// The number of a kind of requests.
    pub(crate) const fn point(&self, method: u32, host: u32, cell: u32) -> Point {
        (method * self.host_count + host) * self.cell_count + cell
    }

    /// These requests, and those of `more` that have the method and the host of one of them.
    pub(crate) fn widened(&self, all: &RoaringBitmap, more: &RoaringBitmap) -> RoaringBitmap {
        let pairs: BTreeSet<u32> = all.iter().map(|point| point / self.cell_count).collect();
        all | more
            .iter()
            .filter(|point| pairs.contains(&(point / self.cell_count)))
            .collect::<RoaringBitmap>()
    }

    /// The requests of `all` that match one of these patterns, described by these patterns.
    pub(crate) fn regions(&self, all: &RoaringBitmap, patterns: &[usize]) -> Vec<Region> {
        let mut paths: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for point in all {
            let (rest, cell) = (point / self.cell_count, point % self.cell_count);
            paths.entry((rest / self.host_count, rest % self.host_count)).or_default().push(cell);
        }
        let mut same: BTreeMap<Vec<u32>, BTreeMap<u32, BTreeSet<u32>>> = BTreeMap::new();
        for ((method, host), cells) in paths {
            same.entry(cells).or_default().entry(host).or_default().insert(method);
        }
        let mut regions = Vec::new();
        for (cells, methods_by_host) in same {
            let mut hosts_by_methods: BTreeMap<BTreeSet<u32>, BTreeSet<usize>> = BTreeMap::new();
            for (host, methods) in methods_by_host {
                hosts_by_methods.entry(methods).or_default().insert(host as usize);
            }
            let paths = self.paths(&cells.into_iter().collect(), patterns);
            for (methods, hosts) in &hosts_by_methods {
                let methods = self.methods(methods);
                for hosts in self.hosts.regions(hosts) {
                    regions.extend(paths.iter().map(|paths| Region {
                        methods: methods.clone(),
                        hosts: hosts.clone(),
                        ..paths.clone()
                    }));
                }
            }
        }
        regions
    }

    fn methods(&self, set: &BTreeSet<u32>) -> Methods {
        let others = u32::try_from(self.methods.len()).unwrap_or(u32::MAX);
        let has_others = set.contains(&others);
        let named =
            (0..others).zip(self.methods).filter(|(index, _)| set.contains(index) != has_others);
        let names = named.map(|(_, name)| (*name).to_owned()).collect();
        if has_others { Methods::AllBut(names) } else { Methods::Only(names) }
    }

    /// Those of `wanted` that match one of these patterns.
    fn paths(&self, wanted: &RoaringBitmap, patterns: &[usize]) -> Vec<Region> {
        let mut left = wanted.clone();
        let mut whole = Vec::new();
        let mut regions = Vec::new();
        for pattern in patterns {
            let Some(all) = self.cells_of.get(*pattern) else { continue };
            let others = all - wanted;
            if others.is_empty() && !left.is_disjoint(all) {
                whole.push(*pattern);
                left -= all;
            }
            // The path that the fewest patterns match first: the description of a rule's rest is
            // the shortest.
            while let Some(first) =
                (&left & all).iter().min_by_key(|cell| self.patterns_of(*cell).count())
            {
                let (also, except) = self.apart(*pattern, first, &others, &(all & wanted));
                let mut described = all.clone();
                also.iter()
                    .filter_map(|also| self.cells_of.get(*also))
                    .for_each(|also| described &= also);
                except
                    .iter()
                    .filter_map(|except| self.cells_of.get(*except))
                    .for_each(|except| described -= except);
                left -= described;
                left.remove(first);
                regions.push(self.region(&[*pattern], &also, &except).narrowed());
            }
        }
        if !whole.is_empty() {
            regions.insert(0, self.region(&whole, &[], &[]));
        }
        regions
    }

    /// The patterns that match a kind of paths.
    fn patterns_of(&self, cell: u32) -> impl Iterator<Item = usize> {
        self.cells_of
            .iter()
            .enumerate()
            .filter(move |(_, cells)| cells.contains(cell))
            .map(|(index, _)| index)
    }

    /// What tells a path that a pattern matches from all of `others`, which it matches too:
    /// patterns that must match, and patterns that must not. They leave as many as possible of
    /// `wanted`.
    fn apart(
        &self,
        pattern: usize,
        cell: u32,
        others: &RoaringBitmap,
        wanted: &RoaringBitmap,
    ) -> (Vec<usize>, Vec<usize>) {
        let matching: BTreeSet<usize> =
            self.patterns_of(cell).filter(|index| *index != pattern).collect();
        let not_matching = self.cells_of.iter().enumerate();
        let not_matching =
            not_matching.filter(|(index, _)| *index != pattern && !matching.contains(index));
        let not_matching: Vec<(usize, &RoaringBitmap)> = not_matching.collect();
        // Those that match no other pattern can be told apart only by one that they do not match.
        let mut alone = others.clone();
        not_matching.iter().for_each(|(_, cells)| alone -= *cells);
        let mut others = others.clone();
        let mut also: Vec<usize> = Vec::new();
        while !alone.is_empty() {
            let candidates =
                matching.iter().filter_map(|index| Some((*index, self.cells_of.get(*index)?)));
            let best = candidates.min_by_key(|(_, cells)| alone.intersection_len(cells));
            let Some((index, cells)) = best.filter(|(_, cells)| !alone.is_subset(cells)) else {
                break;
            };
            also.push(index);
            alone &= cells;
            others &= cells;
        }
        let mut except: Vec<usize> = Vec::new();
        while !others.is_empty() {
            let candidates = not_matching.iter().filter(|(_, cells)| !others.is_disjoint(cells));
            let best = candidates.min_by_key(|(_, cells)| {
                (wanted.intersection_len(cells), Reverse(others.intersection_len(cells)))
            });
            let Some((index, cells)) = best else { break };
            except.push(*index);
            others -= *cells;
        }
        except.sort_unstable();
        (also, except)
    }

    fn region(&self, paths: &[usize], also: &[usize], except: &[usize]) -> Region {
        let patterns = |all: &[usize]| {
            all.iter()
                .filter_map(|index| self.patterns.get(*index))
                .map(|pattern| (*pattern).clone())
                .collect()
        };
        Region {
            methods: Methods::Only(Vec::new()),
            hosts: HostRegion { hosts: Vec::new(), except: Vec::new() },
            paths: patterns(paths),
            also_matching: patterns(also),
            except_paths: patterns(except),
            in_part: false,
        }
    }
}
