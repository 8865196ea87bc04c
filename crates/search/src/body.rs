//! Bodies that name indices.
//!
//! Each reader takes the keys that a node takes, and refuses what would make the two differ: a key twice, another value
//! in its place than text, anything after the end.

pub(crate) mod bulk;
mod documents;
mod hidden_terms;
mod multi_search;
mod names;
mod template;

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value};
use crate::lookups::{self, Lookups};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::routes::Body;

const ALIASES: &[Action] = &[Action::of("indices:admin/aliases")];
const ALIASES_AND_DELETE: &[Action] =
    &[Action::of("indices:admin/aliases"), Action::of("indices:admin/delete")];
const CREATE: &[Action] = &[Action::of("indices:admin/create")];
const DELETE_DOCUMENTS: &[Action] =
    &[Action::of("indices:data/write/bulk[s]"), Action::of("indices:data/write/delete")];
const INDEX_DOCUMENTS: &[Action] = &[
    Action::of("indices:data/write/bulk[s]"),
    Action::of("indices:data/write/index"),
    Action::of("indices:admin/mapping/put"),
];
const REFRESH: &[Action] = &[Action::of("indices:admin/refresh"), Action::of("indices:admin/refresh[s]")];
const GET: &[Action] = &[Action::of("indices:data/read/get")];
const SEARCH: &[Action] = &[Action::of("indices:data/read/search")];
/// What a script may do to documents that it moves to other indices.
const WRITE_ANYWHERE: &[Action] = &[
    Action::of("indices:data/write/bulk[s]"),
    Action::of("indices:data/write/index"),
    Action::of("indices:data/write/delete"),
    Action::of("indices:admin/mapping/put"),
    Action::of("indices:admin/create"),
];

/// Adds what an ingest pipeline may do. It may move documents to other indices, as a script may, and processors of the plugin
/// `neural-search`, such as `text_embedding` with `skip_existing`, read the document that is there.
pub(crate) fn ingest_anywhere(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.need_all(GET)?;
    reading.need_all(WRITE_ANYWHERE)
}

/// Adds what the body of a request needs.
pub(crate) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    match reading.found.group.body {
        Body::Ignored | Body::PointsInTime => Ok(()),
        Body::AliasFilters => alias_filters(reading),
        Body::Aliases => aliases(reading),
        Body::Bulk => bulk::read(reading),
        Body::CreateIndex => create_index(reading),
        Body::DeleteByQuery => delete_by_query(reading),
        Body::MultiGet => documents::multi_get(reading),
        Body::MultiSearch => multi_search::read(reading, false),
        Body::MultiSearchTemplate => multi_search::read(reading, true),
        Body::MultiTermVectors => documents::multi_term_vectors(reading),
        Body::PutAlias => put_alias(reading),
        Body::Reindex => reindex(reading),
        Body::Restore => restore(reading),
        Body::Search => search(reading),
        Body::Template => template(reading),
        Body::TermVectors => documents::term_vectors(reading),
        Body::Update => update(reading),
        Body::UpdateByQuery => update_by_query(reading),
    }
}

/// A query with what belongs to it.
fn search(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Ok(());
    }
    if hidden_terms::is_shown(body)? {
        reading.show_hidden_terms(0);
    }
    let searched = reading.list("index")?;
    Json::whole(body, |json| lookups::search(reading, json, &searched))
}

/// A query that is made from a template.
fn template(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let before = reading.needs.len();
    template::read(reading)?;
    let is_unseen = reading.needs.len() > before;
    // A node refuses both in requests to be rated.
    let may_show = reading.found.group.name != "rank_eval";
    if may_show && (is_unseen || hidden_terms::is_shown_by_template(reading.body()?)?) {
        reading.show_hidden_terms(0);
    }
    Ok(())
}

/// Deletes what a query finds.
fn delete_by_query(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    search(reading)?;
    refresh(reading)
}

/// Adds what `refresh` needs, which refreshes the indices of the path.
fn refresh(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    if reading.query.flag("refresh")? == Some(true) {
        let changed = reading.list("index")?;
        reading.need(REFRESH, Target::Fixed(changed))?;
    }
    Ok(())
}

/// A query; its script may delete documents instead of updating them.
fn update_by_query(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    search(reading)?;
    if has_script(reading.body()?)? {
        let updated = reading.list("index")?;
        reading.need(DELETE_DOCUMENTS, Target::Fixed(updated))?;
    }
    refresh(reading)
}

/// The update of a document. Without its body, it may have a script that deletes the document.
fn update(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let is_harmless = reading.is_body_seen() && !has_script(reading.body()?)?;
    if let (false, Some(name)) = (is_harmless, reading.parameter("index")?) {
        let name = reading.name(name)?;
        reading.need(DELETE_DOCUMENTS, Target::Name(name))?;
    }
    Ok(())
}

