//! Bodies that name documents: `_mget`, `_mtermvectors` and `_termvectors`.

use std::borrow::Cow;

use super::names::Names;
use super::{items, scalar, text};
use crate::action::Action;
use crate::json::{Json, Value};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

const TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/tv")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv[shard]")];
const MULTI_GET: &[Action] = &[Action::of("indices:data/read/mget[shard]")];
/// `{"docs": [{"_index": …, "_id": …}], "ids": [...]}`
pub(super) fn multi_get(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    documents(reading, body, MULTI_GET, Kind::Get)
}

/// The same with `parameters`, which may name an index too.
pub(super) fn multi_term_vectors(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    documents(reading, body, MULTI_TERM_VECTORS, Kind::TermVectors)
}

/// `{"_index": …, "_id": …}`: what it names takes the place of what the path names.
pub(super) fn term_vectors(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Ok(());
    }
    let index = Json::whole(body, |json| index_of_document(json, Kind::TermVectors))?;
    match index {
        Some(index) => {
            let index = reading.name(index)?;
            reading.need(TERM_VECTORS, Target::Name(index))?;
            Ok(())
        }
        None => Ok(()),
    }
}

fn documents<'a>(
    reading: &mut Reading<'_, 'a>,
    body: &'a [u8],
    actions: &'static [Action],
    kind: Kind,
) -> Result<(), Problem> {
    let default = match reading.parameter("index")? {
        Some(name) => Some(reading.name(name)?),
        None => None,
    };
    let mut names = Names::default();
    let mut uses_default = body.is_empty() || reading.query.get("ids")?.is_some();
    let mut has_own_default = false;
    if !body.is_empty() {
        Json::whole(body, |json| {
            json.object(|json, key| match &*key {
                "docs" => json.array(|json| {
                    match index_of_document(json, kind)? {
                        Some(index) => names.add(reading.name(index)?, 0),
                        None => uses_default = true,
                    }
                    Ok(())
                }),
                "ids" => {
                    uses_default = true;
                    items(json, scalar)
                }
                "parameters" if kind == Kind::TermVectors => {
                    if let Some(index) = index_of_document(json, kind)? {
                        has_own_default = true;
                        names.add(reading.name(index)?, 0);
                    }
                    Ok(())
                }
                _ => Err(Problem::Invalid("its body has an unknown key")),
            })
        })?;
    }
    match default {
        Some(default) if uses_default => names.add(default, 0),
        None if uses_default && !has_own_default => {
            return Err(Problem::Invalid("it names no index for a document"));
        }
        _ => {}
    }
    for (name, _) in names.list {
        reading.need(actions, Target::Name(name))?;
    }
    Ok(())
}

/// What an object is that names a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    TermVectors,
}

/// The index that an object names as that of a document.
///
/// A node goes through some arrays and objects as if their members were those of the document: so they may stand only where it
/// reads them as a whole, and only as it expects them there.
fn index_of_document<'a>(json: &mut Json<'a>, kind: Kind) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut index = None;
    json.object(|json, key| match (&*key, kind) {
        ("_index", _) => match index.replace(text(json)?) {
            Some(_) => Err(Problem::Invalid("its body has a key twice")),
            None => Ok(()),
        },
        ("stored_fields", Kind::Get) | ("fields", Kind::TermVectors) => items(json, scalar),
        ("_source", Kind::Get) => source_filter(json),
        ("_id" | "routing" | "version" | "version_type", Kind::Get) => scalar(json),
        (_, Kind::Get) => Err(Problem::Invalid("its body has an unknown key")),
        // With another value than an object, nodes of 3.x go on for ever.
        ("filter", Kind::TermVectors) => json.object(|json, _| scalar(json)),
        ("per_field_analyzer" | "perFieldAnalyzer" | "doc", Kind::TermVectors) => json.skip().map(drop),
        (_, Kind::TermVectors) => scalar(json),
    })?;
    Ok(index.flatten())
}

/// `true`, a pattern, patterns, or an object with two lists of patterns.
fn source_filter(json: &mut Json<'_>) -> Result<(), Problem> {
    if json.peek()? != Value::Object {
        return items(json, scalar);
    }
    json.object(|json, key| match &*key {
        "includes" | "include" | "excludes" | "exclude" => items(json, scalar),
        _ => Err(Problem::Invalid("its body has an unknown key")),
    })
}
