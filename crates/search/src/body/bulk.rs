//! The body of `_bulk`.

use std::borrow::Cow;

use foldhash::quality::RandomState;
use indexmap::IndexMap;

use super::need_ingest_pipeline;
use crate::action::Action;
use crate::json::{Json, Lines, set_once};
use crate::lookups::CREATE;
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::Reading;

/// The kinds of work on an index, as bits.
const INDEXES: u8 = 1;
const DELETES: u8 = 2;
const UPDATES: u8 = 4;
const MAY_CREATE: u8 = 8;

/// Reads the items: a line with an operation and its index, and, unless it deletes, a line with the
/// document.
pub(super) fn read(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    let body = reading.body()?;
    if body.is_empty() {
        return Err(Problem::Invalid("it has no body"));
    }
    let default = reading.index_name("index")?;
    let mut work_by_index: IndexMap<Cow<'_, str>, u8, RandomState> = IndexMap::default();
    let mut has_pipeline = false;
    each_item(body, RepeatedItems::Skipped, |item| {
        has_pipeline |= item.has_pipeline;
        *work_by_index.entry(item.index_or(&default, reading)?).or_default() |= item.work;
        Ok(())
    })?;
    for (index, work) in work_by_index {
        if work & MAY_CREATE != 0 {
            reading.need(CREATE, Target::CreatedIfMissing(index.clone()))?;
        }
        reading.need(actions_for(work), Target::Name(index))?;
    }
    if has_pipeline {
        need_ingest_pipeline(reading)?;
    }
    Ok(())
}

/// An operation on a document.
pub(crate) struct Item<'a> {
    /// `index`, `create`, `update` or `delete`.
    pub(crate) operation: &'static str,
    index: Option<Cow<'a, str>>,
    /// The id of the document, as the client wrote it: it need not be valid JSON.
    pub(crate) id: Option<&'a [u8]>,
    work: u8,
    has_pipeline: bool,
    /// The lines of the item, with their line feeds.
    pub(crate) lines: &'a [u8],
}

impl<'a> Item<'a> {
    /// The index of the item, or else the index of the path.
    pub(crate) fn index_or(
        &self,
        default: &Option<Cow<'a, str>>,
        reading: &Reading<'_, 'a>,
    ) -> Result<Cow<'a, str>, Problem> {
        match (&self.index, default) {
            (Some(index), _) => reading.checked_name(index.clone()),
            (None, Some(default)) => Ok(default.clone()),
            (None, None) => Err(Problem::Invalid("it names no index for a document")),
        }
    }
}

/// What to do with an item whose first line is the same as that of the item before. Its needs are
/// the same, too. Most items are repeated in this way: most clients write to one index, and let the
/// cluster choose the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepeatedItems {
    Skipped,
    Read,
}

/// Reads each item of a body.
pub(crate) fn each_item<'a>(
    body: &'a [u8],
    repeated: RepeatedItems,
    mut read: impl FnMut(Item<'a>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut lines = Lines(body);
    let (mut last_line, mut has_document) = (&b""[..], false);
    loop {
        let text = lines.0;
        let Some(line) = lines.next()? else { return Ok(()) };
        let mut item = None;
        if repeated == RepeatedItems::Read || line != last_line {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let new = item.insert(Json::whole(line, read_action)?);
            (last_line, has_document) = (line, new.work & DELETES == 0);
        }
        if has_document && lines.next()?.is_none() {
            return Err(Problem::Invalid("its body ends before a document"));
        }
        if let Some(mut item) = item {
            item.lines = text.get(..text.len() - lines.0.len()).unwrap_or_default();
            read(item)?;
        }
    }
}

/// Reads the first line of an item, such as `{"index": {"_index": …, "_id": …}}`.
fn read_action<'a>(json: &mut Json<'a>) -> Result<Item<'a>, Problem> {
    let mut item = None;
    json.object(|json, action| {
        let (operation, mut work) = match &*action {
            "index" => ("index", INDEXES | MAY_CREATE),
            "create" => ("create", INDEXES | MAY_CREATE),
            "delete" => ("delete", DELETES),
            "update" => ("update", UPDATES | MAY_CREATE),
            _ => return Err(Problem::Invalid("its body has an unknown action")),
        };
        let (mut index, mut id, mut has_pipeline) = (None, None, false);
        json.object(|json, key| match &*key {
            "_index" => set_once(&mut index, json.optional_string()?),
            "_id" => {
                id = Some(json.raw_value()?);
                Ok(())
            }
            "pipeline" => {
                has_pipeline |= json.names_pipeline()?;
                Ok(())
            }
            // With an external version, a deletion creates the index.
            "version_type" | "_version_type" => {
                work |= MAY_CREATE;
                json.ignore()
            }
            _ => json.ignore(),
        })?;
        let index = index.flatten();
        let new = Item { operation, index, id, work, has_pipeline, lines: &[] };
        if item.replace(new).is_some() {
            return Err(Problem::Invalid("its body has two actions in a line"));
        }
        Ok(())
    })?;
    item.ok_or(Problem::Invalid("its body has a line without an action"))
}

/// The actions of the operations in `work`.
fn actions_for(work: u8) -> &'static [Action] {
    const BULK: Action = Action::new("indices:data/write/bulk[s]");
    const INDEX: Action = Action::new("indices:data/write/index");
    const DELETE: Action = Action::new("indices:data/write/delete");
    const UPDATE: Action = Action::new("indices:data/write/update");
    const MAP: Action = Action::new("indices:admin/mapping/put");
    match (work & INDEXES != 0, work & DELETES != 0, work & UPDATES != 0) {
        (false, false, false) => &[BULK],
        (true, false, false) => &[BULK, INDEX, MAP],
        (false, true, false) => &[BULK, DELETE],
        (false, false, true) => &[BULK, UPDATE, MAP],
        (true, true, false) => &[BULK, INDEX, DELETE, MAP],
        (true, false, true) => &[BULK, INDEX, UPDATE, MAP],
        (false, true, true) => &[BULK, DELETE, UPDATE, MAP],
        (true, true, true) => &[BULK, INDEX, DELETE, UPDATE, MAP],
    }
}
