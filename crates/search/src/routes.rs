//! The routes of an OpenSearch node and their needs: the table in `routes.txt`, as a trie.
//!
//! A path is matched as in OpenSearch: the raw path is split at `/`, a literal segment wins over a
//! parameter, and parameters are decoded last. The table also has the routes that the published
//! specification lacks. Otherwise the path of such a route would be read as that of another route.

use std::collections::BTreeMap;
use std::str::Split;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error};

use crate::action::Action;
use crate::expression::Options;

/// The routes, parsed at the first use.
pub(crate) static ROUTES: LazyLock<TrieNode> =
    LazyLock::new(|| TrieNode::parse(include_str!("routes.txt")));

/// A node of the trie, with the routes whose paths end there.
#[derive(Debug, Default)]
pub(crate) struct TrieNode {
    literals: BTreeMap<&'static str, TrieNode>,
    parameter: Option<Box<TrieNode>>,
    routes: Vec<Route>,
}

/// A method and path of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) operation: &'static Operation,
    /// The specification lacks it.
    #[cfg(test)]
    is_extra: bool,
}

/// An operation: routes with the same needs.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The name in the specification, such as `indices.create`.
    pub(crate) name: &'static str,
    /// Why it is always denied.
    pub(crate) denied: Option<&'static str>,
    pub(crate) needs: Vec<RouteNeed>,
    pub(crate) body: Body,
    /// The default expansion of patterns.
    pub(crate) options: Options,
    /// Whether the parameter `index` may be forwarded with names in place of its patterns. For the
    /// names, a node does the same as for the patterns, and it reads `ignore_unavailable`.
    pub(crate) patterns_are_replaceable: bool,
    /// Whether a node reads `-name` in the list ([`Place::List`]) as a name, and not as an
    /// exclusion.
    pub(crate) exclusions_are_names: bool,
    /// Whether a node does not split the list at commas, and reads it as a single name.
    pub(crate) list_is_unsplit: bool,
}

/// A need of an operation, before its target is read from a request.
#[derive(Debug)]
pub(crate) struct RouteNeed {
    pub(crate) place: Place,
    /// The parameter that names the target, in the path or else in the query. It is empty if the
    /// place has none.
    pub(crate) parameter: &'static str,
    pub(crate) actions: Vec<Action>,
}

/// Where a request names the target of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    Cluster,
    /// The cluster, if the request may name all points in time, by `_all` in its target or its
    /// body.
    ClusterIfAllPits,
    /// All indices, whatever the request says.
    All,
    /// All indices, if the request may name all points in time: their indices are unknown.
    AllIfAllPits,
    /// The indices of an open scroll: all indices, unless the cluster checks the owner of the
    /// scroll.
    OpenScroll,
    /// A parameter with names and patterns; all indices without it.
    List,
    /// A parameter with names and patterns; nothing is needed without it.
    Optional,
    /// A parameter with exactly one name; nothing is needed without it.
    Name,
    /// A parameter with the name of an index that the request creates if it is missing.
    CreatedIfMissing,
    /// Like [`Place::CreatedIfMissing`], if there is a `version_type`: then a deletion creates the
    /// index.
    CreatedIfVersionType,
    /// A parameter with a name for an alias.
    NewAlias,
    /// A parameter with names and patterns of aliases.
    Aliases,
    /// Like [`Place::Aliases`], to read aliases. `*`, `_all` and a missing parameter stand for all
    /// aliases of the listed indices, and nothing more is needed: the operation has another need,
    /// with [`Place::List`], for these indices.
    AliasesUnlessAll,
    /// A parameter with the name of the index that a rollover, clone, shrink or split makes.
    /// Without the parameter, the name is unknown.
    SecondIndex,
}

/// The body of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Body {
    /// No privilege depends on it, so it is not read.
    Ignored,
    /// An alias, and the indices that get it.
    Alias,
    /// The aliases that a template gives, or that the index of [`Place::SecondIndex`] gets. The
    /// needs depend on their filters, and on whether there are any aliases.
    AliasFilters,
    /// Additions and removals of aliases, and removals of indices.
    Aliases,
    Bulk,
    Create,
    /// The query of a search. The parameter `refresh` beside the body needs one more action.
    DeleteByQuery,
    Mget,
    Msearch,
    MsearchTemplate,
    Mtermvectors,
    /// Points in time: for [`Place::AllIfAllPits`] and [`Place::ClusterIfAllPits`].
    PointsInTime,
    Reindex,
    Restore,
    /// A query, which may look documents up in other indices.
    Search,
    /// A query that is made from a template.
    Template,
    Termvectors,
    Update,
    UpdateByQuery,
}

/// The methods that routes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Method {
    Delete,
    Get,
    Head,
    Patch,
    Post,
    Put,
}

/// The route of a request, with the request's raw path.
#[derive(Debug)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) route: &'static Route,
    path: &'a str,
}

/// The segments at which a walk may take a parameter (`TrieMatchingMode` in OpenSearch). OpenSearch
/// tries all modes in this order until a route has the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParameterPosition {
    None,
    First,
    Last,
    Any,
}

impl<'a> RouteMatch<'a> {
    /// The raw segment of the path at the parameter with this name.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.path.split('/').nth(self.position(name)?)
    }

    /// The index of that segment. Segment 0 is the empty text before the first slash.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.route.path.split('/').position(|segment| parameter_name(segment) == Some(name))
    }
}

