//! The routes of a node and their needs: the table in `routes.txt`, as a trie.
//!
//! A path is matched as in a node: the raw path is split at `/`, a literal segment wins over a
//! parameter, and parameters are decoded last. The table also has the routes that the published
//! specification lacks. Without one, its path would be read as that of another route.

use std::collections::BTreeMap;
use std::str::Split;
use std::sync::LazyLock;

use crate::action::Action;
use crate::expression::Options;

/// The routes, built at the first use.
pub(crate) static ROUTES: LazyLock<Routes> =
    LazyLock::new(|| Routes::parse(include_str!("routes.txt")));

/// The routes of a node.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    nodes: Vec<Node>,
    routes: Vec<Route>,
    groups: Vec<Group>,
}

/// A method and path of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    group: usize,
    /// The specification lacks it.
    #[cfg(test)]
    is_extra: bool,
}

/// An operation: routes that need the same.
#[derive(Debug)]
pub(crate) struct Group {
    /// The name of the specification, such as `indices.create`.
    pub(crate) name: &'static str,
    /// Why it is always denied.
    pub(crate) denied: Option<&'static str>,
    pub(crate) needs: Vec<Pattern>,
    pub(crate) body: Body,
    /// The default expansion of patterns.
    pub(crate) options: Options,
    /// Whether names may replace the patterns in `index`, and `ignore_unavailable` is known.
    pub(crate) takes_names: bool,
    /// Whether a node takes `-name` in the list for a name.
    pub(crate) takes_nothing_out: bool,
    /// Whether a node does not split the list.
    pub(crate) takes_one_name: bool,
}

/// A need of an operation, before its target is read from a request.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) place: Place,
    pub(crate) actions: Vec<Action>,
}

