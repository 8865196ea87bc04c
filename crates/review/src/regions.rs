//! Sets of requests in the words of a policy: methods, hosts, and path patterns with exceptions.
//!
//! A region starts from the patterns of a rule. If the answer changes for all requests that the
//! rule matches, these patterns are enough. Otherwise the region also has other patterns of the
//! policies, which leave the rest of the requests out: patterns that must not match, and, rarely,
//! patterns that must match too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use policy::pattern::{Pattern, Segment};
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::hosts::{HostRegion, Hosts, serialize_texts};

/// A set of methods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Methods {
    /// The methods of this list.
    Only(Vec<String>),
    /// Every method but the methods of this list.
    AllBut(Vec<String>),
}

/// A set of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Region {
    /// Their methods.
    pub methods: Methods,
    /// Their hosts.
    pub hosts: HostRegion,
    /// Patterns, at least one of which matches their paths.
    #[serde(serialize_with = "serialize_texts")]
    pub paths: Vec<Pattern>,
    /// Further patterns, all of which match their paths; usually there are none.
    #[serde(serialize_with = "serialize_texts")]
    pub also_matching: Vec<Pattern>,
    /// Patterns that do not match their paths.
    #[serde(serialize_with = "serialize_texts")]
    pub except_paths: Vec<Pattern>,
    /// Whether the answer to some of the requests is unchanged. They are in the set because it
    /// would take too many exceptions to leave them out.
    pub in_part: bool,
}

impl Methods {
    /// Whether the set has this method.
    #[must_use]
    pub fn include(&self, method: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|name| name == method),
            Self::AllBut(names) => names.iter().all(|name| name != method),
        }
    }
}

impl Region {
    /// Removes patterns that the narrowest pattern implies.
    fn narrowed(mut self) -> Self {
        while let [path] = self.paths.as_mut_slice()
            && let Some(index) =
                self.also_matching.iter().position(|pattern| is_within(pattern, path))
        {
            *path = self.also_matching.remove(index);
        }
        if let [path] = self.paths.as_slice() {
            self.also_matching.retain(|pattern| !is_within(path, pattern));
        }
        self
    }
}

/// Whether `outer` certainly matches every path that `inner` matches.
fn is_within(inner: &Pattern, outer: &Pattern) -> bool {
    let lengths_fit = if outer.open_ended {
        outer.segments.len() <= inner.segments.len()
    } else {
        outer.segments.len() == inner.segments.len() && !inner.open_ended
    };
    inner.absolute == outer.absolute
        && lengths_fit
        && inner.segments.iter().zip(&outer.segments).all(|segments| match segments {
            (Segment::Literal(literal), outer) => outer.matches(literal.as_bytes(), None),
            (_, Segment::Any(_)) => true,
            (inner, outer) => inner == outer,
        })
}

/// The properties that distinguish requests: method, host, and cell (a kind of paths: all paths
/// that the same patterns match).
pub(crate) struct Dimensions<'d> {
    /// The methods that the policies name. The number of a method is its index. All other methods
    /// share the number after the last index.
    pub(crate) methods: &'d [&'d str],
    pub(crate) hosts: &'d Hosts,
    /// The number of kinds of hosts.
    pub(crate) host_count: u32,
    /// The number of cells.
    pub(crate) cell_count: u32,
    pub(crate) patterns: &'d [&'d Pattern],
    /// For each pattern, the cells that it matches.
    pub(crate) cells_by_pattern: &'d [RoaringBitmap],
}

/// A kind of requests as a number: its method, its kind of hosts and its cell.
pub(crate) type Point = u32;

