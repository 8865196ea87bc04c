//! Reads `roles.yml`, `roles_mapping.yml`, `action_groups.yml` and `tenants.yml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use document::{Fields, Key, Mark, Node, Place, Problem, Reader, Severity, Text, Warning};

use super::read::{
    INDEX_PERMISSION, ROLE, fields, flag, names, pattern, patterns, read_entries, texts,
};
use super::{
    IndexPattern, IndexPermission, Loader, Role, RoleMapping, SecurityConfig, Template,
    TenantPermission,
};
use crate::date_math::is_date_math;
use crate::groups::ActionGroups;

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

/// Facts about the role files that warnings depend on.
pub(super) struct FileFacts {
    /// Roles that are meant for callers, with their places.
    roles: Vec<(Arc<str>, Place)>,
    has_mapping: bool,
    /// Whether all roles could be read. Otherwise a role that seems to be missing may exist.
    pub(super) has_all_roles: bool,
}

pub(super) fn load(loader: &mut Loader<'_>, config: &mut SecurityConfig) -> FileFacts {
    let mut places = Vec::new();
    config.action_groups = action_groups(loader);
    let (roles, groups) = (&mut config.roles, &config.action_groups);
    let has_roles_file = read_entries(loader, "roles.yml", "roles", |reader, entries| {
        for (key, node) in entries {
            if let Some((role, is_for_callers)) = role(reader, key, node, groups) {
                places.extend(is_for_callers.then(|| (key.text.clone(), reader.place(key.at))));
                roles.insert(key.text.clone(), role);
            }
        }
    });
    if !has_roles_file {
        let at = Place::start_of(loader.folder);
        loader.problems.push(Problem::error(at, "the folder has no `roles.yml`"));
    }
    let has_all_roles = !loader.problems.iter().any(|problem| problem.severity == Severity::Error);
    // The built-in roles replace roles of the same name, as in OpenSearch.
    config.roles.extend(BUILTIN.roles.clone());
    let (roles, mappings) = (&config.roles, &mut config.mappings);
    let has_mapping =
        read_entries(loader, "roles_mapping.yml", "rolesmapping", |reader, entries| {
            for (key, node) in entries {
                mappings.extend(mapping(reader, key, node));
                if has_all_roles {
                    warn_of_unknown_role(reader, Text::from_key(key), roles, "remove the mapping");
                }
            }
        });
    let tenants = &mut config.tenants;
    read_entries(loader, "tenants.yml", "tenants", |reader, entries| {
        for (key, node) in entries {
            tenants.extend(fields(reader, node, "a tenant", &[]).map(|_| key.text.clone()));
        }
    });
    FileFacts { roles: places, has_mapping, has_all_roles }
}

/// Warns of a role that does not exist. The plugin gives it to callers, but it permits nothing.
pub(super) fn warn_of_unknown_role(
    reader: &mut Reader,
    name: Text<'_>,
    roles: &BTreeMap<Arc<str>, Role>,
    fallback_help: &str,
) {
    if !roles.contains_key(name.text) {
        let close = reader.closest(name.text, roles.keys().map(|name| &**name));
        warn_of_unknown_name(reader, name, "role", close, fallback_help);
    }
}

fn warn_of_unknown_name(
    reader: &mut Reader,
    name: Text<'_>,
    kind: &str,
    close: Option<&str>,
    fallback_help: &str,
) {
    let help = close.map_or(fallback_help.to_owned(), |close| format!("did you mean `{close}`?"));
    let message = format!("there is no {kind} `{}`", name.text);
    reader.warning_help(name.at, Warning::UnknownName, message, help);
}

pub(super) fn warn_of_unused_roles(
    facts: FileFacts,
    folder: &Path,
    config: &SecurityConfig,
    problems: &mut Vec<Problem>,
) {
    if !facts.has_mapping {
        let at = Place::start_of(&folder.join("roles.yml"));
        let message = "the folder has no `roles_mapping.yml`: only users that name their own roles \
                       have any";
        problems.push(Problem::warning(at, Warning::UnusedRole, message).help("add it"));
        return;
    }
    let mappings = config.mappings.iter().filter(|mapping| !mapping.is_empty());
    let used: BTreeSet<&Arc<str>> = mappings
        .map(|mapping| &mapping.role)
        .chain(config.users.iter().flat_map(|user| &user.roles))
        .collect();
    for (role, at) in facts.roles.into_iter().filter(|(role, _)| !used.contains(role)) {
        let message = format!("nobody has the role `{role}`: no role mapping and no user names it");
        let help = "map it in `roles_mapping.yml`, or leave it out";
        problems.push(Problem::warning(at, Warning::UnusedRole, message).help(help));
    }
}

