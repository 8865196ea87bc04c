//! Reads `roles.yml`, `roles_mapping.yml`, `action_groups.yml` and `tenants.yml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use document::{Fields, Key, Node, Place, Problem, Reader, Severity, Text, Warning};

use super::read::{fields, flag, names, pattern, patterns, read_entries, texts};
use super::{
    IndexPattern, IndexPermission, Loader, Role, RoleMapping, SecurityConfig, Template,
    TenantPermission,
};
use crate::groups::ActionGroups;

const ROLE: &[&str] = &["cluster_permissions", "index_permissions", "tenant_permissions"];
const INDEX_PERMISSION: &[&str] =
    &["index_patterns", "dls", "fls", "masked_fields", "allowed_actions"];

/// The roles and action groups that every OpenSearch has, whatever its files say.
static BUILTIN: LazyLock<SecurityConfig> = LazyLock::new(|| {
    let mut reader = Reader::new(Path::new("builtin.yml").into());
    read_builtin(&mut reader, include_bytes!("builtin.yml"))
});

/// Whether every cluster has this role.
#[must_use]
pub fn is_builtin_role(name: &str) -> bool {
    BUILTIN.roles.contains_key(name)
}

pub(super) fn load(loader: &mut Loader<'_>, config: &mut SecurityConfig) -> FileDefinitions {
    let mut places = Vec::new();
    config.action_groups = action_groups(loader);
    let (roles, groups) = (&mut config.roles, &config.action_groups);
    let is_there = read_entries(loader, "roles.yml", "roles", |reader, entries| {
        for (key, node) in entries {
            if let Some((role, is_own)) = role(reader, key, node, groups) {
                places.extend(is_own.then(|| (key.text.clone(), reader.place(key.at))));
                roles.insert(key.text.clone(), role);
            }
        }
    });
    if !is_there {
        let at = Place::start_of(loader.folder);
        loader.problems.push(Problem::error(at, "the folder has no `roles.yml`"));
    }
    // With errors in the file, a role may only seem to be missing.
    let roles_are_known =
        is_there && !loader.problems.iter().any(|problem| problem.severity == Severity::Error);
    // They replace roles of the same name, as in OpenSearch.
    config.roles.extend(BUILTIN.roles.clone());
    let (roles, mappings) = (&config.roles, &mut config.mappings);
    let has_mapping =
        read_entries(loader, "roles_mapping.yml", "rolesmapping", |reader, entries| {
            for (key, node) in entries {
                mappings.extend(mapping(reader, key, node));
                if roles_are_known {
                    warn_of_unknown_role(reader, Text::of_key(key), roles, "remove the mapping");
                }
            }
        });
    let tenants = &mut config.tenants;
    read_entries(loader, "tenants.yml", "tenants", |reader, entries| {
        let is_tenant =
            |(_, node): &&(&Key, &Node)| fields(reader, node, "a tenant", &[]).is_some();
        tenants.extend(entries.iter().filter(is_tenant).map(|(key, _)| key.text.clone()));
    });
    FileDefinitions { roles: places, has_mapping, roles_are_known }
}

/// Warns of a role that does not exist. It permits nothing, though the plugin gives it to callers.
pub(super) fn warn_of_unknown_role(
    reader: &mut Reader,
    name: Text<'_>,
    roles: &BTreeMap<Arc<str>, Role>,
    otherwise: &str,
) {
    if roles.contains_key(name.text) {
        return;
    }
    let close = reader.closest(name.text, roles.keys().map(|name| &**name));
    let help = close.map_or(otherwise.to_owned(), |close| format!("did you mean `{close}`?"));
    reader.warning_help(
        name.at,
        Warning::UnknownName,
        format!("there is no role `{}`", name.text),
        help,
    );
}