impl Dimensions<'_> {
    /// The point of a method, a kind of hosts and a cell.
    pub(crate) const fn point(&self, method: u32, host: u32, cell: u32) -> Point {
        (method * self.host_count + host) * self.cell_count + cell
    }

    /// Adds the requests of `more` that share method and host with a request of `points`.
    pub(crate) fn widen(&self, points: &RoaringBitmap, more: &RoaringBitmap) -> RoaringBitmap {
        let pairs: BTreeSet<u32> = points.iter().map(|point| point / self.cell_count).collect();
        let more = more.iter().filter(|point| pairs.contains(&(point / self.cell_count)));
        points | more.collect::<RoaringBitmap>()
    }

    /// Describes the requests of `points` that match any of these patterns.
    pub(crate) fn regions(&self, points: &RoaringBitmap, patterns: &[usize]) -> Vec<Region> {
        let mut cells_by_pair: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for point in points {
            let (pair, cell) = (point / self.cell_count, point % self.cell_count);
            let method_and_host = (pair / self.host_count, pair % self.host_count);
            cells_by_pair.entry(method_and_host).or_default().push(cell);
        }
        let mut pairs_by_cells: BTreeMap<Vec<u32>, BTreeMap<u32, BTreeSet<u32>>> = BTreeMap::new();
        for ((method, host), cells) in cells_by_pair {
            pairs_by_cells.entry(cells).or_default().entry(host).or_default().insert(method);
        }
        let mut regions = Vec::new();
        for (cells, methods_by_host) in pairs_by_cells {
            let mut hosts_by_methods: BTreeMap<BTreeSet<u32>, BTreeSet<usize>> = BTreeMap::new();
            for (host, methods) in methods_by_host {
                hosts_by_methods.entry(methods).or_default().insert(host as usize);
            }
            let path_regions = self.path_regions(&cells.into_iter().collect(), patterns);
            for (methods, hosts) in &hosts_by_methods {
                let methods = self.methods(methods);
                for hosts in self.hosts.regions(hosts) {
                    regions.extend(path_regions.iter().map(|region| Region {
                        methods: methods.clone(),
                        hosts: hosts.clone(),
                        ..region.clone()
                    }));
                }
            }
        }
        regions
    }

    fn methods(&self, set: &BTreeSet<u32>) -> Methods {
        let has_unnamed = set.last().is_some_and(|last| *last as usize == self.methods.len());
        let names = (0..)
            .zip(self.methods)
            .filter(|(number, _)| set.contains(number) != has_unnamed)
            .map(|(_, name)| (*name).to_owned())
            .collect();
        if has_unnamed { Methods::AllBut(names) } else { Methods::Only(names) }
    }

    /// Describes the cells of `wanted` that match any of these patterns, without methods and hosts.
    fn path_regions(&self, wanted: &RoaringBitmap, patterns: &[usize]) -> Vec<Region> {
        let mut remaining = wanted.clone();
        let mut whole_patterns = Vec::new();
        let mut regions = Vec::new();
        for pattern in patterns {
            let Some(matched) = self.cells_by_pattern.get(*pattern) else { continue };
            let unwanted = matched - wanted;
            if unwanted.is_empty() && !remaining.is_disjoint(matched) {
                whole_patterns.push(*pattern);
                remaining -= matched;
            }
            // The cell that the fewest patterns match comes first. Only a pattern that does not
            // match the cell can be an exception, so this cell leaves the most patterns to choose
            // from.
            while let Some(cell) = (&remaining & matched)
                .iter()
                .min_by_key(|cell| self.patterns_matching(*cell).count())
            {
                let (also, except) = self.separate(*pattern, cell, &unwanted, &(matched & wanted));
                let mut described = matched.clone();
                for cells in also.iter().filter_map(|also| self.cells_by_pattern.get(*also)) {
                    described &= cells;
                }
                for cells in except.iter().filter_map(|except| self.cells_by_pattern.get(*except)) {
                    described -= cells;
                }
                remaining -= described;
                // `described` has the cell: this only makes sure that the loop ends.
                remaining.remove(cell);
                regions.push(self.path_region(&[*pattern], &also, &except).narrowed());
            }
        }
        if !whole_patterns.is_empty() {
            regions.insert(0, self.path_region(&whole_patterns, &[], &[]));
        }
        regions
    }

    fn patterns_matching(&self, cell: u32) -> impl Iterator<Item = usize> {
        let patterns = self.cells_by_pattern.iter().enumerate();
        patterns.filter(move |(_, cells)| cells.contains(cell)).map(|(index, _)| index)
    }

    /// Separates a cell from the `unwanted` cells; `pattern` matches all of them. Returns patterns
    /// that must match, and patterns that must not. The latter are chosen so that they exclude few
    /// `wanted` cells.
    fn separate(
        &self,
        pattern: usize,
        cell: u32,
        unwanted: &RoaringBitmap,
        wanted: &RoaringBitmap,
    ) -> (Vec<usize>, Vec<usize>) {
        let (matching, not_matching): (Vec<_>, Vec<_>) = self
            .cells_by_pattern
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != pattern)
            .partition(|(_, cells)| cells.contains(cell));
        // Unwanted cells that no pattern of `not_matching` matches. Only a pattern that must match
        // excludes them.
        let mut unmatched = unwanted.clone();
        not_matching.iter().for_each(|(_, cells)| unmatched -= *cells);
        let mut unwanted = unwanted.clone();
        let mut also = Vec::new();
        while !unmatched.is_empty() {
            let best = matching.iter().min_by_key(|(_, cells)| unmatched.intersection_len(cells));
            let Some((index, cells)) = best.filter(|(_, cells)| !unmatched.is_subset(cells)) else {
                break;
            };
            also.push(*index);
            unmatched &= *cells;
            unwanted &= *cells;
        }
        let mut except = Vec::new();
        while !unwanted.is_empty() {
            let candidates = not_matching.iter().filter(|(_, cells)| !unwanted.is_disjoint(cells));
            let best = candidates.min_by_key(|(_, cells)| {
                (wanted.intersection_len(cells), Reverse(unwanted.intersection_len(cells)))
            });
            let Some((index, cells)) = best else { break };
            except.push(*index);
            unwanted -= *cells;
        }
        except.sort_unstable();
        (also, except)
    }

    /// A region without methods and hosts: the caller sets them.
    fn path_region(&self, paths: &[usize], also: &[usize], except: &[usize]) -> Region {
        let [paths, also_matching, except_paths] = [paths, also, except].map(|indices| {
            let patterns = indices.iter().filter_map(|index| self.patterns.get(*index));
            patterns.map(|pattern| (*pattern).clone()).collect()
        });
        Region {
            methods: Methods::Only(Vec::new()),
            hosts: HostRegion { hosts: Vec::new(), except: Vec::new(), hosts_matter: false },
            paths,
            also_matching,
            except_paths,
            in_part: false,
        }
    }
}
