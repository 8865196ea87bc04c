//! A request as it arrives, and the reader of its needs.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;

use crate::action::Action;
use crate::date_math;
use crate::expression::{Expression, Options};
use crate::json::Json;
use crate::need::{Need, Target};
use crate::parameters::{Plus, Query, decode};
use crate::problem::Problem;
use crate::routes::{Operation, RouteMatch};

/// A request as it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// The path and the query, neither decoded nor changed.
    pub target: &'a str,
    /// The header `content-type`.
    pub content_type: Option<&'a str>,
    /// The header `content-encoding`.
    pub content_encoding: Option<&'a str>,
    /// Whether the cluster checks that a scroll belongs to the caller. Otherwise a request with a
    /// scroll needs all indices: the id of the scroll shows neither its owner nor its indices, and
    /// can be guessed from other ids.
    pub scrolls_are_checked: bool,
    /// The body.
    pub body: RequestBody<'a>,
    /// The time, for date math in the names of indices.
    pub now: Timestamp,
}

/// The body of a request, as far as it has arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestBody<'a> {
    /// The body never comes: Envoy does not send it along, or sent only a part of it.
    #[default]
    Unavailable,
    /// The body can be awaited: a request whose needs depend on it is read later.
    Pending,
    /// The whole body, which may be empty.
    Whole(&'a [u8]),
}

/// A request while its needs are read.
pub(crate) struct Reading<'r, 'a> {
    pub(crate) request: &'r Request<'a>,
    pub(crate) query: Query<'a>,
    pub(crate) route: RouteMatch<'a>,
    pub(crate) operation: &'static Operation,
    /// The expansion of patterns in the path and query.
    pub(crate) options: Options,
    pub(crate) needs: &'r mut Vec<Need<'a>>,
    /// How many names and patterns the needs have together.
    pub(crate) name_count: usize,
    pub(crate) has_date_math: Cell<bool>,
}

