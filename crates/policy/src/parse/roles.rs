//! The section `roles`.

use crate::levels::ROLE;
use crate::parse::names::{is_name, name_refs, user_id_from};
use crate::parse::rule;
use crate::parse::sections::is_section;
use crate::parse::unresolved::{Missing, UnresolvedPolicy, UnresolvedRole, UnresolvedRule};
use document::{Fields, Key, Node, Reader, Value, Warning};

/// Reads the roles of one file.
pub(crate) fn read(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`roles`");
    let mut above = None;
    let mut entries = entries.iter().flat_map(Fields::iter).peekable();
    while let Some((key, node)) = entries.next() {
        let errors = reader.errors();
        if is_outdented(key, node) {
            outdented(reader, key, above);
            policy.missing.rules = true;
            continue;
        }
        if is_section(reader, ("roles", ROLE), (key, node)) {
            policy.missing = Missing::ALL;
            continue;
        }
        above = Some(key);
        let _ = is_name(reader, key.at, &key.text, "a role's name") && is_listable(reader, key);
        let is_followed = entries.peek().is_some_and(|(key, node)| is_outdented(key, node));
        let role = role(reader, key, node, is_followed);
        policy.roles.push(role);
        policy.missing.rules |= reader.errors() > errors;
    }
}

/// Whether this looks like a key of the role above it.
fn is_outdented(key: &Key, node: &Node) -> bool {
    ROLE.contains(&&*key.text) && matches!(node.value, Value::List(_))
}

fn outdented(reader: &mut Reader, key: &Key, role: Option<&Key>) {
    let message = format!("`{}` is read as the name of a role", key.text);
    let help = match role {
        Some(role) => format!("indent it below `{}`", role.text),
        None => "write it below the name of a role".to_owned(),
    };
    reader.error_help(key.at, message, help);
}

/// Reports a role name with a comma, because headers join role names with commas.
fn is_listable(reader: &mut Reader, key: &Key) -> bool {
    let listable = !key.text.contains(',');
    if !listable {
        reader.error_help(key.at, "a role's name has a comma in it", "write `-` instead");
    }
    listable
}

/// Reads a role; `is_followed` by keys that look like its own.
fn role(reader: &mut Reader, key: &Key, node: &Node, is_followed: bool) -> UnresolvedRole {
    let errors = reader.errors();
    let mut role = UnresolvedRole {
        name: key.text.clone(),
        extends: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        user_id_from: None,
        at: reader.place(key.at),
    };
    if !node.is_nothing()
        && let Some(fields) = reader.fields(node, "a role", ROLE)
    {
        role.extends = name_refs(reader, &fields, "extends", "the name of a role");
        role.allow = rules(reader, &fields, "allow");
        role.deny = rules(reader, &fields, "deny");
        role.user_id_from = user_id_from(reader, &fields);
    }
    if role.extends.is_empty()
        && role.allow.is_empty()
        && role.deny.is_empty()
        && reader.errors() == errors
        && !is_followed
    {
        let message = format!("the role `{}` says nothing", key.text);
        reader.warning_help(key.at, Warning::EmptyRole, message, "add `allow`, `deny` or `extends`");
    }
    role
}

fn rules(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<UnresolvedRule> {
    let items = fields.value(key).and_then(|node| reader.list(node, &format!("`{key}`")));
    items.unwrap_or_default().iter().filter_map(|node| rule::read(reader, node)).collect()
}
