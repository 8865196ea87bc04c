//! Bulk requests of which only some items are permitted.
//!
//! The cluster's security plugin answers such a request with an error for each item that is not permitted, and performs the others.
//! In front of the cluster the same takes two changes: the items that are not permitted are taken out of the request, and
//! their errors are put into the response, where the client looks for them: at the position of the item.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::body::bulk::{Item, each};
use crate::json::{Json, Value};
use crate::need::{Need, Target};
use crate::parameters::{Plus, decode};
use crate::problem::Problem;
use crate::reading::Request;
use crate::request::route;

/// The permitted items of a bulk request, of which there is one at least, and those that are not.
#[derive(Debug)]
pub struct PermittedItems<'a> {
    /// The body with the permitted items only.
    pub body: Vec<u8>,
    /// How many there are.
    pub count: usize,
    /// The others, in their order.
    pub denied: Vec<DeniedItem<'a>>,
}

/// An item that is not permitted.
#[derive(Debug)]
pub struct DeniedItem<'a> {
    /// Its position among all items of the request, from 0.
    pub position: usize,
    /// What it does: `index`, `create`, `update` or `delete`.
    pub operation: &'static str,
    /// The index that it names.
    pub index: Cow<'a, str>,
    /// The id of its document, if it has one: the cluster takes a number for text.
    pub id: Option<Cow<'a, str>>,
}

/// How many indices a request may name whose items are separated. Working out what is missing takes much longer than deciding.
const MAX_INDICES: usize = 250;

/// How many items are denied one by one.
const MAX_DENIED: usize = 20_000;

/// How many items may be forwarded without the others: their results are kept in memory until all have arrived.
const MAX_FORWARDED: usize = 20_000;

/// Separates the items of a bulk request with these needs. `permits` is asked once for each index that the request names, with what all
/// of the items on this index need: if one of them is not permitted, none is. The plugin decides so for each shard of an index.
///
/// The caller must read the new request, and decide about what it needs.
///
/// `None` if the request is no bulk request, if no item is permitted, if it names too many indices, has too many items that are
/// denied or too many others, or if errors cannot be added to its response (`filter_path`, `format`).
pub fn permitted_items<'a>(
    request: &Request<'a>,
    needs: &[Need<'a>],
    mut permits: impl FnMut(&str, &[Need<'a>]) -> bool,
) -> Option<PermittedItems<'a>> {
    let mut unused = Vec::new();
    let reading = route(request, &mut unused).ok()?;
    if reading.found.group.name != "bulk" || changes_response(request.target) {
        return None;
    }
    let mut by_name: BTreeMap<&str, Vec<Need<'a>>> = BTreeMap::new();
    for need in needs {
        match &need.target {
            Target::Name(name) | Target::Missing(name) => {
                by_name.entry(name).or_default().push(need.clone());
            }
            Target::Cluster | Target::Indices(_) | Target::Fixed(_) | Target::AddedName(_) => {}
        }
    }
    if by_name.len() > MAX_INDICES {
        return None;
    }
    let permitted: BTreeSet<&str> =
        by_name.into_iter().filter(|(name, needs)| permits(name, needs)).map(|(name, _)| name).collect();
    let default = reading.parameter("index").ok()?;
    let mut items = PermittedItems { body: Vec::new(), count: 0, denied: Vec::new() };
    let separate = |Item { operation, index, id, lines, .. }: Item<'a>| {
        let index = index.or_else(|| default.clone()).ok_or(Problem::Invalid("an item names no index"))?;
        let index = reading.name(index)?;
        if permitted.contains(&*index) {
            items.body.extend_from_slice(lines);
            items.count += 1;
        } else {
            let (position, id) = (items.count + items.denied.len(), id.map(text_of).transpose()?.flatten());
            items.denied.push(DeniedItem { position, operation, index, id });
        }
        if items.count > MAX_FORWARDED || items.denied.len() > MAX_DENIED {
            return Err(Problem::Unsupported("so many items of which some are not permitted"));
        }
        Ok(())
    };
    each(reading.body().ok()?, false, separate).ok()?;
    (items.count > 0).then_some(items)
}

/// An id as the cluster reads it: the text of a string, and a number as it is written.
fn text_of(id: &[u8]) -> Result<Option<Cow<'_, str>>, Problem> {
    Json::whole(id, |json| match json.peek()? {
        Value::String => json.string().map(Some),
        Value::Null => json.skip().map(|_| None),
        Value::Other => {
            let text = std::str::from_utf8(json.skip()?);
            text.map(|text| Some(text.into())).map_err(|_| Problem::Invalid("an id is not UTF-8"))
        }
        Value::Object | Value::Array => Err(Problem::Invalid("an id is no text")),
    })
}

/// Whether a parameter leaves parts of the response out, or has it in another format than JSON.
fn changes_response(target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let changes = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        decode(name, Plus::IsSpace).map_or(true, |name| matches!(&*name, "filter_path" | "format"))
    };
    query.split(['&', ';']).any(changes)
}

/// The cluster's response to the `count` permitted items of a bulk request, with the errors of the others at their positions,
/// which are sorted. They make it some `added` bytes longer. `None` if it is not the response to so many items.
#[must_use]
pub fn with_denied<'r>(
    response: &'r [u8],
    count: usize,
    denied: impl Iterator<Item = (usize, &'r str)>,
    added: usize,
) -> Option<Vec<u8>> {
    let mut items = Vec::with_capacity(count);
    let mut others = Vec::new();
    let mut has_items = false;
    let read = |json: &mut Json<'r>| {
        json.object(|json, key| match &*key {
            "items" if std::mem::replace(&mut has_items, true) => {
                Err(Problem::Invalid("the response has two lists of items"))
            }
            "items" => json.array(|json| {
                items.push(json.skip()?);
                Ok(())
            }),
            "errors" => json.skip().map(drop),
            _ => {
                others.push((key.into_owned(), json.skip()?));
                Ok(())
            }
        })
    };
    Json::whole(response, read).ok()?;
    if items.len() != count
        || others.iter().any(|(key, _)| key.contains(['"', '\\']) || key.contains(char::is_control))
    {
        return None;
    }
    let mut text = Vec::with_capacity(response.len() + added);
    text.push(b'{');
    for (key, value) in others {
        text.extend([b"\"", key.as_bytes(), b"\":", value, b","].concat());
    }
    text.extend_from_slice(b"\"errors\":true,\"items\":[");
    let mut permitted = items.into_iter();
    let mut written = 0;
    let mut write = |item: &[u8]| {
        text.extend_from_slice(if written > 0 { b"," } else { b"" });
        text.extend_from_slice(item);
        written += 1;
    };
    let mut last = 0;
    for (position, error) in denied {
        // As many permitted items as stand between the two denied ones.
        for _ in last..position {
            write(permitted.next()?);
        }
        write(error.as_bytes());
        last = position + 1;
    }
    permitted.for_each(write);
    text.extend_from_slice(b"]}");
    Some(text)
}

#[cfg(test)]
mod tests;
