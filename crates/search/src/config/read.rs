//! What the files have in common: an entry for each name, beside `_meta`.

use std::sync::Arc;

use document::{Fields, Key, Node, Reader, Text};

use super::Loader;
use super::hints::HINTS;
use crate::pattern::Pattern;

/// Keys that entries of every file may have, without effect on privileges.
const NOTES: [&str; 4] = ["reserved", "hidden", "static", "description"];

/// Reads a file with an entry for each name, and checks its `_meta`. Returns whether it is there.
pub(super) fn read_entries(
    loader: &mut Loader<'_>,
    name: &str,
    kind: &str,
    read: impl FnOnce(&mut Reader, &[(&Key, &Node)]),
) -> bool {
    let Some((path, bytes)) = loader.file(name) else { return false };
    let mut reader = Reader::with_hints(path.as_path().into(), HINTS);
    if let Some(root) = reader.parse(&bytes).filter(|root| !root.is_nothing())
        && let Some(fields) = reader.entries(&root, "the file")
    {
        let (metas, entries): (Vec<_>, Vec<_>) =
            fields.iter().partition(|(key, _)| &*key.text == "_meta");
        for (_, node) in metas {
            check_meta(&mut reader, node, kind);
        }
        read(&mut reader, &entries);
        if fields.field("_meta").is_none() {
            let help = format!("add `_meta: {{ type: {kind}, config_version: 2 }}`");
            reader.error_help(fields.at, "the file has no `_meta`", help);
        }
    }
    loader.problems.extend(reader.finish());
    true
}

/// Checks the type of the file and the version of its format.
fn check_meta(reader: &mut Reader, node: &Node, kind: &str) {
    let Some(fields) = reader.fields(node, "`_meta`", &["type", "config_version"]) else { return };
    if let Some(found) = fields.value("type").and_then(|node| reader.text(node, "`type`"))
        && found.text != kind
    {
        let message = format!("this file has the type `{}`, not `{kind}`", found.text);
        reader.error(found.at, message);
    }
    match fields.value("config_version").and_then(|node| reader.text(node, "`config_version`")) {
        Some(version) if version.text == "2" => {}
        Some(version) => reader.error(version.at, "only `config_version: 2` is supported"),
        None if fields.means("config_version") => {}
        None => reader.error(fields.at, "`config_version: 2` is missing"),
    }
}

/// The fields of an entry, which may have notes, too. Another key is an error: the plugin does not
/// load a file with one (`FAIL_ON_UNKNOWN_PROPERTIES` of its JSON reader).
pub(super) fn fields<'n>(
    reader: &mut Reader,
    node: &'n Node,
    what: &str,
    known: &[&str],
) -> Option<Fields<'n>> {
    let fields = reader.fields(node, what, &[known, &NOTES].concat())?;
    check_notes(reader, &fields);
    Some(fields)
}

/// The same for an entry in which a key may be a misplaced secret: an unknown key is not shown.
pub(super) fn secret_fields<'n>(
    reader: &mut Reader,
    node: &'n Node,
    what: &str,
    known: &[&str],
) -> Option<Fields<'n>> {
    let fields = reader.secret_fields(node, what, &[known, &NOTES].concat())?;
    check_notes(reader, &fields);
    Some(fields)
}

fn check_notes(reader: &mut Reader, fields: &Fields<'_>) {
    for note in ["reserved", "hidden", "static"] {
        flag(reader, fields, note);
    }
}

/// Whether a flag is `true`.
pub(super) fn flag(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> bool {
    fields.value(key).and_then(|node| reader.boolean(node, &format!("`{key}`"))).unwrap_or(false)
}

/// The texts under a key; none if it is missing or empty.
pub(super) fn texts<'n>(
    reader: &mut Reader,
    fields: &Fields<'n>,
    key: &str,
) -> Vec<(Text<'n>, &'n Arc<str>)> {
    let Some(node) = fields.value(key) else { return Vec::new() };
    let texts = reader.texts(node, &format!("`{key}`"), &format!("each of `{key}`"));
    texts.into_iter().map(|text| (text, text.shared)).collect()
}

/// The same, without their places.
pub(super) fn names(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<Arc<str>> {
    texts(reader, fields, key).into_iter().map(|(_, text)| text.clone()).collect()
}

/// The patterns under a key.
pub(super) fn patterns(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<Pattern> {
    let texts = texts(reader, fields, key);
    texts.into_iter().filter_map(|(text, shared)| pattern(reader, text, shared)).collect()
}

/// A pattern; `None` if it is a regular expression that is not supported, which is an error.
pub(super) fn pattern(reader: &mut Reader, text: Text<'_>, shared: &Arc<str>) -> Option<Pattern> {
    match Pattern::parse(shared) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let at = text.locate(text.text.get(1 + error.offset..).unwrap_or(text.text));
            reader.error(at, error.message);
            None
        }
    }
}