/// Where a request names the target of a need. A parameter is in the path, or else in the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Cluster,
    /// The cluster, if the request may be about all points in time. Their indices are not known.
    ClusterIfAll,
    /// All indices, whatever the request says.
    All,
    /// All indices, if the request names all points in time, in its path or its body.
    AllIfAll,
    /// The indices of an open scroll: all indices, unless the cluster checks whose scroll it is.
    OpenScroll,
    /// A parameter with names and patterns; all indices without it.
    List(&'static str),
    /// The same; nothing is needed without it.
    OptionalList(&'static str),
    /// A parameter with exactly one name; nothing is needed without it.
    Name(&'static str),
    /// A parameter with the name of an index that the request creates if nothing has it.
    Missing(&'static str),
    /// The same, only with the parameter `version_type`: then a deletion creates the index.
    MissingIfVersioned(&'static str),
    /// A parameter with a name for an alias.
    NewAlias(&'static str),
    /// A parameter with names and patterns of aliases.
    Aliases(&'static str),
    /// The same. With `*` or `_all`, as without the parameter, nothing is needed.
    AliasesUnlessAll(&'static str),
    /// A parameter with the name of a further index that is created, unknown without it.
    Creates(&'static str),
}

/// The body of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    /// No privilege depends on it, so it is not read.
    Ignored,
    /// Aliases of an index to be made, whose filters are queries.
    AliasFilters,
    Aliases,
    Bulk,
    CreateIndex,
    /// That of a search. The deleted documents may be refreshed.
    DeleteByQuery,
    MultiGet,
    MultiSearch,
    MultiSearchTemplate,
    MultiTermVectors,
    /// Points in time, which [`Place::AllIfAll`] and [`Place::ClusterIfAll`] are about.
    PointsInTime,
    PutAlias,
    Reindex,
    Restore,
    /// A query, which may look documents up in other indices.
    Search,
    /// A query that is made from a template.
    Template,
    TermVectors,
    Update,
    UpdateByQuery,
}

/// The methods that routes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Delete,
    Get,
    Head,
    Patch,
    Post,
    Put,
}

/// The route of a request.
#[derive(Debug)]
pub(crate) struct Match<'a> {
    pub(crate) route: &'static Route,
    pub(crate) group: &'static Group,
    /// The raw path.
    path: &'a str,
}

#[derive(Debug, Default)]
struct Node {
    literals: BTreeMap<&'static str, usize>,
    parameter: Option<usize>,
    routes: Vec<usize>,
}

/// The parameters that a walk may take. A node tries all modes until a route has the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    LiteralsOnly,
    ParameterFirst,
    ParameterLast,
    AnyParameter,
}

impl Method {
    /// The method with this name, in capitals.
    pub(crate) fn named(name: &str) -> Option<Method> {
        Some(match name {
            "DELETE" => Method::Delete,
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PATCH" => Method::Patch,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            _ => return None,
        })
    }
}

impl<'a> Match<'a> {
    /// The raw segment of the path at the parameter with this name.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.path.split('/').nth(self.position(name)?)
    }

    /// The number of that segment. The one before the first slash is empty, and has the number 0.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.route.path.split('/').position(|part| parameter_name(part) == Some(name))
    }
}

impl Routes {
    /// The route of a request with this raw path. Empty segments at its end do not count.
    pub(crate) fn find<'a>(&'static self, method: Method, path: &'a str) -> Option<Match<'a>> {
        let trimmed = path.trim_end_matches('/');
        let mut segments = trimmed.split('/');
        if !path.starts_with('/') || segments.next() != Some("") {
            return None;
        }
        let modes =
            [Mode::LiteralsOnly, Mode::ParameterFirst, Mode::ParameterLast, Mode::AnyParameter];
        let route = modes.into_iter().find_map(|mode| {
            let node = self.nodes.get(self.walk(0, segments.clone(), true, mode)?)?;
            let mut routes = node.routes.iter().filter_map(|route| self.routes.get(*route));
            routes.find(|route| route.method == method)
        })?;
        Some(Match { route, group: self.groups.get(route.group)?, path })
    }

    /// All routes with their operations, in the order of the table.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Route, &Group)> {
        self.routes.iter().filter_map(|route| Some((route, self.groups.get(route.group)?)))
    }

    /// The node at the end of a path below `from`, if it has routes.
    fn walk(
        &self,
        from: usize,
        path: Split<'_, char>,
        is_first: bool,
        mode: Mode,
    ) -> Option<usize> {
        let node = self.nodes.get(from)?;
        let mut rest = path;
        let Some(segment) = rest.next() else {
            return (!node.routes.is_empty()).then_some(from);
        };
        let is_last = rest.clone().next().is_none();
        // In a node, `*` is the key of the parameter: a segment `*` finds it like a literal.
        let literal =
            node.literals.get(segment).copied().or(node.parameter.filter(|_| segment == "*"));
        let (next, is_parameter) = match literal {
            None => {
                let may = match mode {
                    Mode::LiteralsOnly => false,
                    Mode::ParameterFirst => is_first,
                    Mode::ParameterLast => is_last,
                    Mode::AnyParameter => true,
                };
                (node.parameter.filter(|_| may)?, true)
            }
            Some(next) => {
                let is_empty = self.nodes.get(next)?.routes.is_empty();
                let skips = match mode {
                    Mode::LiteralsOnly => false,
                    Mode::ParameterFirst => is_first,
                    Mode::ParameterLast | Mode::AnyParameter => is_last,
                };
                match node.parameter {
                    Some(parameter) if is_empty && skips => (parameter, true),
                    _ => (next, segment == "*"),
                }
            }
        };
        let found = self.walk(next, rest.clone(), false, mode);
        if found.is_some() || is_last || is_parameter || mode == Mode::LiteralsOnly {
            return found;
        }
        self.walk(node.parameter?, rest, false, mode)
    }

    /// The routes of a table. Lines with errors are left out: a test holds that there are none.
    fn parse(table: &'static str) -> Routes {
        let mut routes = Routes { nodes: vec![Node::default()], ..Routes::default() };
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            match line.strip_prefix("  ") {
                None => routes.groups.extend(Group::parse(line)),
                Some(line) => routes.add(line),
            }
        }
        routes
    }

    /// Adds the routes of a line: methods and a path, after a `+` if the specification lacks them.
    fn add(&mut self, line: &'static str) {
        #[cfg(test)]
        let is_extra = line.starts_with('+');
        let line = line.strip_prefix('+').unwrap_or(line);
        let path = line.split_whitespace().last().unwrap_or_default();
        let mut at = 0;
        for segment in path.split('/').skip(1).filter(|segment| !segment.is_empty()) {
            at = self.child(at, segment);
        }
        for method in line.split_whitespace().filter_map(Method::named) {
            let route = Route {
                method,
                path,
                group: self.groups.len() - 1,
                #[cfg(test)]
                is_extra,
            };
            let number = self.routes.len();
            self.routes.push(route);
            self.nodes.get_mut(at).into_iter().for_each(|node| node.routes.push(number));
        }
    }

    fn child(&mut self, parent: usize, segment: &'static str) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(parent) else { return 0 };
        let child = match parameter_name(segment) {
            Some(_) => *node.parameter.get_or_insert(next),
            None => *node.literals.entry(segment).or_insert(next),
        };
        if child == next {
            self.nodes.push(Node::default());
        }
        child
    }
}

