//! Bodies that name indices.
//!
//! Each reader takes the keys that a node takes. It denies anything that a node could read
//! differently: a repeated key, a name that is not a string, text after the end.

pub(crate) mod bulk;
mod documents;
mod multi_search;
mod template;

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value};
use crate::lookups::{self, CREATE, GET, INDEX_DOCUMENTS, Lookups};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::{Reading, RequestBody};
use crate::routes::Body;
use documents::DocumentForm;
use multi_search::SearchForm;

const ALIASES: &[Action] = &[Action::new("indices:admin/aliases")];
const ALIASES_AND_DELETE: &[Action] =
    &[Action::new("indices:admin/aliases"), Action::new("indices:admin/delete")];
const DELETE_DOCUMENTS: &[Action] =
    &[Action::new("indices:data/write/bulk[s]"), Action::new("indices:data/write/delete")];
const REFRESH: &[Action] =
    &[Action::new("indices:admin/refresh"), Action::new("indices:admin/refresh[s]")];
const SEARCH: &[Action] = &[Action::new("indices:data/read/search")];
/// The actions of a script that moves documents to other indices.
const WRITE_ANYWHERE: &[Action] = &[
    Action::new("indices:data/write/bulk[s]"),
    Action::new("indices:data/write/index"),
    Action::new("indices:data/write/delete"),
    Action::new("indices:admin/mapping/put"),
    Action::new("indices:admin/create"),
];

const UNKNOWN_KEY: Problem = Problem::Invalid("its body has an unknown key");

/// Adds the needs of an ingest pipeline. Like a script, it may move documents to other indices.
/// Processors such as `text_embedding` with `skip_existing` read the document that is there.
pub(crate) fn need_ingest_pipeline(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.need_all(GET)?;
    reading.need_all(WRITE_ANYWHERE)
}

pub(crate) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    match reading.operation.body {
        Body::Ignored | Body::PointsInTime => Ok(()),
        Body::Alias => read_alias(reading),
        Body::AliasFilters => read_alias_filters(reading),
        Body::Aliases => read_aliases(reading),
        Body::Bulk => bulk::read(reading),
        Body::Create => read_new_index(reading),
        Body::DeleteByQuery => read_search(reading).and_then(|()| need_refresh(reading)),
        Body::Mget => documents::read_list(reading, DocumentForm::Get),
        Body::Msearch => multi_search::read(reading, SearchForm::Query),
        Body::MsearchTemplate => multi_search::read(reading, SearchForm::Template),
        Body::Mtermvectors => documents::read_list(reading, DocumentForm::TermVectors),
        Body::Reindex => read_reindex(reading),
        Body::Restore => read_restore(reading),
        Body::Search => read_search(reading),
        Body::Template => template::read(reading),
        Body::Termvectors => documents::read_term_vectors(reading),
        Body::Update => read_update(reading),
        Body::UpdateByQuery => read_update_by_query(reading),
    }
}

fn read_search(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    if reading.body()?.is_empty() {
        return Ok(());
    }
    let before = reading.needs.len();
    let mut lookups = Lookups::new(reading.list("index")?);
    reading.members(|reading, json, key| lookups.read_member(reading, json, &key))?;
    if lookups.finish(reading)? {
        reading.mark_hidden_terms(0..before);
    }
    Ok(())
}

/// Adds the needs of `refresh`, which refreshes the indices of the path.
fn need_refresh(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    if reading.query.flag("refresh")? == Some(true) {
        reading.need(REFRESH, Target::Fixed(reading.list("index")?))?;
    }
    Ok(())
}

/// Adds the needs of an update by query. Its script may delete documents instead of updating them.
fn read_update_by_query(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    read_search(reading)?;
    if has_script(reading)? {
        reading.need(DELETE_DOCUMENTS, Target::Fixed(reading.list("index")?))?;
    }
    need_refresh(reading)
}

/// Adds the needs of a script, which may delete the document. An unseen body may have a script.
fn read_update(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let may_delete = !matches!(reading.request.body, RequestBody::Whole(_)) || has_script(reading)?;
    match reading.index_name("index")? {
        Some(index) if may_delete => reading.need(DELETE_DOCUMENTS, Target::Name(index)),
        Some(_) | None => Ok(()),
    }
}

fn has_script(reading: &mut Reading<'_, '_>) -> Result<bool, Problem> {
    let mut has_script = false;
    reading.members(|_, json, key| {
        has_script |= key == "script";
        json.ignore()
    })?;
    Ok(has_script)
}

/// `{"aliases": {NAME: {…}}, …}`
fn read_new_index(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let Some(index) = reading.index_name("index")? else { return Ok(()) };
    reading.members(|reading, json, key| {
        if key != "aliases" {
            return json.ignore();
        }
        let mut is_empty = true;
        json.object(|json, alias| {
            is_empty = false;
            reading.need(ALIASES, Target::AliasOrNewIndex(alias))?;
            json.object(|json, key| match &*key {
                "filter" => lookups::read_filter(reading, json),
                // A node takes an object under an unknown key for the end of the alias. So an
                // object is refused here.
                _ => json.scalar(),
            })
        })?;
        if is_empty { Ok(()) } else { reading.need(ALIASES, Target::Name(index.clone())) }
    })
}

/// `{"aliases": {NAME: {"filter": …}}}`, or the same in `template`.
fn read_alias_filters(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.members(|reading, json, key| match (&*key, json.peek()?) {
        ("aliases", _) => read_new_aliases(reading, json),
        ("template", Value::Object) => json.object(|json, key| match &*key {
            "aliases" => read_new_aliases(reading, json),
            _ => json.ignore(),
        }),
        _ => json.ignore(),
    })
}

