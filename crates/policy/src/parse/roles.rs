//! The sections `roles` and `grants`.

use crate::model::{ANYONE, AUTHENTICATED};
use crate::parse::unresolved::{UnresolvedGrant, UnresolvedPolicy, UnresolvedRole, UnresolvedRule};
use crate::parse::values::{is_name, name_refs, user_id_from};
use crate::parse::{conditions, rule};
use document::{Fields, Key, Node, Reader, Warning};

pub(crate) fn read(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`roles`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        // Headers join the names of roles with commas.
        if is_name(reader, key.at, &key.text, "a role's name") && key.text.contains(',') {
            reader.error_help(key.at, "a role's name has a comma in it", "write `-` instead");
        }
        policy.roles.push(read_role(reader, key, node));
    }
}

fn read_role(reader: &mut Reader, key: &Key, node: &Node) -> UnresolvedRole {
    let errors = reader.errors();
    let mut role = UnresolvedRole {
        name: key.text.clone(),
        extends: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        user_id_from: None,
        when: None,
        at: reader.place(key.at),
    };
    if !node.is_nothing()
        && let Some(fields) =
            reader.fields(node, "a role", &["extends", "allow", "deny", "user_id_from", "when"])
    {
        role.extends = name_refs(reader, &fields, "extends", "the name of a role");
        role.allow = read_rules(reader, &fields, "allow");
        role.deny = read_rules(reader, &fields, "deny");
        role.user_id_from = user_id_from(reader, &fields);
        role.when = conditions::read_when(reader, &fields);
    }
    if role.extends.is_empty()
        && role.allow.is_empty()
        && role.deny.is_empty()
        && reader.errors() == errors
    {
        let message = format!("the role `{}` says nothing", key.text);
        let help = "add `allow`, `deny` or `extends`";
        reader.warning_help(key.at, Warning::EmptyRole, message, help);
    }
    role
}

fn read_rules(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<UnresolvedRule> {
    let items = fields.value(key).and_then(|node| reader.list(node, &format!("`{key}`")));
    items.unwrap_or_default().iter().filter_map(|node| rule::read(reader, node)).collect()
}

pub(crate) fn read_grants(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`grants`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        policy.grants.extend(read_grant(reader, key, node));
    }
}

fn read_grant(reader: &mut Reader, key: &Key, node: &Node) -> Option<UnresolvedGrant> {
    let reserved = match &*key.text {
        ANYONE => Some("every caller has it"),
        AUTHENTICATED => Some("every authenticated caller has it"),
        _ => None,
    };
    if let Some(who) = reserved {
        let message = format!("the reserved role `{}` is not granted: {who}", key.text);
        return reader.reject(key.at, message, "leave it out");
    }
    let errors = reader.errors();
    let (mut users, mut groups, mut when) = (Vec::new(), Vec::new(), None);
    // All lines of a grant may be commented out, so an empty grant is no error.
    if !node.is_nothing() {
        let fields = reader.fields(node, "a grant", &["users", "groups", "when"])?;
        users = name_refs(reader, &fields, "users", "a user's name");
        groups = name_refs(reader, &fields, "groups", "a group's name");
        when = conditions::read_when(reader, &fields);
    }
    if users.is_empty() && groups.is_empty() && reader.errors() == errors {
        let message = format!("`{}` is granted to nobody", key.text);
        reader.warning_help(key.at, Warning::EmptyGrant, message, "add `users` or `groups`");
    }
    Some(UnresolvedGrant { role: key.text.clone(), users, groups, when, at: reader.place(key.at) })
}
