//! The section `roles`.

use crate::document::{Fields, Key, Node, Reader};
use crate::parse::names::{is_name, name_refs, user_id_from};
use crate::parse::rule;
use crate::parse::unresolved::{UnresolvedPolicy, UnresolvedRole, UnresolvedRule};
use crate::warning::Warning;

/// Reads the roles of one file.
pub(crate) fn read(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`roles`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let errors = reader.errors();
        let _ = is_name(reader, key.at, &key.text, "a role's name") && is_listable(reader, key);
        let role = role(reader, key, node);
        policy.roles.push(role);
        policy.missing.rules |= reader.errors() > errors;
    }
}

/// Reports a role name with a comma, because headers join role names with commas.
fn is_listable(reader: &mut Reader, key: &Key) -> bool {
    let listable = !key.text.contains(',');
    if !listable {
        reader.error_help(key.at, "a role's name has a comma in it", "write `-` instead");
    }
    listable
}

fn role(reader: &mut Reader, key: &Key, node: &Node) -> UnresolvedRole {
    let errors = reader.errors();
    let mut role = UnresolvedRole {
        name: key.text.clone(),
        extends: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        user_id_from: None,
        at: reader.place(key.at),
    };
    let known = ["extends", "allow", "deny", "user_id_from"];
    if !node.is_nothing()
        && let Some(fields) = reader.fields(node, "a role", &known)
    {
        role.extends = name_refs(reader, &fields, "extends", "the name of a role");
        role.allow = rules(reader, &fields, "allow");
        role.deny = rules(reader, &fields, "deny");
        role.user_id_from = user_id_from(reader, &fields);
    }
    if role.extends.is_empty() && role.allow.is_empty() && role.deny.is_empty() && reader.errors() == errors {
        let message = format!("the role `{}` says nothing", key.text);
        reader.warning_help(key.at, Warning::EmptyRole, message, "add `allow`, `deny` or `extends`");
    }
    role
}

fn rules(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<UnresolvedRule> {
    let items = fields.value(key).and_then(|node| reader.list(node, &format!("`{key}`")));
    items.unwrap_or_default().iter().filter_map(|node| rule::read(reader, node)).collect()
}
