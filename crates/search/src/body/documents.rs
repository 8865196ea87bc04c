//! Bodies that name documents: `_mget`, `_mtermvectors` and `_termvectors`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::UNKNOWN_KEY;
use crate::action::Action;
use crate::json::{Json, Value, set_once};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

const TERM_VECTORS: &[Action] = &[Action::new("indices:data/read/tv")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::new("indices:data/read/mtv[shard]")];
const MULTI_GET: &[Action] = &[Action::new("indices:data/read/mget[shard]")];

/// The form of an object that names a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentForm {
    Get,
    TermVectors,
}

/// `{"_index": …, "_id": …}`. This index replaces the index of the path.
pub(super) fn read_term_vectors(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let mut index = None;
    reading
        .members(|_, json, key| read_member(json, &key, DocumentForm::TermVectors, &mut index))?;
    match index.flatten() {
        Some(index) => reading.need(TERM_VECTORS, Target::Name(reading.checked_name(index)?)),
        None => Ok(()),
    }
}

/// `{"docs": [{"_index": …, "_id": …}], "ids": [...]}`; for term vectors also with `parameters`,
/// which may name an index for the documents that name none.
pub(super) fn read_list(reading: &mut Reading<'_, '_>, form: DocumentForm) -> Result<(), Problem> {
    let default = reading.index_name("index")?;
    let mut indices = BTreeSet::new();
    let mut uses_default = reading.body()?.is_empty() || reading.query.get("ids")?.is_some();
    let mut has_body_default = false;
    reading.members(|reading, json, key| match &*key {
        "docs" => json.array(|json| {
            match read_index(json, form)? {
                Some(index) => drop(indices.insert(reading.checked_name(index)?)),
                None => uses_default = true,
            }
            Ok(())
        }),
        "ids" => {
            uses_default = true;
            json.value_or_array(Json::scalar)
        }
        "parameters" if form == DocumentForm::TermVectors => {
            if let Some(index) = read_index(json, form)? {
                has_body_default = true;
                indices.insert(reading.checked_name(index)?);
            }
            Ok(())
        }
        _ => Err(UNKNOWN_KEY),
    })?;
    if uses_default && default.is_none() && !has_body_default {
        return Err(Problem::Invalid("it names no index for a document"));
    }
    indices.extend(default.filter(|_| uses_default));
    let actions = match form {
        DocumentForm::Get => MULTI_GET,
        DocumentForm::TermVectors => MULTI_TERM_VECTORS,
    };
    indices.into_iter().try_for_each(|index| reading.need(actions, Target::Name(index)))
}

/// Reads an object that names a document. Returns the index that the object names, if any.
fn read_index<'a>(
    json: &mut Json<'a>,
    form: DocumentForm,
) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut index = None;
    json.object(|json, key| read_member(json, &key, form, &mut index))?;
    Ok(index.flatten())
}

/// Reads a member of an object that names a document. If the member is `_index`, its value is put
/// into `index`; a `null` is `Some(None)`.
///
/// A node reads the members of an unexpected array or object as if they were members of the
/// document. So arrays and objects are allowed only under keys for which a node expects them, and
/// only in the form that it expects.
fn read_member<'a>(
    json: &mut Json<'a>,
    key: &str,
    form: DocumentForm,
    index: &mut Option<Option<Cow<'a, str>>>,
) -> Result<(), Problem> {
    match (key, form) {
        ("_index", _) => set_once(index, json.optional_string()?),
        ("stored_fields", DocumentForm::Get) | ("fields", DocumentForm::TermVectors) => {
            json.value_or_array(Json::scalar)
        }
        ("_source", DocumentForm::Get) => read_source_filter(json),
        ("_id" | "routing" | "version" | "version_type", DocumentForm::Get) => json.scalar(),
        (_, DocumentForm::Get) => Err(UNKNOWN_KEY),
        // If the value is not an object, nodes of 3.x loop for ever.
        ("filter", DocumentForm::TermVectors) => json.object(|json, _| json.scalar()),
        ("per_field_analyzer" | "perFieldAnalyzer" | "doc", DocumentForm::TermVectors) => {
            json.ignore()
        }
        (_, DocumentForm::TermVectors) => json.scalar(),
    }
}

/// `true`, a pattern, patterns, or an object with two lists of patterns.
fn read_source_filter(json: &mut Json<'_>) -> Result<(), Problem> {
    if json.peek()? != Value::Object {
        return json.value_or_array(Json::scalar);
    }
    json.object(|json, key| match &*key {
        "includes" | "include" | "excludes" | "exclude" => json.value_or_array(Json::scalar),
        _ => Err(UNKNOWN_KEY),
    })
}
