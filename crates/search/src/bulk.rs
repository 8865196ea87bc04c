//! Bulk requests of which only some items are permitted.
//!
//! The security plugin answers with an error for each denied item, and performs the others. In
//! front of the cluster this takes two changes: denied items are taken out of the request, and
//! their errors are put into the response, at the positions of the items.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::body::bulk::{Item, each};
use crate::json::{Json, Value};
use crate::need::{Need, Target};
use crate::parameters::{Plus, Query, decode};
use crate::problem::Problem;
use crate::reading::Request;
use crate::request::route;

/// The permitted items of a bulk request, at least one, and the denied ones.
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
    /// `index`, `create`, `update` or `delete`.
    pub operation: &'static str,
    /// The index that it names.
    pub index: Cow<'a, str>,
    /// The id of its document, if it has one: the cluster takes a number for text.
    pub id: Option<Cow<'a, str>>,
}

/// The most indices of a request whose items are separated. Denials take longer than decisions.
const MAX_INDICES: usize = 250;

/// The most items that are denied one by one.
const MAX_DENIED: usize = 20_000;

/// The most items that are forwarded without the others. Their results are kept in memory.
const MAX_FORWARDED: usize = 20_000;

/// Separates the items of a bulk request with these needs. `permits` is asked once for each index,
/// with the needs of all items on it: like the plugin, it permits all or none of them.
///
/// The caller must read the new request, and decide about its needs.
///
/// `None` if the request is no bulk request, if no item is permitted, if it has too many indices,
/// denied items or others, or if errors cannot be added to its response (`filter_path`, `format`).
pub fn permitted_items<'a>(
    request: &Request<'a>,
    needs: &[Need<'a>],
    mut permits: impl FnMut(&str, &[Need<'a>]) -> bool,
) -> Option<PermittedItems<'a>> {
    let mut unused = Vec::new();
    let reading = route(request, &mut unused).ok()?;
    if reading.found.group.name != "bulk" || changes_response(reading.query) {
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
    let permitted: BTreeSet<&str> = by_name
        .into_iter()
        .filter(|(name, needs)| permits(name, needs))
        .map(|(name, _)| name)
        .collect();
    let default = reading.parameter("index").ok()?;
    let mut items = PermittedItems { body: Vec::new(), count: 0, denied: Vec::new() };
    let separate = |Item { operation, index, id, lines, .. }: Item<'a>| {
        let index =
            index.or_else(|| default.clone()).ok_or(Problem::Invalid("an item names no index"))?;
        let index = reading.name(index)?;
        if permitted.contains(&*index) {
            items.body.extend_from_slice(lines);
            items.count += 1;
        } else {
            let (position, id) =
                (items.count + items.denied.len(), id.map(text_of).transpose()?.flatten());
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
fn changes_response(query: Query<'_>) -> bool {
    query.pairs().any(|(name, _)| {
        decode(name, Plus::IsSpace).map_or(true, |name| matches!(&*name, "filter_path" | "format"))
    })
}

/// The cluster's response to the `count` permitted items of a bulk request, with the errors of the
/// others at their sorted positions, about `added` bytes. `None` if it has another number of items.
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
    for (key, value) in others {
        text.extend([b"\"", key.as_bytes(), b"\":", value, b","].concat());
    }
    text.extend_from_slice(b"\"errors\":true,\"items\":[");
    for (position, result) in results.into_iter().enumerate() {
        text.extend_from_slice(if position > 0 { b"," } else { b"" });
        text.extend_from_slice(result);
    }
    text.extend_from_slice(b"]}");
    Some(text)
}

#[cfg(test)]
mod tests;