/// Reads the built-in roles and action groups.
///
/// This makes [`BUILTIN`], so nothing here may read [`BUILTIN`]. [`role`] reads it for each role
/// that is not marked `static`. So all built-in roles are marked `static`.
fn read_builtin(reader: &mut Reader, bytes: &[u8]) -> SecurityConfig {
    let mut config = SecurityConfig::default();
    let Some(root) = reader.parse(bytes) else { return config };
    let Some(sections) = reader.entries(&root, "the file") else { return config };
    let mut groups = BTreeMap::new();
    for (key, node) in section(reader, &sections, "action_groups") {
        let members = reader.texts(node, "an action group", "each of its members");
        let members = members.iter().map(|member| member.shared.clone()).collect();
        groups.insert(key.text.clone(), members);
    }
    config.action_groups = ActionGroups::new(groups);
    for (key, node) in section(reader, &sections, "roles") {
        let role = role(reader, key, node, &config.action_groups);
        config.roles.extend(role.map(|(role, _)| (key.text.clone(), role)));
    }
    config
}

fn section<'n>(
    reader: &mut Reader,
    sections: &Fields<'n>,
    name: &str,
) -> impl Iterator<Item = (&'n Key, &'n Node)> + use<'n> {
    let entries = sections.value(name).and_then(|node| reader.entries(node, name));
    entries.into_iter().flat_map(|entries| entries.iter())
}

fn action_groups(loader: &mut Loader<'_>) -> ActionGroups {
    let mut groups = BUILTIN.action_groups.clone();
    read_entries(loader, "action_groups.yml", "actiongroups", |reader, entries| {
        let mut members_by_group = Vec::new();
        for (key, node) in entries {
            let keys = &["allowed_actions", "type"];
            let Some(fields) = fields(reader, node, "an action group", keys) else { continue };
            let members = texts(reader, &fields, "allowed_actions");
            check_action_patterns(reader, &members);
            match BUILTIN.action_groups.contains(&key.text) {
                true if flag(reader, &fields, "static") => {}
                true => warn_of_builtin(reader, key, "action group"),
                false => members_by_group.push((&key.text, members)),
            }
        }
        let named = members_by_group.iter().map(|(name, members)| {
            (Arc::clone(name), members.iter().map(|member| member.shared.clone()).collect())
        });
        groups = ActionGroups::new(named.collect());
        groups.extend(&BUILTIN.action_groups);
        for (_, members) in &members_by_group {
            warn_of_unknown_actions(reader, members, &groups);
        }
        for (name, members) in &members_by_group {
            warn_of_circle(reader, name, members, &groups);
        }
    });
    groups
}

/// Warns of a group that contains itself. The plugin accepts it: all groups of the circle have the
/// same actions.
fn warn_of_circle(reader: &mut Reader, name: &str, members: &[Text<'_>], groups: &ActionGroups) {
    let mut members = members.iter();
    let Some(member) =
        members.find(|member| member.text == name || groups.has_member(member.text, name))
    else {
        return;
    };
    let mut message = format!("the action group `{name}` contains itself");
    if member.text != name {
        message += &format!(" by way of `{}`: both have the same actions", member.text);
    }
    let help = format!("leave out the member `{}`", member.text);
    reader.warning_help(member.at, Warning::CircularGroup, message, help);
}

/// A role, and whether it is meant for callers: it is not built in, and not marked `static`,
/// `reserved` or `hidden`. The roles that come with OpenSearch have these marks.
fn role(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    groups: &ActionGroups,
) -> Option<(Role, bool)> {
    let keys = ["cluster_permissions", "index_permissions", "tenant_permissions"];
    let role_fields = fields(reader, node, ROLE, &keys)?;
    let is_static = flag(reader, &role_fields, "static");
    let is_marked =
        is_static || ["reserved", "hidden"].iter().any(|mark| flag(reader, &role_fields, mark));
    let redefines_builtin = !is_static && is_builtin_role(&key.text);
    if redefines_builtin {
        warn_of_builtin(reader, key, "role");
    }
    let mut role = Role {
        cluster_permissions: actions(reader, &role_fields, "cluster_permissions", groups),
        ..Role::default()
    };
    for node in list(reader, &role_fields, "index_permissions") {
        role.index_permissions.extend(index_permission(reader, node, groups));
    }
    for node in list(reader, &role_fields, "tenant_permissions") {
        let keys = ["tenant_patterns", "allowed_actions"];
        if let Some(fields) = reader.fields(node, "each of `tenant_permissions`", &keys) {
            let patterns = names(reader, &fields, "tenant_patterns");
            let allowed_actions = actions(reader, &fields, "allowed_actions", groups);
            role.tenant_permissions.push(TenantPermission { patterns, allowed_actions });
        }
    }
    Some((role, !is_marked && !redefines_builtin))
}

fn list<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> &'n [Node] {
    fields.value(key).and_then(|node| reader.list(node, &format!("`{key}`"))).unwrap_or_default()
}