impl Group {
    /// The operation of a line: its name, places with their actions, and settings.
    fn parse(line: &'static str) -> Option<Group> {
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        let mut group = Group {
            name,
            denied: None,
            needs: Vec::new(),
            body: Body::Ignored,
            options: Options::OPEN,
            takes_names: false,
            takes_nothing_out: false,
            takes_one_name: false,
        };
        if let Some(why) = words.strip_prefix("denied: ") {
            group.denied = Some(why);
            return Some(group);
        }
        for word in words.split_whitespace() {
            if let Some(action) = Action::named(word) {
                group.needs.last_mut()?.actions.push(action);
            } else if let Some(body) = word.strip_prefix("body=") {
                group.body = Body::named(body)?;
            } else if let Some(states) = word.strip_prefix("expand=") {
                group.options = group.options.expanding(states).ok()?;
            } else if word == "takes-nothing-out" {
                group.takes_nothing_out = true;
            } else if word == "takes-one-name" {
                group.takes_one_name = true;
            } else if word == "takes-names" {
                group.takes_names = true;
            } else {
                group.needs.push(Pattern { place: Place::named(word)?, actions: Vec::new() });
            }
        }
        Some(group)
    }
}

impl Place {
    fn named(word: &'static str) -> Option<Place> {
        Some(match word.split_once('=') {
            None if word == "cluster" => Place::Cluster,
            None if word == "cluster-if-all" => Place::ClusterIfAll,
            None if word == "all" => Place::All,
            None if word == "all-if-all" => Place::AllIfAll,
            None if word == "open-scroll" => Place::OpenScroll,
            Some(("list", parameter)) => Place::List(parameter),
            Some(("optional", parameter)) => Place::OptionalList(parameter),
            Some(("name", parameter)) => Place::Name(parameter),
            Some(("missing", parameter)) => Place::Missing(parameter),
            Some(("missing-if-versioned", parameter)) => Place::MissingIfVersioned(parameter),
            Some(("new-alias", parameter)) => Place::NewAlias(parameter),
            Some(("aliases", parameter)) => Place::Aliases(parameter),
            Some(("aliases-unless-all", parameter)) => Place::AliasesUnlessAll(parameter),
            Some(("creates", parameter)) => Place::Creates(parameter),
            _ => return None,
        })
    }
}

impl Body {
    fn named(word: &str) -> Option<Body> {
        Some(match word {
            "aliases" => Body::Aliases,
            "bulk" => Body::Bulk,
            "delete-by-query" => Body::DeleteByQuery,
            "alias-filters" => Body::AliasFilters,
            "create" => Body::CreateIndex,
            "restore" => Body::Restore,
            "mget" => Body::MultiGet,
            "msearch" => Body::MultiSearch,
            "msearch-template" => Body::MultiSearchTemplate,
            "mtermvectors" => Body::MultiTermVectors,
            "points-in-time" => Body::PointsInTime,
            "alias" => Body::PutAlias,
            "reindex" => Body::Reindex,
            "search" => Body::Search,
            "template" => Body::Template,
            "termvectors" => Body::TermVectors,
            "update" => Body::Update,
            "update-by-query" => Body::UpdateByQuery,
            _ => return None,
        })
    }
}

/// The name of a parameter in the path of a route.
fn parameter_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests;
