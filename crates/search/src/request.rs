//! Reads a request into what it needs.

use std::borrow::Cow;
use std::cell::Cell;

use crate::action::Action;
use crate::body;
use crate::expression::{Expression, Options};
use crate::lookups;
use crate::need::{Need, Target};
use crate::parameters::Query;
use crate::problem::Problem;
use crate::reading::{LATER_DATE_MATH, Reading, Request, RequestBody, SEVERAL, UNENDED_DATE_MATH};
use crate::routes::{Body, Match, Method, Pattern, Place, ROUTES};

/// The names that a rollover may make where it names none: they end with `-` and a number. They
/// follow from the name by which the last index was created, which may have had date math.
const ROLLED_OVER: &str = "*-*";

/// Reads a request into `needs`. Returns the name of its operation, such as `indices.create`.
///
/// # Errors
///
/// If that is not known. `needs` is then incomplete, and the request is denied.
pub fn read<'a>(request: &Request<'a>, needs: &mut Vec<Need<'a>>) -> Result<&'static str, Problem> {
    let mut reading = route(request, needs)?;
    let group = reading.found.group;
    if request.body == RequestBody::Awaited && group.body != Body::Ignored {
        return Err(Problem::BodyNeeded);
    }
    read_places(&mut reading, |_, _| {})?;
    let before = reading.needs.len();
    // An ingest pipeline that the request names may move documents to any index.
    if reading.query.get("pipeline")?.is_some_and(|name| name != "_none") {
        body::ingest_anywhere(&mut reading)?;
    }
    // A search pipeline may ask for a `profile`: in the searches of the path and of the body, not
    // in the needs of the pipeline itself. It may also filter by a query, which is not seen here.
    let has_pipeline = reading.query.get("search_pipeline")?.is_some_and(|name| name != "_none");
    if has_pipeline {
        reading.show_hidden_terms(0..reading.needs.len());
        lookups::unseen(&mut reading)?;
    }
    let before_body = reading.needs.len();
    body::read(&mut reading)?;
    if has_pipeline {
        reading.show_hidden_terms(before_body..reading.needs.len());
    }
    // A node looks documents up first. By then names with date math may stand for others.
    if reading.has_date_math.get() && reading.needs.len() > before {
        return Err(LATER_DATE_MATH);
    }
    Ok(group.name)
}

