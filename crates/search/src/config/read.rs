//! The common form of the files: an entry for each name, beside `_meta`.

use std::sync::Arc;

use document::{Fields, Hints, Key, Node, Reader, Text};

use super::Loader;
use crate::pattern::Pattern;

/// Keys that entries of every file may have, without effect on privileges.
pub(super) const NOTES: [&str; 4] = ["reserved", "hidden", "static", "description"];

pub(super) const ROLE: &str = "a role of the cluster";
pub(super) const INDEX_PERMISSION: &str = "each of `index_permissions`";
pub(super) const USER: &str = "a user of the cluster";

/// Hints for keys that belong to the role files of other products, such as Elasticsearch.
const HINTS: Hints = Hints {
    keys: &[
        (ROLE, &["cluster"], Some("cluster_permissions"), ""),
        (ROLE, &["indices", "index"], Some("index_permissions"), ""),
        (
            ROLE,
            &["users", "groups", "members", "backend_roles"],
            None,
            "a role does not name its users: map it in `roles_mapping.yml`",
        ),
        (INDEX_PERMISSION, &["names", "indices", "index", "patterns"], Some("index_patterns"), ""),
        (INDEX_PERMISSION, &["privileges", "actions", "permissions"], Some("allowed_actions"), ""),
        (INDEX_PERMISSION, &["query"], Some("dls"), ""),
        (INDEX_PERMISSION, &["field_security", "fields"], Some("fls"), ""),
        ("an action group", &["actions", "permissions", "members"], Some("allowed_actions"), ""),
        ("a role mapping", &["groups", "roles"], Some("backend_roles"), ""),
        (USER, &["password", "password_hash"], Some("hash"), ""),
        (
            USER,
            &["roles", "groups"],
            Some("backend_roles"),
            "did you mean `backend_roles`, which `roles_mapping.yml` maps to roles, or \
             `opendistro_security_roles`?",
        ),
    ],
    wrong_types: &[],
};

/// Reads a file with an entry for each name, and checks its `_meta`. Returns whether it exists.
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
    if let Some(text) = reader.field_text(&fields, "type")
        && text.text != kind
    {
        let message = format!("this file has the type `{}`, not `{kind}`", text.text);
        reader.error(text.at, message);
    }
    match reader.field_text(&fields, "config_version") {
        Some(version) if version.text == "2" => {}
        Some(version) => reader.error(version.at, "only `config_version: 2` is supported"),
        None if fields.has_misspelled("config_version") => {}
        None => reader.error(fields.at, "`config_version: 2` is missing"),
    }
}

/// The fields of an entry, which may have [`NOTES`], too. An unknown key is an error: the plugin
/// does not load a file with an unknown key (`FAIL_ON_UNKNOWN_PROPERTIES` of its JSON reader).
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

pub(super) fn check_notes(reader: &mut Reader, fields: &Fields<'_>) {
    for note in ["reserved", "hidden", "static"] {
        reader.field_boolean(fields, note);
    }
}

pub(super) fn flag(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> bool {
    reader.field_boolean(fields, key) == Some(true)
}

/// The texts under a key; none if it is missing or empty.
pub(super) fn texts<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> Vec<Text<'n>> {
    let Some(node) = fields.value(key) else { return Vec::new() };
    reader.texts(node, &format!("`{key}`"), &format!("each of `{key}`"))
}

/// The texts under a key, without their places.
pub(super) fn names(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<Arc<str>> {
    texts(reader, fields, key).into_iter().map(|text| text.shared.clone()).collect()
}

pub(super) fn patterns(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<Pattern> {
    let texts = texts(reader, fields, key);
    texts.into_iter().filter_map(|text| pattern(reader, text)).collect()
}

/// A pattern; `None` if it is a regular expression that is not supported, which is an error.
pub(super) fn pattern(reader: &mut Reader, text: Text<'_>) -> Option<Pattern> {
    let error = match Pattern::parse(text.shared) {
        Ok(pattern) => return Some(pattern),
        Err(error) => error,
    };
    // The offset counts from the start of the expression, which is after the `/`.
    let at = text.locate(text.text.get(1 + error.offset..).unwrap_or(text.text));
    reader.error(at, error.message);
    None
}
