//! Queries that look documents up in other indices.
//!
//! A node finds these while it rewrites a query, at any depth and in any place that takes a query, and reads them as the
//! same user. So every object is gone through, and what has the form of a look-up counts as one.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

const GET: &[Action] = &[Action::of("indices:data/read/get")];
const SEARCH: &[Action] =
    &[Action::of("indices:data/read/search"), Action::of("indices:monitor/settings/get")];
const TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv[shard]")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv")];
/// What a query may do that is not seen.
const ANY: &[Action] = &[
    Action::of("indices:data/read/get"),
    Action::of("indices:data/read/mtv[shard]"),
    Action::of("indices:data/read/search"),
    Action::of("indices:monitor/settings/get"),
];

/// Adds what the look-ups need that the next value of `json` contains. `searched` are the indices that it is run on.
pub(crate) fn read<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    match json.peek()? {
        Value::Array => json.array(|json| read(reading, json, searched)),
        Value::Object => json.object(|json, key| member(reading, json, &key, searched)),
        Value::String | Value::Null | Value::Other => json.skip().map(drop),
    }
}

/// Adds what a search needs: its query, and all that stands beside it.
pub(crate) fn search<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    json.object(|json, key| search_member(reading, json, &key, searched))
}

/// Adds what one member of a search needs.
pub(crate) fn search_member<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    key: &str,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    match (key, json.peek()?) {
        ("search_pipeline", Value::String) => {
            pipeline(reading, &json.string()?);
            Ok(())
        }
        _ => member(reading, json, key, searched),
    }
}

/// Adds what a stored search pipeline needs: one may filter by a query, which is not seen here.
pub(crate) fn pipeline(reading: &mut Reading<'_, '_>, name: &str) {
    if name != "_none" {
        unseen(reading);
    }
}

/// What a query needs that is not seen because a template is made into it.
pub(crate) fn unseen(reading: &mut Reading<'_, '_>) {
    reading.need_all(ANY);
    reading.need(MULTI_TERM_VECTORS, Target::Cluster);
}

/// Fails if the next value of `json` may contain a look-up, or a variable in a key.
pub(crate) fn none(json: &mut Json<'_>) -> Result<(), Problem> {
    match json.peek()? {
        Value::Array => json.array(none),
        Value::Object => json.object(|json, key| match &*key {
            "index" | "_index" | "indexed_shape" | "percolate" | "more_like_this" | "wrapper"
            | "template" | "pit" => Err(Problem::Unsupported("a look-up in a template")),
            _ if key.contains("{{") => Err(Problem::Unsupported("a variable in a key of a template")),
            _ => none(json),
        }),
        Value::String | Value::Null | Value::Other => json.skip().map(drop),
    }
}

fn member<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    key: &str,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    match (key, json.peek()?) {
        // {"terms": {FIELD: {"index": …, "id": …, "path": …}}}
        ("terms", Value::Object) => json.object(|json, _field| {
            if json.peek()? == Value::Object {
                document(reading, json, searched, None)
            } else {
                read(reading, json, searched)
            }
        }),
        // {"geo_shape": {FIELD: {"indexed_shape": {"index": …, "id": …}}}}
        ("indexed_shape", Value::Object) => document(reading, json, searched, Some("shapes")),
        // {"percolate": {"field": …, "index": …, "id": …}}
        ("percolate", Value::Object) => document(reading, json, searched, None),
        // {"more_like_this": {"like": [{"_index": …, "_id": …}]}}
        ("more_like_this", Value::Object) => {
            reading.need(MULTI_TERM_VECTORS, Target::Cluster);
            json.object(|json, key| match &*key {
                "like" | "unlike" => alike(reading, json, searched),
                _ => json.skip().map(drop),
            })
        }
        // A query in base64, or one whose variables are filled in later.
        ("wrapper", Value::Object) => {
            unseen(reading);
            json.skip().map(drop)
        }
        ("template", Value::Object) => {
            if json.clone().skip()?.windows(2).any(|pair| pair == b"${") {
                unseen(reading);
            }
            read(reading, json, searched)
        }
        // What a point in time was opened on is not seen here.
        ("pit", Value::Object) => {
            unseen(reading);
            json.skip().map(drop)
        }
        _ => read(reading, json, searched),
    }
}

/// An object that names one document, or documents by a query, in another index.
fn document<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
    default: Option<&'static str>,
) -> Result<(), Problem> {
    let mut index = default.map(Cow::Borrowed);
    let mut is_found = false;
    let mut actions = GET;
    json.object(|json, key| {
        match (&*key, json.peek()?) {
            ("index", Value::String) => {
                index = Some(json.string()?);
                if std::mem::replace(&mut is_found, true) {
                    return Err(TWICE);
                }
                return Ok(());
            }
            // The name of the index could be written as a number. Nobody needs that.
            ("index", Value::Other) => return Err(Problem::Invalid("a look-up names its index by no text")),
            ("query", Value::Object) => actions = SEARCH,
            _ => {}
        }
        member(reading, json, &key, searched)
    })?;
    match index {
        Some(index) => {
            let index = reading.name(index)?;
            reading.need(actions, Target::Name(index));
            Ok(())
        }
        None => Ok(()),
    }
}

/// The documents that others are compared with. Those that name no index are taken from the searched ones.
fn alike<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    match json.peek()? {
        Value::Array => json.array(|json| alike(reading, json, searched)),
        Value::Object => {
            let mut index = None;
            json.object(|json, key| match (&*key, json.peek()?) {
                ("_index", Value::String) => match index.replace(json.string()?) {
                    Some(_) => Err(TWICE),
                    None => Ok(()),
                },
                ("_index", Value::Other) => Err(Problem::Invalid("a look-up names its index by no text")),
                _ => json.skip().map(drop),
            })?;
            let target = match index {
                Some(index) => Target::Name(reading.name(index)?),
                None => Target::Fixed(searched.clone()),
            };
            reading.need(TERM_VECTORS, target);
            Ok(())
        }
        Value::String | Value::Null | Value::Other => json.skip().map(drop),
    }
}

const TWICE: Problem = Problem::Invalid("its body has a key twice");

/// The options that a look-up leaves as they are.
pub(crate) fn nothing<'a>() -> Expression<'a> {
    Expression::new("", Options::OPEN)
}