/// Adds the needs of the path and the query. `list` gets the number and parameter of each list.
pub(crate) fn read_places(
    reading: &mut Reading<'_, '_>,
    mut list: impl FnMut(usize, &'static str),
) -> Result<(), Problem> {
    for Pattern { place, actions } in &reading.found.group.needs {
        match *place {
            Place::Cluster => reading.need(actions, Target::Cluster)?,
            Place::ClusterIfAll if may_be_all(reading) => reading.need(actions, Target::Cluster)?,
            Place::AllIfAll if may_be_all(reading) => reading.need_all(actions)?,
            Place::ClusterIfAll | Place::AllIfAll => {}
            Place::All => reading.need_all(actions)?,
            Place::OpenScroll if reading.request.scrolls_are_checked => {}
            Place::OpenScroll => reading.need_all(actions)?,
            Place::OptionalList(parameter) if reading.parameter(parameter)?.is_none() => {}
            Place::List(parameter) | Place::OptionalList(parameter) => {
                let indices = indices(reading, parameter)?;
                list(reading.needs.len(), parameter);
                reading.need(actions, Target::Indices(indices))?;
            }
            Place::Name(parameter) => read_name(reading, actions, parameter, Target::Name)?,
            Place::NewAlias(parameter) => {
                read_name(reading, actions, parameter, Target::AddedName)?
            }
            Place::MissingIfVersioned(_) if reading.query.get("version_type")?.is_none() => {}
            Place::Missing(parameter) | Place::MissingIfVersioned(parameter) => {
                read_name(reading, actions, parameter, Target::Missing)?;
            }
            Place::Creates(parameter) => match reading.named(parameter)? {
                Some(name) => reading.need(actions, Target::AddedName(name))?,
                None => {
                    // A role may hide something of whatever index it makes.
                    reading.need(actions, Target::AddedName(Cow::Borrowed(ROLLED_OVER)))?;
                    reading.add_names();
                }
            },
            Place::AliasesUnlessAll(parameter)
                if matches!(reading.parameter(parameter)?.as_deref(), Some("*" | "_all")) => {}
            Place::Aliases(parameter) | Place::AliasesUnlessAll(parameter) => {
                read_aliases(reading, actions, parameter)?;
            }
        }
    }
    Ok(())
}

/// The indices that a parameter lists, as a node reads the list for this operation.
fn indices<'a>(reading: &Reading<'_, 'a>, parameter: &str) -> Result<Expression<'a>, Problem> {
    let group = reading.found.group;
    if group.takes_one_name && reading.parameter(parameter)?.is_some_and(|text| text.contains(','))
    {
        return Err(SEVERAL);
    }
    let indices = reading.list(parameter)?;
    if group.takes_nothing_out && indices.excludes() {
        return Err(Problem::Unsupported(
            "exclusions (`-name`) in this list, in which a node leaves nothing out",
        ));
    }
    Ok(indices)
}

/// Adds a need of the one name that a parameter has, if it is there.
fn read_name<'a>(
    reading: &mut Reading<'_, 'a>,
    actions: &'static [Action],
    parameter: &str,
    target: fn(Cow<'a, str>) -> Target<'a>,
) -> Result<(), Problem> {
    match reading.named(parameter)? {
        Some(name) => reading.need(actions, target(name)),
        None => Ok(()),
    }
}

/// Adds a need for each alias that a parameter lists. A node leaves empty ones out.
fn read_aliases(
    reading: &mut Reading<'_, '_>,
    actions: &'static [Action],
    parameter: &str,
) -> Result<(), Problem> {
    let Some(text) = reading.parameter(parameter)? else { return Ok(()) };
    text.split(',').filter(|alias| !alias.is_empty()).try_for_each(|alias| {
        reading.need(actions, Target::AddedName(Cow::Owned(alias.to_owned())))
    })
}

/// Whether what a request needs may depend on its body: not if its path or query alone is denied.
#[must_use]
pub fn depends_on_body(request: &Request<'_>) -> bool {
    let (mut needs, unseen) = (Vec::new(), Request { body: RequestBody::Unseen, ..*request });
    let reads_body =
        route(&unseen, &mut needs).is_ok_and(|reading| reading.found.group.body != Body::Ignored);
    // Some need the most where no body is seen. Date math is refused without the body.
    reads_body
        && match read(&unseen, &mut needs) {
            Ok(_) | Err(Problem::BodyNeeded) => true,
            Err(problem) => problem == UNENDED_DATE_MATH,
        }
}

/// The route of a request.
pub(crate) fn find<'a>(request: &Request<'a>) -> Option<Match<'a>> {
    ROUTES.find(Method::named(request.method)?, request.target.split('?').next()?)
}

/// A request with its route.
pub(crate) fn route<'r, 'a>(
    request: &'r Request<'a>,
    needs: &'r mut Vec<Need<'a>>,
) -> Result<Reading<'r, 'a>, Problem> {
    let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
    if request.target.contains('#') || path.split('/').any(|segment| matches!(segment, "." | ".."))
    {
        return Err(Problem::Invalid("its path has a fragment or dot segments"));
    }
    // A node reads such bytes as Latin-1, or as UTF-8, by what else stands beside them.
    if !request.target.is_ascii() {
        return Err(Problem::Invalid(
            "its path or query has bytes outside of ASCII that are not percent-encoded",
        ));
    }
    let found = find(request).ok_or(Problem::UnknownRoute)?;
    if let Some(why) = found.group.denied {
        return Err(Problem::Unsupported(why));
    }
    let query = Query(query);
    if query.has_nameless() {
        return Err(Problem::Invalid("a parameter of its query begins with `=`"));
    }
    let options = options(found.group.options, &query)?;
    Ok(Reading { request, query, found, options, needs, names: 0, has_date_math: Cell::new(false) })
}

/// Whether a request may name all points in time, as `_all`. Other names do not count.
fn may_be_all(reading: &Reading<'_, '_>) -> bool {
    let in_path = reading.request.target.contains("_all") || reading.request.target.contains('%');
    in_path
        || reading.body().map_or(true, |body| {
            memchr::memmem::find(body, b"_all").is_some() || memchr::memchr(b'\\', body).is_some()
        })
}

/// What the patterns of an operation expand to, as the parameters of the query change it.
fn options(defaults: Options, query: &Query<'_>) -> Result<Options, Problem> {
    let mut options = defaults;
    if let Some(states) = query.get("expand_wildcards")? {
        options = options.expanding(&states)?;
    }
    options.ignore_unavailable =
        query.flag("ignore_unavailable")?.unwrap_or(options.ignore_unavailable);
    options.allow_no_indices = query.flag("allow_no_indices")?.unwrap_or(options.allow_no_indices);
    Ok(options)
}