/// Adds the needs of aliases that a new index gets. `read_filter` reads the object of all aliases:
/// it finds the filters in it.
fn read_new_aliases<'a>(reading: &mut Reading<'_, 'a>, json: &mut Json<'a>) -> Result<(), Problem> {
    if json.clone().raw_value()? != b"{}" {
        reading.mark_first_need_as_adding_names();
    }
    lookups::read_filter(reading, json)
}

/// `{"indices": …, "include_global_state": false}`
fn read_restore(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.members(|reading, json, key| {
        let value = json.raw_value()?;
        // The global state has settings that no role grants by itself.
        if key == "include_global_state" && value != b"false" {
            return Err(Problem::Unsupported("restoring the state of the cluster"));
        }
        // The copy gets a new name.
        if key.starts_with("rename") {
            reading.mark_first_need_as_adding_names();
        }
        Ok(())
    })
}

/// `{"index": …, "alias": …, "filter": …}`. These names replace the names in the path.
fn read_alias(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let mut has_index = reading.parameter("index")?.is_some();
    reading.members(|reading, json, key| match &*key {
        "index" | "indices" => {
            let Some(indices) = json.optional_string()? else { return Ok(()) };
            has_index = true;
            let indices = if indices.is_empty() { Cow::Borrowed("_all") } else { indices };
            let indices = reading.checked_expression(indices, reading.options)?;
            reading.need(ALIASES, Target::Fixed(indices))
        }
        "alias" => match json.optional_string()? {
            Some(alias) => reading.need(ALIASES, Target::AliasOrNewIndex(alias)),
            None => Ok(()),
        },
        "filter" => lookups::read_filter(reading, json),
        // Nodes of 2.x read the members of an object under an unknown key as if they stood here.
        _ => json.scalar(),
    })?;
    if !has_index {
        let options = Options { closed: true, hidden: true, ..Options::OPEN };
        reading.need(ALIASES, Target::Fixed(Expression::new("_all", options)))?;
    }
    Ok(())
}

/// `{"actions": [{"add": {"index": …, "alias": …}}, {"remove": …}, {"remove_index": …}]}`
fn read_aliases(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let mut deletes = false;
    reading.members(|reading, json, key| {
        if key != "actions" {
            return Err(UNKNOWN_KEY);
        }
        json.value_or_array(|json| {
            json.object(|json, action| {
                match &*action {
                    "add" | "remove" => {}
                    "remove_index" => deletes = true,
                    _ => return Err(UNKNOWN_KEY),
                }
                read_alias_action(reading, json)
            })
        })
    })?;
    // If any action deletes an index, a node requires the privilege to delete on the indices of all
    // actions.
    for need in reading.needs.iter_mut().filter(|_| deletes) {
        if need.actions == ALIASES && matches!(need.target, Target::Fixed(_)) {
            need.actions = ALIASES_AND_DELETE;
        }
    }
    // A node refuses an empty list, too. A request without needs would be open to everyone.
    if reading.needs.is_empty() { Err(Problem::Invalid("its body has no action")) } else { Ok(()) }
}

fn read_alias_action<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
) -> Result<(), Problem> {
    let options = Options { closed: true, ..Options::OPEN };
    let mut has_index = false;
    json.object(|json, key| match &*key {
        "index" | "indices" => {
            let names = json.name_or_array()?;
            has_index |= !names.is_empty();
            let indices = reading.checked_expression(names, options)?;
            reading.need(ALIASES, Target::Fixed(indices))
        }
        "alias" | "aliases" => json.value_or_array(|json| {
            let name = json.string()?;
            reading.need(ALIASES, Target::AliasOrNewIndex(name))
        }),
        _ => lookups::read_filter(reading, json),
    })?;
    if has_index { Ok(()) } else { Err(Problem::Invalid("an action on aliases names no index")) }
}

/// `{"source": {"index": …, "query": …}, "dest": {"index": …}, "script": …}`
fn read_reindex(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let (mut has_source, mut has_destination) = (false, false);
    let refreshes = reading.query.flag("refresh")? == Some(true);
    let mut lookups = Lookups::default();
    reading.members(|reading, json, key| match &*key {
        "source" => json.object(|json, key| match &*key {
            "index" => {
                let names = json.name_list_or_array()?;
                has_source |= !names.is_empty();
                let indices = reading.checked_expression(names, Options::OPEN)?;
                reading.need(SEARCH, Target::Fixed(indices))?;
                if let Some(need) = reading.needs.last_mut() {
                    need.is_copied = true;
                }
                Ok(())
            }
            "remote" => Err(Problem::Unsupported("indices of remote clusters")),
            // The other members are the same as in a search.
            key => lookups.read_member(reading, json, key),
        }),
        "dest" => json.object(|json, key| match &*key {
            "index" => {
                has_destination = true;
                let name = reading.checked_name(json.string()?)?;
                reading.need(INDEX_DOCUMENTS, Target::Name(name.clone()))?;
                if refreshes {
                    reading.need(REFRESH, Target::Name(name.clone()))?;
                }
                reading.need(CREATE, Target::CreatedIfMissing(name))
            }
            "pipeline" => match json.names_pipeline()? {
                true => need_ingest_pipeline(reading),
                false => Ok(()),
            },
            _ => json.ignore(),
        }),
        "script" => {
            // It may set `ctx._index`, and delete.
            reading.need_all(WRITE_ANYWHERE)?;
            json.ignore()
        }
        _ => json.ignore(),
    })?;
    lookups.finish(reading)?;
    if has_source && has_destination {
        Ok(())
    } else {
        Err(Problem::Invalid("its body lacks a source or destination"))
    }
}
