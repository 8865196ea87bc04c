//! The sections `roles` and `grants`.

use crate::keys::{GRANT, ROLE};
use crate::model::{ANYONE, AUTHENTICATED};
use crate::parse::rule;
use crate::parse::unresolved::{UnresolvedGrant, UnresolvedPolicy, UnresolvedRole, UnresolvedRule};
use crate::parse::values::{is_name, name_refs, user_id_from};
use document::{Fields, Key, Node, Reader, Warning};

/// Reads the roles of one file.
pub(crate) fn read(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`roles`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let _ = is_name(reader, key.at, &key.text, "a role's name") && is_listable(reader, key);
        policy.roles.push(role(reader, key, node));
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
    if !node.is_nothing()
        && let Some(fields) = reader.fields(node, "a role", ROLE)
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

/// Reads the grants of one file.
pub(crate) fn read_grants(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`grants`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        policy.grants.extend(grant(reader, key, node));
    }
}

fn grant(reader: &mut Reader, key: &Key, node: &Node) -> Option<UnresolvedGrant> {
    let reserved = match &*key.text {
        ANYONE => Some("every caller has it"),
        AUTHENTICATED => Some("every authenticated caller has it"),
        _ => None,
    };
    if let Some(who) = reserved {
        let message = format!("the reserved role `{}` is not granted: {who}", key.text);
        reader.error_help(key.at, message, "leave it out");
        return None;
    }
    let errors = reader.errors();
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    // As for a role: its lines may be commented out.
    if !node.is_nothing() {
        let fields = reader.fields(node, "a grant", GRANT)?;
        users = name_refs(reader, &fields, "users", "a user's name");
        groups = name_refs(reader, &fields, "groups", "a group's name");
    }
    if users.is_empty() && groups.is_empty() && reader.errors() == errors {
        let message = format!("`{}` is granted to nobody", key.text);
        reader.warning_help(key.at, Warning::EmptyGrant, message, "add `users` or `groups`");
    }
    Some(UnresolvedGrant { role: key.text.clone(), users, groups, at: reader.place(key.at) })
}
