//! The section `grants`.

use crate::levels::GRANT;
use crate::model::{ANYONE, AUTHENTICATED};
use crate::parse::names::name_refs;
use crate::parse::sections::is_section;
use crate::parse::unresolved::{Missing, UnresolvedGrant, UnresolvedPolicy};
use document::{Fields, Key, Node, Reader, Warning};

/// Reads the grants of one file.
pub(crate) fn read(reader: &mut Reader, node: &Node, policy: &mut UnresolvedPolicy) {
    let entries = reader.entries(node, "`grants`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        if is_section(reader, ("grants", GRANT), (key, node)) {
            policy.missing = Missing::ALL;
            continue;
        }
        match grant(reader, key, node) {
            Some(grant) => policy.grants.push(grant),
            None => policy.missing.grants = true,
        }
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