/// The definitions of the files.
pub(super) struct FileDefinitions {
    /// Roles for callers to have, with their places.
    roles: Vec<(Arc<str>, Place)>,
    /// Whether there is a `roles_mapping.yml`.
    has_mapping: bool,
    /// Whether a role that is not there does not exist.
    pub(super) roles_are_known: bool,
}

/// Warns of roles that nobody has.
pub(super) fn unused(
    defined: FileDefinitions,
    folder: &Path,
    config: &SecurityConfig,
    problems: &mut Vec<Problem>,
) {
    if !defined.has_mapping {
        let at = Place::start_of(&folder.join("roles.yml"));
        let message =
            "the folder has no `roles_mapping.yml`: only users that name their own roles have any";
        problems.push(Problem::warning(at, Warning::UnusedRole, message).help("add it"));
        return;
    }
    let has_someone = |mapping: &&RoleMapping| {
        let RoleMapping { role: _, users, backend_roles, and_backend_roles, hosts } = mapping;
        [users, backend_roles, and_backend_roles, hosts].iter().any(|patterns| !patterns.is_empty())
    };
    let mapped = config.mappings.iter().filter(has_someone).map(|mapping| &mapping.role);
    let held: BTreeSet<&Arc<str>> =
        mapped.chain(config.users.iter().flat_map(|user| &user.roles)).collect();
    for (role, at) in defined.roles.into_iter().filter(|(role, _)| !held.contains(role)) {
        let message = format!("nobody has the role `{role}`: no role mapping and no user names it");
        let help = "map it in `roles_mapping.yml`, or leave it out";
        problems.push(Problem::warning(at, Warning::UnusedRole, message).help(help));
    }
}

/// Reads the built-in roles and action groups. They must be marked `static`.
fn read_builtin(reader: &mut Reader, bytes: &[u8]) -> SecurityConfig {
    let mut config = SecurityConfig::default();
    let Some(root) = reader.parse(bytes) else { return config };
    let Some(sections) = reader.entries(&root, "the file") else { return config };
    let mut groups = BTreeMap::new();
    let section =
        sections.value("action_groups").and_then(|node| reader.entries(node, "`action_groups`"));
    for (key, node) in section.iter().flat_map(Fields::iter) {
        let members = reader.texts(node, "an action group", "each of its members");
        groups
            .insert(key.text.clone(), members.iter().map(|member| member.shared.clone()).collect());
    }
    config.action_groups = ActionGroups::new(groups);
    let section = sections.value("roles").and_then(|node| reader.entries(node, "`roles`"));
    for (key, node) in section.iter().flat_map(Fields::iter) {
        let role = role(reader, key, node, &config.action_groups).map(|(role, _)| role);
        config.roles.extend(role.map(|role| (key.text.clone(), role)));
    }
    config
}

fn action_groups(loader: &mut Loader<'_>) -> ActionGroups {
    let mut groups = BUILTIN.action_groups.clone();
    read_entries(loader, "action_groups.yml", "actiongroups", |reader, entries| {
        let mut read = Vec::new();
        for (key, node) in entries {
            let known = &["allowed_actions", "type"];
            let Some(fields) = fields(reader, node, "an action group", known) else { continue };
            let members = texts(reader, &fields, "allowed_actions");
            action_patterns(reader, &members);
            let is_builtin = BUILTIN.action_groups.contains(&key.text);
            warn_of_builtin(reader, key, &fields, is_builtin, "action group");
            if !is_builtin {
                read.push(Group { name: &key.text, members });
            }
        }
        let members =
            |group: &Group<'_>| group.members.iter().map(|(_, text)| Arc::clone(text)).collect();
        let own = read.iter().map(|group| (group.name.clone(), members(group)));
        groups = ActionGroups::new(own.collect());
        groups.extend(&BUILTIN.action_groups);
        read.iter().for_each(|group| warn_of_unknown(reader, &group.members, &groups));
        warn_of_circles(reader, &read, &groups);
    });
    groups
}

