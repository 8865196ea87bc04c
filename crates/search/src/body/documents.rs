//! Bodies that name documents: `_mget`, `_mtermvectors` and `_termvectors`.

use std::borrow::Cow;

use super::Names;
use crate::action::Action;
use crate::json::{Json, Value, set_once};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

const TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/tv")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv[shard]")];
const MULTI_GET: &[Action] = &[Action::of("indices:data/read/mget[shard]")];

const UNKNOWN_KEY: Problem = Problem::Invalid("its body has an unknown key");

/// `{"docs": [{"_index": …, "_id": …}], "ids": [...]}`
pub(super) fn multi_get(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    documents(reading, MULTI_GET, DocumentForm::Get)
}

/// The same with `parameters`, which may name an index too.
pub(super) fn multi_term_vectors(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    documents(reading, MULTI_TERM_VECTORS, DocumentForm::TermVectors)
}

/// `{"_index": …, "_id": …}`. This index replaces that of the path.
pub(super) fn term_vectors(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let mut index = None;
    reading.members(|_, json, key| {
        document_member(json, &key, DocumentForm::TermVectors, &mut index)
    })?;
    let Some(index) = index.flatten() else { return Ok(()) };
    let index = reading.name(index)?;
    reading.need(TERM_VECTORS, Target::Name(index))
}

fn documents(
    reading: &mut Reading<'_, '_>,
    actions: &'static [Action],
    form: DocumentForm,
) -> Result<(), Problem> {
    let default = reading.parameter("index")?.map(|name| reading.name(name)).transpose()?;
    let mut names = Names::default();
    let mut uses_default = reading.body()?.is_empty() || reading.query.get("ids")?.is_some();
    let mut has_own_default = false;
    reading.members(|reading, json, key| match &*key {
        "docs" => json.array(|json| {
            match index_of_document(json, form)? {
                Some(index) => names.add(reading.name(index)?, 0),
                None => uses_default = true,
            }
            Ok(())
        }),
        "ids" => {
            uses_default = true;
            json.items(Json::scalar)
        }
        "parameters" if form == DocumentForm::TermVectors => {
            if let Some(index) = index_of_document(json, form)? {
                has_own_default = true;
                names.add(reading.name(index)?, 0);
            }
            Ok(())
        }
        _ => Err(UNKNOWN_KEY),
    })?;
    if uses_default && default.is_none() && !has_own_default {
        return Err(Problem::Invalid("it names no index for a document"));
    }
    if let Some(name) = default.filter(|_| uses_default) {
        names.add(name, 0);
    }
    names
        .into_list()
        .into_iter()
        .try_for_each(|(name, _)| reading.need(actions, Target::Name(name)))
}

/// The form of an object that names a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentForm {
    Get,
    TermVectors,
}

/// The index in which an object names a document.
fn index_of_document<'a>(
    json: &mut Json<'a>,
    form: DocumentForm,
) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut index = None;
    json.object(|json, key| document_member(json, &key, form, &mut index))?;
    Ok(index.flatten())
}

/// Reads a member of such an object.
///
/// A node goes through some arrays and objects as if their members were those of the document. So
/// they may stand only where it reads them as a whole, and only in the form that it expects there.
fn document_member<'a>(
    json: &mut Json<'a>,
    key: &str,
    form: DocumentForm,
    index: &mut Option<Option<Cow<'a, str>>>,
) -> Result<(), Problem> {
    match (key, form) {
        ("_index", _) => set_once(index, json.optional_string()?),
        ("stored_fields", DocumentForm::Get) | ("fields", DocumentForm::TermVectors) => {
            json.items(Json::scalar)
        }
        ("_source", DocumentForm::Get) => source_filter(json),
        ("_id" | "routing" | "version" | "version_type", DocumentForm::Get) => json.scalar(),
        (_, DocumentForm::Get) => Err(UNKNOWN_KEY),
        // With another value than an object, nodes of 3.x go on for ever.
        ("filter", DocumentForm::TermVectors) => json.object(|json, _| json.scalar()),
        ("per_field_analyzer" | "perFieldAnalyzer" | "doc", DocumentForm::TermVectors) => {
            json.ignore()
        }
        (_, DocumentForm::TermVectors) => json.scalar(),
    }
}

/// `true`, a pattern, patterns, or an object with two lists of patterns.
fn source_filter(json: &mut Json<'_>) -> Result<(), Problem> {
    if json.peek()? != Value::Object {
        return json.items(Json::scalar);
    }
    json.object(|json, key| match &*key {
        "includes" | "include" | "excludes" | "exclude" => json.items(Json::scalar),
        _ => Err(UNKNOWN_KEY),
    })
}
