//! Reads a request into its needs.

use std::borrow::Cow;
use std::cell::Cell;

use crate::action::Action;
use crate::body;
use crate::expression::Expression;
use crate::lookups;
use crate::need::{Need, Target};
use crate::parameters::Query;
use crate::problem::Problem;
use crate::reading::{
    LATER_DATE_MATH, Reading, Request, RequestBody, SEVERAL_NAMES, UNBUFFERED_DATE_MATH,
};
use crate::routes::{Body, Place, ROUTES, RouteMatch, RouteNeed};

/// The names that a rollover may create if it names none: they end with `-` and a number. Their
/// start is unknown, because the last index may have been created with date math.
const ROLLED_OVER: &str = "*-*";

/// Reads a request into `needs`. Returns the name of its operation, such as `indices.create`.
///
/// # Errors
///
/// If rolegate cannot tell all needs. `needs` is then incomplete, and the request is denied.
pub fn read<'a>(request: &Request<'a>, needs: &mut Vec<Need<'a>>) -> Result<&'static str, Problem> {
    let mut reading = start_reading(request, needs)?;
    let operation = reading.operation;
    if request.body == RequestBody::Pending && operation.body != Body::Ignored {
        return Err(Problem::BodyNeeded);
    }
    read_places(&mut reading, |_, _| {})?;
    let needs_of_path = reading.needs.len();
    // An ingest pipeline that the request names may move documents to any index.
    if reading.query.names_pipeline("pipeline")? {
        body::need_ingest_pipeline(&mut reading)?;
    }
    let has_search_pipeline = reading.query.names_pipeline("search_pipeline")?;
    if has_search_pipeline {
        // The pipeline may ask for a `profile`, which shows hidden terms (see `lookups`), in the
        // searches of the path and of the body.
        reading.mark_hidden_terms(0..reading.needs.len());
        // It may also filter with a query that rolegate does not see. The needs of its look-ups are
        // not marked: a look-up has no `profile`.
        lookups::need_any_lookup(&mut reading)?;
    }
    let before_body = reading.needs.len();
    body::read(&mut reading)?;
    if has_search_pipeline {
        reading.mark_hidden_terms(before_body..reading.needs.len());
    }
    // Any need of a pipeline or of the body may be a look-up. A node resolves date math after the
    // look-ups of a request, when the date math may stand for another name.
    if reading.has_date_math.get() && reading.needs.len() > needs_of_path {
        return Err(LATER_DATE_MATH);
    }
    Ok(operation.name)
}