/// An action group of the file.
struct Group<'n> {
    name: &'n Arc<str>,
    members: Vec<(Text<'n>, &'n Arc<str>)>,
}

/// Warns of groups that contain themselves. The plugin accepts them: all have the same actions.
fn warn_of_circles(reader: &mut Reader, read: &[Group<'_>], groups: &ActionGroups) {
    for Group { name, members, .. } in
        read.iter().filter(|group| groups.has_member(group.name, group.name))
    {
        let leads_back = |member: &str| *member == ***name || groups.has_member(member, name);
        let Some((member, _)) = members.iter().find(|(text, _)| leads_back(text.text)) else {
            continue;
        };
        let through = match *member.text == ***name {
            true => String::new(),
            false => format!(" by way of `{}`: both have the same actions", member.text),
        };
        let message = format!("the action group `{name}` contains itself{through}");
        reader.warning_help(member.at, Warning::CircularGroup, message, "leave it out");
    }
}

/// A role, and whether it is neither built in nor marked as one of an exported configuration.
fn role(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    groups: &ActionGroups,
) -> Option<(Role, bool)> {
    let role_fields = fields(reader, node, "a role of the cluster", ROLE)?;
    let is_marked =
        ["reserved", "hidden", "static"].iter().any(|mark| flag(reader, &role_fields, mark));
    let is_builtin = !flag(reader, &role_fields, "static") && is_builtin_role(&key.text);
    warn_of_builtin(reader, key, &role_fields, is_builtin, "role");
    let mut role = Role {
        cluster_permissions: actions(reader, &role_fields, "cluster_permissions", groups),
        ..Role::default()
    };
    for node in list(reader, &role_fields, "index_permissions") {
        role.index_permissions.extend(index_permission(reader, node, groups));
    }
    for node in list(reader, &role_fields, "tenant_permissions") {
        let known = ["tenant_patterns", "allowed_actions"];
        if let Some(fields) = reader.fields(node, "each of `tenant_permissions`", &known) {
            let patterns = names(reader, &fields, "tenant_patterns");
            let allowed_actions = actions(reader, &fields, "allowed_actions", groups);
            role.tenant_permissions.push(TenantPermission { patterns, allowed_actions });
        }
    }
    Some((role, !is_marked && !is_builtin))
}

fn list<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> &'n [Node] {
    fields.value(key).and_then(|node| reader.list(node, &format!("`{key}`"))).unwrap_or_default()
}

fn index_permission(
    reader: &mut Reader,
    node: &Node,
    groups: &ActionGroups,
) -> Option<IndexPermission> {
    let fields = reader.fields(node, "each of `index_permissions`", INDEX_PERMISSION)?;
    let patterns = texts(reader, &fields, "index_patterns");
    let patterns =
        patterns.into_iter().filter_map(|(text, shared)| index_pattern(reader, text, shared));
    Some(IndexPermission {
        patterns: patterns.collect(),
        document_query: document_query(reader, &fields),
        fields: names(reader, &fields, "fls").into_iter().map(hidden_field).collect(),
        masked_fields: names(reader, &fields, "masked_fields"),
        allowed_actions: actions(reader, &fields, "allowed_actions", groups),
    })
}

/// The plugin reads `!field` as `~field`: the field is hidden.
fn hidden_field(field: Arc<str>) -> Arc<str> {
    field.strip_prefix('!').map_or_else(|| field.clone(), |name| format!("~{name}").into())
}

fn index_pattern(reader: &mut Reader, text: Text<'_>, shared: &Arc<str>) -> Option<IndexPattern> {
    if text.text.starts_with('<') && text.text.ends_with('>') {
        reader.error(
            text.at,
            "date math in `index_patterns` is not supported: write a pattern such as `logs-*`",
        );
        return None;
    }
    if !Template::is_template(text.text) {
        return pattern(reader, text, shared).map(IndexPattern::Static);
    }
    if text.text.starts_with('/') {
        reader.error(text.at, "variables in a regular expression are not supported");
        return None;
    }
    template(reader, text, shared).map(IndexPattern::Template)
}

