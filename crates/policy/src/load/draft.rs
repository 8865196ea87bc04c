//! A policy as written in its files, before names are resolved.

use std::sync::Arc;

use crate::load::rule;
use crate::model::{ANYONE, AUTHENTICATED, AllowResponse, DenyResponse, Identity, Rule};
use crate::problem::Place;
use crate::report::{Fields, Report, Text};
use crate::yaml::{Key, Mark, Node};

/// The contents of all files of a policy.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) roles: Vec<RoleDraft>,
    pub(crate) grants: Vec<GrantDraft>,
    pub(crate) identity: Option<(Place, Identity)>,
    pub(crate) allow_response: Option<(Place, AllowResponse)>,
    pub(crate) deny_response: Option<(Place, DenyResponse)>,
    /// What may be missing here because it could not be read.
    pub(crate) missing: Missing,
}

/// What may be missing because something could not be read. Checks that need all of it are then skipped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missing {
    /// Whole roles.
    pub(crate) roles: bool,
    /// Whole grants.
    pub(crate) grants: bool,
    /// Rules of roles.
    pub(crate) rules: bool,
    /// Users, issuers and their settings.
    pub(crate) identity: bool,
}

/// A role whose references are still names.
#[derive(Debug)]
pub(crate) struct RoleDraft {
    pub(crate) name: Arc<str>,
    pub(crate) extends: Vec<Named>,
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) at: Place,
}

/// A grant whose role is still a name.
#[derive(Debug)]
pub(crate) struct GrantDraft {
    pub(crate) role: Arc<str>,
    pub(crate) users: Vec<Named>,
    pub(crate) groups: Vec<Named>,
    pub(crate) at: Place,
}

/// A name, and its place in the file of the item it belongs to.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    pub(crate) at: Mark,
}

/// Reads the roles of one file.
pub(crate) fn roles(report: &mut Report, node: &Node, draft: &mut Draft) {
    let entries = report.entries(node, "`roles`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let errors = report.errors();
        let _ = rule::is_name(report, key.at, &key.text, "a role's name") && is_listable(report, key);
        let role = role(report, key, node);
        draft.roles.push(role);
        draft.missing.rules |= report.errors() > errors;
    }
}

/// Reports a role name with a comma, because headers join role names with commas.
fn is_listable(report: &mut Report, key: &Key) -> bool {
    let listable = !key.text.contains(',');
    if !listable {
        report.error_help(key.at, "a role's name has a comma in it", "write `-` instead");
    }
    listable
}

fn role(report: &mut Report, key: &Key, node: &Node) -> RoleDraft {
    let errors = report.errors();
    let mut role = RoleDraft {
        name: key.text.clone(),
        extends: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        at: report.place(key.at),
    };
    let known = ["extends", "allow", "deny"];
    if !node.is_nothing()
        && let Some(fields) = report.fields(node, "a role", &known)
    {
        role.extends = named(report, &fields, "extends", "the name of a role");
        role.allow = rules(report, &fields, "allow");
        role.deny = rules(report, &fields, "deny");
    }
    if role.extends.is_empty() && role.allow.is_empty() && role.deny.is_empty() && report.errors() == errors {
        let message = format!("the role `{}` says nothing", key.text);
        report.warning_help(key.at, message, "add `allow`, `deny` or `extends`");
    }
    role
}

fn rules(report: &mut Report, fields: &Fields<'_>, key: &str) -> Vec<Rule> {
    let items = fields.value(key).and_then(|node| report.list(node, &format!("`{key}`")));
    items.unwrap_or_default().iter().filter_map(|node| rule::read(report, node)).collect()
}

/// Reads the grants of one file.
pub(crate) fn grants(report: &mut Report, node: &Node, draft: &mut Draft) {
    let entries = report.entries(node, "`grants`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        match grant(report, key, node) {
            Some(grant) => draft.grants.push(grant),
            None => draft.missing.grants = true,
        }
    }
}

fn grant(report: &mut Report, key: &Key, node: &Node) -> Option<GrantDraft> {
    let reserved = match &*key.text {
        ANYONE => Some("every caller has it"),
        AUTHENTICATED => Some("every authenticated caller has it"),
        _ => None,
    };
    if let Some(who) = reserved {
        let message = format!("the reserved role `{}` is not granted: {who}", key.text);
        report.error_help(key.at, message, "leave it out");
        return None;
    }
    let fields = report.fields(node, "a grant", &["users", "groups"])?;
    let errors = report.errors();
    let users = named(report, &fields, "users", "a user's name");
    let groups = named(report, &fields, "groups", "a group's name");
    if users.is_empty() && groups.is_empty() && report.errors() == errors {
        let message = format!("`{}` is granted to nobody", key.text);
        report.warning_help(key.at, message, "add `users` or `groups`");
    }
    Some(GrantDraft { role: key.text.clone(), users, groups, at: report.place(key.at) })
}

/// A list of names with their places.
fn named(report: &mut Report, fields: &Fields<'_>, key: &str, item: &str) -> Vec<Named> {
    let Some(node) = fields.value(key) else { return Vec::new() };
    let texts: Vec<(Text<'_>, &Arc<str>)> = report.texts(node, &format!("`{key}`"), item);
    report.warn_of_repetition(&texts);
    let mut names = Vec::with_capacity(texts.len());
    for (text, name) in texts {
        if rule::is_name(report, text.at, text.text, item) {
            names.push(Named { name: name.clone(), at: text.at });
        }
    }
    names
}