impl Request<'_> {
    /// The time for `now`, from the time since the Unix epoch.
    #[must_use]
    pub fn time(since_epoch: Duration) -> Timestamp {
        let milliseconds = i64::try_from(since_epoch.as_millis()).unwrap_or_default();
        Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl<'a> Reading<'_, 'a> {
    /// Adds a need.
    ///
    /// # Errors
    /// If the request names too many indices, or a name is too long.
    pub(crate) fn need(
        &mut self,
        actions: &'static [Action],
        target: Target<'a>,
    ) -> Result<(), Problem> {
        if target.is_too_long() {
            return Err(Problem::Invalid(
                "it names an index by more than 255 bytes, which no name has",
            ));
        }
        self.name_count = self.name_count.saturating_add(target.size());
        if self.name_count > MAX_NAMES {
            return Err(Problem::Unsupported(
                "more than 50,000 names of indices (25,000 in a bulk request)",
            ));
        }
        let need = Need {
            actions,
            target,
            is_copied: false,
            shows_hidden_terms: false,
            adds_names: false,
        };
        self.needs.push(need);
        Ok(())
    }

    /// Marks the searches among these needs as showing [hidden terms](crate::lookups).
    pub(crate) fn mark_hidden_terms(&mut self, needs: Range<usize>) {
        for need in self.needs.get_mut(needs).into_iter().flatten() {
            need.shows_hidden_terms |= need.actions.contains(&SEARCH);
        }
    }

    /// Marks the first need: the request gives names to indices that do not exist yet (see
    /// [`Need::adds_names`]).
    pub(crate) fn mark_first_need_as_adding_names(&mut self) {
        if let Some(need) = self.needs.first_mut() {
            need.adds_names = true;
        }
    }

    /// Adds a need for all indices, for a request that does not name the indices that it needs.
    pub(crate) fn need_all(&mut self, actions: &'static [Action]) -> Result<(), Problem> {
        self.need(actions, Target::Fixed(Expression::unseen()))?;
        // A new index may have any name, so a made-up name stands for it. Only a role for all
        // indices grants the made-up name.
        if actions.contains(&CREATE) {
            self.need(actions, Target::Fixed(Expression::new(NEW_INDEX, Options::OPEN)))?;
        }
        Ok(())
    }

    /// The name of an index, after a check.
    pub(crate) fn checked_name(&self, name: Cow<'a, str>) -> Result<Cow<'a, str>, Problem> {
        if name.is_empty() {
            return Err(Problem::Invalid("it names an index by an empty name"));
        }
        // No index has such a name. The plugin expands it, also to system indices.
        if name.contains('*') {
            return Err(NAME_IS_PATTERN);
        }
        check_name(&name)?;
        Ok(name)
    }

    /// A list of names and patterns, after a check of each.
    pub(crate) fn checked_expression(
        &self,
        text: Cow<'a, str>,
        options: Options,
    ) -> Result<Expression<'a>, Problem> {
        if text.trim_end_matches(',') != "_all" {
            text.split(',').try_for_each(check_name)?;
        }
        Ok(Expression::new(text, options))
    }

    /// A single name or pattern, after a check. For places where the cluster does not split a list
    /// at its commas.
    pub(crate) fn checked_pattern(
        &self,
        text: Cow<'a, str>,
        options: Options,
    ) -> Result<Expression<'a>, Problem> {
        if text.contains(',') { Err(SEVERAL_NAMES) } else { self.checked_expression(text, options) }
    }

    /// Resolves a name in the path or query, if it is date math.
    fn resolve_date_math<'n>(&self, name: &'n str) -> Result<Cow<'n, str>, Problem> {
        if !date_math::is_date_math(name) {
            return Ok(Cow::Borrowed(name));
        }
        if !RESOLVED_AT_ONCE.contains(&self.operation.name) {
            return Err(LATER_DATE_MATH);
        }
        // A node resolves the name later than rolegate, when the whole request has arrived there.
        // A client could delay that by sending the body slowly. So the body must be here already.
        // A small difference between the clocks does not matter: `resolve_around` allows for it.
        match self.request.body {
            RequestBody::Whole(_) => {}
            RequestBody::Pending => return Err(Problem::BodyNeeded),
            RequestBody::Unavailable => return Err(UNBUFFERED_DATE_MATH),
        }
        self.has_date_math.set(true);
        let name = date_math::resolve_around(name, self.request.now)?;
        if name.contains([',', '*', ':']) { Err(date_math::UNSUPPORTED) } else { Ok(name.into()) }
    }

    /// A parameter of the path, or else of the query, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<Cow<'a, str>>, Problem> {
        match self.route.parameter(name) {
            Some(segment) => decode(segment, Plus::IsPlus).map(Some),
            None => self.query.get(name),
        }
    }

    /// The indices of the path or the query; all indices if it names none.
    pub(crate) fn list(&self, parameter: &str) -> Result<Expression<'a>, Problem> {
        let text = self.parameter(parameter)?.unwrap_or(Cow::Borrowed(""));
        if !text.contains('<') {
            return self.checked_expression(text, self.options);
        }
        let names = text.split(',').map(|name| self.resolve_date_math(name));
        let names: Vec<_> = names.collect::<Result<_, _>>()?;
        self.checked_expression(names.join(",").into(), self.options)
    }

    /// The exact name of an index, in the path or the query.
    pub(crate) fn index_name(&self, parameter: &str) -> Result<Option<Cow<'a, str>>, Problem> {
        let Some(name) = self.parameter(parameter)? else { return Ok(None) };
        let name = match self.resolve_date_math(&name)? {
            Cow::Owned(name) => Cow::Owned(name),
            Cow::Borrowed(_) => name,
        };
        self.checked_name(name).map(Some)
    }

    /// The bytes of a JSON body, or none.
    pub(crate) fn body(&self) -> Result<&'a [u8], Problem> {
        let bytes = match self.request.body {
            RequestBody::Unavailable | RequestBody::Pending => return Err(Problem::BodyNeeded),
            RequestBody::Whole(bytes) => bytes,
        };
        // A node reads the parameter if there is no body, and otherwise refuses the request.
        if self.query.get("source")?.is_some() {
            return Err(Problem::Unsupported("a body in the parameter `source`"));
        }
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let encoding = self.request.content_encoding.unwrap_or("identity");
        if !encoding.trim().eq_ignore_ascii_case("identity") {
            return Err(Problem::Unsupported("a compressed body"));
        }
        // A node ignores parameters such as `charset`: the first bytes show the encoding.
        let content_type = self.request.content_type.unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if JSON_TYPES.iter().any(|json| json.eq_ignore_ascii_case(media_type)) {
            Ok(bytes)
        } else {
            Err(Problem::Unsupported("a body of another type than JSON"))
        }
    }

    /// Reads the members of the object that is the body; none if the body is empty.
    pub(crate) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &mut Json<'a>, Cow<'a, str>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        match self.body()? {
            [] => Ok(()),
            body => Json::whole(body, |json| json.object(|json, key| member(self, json, key))),
        }
    }
}