fn template(reader: &mut Reader, text: Text<'_>, shared: &Arc<str>) -> Option<Template> {
    match Template::parse(shared) {
        Ok(template) => {
            for (offset, name) in template.unknown_variables() {
                let at = text.locate(text.text.get(offset..).unwrap_or(text.text));
                let message =
                    format!("no caller has the variable `{name}`, so this matches nothing");
                let help = "variables are `user.name`, `user.roles`, `user.securityRoles`, `attr.internal.NAME` of \
                            `internal_users.yml`, and `attr.jwt.NAME` of tokens";
                reader.warning_help(at, Warning::UnknownName, message, help);
            }
            Some(template)
        }
        Err((offset, message)) => {
            let at = text.locate(text.text.get(offset..).unwrap_or(text.text));
            reader.error(at, message);
            None
        }
    }
}

/// The query of document level security. OpenSearch hides every document if it is no JSON.
fn document_query(reader: &mut Reader, fields: &Fields<'_>) -> Option<Template> {
    let text = reader.field_text(fields, "dls")?;
    if text.text.trim().is_empty() {
        return None;
    }
    let template = template(reader, text, text.shared)?;
    let is_json =
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text.text).is_ok();
    if !Template::is_template(text.text) && !is_json {
        reader.error_help(text.at, "`dls` must be a query in JSON", "write `'{\"term\": { … }}'`");
    }
    Some(template)
}

/// Actions and action groups.
fn actions(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    groups: &ActionGroups,
) -> Vec<Arc<str>> {
    let actions = texts(reader, fields, key);
    action_patterns(reader, &actions);
    warn_of_unknown(reader, &actions, groups);
    actions.into_iter().map(|(_, action)| action.clone()).collect()
}

/// Warns of a name that is neither an action nor an action group. The plugin takes it for an
/// action, which no request performs.
fn warn_of_unknown(reader: &mut Reader, actions: &[(Text<'_>, &Arc<str>)], groups: &ActionGroups) {
    for (text, _) in actions {
        let is_action = text.text.contains([':', '*', '?', '/']);
        if !is_action && !groups.contains(text.text) {
            let close = reader.closest(text.text, groups.names());
            let help = close
                .map_or("actions look like `indices:data/read/search`".to_owned(), |close| {
                    format!("did you mean `{close}`?")
                });
            let message = format!("there is no action group `{}`", text.text);
            reader.warning_help(text.at, Warning::UnknownName, message, help);
        }
    }
}

/// Reports patterns of actions that are not supported.
fn action_patterns(reader: &mut Reader, actions: &[(Text<'_>, &Arc<str>)]) {
    for (text, shared) in actions {
        pattern(reader, *text, shared);
    }
}

fn mapping(reader: &mut Reader, key: &Key, node: &Node) -> Option<RoleMapping> {
    let known = ["users", "backend_roles", "and_backend_roles", "hosts"];
    let fields = fields(reader, node, "a role mapping", &known)?;
    Some(RoleMapping {
        role: key.text.clone(),
        users: patterns(reader, &fields, "users"),
        backend_roles: patterns(reader, &fields, "backend_roles"),
        and_backend_roles: patterns(reader, &fields, "and_backend_roles"),
        hosts: patterns(reader, &fields, "hosts"),
    })
}

/// An entry with a built-in name is not used; an exported configuration has them, marked `static`.
fn warn_of_builtin(
    reader: &mut Reader,
    key: &Key,
    fields: &Fields<'_>,
    is_builtin: bool,
    what: &str,
) {
    if is_builtin && !flag(reader, fields, "static") {
        let message = format!("`{}` is a built-in {what}: this definition is not used", key.text);
        reader.warning_help(key.at, Warning::Duplicate, message, "use another name");
    }
}

#[cfg(test)]
mod tests;