fn has_script(body: &[u8]) -> Result<bool, Problem> {
    let mut has_script = false;
    if !body.is_empty() {
        Json::whole(body, |json| {
            json.object(|json, key| {
                has_script |= key == "script";
                json.skip().map(drop)
            })
        })?;
    }
    Ok(has_script)
}

/// `{"aliases": {NAME: {…}}, …}`
fn create_index(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    let Some(name) = reading.parameter("index")?.filter(|_| !body.is_empty()) else { return Ok(()) };
    let name = reading.name(name)?;
    Json::whole(body, |json| {
        json.object(|json, key| match &*key {
            "aliases" => {
                let mut is_empty = true;
                json.object(|json, alias| {
                    is_empty = false;
                    reading.need(ALIASES, Target::AddedName(alias))?;
                    json.object(|json, key| match &*key {
                        "filter" => lookups::read(reading, json, &lookups::nothing()),
                        // For a node the alias is over with an object that it does not know: the next member is another alias.
                        _ => scalar(json),
                    })
                })?;
                if !is_empty {
                    reading.need(ALIASES, Target::Name(name.clone()))?;
                }
                Ok(())
            }
            _ => json.skip().map(drop),
        })
    })
}

/// `{"aliases": {NAME: {"filter": …}}}`, or the same in `template`.
fn alias_filters(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Ok(());
    }
    Json::whole(body, |json| {
        json.object(|json, key| match (&*key, json.peek()?) {
            ("aliases", _) => aliases_of_new(reading, json),
            ("template", Value::Object) => json.object(|json, key| match &*key {
                "aliases" => aliases_of_new(reading, json),
                _ => json.skip().map(drop),
            }),
            _ => json.skip().map(drop),
        })
    })
}

/// Aliases that an index gets when it is made.
fn aliases_of_new<'a>(reading: &mut Reading<'_, 'a>, json: &mut Json<'a>) -> Result<(), Problem> {
    if json.clone().skip()? != b"{}" {
        reading.add_names();
    }
    lookups::read(reading, json, &lookups::nothing())
}

/// `{"indices": …, "include_global_state": false}`. The state of the cluster has what roles do not grant one by one.
fn restore(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Ok(());
    }
    Json::whole(body, |json| {
        json.object(|json, key| {
            let value = json.skip()?;
            if key == "include_global_state" && value != b"false" {
                return Err(Problem::Unsupported("restoring the state of the cluster"));
            }
            // A copy by another name.
            if key.starts_with("rename") {
                reading.add_names();
            }
            Ok(())
        })
    })
}

/// `{"index": …, "alias": …, "filter": …}`: what it names takes the place of what the path names.
fn put_alias(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    let mut has_index = reading.parameter("index")?.is_some();
    if !body.is_empty() {
        Json::whole(body, |json| {
            json.object(|json, key| match &*key {
                "index" | "indices" => {
                    let indices = text(json)?;
                    if let Some(indices) = indices {
                        has_index = true;
                        let indices = if indices.is_empty() { Cow::Borrowed("_all") } else { indices };
                        let indices = reading.expression(indices, reading.options)?;
                        reading.need(ALIASES, Target::Fixed(indices))?;
                    }
                    Ok(())
                }
                "alias" => {
                    if let Some(alias) = text(json)? {
                        reading.need(ALIASES, Target::AddedName(alias))?;
                    }
                    Ok(())
                }
                "filter" => lookups::read(reading, json, &lookups::nothing()),
                // Nodes of 2.x read the members of an object that they do not know as if they stood here.
                _ => scalar(json),
            })
        })?;
    }
    if !has_index {
        let options = Options { closed: true, hidden: true, ..Options::OPEN };
        reading.need(ALIASES, Target::Fixed(Expression::new("_all", options)))?;
    }
    Ok(())
}

/// `{"actions": [{"add": {"index": …, "alias": …}}, {"remove": …}, {"remove_index": …}]}`
fn aliases(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    // If one action deletes an index, a node asks for deletion on the indices of all.
    let mut actions = ALIASES;
    for is_gathering in [false, true] {
        Json::whole(body, |json| {
            json.object(|json, key| {
                if key != "actions" {
                    return Err(Problem::Invalid("its body has an unknown key"));
                }
                items(json, |json| {
                    json.object(|json, action| {
                        match &*action {
                            "add" | "remove" => {}
                            "remove_index" => actions = ALIASES_AND_DELETE,
                            _ => return Err(Problem::Invalid("its body has an unknown key")),
                        }
                        if is_gathering {
                            alias_action(reading, json, actions)
                        } else {
                            json.skip().map(drop)
                        }
                    })
                })
            })
        })?;
    }
    // A node refuses it, too. What needs nothing would be open to everyone.
    if reading.needs.is_empty() { Err(Problem::Invalid("its body has no action")) } else { Ok(()) }
}

