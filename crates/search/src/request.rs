//! Reads a request into what it needs.

use std::borrow::Cow;
use std::cell::Cell;

use crate::body;
use crate::expression::{Options, Part};
use crate::lookups;
use crate::need::{Need, Target};
use crate::parameters::Query;
use crate::problem::Problem;
use crate::reading::{LATER_DATE_MATH, Reading, Request, RequestBody, SEVERAL, UNENDED_DATE_MATH};
use crate::routes::{Body, Match, Method, Place, ROUTES};

/// The names that a rollover may make where it names none: one that ends with `-` and a number. It follows from the name by which the
/// last index was created. That may have had date math, which no inventory says.
const ROLLED_OVER: &str = "*-*";

/// What a request needs, in `needs`, and the name of its operation, such as `indices.create`.
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
    for pattern in &group.needs {
        match target(&reading, pattern.place)? {
            Some(target) => {
                // A role may hide something of whatever index it makes.
                let is_of_any = matches!(pattern.place, Place::Creates(_)) && target.text() == ROLLED_OVER;
                reading.need(&pattern.actions, target)?;
                if is_of_any {
                    reading.add_names();
                }
            }
            None if pattern.place == Place::All => reading.need_all(&pattern.actions)?,
            None if pattern.place == Place::AllIfAll && may_be_all(&reading) => {
                reading.need_all(&pattern.actions)?;
            }
            None if pattern.place == Place::OpenScroll && !request.scrolls_are_checked => {
                reading.need_all(&pattern.actions)?;
            }
            None => {
                for alias in aliases(&reading, pattern.place)? {
                    reading.need(&pattern.actions, Target::AddedName(alias))?;
                }
            }
        }
    }
    let before = reading.needs.len();
    // An ingest pipeline that the request names may move documents to any index.
    if reading.query.get("pipeline")?.is_some_and(|name| name != "_none") {
        body::ingest_anywhere(&mut reading)?;
    }
    let pipeline = reading.query.get("search_pipeline")?;
    // A pipeline may ask for a `profile`: in the searches of the path and of the body, not in what it needs itself.
    let shows = pipeline.as_ref().is_some_and(|name| name != "_none");
    if shows {
        reading.show_hidden_terms(0);
    }
    if let Some(name) = &pipeline {
        lookups::pipeline(&mut reading, name)?;
    }
    let before_body = reading.needs.len();
    body::read(&mut reading)?;
    if shows {
        reading.show_hidden_terms(before_body);
    }
    // A node looks them up first. By then the names may stand for others: it takes the filters of aliases by the time after it.
    if reading.has_date_math.get() && reading.needs.len() > before {
        return Err(LATER_DATE_MATH);
    }
    Ok(group.name)
}

/// Whether what a request needs may depend on its body, whatever is known of the body now: not if its path or query alone is denied.
#[must_use]
pub fn depends_on_body(request: &Request<'_>) -> bool {
    let (mut needs, unseen) = (Vec::new(), Request { body: RequestBody::Unseen, ..*request });
    let reads_body =
        route(&unseen, &mut needs).is_ok_and(|reading| reading.found.group.body != Body::Ignored);
    // Some read as needing the most where no body is seen. Date math is refused without the body, before the body is asked for.
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
    if request.target.contains('#') || path.split('/').any(|segment| matches!(segment, "." | "..")) {
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

/// What a request names at a place, if anything.
pub(crate) fn target<'a>(reading: &Reading<'_, 'a>, place: Place) -> Result<Option<Target<'a>>, Problem> {
    let name = |parameter| reading.named(parameter);
    Ok(match place {
        Place::Cluster => Some(Target::Cluster),
        Place::ClusterIfAll => may_be_all(reading).then_some(Target::Cluster),
        Place::All | Place::AllIfAll | Place::OpenScroll | Place::Aliases(_) | Place::AliasesUnlessAll(_) => {
            None
        }
        Place::List(parameter) => {
            if reading.found.group.takes_one_name
                && reading.parameter(parameter)?.is_some_and(|text| text.contains(','))
            {
                return Err(SEVERAL);
            }
            let list = reading.list(parameter)?;
            if reading.found.group.takes_nothing_out
                && list.parts().any(|part| matches!(part, Part::Except(_)))
            {
                return Err(Problem::Unsupported(
                    "exclusions (`-name`) in this list, in which a node leaves nothing out",
                ));
            }
            Some(Target::Indices(list))
        }
        Place::OptionalList(parameter) => reading.optional_list(parameter)?.map(Target::Indices),
        Place::Name(parameter) => name(parameter)?.map(Target::Name),
        Place::NewAlias(parameter) => name(parameter)?.map(Target::AddedName),
        Place::Creates(parameter) => {
            let name = name(parameter)?.unwrap_or(Cow::Borrowed(ROLLED_OVER));
            Some(Target::AddedName(name))
        }
        Place::Missing(parameter) => name(parameter)?.map(Target::Missing),
        Place::MissingIfVersioned(parameter) => match reading.query.get("version_type")? {
            Some(_) => name(parameter)?.map(Target::Missing),
            None => None,
        },
    })
}

/// The names and patterns of aliases at a place, if it is one for several.
pub(crate) fn aliases<'a>(reading: &Reading<'_, 'a>, place: Place) -> Result<Vec<Cow<'a, str>>, Problem> {
    let (parameter, is_for_all) = match place {
        Place::Aliases(parameter) => (parameter, true),
        Place::AliasesUnlessAll(parameter) => (parameter, false),
        Place::Cluster
        | Place::ClusterIfAll
        | Place::All
        | Place::AllIfAll
        | Place::OpenScroll
        | Place::List(_)
        | Place::OptionalList(_)
        | Place::Name(_)
        | Place::Missing(_)
        | Place::MissingIfVersioned(_)
        | Place::NewAlias(_)
        | Place::Creates(_) => return Ok(Vec::new()),
    };
    let Some(text) = reading.parameter(parameter)? else { return Ok(Vec::new()) };
    if !is_for_all && matches!(&*text, "*" | "_all") {
        return Ok(Vec::new());
    }
    // A node leaves empty ones out.
    Ok(match text {
        Cow::Borrowed(text) => text.split(',').filter(|part| !part.is_empty()).map(Cow::Borrowed).collect(),
        Cow::Owned(text) => {
            text.split(',').filter(|part| !part.is_empty()).map(|part| Cow::Owned(part.to_owned())).collect()
        }
    })
}

/// Whether a request may name all points in time, as `_all`. What it names does not count otherwise, so an odd body is no problem.
pub(crate) fn may_be_all(reading: &Reading<'_, '_>) -> bool {
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
        options =
            options.expanding(&states).ok_or(Problem::Invalid("`expand_wildcards` has an unknown value"))?;
    }
    options.ignore_unavailable = query.flag("ignore_unavailable")?.unwrap_or(options.ignore_unavailable);
    options.allow_no_indices = query.flag("allow_no_indices")?.unwrap_or(options.allow_no_indices);
    Ok(options)
}