fn check_name(name: &str) -> Result<(), Problem> {
    if date_math::is_date_math(name) {
        Err(LATER_DATE_MATH)
    } else if name.starts_with("-<") {
        Err(date_math::UNSUPPORTED)
    } else if name.contains(':') {
        Err(Problem::Unsupported("indices of remote clusters"))
    } else if name.starts_with('_') {
        // No index has such a name. In a path, it may begin a route of a module instead, such as
        // `/_opensearch_dashboards/_search`. In a list, the plugin takes `_all` for all indices.
        Err(Problem::Invalid("it names an index by a name that begins with `_`"))
    } else {
        Ok(())
    }
}

/// The operations for which a node resolves date math once, when the whole request has arrived,
/// unless the request has look-ups. Other operations resolve it later, at a time that a client can
/// delay: `_msearch` for each search, `_reindex` for each batch, `_update` at each attempt,
/// `_explain` after its look-ups, `_update_by_query` and `_delete_by_query` when a search is
/// repeated, writes after the index is made.
const RESOLVED_AT_ONCE: [&str; 7] =
    ["search", "count", "field_caps", "get", "exists", "get_source", "exists_source"];

/// The most names and patterns of all needs of a request; a bulk request has two for each index.
/// The number is limited because a short body can name many indices: each search of an `_msearch`
/// may be as short as `{}`, and searches the list in the path again. Evaluating this many names
/// takes some 15 ms, in which the thread serves no other request.
pub(crate) const MAX_NAMES: usize = 50_000;
/// The media types of bodies that are read.
const JSON_TYPES: [&str; 3] =
    ["application/json", "application/x-ndjson", "application/vnd.opensearch+json"];
const SEARCH: Action = Action::new("indices:data/read/search");
const CREATE: Action = Action::new("indices:admin/create");
/// Stands for the name of any new index.
const NEW_INDEX: &str = "<???>";
pub(crate) const SEVERAL_NAMES: Problem =
    Problem::Invalid("it names several indices, where the cluster reads the list as a single name");
const NAME_IS_PATTERN: Problem =
    Problem::Invalid("it has a pattern with `*` where the cluster reads the name of an index");
pub(crate) const LATER_DATE_MATH: Problem = Problem::Unsupported(
    "date math in a body, or in an operation in which the cluster may resolve it later: \
     write the name that it stands for",
);
pub(crate) const UNBUFFERED_DATE_MATH: Problem = Problem::Unsupported(
    "date math in a request whose end Envoy does not wait for: set `with_request_body` in its \
     filter, and `context_extensions: { request_body: buffered }` for the route",
);
