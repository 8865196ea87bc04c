//! Bulk requests of which only some items are permitted.
//!
//! The security plugin performs the permitted items, and answers each denied item with an error. In
//! front of the cluster this takes two changes: denied items are removed from the request, and
//! their errors are inserted into the response, at the positions of the items.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::body::bulk::{RepeatedItems, each_item};
use crate::json::{Json, Value};
use crate::need::{Need, Target};
use crate::parameters::{Plus, Query, decode};
use crate::problem::Problem;
use crate::reading::Request;
use crate::request::start_reading;

/// The permitted items of a bulk request (at least one), and the denied items.
#[derive(Debug)]
pub struct PermittedItems<'a> {
    /// The body with the permitted items only.
    pub body: Vec<u8>,
    /// The number of items in the body.
    pub count: usize,
    /// The denied items, in their order.
    pub denied: Vec<DeniedItem<'a>>,
}

/// An item that is not permitted.
#[derive(Debug)]
pub struct DeniedItem<'a> {
    /// Its position among all items of the request, from 0.
    pub position: usize,
    /// `index`, `create`, `update` or `delete`.
    pub operation: &'static str,
    /// The index that it names.
    pub index: Cow<'a, str>,
    /// The id of its document, if the request has it.
    pub id: Option<Cow<'a, str>>,
}

/// The most indices of a request whose items are separated. Each index takes a decision of its own,
/// and a denial takes longer than a permission.
const MAX_INDICES: usize = 250;

/// The most denied items.
const MAX_DENIED: usize = 20_000;

/// The most items that are forwarded if some are denied. Their results are kept in memory.
const MAX_FORWARDED: usize = 20_000;

/// Separates the items of a bulk request with these needs. `permits` is called once for each index,
/// with the needs of all its items: like the plugin, it permits all or none of them.
///
/// The code that calls this must then read the new request, and decide about its needs.
///
/// `None` if the request is no bulk request, if no item is permitted, if it has too many indices,
/// denied items or permitted items, or if errors cannot be added to its response (`filter_path`,
/// `format`).
pub fn permitted_items<'a>(
    request: &Request<'a>,
    needs: &[Need<'a>],
    mut permits: impl FnMut(&str, &[Need<'a>]) -> bool,
) -> Option<PermittedItems<'a>> {
    let mut unused = Vec::new();
    let reading = start_reading(request, &mut unused).ok()?;
    if reading.operation.name != "bulk" || changes_response(reading.query) {
        return None;
    }
    let mut needs_by_index: BTreeMap<&str, Vec<Need<'a>>> = BTreeMap::new();
    for need in needs {
        if let Target::Name(index) | Target::CreatedIfMissing(index) = &need.target {
            needs_by_index.entry(index).or_default().push(need.clone());
        }
    }
    if needs_by_index.len() > MAX_INDICES {
        return None;
    }
    needs_by_index.retain(|index, needs| permits(index, needs));
    let default = reading.index_name("index").ok()?;
    let mut items = PermittedItems { body: Vec::new(), count: 0, denied: Vec::new() };
    each_item(reading.body().ok()?, RepeatedItems::Read, |item| {
        let index = item.index_or(&default, &reading)?;
        if needs_by_index.contains_key(&*index) {
            items.body.extend_from_slice(item.lines);
            items.count += 1;
        } else {
            let position = items.count + items.denied.len();
            let id = item.id.map(text_of_id).transpose()?.flatten();
            items.denied.push(DeniedItem { position, operation: item.operation, index, id });
        }
        if items.count > MAX_FORWARDED || items.denied.len() > MAX_DENIED {
            return Err(Problem::Unsupported("so many items of which some are not permitted"));
        }
        Ok(())
    })
    .ok()?;
    (items.count > 0).then_some(items)
}

/// An id as the cluster reads it: a number is read as its text.
fn text_of_id(id: &[u8]) -> Result<Option<Cow<'_, str>>, Problem> {
    Json::whole(id, |json| match json.peek()? {
        Value::String => json.string().map(Some),
        Value::Null => json.ignore().map(|()| None),
        Value::Other => {
            let text = std::str::from_utf8(json.raw_value()?);
            text.map(|text| Some(text.into())).map_err(|_| Problem::Invalid("an id is not UTF-8"))
        }
        Value::Object | Value::Array => Err(Problem::Invalid("an id is no text")),
    })
}

/// Whether a parameter removes parts of the response, or selects another format than JSON.
fn changes_response(query: Query<'_>) -> bool {
    query.pairs().any(|(name, _)| {
        decode(name, Plus::IsSpace).map_or(true, |name| matches!(&*name, "filter_path" | "format"))
    })
}

/// Inserts the errors of denied items into the cluster's response to the permitted items.
///
/// `count` is the number of permitted items. `denied` has the position and the error of each denied
/// item, sorted by position. `added` is about the number of bytes that the errors add.
///
/// `None` if the response has another number of items, or if it cannot be read.
#[must_use]
pub fn with_denied<'r>(
    response: &'r [u8],
    count: usize,
    denied: impl Iterator<Item = (usize, &'r str)>,
    added: usize,
) -> Option<Vec<u8>> {
    let (mut items, mut members, mut has_items) = (Vec::with_capacity(count), Vec::new(), false);
    Json::whole(response, |json| {
        json.object(|json, key| match &*key {
            "items" if std::mem::replace(&mut has_items, true) => {
                Err(Problem::Invalid("the response has two lists of items"))
            }
            "items" => json.array(|json| {
                items.push(json.raw_value()?);
                Ok(())
            }),
            "errors" => json.ignore(),
            _ => {
                members.push((key, json.raw_value()?));
                Ok(())
            }
        })
    })
    .ok()?;
    if items.len() != count
        || members
            .iter()
            .any(|(key, _)| key.contains(['"', '\\']) || key.contains(char::is_control))
    {
        return None;
    }
    let mut results: Vec<&[u8]> = Vec::with_capacity(count);
    let mut permitted = items.into_iter();
    for (position, error) in denied {
        while results.len() < position {
            results.push(permitted.next()?);
        }
        results.push(error.as_bytes());
    }
    results.extend(permitted);
    let mut text = Vec::with_capacity(response.len() + added);
    text.push(b'{');
    for (key, value) in members {
        text.extend([b"\"", key.as_bytes(), b"\":", value, b","].concat());
    }
    text.extend_from_slice(b"\"errors\":true,\"items\":[");
    text.extend(results.join(&b','));
    text.extend_from_slice(b"]}");
    Some(text)
}

#[cfg(test)]
mod tests;