fn index_permission(
    reader: &mut Reader,
    node: &Node,
    groups: &ActionGroups,
) -> Option<IndexPermission> {
    let keys = ["index_patterns", "dls", "fls", "masked_fields", "allowed_actions"];
    let fields = reader.fields(node, INDEX_PERMISSION, &keys)?;
    let patterns = texts(reader, &fields, "index_patterns");
    Some(IndexPermission {
        patterns: patterns.into_iter().filter_map(|text| index_pattern(reader, text)).collect(),
        document_query: document_query(reader, &fields),
        fields: names(reader, &fields, "fls").into_iter().map(normalize_field).collect(),
        masked_fields: names(reader, &fields, "masked_fields"),
        allowed_actions: actions(reader, &fields, "allowed_actions", groups),
    })
}

/// Writes a hidden field as `~field`. To the plugin, `!field` means the same.
fn normalize_field(field: Arc<str>) -> Arc<str> {
    field.strip_prefix('!').map_or_else(|| field.clone(), |name| format!("~{name}").into())
}

fn index_pattern(reader: &mut Reader, text: Text<'_>) -> Option<IndexPattern> {
    if is_date_math(text.text) {
        let message =
            "date math in `index_patterns` is not supported: write a pattern such as `logs-*`";
        reader.error(text.at, message);
        None
    } else if !Template::is_template(text.text) {
        pattern(reader, text).map(IndexPattern::Static)
    } else if text.text.starts_with('/') {
        reader.error(text.at, "variables in a regular expression are not supported");
        None
    } else {
        template(reader, text).map(IndexPattern::Template)
    }
}

fn template(reader: &mut Reader, text: Text<'_>) -> Option<Template> {
    let template = match Template::parse(text.shared) {
        Ok(template) => template,
        Err((offset, message)) => {
            reader.error(place_in(text, offset), message);
            return None;
        }
    };
    for (offset, name) in template.unknown_variables() {
        let message = format!("no caller has the variable `{name}`, so this matches nothing");
        let help = "variables are `user.name`, `user.roles`, `user.securityRoles`, \
                    `attr.internal.NAME` of `internal_users.yml`, and `attr.jwt.NAME` of tokens";
        reader.warning_help(place_in(text, offset), Warning::UnknownName, message, help);
    }
    Some(template)
}

fn place_in(text: Text<'_>, offset: usize) -> Mark {
    text.locate(text.text.get(offset..).unwrap_or(text.text))
}

/// The query of document level security. If the query is not JSON, OpenSearch hides every document.
fn document_query(reader: &mut Reader, fields: &Fields<'_>) -> Option<Template> {
    let text = reader.field_text(fields, "dls").filter(|text| !text.text.trim().is_empty())?;
    let template = template(reader, text)?;
    if !Template::is_template(text.text)
        && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text.text).is_err()
    {
        reader.error_help(text.at, "`dls` must be a query in JSON", "write `'{\"term\": { … }}'`");
    }
    Some(template)
}

fn actions(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    groups: &ActionGroups,
) -> Vec<Arc<str>> {
    let actions = texts(reader, fields, key);
    check_action_patterns(reader, &actions);
    warn_of_unknown_actions(reader, &actions, groups);
    actions.into_iter().map(|action| action.shared.clone()).collect()
}

/// Warns of a name that is neither an action nor an action group. The plugin reads it as an action,
/// which no request performs.
fn warn_of_unknown_actions(reader: &mut Reader, actions: &[Text<'_>], groups: &ActionGroups) {
    for action in actions {
        if !action.text.contains([':', '*', '?', '/']) && !groups.contains(action.text) {
            let close = reader.closest(action.text, groups.names());
            let fallback_help = "actions look like `indices:data/read/search`";
            warn_of_unknown_name(reader, *action, "action group", close, fallback_help);
        }
    }
}

/// Reports patterns of actions that are not supported.
fn check_action_patterns(reader: &mut Reader, actions: &[Text<'_>]) {
    for action in actions {
        pattern(reader, *action);
    }
}

fn mapping(reader: &mut Reader, key: &Key, node: &Node) -> Option<RoleMapping> {
    let keys = ["users", "backend_roles", "and_backend_roles", "hosts"];
    let fields = fields(reader, node, "a role mapping", &keys)?;
    let [users, backend_roles, and_backend_roles, hosts] =
        keys.map(|key| patterns(reader, &fields, key));
    Some(RoleMapping { role: key.text.clone(), users, backend_roles, and_backend_roles, hosts })
}

/// Warns of a role or action group that has the name of a built-in one: this entry is not used. In
/// an exported configuration, such entries are marked `static` and need no warning.
fn warn_of_builtin(reader: &mut Reader, key: &Key, kind: &str) {
    let message = format!("`{}` is a built-in {kind}: this definition is not used", key.text);
    reader.warning_help(key.at, Warning::Duplicate, message, "use another name");
}

#[cfg(test)]
mod tests;