fn alias_action<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    actions: &'static [Action],
) -> Result<(), Problem> {
    let options = Options { closed: true, ..Options::OPEN };
    let mut has_index = false;
    json.object(|json, key| match &*key {
        "index" | "indices" => {
            let names = list(json)?;
            has_index |= !names.is_empty();
            let indices = reading.expression(names, options)?;
            reading.need(actions, Target::Fixed(indices))
        }
        "alias" | "aliases" => items(json, |json| {
            let name = json.string()?;
            reading.need(ALIASES, Target::AddedName(name))?;
            Ok(())
        }),
        _ => lookups::read(reading, json, &lookups::nothing()),
    })?;
    if has_index { Ok(()) } else { Err(Problem::Invalid("an action on aliases names no index")) }
}

/// `{"source": {"index": …, "query": …}, "dest": {"index": …}, "script": …}`
fn reindex(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    let (mut has_source, mut has_destination) = (false, false);
    let refreshes = reading.query.flag("refresh")? == Some(true);
    let nothing = lookups::nothing();
    let mut lookups = Lookups::of(&nothing);
    Json::whole(body, |json| {
        json.object(|json, key| match &*key {
            "source" => json.object(|json, key| match &*key {
                "index" => {
                    let names = if json.peek()? == Value::Array { list(json)? } else { json.string()? };
                    has_source |= !names.is_empty();
                    let indices = reading.expression(names, Options::OPEN)?;
                    reading.need_copy(SEARCH, Target::Fixed(indices))
                }
                "remote" => Err(Problem::Unsupported("indices of remote clusters")),
                // The rest is a whole search.
                key => lookups.member(reading, json, key),
            }),
            "dest" => json.object(|json, key| match &*key {
                "index" => {
                    has_destination = true;
                    let name = reading.name(json.string()?)?;
                    reading.need(INDEX_DOCUMENTS, Target::Name(name.clone()))?;
                    if refreshes {
                        reading.need(REFRESH, Target::Name(name.clone()))?;
                    }
                    reading.need(CREATE, Target::Missing(name))?;
                    Ok(())
                }
                "pipeline" => {
                    if text(json)?.is_some_and(|name| name != "_none") {
                        ingest_anywhere(reading)?;
                    }
                    Ok(())
                }
                _ => json.skip().map(drop),
            }),
            "script" => {
                // It may set `ctx._index`, and delete.
                reading.need_all(WRITE_ANYWHERE)?;
                json.skip().map(drop)
            }
            _ => json.skip().map(drop),
        })
    })?;
    lookups.finish(reading)?;
    if has_source && has_destination {
        Ok(())
    } else {
        Err(Problem::Invalid("its body lacks a source or destination"))
    }
}

/// Any value that is neither an object nor an array.
fn scalar(json: &mut Json<'_>) -> Result<(), Problem> {
    match json.peek()? {
        Value::Object | Value::Array => {
            Err(Problem::Invalid("its body has an object or array in place of a value"))
        }
        Value::String | Value::Null | Value::Other => json.skip().map(drop),
    }
}

/// Text, or nothing for `null`.
fn text<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, Problem> {
    if json.peek()? == Value::Null { json.skip().map(|_| None) } else { json.string().map(Some) }
}

/// A name or pattern that stands in an array, or where a list is not split.
fn listed<'a>(json: &mut Json<'a>) -> Result<Cow<'a, str>, Problem> {
    let name = json.string()?;
    if name.is_empty() || name.contains(',') {
        return Err(Problem::Invalid("its body names an index that cannot exist"));
    }
    Ok(name)
}

/// The names and patterns of an array, with commas between them, or a single one. A node resolves them together: what one
/// stands for may depend on the others.
fn list<'a>(json: &mut Json<'a>) -> Result<Cow<'a, str>, Problem> {
    if json.peek()? != Value::Array {
        return listed(json);
    }
    let mut names = Vec::new();
    json.array(|json| {
        names.push(listed(json)?);
        Ok(())
    })?;
    Ok(Cow::Owned(names.join(",")))
}

/// A value, or each value of an array.
fn items<'a>(
    json: &mut Json<'a>,
    mut item: impl FnMut(&mut Json<'a>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    if json.peek()? == Value::Array { json.array(item) } else { item(json) }
}