impl TrieNode {
    /// The route of a method and a raw path. Empty segments at the end of the path are ignored.
    pub(crate) fn find<'a>(&'static self, method: &str, path: &'a str) -> Option<RouteMatch<'a>> {
        let method = parse_word(method)?;
        if !path.starts_with('/') {
            return None;
        }
        let mut segments = path.trim_end_matches('/').split('/');
        // The empty text before the first slash.
        segments.next();
        let modes = [
            ParameterPosition::None,
            ParameterPosition::First,
            ParameterPosition::Last,
            ParameterPosition::Any,
        ];
        let route = modes.into_iter().find_map(|mode| {
            let node = self.walk(segments.clone(), true, mode)?;
            node.routes.iter().find(|route| route.method == method)
        })?;
        Some(RouteMatch { route, path })
    }

    /// The node at the end of a path below this node, if it has routes. The order of attempts is
    /// that of `PathTrie.retrieve` in OpenSearch. `is_first`: the walk begins at the root.
    fn walk(
        &self,
        mut path: Split<'_, char>,
        is_first: bool,
        mode: ParameterPosition,
    ) -> Option<&TrieNode> {
        let Some(segment) = path.next() else {
            return (!self.routes.is_empty()).then_some(self);
        };
        let is_last = path.clone().next().is_none();
        let parameter = self.parameter.as_deref();
        // In OpenSearch's trie, `*` is the key of the parameter, so a segment `*` finds it like a
        // literal.
        let literal = self.literals.get(segment).or(parameter.filter(|_| segment == "*"));
        let may_be_parameter = match mode {
            ParameterPosition::None => false,
            ParameterPosition::First => is_first,
            ParameterPosition::Last => is_last,
            ParameterPosition::Any => true,
        };
        // A literal without routes gives way: `/_ingest` is a path of `/{index}`.
        let prefers_parameter = may_be_parameter && (is_last || mode == ParameterPosition::First);
        let (child, is_parameter) = match (literal, parameter) {
            (Some(literal), Some(parameter)) if prefers_parameter && literal.routes.is_empty() => {
                (parameter, true)
            }
            (Some(literal), _) => (literal, segment == "*"),
            (None, Some(parameter)) if may_be_parameter => (parameter, true),
            (None, _) => return None,
        };
        let end = child.walk(path.clone(), false, mode);
        if end.is_some() || is_last || is_parameter || mode == ParameterPosition::None {
            return end;
        }
        // As in OpenSearch, the second attempt takes the parameter even against `mode`.
        parameter?.walk(path, false, mode)
    }

    /// The routes of a table. Lines with errors are left out. A test checks that there are none.
    fn parse(table: &'static str) -> TrieNode {
        let mut root = TrieNode::default();
        let mut operation = None;
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            match (line.strip_prefix("  "), operation) {
                // The table is parsed once, and its operations are needed for ever.
                (None, _) => operation = Operation::parse(line).map(|new| &*Box::leak(new.into())),
                (Some(line), Some(operation)) => root.add(line, operation),
                (Some(_), None) => {}
            }
        }
        root
    }

    /// Adds the routes of a line: methods and a path, after a `+` if the specification lacks them.
    fn add(&mut self, line: &'static str, operation: &'static Operation) {
        let words = line.strip_prefix('+').unwrap_or(line).split_whitespace();
        let path = words.clone().last().unwrap_or_default();
        let mut node = self;
        for segment in path.split('/').skip(1).filter(|segment| !segment.is_empty()) {
            node = match parameter_name(segment) {
                Some(_) => node.parameter.get_or_insert_default(),
                None => node.literals.entry(segment).or_default(),
            };
        }
        node.routes.extend(words.filter_map(parse_word).map(|method| Route {
            method,
            path,
            operation,
            #[cfg(test)]
            is_extra: line.starts_with('+'),
        }));
    }

    /// All routes below this node.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<&Route> {
        let children = self.literals.values().chain(self.parameter.as_deref());
        self.routes.iter().chain(children.flat_map(TrieNode::all)).collect()
    }
}

impl Operation {
    /// The operation of a line: its name, places with their actions, and settings.
    fn parse(line: &'static str) -> Option<Operation> {
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        let denied = words.strip_prefix("denied: ");
        let mut operation = Operation {
            name,
            denied,
            needs: Vec::new(),
            body: Body::Ignored,
            options: Options::OPEN,
            patterns_are_replaceable: false,
            exclusions_are_names: false,
            list_is_unsplit: false,
        };
        for word in words.split_whitespace().filter(|_| denied.is_none()) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("body", body) => operation.body = parse_word(body)?,
                ("expand", states) => {
                    operation.options = operation.options.expanding(states).ok()?
                }
                ("replaceable-patterns", _) => operation.patterns_are_replaceable = true,
                ("exclusions-are-names", _) => operation.exclusions_are_names = true,
                ("unsplit", _) => operation.list_is_unsplit = true,
                (place, parameter) => match Action::named(word) {
                    Some(action) => operation.needs.last_mut()?.actions.push(action),
                    None => {
                        let place = parse_word(place)?;
                        operation.needs.push(RouteNeed { place, parameter, actions: Vec::new() });
                    }
                },
            }
        }
        Some(operation)
    }
}

/// The variant of an enum that a word names.
fn parse_word<'w, T: Deserialize<'w>>(word: &'w str) -> Option<T> {
    T::deserialize(BorrowedStrDeserializer::<Error>::new(word)).ok()
}

/// The name of a parameter in the path of a route.
fn parameter_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests;