/// Adds the needs of the path and the query. Calls `visit_list` for each list of indices, with the
/// position of its need and the name of its parameter.
pub(crate) fn read_places(
    reading: &mut Reading<'_, '_>,
    mut visit_list: impl FnMut(usize, &'static str),
) -> Result<(), Problem> {
    for RouteNeed { place, parameter, actions } in &reading.operation.needs {
        match place {
            Place::Cluster => reading.need(actions, Target::Cluster)?,
            Place::ClusterIfAllPits if may_name_all_pits(reading) => {
                reading.need(actions, Target::Cluster)?
            }
            Place::AllIfAllPits if may_name_all_pits(reading) => reading.need_all(actions)?,
            Place::ClusterIfAllPits | Place::AllIfAllPits => {}
            Place::All => reading.need_all(actions)?,
            Place::OpenScroll if reading.request.scrolls_are_checked => {}
            Place::OpenScroll => reading.need_all(actions)?,
            Place::Optional if reading.parameter(parameter)?.is_none() => {}
            Place::List | Place::Optional => {
                let indices = read_list(reading, parameter)?;
                visit_list(reading.needs.len(), parameter);
                reading.need(actions, Target::Indices(indices))?;
            }
            Place::Name => read_name(reading, actions, parameter, Target::Name)?,
            Place::NewAlias => read_name(reading, actions, parameter, Target::AliasOrNewIndex)?,
            Place::CreatedIfVersionType if reading.query.get("version_type")?.is_none() => {}
            Place::CreatedIfMissing | Place::CreatedIfVersionType => {
                read_name(reading, actions, parameter, Target::CreatedIfMissing)?;
            }
            Place::SecondIndex => match reading.index_name(parameter)? {
                Some(name) => reading.need(actions, Target::AliasOrNewIndex(name))?,
                None => {
                    reading.need(actions, Target::AliasOrNewIndex(Cow::Borrowed(ROLLED_OVER)))?;
                    // A role may hide a part of the new index. Without the name of the index, this
                    // cannot be checked. So the first need is marked: the need on the alias that is
                    // rolled over.
                    reading.mark_first_need_as_adding_names();
                }
            },
            Place::AliasesUnlessAll
                if matches!(reading.parameter(parameter)?.as_deref(), Some("*" | "_all")) => {}
            Place::Aliases | Place::AliasesUnlessAll => {
                let text = reading.parameter(parameter)?.unwrap_or_default();
                // A node leaves empty names out.
                for alias in text.split(',').filter(|alias| !alias.is_empty()) {
                    reading.need(actions, Target::AliasOrNewIndex(alias.to_owned().into()))?;
                }
            }
        }
    }
    Ok(())
}

/// The indices that a parameter lists, as a node reads the list for this operation.
fn read_list<'a>(reading: &Reading<'_, 'a>, parameter: &str) -> Result<Expression<'a>, Problem> {
    let operation = reading.operation;
    if operation.list_is_unsplit
        && reading.parameter(parameter)?.is_some_and(|text| text.contains(','))
    {
        return Err(SEVERAL_NAMES);
    }
    let indices = reading.list(parameter)?;
    if operation.exclusions_are_names && indices.excludes() {
        return Err(Problem::Unsupported(
            "exclusions (`-name`) in this list, in which a node leaves nothing out",
        ));
    }
    Ok(indices)
}

/// Adds a need of the index that a parameter names, if any.
fn read_name<'a>(
    reading: &mut Reading<'_, 'a>,
    actions: &'static [Action],
    parameter: &str,
    target: fn(Cow<'a, str>) -> Target<'a>,
) -> Result<(), Problem> {
    match reading.index_name(parameter)? {
        Some(name) => reading.need(actions, target(name)),
        None => Ok(()),
    }
}

/// Whether the needs of a request may depend on its body. They do not if its path or query alone is
/// denied.
#[must_use]
pub fn depends_on_body(request: &Request<'_>) -> bool {
    let (mut needs, bodiless) =
        (Vec::new(), Request { body: RequestBody::Unavailable, ..*request });
    start_reading(&bodiless, &mut needs).is_ok_and(|reading| reading.operation.body != Body::Ignored)
        // Some requests can be read without the body (`Ok`), but the body may add needs. Others
        // can be read only with the body (these `Err`s).
        && matches!(
            read(&bodiless, &mut needs),
            Ok(_) | Err(Problem::BodyNeeded | UNBUFFERED_DATE_MATH)
        )
}

/// The route of a request, by its method and path.
pub(crate) fn find_route<'a>(request: &Request<'a>) -> Option<RouteMatch<'a>> {
    ROUTES.find(request.method, request.target.split('?').next()?)
}

/// Begins to read a request: finds its route, and the options in its query.
pub(crate) fn start_reading<'r, 'a>(
    request: &'r Request<'a>,
    needs: &'r mut Vec<Need<'a>>,
) -> Result<Reading<'r, 'a>, Problem> {
    let path = request.target.split('?').next().unwrap_or_default();
    if request.target.contains('#') || path.split('/').any(|segment| matches!(segment, "." | ".."))
    {
        return Err(Problem::Invalid("its path has a fragment or dot segments"));
    }
    // A node reads a byte outside of ASCII as Latin-1 or UTF-8, depending on the bytes around it.
    if !request.target.is_ascii() {
        return Err(Problem::Invalid(
            "its path or query has bytes outside of ASCII that are not percent-encoded",
        ));
    }
    let route = find_route(request).ok_or(Problem::UnknownRoute)?;
    let operation = route.route.operation;
    if let Some(why) = operation.denied {
        return Err(Problem::Unsupported(why));
    }
    let query = Query::from_target(request.target);
    if query.has_nameless_pair() {
        return Err(Problem::Invalid("a parameter of its query begins with `=`"));
    }
    let mut options = operation.options;
    if let Some(states) = query.get("expand_wildcards")? {
        options = options.expanding(&states)?;
    }
    if let Some(ignore_unavailable) = query.flag("ignore_unavailable")? {
        options.ignore_unavailable = ignore_unavailable;
    }
    if let Some(allow_no_indices) = query.flag("allow_no_indices")? {
        options.allow_no_indices = allow_no_indices;
    }
    let has_date_math = Cell::new(false);
    Ok(Reading { request, query, route, operation, options, needs, name_count: 0, has_date_math })
}

/// Whether a request may name all points in time, as `_all`, possibly percent-encoded or escaped.
fn may_name_all_pits(reading: &Reading<'_, '_>) -> bool {
    reading.request.target.contains("_all")
        || reading.request.target.contains('%')
        || reading.body().map_or(true, |body| {
            memchr::memmem::find(body, b"_all").is_some() || memchr::memchr(b'\\', body).is_some()
        })
}
