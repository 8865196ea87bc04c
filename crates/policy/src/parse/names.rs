//! Names of roles, rules, users and groups.

use std::sync::Arc;

use crate::parse::unresolved::{NameRef, NameRefs};
use document::{Fields, Mark, Node, Reader, Text};

/// Whether this can be the name of a role or rule. Names appear in headers and logs.
pub(crate) fn is_name(reader: &mut Reader, at: Mark, name: &str, what: &str) -> bool {
    if name.trim().is_empty() {
        reader.error(at, format!("{what} is empty"));
        return false;
    }
    if name.chars().any(char::is_control) {
        reader.error(at, format!("{what} has a control character in it"));
        return false;
    }
    true
}

/// A list of names with their places.
pub(crate) fn name_refs(reader: &mut Reader, fields: &Fields<'_>, key: &str, item: &str) -> Vec<NameRef> {
    let Some(node) = fields.value(key) else { return Vec::new() };
    let texts: Vec<(Text<'_>, &Arc<str>)> = reader.texts(node, &format!("`{key}`"), item);
    reader.warn_of_duplicates(&texts);
    let mut names = Vec::with_capacity(texts.len());
    for (text, name) in texts {
        if is_name(reader, text.at, text.text, item) {
            names.push(NameRef { name: name.clone(), at: text.at });
        }
    }
    names
}

/// The sources that `user_id_from` names.
pub(crate) fn user_id_from(reader: &mut Reader, fields: &Fields<'_>) -> Option<NameRefs> {
    let (key, node) = fields.field("user_id_from")?;
    let errors = reader.errors();
    let names = name_refs(reader, fields, "user_id_from", "the name of a source");
    if names.is_empty() && reader.errors() == errors {
        let help = "name `basic` or an issuer, or leave it out";
        reader.error_help(node.at, "`user_id_from` is empty", help);
    }
    Some(NameRefs { names, at: key.at })
}

/// The value of `user_prefix` or `group_prefix`.
pub(crate) fn prefix(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Arc<str> {
    let text = fields.value(key).and_then(|node| reader.shared(node, &format!("`{key}`")));
    let Some((text, prefix)) = text else { return "".into() };
    if text.text.chars().any(char::is_control) {
        reader.error(text.at, format!("`{key}` has a control character in it"));
    }
    prefix.clone()
}

/// A list of names, none of them empty.
pub(crate) fn names(reader: &mut Reader, node: &Node, what: &str, item: &str) -> Vec<Arc<str>> {
    let texts = reader.texts(node, what, item);
    reader.warn_of_duplicates(&texts);
    let valid = texts.into_iter().filter(|(text, _)| is_name(reader, text.at, text.text, item));
    valid.map(|(_, name)| name.clone()).collect()
}
